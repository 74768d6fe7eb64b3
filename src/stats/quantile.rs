//! Quantiles of a series, and their intervals by order statistics.
//!
//! Definition: the median of an even number is the mean of the two middle values; every other quantile is nearest
//! rank, so that it is a value that was measured. (nccl-tests' p50 is the upper of the two middle values.)

use serde::{Deserialize, Serialize};

/// Probability that an interval leaves out on either side, at most: intervals are of 95 %.
const TAIL: f64 = 0.025;

/// Where a quantile lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end, a value that was measured.
    pub lower_us: f64,
    /// Upper end, a value that was measured.
    pub upper_us: f64,
    /// Probability with which it covers the quantile of independent samples: at least 0.95.
    pub coverage: f64,
}

impl Interval {
    /// Half of its width over `median_us`.
    pub fn relative_half_width(&self, median_us: f64) -> f64 {
        (self.upper_us - self.lower_us) / (2.0 * median_us)
    }
}

/// A sorted copy.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Nearest-rank percentile of `sorted`; `None` where it is empty.
/// Index `min(n - 1, ceil(n p / 100) - 1)`, as nccl-tests' `percentileIndex`.
pub fn nearest_rank(sorted: &[f64], percent: usize) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index.min(last)).copied()
}

/// The median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    middle(&sorted(values))
}

