//! NCCL on GPUs: the measurement that everything else here exists for.
//!
//! Both libraries are loaded at run time, so one binary runs with NCCL 2.18 to 2.30 and starts without a GPU.
//! All calls into them lie in `ffi`. Nothing here has a `Drop`: after a failure, what would have to be destroyed
//! could block, so it is left to the end of the process; the orderly end is `close`.
//!
//! A process starts with [`Early`], before `MPI_Init`: an MPI library that knows CUDA would otherwise open a
//! context on the first GPU from every rank. [`Early::connect`] follows when all ranks know each other.

mod anchor;
mod check;
mod config;
mod debug;
mod device;
mod early;
mod explain;
mod ffi;
mod hints;
mod library;
mod local;
#[cfg(test)]
mod mode_tests;
mod modes;
mod ops;
mod refusal;
#[cfg(test)]
mod tests;
mod wait;

use std::ffi::c_int;
use std::time::{Duration, Instant};

pub use config::{Options, Register};
pub use debug::{Log, debug_file, listen, redirect_debug};
pub use device::{Request, choose_devices};
pub use early::Early;
pub use explain::offer_profiler;
pub use ffi::mpi_knows_cuda;

use self::early::describe;
use self::ffi::Cuda;
use self::local::{Local, Remains, type_number};
use super::{Anchor, Backend, Caps, Device, Kind, Library, Memory, Remark, Setup, Usage};
use crate::collective::{Native, Ops};
use crate::error::{Error, Result};
use crate::verify::{Arithmetic, Bad, Pattern, Tally};
use crate::vocab::{Content, Dtype, RedOp, Slot};

/// The local ranks of one process, and the communicator that they share with all others.
pub struct Nccl {
    cuda: &'static Cuda,
    api: &'static ffi::Nccl,
    locals: Vec<Local>,
    /// What is left of them without the communicator.
    remains: Vec<Remains>,
    /// Index of the selected local rank; always one of `locals`.
    selected: usize,
    first_rank: u32,
    ranks: u32,
    /// NCCL's number of the element type.
    dtype: c_int,
    /// Bytes of an element.
    element: u64,
    /// Bytes by which every slot is moved.
    shift: u64,
    /// An operation failed or did not end: communicators can only be aborted.
    failed: bool,
    /// The one call that is used instead of sends and receives.
    native: Option<Native>,
    /// As the first communicator was made.
    options: Options,
    /// What the buffers are registered as.
    register: Register,
    /// All work goes to the null stream, which is the current context's.
    null_stream: bool,
    /// With `-M`, each local rank's free memory before and after the communicator, and after the buffers.
    free: [Vec<u64>; 3],
    remarks: Vec<Remark>,
    origin: Instant,
}

fn checked_id(id: &[u8]) -> Result<&[u8; 128]> {
    id.try_into().map_err(|_| Error::Setup(format!("NCCL's id has 128 bytes, not {}", id.len())))
}

impl Nccl {
    fn connect(early: Early, id: &[u8], first_rank: u32, ranks: u32, options: &Options) -> Result<Self> {
        let id = checked_id(id)?;
        let native = early.native(options)?;
        let Early { cuda, api, places, .. } = early;
        let contexts: Vec<_> = places.iter().map(|place| &place.context).collect();
        let free_before = modes::free(cuda, &contexts, options.memory)?;
        let comms = api.init(cuda, &contexts, &options.config(api.version()), id, (first_rank, ranks))?;
        let free_connected = modes::free(cuda, &contexts, options.memory)?;
        let mut locals = Vec::with_capacity(places.len());
        for (place, comm) in places.into_iter().zip(comms) {
            cuda.enter(&place.context)?;
            locals.push(Local::new(cuda, place, comm, options.null_stream)?);
        }
        let warn = |text| Remark { warning: true, text };
        tracing::debug!(nccl = ?api, path = api.path(), "connected");
        let mut nccl = Self {
            cuda,
            api,
            locals,
            remains: Vec::new(),
            selected: 0,
            first_rank,
            ranks,
            dtype: type_number(Dtype::Float),
            element: Dtype::Float.bytes(),
            shift: 0,
            failed: false,
            native,
            options: *options,
            register: options.register.possible(api.version()),
            null_stream: options.null_stream,
            free: [free_before, free_connected, Vec::new()],
            remarks: options.ignored(api.version()).into_iter().map(warn).collect(),
            origin: Instant::now(),
        };
        nccl.remark_native(options.native.0);
        nccl.enter(0)?;
        Ok(nccl)
    }

