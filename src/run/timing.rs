//! Arrivals on one clock: when the clocks are compared, and what rank 0 makes of all ranks' readings.

use super::sweep::Gathered;
use crate::aggregate::{ClockError, RankSample, Series};
use crate::clock::{Fit, timer};
use crate::error::{Error, Result};
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

    /// This process's clock against the first's; every worker of every process calls this. Collective.
    pub(super) fn share(&self, bench: &Bench<'_>) -> Result<Fit> {
        let fits = self.clocks.as_ref().and_then(Clocks::fits);
        let told = bench.control.broadcast(serde_json::to_vec(&fits).unwrap_or_default())?;
        let fits: Option<Vec<Fit>> = serde_json::from_slice(&told).unwrap_or_default();
        let mine = bench.first_rank / self.ranks_per_process;
        let fit = fits.and_then(|fits| fits.get(mine as usize).copied());
        fit.ok_or_else(|| Error::Setup("process 0 does not know this process's clock".to_owned()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Checked;
    use crate::session::Abort;
    use crate::vocab::Placement;

    /// Process 0 of two, whose other one has a clock of its own, a second ahead.
    struct Pair;

    const AHEAD_NS: u64 = 1_000_000_000;

    impl Control for Pair {
        fn rank(&self) -> u32 {
            0
        }
        fn size(&self) -> u32 {
            2
        }
        fn barrier(&self) -> Result<()> {
            Ok(())
        }
        fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
            Ok(bytes)
        }
        fn gather(&self, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
            Ok(Some(vec![bytes.to_vec(), b"another clock".to_vec()]))
        }
        fn vote(&self, value: u64) -> Result<u64> {
            Ok(value)
        }
        fn tell(&self, _to: u32, _word: u64) -> Result<()> {
            Ok(())
        }
        fn hear(&self, _from: u32) -> Result<u64> {
            Ok(monotonic_ns() + AHEAD_NS)
        }
        fn abort(&self) -> Abort {
            std::sync::Arc::new(|_| ())
        }
    }

    #[test]
    fn readings_of_all_hosts_come_onto_one_clock() {
        let pair = Pair;
        let mut timing = Timing::new(Some(&pair), 2).unwrap();
        let now_us = monotonic_ns() as f64 / 1e3;
        timing.sync().unwrap();
        // Two ranks a process; rank r calls r * 10 us after rank 0, by its own host's clock.
        let sample = |rank: u32| {
            let ahead_us = if rank < 2 { 0.0 } else { AHEAD_NS as f64 / 1e3 };
            let at_us = now_us + ahead_us + 10.0 * f64::from(rank);
            let series = Series {
                arrival_us: vec![at_us],
                exit_us: vec![at_us + 1.0],
                gpu_us: vec![[at_us + 2.0, at_us + 3.0]],
                ..Series::default()
            };
            RankSample { rank, total_us: 0.0, cpu_us: 0.0, series, tally: None }
        };
        let mut gathered = Gathered {
            placement: Placement::OutOfPlace,
            samples: (0..4).map(sample).collect(),
            checked: Checked::default(),
            clock_error: Some(ClockError { host_us: 0.25, gpu_us: Some(1.25) }),
            stop: None,
        };
        timing.place(&mut gathered);
        let error = gathered.clock_error.unwrap();
        let clocks_us = error.host_us - 0.5;
        assert!(clocks_us > 0.0 && clocks_us < 1000.0, "{error:?}");
        assert!((error.gpu_us.unwrap() - clocks_us - 2.5).abs() < 1e-9, "{error:?}");
        for sample in &gathered.samples {
            let wanted_us = 10.0 * f64::from(sample.rank);
            let Series { arrival_us, exit_us, gpu_us, .. } = &sample.series;
            let found = [arrival_us[0], exit_us[0] - 1.0, gpu_us[0][0] - 2.0, gpu_us[0][1] - 3.0];
            let slack_us = clocks_us + 0.01;
            assert!(found.iter().all(|us| (us - wanted_us).abs() < slack_us), "{found:?} {wanted_us}");
        }
    }
}
