//! The kernels of `verify`: the one place that knows their parameters.

#![expect(unsafe_code, reason = "a kernel's arguments are untyped")]

use std::ffi::{CStr, CString, c_int, c_void};

use super::cuda::{Address, Buffer, Cuda, Stream};
use super::module::{Kernel, Module};
use crate::error::{Error, Result};
use crate::verify::{self, Pattern, RunSpec, Spec};
use crate::vocab::{Dtype, Run, Side, Slot, What};

/// Threads of a block; the kernels step through their run by the size of the grid.
const THREADS: u32 = 256;
/// Blocks per multiprocessor: as many threads as it can hold.
const BLOCKS_PER_PROCESSOR: u32 = 8;

/// The loops of one form of data, by [`verify::Kind`].
const FORMS: [[&CStr; 2]; 7] = [
    [c"critrank_fill_copy", c"critrank_check_copy"],
    [c"critrank_fill_bounded", c"critrank_check_bounded"],
    [c"critrank_fill_linear", c"critrank_check_linear"],
    [c"critrank_fill_power", c"critrank_check_power"],
    [c"critrank_fill_signs", c"critrank_check_signs"],
    [c"critrank_fill_extreme", c"critrank_check_extreme"],
    [c"critrank_fill_average", c"critrank_check_average"],
];

/// A kernel that writes and one that compares.
#[derive(Debug)]
struct Loop {
    fill: Kernel,
    check: Kernel,
}

/// The kernels, loaded into one context.
#[derive(Debug)]
pub(in super::super) struct Kernels {
    module: Module,
    /// Whole 16-byte pieces of a run, for each form.
    forms: Vec<Loop>,
    /// Any run, or what the loops above leave of one.
    rest: Loop,
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
        let pair = |[fill, check]: [&CStr; 2]| -> Result<Loop> {
            Ok(Loop { fill: cuda.kernel(&module, fill)?, check: cuda.kernel(&module, check)? })
        };
        Ok(Self {
            forms: FORMS.into_iter().map(pair).collect::<Result<_>>()?,
            rest: pair([c"critrank_fill_rest", c"critrank_check_rest"])?,
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
        for form in self.forms.iter().chain([&self.rest]) {
            self.start(cuda, stream, form, (at, &what, Extra::Inverted(false)), true)?;
            self.start(cuda, stream, form, (at, &what, Extra::Tally(report)), true)?;
        }
        self.collect(cuda, stream, at, &what, false, report)?;
        cuda.synchronize(stream)
    }

    /// Writes a run, or with `inverted` the complement of its bits; `to` is where the run starts.
    pub(in super::super) fn fill(
        &self,
        cuda: &Cuda,
        stream: &Stream,
        to: Address,
        what: &(Spec, RunSpec),
        inverted: bool,
    ) -> Result<()> {
        self.act(cuda, stream, to, what, Extra::Inverted(inverted), Pieces::of(what, to))
    }

    /// Compares a run, and adds to `tally`.
    pub(in super::super) fn check(
        &self,
        cuda: &Cuda,
        stream: &Stream,
        from: Address,
        what: &(Spec, RunSpec),
        tally: &Buffer,
    ) -> Result<()> {
        let pieces = if what.1.what == RunSpec::INPUT { Pieces::UNLOOPED } else { Pieces::of(what, from) };
        self.act(cuda, stream, from, what, Extra::Tally(tally), pieces)
    }

    /// The form's loop for the pieces, and another kernel for what is left.
    fn act(
        &self,
        cuda: &Cuda,
        stream: &Stream,
        at: Address,
        what: &(Spec, RunSpec),
        extra: Extra<'_>,
        pieces: Pieces,
    ) -> Result<()> {
        let form = self.forms.get(what.0.kind as usize).filter(|_| pieces.looped);
        if let Some(form) = form {
            self.start(cuda, stream, form, (at, what, extra), false)?;
        }
        if pieces.rest || form.is_none() {
            self.start(cuda, stream, &self.rest, (at, what, extra), form.is_none())?;
        }
        Ok(())
    }

    /// `critrank_fill_…(void *dst, Spec, RunSpec, int inverted, int all)` or
    /// `critrank_check_…(const void *src, Spec, RunSpec, u64 *tally, int all)`.
    fn start(
        &self,
        cuda: &Cuda,
        stream: &Stream,
        kernels: &Loop,
        (mut at, what, extra): (Address, &(Spec, RunSpec), Extra<'_>),
        all: bool,
    ) -> Result<()> {
        let (mut spec, mut run) = *what;
        let blocks = self.blocks(&spec, &run);
        // A C int is the low half of it.
        let (kernel, mut extra) = match extra {
            Extra::Inverted(inverted) => (&kernels.fill, u64::from(inverted)),
            Extra::Tally(tally) => (&kernels.check, tally.address),
        };
        let mut all = c_int::from(all);
        let mut arguments =
            [pointer(&mut at), pointer(&mut spec), pointer(&mut run), pointer(&mut extra), pointer(&mut all)];
        // SAFETY: the kernel's parameters; Spec and RunSpec are repr(C), an Address is the bits of a pointer to device
        // memory with room for the run, and a tally is device memory of at least TALLY words.
        unsafe { cuda.launch(kernel, blocks, THREADS, stream, &mut arguments) }
    }

    /// `critrank_collect(const void *src, Spec, RunSpec, u64 *out, u64 *found, u32 limit, u32 pattern_b)`, which
    /// adds the number of wrong elements to `found` and writes index and value of `limit` of them to `out`. The
    /// list is `found`, then `out`.
    pub(in super::super) fn collect(
        &self,
        cuda: &Cuda,
        stream: &Stream,
        mut from: Address,
        what: &(Spec, RunSpec),
        pattern_b: bool,
        list: &Buffer,
    ) -> Result<()> {
        let (mut spec, mut run) = *what;
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
        // SAFETY: as for `start`; behind its first word the list has room for `limit` pairs.
        unsafe { cuda.launch(&self.collect, blocks, THREADS, stream, &mut arguments) }
    }
}

/// The parameter in which kernels that write and that compare differ.
#[derive(Clone, Copy)]
enum Extra<'a> {
    Inverted(bool),
    Tally(&'a Buffer),
}

/// What of a run its form's loop does, as `has_loop` and `Pieces` in `verify.cu` say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pieces {
    /// It does the whole 16-byte pieces.
    looped: bool,
    /// Something is left.
    rest: bool,
}

impl Pieces {
    /// No loop does anything.
    const UNLOOPED: Self = Self { looped: false, rest: true };

