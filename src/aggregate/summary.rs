//! From one value per rank to the four that `-a` selects from.

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
}
