//! When each rank called and was done, per iteration, on one clock: skew, who came last, makespan.

use serde::{Deserialize, Serialize};

use super::RankSample;
use crate::stats::{median, nearest_rank, sorted};

/// Samples from which a P95 says more than the maximum. Source: docs/METHODOLOGY.md.
const NEEDED_FOR_P95: usize = 20;
/// Ranks that are listed.
const LISTED: usize = 4;

/// Over iterations, in µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub p50_us: f64,
    /// Nearest rank; absent below 20 iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_us: Option<f64>,
    /// Largest.
    pub max_us: f64,
}

impl Spread {
    fn over(values_us: &[f64]) -> Option<Self> {
        let sorted = sorted(values_us);
        let p95_us = nearest_rank(&sorted, 95).filter(|_| sorted.len() >= NEEDED_FOR_P95);
        Some(Self { p50_us: median(values_us)?, p95_us, max_us: *sorted.last()? })
    }
}

/// How often one rank was the last to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Last {
    /// The rank.
    pub rank: u32,
    /// Share of the iterations in which it was last, in percent.
    pub share_pct: f64,
    /// How far it was behind the middle rank, median over all iterations, in µs.
    pub behind_us: f64,
}

/// Starts and ends of the operation's kernels, between the marks around them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OnGpu {
    /// No two ranks' times are further off each other than this, in µs.
    pub clock_error_us: f64,
    /// Last start − first start.
    pub skew: Spread,
    /// Last end − first start.
    pub makespan: Spread,
    /// Last end − last start.
    pub from_last: Spread,
}

/// Arrivals and ends of one placement's iterations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// No two ranks' times are further off each other than this, in µs.
    pub clock_error_us: f64,
    /// Last arrival − first arrival.
    pub skew: Spread,
    /// The same behind bare barriers, right after the timed loop: what the barrier itself leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_skew: Option<Spread>,
    /// Last end − first arrival.
    pub makespan: Spread,
    /// Last end − last arrival: the operation without the wait for the last rank.
    pub from_last: Spread,
    /// Who was last most often, up to four ranks. Often last alone accuses nobody: a barrier's order of exit may be
    /// fixed.
    pub last: Vec<Last>,
    /// The same by the GPUs' marks; absent without GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<OnGpu>,
}

/// The ranks' series as they are needed here: `[rank][iteration]`.
#[derive(Clone, Debug, Default)]
pub(super) struct Times<'a> {
    pub(super) ranks: Vec<u32>,
    pub(super) arrivals_us: Vec<&'a [f64]>,
    pub(super) exits_us: Vec<&'a [f64]>,
}

impl<'a> Times<'a> {
    /// `None` where not every rank has all of them, or there is nobody to compare with.
    pub(super) fn of(samples: &'a [RankSample], skip: usize) -> Option<Self> {
        let length = samples.first()?.series.arrival_us.len();
        let same = |sample: &RankSample| sample.series.arrival_us.len() == length;
        if samples.len() < 2 || length <= skip || !samples.iter().all(same) {
            return None;
        }
        Some(Self {
            ranks: samples.iter().map(|sample| sample.rank).collect(),
            arrivals_us: samples.iter().map(|sample| &sample.series.arrival_us[skip..]).collect(),
            exits_us: samples.iter().map(|sample| sample.series.exit_us.as_slice()).collect(),
        })
    }
}

