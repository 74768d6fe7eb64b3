//! Modes of the backend against the fakes: graphs, registration, policies, the null stream, native collectives.

use super::tests::{Fakes, LONG, RECV, SEND, failure, setup};
use super::*;
use crate::error::Exit;

#[test]
fn graphs_are_captured_launched_and_destroyed() {
    let fakes = Fakes::new(&["DEVICES=2"], &[]);
    let mut nccl = fakes.connect(2).unwrap();
    nccl.prepare(&setup(Dtype::Float, None, 0)).unwrap();
    for _ in 0..2 {
        nccl.capture().unwrap();
        assert_eq!(failure(nccl.poll(LONG)).0, Exit::Cuda, "a stream that is captured cannot be asked");
        nccl.group_start().unwrap();
        for local in 0..2 {
            nccl.select(local).unwrap();
            nccl.all_gather(SEND, RECV, 100).unwrap();
        }
        nccl.group_end().unwrap();
        nccl.captured().unwrap();
        nccl.replay().unwrap();
        nccl.replay().unwrap();
        nccl.wait(LONG).unwrap();
        nccl.forget().unwrap();
        assert_eq!(failure(nccl.replay()).0, Exit::Setup, "nothing is left to launch");
    }
    nccl.close().unwrap();
}

#[test]
fn a_driver_without_graphs_is_named() {
    let fakes = Fakes::new(&["NO_GRAPHS"], &[]);
    let mut nccl = fakes.connect(1).unwrap();
    let (exit, text) = failure(nccl.capture());
    assert_eq!(exit, Exit::Unsupported);
    assert!(text.contains("11.4"), "{text}");
    nccl.close().unwrap();
}

fn texts(nccl: &mut Nccl) -> String {
    nccl.remarks().into_iter().map(|remark| remark.text).collect::<Vec<_>>().join("; ")
}

#[test]
fn buffers_are_registered_as_far_as_the_library_can() {
    for (register, nccl, words) in [
        (Register::Local, &["VERSION=22803"][..], "local registration, handle obtained"),
        (Register::Window, &["VERSION=22803"], "window of both buffers: handle obtained"),
        (Register::Window, &["VERSION=22803", "NULL_HANDLE"], "null handle: not symmetric"),
        (
            Register::Window,
            &["VERSION=22602"],
            "-R 1 takes its place; both buffers: local registration, handle",
        ),
        (Register::Local, &["VERSION=21806"], "it is ignored"),
        (Register::No, &["VERSION=22803"], ""),
    ] {
        let fakes = Fakes::new(&["DEVICES=2"], nccl);
        let options = Options { register, ..Options::default() };
        let mut nccl = fakes.connect_with(2, &options).unwrap();
        let said = texts(&mut nccl);
        assert!(said.ends_with(words) || said.contains(words), "{said}");
        assert!(nccl.remarks().is_empty(), "a remark is given once");
        // The fake refuses to destroy a communicator whose buffers are still registered.
        nccl.close().unwrap();
    }
}

#[test]
fn all_work_can_go_to_the_null_stream() {
    let fakes = Fakes::new(&["DEVICES=2"], &["NULL_STREAM"]);
    let options = Options { null_stream: true, ..Options::default() };
    let mut nccl = fakes.connect_with(2, &options).unwrap();
    nccl.prepare(&setup(Dtype::Float, None, 0)).unwrap();
    for selected in 0..2 {
        nccl.group_start().unwrap();
        for local in 0..2 {
            nccl.select(local).unwrap();
            nccl.mark(0).unwrap();
            nccl.all_gather(SEND, RECV, 100).unwrap();
        }
        nccl.group_end().unwrap();
        nccl.select(selected).unwrap();
        nccl.wait(LONG).unwrap();
        // The fake refuses an event whose context is not the current one.
        nccl.mark(1).unwrap();
        assert!(nccl.between_us(0, 1).unwrap() >= 0.0);
    }
    nccl.close().unwrap();
}

#[test]
fn memory_use_is_told_by_its_parts() {
    let fakes = Fakes::new(&["DEVICES=2"], &["OLD", "VERSION=21806"]);
    let options = Options { memory: true, ..Options::default() };
    let mut nccl = fakes.connect_with(2, &options).unwrap();
    // The fake has one pool for both GPUs: four buffers of 1 MiB.
    let usage = nccl.usage().unwrap();
    assert_eq!((usage.init_bytes, usage.user_bytes, usage.collective_bytes), (0, 4 << 20, 0));
    nccl.close().unwrap();
    let mut nccl = Fakes::new(&[], &[]).connect(1).unwrap();
    assert_eq!(nccl.usage().unwrap(), Usage::default(), "nobody asked");
    nccl.close().unwrap();
}

