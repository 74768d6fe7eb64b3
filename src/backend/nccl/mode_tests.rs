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