    fn of((spec, run): &(Spec, RunSpec), at: Address) -> Self {
        let bytes = u64::from(spec.width / 8);
        let head = (at.0.wrapping_neg() % 16 / bytes).min(run.count);
        let pieces = (run.count - head) * bytes / 16;
        let whole_words =
            run.what == RunSpec::COPIED || run.first.wrapping_add(head).wrapping_mul(bytes) % 8 == 0;
        let looped = pieces > 0 && whole_words;
        Self { looped, rest: !looped || pieces * 16 < run.count * bytes }
    }
}

/// Where an argument lies.
fn pointer<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(dtype: Dtype, what: What, count: u64, at: u64) -> (bool, bool) {
        let pattern =
            Pattern { dtype, op: None, ranks: 4, repetition: 0, arithmetic: verify::Arithmetic::Wrapping };
        let run = Run { at: Slot { side: Side::Send, offset: 0 }, count, what };
        let Pieces { looped, rest } = Pieces::of(&(pattern.spec(), RunSpec::from(&run)), Address(at));
        (looped, rest)
    }

    #[test]
    fn a_loop_does_the_pieces_and_another_kernel_what_is_left() {
        let result = |first| What::Reduced { first };
        assert_eq!(pieces(Dtype::Float, result(0), 1024, 4096), (true, false));
        assert_eq!(pieces(Dtype::Float, result(0), 1025, 4096), (true, true));
        // Three elements before the first piece, which then starts in the middle of a word.
        assert_eq!(pieces(Dtype::Float, result(0), 1024, 4100), (false, true));
        assert_eq!(pieces(Dtype::Float, result(1), 1024, 4100), (true, true));
        assert_eq!(pieces(Dtype::Int8, result(7), 1024, 4096), (false, true));
        assert_eq!(pieces(Dtype::Int8, What::stream(0, 7), 1024, 4096), (true, false));
        assert_eq!(pieces(Dtype::Double, result(5), 1, 4096), (false, true));
        assert_eq!(pieces(Dtype::Double, result(5), 0, 4096), (false, true));
    }

    #[test]
    fn every_form_has_its_kernels_in_the_code() {
        for kernel in FORMS.iter().flatten() {
            assert!(verify::PTX.contains(&format!(".entry {}(", kernel.to_string_lossy())), "{kernel:?}");
        }
        assert_eq!(FORMS.len(), verify::Kind::Average as usize + 1);
    }
}
