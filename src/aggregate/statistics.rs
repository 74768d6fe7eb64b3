//! Rows to statistics: a case (size, type, reduction, root, placement) over its cycles.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Case, Cell, Row};
use crate::stats::{Cycles, Iterations, Stop, holm};
use crate::vocab::{Dtype, Placement};

/// Cycles that are kept of an endless run: the last ones.
const KEPT: usize = 1000;
/// Drift over the run, in percent, below which it changes nothing that is said here.
const WORTH_TELLING_PCT: f64 = 1.0;

/// What the time of a cycle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The median over iterations of the per-iteration maximum over ranks (`-I`).
    MedianIteration,
    /// The median over timed blocks of the maximum over ranks (`--precision` or `--budget`, without `-I`).
    MedianBlock,
    /// The maximum over ranks of the mean time of an operation.
    MeanOperation,
}

/// One cycle of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cycle {
    /// Its epoch, from 0.
    #[serde(default)]
    pub epoch: u64,
    /// Its number within the epoch, from 0.
    pub cycle: u64,
    /// Its time, as the basis says.
    pub time_us: f64,
    /// As the cell's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Of the maximum over ranks per iteration, or per block, as the basis says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<Iterations>,
}

/// What is known of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// As the row's.
    pub requested_bytes: u64,
    /// As the row's.
    pub size_bytes: u64,
    /// Element type.
    pub dtype: Dtype,
    /// The redop column.
    pub redop: String,
    /// The root column.
    pub root: i64,
    /// Out-of-place or in-place.
    pub placement: Placement,
    /// What the time of a cycle is.
    pub basis: Basis,
    /// Over cycles.
    #[serde(flatten)]
    pub over: Cycles,
    /// Every cycle, in order; of an endless run the last ones.
    pub each: Vec<Cycle>,
}

/// A case whose time moves along the cycles.
#[derive(Clone, Debug, PartialEq)]
pub struct Drifting {
    /// Its place among the statistics.
    pub case: usize,
    /// P value, adjusted by Holm for all cases of the run.
    pub p: f64,
}

/// Collects rows; [`Self::statistics`] at any time.
#[derive(Clone, Debug, Default)]
pub struct Statistician {
    cases: Vec<Collected>,
}

#[derive(Clone, Debug)]
struct Collected {
    case: Case,
    size_bytes: u64,
    basis: Basis,
    cycles: VecDeque<Cycle>,
}

impl Statistician {
    /// Counts a row in. Rows of size 0 move nothing and say nothing.
    pub fn push(&mut self, row: &Row) {
        if row.size_bytes == 0 {
            return;
        }
        for cell in &row.cells {
            let (basis, cycle) = cycle((row.epoch, row.cycle), cell);
            let case = Case::of(row, cell.placement);
            let found = self.cases.iter().rposition(|known| known.basis == basis && known.case == case);
            let at = found.unwrap_or_else(|| {
                let (size_bytes, cycles) = (row.size_bytes, VecDeque::new());
                self.cases.push(Collected { case, size_bytes, basis, cycles });
                self.cases.len() - 1
            });
            let case = &mut self.cases[at];
            case.cycles.push_back(cycle);
            if case.cycles.len() > KEPT {
                case.cycles.pop_front();
            }
        }
    }

    /// Every case that has something to tell: several cycles, iterations, or blocks. In order of first sight.
    pub fn statistics(&self) -> Vec<Statistics> {
        self.cases.iter().filter_map(Collected::statistics).collect()
    }
}

impl Collected {
    fn statistics(&self) -> Option<Statistics> {
        let iterations: Vec<Iterations> =
            self.cycles.iter().filter_map(|cycle| cycle.iterations.clone()).collect();
        if self.cycles.len() < 2 && iterations.is_empty() {
            return None;
        }
        let each: Vec<Cycle> = self.cycles.iter().cloned().collect();
        let over = Cycles::of_epochs(&by_epoch(&each, |cycle| cycle.time_us), &iterations)?;
        let told = over.tells_percentages();
        let stripped = |cycle: &Cycle| Cycle {
            iterations: cycle.iterations.clone().map(|of| if told { of } else { of.without_percentages() }),
            ..cycle.clone()
        };
        let Case { requested_bytes, dtype, redop, root, placement } = &self.case;
        Some(Statistics {
            requested_bytes: *requested_bytes,
            size_bytes: self.size_bytes,
            dtype: *dtype,
            redop: redop.clone(),
            root: *root,
            placement: *placement,
            basis: self.basis,
            over,
            each: each.iter().map(stripped).collect(),
        })
    }
}

/// The time of one cycle's cell: of iterations where every rank has them, without those that `-K` skips; else of timed
/// blocks, where there were several.
fn cycle((epoch, cycle): (u64, u64), cell: &Cell) -> (Basis, Cycle) {
    let iterations = cell.per_iteration.as_ref().and_then(|stats| stats.times_us.get(stats.skipped..));
    let (basis, series) = match iterations.and_then(Iterations::of) {
        Some(of) => (Basis::MedianIteration, Some(of)),
        None => (Basis::MedianBlock, Iterations::of(&longest_blocks(cell))),
    };
    let (basis, time_us) =
        series.as_ref().map_or((Basis::MeanOperation, cell.time.max_us), |of| (basis, of.median_us));
    (basis, Cycle { epoch, cycle, time_us, stop: cell.stop, iterations: series })
}

/// A figure of each cycle, epoch by epoch.
pub fn by_epoch(each: &[Cycle], figure: impl Fn(&Cycle) -> f64) -> Vec<Vec<f64>> {
    each.chunk_by(|a, b| a.epoch == b.epoch).map(|epoch| epoch.iter().map(&figure).collect()).collect()
}

/// Per timed block, the longest of all ranks.
fn longest_blocks(cell: &Cell) -> Vec<f64> {
    let mut longest: Vec<f64> = Vec::new();
    for sample in &cell.ranks {
        longest.resize(sample.series.blocks_us.len(), 0.0);
        for (most, block) in longest.iter_mut().zip(&sample.series.blocks_us) {
            *most = most.max(*block);
        }
    }
    longest
}

/// Cases that drift along the cycles: p below 0.05 after Holm over all cases, so that a run without drift names one in
/// at most 5 % of runs, and at least 1 % over the run. Unstable cases are not among them: their state says more.
pub fn drifting(all: &[Statistics]) -> Vec<Drifting> {
    let tested: Vec<usize> = (0..all.len()).filter(|at| all[*at].over.drift.is_some()).collect();
    let drift = |at: &usize| all[*at].over.drift.map_or((1.0, 0.0), |drift| (drift.p, drift.over_series_pct));
    let adjusted = holm(&tested.iter().map(|at| drift(at).0).collect::<Vec<_>>());
    let found = tested.iter().zip(adjusted);
    let found = found.filter(|(at, p)| *p < 0.05 && drift(at).1.abs() >= WORTH_TELLING_PCT);
    found.map(|(case, p)| Drifting { case: *case, p }).collect()
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