#[test]
fn native_calls_are_chosen_where_the_library_has_them() {
    use crate::cli::Native as Choice;
    let calls = [Native::Alltoall, Native::Gather, Native::Scatter];
    for (call, name) in calls.into_iter().zip(["ncclAlltoAll", "ncclGather", "ncclScatter"]) {
        for (choice, absent, said) in [
            (Choice::Auto, false, "native"),
            (Choice::Auto, true, "composed"),
            (Choice::Always, false, "native"),
            (Choice::Never, false, "composed"),
        ] {
            let fakes = Fakes::new(&["DEVICES=2"], if absent { &["NO_NATIVE"] } else { &[] });
            let options = Options { native: (Some(call), choice), ..Options::default() };
            let mut nccl = fakes.connect_with(2, &options).unwrap();
            let text = texts(&mut nccl);
            assert!(text.starts_with(said) && (said == "composed" || text.ends_with(name)), "{text}");
            nccl.prepare(&setup(Dtype::Half, None, 0)).unwrap();
            nccl.group_start().unwrap();
            for local in 0..2 {
                nccl.select(local).unwrap();
                match call {
                    Native::Alltoall => nccl.alltoall(SEND, RECV, 64).unwrap(),
                    Native::Gather => nccl.gather(SEND, RECV, 64, 1).unwrap(),
                    Native::Scatter => nccl.scatter(SEND, RECV, 64, 1).unwrap(),
                }
            }
            nccl.group_end().unwrap();
            nccl.wait(LONG).unwrap();
            nccl.close().unwrap();
        }
        let fakes = Fakes::new(&["DEVICES=2"], &["NO_NATIVE", "VERSION=22704"]);
        let options = Options { native: (Some(call), Choice::Always), ..Options::default() };
        let (exit, text) = failure(fakes.connect_with(2, &options));
        assert_eq!(exit, Exit::Unsupported);
        assert!(text.contains(name) && text.contains("2.28") && text.contains("2.27.4"), "{text}");
    }
}

#[test]
fn kernels_are_compiled_by_the_driver_where_no_compiled_ones_fit() {
    for defines in [&[][..], &["NO_CUBIN"]] {
        let fakes = Fakes::new(defines, &[]);
        let mut nccl = fakes.connect(1).unwrap();
        let arithmetic = Arithmetic::Wrapping;
        let pattern = Pattern { dtype: Dtype::Float, op: None, ranks: 1, repetition: 1, arithmetic };
        nccl.fill(&Content::new(), &pattern, false).unwrap();
        nccl.close().unwrap();
    }
}

#[test]
fn nccl_predicts_a_collective_without_running_it() {
    let fakes = Fakes::new(&["DEVICES=2"], &[]);
    let mut nccl = fakes.connect(2).unwrap();
    nccl.prepare(&setup(Dtype::Float, Some(RedOp::Sum), 0)).unwrap();
    assert_eq!(nccl.unpredictable(), None);
    for count in [1000, 2000] {
        nccl.predict().unwrap();
        // The fake cannot reduce over two ranks: it would fail if this were run, now or with the next group.
        nccl.group_start().unwrap();
        for local in 0..2 {
            nccl.select(local).unwrap();
            nccl.all_reduce(SEND, RECV, count).unwrap();
        }
        nccl.group_end().unwrap();
        let predicted = nccl.predicted().unwrap().unwrap();
        assert!((predicted - (10.0 + count as f64 * 4.0 / 1000.0)).abs() < 1e-3, "{predicted}");
    }
    nccl.group_start().unwrap();
    for local in 0..2 {
        nccl.select(local).unwrap();
        nccl.all_gather(SEND, RECV, 100).unwrap();
    }
    nccl.group_end().unwrap();
    nccl.wait(LONG).unwrap();
    assert_eq!(failure(nccl.predicted()).0, Exit::Library, "no group is open");
    nccl.close().unwrap();
}