    /// The selected rank.
    #[inline]
    fn local(&self) -> &Local {
        &self.locals[self.selected]
    }

    #[inline]
    fn local_mut(&mut self) -> &mut Local {
        &mut self.locals[self.selected]
    }

    /// Selects a local rank and makes its context current.
    fn enter(&mut self, local: usize) -> Result<()> {
        let chosen = self.locals.get(local);
        let chosen = chosen.ok_or_else(|| Error::Setup(format!("there is no local rank {local}")))?;
        self.cuda.enter(&chosen.place.context)?;
        self.selected = local;
        Ok(())
    }

    /// Does something for every local rank in its context, and comes back to the selected one.
    fn for_each(&mut self, mut act: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let selected = self.selected;
        for local in 0..self.locals.len() {
            self.enter(local)?;
            act(self)?;
        }
        self.enter(selected)
    }
}

impl Backend for Nccl {
    fn kind(&self) -> Kind {
        Kind::Nccl
    }

    fn library(&self) -> Library {
        describe(self.api)
    }

    fn caps(&self) -> Caps {
        Caps {
            shrinks_to_start: false,
            asynchronous: true,
            arithmetic: Arithmetic::Wrapping,
            simulated: false,
        }
    }

    fn locals(&self) -> u32 {
        self.locals.len() as u32
    }

    fn devices(&self) -> Vec<Device> {
        self.locals.iter().map(|local| local.place.device.clone()).collect()
    }

    #[inline]
    fn select(&mut self, local: u32) -> Result<()> {
        if local as usize == self.selected { Ok(()) } else { self.enter(local as usize) }
    }

    fn refuses(&self, dtype: Dtype, op: Option<RedOp>) -> Option<String> {
        let capability = self.locals.iter().map(|local| local.place.device.compute_capability).min();
        refusal::refusal(dtype, op, capability.unwrap_or(0), self.api.version(), self.ranks)
    }

    fn largest_count(&self) -> u64 {
        u64::MAX
    }

    fn memory(&mut self) -> Result<Memory> {
        let mut least: Option<Memory> = None;
        self.for_each(|nccl| {
            let (free_bytes, total_bytes) = nccl.cuda.memory()?;
            let smaller = least.is_none_or(|memory| free_bytes < memory.free_bytes);
            if smaller {
                least = Some(Memory { free_bytes, total_bytes });
            }
            Ok(())
        })?;
        least.ok_or_else(|| Error::Setup("this process drives no GPU".to_owned()))
    }

    fn allocate(&mut self, bytes: u64, marks: usize) -> Result<()> {
        let (cuda, api) = (self.cuda, self.api);
        self.for_each(|nccl| nccl.local_mut().allocate(cuda, api, bytes, marks))?;
        self.register_buffers()?;
        self.make_gates()?;
        self.note_allocated()
    }

    fn remarks(&mut self) -> Vec<Remark> {
        std::mem::take(&mut self.remarks)
    }

    fn usage(&mut self) -> Result<Usage> {
        self.usage_so_far()
    }

    fn prepare(&mut self, setup: &Setup) -> Result<()> {
        let Setup { dtype, op, repetition, .. } = *setup;
        (self.dtype, self.element) = (type_number(dtype), dtype.bytes());
        let arithmetic = self.caps().arithmetic;
        let (api, ranks) = (self.api, self.ranks);
        let pattern = Pattern { dtype, op, ranks, repetition, arithmetic };
        self.for_each(|nccl| {
            let scalar = pattern.scalar(nccl.rank());
            nccl.local_mut().reduce_with(api, dtype, op, scalar)
        })
    }

    fn shift(&mut self, bytes: u64) {
        self.shift = bytes;
    }

    fn fill(&mut self, content: &Content, pattern: &Pattern, inverted: bool) -> Result<()> {
        self.fill_content(content, pattern, inverted)
    }

    fn check(&mut self, content: &Content, pattern: &Pattern) -> Result<Tally> {
        self.check_content(content, pattern)
    }

