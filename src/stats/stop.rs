//! How long to measure: batches until the median is known well enough. A state machine that is told the time, so that
//! it can be run in a test and again from a record.

use serde::{Deserialize, Serialize};

use super::dependence::median_interval;
use super::quantile::Interval;

/// Hits in a row that end a series: one alone stops where the interval is narrow by chance.
const HITS: usize = 2;
/// Samples from which a noise floor may be seen.
const FLOOR_FROM: usize = 80;

/// When a series ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Half-width of the median's 95 % interval, over the median, to be reached; `None` runs to the budget.
    pub precision: Option<f64>,
    /// Time for the series, in s.
    pub budget_s: f64,
    /// Samples before which nothing is decided but the budget.
    pub least: usize,
    /// New samples between two looks.
    pub batch: usize,
    /// Samples at which the series ends in any case.
    pub most: usize,
}

/// Why a series ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The interval was inside, twice in a row.
    Converged,
    /// Four times the samples did not make the interval narrower, twice in a row.
    NoiseFloor,
    /// The time was over.
    Budget,
    /// There were as many samples as are kept.
    MostSamples,
}

impl Reason {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::NoiseFloor => "noise floor",
            Self::Budget => "budget",
            Self::MostSamples => "most samples",
        }
    }
}

/// How a series ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Why.
    pub reason: Reason,
    /// Samples.
    pub samples: usize,
    /// Their median.
    pub median_us: f64,
    /// The median's 95 % interval; absent where there are too few samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// A series that is being measured.
#[derive(Clone, Debug)]
pub struct Stopping {
    rule: Rule,
    samples_us: Vec<f64>,
    looked_at: usize,
    hits: usize,
    in_vain: usize,
    /// Samples and relative half-width at every look.
    looks: Vec<(usize, f64)>,
}

impl Stopping {
    /// Nothing measured yet.
    pub fn new(rule: Rule) -> Self {
        Self { rule, samples_us: Vec::new(), looked_at: 0, hits: 0, in_vain: 0, looks: Vec::new() }
    }

    /// Takes a batch, `elapsed_s` after the series began; says whether the series ends.
    pub fn push(&mut self, batch_us: &[f64], elapsed_s: f64) -> Option<Stop> {
        self.samples_us.extend_from_slice(batch_us);
        let n = self.samples_us.len();
        let over = elapsed_s >= self.rule.budget_s;
        let full = n >= self.rule.most;
        if n < self.looked_at + self.rule.batch && !over && !full {
            return None;
        }
        self.looked_at = n;
        let (median_us, interval) = median_interval(&self.samples_us)?;
        let width = interval.map(|interval| interval.relative_half_width(median_us));
        let reason = match self.look(n, width) {
            None if over => Some(Reason::Budget),
            None if full => Some(Reason::MostSamples),
            reason => reason,
        };
        reason.map(|reason| Stop { reason, samples: n, median_us, interval })
    }

    fn look(&mut self, n: usize, width: Option<f64>) -> Option<Reason> {
        let precision = self.rule.precision?;
        let width = width.filter(|width| width.is_finite());
        self.hits = if width.is_some_and(|width| width <= precision) { self.hits + 1 } else { 0 };
        let before = self.looks.iter().rev().find(|(then, _)| 4 * then <= n).map(|(_, width)| *width);
        if let Some(width) = width {
            self.looks.push((n, width));
        }
        if n >= self.rule.least && self.hits >= HITS {
            return Some(Reason::Converged);
        }
        let in_vain = n >= FLOOR_FROM && before.zip(width).is_some_and(|(then, now)| now >= then);
        self.in_vain = if in_vain { self.in_vain + 1 } else { 0 };
        (self.in_vain >= HITS).then_some(Reason::NoiseFloor)
    }
}

#[cfg(test)]
#[path = "stop_tests.rs"]
mod tests;
