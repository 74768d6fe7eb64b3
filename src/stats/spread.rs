//! Relative spread, its bound, and what a row's spread allows to say.

use serde::{Deserialize, Serialize};

use super::chi_squared;

/// Percent up to which a spread is small enough to speak of percentages.
const LIMIT_PCT: f64 = 5.0;

/// Population standard deviation over mean, in percent, as nccl-tests' `i_cv%`; `None` without values or with a mean
/// that is not positive.
pub fn cv_pct(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    (mean > 0.0).then(|| variance.sqrt() / mean * 100.0)
}

/// A spread, and what it may be in truth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cv {
    /// Population standard deviation over mean, in percent.
    pub cv_pct: f64,
    /// What the true one lies below with 95 % confidence, in percent.
    pub upper_pct: f64,
}

impl Cv {
    /// Of independent values, two or more.
    pub fn of(values: &[f64]) -> Option<Self> {
        let cv_pct = cv_pct(values).filter(|_| values.len() > 1)?;
        Some(Self { cv_pct, upper_pct: cv_pct * bound_factor(values.len(), values.len() - 1) })
    }

    /// Of values around the mean of their own group, pooled; `None` where every group has one value.
    pub fn within(groups: &[Vec<f64>]) -> Option<Self> {
        let values: usize = groups.iter().map(Vec::len).sum();
        let degrees = values.checked_sub(groups.len()).filter(|degrees| *degrees > 0)?;
        let mut squares = 0.0;
        for group in groups {
            let mean = group.iter().sum::<f64>() / group.len() as f64;
            if mean <= 0.0 {
                return None;
            }
            squares += group.iter().map(|value| (value / mean - 1.0).powi(2)).sum::<f64>();
        }
        let cv_pct = (squares / values as f64).sqrt() * 100.0;
        Some(Self { cv_pct, upper_pct: cv_pct * bound_factor(values, degrees) })
    }

    /// What the spread allows to say.
    pub fn state(&self) -> State {
        match (self.cv_pct <= LIMIT_PCT, self.upper_pct <= LIMIT_PCT) {
            (true, true) => State::Stable,
            (true, false) => State::StableSoFar,
            (false, _) => State::Unstable,
        }
    }
}

/// From a population CV of k normal values to its one-sided 95 % upper bound, where their means leave f degrees of
/// freedom: sqrt(f / χ²(0.05; f)) · sqrt(k / f); with one mean f is k - 1.
fn bound_factor(k: usize, degrees: usize) -> f64 {
    (k as f64 / chi_squared::quantile(0.05, degrees)).sqrt()
}

/// Whether a row's cycles agree well enough for percentages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// The spread is at most 5 %, and so is its upper bound.
    #[serde(rename = "stable")]
    Stable,
    /// The spread is at most 5 %, but with so few cycles it may be more in truth.
    #[serde(rename = "stable*")]
    StableSoFar,
    /// The spread is above 5 %: no percentage is given.
    #[serde(rename = "unstable")]
    Unstable,
}

impl State {
    /// The word in tables and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::StableSoFar => "stable*",
            Self::Unstable => "unstable",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_spread_of_seven_values() {
        let cv = cv_pct(&[100.0, 101.2, 99.4, 100.6, 102.1, 98.9, 100.3]).unwrap();
        assert!((cv - 0.994_813_11).abs() < 1e-7, "{cv}");
        assert_eq!((cv_pct(&[]), cv_pct(&[0.0, 0.0]), Cv::of(&[4.0])), (None, None, None));
    }

    #[test]
    fn the_bound_follows_the_table() {
        for (k, want) in [
            (3, 5.41),
            (4, 3.37),
            (5, 2.65),
            (6, 2.29),
            (8, 1.92),
            (10, 1.73),
            (12, 1.62),
            (15, 1.51),
            (20, 1.41),
            (30, 1.30),
        ] {
            let found = bound_factor(k, k - 1);
            assert!((found - want).abs() < 0.0051, "{k}: {found}");
        }
    }

    /// Values whose population CV is exactly `cv_pct`: pairs around 100, and 100 in the middle.
    fn with_cv(k: usize, cv_pct: f64) -> Vec<f64> {
        let pairs = k / 2;
        let off = cv_pct * (k as f64 / (2 * pairs) as f64).sqrt();
        let mut values: Vec<f64> = (0..pairs).flat_map(|_| [100.0 - off, 100.0 + off]).collect();
        values.resize(k, 100.0);
        values
    }

    #[test]
    fn states_turn_where_the_methodology_says() {
        // Largest observed CV whose bound is within 5 %.
        for (k, most) in [(3, 0.92), (5, 1.89), (8, 2.60), (10, 2.88), (20, 3.56), (30, 3.84)] {
            let state = |cv_pct| Cv::of(&with_cv(k, cv_pct)).unwrap().state();
            assert_eq!(state(most - 0.01), State::Stable, "{k}");
            assert_eq!(state(most + 0.01), State::StableSoFar, "{k}");
            assert_eq!((state(4.99), state(5.01)), (State::StableSoFar, State::Unstable), "{k}");
        }
    }

    #[test]
    fn groups_are_pooled_around_their_own_means() {
        // One group is a spread like any other.
        let one = [100.0, 101.2, 99.4, 100.6, 102.1];
        let (alone, pooled) = (Cv::of(&one).unwrap(), Cv::within(&[one.to_vec()]).unwrap());
        assert!(
            (alone.cv_pct - pooled.cv_pct).abs() < 1e-9 && (alone.upper_pct - pooled.upper_pct).abs() < 1e-9
        );
        // Each 1 % around its own mean, whatever lies between the means; 4 values and 2 degrees of freedom.
        let apart = Cv::within(&[vec![99.0, 101.0], vec![198.0, 202.0]]).unwrap();
        assert!((apart.cv_pct - 1.0).abs() < 1e-9, "{apart:?}");
        assert!((apart.upper_pct - (4.0_f64 / 0.102_587).sqrt()).abs() < 1e-4, "{apart:?}");
        assert_eq!(Cv::within(&[vec![1.0], vec![2.0]]), None);
    }

    #[test]
    fn states_keep_their_words() {
        for state in [State::Stable, State::StableSoFar, State::Unstable] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }

    proptest! {
        #[test]
        fn the_spread_has_no_unit(values in prop::collection::vec(1.0_f64..100.0, 2..30), factor in 0.01_f64..100.0) {
            let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
            let (one, other) = (Cv::of(&values).unwrap(), Cv::of(&scaled).unwrap());
            prop_assert!((one.cv_pct - other.cv_pct).abs() < 1e-6);
            prop_assert!(one.upper_pct >= one.cv_pct);
        }
    }
}
