//! The whole backend against fakes of both libraries (`tests/fake_gpu`), which check order and arguments of calls.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::refusal::refusal;
use super::*;
use crate::collective::Ops;
use crate::error::Exit;
use crate::vocab::{Placement, Run, Side, Slot, What};

/// Defined for a fake libcuda that runs the kernels.
const KERNELS: &str = "KERNELS";
pub(super) const LONG: Duration = Duration::from_secs(20);

/// A pair of fake libraries, built with these definitions. Each pair has its own state, since it has its own files.
pub(super) struct Fakes {
    _folder: TempDir,
    cuda: PathBuf,
    nccl: PathBuf,
}

impl Fakes {
    pub(super) fn new(cuda: &[&str], nccl: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cuda = build(folder.path(), "cuda", cuda);
        let nccl = build(folder.path(), "nccl", nccl);
        Self { _folder: folder, cuda, nccl }
    }

    pub(super) fn request(&self, locals: u32) -> Request {
        Request { locals, library: Some(self.nccl.clone()), ..Request::default() }
    }

    pub(super) fn open(&self, request: &Request) -> Result<Early> {
        Early::open_from(request, &[self.cuda.display().to_string()])
    }

    /// All ranks in this process, with buffers of 1 MiB and 4 marks.
    pub(super) fn connect(&self, ranks: u32) -> Result<Nccl> {
        self.connect_with(ranks, &Options::default())
    }

    pub(super) fn connect_with(&self, ranks: u32, options: &Options) -> Result<Nccl> {
        let early = self.open(&self.request(ranks))?;
        let id = early.unique_id()?;
        let mut nccl = Nccl::connect(early, &id, 0, ranks, options)?;
        nccl.allocate(1 << 20, 4)?;
        Ok(nccl)
    }
}

