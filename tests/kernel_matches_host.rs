//! The kernels' source, compiled by g++ and run thread after thread, writes and finds the same bits as the host's
//! loops: for every type, reduction, and alignment. What a GPU adds to that is its rounding of single products,
//! which is the same by IEEE 754.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]
#![expect(unsafe_code, reason = "calls the compiled kernels")]

use std::ffi::c_void;
use std::process::Command;

use critrank::verify::{Arithmetic, Pattern, RunSpec, Spec, Tally, check, collect_bad, fill};
use critrank::vocab::{Dtype, RedOp, Run, Side, Slot, What};
use libloading::{Library, Symbol};

type Fill = unsafe extern "C" fn(*mut c_void, *const Spec, *const RunSpec, i32, i32, u64);
type Check = unsafe extern "C" fn(*const c_void, *const Spec, *const RunSpec, *mut u64, i32, u64);
type Collect =
    unsafe extern "C" fn(*const c_void, *const Spec, *const RunSpec, *mut u64, *mut u64, u32, u32, u64);

const THREADS: u64 = 3;
/// `WHOLE`: all of a run, its parts by the kernels that are made for them.
const WHOLE: i32 = 3;

struct Kernels {
    library: Library,
    _folder: tempfile::TempDir,
}

impl Kernels {
    fn compile() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libverify.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/verify/kernels/verify.cu");
        let options = [
            "-O1",
            "-std=c++17",
            "-fPIC",
            "-shared",
            "-ffp-contract=off",
            "-fno-strict-aliasing",
            "-x",
            "c++",
        ];
        let status = Command::new("g++").args(options).arg(source).arg("-o").arg(&path).status();
        assert!(status.expect("this test needs g++").success());
        // SAFETY: the library has no constructors.
        let library = unsafe { Library::new(&path) }.unwrap();
        // SAFETY: a function of this type in the source.
        let sizes: Symbol<unsafe extern "C" fn() -> u64> = unsafe { library.get(b"critrank_sizes") }.unwrap();
        // SAFETY: it only computes.
        let sizes = unsafe { sizes() };
        assert_eq!(sizes, ((size_of::<Spec>() as u64) << 32) | size_of::<RunSpec>() as u64);
        Self { library, _folder: folder }
    }

    fn fill(&self, buffer: &mut [u8], spec: &Spec, run: &Run, inverted: bool) {
        // SAFETY: a function of this type in the source.
        let fill: Symbol<Fill> = unsafe { self.library.get(b"critrank_fill") }.unwrap();
        // SAFETY: the buffer holds the run, and starts at an element.
        unsafe {
            fill(buffer.as_mut_ptr().cast(), spec, &RunSpec::from(run), i32::from(inverted), WHOLE, THREADS);
        }
    }

    fn check(&self, buffer: &[u8], spec: &Spec, run: &Run) -> Tally {
        let mut found = [0; 6];
        // SAFETY: a function of this type in the source.
        let check: Symbol<Check> = unsafe { self.library.get(b"critrank_check") }.unwrap();
        // SAFETY: the buffer holds the run, and starts at an element; the tally has six numbers.
        unsafe {
            check(buffer.as_ptr().cast(), spec, &RunSpec::from(run), found.as_mut_ptr(), WHOLE, THREADS);
        }
        let [wrong_a, first_a, last_a, wrong_b, first_b, last_b] = found;
        Tally { wrong_a, wrong_b, first_a, last_a, first_b, last_b }
    }

    /// (index, bits), in order of the index.
    fn collect(&self, buffer: &[u8], spec: &Spec, run: &Run, pattern_b: bool) -> Vec<(u64, u64)> {
        let mut out = vec![0; 2 * run.count as usize];
        let mut found = 0;
        // SAFETY: a function of this type in the source.
        let collect: Symbol<Collect> = unsafe { self.library.get(b"critrank_collect") }.unwrap();
        let (run, out_at) = (RunSpec::from(run), out.as_mut_ptr());
        let limit = run.count as u32;
        // SAFETY: the buffer holds the run, and `out` two numbers for each of its elements.
        unsafe {
            collect(
                buffer.as_ptr().cast(),
                spec,
                &raw const run,
                out_at,
                &raw mut found,
                limit,
                u32::from(pattern_b),
                THREADS,
            );
        }
        let mut bad: Vec<_> = out.chunks(2).take(found as usize).map(|pair| (pair[0], pair[1])).collect();
        bad.sort_unstable();
        bad
    }
}

