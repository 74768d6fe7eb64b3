//! Arrivals on one clock: when the clocks are compared, and what rank 0 makes of all ranks' readings.

use super::sweep::Gathered;
use crate::aggregate::{ClockError, RankSample, Series};
use crate::clock::timer;
use crate::error::Result;
use crate::measure::Bench;
use crate::report::record::{ClockState, Event};
use crate::session::Control;
use crate::session::sync::{Clocks, monotonic_ns};

/// One worker's part.
pub(super) struct Timing<'a> {
    /// At a process's first thread.
    clocks: Option<Clocks<'a>>,
    /// Ranks of a process.
    ranks_per_process: u32,
}

impl<'a> Timing<'a> {
    /// `process` talks to other processes, and is there at a process's first thread only. Collective.
    pub(super) fn new(process: Option<&'a dyn Control>, ranks_per_process: u32) -> Result<Self> {
        let mut timing = Self { clocks: process.map(Clocks::new).transpose()?, ranks_per_process };
        timing.sync()?;
        Ok(timing)
    }

    /// One more point of every clock. Collective.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.clocks.as_mut().map_or(Ok(()), Clocks::sync)
    }

    /// Bare barriers, and all local readings on the machine's clock; the largest error of that. Collective.
    pub(super) fn exits(bench: &mut Bench<'_>, samples: &mut [RankSample]) -> Result<ClockError> {
        let (host_us, gpu_us) = bench.exits(samples)?;
        let worst = |us: f64| bench.control.vote((us * 1e3).ceil() as u64).map(|ns| ns as f64 / 1e3);
        Ok(ClockError { host_us: worst(host_us)?, gpu_us: gpu_us.map(worst).transpose()? })
    }

    /// At rank 0, between two calls of `sync`: all ranks' readings on process 0's clock, from the first call on.
    pub(super) fn place(&self, gathered: &mut Gathered) {
        let (Some(clocks), Some(error)) = (&self.clocks, gathered.clock_error) else { return };
        for sample in &mut gathered.samples {
            let Some(fit) = clocks.fit(sample.rank / self.ranks_per_process) else { return };
            readings(&mut sample.series).for_each(|time| *time = fit.to_own_us(*time));
        }
        let arrivals = gathered.samples.iter().filter_map(|sample| sample.series.arrival_us.first());
        let zero_us = arrivals.copied().fold(f64::INFINITY, f64::min);
        for sample in &mut gathered.samples {
            // Whole ns: the clock has no more, and the record stays short.
            readings(&mut sample.series).for_each(|time| *time = ((*time - zero_us) * 1e3).round() / 1e3);
        }
        // Both ranks of a pair may be off.
        let between = |own_us: f64| 2.0 * own_us + clocks.error_us();
        gathered.clock_error =
            Some(ClockError { host_us: between(error.host_us), gpu_us: error.gpu_us.map(between) });
    }

    /// For the record, and in words.
    pub(super) fn account(&self) -> Option<(Event, String)> {
        let clocks = self.clocks.as_ref()?;
        let timer = timer(monotonic_ns);
        let others: Vec<ClockState> = clocks
            .states()
            .map(|(process, point, fit)| ClockState {
                process,
                offset_us: point.offset_ns / 1e3,
                error_us: fit.error_ns / 1e3,
                round_trip_us: point.round_trip_ns as f64 / 1e3,
                drift_ppm: fit.drift_ppm,
            })
            .collect();
        let trip_us = others.iter().map(|clock| clock.round_trip_us).fold(0.0, f64::max);
        let hosts = match others.len() {
            0 => "all ranks share one clock".to_owned(),
            more => format!(
                "{} clocks, no two ranks off by more than {:.2} us, slowest host answers in {trip_us:.2} us",
                more + 1,
                clocks.error_us()
            ),
        };
        let text = format!(
            "clock: {hosts}; a reading costs {:.0} ns, its step is {} ns",
            timer.cost_ns, timer.resolution_ns
        );
        Some((Event::Clocks { timer, others }, text))
    }
}

/// All readings of a clock, of calls, GPUs and bare barriers.
fn readings(series: &mut Series) -> impl Iterator<Item = &mut f64> {
    let Series { arrival_us, exit_us, gpu_us, .. } = series;
    arrival_us.iter_mut().chain(exit_us).chain(gpu_us.iter_mut().flatten())
}
