//! What `-I` adds to an operation: the median of paired differences, with an interval that assumes no distribution.

use crate::stats::{median, median_bounds};
use serde::{Deserialize, Serialize};

/// Pairs of blocks.
pub const PAIRS: usize = 20;
/// In µs per operation. Never subtracted from anything.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Median of the blocks without `-I`.
    pub without_us: f64,
    /// Median difference of a pair.
    pub added_us: f64,
    /// Lower end of its interval (95.9 %).
    pub low_us: f64,
    /// Upper end.
    pub high_us: f64,
}

/// From [`PAIRS`] pairs of blocks, without and with `-I`; `None` from any other number.
pub fn overhead(pairs_us: &[[f64; 2]]) -> Option<Overhead> {
    if pairs_us.len() != PAIRS {
        return None;
    }
    let added: Vec<f64> = pairs_us.iter().map(|[without, with]| with - without).collect();
    // Of 20 values the 6th and the 15th: 95.9 %.
    let (low_us, high_us) = median_bounds(&added)?;
    Some(Overhead {
        without_us: median(&pairs_us.iter().map(|pair| pair[0]).collect::<Vec<_>>())?,
        added_us: median(&added)?,
        low_us,
        high_us,
    })
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the values are exact")]
mod tests {
    use super::*;

    #[test]
    fn differences_are_paired() {
        // Blocks drift by far more than -I costs; in a pair the drift drops out.
        let pairs: Vec<[f64; 2]> =
            (0..20).map(|at| [100.0 * f64::from(at), 100.0 * f64::from(at) + 1.0 + f64::from(at)]).collect();
        let found = overhead(&pairs).unwrap();
        assert_eq!((found.added_us, found.low_us, found.high_us), (10.5, 6.0, 15.0));
        assert_eq!(found.without_us, 950.0);
        assert_eq!(overhead(&pairs[1..]), None);
    }

    #[test]
    fn the_interval_covers_as_it_says() {
        let mut noise = fastrand::Rng::with_seed(3);
        let covered = (0..2000).filter(|_| {
            // A skewed distribution whose median is 1.
            let pairs: Vec<[f64; 2]> = (0..20).map(|_| [0.0, 0.5 / (1.0 - noise.f64())]).collect();
            let found = overhead(&pairs).unwrap();
            found.low_us <= 1.0 && 1.0 <= found.high_us
        });
        let share = covered.count() as f64 / 2000.0;
        assert!((share - 0.959).abs() < 0.015, "{share}");
    }
}