    fn bad(
        &mut self,
        content: &Content,
        pattern: &Pattern,
        pattern_b: bool,
        limit: usize,
    ) -> Result<Vec<Bad>> {
        self.bad_content(content, pattern, pattern_b, limit)
    }

    #[inline]
    fn flip(&mut self, at: Slot) -> Result<()> {
        self.flip_element(at)
    }

    fn now(&mut self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    #[inline]
    fn mark(&mut self, index: usize) -> Result<()> {
        let local = self.local();
        self.cuda.record(local.mark(index)?, &local.stream)
    }

    fn hold(&mut self) -> Result<()> {
        let cuda = self.cuda;
        let Local { gate, stream, .. } = self.local_mut();
        gate.as_mut().map_or_else(|| Err(modes::no_gate()), |gate| gate.close(cuda, stream))
    }

    #[inline]
    fn open(&mut self) {
        self.locals.iter().filter_map(|local| local.gate.as_ref()).for_each(ffi::Gate::open);
    }

    fn gave_up(&self) -> bool {
        self.locals.iter().filter_map(|local| local.gate.as_ref()).any(ffi::Gate::gave_up)
    }

    fn between_us(&mut self, from: usize, to: usize) -> Result<f64> {
        let local = self.local();
        let milliseconds = self.cuda.elapsed_ms(local.mark(from)?, local.mark(to)?)?;
        Ok(f64::from(milliseconds) * 1000.0)
    }

    fn anchor(&mut self) -> Result<Option<Anchor>> {
        self.tie().map(Some)
    }

    fn until_anchor_us(&mut self, mark: usize) -> Result<f64> {
        self.before_tie_us(mark)
    }

    fn wait(&mut self, deadline: Duration) -> Result<()> {
        let waited = self.poll(deadline);
        self.failed |= waited.is_err();
        waited
    }

    fn observe(&mut self) {
        ffi::watch();
    }

    fn observed(&mut self) -> Option<String> {
        Some(self.seen())
    }

    fn unpredictable(&self) -> Option<String> {
        self.no_estimate()
    }

    fn predict(&mut self) -> Result<()> {
        self.api.group_start()
    }

    fn predicted(&mut self) -> Result<Option<f64>> {
        self.api.simulate_end()
    }

    fn capture(&mut self) -> Result<()> {
        self.for_each(|nccl| nccl.cuda.begin_capture(&nccl.local().stream))
    }

    fn captured(&mut self) -> Result<()> {
        self.for_each(|nccl| {
            let graph = nccl.cuda.end_capture(&nccl.local().stream)?;
            nccl.local_mut().graph = Some(graph);
            Ok(())
        })
    }

    fn replay(&mut self) -> Result<()> {
        if let [local] = self.locals.as_slice() {
            return local.replay(self.cuda);
        }
        self.for_each(|nccl| nccl.local().replay(nccl.cuda))
    }

    fn forget(&mut self) -> Result<()> {
        self.for_each(|nccl| {
            nccl.local_mut().graph.take().map_or(Ok(()), |graph| nccl.cuda.destroy_graph(graph))
        })
    }

    fn disconnect(&mut self) -> Result<()> {
        for local in std::mem::take(&mut self.locals) {
            self.cuda.enter(&local.place.context)?;
            self.remains.push(local.leave(self.api, self.failed)?);
        }
        Ok(())
    }

    fn new_id(&mut self) -> Result<Vec<u8>> {
        self.api.unique_id().map(Vec::from)
    }

    /// Buffers, streams and events stay; with `-R` the buffers are registered anew.
    fn reconnect(&mut self, id: &[u8]) -> Result<()> {
        let id = checked_id(id)?;
        let remains = std::mem::take(&mut self.remains);
        let contexts: Vec<_> = remains.iter().map(|rest| &rest.place.context).collect();
        let config = self.options.config(self.api.version());
        let comms = self.api.init(self.cuda, &contexts, &config, id, (self.first_rank, self.ranks))?;
        self.locals = remains.into_iter().zip(comms).map(|(rest, comm)| Local::again(rest, comm)).collect();
        self.enter(0)?;
        self.register_buffers()
    }

    fn close(&mut self) -> Result<()> {
        self.disconnect()?;
        let remains = std::mem::take(&mut self.remains);
        remains.into_iter().try_for_each(|rest| rest.free(self.cuda, self.api))
    }
}