#[test]
fn a_prediction_that_cannot_be_has_a_reason() {
    for (ranks, version, reason) in [
        (1, "VERSION=22803", Some("one rank")),
        (2, "VERSION=22200", None),
        (2, "VERSION=22105", Some("needs NCCL 2.22.0, this is 2.21.5")),
    ] {
        let fakes = Fakes::new(&["DEVICES=2"], &[version]);
        let mut nccl = fakes.connect(ranks).unwrap();
        assert_eq!(nccl.unpredictable().as_deref(), reason, "{ranks} {version}");
        nccl.close().unwrap();
    }
    let fakes = Fakes::new(&["DEVICES=2"], &["NO_ESTIMATE"]);
    let mut nccl = fakes.connect(2).unwrap();
    nccl.predict().unwrap();
    assert_eq!(nccl.predicted().unwrap(), None);
    nccl.close().unwrap();
}

#[test]
fn opening_tells_its_steps_and_leaving_comes_before_freeing() {
    let fakes = Fakes::new(&["DEVICES=2"], &[]);
    let early = fakes.open(&fakes.request(2)).unwrap();
    let names: Vec<_> = early.steps().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["libcuda and cuInit", "NCCL library", "driver version (NVML)", "GPU context"]);
    let mut nccl = fakes.connect(2).unwrap();
    nccl.disconnect().unwrap();
    assert_eq!((nccl.locals(), nccl.remains.len()), (0, 2));
    nccl.close().unwrap();
    assert!(nccl.remains.is_empty());
}

#[test]
fn a_gate_holds_until_it_is_opened() {
    let fakes = Fakes::new(&["DEVICES=2"], &[]);
    let mut nccl = fakes.connect_with(2, &Options { gate: true, ..Options::default() }).unwrap();
    nccl.prepare(&setup(Dtype::Float, None, 0)).unwrap();
    for _ in 0..2 {
        for local in 0..2 {
            nccl.select(local).unwrap();
            nccl.hold().unwrap();
        }
        assert!(nccl.poll(Duration::from_millis(20)).is_err(), "nobody has opened it");
        nccl.open();
        nccl.wait(LONG).unwrap();
    }
    assert!(!nccl.gave_up());
    nccl.close().unwrap();
}

#[test]
fn gates_are_made_where_they_are_asked_for_and_possible() {
    let fakes = Fakes::new(&[], &[]);
    let mut nccl = fakes.connect(1).unwrap();
    assert_eq!(failure(nccl.hold()).0, Exit::Setup);
    nccl.close().unwrap();
    let fakes = Fakes::new(&["NO_PAGES"], &[]);
    let gated = Options { gate: true, ..Options::default() };
    assert_eq!(failure(fakes.connect_with(1, &gated)).0, Exit::Unsupported);
}

#[test]
fn a_new_communicator_has_the_same_ranks_buffers_and_marks() {
    let fakes = Fakes::new(&["DEVICES=2"], &[]);
    let options = Options { register: Register::Local, memory: true, ..Options::default() };
    let mut nccl = fakes.connect_with(2, &options).unwrap();
    let work = |nccl: &mut Nccl| {
        // A reduction of the communicator's own, which must go with it.
        nccl.prepare(&setup(Dtype::Float, Some(RedOp::MulSum), 1)).unwrap();
        nccl.group_start().unwrap();
        for local in 0..2 {
            nccl.select(local).unwrap();
            nccl.mark(0).unwrap();
            nccl.all_gather(SEND, RECV, 100).unwrap();
            nccl.mark(1).unwrap();
        }
        nccl.group_end().unwrap();
        nccl.wait(LONG).unwrap();
        assert!(nccl.between_us(0, 1).unwrap() >= 0.0);
    };
    work(&mut nccl);
    let first = (nccl.locals(), nccl.rank(), nccl.ranks(), nccl.usage().unwrap().user_bytes);
    for _ in 0..2 {
        // The fake refuses a communicator that is left with a reduction or registered buffers, and a rank that is
        // there twice.
        nccl.disconnect().unwrap();
        let id = nccl.new_id().unwrap();
        assert_eq!(failure(nccl.reconnect(&id[1..])).0, Exit::Setup);
        nccl.reconnect(&id).unwrap();
        assert!(nccl.locals.iter().all(|local| local.registered.is_some()), "registered anew");
        work(&mut nccl);
        nccl.select(0).unwrap();
    }
    nccl.select(first.1).unwrap();
    assert_eq!((nccl.locals(), nccl.rank(), nccl.ranks(), nccl.usage().unwrap().user_bytes), first);
    nccl.close().unwrap();
}
