//! How much neighbours in a series depend on each other, and what that leaves of its samples.

use super::quantile::{Interval, interval, middle, sorted};

/// The normal distribution's 97.5 % point.
const Z: f64 = 1.959_963_984_540_054;
/// Dependence up to which samples count as independent.
const NEGLIGIBLE: f64 = 0.05;

/// Dependence of neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dependence {
    /// Lag-1 autocorrelation of the values.
    pub lag1: f64,
    /// Lag-1 autocorrelation of "at most the median", cut to 0 to 0.95: what the median's interval depends on.
    pub of_median: f64,
    /// Independent samples that the series is worth: n (1 - ρ) / (1 + ρ), ρ = `of_median`.
    pub effective: f64,
}

impl Dependence {
    /// Of a series in its order; `None` without samples.
    pub fn of(values: &[f64]) -> Option<Self> {
        let median = middle(&sorted(values))?;
        let side: Vec<f64> = values.iter().map(|value| f64::from(u8::from(*value <= median))).collect();
        let of_median = lag1(&side).clamp(0.0, 0.95);
        let effective = values.len() as f64 * (1.0 - of_median) / (1.0 + of_median);
        Some(Self { lag1: lag1(values), of_median, effective })
    }
}

/// `Σ (x_i - m)(x_{i+1} - m) / Σ (x_i - m)²`; 0 where all values are equal.
fn lag1(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean));
    if square > 0.0 { products.sum::<f64>() / square } else { 0.0 }
}

/// The median of a series in its order, and its 95 % interval, which allows for the dependence of neighbours; no
/// interval where there are too few samples, `None` where there are none.
pub fn median_interval(values: &[f64]) -> Option<(f64, Option<Interval>)> {
    let sorted = sorted(values);
    let median = middle(&sorted)?;
    let dependence = Dependence::of(values)?;
    if dependence.of_median <= NEGLIGIBLE {
        return Some((median, interval(&sorted, 0.5)));
    }
    // The rank of the median has a standard deviation of n / (2 sqrt(n_eff)).
    let n = values.len() as f64;
    let reach = Z / 2.0 * n / dependence.effective.sqrt();
    let (lower, upper) = ((n / 2.0 - reach).floor(), (1.0 + n / 2.0 + reach).ceil());
    let inside = lower >= 1.0 && upper <= n;
    let ends = inside.then(|| Interval {
        lower_us: sorted[lower as usize - 1],
        upper_us: sorted[upper as usize - 1],
        coverage: 0.95,
    });
    Some((median, ends))
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the values are exact")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::testing::Noise;

    #[test]
    fn small_series_by_hand() {
        assert_eq!(lag1(&[1.0, 1.0, 1.0]), 0.0);
        assert_eq!(lag1(&[1.0, 2.0, 3.0]), 0.0);
        assert_eq!(lag1(&[1.0, 3.0, 1.0, 3.0]), -0.75);
        assert_eq!(lag1(&[1.0, 1.0, 3.0, 3.0]), 0.25);
        let found = Dependence::of(&[1.0, 1.0, 3.0, 3.0]).unwrap();
        assert_eq!((found.of_median, found.effective), (0.25, 4.0 * 0.75 / 1.25));
        assert_eq!(Dependence::of(&[1.0, 3.0, 1.0, 3.0]).unwrap().of_median, 0.0, "never below 0");
        assert_eq!(Dependence::of(&[]), None);
    }

    #[test]
    fn a_first_order_process_shows_its_coefficient() {
        for rho in [0.0, 0.3, 0.5, 0.8] {
            let series = Noise::new(3).autoregressive(200_000, rho);
            let found = Dependence::of(&series).unwrap();
            assert!((found.lag1 - rho).abs() < 0.01, "{rho}: {found:?}");
            // Of the sign of a Gaussian process: 2/π asin ρ.
            let sign = std::f64::consts::FRAC_2_PI * rho.asin();
            assert!((found.of_median - sign).abs() < 0.01, "{rho}: {found:?}");
        }
    }

    #[test]
    fn dependence_widens_the_interval() {
        let series = Noise::new(5).autoregressive(400, 0.7);
        let (median, ends) = median_interval(&series).unwrap();
        let (corrected, plain) = (ends.unwrap(), interval(&sorted(&series), 0.5).unwrap());
        assert!(corrected.lower_us < plain.lower_us && plain.upper_us < corrected.upper_us);
        assert!(corrected.lower_us < median && median < corrected.upper_us);
        let slow: Vec<f64> = (0..30).map(f64::from).collect();
        assert_eq!(median_interval(&slow).unwrap().1, None, "30 samples that are worth less than one");
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median(values in prop::collection::vec(0.0_f64..1e3, 1..120)) {
            let (median, ends) = median_interval(&values).unwrap();
            if let Some(ends) = ends {
                prop_assert!(ends.lower_us <= median && median <= ends.upper_us);
            }
            let found = Dependence::of(&values).unwrap();
            prop_assert!((-1.0..=1.0).contains(&found.lag1));
            prop_assert!(found.effective > 0.0 && found.effective <= values.len() as f64);
        }
    }
}