/// The median of values that are sorted.
pub(super) fn middle(sorted: &[f64]) -> Option<f64> {
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

/// The distribution-free 95 % interval of quantile `q` (0 to 1), of independent samples; `None` where there are too
/// few of them: 6 for the median, 72 for P95, 368 for P99.
pub fn interval(sorted: &[f64], q: f64) -> Option<Interval> {
    let Ranks { lower, upper, coverage } = ranks(sorted.len(), q)?;
    Some(Interval { lower_us: *sorted.get(lower - 1)?, upper_us: *sorted.get(upper - 1)?, coverage })
}

/// The ends of [`interval`] of the median, for values of any unit that need not be sorted.
pub fn median_bounds(values: &[f64]) -> Option<(f64, f64)> {
    interval(&sorted(values), 0.5).map(|ends| (ends.lower_us, ends.upper_us))
}

/// Ranks of order statistics, from 1.
struct Ranks {
    lower: usize,
    upper: usize,
    coverage: f64,
}

/// `[x(l), x(u)]` covers quantile q with probability P(l <= B <= u - 1), B ~ Bin(n, q): the largest l with
/// P(B <= l - 1) <= 0.025 and the smallest u with P(B <= u - 1) >= 0.975. Source: Hoefler and Belli, SC'15.
fn ranks(n: usize, q: f64) -> Option<Ranks> {
    let samples = n as f64;
    let odds = (q / (1.0 - q)).ln();
    let mut ln_term = samples * (1.0 - q).ln();
    let mut below = 0.0;
    let (mut lower, mut below_lower) = (0, 0.0);
    for successes in 0..n {
        below += ln_term.exp();
        if below <= TAIL {
            (lower, below_lower) = (successes + 1, below);
        }
        if below >= 1.0 - TAIL {
            return (lower > 0).then_some(Ranks {
                lower,
                upper: successes + 1,
                coverage: below - below_lower,
            });
        }
        let done = successes as f64;
        ln_term += ((samples - done) / (done + 1.0)).ln() + odds;
    }
    None
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the values are exact")]
mod tests {
    use proptest::prelude::*;
    use statrs::distribution::{Binomial, DiscreteCDF};

    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        for (percent, want) in [(50, 10.0), (51, 11.0), (95, 19.0), (96, 20.0), (99, 20.0), (100, 20.0)] {
            assert_eq!(nearest_rank(&twenty, percent), Some(want), "p{percent}");
        }
        assert_eq!(nearest_rank(&[], 50), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 4.0, 6.0]), Some(5.0));
        assert_eq!(median(&[100.0, 101.2, 99.4, 100.6, 102.1, 98.9, 100.3]), Some(100.3));
        assert_eq!(median(&[104.9, 106.0, 103.8, 105.5, 107.2, 104.1, 105.1]), Some(105.1));
    }

    fn found(n: usize, q: f64) -> Option<(usize, usize)> {
        ranks(n, q).map(|ranks| (ranks.lower, ranks.upper))
    }

    #[test]
    fn ranks_are_the_exact_ones() {
        let medians = [
            (6, 1, 6),
            (7, 1, 7),
            (8, 1, 8),
            (9, 2, 8),
            (10, 2, 9),
            (12, 3, 10),
            (15, 4, 12),
            (16, 4, 13),
            (20, 6, 15),
            (25, 8, 18),
            (30, 10, 21),
            (40, 14, 27),
            (50, 18, 33),
            (60, 22, 39),
            (80, 31, 50),
            (100, 40, 61),
            (150, 63, 88),
            (200, 86, 115),
            (300, 133, 168),
            (500, 228, 273),
            (1000, 469, 532),
        ];
        for (n, lower, upper) in medians {
            assert_eq!(found(n, 0.5), Some((lower, upper)), "median of {n}");
        }
        for (n, lower, upper) in [
            (72, 64, 72),
            (100, 90, 100),
            (150, 137, 148),
            (200, 184, 197),
            (300, 277, 293),
            (500, 465, 485),
            (1000, 936, 964),
        ] {
            assert_eq!(found(n, 0.95), Some((lower, upper)), "P95 of {n}");
        }
        for (n, lower, upper) in
            [(368, 360, 368), (400, 392, 400), (500, 490, 500), (1000, 983, 997), (2000, 1971, 1989)]
        {
            assert_eq!(found(n, 0.99), Some((lower, upper)), "P99 of {n}");
        }
    }

    #[test]
    fn too_few_samples_have_no_interval() {
        for (q, least) in [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)] {
            assert_eq!(found(least - 1, q), None, "{q}");
            assert!(found(least, q).is_some(), "{q}");
        }
        assert_eq!(interval(&[], 0.5), None);
    }

    #[test]
    fn bounds_of_the_median_have_the_known_ranks() {
        // docs/METHODOLOGY.md: 95 % ranks of the median, counted from 1.
        for (n, low, high) in [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (100, 40, 61)] {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            assert_eq!(median_bounds(&values), Some((f64::from(low), f64::from(high))), "{n}");
        }
        assert_eq!(median_bounds(&[1.0; 5]), None);
        let values = [3.0, 1.0, 2.0, 4.0, 6.0, 5.0];
        assert_eq!((median_bounds(&values), median(&values)), (Some((1.0, 6.0)), Some(3.5)));
    }

    #[test]
    fn the_interval_is_made_of_values() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let found = interval(&values, 0.5).unwrap();
        assert_eq!((found.lower_us, found.upper_us), (2.0, 9.0));
        assert!((found.coverage - 0.978_515_625).abs() < 1e-12);
        assert_eq!(found.relative_half_width(5.5), 7.0 / 11.0);
    }

    proptest! {
        #[test]
        fn coverage_is_what_the_binomial_says(n in 1_usize..2000, q in 0.01_f64..0.99) {
            let Some(Ranks { lower, upper, coverage }) = ranks(n, q) else { return Ok(()) };
            let binomial = Binomial::new(q, n as u64).unwrap();
            let below = |count: usize| binomial.cdf(count as u64);
            prop_assert!(below(lower - 1) <= TAIL + 1e-9 && below(lower) > TAIL - 1e-9);
            prop_assert!(below(upper - 1) >= 1.0 - TAIL - 1e-9);
            prop_assert!(upper == 1 || below(upper - 2) < 1.0 - TAIL + 1e-9);
            prop_assert!((coverage - (below(upper - 1) - below(lower - 1))).abs() < 1e-9);
            prop_assert!(coverage >= 0.95 - 1e-9);
        }

        #[test]
        fn quantiles_grow_with_the_percentage(values in prop::collection::vec(0.0_f64..1e6, 1..50)) {
            let values = sorted(&values);
            let all: Vec<f64> = (1..=100).filter_map(|p| nearest_rank(&values, p)).collect();
            prop_assert!(all.windows(2).all(|pair| pair[0] <= pair[1]));
            let middle = median(&values).unwrap();
            prop_assert!(values[0] <= middle && middle <= values[values.len() - 1]);
        }
    }
}
