//! Drift: whether a series moves with its order.

use serde::{Deserialize, Serialize};

use super::chi_squared::normal_two_sided;
use super::quantile::median;

/// Samples that pairs are made of; a longer series is thinned evenly, since pairs grow with the square.
const MOST: usize = 200;
/// Samples up to which the distribution of Kendall's tau is counted out.
const EXACT: usize = 30;

/// How a series moves with its order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// From the first to the last sample along the Theil-Sen line, in percent of the median.
    pub over_series_pct: f64,
    /// Kendall's tau of value and order, -1 to 1.
    pub tau: f64,
    /// Two-sided p value of tau for independent samples; exact up to 30 samples without ties.
    pub p: f64,
}

/// Drift of a series in its order; `None` below 4 samples or with a median that is not positive.
pub fn drift(values: &[f64]) -> Option<Drift> {
    let values = thinned(values);
    let n = values.len();
    let middle = median(&values).filter(|median| n >= 4 && *median > 0.0)?;
    let pairs = || (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let slopes: Vec<f64> = pairs().map(|(i, j)| (values[j] - values[i]) / (j - i) as f64).collect();
    let rising = slopes.iter().filter(|slope| **slope > 0.0).count();
    let falling = slopes.iter().filter(|slope| **slope < 0.0).count();
    let excess = rising as f64 - falling as f64;
    let tau = excess / slopes.len() as f64;
    let exact = n <= EXACT && rising + falling == slopes.len();
    let p = if exact { exact_p(n, rising.min(falling)) } else { normal_p(&values, excess) };
    Some(Drift { over_series_pct: median(&slopes)? * (n - 1) as f64 / middle * 100.0, tau, p })
}

/// At most [`MOST`] samples, evenly spaced.
fn thinned(values: &[f64]) -> Vec<f64> {
    if values.len() <= MOST {
        return values.to_vec();
    }
    (0..MOST).map(|at| values[at * (values.len() - 1) / (MOST - 1)]).collect()
}

/// Two-sided p of at most `inversions` inversions among n samples in random order: the i-th sample adds 0 to i - 1
/// inversions, all alike likely.
fn exact_p(n: usize, inversions: usize) -> f64 {
    let mut share = vec![1.0];
    for i in 2..=n {
        let mut next = vec![0.0; share.len() + i - 1];
        for (at, value) in share.iter().enumerate() {
            for more in 0..i {
                next[at + more] += value / i as f64;
            }
        }
        share = next;
    }
    (2.0 * share[..=inversions].iter().sum::<f64>()).min(1.0)
}

/// Two-sided p of the excess of rising over falling pairs, by the normal approximation with ties and continuity.
fn normal_p(values: &[f64], excess: f64) -> f64 {
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let sorted = super::quantile::sorted(values);
    let ties: f64 =
        sorted.chunk_by(|a, b| a.total_cmp(b).is_eq()).map(|equal| term(equal.len() as f64)).sum();
    let variance = term(values.len() as f64) - ties;
    if variance > 0.0 { normal_two_sided((excess.abs() - 1.0).max(0.0) / variance.sqrt()) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::testing::Noise;

    #[test]
    fn a_line_is_its_own_drift() {
        let found = drift(&[100.0, 101.0, 102.0, 103.0, 104.0]).unwrap();
        assert_eq!((found.over_series_pct, found.tau), (4.0 / 102.0 * 100.0, 1.0));
        assert!((found.p - 2.0 / 120.0).abs() < 1e-12, "two of 5! orders: {}", found.p);
        let down = drift(&[104.0, 103.0, 102.0, 101.0, 100.0]).unwrap();
        assert_eq!((down.tau, down.p), (-1.0, found.p));
        assert_eq!(drift(&[1.0, 2.0, 3.0]), None);
        assert_eq!(drift(&[0.0; 8]), None);
        let flat = drift(&[5.0; 8]).unwrap();
        assert_eq!((flat.over_series_pct, flat.tau, flat.p), (0.0, 0.0, 1.0));
    }

    #[test]
    fn one_outlier_does_not_tilt_the_line() {
        let found = drift(&[100.0, 100.1, 100.0, 100.1, 100.0, 100.1, 900.0]).unwrap();
        assert!(found.over_series_pct.abs() < 0.5, "{found:?}");
    }

    #[test]
    fn exact_probabilities_of_four() {
        // Inversions of 4 samples: 1, 3, 5, 6, 5, 3, 1 of 24.
        for (inversions, share) in [(0, 1.0), (1, 4.0), (2, 9.0), (3, 15.0)] {
            assert!((exact_p(4, inversions) - f64::min(1.0, 2.0 * share / 24.0)).abs() < 1e-12);
        }
    }

    #[test]
    fn the_approximation_joins_the_exact_one() {
        let n = 30;
        for inversions in [120, 150, 180, 200] {
            let excess = (n * (n - 1) / 2 - 2 * inversions) as f64;
            let values: Vec<f64> = (0..n as u32).map(f64::from).collect();
            let difference = exact_p(n, inversions) - normal_p(&values, excess);
            assert!(difference.abs() < 0.005, "{inversions}: {difference}");
        }
    }

    #[test]
    fn without_drift_p_is_rarely_small() {
        let mut noise = Noise::new(1);
        for n in [7, 60] {
            let small = (0..4000).filter(|_| {
                drift(&(0..n).map(|_| 100.0 + noise.normal()).collect::<Vec<_>>()).unwrap().p < 0.05
            });
            let share = small.count() as f64 / 4000.0;
            assert!((0.01..0.06).contains(&share), "{n}: {share}");
        }
    }

    #[test]
    fn a_long_series_is_thinned_and_still_seen() {
        let values: Vec<f64> = (0..100_000).map(|at| 100.0 + f64::from(at) * 1e-4).collect();
        let found = drift(&values).unwrap();
        assert!((found.over_series_pct - 10.0 / 1.05).abs() < 0.1, "{found:?}");
    }

    proptest! {
        #[test]
        fn reversal_turns_the_sign(values in prop::collection::vec(1.0_f64..100.0, 4..40)) {
            let back: Vec<f64> = values.iter().rev().copied().collect();
            let (there, back) = (drift(&values).unwrap(), drift(&back).unwrap());
            prop_assert!((there.tau + back.tau).abs() < 1e-12 && (there.p - back.p).abs() < 1e-12);
            prop_assert!((there.over_series_pct + back.over_series_pct).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&there.p));
        }
    }
}
