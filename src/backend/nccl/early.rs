//! A process before its ranks are connected: libraries loaded, GPUs chosen, contexts open.

use std::time::{Duration, Instant};

use super::device::{self, Place, Request, choose_devices};
use super::ffi::{self, Cuda};
use super::{Nccl, Options, config, library};
use crate::backend::{Device, Library};
use crate::error::Result;

/// The libraries, and a context on each of the process's GPUs.
pub struct Early {
    pub(super) cuda: &'static Cuda,
    pub(super) api: &'static ffi::Nccl,
    pub(super) places: Vec<Place>,
    pub(super) steps: Steps,
}

/// What was done, in order, and how long it took.
type Steps = Vec<(&'static str, Duration)>;

/// Does a step and notes its duration.
fn step<T>(steps: &mut Steps, name: &'static str, act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = act();
    steps.push((name, start.elapsed()));
    done
}

impl Early {
    /// Loads libcuda and libnccl, chooses the GPUs, and opens their contexts. To be called before `MPI_Init`.
    pub fn open(request: &Request) -> Result<Self> {
        Self::open_from(request, &library::cuda_names())
    }

    /// As `open`, with another libcuda.
    pub(super) fn open_from(request: &Request, cuda_names: &[String]) -> Result<Self> {
        let mut steps = Steps::new();
        let cuda = step(&mut steps, "libcuda and cuInit", || Cuda::load(cuda_names))?;
        let names = library::nccl_names(request.library.as_deref());
        let api = step(&mut steps, "NCCL library", || ffi::Nccl::load(&names))?;
        let indices = choose_devices(cuda.device_count()?, request)?;
        let mine = device::part(request.thread, &indices);
        let driver = step(&mut steps, "driver version (NVML)", || device::driver(cuda))?;
        let places = step(&mut steps, "GPU context", || device::open(cuda, mine, &driver))?;
        Ok(Self { cuda, api, places, steps })
    }

    /// What `open` did, in order, and how long each step took.
    pub fn steps(&self) -> &[(&'static str, Duration)] {
        &self.steps
    }

    /// The GPUs of the local ranks.
    pub fn devices(&self) -> Vec<Device> {
        self.places.iter().map(|place| place.device.clone()).collect()
    }

    /// NCCL, as it was loaded.
    pub fn library(&self) -> Library {
        describe(self.api)
    }

    /// A new id for a communicator: made by one rank, given to all.
    pub fn unique_id(&self) -> Result<[u8; 128]> {
        self.api.unique_id()
    }

    /// Local ranks.
    pub fn locals(&self) -> u32 {
        self.places.len() as u32
    }

    /// Joins the communicator of `ranks` ranks with this process's local ranks as ranks `first_rank..`. Blocks
    /// until all ranks have joined. `id` is the same for all, from [`Early::unique_id`] of one of them.
    pub fn connect(self, id: &[u8], first_rank: u32, ranks: u32, options: &Options) -> Result<Nccl> {
        Nccl::connect(self, id, first_rank, ranks, options)
    }
}

/// NCCL, as it was loaded.
pub(super) fn describe(api: &ffi::Nccl) -> Library {
    let code = api.version();
    Library { name: "NCCL".to_owned(), version: config::version_text(code), code, path: api.path() }
}