/// 16-byte aligned memory.
#[repr(align(16))]
#[derive(Clone, Copy)]
struct Line(#[expect(dead_code, reason = "read through a pointer")] [u8; 16]);

fn compare(kernels: &Kernels, pattern: &Pattern, run: &Run, misalignment: usize) {
    let spec = pattern.spec();
    let bytes = pattern.dtype.bytes() as usize;
    let length = run.count as usize * bytes;
    let mut memory = vec![Line([0x55; 16]); length / 16 + 10];
    // SAFETY: plain bytes.
    let memory =
        unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), memory.len() * 16) };
    let from = misalignment * bytes;
    for inverted in [true, false] {
        let mut host = vec![0; length];
        fill(&mut host, &spec, run, inverted);
        kernels.fill(&mut memory[from..from + length], &spec, run, inverted);
        assert_eq!(&memory[from..from + length], host, "{pattern:?} {run:?} {misalignment}");
        assert!(
            memory[..from].iter().chain(&memory[from + length..]).all(|byte| *byte == 0x55),
            "{pattern:?} {run:?}"
        );
        let buffer = &memory[from..from + length];
        assert_eq!(
            kernels.check(buffer, &spec, run),
            check(buffer, &spec, run),
            "{pattern:?} {run:?} {misalignment}"
        );
    }
    for at in (0..length).step_by(13) {
        memory[from + at] ^= 1 << (at % 8);
    }
    let buffer = &memory[from..from + length];
    assert_eq!(
        kernels.check(buffer, &spec, run),
        check(buffer, &spec, run),
        "{pattern:?} {run:?} {misalignment}"
    );
    for pattern_b in [false, true] {
        let host = collect_bad(buffer, &spec, run, pattern_b, usize::MAX);
        let host: Vec<_> = host.into_iter().map(|bad| (bad.index, bad.got)).collect();
        assert_eq!(kernels.collect(buffer, &spec, run, pattern_b), host, "{pattern:?} {run:?}");
    }
}

#[test]
fn same_bits() {
    let kernels = Kernels::compile();
    let ops: Vec<_> = RedOp::ALL.into_iter().map(Some).chain([None]).collect();
    let arithmetics = [Arithmetic::Wrapping, Arithmetic::Narrow];
    let mut case = 0_u64;
    let ranks = [
        1, 2, 3, 4, 5, 6, 8, 12, 16, 64, 100, 127, 128, 129, 255, 256, 300, 512, 1000, 1024, 4096, 32_768,
        32_769, 65_536,
    ];
    for ranks in ranks {
        for (dtype, op) in Dtype::ALL.into_iter().flat_map(|dtype| ops.iter().map(move |op| (dtype, *op))) {
            for arithmetic in arithmetics {
                case += 1;
                let pattern = Pattern { dtype, op, ranks, repetition: case % 7, arithmetic };
                for (step, count) in [0, 1, 17, 203, 1500].into_iter().enumerate() {
                    let first = [0, 5, 1_000_003, (1 << 40) + 1][(case as usize + step) % 4];
                    let rank = (case as u32 * 31 + step as u32) % ranks;
                    let block = 1 + (case + step as u64) % 40;
                    let whats = match op {
                        None => [
                            What::stream(rank, first),
                            What::Copied { block, source: rank, source_step: 1, first, first_step: 77 },
                        ],
                        Some(_) => [What::Input { rank, first }, What::Reduced { first }],
                    };
                    for what in whats {
                        let run = Run { at: Slot { side: Side::Recv, offset: case }, count, what };
                        compare(&kernels, &pattern, &run, (case as usize + step) % 16);
                    }
                }
            }
        }
    }
}
