//! The timed loop allocates nothing: in every mode, for every collective, with one local rank and with several.
#![allow(clippy::unwrap_used, missing_docs)]
#![expect(unsafe_code, reason = "an allocator is unsafe by its trait")]

#[path = "../examples/harness/null.rs"]
mod null;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use critrank::backend::Backend;
use critrank::collective::{ALL, Shares};
use critrank::measure::{Bench, Blocking, Deadlines, Settings, Target};
use critrank::session::solo::Solo;
use critrank::session::watch::Progress;
use critrank::vocab::{Dtype, GATE, Placement, RedOp};

use null::Null;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// Of this thread: other tests and the harness allocate as they like.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
}

/// The backend's clock: what it counts from the loop's first reading to its last are the loop's allocations.
fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

// SAFETY: the system's allocator does the work; counting touches a thread-local integer that needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn settings((z, per_iteration, graph): (u64, bool, u64), aggregated: u64) -> Settings {
    Settings {
        iterations: 50,
        aggregated,
        warmup: 1,
        checks: 0,
        blocking: Blocking::from_flag(z),
        per_iteration,
        graph,
        explain: false,
        unalign: 0,
        max_bytes: 1 << 20,
        deadlines: Deadlines { init: Duration::from_secs(1), every: None },
    }
}

#[test]
fn the_timed_loop_allocates_nothing() {
    let before = allocations();
    drop(std::hint::black_box(vec![0_u8; 100]));
    assert_eq!(allocations() - before, 2, "the allocator does not count");
    // `-z`, `-I`, `-G`: gates imply -I 1, and a recording is timed as a whole.
    let loops = (0..4).flat_map(|z| [(z, false, 0), (z, true, 0)]);
    for mode in loops.chain([(u64::from(GATE), true, 0), (0, false, 3), (3, false, 3)]) {
        for (aggregated, ranks) in [(1, 1), (1, 4), (4, 1), (4, 4)] {
            let settings = settings(mode, aggregated);
            let mut null = Null::new(ranks, allocations);
            null.allocate(settings.max_bytes, settings.marks()).unwrap();
            for entry in &ALL {
                let collective = (entry.build)(Shares::default());
                let op = collective.traits().reduces.then_some(RedOp::Sum);
                let target = Target { bytes: 4096, dtype: Dtype::Float, op, root: 0 };
                for placement in Placement::BOTH {
                    let progress = Progress::default();
                    let mut bench = Bench::new(&mut null, &Solo, &progress, &*collective, settings);
                    bench.placement(&target, placement).unwrap();
                    let what = format!("{} {placement:?} {mode:?} -m {aggregated} -g {ranks}", entry.name);
                    assert_eq!(null.counted(), 0, "{what}");
                }
            }
        }
    }
}
