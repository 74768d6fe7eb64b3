//! How the loop runs, from the command line.

use std::time::Duration;

use crate::cli::Cli;
use crate::collective::Case;
use crate::vocab::GATE;

/// `-z`: what happens behind each iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// 0: nothing; all operations are enqueued, then awaited once.
    None,
    /// 1: wait, then barrier; both are in the time.
    WaitAndBarrier,
    /// 2: wait.
    Wait,
    /// 3: wait, then a barrier outside the time.
    WaitThenBarrier,
    /// G: gates hold all ranks' streams until a time that they agree on; wait.
    Gate,
}

impl Blocking {
    /// From the number of `-z`.
    pub const fn from_flag(flag: u64) -> Self {
        match flag {
            0 => Self::None,
            1 => Self::WaitAndBarrier,
            2 => Self::Wait,
            flag if flag == GATE as u64 => Self::Gate,
            _ => Self::WaitThenBarrier,
        }
    }

    /// Whether each iteration is awaited.
    pub const fn waits(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether an iteration's time is from its own start to its own end, with nothing of what is between iterations.
    pub const fn is_apart(self) -> bool {
        matches!(self, Self::WaitThenBarrier | Self::Gate)
    }

    /// Whether all processes meet after each iteration, so that the next starts together.
    pub const fn meets(self) -> bool {
        matches!(self, Self::WaitAndBarrier | Self::WaitThenBarrier)
    }
}

/// How long each phase may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// `--timeout-init`.
    pub init: Duration,
    /// `-T`, where given.
    pub every: Option<Duration>,
}

impl Deadlines {
    /// First use of a size: connections are made, kernels loaded.
    pub fn first_use(&self) -> Duration {
        self.every.unwrap_or(Duration::from_mins(15))
    }

    /// Anything that should take `expected`.
    pub fn later(&self, expected: Duration) -> Duration {
        self.every.unwrap_or(Duration::from_mins(1) + expected * 20)
    }
}

/// Buffers lie each behind the last while there is room, so that caches do not hold them and a message that arrives
/// late hits another buffer. Source: nccl-tests, `startColl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rotation {
    base: u64,
    total: u64,
    places: u64,
}

impl Rotation {
    /// Bytes before the buffers of operation `index`.
    #[inline]
    pub(super) fn shift(self, index: u64) -> u64 {
        // No division where there is one place: it costs as much as a virtual call.
        if self.places == 1 { self.base } else { self.base + self.total * (index % self.places) }
    }
}

/// Everything that the loop depends on; equal on every rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `-n`.
    pub iterations: u64,
    /// `-m`.
    pub aggregated: u64,
    /// `-w`.
    pub warmup: u64,
    /// `-c`.
    pub checks: u64,
    /// `-z`.
    pub blocking: Blocking,
    /// `-I`.
    pub per_iteration: bool,
    /// `-G`: launches of the captured loop; 0 captures nothing.
    pub graph: u64,
    /// `--explain`: one more call of each row, untimed, of which the library tells how it runs it.
    pub explain: bool,
    /// `-u`, in elements.
    pub unalign: u64,
    /// Largest size of the sweep, in bytes: the room in which buffers rotate.
    pub max_bytes: u64,
    /// Deadlines.
    pub deadlines: Deadlines,
}

impl Settings {
    /// The command line's, for buffers of `max_bytes`.
    pub fn new(cli: &Cli, max_bytes: u64) -> Self {
        Self {
            iterations: cli.iterations,
            aggregated: cli.aggregated,
            warmup: cli.warmup,
            checks: cli.checks,
            blocking: Blocking::from_flag(cli.blocking),
            per_iteration: cli.per_iteration == 1,
            graph: cli.graph,
            explain: cli.explain,
            unalign: cli.unalign,
            max_bytes,
            deadlines: Self::deadlines(cli),
        }
    }

    /// The command line's deadlines.
    pub fn deadlines(cli: &Cli) -> Deadlines {
        Deadlines {
            init: Duration::from_secs(cli.timeout_init),
            every: (cli.timeout > 0).then(|| Duration::from_secs(cli.timeout)),
        }
    }

    /// Where buffers start: misaligned by `-u`, in bytes.
    pub(super) fn base(&self, case: &Case) -> u64 {
        self.unalign * case.dtype.bytes()
    }

    /// Where a case's buffers rotate.
    pub(super) fn rotation(&self, case: &Case) -> Rotation {
        let total = case.layout.span() * case.dtype.bytes();
        let places = self.max_bytes.checked_div(total).unwrap_or(1).max(1);
        Rotation { base: self.base(case), total, places }
    }

    /// Where operation `index` has its buffers, in bytes.
    pub(super) fn shift(&self, case: &Case, index: u64) -> u64 {
        self.rotation(case).shift(index)
    }

    /// Operations between the two readings of the clock.
    pub(super) fn operations(&self) -> u64 {
        self.iterations.saturating_mul(self.aggregated).saturating_mul(self.graph.max(1))
    }

    /// Marks that the loop sets per rank.
    pub fn marks(&self) -> usize {
        let iterations = self.iterations as usize;
        match (self.per_iteration, self.blocking) {
            (false, _) => 0,
            (true, Blocking::None) => iterations + 1,
            (true, _) => 2 * iterations + 1,
        }
    }
}
