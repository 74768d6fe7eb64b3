//! Bimodality: whether a series lives at two levels.

use serde::{Deserialize, Serialize};

use super::quantile::{median, middle, nearest_rank, sorted};

/// Samples below which gaps between neighbours are chance.
const LEAST: usize = 20;
/// The gap that separates two modes, over the median gap.
const TIMES_MEDIAN_GAP: f64 = 5.0;
/// And over the median.
const SHARE_OF_MEDIAN: f64 = 0.03;

/// One of two levels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// Median of its samples.
    pub median_us: f64,
    /// Its share of all samples, 0 to 1.
    pub weight: f64,
}

/// The two modes, lower first: where the largest gap between neighbours within P10 to P90 is more than 5 × the median
/// gap and more than 3 % of the median. `None` where there is one mode, or fewer than 20 samples.
pub fn modes(values: &[f64]) -> Option<[Mode; 2]> {
    let sorted = sorted(values);
    let n = sorted.len();
    let (low, high) = (nearest_rank(&sorted, 10)?, nearest_rank(&sorted, 90)?);
    let inner: Vec<f64> = sorted.iter().copied().filter(|value| (low..=high).contains(value)).collect();
    let gaps: Vec<f64> = inner.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let widest = gaps.iter().copied().fold(0.0, f64::max);
    let split = n >= LEAST
        && widest > TIMES_MEDIAN_GAP * median(&gaps)?
        && widest > SHARE_OF_MEDIAN * middle(&sorted)?;
    if !split {
        return None;
    }
    let at = gaps.iter().position(|gap| gap.total_cmp(&widest).is_eq())?;
    let border = inner[at];
    let below = sorted.partition_point(|value| *value <= border);
    let mode = |part: &[f64]| Some(Mode { median_us: middle(part)?, weight: part.len() as f64 / n as f64 });
    Some([mode(&sorted[..below])?, mode(&sorted[below..])?])
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the values are exact")]
mod tests {
    use super::*;
    use crate::stats::testing::Noise;

    fn two_levels(share: f64, distance_pct: f64) -> Vec<f64> {
        let mut noise = Noise::new(7);
        let level =
            |at: u32| if f64::from(at % 100) < share * 100.0 { 1.0 + distance_pct / 100.0 } else { 1.0 };
        (0..200).map(|at| level(at) * (100.0 + 0.3 * noise.normal())).collect()
    }

    #[test]
    fn two_levels_are_told_with_their_weights() {
        let [low, high] = modes(&two_levels(0.3, 10.0)).unwrap();
        assert_eq!((low.weight, high.weight), (0.7, 0.3));
        assert!((low.median_us - 100.0).abs() < 0.2 && (high.median_us - 110.0).abs() < 0.2);
        assert_eq!(modes(&two_levels(0.3, 2.0)), None, "closer than 3 %");
        assert_eq!(modes(&two_levels(0.05, 10.0)), None, "a tail, not a mode");
    }

    #[test]
    fn too_few_samples_say_nothing() {
        let few: Vec<f64> = (0..19).map(|at| if at % 2 == 0 { 100.0 } else { 200.0 }).collect();
        assert_eq!(modes(&few), None);
        let enough: Vec<f64> = (0..20).map(|at| if at % 2 == 0 { 100.0 } else { 200.0 }).collect();
        assert_eq!(modes(&enough).unwrap()[0].weight, 0.5);
        assert_eq!(modes(&[]), None);
        let even: Vec<f64> = (0..40).map(|at| 100.0 + 5.0 * f64::from(at)).collect();
        assert_eq!(modes(&even), None, "wide gaps everywhere part nothing");
    }

    #[test]
    fn one_level_is_rarely_taken_for_two() {
        let mut noise = Noise::new(9);
        let mut series = || (0..20).map(|_| 100.0 * (1.0 + 0.02 * noise.normal())).collect::<Vec<_>>();
        let flagged = (0..5000).filter(|_| modes(&series()).is_some()).count();
        assert!(flagged <= 25, "{flagged} of 5000 series of 20 samples with 2 % of noise");
    }
}
