//! Where a process is, and the thread that ends the job when some rank stops moving.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a process is doing; what a deadline belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Libraries, GPU, agreement.
    Setup = 0,
    /// `ncclCommInitRank`.
    Init = 1,
    /// Buffers.
    Allocate = 2,
    /// First use of a case: connections are made here.
    FirstUse = 3,
    /// Warm-up.
    WarmUp = 4,
    /// The timed loop.
    Timed = 5,
    /// Filling and checking data.
    Check = 6,
    /// Gathering results, voting.
    Collect = 7,
    /// Closing communicator and files.
    Close = 8,
    /// Finished; nothing is awaited any more.
    Done = 9,
}

/// Progress of one process: written by the main thread with plain stores, read by the watchdog.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Cells>);

#[derive(Debug)]
struct Cells {
    origin: Instant,
    phase: AtomicU64,
    bytes: AtomicU64,
    step: AtomicU64,
    entered_ns: AtomicU64,
    deadline_ns: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(Cells {
            origin: Instant::now(),
            phase: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            step: AtomicU64::new(0),
            entered_ns: AtomicU64::new(0),
            deadline_ns: AtomicU64::new(u64::MAX),
        }))
    }
}

impl Progress {
    /// A new phase with its own deadline, counted from now.
    pub fn enter(&self, phase: Phase, deadline: Duration) {
        let now = self.0.origin.elapsed().as_nanos() as u64;
        self.0.entered_ns.store(now, Ordering::Relaxed);
        self.0.phase.store(phase as u64, Ordering::Relaxed);
        let limit = now.saturating_add(u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX));
        self.0.deadline_ns.store(limit, Ordering::Release);
    }

    /// The size that is being measured.
    pub fn size(&self, bytes: u64) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// One iteration further; a plain store, for the timed loop.
    pub fn step(&self, iteration: u64) {
        self.0.step.store(iteration, Ordering::Relaxed);
    }
}