fn build(folder: &Path, name: &str, defines: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("tests/fake_gpu");
    let library = folder.join(format!("lib{name}_fake.so"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library);
    gcc.args(defines.iter().map(|define| format!("-D{define}")));
    gcc.arg(source.join(format!("{name}.c")));
    if defines.contains(&KERNELS) {
        gcc.arg(source.join("kernels.c")).args(["-x", "c++"]).arg(root.join("src/verify/kernels/verify.cu"));
    }
    let built = gcc.output().unwrap();
    assert!(built.status.success(), "{name}: {}", String::from_utf8_lossy(&built.stderr));
    library
}

pub(super) fn failure<T>(result: Result<T>) -> (Exit, String) {
    result.map_or_else(|error| (error.exit(), error.to_string()), |_| panic!("it did not fail"))
}

fn slot(side: Side, offset: u64) -> Slot {
    Slot { side, offset }
}

pub(super) const SEND: Slot = Slot { side: Side::Send, offset: 0 };
pub(super) const RECV: Slot = Slot { side: Side::Recv, offset: 0 };

pub(super) fn setup(dtype: Dtype, op: Option<RedOp>, repetition: u64) -> Setup {
    Setup { dtype, op, placement: Placement::OutOfPlace, repetition }
}

#[test]
fn one_rank_lives_from_open_to_close() {
    let fakes = Fakes::new(&[], &[]);
    let mut nccl = fakes.connect(1).unwrap();
    assert_eq!((nccl.kind(), nccl.locals(), nccl.rank(), nccl.ranks()), (Kind::Nccl, 1, 0, 1));
    let library = nccl.library();
    assert_eq!((library.version.as_str(), library.code), ("2.28.3", 22_803));
    assert_eq!(PathBuf::from(library.path), fakes.nccl);
    let device = nccl.devices().remove(0);
    assert_eq!((device.bus_id.as_str(), device.compute_capability), ("0000:1b:00", 90));
    assert_eq!((device.name.as_str(), device.index), ("Fake GPU 0", 0));

    for (repetition, dtype) in (0..).zip(Dtype::ALL) {
        for op in RedOp::ALL {
            nccl.prepare(&setup(dtype, Some(op), repetition)).unwrap();
            nccl.mark(0).unwrap();
            nccl.all_reduce(SEND, RECV, 1000).unwrap();
            nccl.reduce_scatter(SEND, RECV, 1000).unwrap();
            nccl.reduce(SEND, RECV, 1000, 0).unwrap();
            nccl.mark(1).unwrap();
            nccl.wait(LONG).unwrap();
            assert!(nccl.between_us(0, 1).unwrap() >= 0.0);
        }
        nccl.prepare(&setup(dtype, None, repetition)).unwrap();
        nccl.all_gather(SEND, RECV, 1000).unwrap();
        nccl.broadcast(RECV, RECV, 1000, 0).unwrap();
        nccl.alltoall(SEND, RECV, 1000).unwrap();
        nccl.gather(SEND, RECV, 1000, 0).unwrap();
        nccl.scatter(SEND, RECV, 1000, 0).unwrap();
        nccl.copy(SEND, slot(Side::Send, 1000), 1000).unwrap();
        nccl.wait(LONG).unwrap();
    }
    let before = nccl.now();
    assert!(nccl.now() >= before);
    nccl.close().unwrap();
}

#[test]
fn several_ranks_of_a_process_share_a_communicator() {
    let fakes = Fakes::new(&["DEVICES=4"], &[]);
    let mut nccl = fakes.connect(4).unwrap();
    assert_eq!(nccl.devices().iter().map(|device| device.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    nccl.prepare(&setup(Dtype::Int32, Some(RedOp::MulSum), 1)).unwrap();
    nccl.prepare(&setup(Dtype::Int32, None, 2)).unwrap();
    nccl.group_start().unwrap();
    for local in 0..4 {
        nccl.select(local).unwrap();
        assert_eq!(nccl.rank(), local);
        nccl.mark(0).unwrap();
        nccl.all_gather(SEND, RECV, 100).unwrap();
        nccl.alltoall(SEND, RECV, 100).unwrap();
    }
    nccl.group_end().unwrap();
    nccl.wait(LONG).unwrap();
    assert!(matches!(nccl.select(4), Err(Error::Setup(_))));
    // The fake's fourth GPU has the least memory.
    let memory = nccl.memory().unwrap();
    assert_eq!(memory.total_bytes, (1 << 30) - 3);
    assert_eq!(nccl.rank(), 3);
    nccl.close().unwrap();
}

#[test]
fn nothing_reaches_beyond_the_buffers() {
    let fakes = Fakes::new(&[], &[]);
    let mut nccl = fakes.connect(1).unwrap();
    nccl.prepare(&setup(Dtype::Double, Some(RedOp::Sum), 0)).unwrap();
    let all = (1 << 20) / 8;
    nccl.all_reduce(SEND, RECV, all).unwrap();
    assert_eq!(failure(nccl.all_reduce(SEND, slot(Side::Recv, 1), all)).0, Exit::Setup);
    assert_eq!(failure(nccl.send(slot(Side::Send, u64::MAX), 1, 0)).0, Exit::Setup);
    nccl.shift(8);
    assert_eq!(failure(nccl.all_reduce(SEND, RECV, all)).0, Exit::Setup);
    nccl.all_reduce(SEND, RECV, all - 1).unwrap();
    assert_eq!(failure(nccl.mark(4)).0, Exit::Setup);
    nccl.close().unwrap();
}

#[test]
fn a_machine_without_the_libraries_is_told_what_to_do() {
    let request = Request { locals: 1, ..Request::default() };
    let (exit, text) = failure(Early::open_from(&request, &["libcuda_not_there.so.1".to_owned()]));
    assert_eq!(exit, Exit::Setup);
    assert!(text.contains("--backend mpi") && text.contains("libcuda_not_there.so.1"), "{text}");

    let fakes = Fakes::new(&["DEVICES=0"], &[]);
    let (exit, text) = failure(fakes.open(&request));
    assert_eq!(exit, Exit::Unsupported);
    assert!(text.contains("--backend mpi"), "{text}");

    let fakes = Fakes::new(&[], &[]);
    let absent = Request { library: Some("/nowhere/libnccl.so.2".into()), ..request };
    let (exit, text) = failure(fakes.open(&absent));
    assert_eq!(exit, Exit::Setup);
    for word in
        ["/nowhere/libnccl.so.2", "LD_LIBRARY_PATH", "libnccl2", "nvidia-nccl-cu12", "CRITRANK_NCCL_LIBRARY"]
    {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn missing_functions_are_listed() {
    let fakes = Fakes::new(&[], &["WITHOUT_SEND"]);
    let (exit, text) = failure(fakes.open(&fakes.request(1)));
    assert_eq!(exit, Exit::Setup);
    assert!(text.contains("lacks ncclSend, ncclRecv;"), "{text}");
}

#[test]
fn too_few_gpus_end_as_in_nccl_tests() {
    let fakes = Fakes::new(&[], &[]);
    let (exit, text) = failure(fakes.open(&Request { local_rank: 1, ..fakes.request(1) }));
    assert_eq!(exit, Exit::Unsupported);
    assert!(text.starts_with("Invalid number of GPUs: 2 requested but only 1 were found.\n"), "{text}");
}

#[test]
fn a_library_without_an_allocator_gets_cudas() {
    let fakes = Fakes::new(&["TOTAL=4194304"], &["OLD", "VERSION=21806"]);
    let mut nccl = fakes.connect(1).unwrap();
    assert_eq!(nccl.library().version, "2.18.6");
    assert_eq!(nccl.memory().unwrap().free_bytes, 2 << 20);
    nccl.close().unwrap();

    let mut nccl = {
        let early = fakes.open(&fakes.request(1)).unwrap();
        let id = early.unique_id().unwrap();
        Nccl::connect(early, &id, 0, 1, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
    };
    let (exit, text) = failure(nccl.allocate(8 << 20, 0));
    assert_eq!(exit, Exit::Cuda);
    assert!(text.contains("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)") && text.contains("-e"), "{text}");
}

#[test]
fn two_ranks_that_share_a_gpu_are_told_so() {
    let fakes = Fakes::new(&[], &["REFUSE_INIT=5"]);
    let (exit, text) = failure(fakes.connect(1));
    assert_eq!(exit, Exit::Library);
    for part in ["ncclCommInitRankConfig", "ncclInvalidUsage (5)", "Duplicate GPU detected", "NCCL_HOSTID"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_hang_meets_the_deadline_and_the_communicator_is_aborted() {
    let fakes = Fakes::new(&["STALL"], &[]);
    let mut nccl = fakes.connect(1).unwrap();
    nccl.prepare(&setup(Dtype::Float, Some(RedOp::Sum), 0)).unwrap();
    nccl.all_reduce(SEND, RECV, 1).unwrap();
    let (exit, text) = failure(nccl.wait(Duration::from_millis(20)));
    assert_eq!((exit, text.as_str()), (Exit::Timeout, "not finished after 0.02 s"));
    nccl.close().unwrap();
}

#[test]
fn an_error_of_the_network_is_seen_while_waiting() {
    let fakes = Fakes::new(&["STALL"], &["ASYNC=6"]);
    let mut nccl = fakes.connect(1).unwrap();
    nccl.prepare(&setup(Dtype::Float, Some(RedOp::Sum), 0)).unwrap();
    nccl.all_reduce(SEND, RECV, 1).unwrap();
    let (exit, text) = failure(nccl.wait(LONG));
    assert_eq!(exit, Exit::Library);
    assert!(text.contains("ncclRemoteError (6)") && text.contains("another rank"), "{text}");
}

#[test]
fn kernels_that_do_not_compile_show_the_compilers_words() {
    let fakes = Fakes::new(&["BAD_PTX"], &[]);
    let mut nccl = fakes.connect(1).unwrap();
    let arithmetic = Arithmetic::Wrapping;
    let pattern = Pattern { dtype: Dtype::Float, op: None, ranks: 1, repetition: 1, arithmetic };
    let content = vec![Run { at: SEND, count: 10, what: What::stream(0, 0) }];
    let (exit, text) = failure(nccl.fill(&content, &pattern, false));
    assert_eq!(exit, Exit::Cuda);
    assert!(text.contains("ptxas fatal : a reason in line 1") && text.contains("-c 0"), "{text}");
    nccl.close().unwrap();
}

#[test]
fn only_what_nccl_would_refuse_is_refused() {
    let refused = |dtype, op, capability, version, ranks| {
        refusal(dtype, op, capability, version, ranks).unwrap_or_default()
    };
    for dtype in Dtype::ALL.into_iter().filter(|dtype| !dtype.is_fp8()) {
        for op in RedOp::ALL {
            assert_eq!(refused(dtype, Some(op), 60, 21_806, 1), "");
        }
    }
    let fp8 = Dtype::F8e4m3;
    assert!(refused(fp8, Some(RedOp::Sum), 90, 22_304, 8).contains("2.23.4"));
    assert!(refused(fp8, None, 80, 22_803, 8).contains("this GPU has 8.0"));
    assert!(refused(fp8, Some(RedOp::Avg), 90, 22_803, 1).contains("one rank"));
    assert!(refused(fp8, Some(RedOp::MulSum), 100, 22_803, 1).contains("one rank"));
    assert_eq!(refused(fp8, Some(RedOp::Avg), 90, 22_803, 2), "");
    assert_eq!(refused(fp8, Some(RedOp::Sum), 90, 22_803, 1), "");
}

/// What one rank contributes, or the sum over that one rank.
fn pattern(dtype: Dtype, op: Option<RedOp>, ranks: u32) -> Pattern {
    Pattern { dtype, op, ranks, repetition: 5, arithmetic: Arithmetic::Wrapping }
}

#[test]
fn kernels_fill_check_and_list_what_ranks_hold() {
    let fakes = Fakes::new(&[KERNELS], &[]);
    let mut nccl = fakes.connect(1).unwrap();
    for dtype in Dtype::ALL {
        let pattern = pattern(dtype, Some(RedOp::Sum), 1);
        nccl.prepare(&setup(dtype, Some(RedOp::Sum), 5)).unwrap();
        nccl.shift(if dtype == Dtype::Half { 16 } else { 0 });
        let before = vec![Run { at: SEND, count: 1003, what: What::Input { rank: 0, first: 0 } }];
        let after = vec![Run { at: RECV, count: 1003, what: What::Reduced { first: 0 } }];
        nccl.fill(&before, &pattern, false).unwrap();
        nccl.fill(&after, &pattern, true).unwrap();
        let never = nccl.check(&after, &pattern).unwrap();
        assert_eq!((never.wrong(), never.span()), (1003, Some((0, 1002))), "{dtype}");
        nccl.all_reduce(SEND, RECV, 1003).unwrap();
        nccl.wait(LONG).unwrap();
        assert_eq!(nccl.check(&after, &pattern).unwrap().wrong(), 0, "{dtype}");
        assert_eq!(nccl.bad(&after, &pattern, false, 10).unwrap(), []);

        // One bit, of that element alone; twice is nothing.
        nccl.flip(slot(Side::Recv, 501)).unwrap();
        let bad = nccl.bad(&after, &pattern, false, 10).unwrap();
        assert_eq!(bad.iter().map(|bad| bad.index).collect::<Vec<_>>(), [501], "{dtype}");
        let changed = bad[0].got ^ bad[0].expected(&pattern.spec(), false);
        assert_eq!(changed, 1 << (8 * dtype.bytes() - 2), "{dtype}");
        nccl.flip(slot(Side::Recv, 501)).unwrap();
        assert_eq!(nccl.check(&after, &pattern).unwrap().wrong(), 0, "{dtype}");

        let tail = vec![Run { at: slot(Side::Recv, 1000), count: 3, what: What::Reduced { first: 1000 } }];
        nccl.fill(&tail, &pattern, true).unwrap();
        let tally = nccl.check(&after, &pattern).unwrap();
        assert_eq!((tally.wrong(), tally.span()), (3, Some((1000, 1002))), "{dtype}");
        let bad = nccl.bad(&after, &pattern, false, 2).unwrap();
        assert_eq!(bad.iter().map(|bad| bad.index).collect::<Vec<_>>(), [1000, 1001], "{dtype}");
        assert_eq!(bad[0].run, after[0]);
    }
    nccl.close().unwrap();
}

#[test]
fn data_goes_round_among_the_ranks_of_a_process() {
    let (ranks, count) = (3, 777);
    let fakes = Fakes::new(&["DEVICES=3", KERNELS], &[]);
    let mut nccl = fakes.connect(ranks).unwrap();
    let pattern = pattern(Dtype::Int32, None, ranks);
    nccl.prepare(&setup(Dtype::Int32, None, 5)).unwrap();
    let gathered = What::Copied { block: count, source: 0, source_step: 1, first: 0, first_step: 0 };
    let after = vec![Run { at: RECV, count: count * u64::from(ranks), what: gathered }];
    for local in 0..ranks {
        nccl.select(local).unwrap();
        nccl.fill(&vec![Run { at: SEND, count, what: What::stream(local, 0) }], &pattern, false).unwrap();
        nccl.fill(&after, &pattern, true).unwrap();
    }
    nccl.group_start().unwrap();
    for local in 0..ranks {
        nccl.select(local).unwrap();
        nccl.all_gather(SEND, RECV, count).unwrap();
    }
    nccl.group_end().unwrap();
    nccl.wait(LONG).unwrap();
    for local in 0..ranks {
        nccl.select(local).unwrap();
        assert_eq!(nccl.check(&after, &pattern).unwrap().wrong(), 0);
    }
    nccl.close().unwrap();
}

#[test]
fn marks_have_a_place_on_the_hosts_clock() {
    let fakes = Fakes::new(&["DEVICES=2"], &[]);
    let mut nccl = fakes.connect(2).unwrap();
    for local in 0..2 {
        nccl.select(local).unwrap();
        assert!(nccl.until_anchor_us(0).is_err(), "no anchor yet");
        let before = nccl.now();
        nccl.mark(0).unwrap();
        let after = nccl.now();
        nccl.wait(LONG).unwrap();
        std::thread::sleep(Duration::from_millis(3));
        let anchor = nccl.anchor().unwrap().unwrap();
        let until_us = nccl.until_anchor_us(0).unwrap();
        let at_us = anchor.at_ns as f64 / 1e3 - until_us;
        let slack_us = anchor.error_ns as f64 / 1e3 + 1.0;
        assert!(until_us > 2900.0, "{until_us}");
        assert!((before as f64 / 1e3 - slack_us..=after as f64 / 1e3 + slack_us).contains(&at_us), "{at_us}");
        // Again: the events are used anew.
        assert!(nccl.anchor().unwrap().unwrap().at_ns > anchor.at_ns);
    }
    nccl.close().unwrap();
}
