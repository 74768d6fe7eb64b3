//! The iterations of one cycle: one size and placement, each iteration the maximum over ranks.

use serde::{Deserialize, Serialize};

use super::dependence::{Dependence, median_interval};
use super::modes::{Mode, modes};
use super::quantile::{Interval, interval, nearest_rank, sorted};
use super::spread::cv_pct;
use super::trend::{Drift, drift};
use super::warm_up::warm_up;

/// Samples from which P95 is told; below, it is one of the two largest.
const LEAST_P95: usize = 20;
/// Samples from which P99 is told; below, nearest rank is the maximum.
const LEAST_P99: usize = 100;

/// A quantile of the tail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// Nearest rank.
    pub value_us: f64,
    /// 95 % interval as of independent samples; absent below 72 samples for P95 and 368 for P99.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// What a cycle's iterations say. Figures are over the samples behind the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iterations {
    /// Samples that the figures are of.
    pub samples: usize,
    /// Leading samples that are left out because they stand out as slow.
    pub warm_up: usize,
    /// Median.
    pub median_us: f64,
    /// Its 95 % interval, which allows for dependence; absent where there are too few samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Absent below 20 samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<Tail>,
    /// Absent below 100 samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Tail>,
    /// Largest.
    pub max_us: f64,
    /// Iteration CV: population standard deviation over mean, in percent; absent in an unstable row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cv_pct: Option<f64>,
    /// Lag-1 autocorrelation.
    pub lag1: f64,
    /// Independent samples that the series is worth for its median.
    pub effective: f64,
    /// Drift along the iterations; absent below 4 samples and in an unstable row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Two levels, where there are two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<[Mode; 2]>,
}

impl Iterations {
    /// Of a series in its order; `None` without samples.
    pub fn of(series_us: &[f64]) -> Option<Self> {
        let warm_up = warm_up(series_us);
        let series = &series_us[warm_up..];
        let sorted = sorted(series);
        let (median_us, interval) = median_interval(series)?;
        let dependence = Dependence::of(series)?;
        Some(Self {
            samples: series.len(),
            warm_up,
            median_us,
            interval,
            p95: tail(&sorted, 95, LEAST_P95),
            p99: tail(&sorted, 99, LEAST_P99),
            max_us: *sorted.last()?,
            cv_pct: cv_pct(series),
            lag1: dependence.lag1,
            effective: dependence.effective,
            drift: drift(series),
            modes: modes(series),
        })
    }

    /// The same for a row of which no percentage is told.
    #[must_use]
    pub fn without_percentages(self) -> Self {
        Self { cv_pct: None, drift: None, ..self }
    }
}

fn tail(sorted: &[f64], percent: usize, least: usize) -> Option<Tail> {
    let value_us = nearest_rank(sorted, percent).filter(|_| sorted.len() >= least)?;
    Some(Tail { value_us, interval: interval(sorted, percent as f64 / 100.0) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::testing::Noise;

    /// Noise whose neighbours lie on different sides of the median.
    fn noise(n: usize) -> Vec<f64> {
        let mut noise = Noise::new(11);
        (0..n).map(|at| 100.0 + [-1.0, 1.0][at % 2] * noise.normal().abs()).collect()
    }

    #[test]
    fn tails_are_refused_where_they_are_the_maximum() {
        // (samples, P95, its interval, P99, its interval, the median's interval)
        for (n, told) in [
            (5, [false, false, false, false, false]),
            (6, [false, false, false, false, true]),
            (19, [false, false, false, false, true]),
            (20, [true, false, false, false, true]),
            (71, [true, false, false, false, true]),
            (72, [true, true, false, false, true]),
            (99, [true, true, false, false, true]),
            (100, [true, true, true, false, true]),
            (367, [true, true, true, false, true]),
            (368, [true, true, true, true, true]),
        ] {
            let found = Iterations::of(&noise(n)).unwrap();
            assert_eq!(found.warm_up, 0);
            let has = |tail: Option<Tail>| tail.and_then(|tail| tail.interval).is_some();
            let all = [
                found.p95.is_some(),
                has(found.p95),
                found.p99.is_some(),
                has(found.p99),
                found.interval.is_some(),
            ];
            assert_eq!(all, told, "{n}");
        }
    }

    #[test]
    fn figures_are_behind_the_warm_up() {
        let mut series = noise(40);
        series[..3].fill(500.0);
        let found = Iterations::of(&series).unwrap();
        assert_eq!((found.warm_up, found.samples), (3, 37));
        assert!(found.max_us < 110.0 && found.cv_pct.unwrap() < 2.0);
        assert_eq!(Iterations::of(&[]), None);
    }

    #[test]
    fn an_unstable_row_keeps_its_times() {
        let found = Iterations::of(&noise(30)).unwrap();
        let text = serde_json::to_string(&found.clone().without_percentages()).unwrap();
        assert!(!text.contains("_pct") && text.contains("median_us"), "{text}");
        assert!(serde_json::to_string(&found).unwrap().contains("over_series_pct"));
    }

    proptest! {
        #[test]
        fn figures_are_in_order(series in prop::collection::vec(1.0_f64..1e4, 1..400)) {
            let found = Iterations::of(&series).unwrap();
            let tails: Vec<f64> = [found.p95, found.p99].into_iter().flatten().map(|tail| tail.value_us).collect();
            prop_assert!(tails.iter().all(|tail| found.median_us <= *tail && *tail <= found.max_us));
            prop_assert!(found.samples + found.warm_up == series.len());
        }
    }
}
