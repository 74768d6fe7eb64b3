//! All calls into libcuda and libnccl, and all `unsafe` of this backend. Everything that leaves here is safe: a
//! handle exists only if the library made it, is no copy, and is consumed by the call that destroys it. A handle
//! that is dropped instead is leaked, not destroyed: after a failure the calls that destroy could block.

mod calls;
mod cuda;
mod environment;
mod gate;
mod graph;
mod kernels;
mod load;
mod module;
mod nccl;
mod profiler;
mod register;

pub(super) use cuda::{Address, Buffer, Context, Cuda, Event, Gpu, Stream};
pub(super) use environment::set;
pub(super) use gate::Gate;
pub(super) use graph::Graph;
pub(super) use kernels::Kernels;
pub use load::mpi_knows_cuda;
pub(super) use nccl::{Comm, Lane, Nccl, Reduction};
pub(super) use profiler::{Seen, is_loaded as is_profiler_loaded, offer as offer_profiler, seen_of, watch};
pub(super) use register::Registered;
