//! The GPUs of this process: chosen and opened before MPI, beside it, or after it.

use std::time::Duration;

#[cfg(feature = "nccl")]
use crate::backend::nccl::{Early, Request};
use crate::cli::Cli;
#[cfg(not(feature = "nccl"))]
use crate::error::Error;
use crate::error::Result;

/// The GPU of this process, opened before MPI; without the `nccl` feature there is none.
#[cfg(feature = "nccl")]
pub(super) type Gpu = Early;
#[cfg(not(feature = "nccl"))]
pub(super) type Gpu = std::convert::Infallible;

/// Chooses and opens this process's GPU.
#[cfg(feature = "nccl")]
pub(super) fn open(cli: &Cli, local_rank: u32, thread: u32) -> Result<Gpu> {
    let (gpus, threads) = (cli.gpus as u32, cli.threads as u32);
    let request = Request::new(local_rank, gpus * threads, |name| std::env::var(name).ok())?;
    Gpu::open(&Request { thread: (thread, threads), ..request })
}

/// Chooses and opens this process's GPU.
#[cfg(not(feature = "nccl"))]
pub(super) fn open(_cli: &Cli, _local_rank: u32, _thread: u32) -> Result<Gpu> {
    Err(Error::Setup(
        "--backend nccl needs a build with the feature 'nccl'; --backend mpi measures host memory".to_owned(),
    ))
}

/// What opening the libraries and GPUs took, in order.
pub(super) fn opening(gpu: &Result<Gpu>) -> &[(&'static str, Duration)] {
    #[cfg(feature = "nccl")]
    return gpu.as_ref().map_or(&[], Gpu::steps);
    #[cfg(not(feature = "nccl"))]
    {
        let _ = gpu;
        &[]
    }
}

/// Whether GPUs may be opened while MPI starts: where the MPI is one that says at any time whether it knows CUDA, and it
/// does not.
pub(super) fn mpi_leaves_gpus_alone() -> bool {
    #[cfg(all(feature = "mpi", feature = "nccl"))]
    return crate::session::mpi::library_version().starts_with("Open MPI 4.")
        && !crate::backend::nccl::mpi_knows_cuda();
    #[cfg(not(all(feature = "mpi", feature = "nccl")))]
    false
}
