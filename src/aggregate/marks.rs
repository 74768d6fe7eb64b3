//! What marks can tell: pairs of them with nothing between.

use serde::{Deserialize, Serialize};

use crate::stats::{nearest_rank, sorted};

/// Differences below this, in µs, are rounding: GPUs tell times as 32-bit fractions of milliseconds.
const ROUNDING_US: f64 = 1e-3;

/// Of empty pairs, in µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MarkTimer {
    /// What a pair shows although nothing lies between: median.
    pub p50_us: f64,
    /// Its P95, nearest rank.
    pub p95_us: f64,
    /// The smallest step between two different times; absent where all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_us: Option<f64>,
}

impl MarkTimer {
    /// From empty pairs; `None` without any.
    pub fn of(pairs_us: &[f64]) -> Option<Self> {
        let sorted = sorted(pairs_us);
        let steps = sorted.windows(2).map(|two| two[1] - two[0]).filter(|step| *step > ROUNDING_US);
        Some(Self {
            p50_us: nearest_rank(&sorted, 50)?,
            p95_us: nearest_rank(&sorted, 95)?,
            step_us: steps.min_by(f64::total_cmp),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_is_no_rounding() {
        let pairs: Vec<f64> =
            (0..100).map(|at| 1.5 + 0.25 * f64::from(at / 40) + 1e-7 * f64::from(at)).collect();
        let found = MarkTimer::of(&pairs).unwrap();
        assert!((found.p50_us - 1.75).abs() < 1e-4 && (found.p95_us - 2.0).abs() < 1e-4, "{found:?}");
        assert!((found.step_us.unwrap() - 0.25).abs() < 1e-4, "{found:?}");
        assert_eq!(MarkTimer::of(&[1.5; 9]), Some(MarkTimer { p50_us: 1.5, p95_us: 1.5, step_us: None }));
        assert_eq!(MarkTimer::of(&[]), None);
    }
}
