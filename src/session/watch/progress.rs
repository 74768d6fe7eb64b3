//! Where a process is: written by its main thread with plain stores, read by its watchdog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{SHORTEST_TICK, TICK};

/// What a process is doing; what a deadline belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Phase {
    /// Libraries, GPU, agreement.
    #[default]
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
    /// Tests of groups and pairs.
    Localise = 10,
    /// Leaving the communicator and making the next epoch's.
    Renew = 11,
}

impl Phase {
    /// Every phase, in order of its number.
    const ALL: [Self; 12] = [
        Self::Setup,
        Self::Init,
        Self::Allocate,
        Self::FirstUse,
        Self::WarmUp,
        Self::Timed,
        Self::Check,
        Self::Collect,
        Self::Close,
        Self::Done,
        Self::Localise,
        Self::Renew,
    ];

    /// As a message says it, behind "in".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Setup => "set-up",
            Self::Init => "communicator init",
            Self::Allocate => "buffer allocation",
            Self::FirstUse => "the first use of a case",
            Self::WarmUp => "warm-up",
            Self::Timed => "the timed loop",
            Self::Check => "the data check",
            Self::Collect => "the gathering of results",
            Self::Close => "closing",
            Self::Done => "nothing, it has finished",
            Self::Localise => "a test of groups or pairs",
            Self::Renew => "communicator init of a later epoch",
        }
    }
}

/// Where one process stands at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stand {
    /// What it is doing.
    pub phase: Phase,
    /// The size that is being measured, in bytes.
    pub bytes: u64,
    /// Iterations begun in this phase.
    pub step: u64,
    /// Phases entered so far. Every rank enters the same phases in the same order, so this orders ranks.
    pub sequence: u64,
    /// How long it has been in the phase, in ms.
    pub in_phase_ms: u64,
    /// How long the phase may last, in ms.
    pub limit_ms: u64,
    /// The kernel's letter for the main thread (R runs, S sleeps, D waits in the kernel, T stopped); `?` unknown.
    pub thread: char,
}

impl Stand {
    /// What orders ranks: the smallest is behind.
    pub(super) fn key(&self) -> (u64, u64) {
        (self.sequence, self.step)
    }
}

/// Progress of one process.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Cells>);

#[derive(Debug)]
struct Cells {
    origin: Instant,
    phase: AtomicU64,
    bytes: AtomicU64,
    step: AtomicU64,
    sequence: AtomicU64,
    entered_ns: AtomicU64,
    deadline_ns: AtomicU64,
    pace_ns: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(Cells {
            origin: Instant::now(),
            phase: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            step: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            entered_ns: AtomicU64::new(0),
            deadline_ns: AtomicU64::new(u64::MAX),
            pace_ns: AtomicU64::new(u64::MAX),
        }))
    }
}

impl Progress {
    /// A new phase with its own deadline, counted from now. Every rank enters the same phases in the same order.
    pub fn enter(&self, phase: Phase, deadline: Duration) {
        let now = self.now_ns();
        // The deadline goes up first: the watchdog must never hold the old phase's against the new one.
        self.0.deadline_ns.store(u64::MAX, Ordering::SeqCst);
        self.0.entered_ns.store(now, Ordering::Relaxed);
        self.0.step.store(0, Ordering::Relaxed);
        self.0.phase.store(phase as u64, Ordering::Relaxed);
        self.0.sequence.fetch_add(1, Ordering::Relaxed);
        let limit = now.saturating_add(u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX));
        self.0.deadline_ns.store(limit, Ordering::SeqCst);
    }

    /// The size that is being measured.
    pub fn size(&self, bytes: u64) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// One iteration further; a plain store, for the timed loop.
    pub fn step(&self, iteration: u64) {
        self.0.step.store(iteration, Ordering::Relaxed);
    }

    /// What the process is doing.
    pub fn phase(&self) -> Phase {
        Phase::ALL.get(self.0.phase.load(Ordering::Relaxed) as usize).copied().unwrap_or(Phase::Done)
    }

    /// Time until the deadline; zero once it has passed, `None` where there is none.
    pub(super) fn left(&self) -> Option<Duration> {
        let now = self.now_ns();
        match self.0.deadline_ns.load(Ordering::SeqCst) {
            u64::MAX => None,
            limit => Some(Duration::from_nanos(limit.saturating_sub(now))),
        }
    }

    /// The shortest deadline that a phase will have: nobody tells a sleeping watchdog of a new phase.
    pub fn pace(&self, shortest: Duration) {
        let shortest = u64::try_from(shortest.as_nanos()).unwrap_or(u64::MAX);
        self.0.pace_ns.store(shortest, Ordering::Relaxed);
    }

    /// How long the watchdog may sleep: a tenth of the shortest deadline, within bounds.
    pub(super) fn tick(&self) -> Duration {
        let tenth = Duration::from_nanos(self.0.pace_ns.load(Ordering::Relaxed) / 10);
        tenth.clamp(SHORTEST_TICK, TICK)
    }

    /// Gives the phase `more` time: the whole process was stopped for so long, its work with it.
    pub(super) fn extend(&self, more: Duration) {
        let more = u64::try_from(more.as_nanos()).unwrap_or(u64::MAX);
        let limit = self.0.deadline_ns.load(Ordering::SeqCst);
        let later = limit.saturating_add(more);
        // Lost against a phase that starts at this moment, as it should be.
        let _ = self.0.deadline_ns.compare_exchange(limit, later, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Everything at once, for a report.
    pub(super) fn stand(&self) -> Stand {
        let entered = self.0.entered_ns.load(Ordering::Relaxed);
        let limit = self.0.deadline_ns.load(Ordering::Relaxed);
        Stand {
            phase: self.phase(),
            bytes: self.0.bytes.load(Ordering::Relaxed),
            step: self.0.step.load(Ordering::Relaxed),
            sequence: self.0.sequence.load(Ordering::Relaxed),
            in_phase_ms: self.now_ns().saturating_sub(entered) / 1_000_000,
            limit_ms: limit.saturating_sub(entered) / 1_000_000,
            thread: '?',
        }
    }

    fn now_ns(&self) -> u64 {
        self.0.origin.elapsed().as_nanos() as u64
    }
}

/// The kernel's letter for this process's main thread.
pub(super) fn main_thread() -> char {
    let path = format!("/proc/self/task/{}/stat", std::process::id());
    let stat = std::fs::read_to_string(path).unwrap_or_default();
    // The name before it may hold blanks and brackets.
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_has_its_own_deadline_and_steps() {
        let progress = Progress::default();
        assert_eq!(progress.left(), None);
        progress.enter(Phase::Timed, Duration::from_secs(5));
        progress.size(1024);
        progress.step(7);
        let stand = progress.stand();
        assert_eq!((stand.phase, stand.bytes, stand.step, stand.sequence), (Phase::Timed, 1024, 7, 1));
        assert_eq!(stand.limit_ms, 5000);
        assert!(progress.left().is_some_and(|left| left > Duration::from_secs(4)));
        progress.extend(Duration::from_secs(10));
        assert!(progress.left().is_some_and(|left| left > Duration::from_secs(14)));
        progress.enter(Phase::Done, Duration::MAX);
        assert_eq!((progress.left(), progress.stand().step), (None, 0));
    }

    #[test]
    fn the_main_thread_has_a_letter() {
        assert!(main_thread().is_ascii_uppercase());
    }
}
