//! What the marks of `-I` show where there is nothing to measure.

use std::time::Duration;

use super::Bench;
use crate::error::Result;

/// Pairs: a P95 of them is sure, and on a GPU they take some 10 ms.
const PAIRS: usize = 1000;
/// For one pair.
const DEADLINE: Duration = Duration::from_secs(10);

impl Bench<'_> {
    /// Times of empty pairs of marks at the first local rank, each complete before the next, in µs. The loop has `-I`. This
    /// rank's alone.
    pub fn empty_pairs_us(&mut self) -> Result<Vec<f64>> {
        self.backend.select(0)?;
        let pair = |_| {
            self.backend.mark(0)?;
            self.backend.mark(1)?;
            self.backend.wait(DEADLINE)?;
            self.backend.between_us(0, 1)
        };
        (0..PAIRS).map(pair).collect()
    }
}
