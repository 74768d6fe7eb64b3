//! What the judgement of arrivals needs beside the timed loop's own readings: bare barriers, and the host's clock.

use super::{Bench, Blocking, Settings};
use crate::aggregate::RankSample;
use crate::error::Result;
use crate::session::sync::monotonic_ns;
use crate::session::watch::Phase;
use crate::vocab::{Corruption, Inject};

/// Bare barriers of a placement: as many as iterations, within these.
const BARRIERS: (u64, u64) = (30, 200);
/// Readings to tie the backend's clock to the machine's.
const TIES: usize = 20;

/// A local rank that is delayed before every call, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Which local rank.
    pub local: u32,
    /// By how much, in ns.
    pub ns: u64,
}

impl Delay {
    /// What `inject` asks of the process that drives `ranks`.
    pub fn of(inject: &[Inject], ranks: std::ops::Range<u32>) -> Option<Self> {
        inject.iter().find_map(|fault| match *fault {
            Inject::Late { rank, delay_ns } if ranks.contains(&rank) => {
                Some(Self { local: rank - ranks.start, ns: delay_ns })
            }
            _ => None,
        })
    }
}

/// Which local rank of the process that drives `ranks` has a bit of its results flipped.
pub fn flipped(inject: &[Inject], ranks: std::ops::Range<u32>) -> Option<u32> {
    inject.iter().find_map(|fault| match fault {
        Inject::Corrupt { rank, how: Corruption::Flipped } if ranks.contains(rank) => {
            Some(rank - ranks.start)
        }
        _ => None,
    })
}

impl Bench<'_> {
    /// Whether the loop reads when each rank calls and is done, from a common start; the marks of several blocks are gone.
    pub fn knows_arrivals(&self) -> bool {
        let Settings { per_iteration, blocking, graph, .. } = self.settings;
        per_iteration && (blocking.meets() || blocking == Blocking::Gate) && graph == 0 && self.rule.is_none()
    }

    /// Adds the exits of bare barriers to each local rank's sample, and moves its readings from the backend's clock
    /// to the machine's, GPU events included. Returns the error of that, in µs: the host's, and the GPUs' where there
    /// are any. Collective.
    pub fn exits(&mut self, samples: &mut [RankSample]) -> Result<(f64, Option<f64>)> {
        let gpu_error_us = self.gpu_times(samples)?;
        let barriers = self.settings.iterations.clamp(BARRIERS.0, BARRIERS.1);
        self.progress.enter(Phase::Collect, self.settings.deadlines.later(self.expected(barriers)));
        for sample in &mut *samples {
            sample.series.exit_us = Vec::with_capacity(barriers as usize);
        }
        for _ in 0..barriers {
            self.barrier()?;
            for (local, sample) in (0..).zip(&mut *samples) {
                self.backend.select(local)?;
                sample.series.exit_us.push(self.backend.now() as f64 / 1e3);
            }
        }
        let (ahead_us, error_us) = self.ahead_us();
        for sample in samples {
            let series = &mut sample.series;
            for time in series.arrival_us.iter_mut().chain(&mut series.exit_us) {
                *time += ahead_us;
            }
            for time in series.gpu_us.iter_mut().flatten() {
                *time += ahead_us;
            }
        }
        Ok((error_us, gpu_error_us.map(|gpu_us| gpu_us + error_us)))
    }

    /// The loop's marks on the host's clock, where a GPU set them; the largest error of all local ranks, in µs.
    fn gpu_times(&mut self, samples: &mut [RankSample]) -> Result<Option<f64>> {
        let mut error_us: Option<f64> = None;
        for (local, sample) in (0..).zip(samples) {
            self.backend.select(local)?;
            let Some(anchor) = self.backend.anchor()? else { return Ok(None) };
            let at_us = anchor.at_ns as f64 / 1e3;
            let mut far_us = 0.0_f64;
            for iteration in 0..self.settings.iterations as usize {
                let mut time_us = |mark: usize| -> Result<f64> {
                    let until_us = self.backend.until_anchor_us(mark)?;
                    far_us = far_us.max(until_us.abs());
                    Ok(at_us - until_us)
                };
                sample.series.gpu_us.push([time_us(2 * iteration)?, time_us(2 * iteration + 1)?]);
            }
            // CUDA's distance between events is a float of ms: half a unit of its last place.
            let rounding_us = far_us * f64::from(f32::EPSILON) / 2.0;
            error_us = Some(error_us.unwrap_or(0.0).max(anchor.error_ns as f64 / 1e3 + rounding_us));
        }
        Ok(error_us)
    }

    /// How far the machine's clock is ahead of the backend's, and half the distance of the readings that tell. A
    /// simulation's clock is its own, and common to all its ranks.
    fn ahead_us(&mut self) -> (f64, f64) {
        if self.backend.caps().simulated {
            return (0.0, 0.0);
        }
        let mut best = (0.0, f64::INFINITY);
        for _ in 0..TIES {
            let before = monotonic_ns();
            let between = self.backend.now();
            let error_us = monotonic_ns().saturating_sub(before) as f64 / 2e3;
            if error_us < best.1 {
                best = (before as f64 / 1e3 + error_us - between as f64 / 1e3, error_us);
            }
        }
        best
    }
}
