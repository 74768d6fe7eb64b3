//! Epochs: groups of cycles, each of one communicator. Cycles of one epoch share what making it has chosen, so that they
//! are not independent of it, and with several epochs the epoch is the unit that repeats.

use serde::{Deserialize, Serialize};

use super::quantile::{median, sorted};
use super::spread::{Cv, State};

/// What epochs differ by; their own times are the medians of their cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epochs {
    /// Epochs that the figures are of.
    pub epochs: usize,
    /// Shortest epoch.
    pub min_us: f64,
    /// Longest epoch.
    pub max_us: f64,
    /// Spread of the epochs' times, with its upper bound; absent where unstable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cv: Option<Cv>,
    /// Standard deviation of what an epoch adds to all of its cycles, in percent of the mean, as [`between_pct`] has it;
    /// absent with one cycle an epoch and where unstable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_pct: Option<f64>,
}

impl Epochs {
    /// Of each epoch's cycles, in order; `None` with one epoch.
    pub fn of(epochs: &[Vec<f64>]) -> Option<Self> {
        let times = units(epochs);
        let sorted = sorted(&times);
        (epochs.len() > 1).then_some(Self {
            epochs: epochs.len(),
            min_us: *sorted.first()?,
            max_us: *sorted.last()?,
            cv: Cv::of(&times),
            between_pct: between_pct(epochs),
        })
    }

    /// Without what an unstable case may not tell.
    pub(super) fn without_percentages(self) -> Self {
        Self { cv: None, between_pct: None, ..self }
    }
}

/// The values that repeat independently: with several epochs their medians, else the cycles. No group is empty.
pub fn units(epochs: &[Vec<f64>]) -> Vec<f64> {
    match epochs {
        [only] => only.clone(),
        several => several.iter().filter_map(|epoch| median(epoch)).collect(),
    }
}

/// The spread of cycles around their own epoch's mean.
pub(super) fn within(epochs: &[Vec<f64>]) -> Option<Cv> {
    if let [only] = epochs { Cv::of(only) } else { Cv::within(epochs) }
}

/// Whether cycles agree, and with several epochs these, whichever is worse; `None` with one cycle.
pub fn state(epochs: &[Vec<f64>]) -> Option<State> {
    let between = Epochs::of(epochs).and_then(|of| of.cv);
    [within(epochs), between].into_iter().flatten().map(|cv| cv.state()).max()
}

/// The component of variance between epochs, one-way analysis of variance with random effects:
/// s² = max(0, (MSB - MSW) / n₀), n₀ = (N - Σ nᵢ² / N) / (E - 1), which is the number of cycles where all epochs have as
/// many; its root in percent of the mean. `None` with one epoch, or with one cycle in each.
fn between_pct(epochs: &[Vec<f64>]) -> Option<f64> {
    let count = |values: &[f64]| values.len() as f64;
    let (groups, all) = (epochs.len(), epochs.concat());
    let n = count(&all);
    if groups < 2 || all.len() <= groups {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count(values);
    let grand = mean(&all);
    let (mut between, mut within, mut squares) = (0.0, 0.0, 0.0);
    for epoch in epochs {
        let own = mean(epoch);
        between += count(epoch) * (own - grand).powi(2);
        within += epoch.iter().map(|value| (value - own).powi(2)).sum::<f64>();
        squares += count(epoch).powi(2);
    }
    let degrees = (groups - 1) as f64;
    let (between, within) = (between / degrees, within / (n - groups as f64));
    let each = (n - squares / n) / degrees;
    (grand > 0.0).then(|| ((between - within) / each).max(0.0).sqrt() / grand * 100.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::testing::Noise;
    use crate::stats::{Cycles, interval};

    #[test]
    fn the_component_between_follows_the_analysis_of_variance() {
        // Means 2, 3, 6: MSB = 13; MSW = 1; s² = 12 / 3; the mean is 11 / 3.
        let balanced = [vec![1.0, 2.0, 3.0], vec![2.0, 3.0, 4.0], vec![5.0, 6.0, 7.0]];
        assert!((between_pct(&balanced).unwrap() - 100.0 * 2.0 / (11.0 / 3.0)).abs() < 1e-9);
        // Means 2 and 5, 3 and 2 cycles: MSB = 10.8, MSW = 4/3, n0 = 2.4, the mean is 3.2.
        let uneven = [vec![1.0, 2.0, 3.0], vec![4.0, 6.0]];
        let want = ((10.8_f64 - 4.0 / 3.0) / 2.4).sqrt() / 3.2 * 100.0;
        assert!((between_pct(&uneven).unwrap() - want).abs() < 1e-9);
        // Less between than chance gives is none.
        assert_eq!(between_pct(&[vec![1.0, 3.0], vec![1.0, 3.0]]), Some(0.0));
        assert_eq!(between_pct(&[vec![1.0], vec![2.0]]), None, "nothing within to compare with");
        assert_eq!(between_pct(&[vec![1.0, 2.0]]), None);
    }

    #[test]
    fn one_epoch_is_its_cycles() {
        let cycles = vec![vec![5.0, 4.0, 9.0]];
        assert_eq!((units(&cycles), Epochs::of(&cycles)), (vec![5.0, 4.0, 9.0], None));
        let found = Epochs::of(&[vec![5.0, 4.0, 9.0], vec![6.0]]).unwrap();
        assert_eq!((found.epochs, found.min_us, found.max_us), (2, 5.0, 6.0));
    }

    /// Epochs of `cycles` cycles: 3 % between them, 0.5 % within.
    fn simulated(noise: &mut Noise, epochs: usize, cycles: usize) -> Vec<Vec<f64>> {
        let epoch = |_| {
            let level = 100.0 * (0.03 * noise.normal()).exp();
            (0..cycles).map(|_| level * (0.005 * noise.normal()).exp()).collect()
        };
        (0..epochs).map(epoch).collect()
    }

    #[test]
    fn the_interval_of_epochs_holds_what_that_of_cycles_does_not() {
        let mut noise = Noise::new(2026);
        let (mut by_epochs, mut by_cycles, mut between) = (0, 0, 0.0);
        for _ in 0..1000 {
            let epochs = simulated(&mut noise, 8, 5);
            let found = Cycles::of_epochs(&epochs, &[]).unwrap();
            let covers = |ends: crate::stats::Interval| ends.lower_us <= 100.0 && 100.0 <= ends.upper_us;
            by_epochs += usize::from(found.interval.is_some_and(covers));
            by_cycles += usize::from(interval(&sorted(&epochs.concat()), 0.5).is_some_and(covers));
            between += found.epochs.and_then(|of| of.between_pct).unwrap_or_default() / 1000.0;
        }
        assert!(by_epochs >= 950, "{by_epochs} of 1000 cover; 8 epochs have 99.2 %");
        assert!(by_cycles < 850, "{by_cycles} of 1000 cover");
        assert!((2.6..3.2).contains(&between), "{between}");
    }

    proptest! {
        #[test]
        fn the_component_has_no_unit_and_no_order(
            epochs in prop::collection::vec(prop::collection::vec(50.0_f64..150.0, 2..6), 2..6),
            factor in 0.01_f64..100.0,
        ) {
            let scaled: Vec<Vec<f64>> =
                epochs.iter().rev().map(|epoch| epoch.iter().rev().map(|v| v * factor).collect()).collect();
            let (one, other) = (between_pct(&epochs).unwrap(), between_pct(&scaled).unwrap());
            prop_assert!((one - other).abs() < 1e-6, "{one} {other}");
        }
    }
}
