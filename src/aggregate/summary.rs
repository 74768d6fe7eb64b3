//! From one value per rank to the four that `-a` selects from, and the order statistics that rows share.

use super::{Average, Summary};

impl Summary {
    /// Over ranks, in rank order, in µs; all 0 where there is no rank.
    pub fn over(values_us: &[f64]) -> Self {
        let Some(&rank0_us) = values_us.first() else {
            return Self { rank0_us: 0.0, avg_us: 0.0, min_us: 0.0, max_us: 0.0 };
        };
        Self {
            rank0_us,
            avg_us: values_us.iter().sum::<f64>() / values_us.len() as f64,
            min_us: values_us.iter().copied().fold(rank0_us, f64::min),
            max_us: values_us.iter().copied().fold(rank0_us, f64::max),
        }
    }

    /// The one that `-a` selects, in µs.
    pub const fn select(&self, average: Average) -> f64 {
        match average {
            Average::Rank0 => self.rank0_us,
            Average::Avg => self.avg_us,
            Average::Min => self.min_us,
            Average::Max => self.max_us,
        }
    }
}

/// A sorted copy.
pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Nearest-rank percentile of `sorted`; `None` where it is empty.
/// Index `min(n - 1, ceil(n p / 100) - 1)`, as nccl-tests' `percentileIndex`.
pub(super) fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index.min(last)).copied()
}

/// The usual median: the mean of the two middle values of an even number. (nccl-tests' p50 is the upper one.)
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the values are exact")]
mod tests {
    use super::*;

    #[test]
    fn the_four_summaries() {
        let summary = Summary::over(&[3.0, 1.0, 8.0]);
        let shown = [Average::Rank0, Average::Avg, Average::Min, Average::Max].map(|a| summary.select(a));
        assert_eq!(shown, [3.0, 4.0, 1.0, 8.0]);
        assert_eq!(Summary::over(&[]).select(Average::Max), 0.0);
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let cases = [(10, 1.0), (11, 2.0), (50, 5.0), (90, 9.0), (91, 10.0), (95, 10.0), (100, 10.0)];
        for (percent, want) in cases {
            assert_eq!(percentile(&ten, percent), Some(want), "p{percent}");
        }
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 4.0, 6.0]), Some(5.0));
    }
}
