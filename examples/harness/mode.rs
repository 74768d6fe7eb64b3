//! The modes of the timed loop, and a bench that runs one.

use std::time::Duration;

use critrank::backend::Backend;
use critrank::collective::{ALL, Collective, Shares};
use critrank::error::{Error, Result};
use critrank::measure::{Bench, Blocking, Deadlines, Settings, Target};
use critrank::session::Control;
use critrank::session::watch::Progress;
use critrank::vocab::{Dtype, Placement, RedOp};

/// What the library may take for one operation, in ns, beside the mode's clock readings.
pub(crate) const ALLOWANCE_NS: f64 = 20.0;

/// `-z` and `-I`.
#[derive(Clone, Copy)]
pub(crate) struct Mode {
    pub(crate) z: u64,
    pub(crate) intervals: bool,
}

impl Mode {
    pub(crate) const PLAIN: Self = Self { z: 0, intervals: false };

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        [false, true].into_iter().flat_map(|intervals| (0..4).map(move |z| Self { z, intervals }))
    }

    pub(crate) fn blocking(self) -> Blocking {
        Blocking::from_flag(self.z)
    }

    pub(crate) fn name(self) -> String {
        format!("-z {}{}", self.z, if self.intervals { " -I 1" } else { "" })
    }

    /// Clock readings of one iteration; a mark on the host is one.
    pub(crate) fn readings(self) -> u32 {
        match (self.intervals, self.blocking()) {
            (false, Blocking::WaitThenBarrier) => 2,
            (false, _) => 0,
            (true, Blocking::None) => 3,
            (true, _) => 5,
        }
    }

    pub(crate) fn settings(self, iterations: u64, bytes: u64) -> Settings {
        Settings {
            iterations,
            aggregated: 1,
            warmup: 0,
            checks: 0,
            blocking: self.blocking(),
            per_iteration: self.intervals,
            graph: 0,
            explain: false,
            unalign: 0,
            // No room to rotate: the bare loop uses one place as well.
            max_bytes: bytes,
            deadlines: Deadlines { init: Duration::from_mins(1), every: None },
        }
    }
}

pub(crate) fn all_reduce() -> Result<Box<dyn Collective>> {
    let entry = ALL.iter().find(|entry| entry.name == "all_reduce");
    let entry = entry.ok_or_else(|| Error::Setup("there is no all_reduce".to_owned()))?;
    Ok((entry.build)(Shares::default()))
}

/// One block of our loop: µs per operation, as the table would show this rank's.
pub(crate) fn ours(
    backend: &mut dyn Backend,
    control: &dyn Control,
    collective: &dyn Collective,
    mode: Mode,
    iterations: u64,
    bytes: u64,
) -> Result<f64> {
    let progress = Progress::default();
    let mut bench = Bench::new(backend, control, &progress, collective, mode.settings(iterations, bytes));
    let target = Target { bytes, dtype: Dtype::Float, op: Some(RedOp::Sum), root: 0 };
    let (samples, _) = bench.placement(&target, Placement::OutOfPlace)?;
    samples.first().map(|sample| sample.total_us).ok_or_else(|| Error::Setup("no local rank".to_owned()))
}
