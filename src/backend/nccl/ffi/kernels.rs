//! The kernels of `verify`: the one place that knows their parameters.

#![expect(unsafe_code, reason = "a kernel's arguments are untyped")]

use std::ffi::{CString, c_int, c_void};

use super::cuda::{Address, Buffer, Cuda, Stream};
use super::module::{Kernel, Module};
use crate::error::{Error, Result};
use crate::verify::{self, Pattern, RunSpec, Spec};
use crate::vocab::{Dtype, Run, Side, Slot, What};

/// Threads of a block; the kernels step through their run by the size of the grid.
const THREADS: u32 = 256;
/// Blocks per multiprocessor: as many threads as it can hold.
const BLOCKS_PER_PROCESSOR: u32 = 8;

/// The kernels, loaded into one context.
#[derive(Debug)]
pub(in super::super) struct Kernels {
    module: Module,
    fill: Kernel,
    check: Kernel,
    collect: Kernel,
    most_blocks: u32,
}

impl Kernels {
    /// Words of a tally, in the order in which `critrank_check` counts.
    pub(in super::super) const TALLY: usize = 6;

    /// Loads the kernels into the current context of a GPU with so many multiprocessors and this compute
    /// capability (× 10): compiled ones where this program has them, else the driver compiles them.
    pub(in super::super) fn load(cuda: &Cuda, processors: u32, capability: u32) -> Result<Self> {
        let module = if let Some(module) = verify::cubin(capability).and_then(|code| cuda.compiled(code)) {
            module
        } else {
            let damaged = "the check kernels inside this program are damaged";
            let ptx = CString::new(verify::PTX).map_err(|_| Error::Setup(damaged.to_owned()))?;
            cuda.module(&ptx)?
        };
        Ok(Self {
            fill: cuda.kernel(&module, c"critrank_fill")?,
            check: cuda.kernel(&module, c"critrank_check")?,
            collect: cuda.kernel(&module, c"critrank_collect")?,
            module,
            most_blocks: processors.max(1) * BLOCKS_PER_PROCESSOR,
        })
    }

    /// Unloads them.
    pub(in super::super) fn unload(self, cuda: &Cuda) -> Result<()> {
        cuda.unload(self.module)
    }

    /// Blocks for a run: one thread for each 8 bytes, up to a full GPU.
    fn blocks(&self, spec: &Spec, run: &RunSpec) -> u32 {
        let words = run.count.saturating_mul(u64::from(spec.width)).div_ceil(64);
        let blocks = words.div_ceil(u64::from(THREADS)).clamp(1, u64::from(self.most_blocks));
        blocks as u32
    }

    /// Runs each kernel once on a run of no elements.
    pub(in super::super) fn prime(&self, cuda: &Cuda, stream: &Stream, report: &Buffer) -> Result<()> {
        let pattern = Pattern {
            dtype: Dtype::Uint8,
            op: None,
            ranks: 1,
            repetition: 0,
            arithmetic: verify::Arithmetic::Wrapping,
        };
        let nothing = Run { at: Slot { side: Side::Send, offset: 0 }, count: 0, what: What::stream(0, 0) };
        let what = (pattern.spec(), RunSpec::from(&nothing));
        let at = Address(report.address);
        self.fill(cuda, stream, at, what, false)?;
        self.check(cuda, stream, at, what, report)?;
        self.collect(cuda, stream, at, what, false, report)?;
        cuda.synchronize(stream)
    }

    /// `critrank_fill(void *dst, Spec, RunSpec, int inverted)`; `to` is where the run starts.
    pub(in super::super) fn fill(
        &self,
        cuda: &Cuda,
        stream: &Stream,
        mut to: Address,
        (mut spec, mut run): (Spec, RunSpec),
        inverted: bool,
    ) -> Result<()> {
        let blocks = self.blocks(&spec, &run);
        let mut inverted = c_int::from(inverted);
        let mut arguments = [pointer(&mut to), pointer(&mut spec), pointer(&mut run), pointer(&mut inverted)];
        // SAFETY: the kernel's parameters; Spec and RunSpec are repr(C), and an Address is the bits of a pointer
        // to device memory with room for the run.
        unsafe { cuda.launch(&self.fill, blocks, THREADS, stream, &mut arguments) }
    }

    /// `critrank_check(const void *src, Spec, RunSpec, u64 *tally)`, which adds to `tally`.
    pub(in super::super) fn check(
        &self,
        cuda: &Cuda,
        stream: &Stream,
        mut from: Address,
        (mut spec, mut run): (Spec, RunSpec),
        tally: &Buffer,
    ) -> Result<()> {
        let blocks = self.blocks(&spec, &run);
        let mut tally = tally.address;
        let mut arguments = [pointer(&mut from), pointer(&mut spec), pointer(&mut run), pointer(&mut tally)];
        // SAFETY: as for `fill`; the tally is device memory of at least TALLY words.
        unsafe { cuda.launch(&self.check, blocks, THREADS, stream, &mut arguments) }
    }

    /// `critrank_collect(const void *src, Spec, RunSpec, u64 *out, u64 *found, u32 limit, u32 pattern_b)`, which
    /// adds the number of wrong elements to `found` and writes index and value of `limit` of them to `out`. The
    /// list is `found`, then `out`.
    pub(in super::super) fn collect(
        &self,
        cuda: &Cuda,
        stream: &Stream,
        mut from: Address,
        (mut spec, mut run): (Spec, RunSpec),
        pattern_b: bool,
        list: &Buffer,
    ) -> Result<()> {
        let blocks = self.blocks(&spec, &run);
        let (mut found, mut out) = (list.address, list.address + 8);
        let mut limit = (list.bytes / 8).saturating_sub(1) as u32 / 2;
        let mut pattern_b = u32::from(pattern_b);
        let mut arguments = [
            pointer(&mut from),
            pointer(&mut spec),
            pointer(&mut run),
            pointer(&mut out),
            pointer(&mut found),
            pointer(&mut limit),
            pointer(&mut pattern_b),
        ];
        // SAFETY: as for `fill`; behind its first word the list has room for `limit` pairs.
        unsafe { cuda.launch(&self.collect, blocks, THREADS, stream, &mut arguments) }
    }
}

/// Where an argument lies.
fn pointer<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}