/// Every iteration's times of all ranks, in rank order.
pub(super) fn columns<'a>(series: &'a [&'a [f64]]) -> impl Iterator<Item = Vec<f64>> + 'a {
    let length = series.iter().map(|times| times.len()).min().unwrap_or(0);
    (0..length).map(|at| series.iter().map(|times| times[at]).collect())
}

/// The middle rank's time; of two middle ones the earlier, so that of two ranks it is the first.
pub(super) fn middle(times: &[f64]) -> f64 {
    let sorted = sorted(times);
    sorted.get((sorted.len().max(1) - 1) / 2).copied().unwrap_or(0.0)
}

pub(super) fn first(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(super) fn last(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// How far times may be off between any two ranks, in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockError {
    /// The hosts' readings.
    pub host_us: f64,
    /// The GPUs' marks, where there are any.
    pub gpu_us: Option<f64>,
}

impl ClockError {
    /// What `arrivals` were told with.
    pub fn of(arrivals: &Arrivals) -> Self {
        let gpu_us = arrivals.gpu.map(|gpu| gpu.clock_error_us);
        Self { host_us: arrivals.clock_error_us, gpu_us }
    }
}

/// What the samples of one placement say; `aggregated` (`-m`) operations make an iteration. `None` where arrivals
/// are not known.
pub fn arrivals(samples: &[RankSample], error: ClockError, skip: usize, aggregated: u64) -> Option<Arrivals> {
    let times = Times::of(samples, skip)?;
    // Completion is per operation.
    let ends: Vec<Vec<f64>> = samples
        .iter()
        .map(|sample| {
            let series = &sample.series;
            let end = |(arrival, completion): (&f64, &f64)| arrival + completion * aggregated as f64;
            series.arrival_us.iter().zip(&series.completion_us).skip(skip).map(end).collect()
        })
        .collect();
    let [skew, makespan, from_last] = spans(&times.arrivals_us, &slices(&ends))?;
    let exits: Vec<f64> = columns(&times.exits_us).map(|exits| last(&exits) - first(&exits)).collect();
    let gpu = error.gpu_us.and_then(|clock_error_us| on_gpu(samples, clock_error_us, skip));
    Some(Arrivals {
        clock_error_us: error.host_us,
        skew,
        exit_skew: Spread::over(&exits),
        makespan,
        from_last,
        last: ranking(&times)?,
        gpu,
    })
}

/// Skew, makespan, and the time from the last start, over iterations.
fn spans(starts: &[&[f64]], ends: &[&[f64]]) -> Option<[Spread; 3]> {
    let (mut skews, mut makespans, mut from_last) = (Vec::new(), Vec::new(), Vec::new());
    for (started, ended) in columns(starts).zip(columns(ends)) {
        let (begin, latest, end) = (first(&started), last(&started), last(&ended));
        skews.push(latest - begin);
        makespans.push(end - begin);
        from_last.push(end - latest);
    }
    Some([Spread::over(&skews)?, Spread::over(&makespans)?, Spread::over(&from_last)?])
}

fn on_gpu(samples: &[RankSample], clock_error_us: f64, skip: usize) -> Option<OnGpu> {
    let of = |which: usize| -> Vec<Vec<f64>> {
        let marks =
            |sample: &RankSample| sample.series.gpu_us.iter().skip(skip).map(|pair| pair[which]).collect();
        samples.iter().map(marks).collect()
    };
    let (starts, ends) = (of(0), of(1));
    let [skew, makespan, from_last] = spans(&slices(&starts), &slices(&ends))?;
    Some(OnGpu { clock_error_us, skew, makespan, from_last })
}

fn slices(series: &[Vec<f64>]) -> Vec<&[f64]> {
    series.iter().map(Vec::as_slice).collect()
}

/// Who was last most often.
fn ranking(times: &Times<'_>) -> Option<Vec<Last>> {
    let mut lasts = vec![0_usize; times.ranks.len()];
    let mut behind = vec![Vec::new(); times.ranks.len()];
    for arrived in columns(&times.arrivals_us) {
        let middle = middle(&arrived);
        for (place, time) in arrived.iter().enumerate() {
            behind[place].push(time - middle);
            // Of ranks that came at the same reading none is the last.
            let alone = arrived.iter().filter(|other| *other >= time).count() == 1;
            lasts[place] += usize::from(alone);
        }
    }
    let mut ranked = Vec::new();
    for (place, rank) in times.ranks.iter().enumerate() {
        let share_pct = 100.0 * lasts[place] as f64 / behind[place].len() as f64;
        ranked.push(Last { rank: *rank, share_pct, behind_us: median(&behind[place])? });
    }
    ranked.sort_by(|a, b| b.share_pct.total_cmp(&a.share_pct));
    ranked.truncate(LISTED);
    Some(ranked)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the values are exact")]
mod tests {
    use super::*;
    use crate::aggregate::Series;

    const HALF: ClockError = ClockError { host_us: 0.5, gpu_us: None };

    fn sample(rank: u32, arrival_us: &[f64], completion_us: &[f64], exit_us: &[f64]) -> RankSample {
        let series = Series {
            arrival_us: arrival_us.to_vec(),
            completion_us: completion_us.to_vec(),
            exit_us: exit_us.to_vec(),
            ..Series::default()
        };
        RankSample { rank, total_us: 0.0, cpu_us: 0.0, series, tally: None }
    }

    #[test]
    fn the_figures_of_three_ranks() {
        let samples = [
            sample(0, &[0.0, 100.0, 200.0], &[10.0, 9.0, 4.0], &[1.0, 2.0]),
            sample(1, &[3.0, 101.0, 203.0], &[4.0, 10.0, 1.0], &[1.5, 2.0]),
            sample(2, &[1.0, 105.0, 203.0], &[5.0, 3.0, 2.0], &[0.0, 2.5]),
        ];
        let found = arrivals(&samples, HALF, 0, 2).unwrap();
        let spread = |p50_us, max_us| Spread { p50_us, p95_us: None, max_us };
        assert_eq!(found.skew, spread(3.0, 5.0));
        assert_eq!(found.exit_skew, Some(spread(1.0, 1.5)));
        // Ends, two operations an iteration: 20, 11, 11; 118, 121, 111; 208, 205, 207.
        assert_eq!(found.makespan, spread(20.0, 21.0));
        assert_eq!(found.from_last, spread(16.0, 17.0));
        let third = 100.0 / 3.0;
        assert_eq!(found.last[0], Last { rank: 1, share_pct: third, behind_us: 0.0 });
        assert_eq!(found.last[1], Last { rank: 2, share_pct: third, behind_us: 0.0 });
        assert_eq!(found.last[2], Last { rank: 0, share_pct: 0.0, behind_us: -1.0 });
        assert_eq!(found.clock_error_us, 0.5);
        let skipped = arrivals(&samples, HALF, 2, 2).unwrap();
        assert_eq!((skipped.skew.max_us, skipped.makespan.max_us), (3.0, 8.0));
    }

    #[test]
    fn gpus_have_figures_of_their_own() {
        let mut samples = [sample(0, &[0.0; 2], &[9.0; 2], &[]), sample(1, &[0.0; 2], &[9.0; 2], &[])];
        samples[0].series.gpu_us = vec![[1.0, 8.0], [2.0, 8.5]];
        samples[1].series.gpu_us = vec![[5.0, 8.0], [3.0, 9.0]];
        let error = ClockError { host_us: 0.5, gpu_us: Some(2.5) };
        let gpu = arrivals(&samples, error, 0, 1).unwrap().gpu.unwrap();
        let spread = |p50_us, max_us| Spread { p50_us, p95_us: None, max_us };
        let (skew, makespan, from_last) = (spread(2.5, 4.0), spread(7.0, 7.0), spread(4.5, 6.0));
        assert_eq!(gpu, OnGpu { clock_error_us: 2.5, skew, makespan, from_last });
        assert_eq!(arrivals(&samples, HALF, 0, 1).unwrap().gpu, None);
        samples[1].series.gpu_us.clear();
        assert_eq!(arrivals(&samples, error, 0, 1).unwrap().gpu, None, "not of every rank");
    }

    #[test]
    fn what_is_not_known_is_absent() {
        let full = sample(0, &[0.0, 1.0], &[1.0, 1.0], &[]);
        assert_eq!(arrivals(&[full.clone(), sample(1, &[], &[], &[])], HALF, 0, 1), None);
        assert_eq!(arrivals(std::slice::from_ref(&full), HALF, 0, 1), None, "one rank");
        let two = [full.clone(), sample(1, &[0.0, 1.0], &[1.0, 1.0], &[])];
        assert_eq!(arrivals(&two, HALF, 2, 1), None, "-K leaves nothing");
        assert_eq!(arrivals(&two, HALF, 0, 1).unwrap().exit_skew, None);
    }

    #[test]
    fn a_p95_needs_twenty() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let spread = Spread::over(&values).unwrap();
        assert_eq!((spread.p50_us, spread.p95_us, spread.max_us), (10.5, Some(19.0), 20.0));
        assert_eq!(Spread::over(&values[..19]).unwrap().p95_us, None);
    }
}
