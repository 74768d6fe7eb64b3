//! Which rank holds the others back, said only where the data can tell.
//!
//! In a synchronising collective the rank with the *longest* time is the victim that waited; the one that came
//! last has the *shortest*. So there are two findings, never one. Method: docs/METHODOLOGY.md.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Case, Cell, RankSample, Row};
use crate::stats::{median, nearest_rank, sorted};
use crate::vocab::GATE;

/// Samples (cycles, or iterations) that a statement needs.
const NEEDED: usize = 5;
/// Cycles that are kept of an endless run; beyond that every second, fourth, … one.
const KEPT: usize = 64;

/// A statement about one rank. Times are in µs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// One rank stands out in more than half of the cases (a case is a size of one type, reduction, root and
    /// placement).
    Named {
        /// It.
        rank: u32,
        /// Distance to the next rank, median over the cases that agree.
        gap_us: f64,
        /// Half the range from P10 to P90 of that distance over samples, median over the same cases.
        spread_us: f64,
        /// Cases that name this rank.
        agreeing: usize,
        /// Cases with enough samples.
        cases: usize,
    },
    /// The distance between ranks does not exceed the spread, or cases disagree.
    NotDistinguishable {
        /// Median distance over cases.
        gap_us: f64,
        /// Median spread over cases.
        spread_us: f64,
        /// Cases with enough samples.
        cases: usize,
        /// Cases in which some rank stands out, though not one and the same.
        distinct: usize,
    },
    /// No case has enough samples.
    TooFewSamples {
        /// Cycles that there were.
        cycles: usize,
    },
    /// There is nobody to compare with.
    OneRank,
    /// Ranks of several communicators do not wait for each other (`NCCL_TESTS_SPLIT`).
    SeveralGroups,
}

/// The two findings of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Critical {
    /// The rank with the longest time.
    pub longest: Verdict,
    /// The rank that the others waited for: the shortest time from a common start. Only where ranks start
    /// together (`-z 1`, `-z 3`, `-z G`) and no rank can finish before the last has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_to_arrive: Option<Verdict>,
}

/// What the run's options allow to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Ranks of the job.
    pub ranks: u32,
    /// Communicators that they form.
    pub groups: u32,
    /// `-K`: leading iterations that are left out.
    pub skip: usize,
    /// `-z`: 1 and 3 have a barrier before each iteration, [`GATE`] a gate.
    pub blocking: u8,
    /// [`crate::collective::Traits::synchronising`].
    pub synchronising: bool,
}

impl Mode {
    fn knows_arrival(self) -> bool {
        self.synchronising && matches!(self.blocking, 1 | 3 | GATE)
    }
}

/// Samples of one case: `[sample][rank]`, in µs.
#[derive(Clone, Debug, Default)]
struct Track {
    seen: usize,
    /// Every 2^`thinned`-th cycle is kept.
    thinned: u32,
    cycles: Vec<Vec<f64>>,
    iterations: Vec<Vec<f64>>,
}

impl Track {
    /// Cycles, if there are enough, since only they are independent; iterations otherwise.
    fn samples(&self) -> Option<&[Vec<f64>]> {
        [&self.cycles, &self.iterations].into_iter().find(|s| s.len() >= NEEDED).map(Vec::as_slice)
    }

    /// Adds a cycle; iterations are kept only while they may be needed.
    fn push(&mut self, cycle: Vec<f64>, series: &[&[f64]]) {
        self.seen += 1;
        if self.seen < NEEDED {
            let length = series.iter().map(|times| times.len()).min().unwrap_or(0);
            self.iterations.extend((0..length).map(|at| series.iter().map(|times| times[at]).collect()));
        } else {
            self.iterations = Vec::new();
        }
        if (self.seen - 1).is_multiple_of(1 << self.thinned) {
            self.cycles.push(cycle);
        }
        if self.cycles.len() > KEPT {
            let mut index = 0;
            self.cycles.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.thinned += 1;
        }
    }
}

/// Collects rows of a run; `verdict` at any time.
#[derive(Clone, Debug)]
pub struct Observer {
    mode: Mode,
    times: HashMap<Case, Track>,
    arrivals: HashMap<Case, Track>,
}

impl Observer {
    /// For one run.
    pub fn new(mode: Mode) -> Self {
        Self { mode, times: HashMap::new(), arrivals: HashMap::new() }
    }

    /// Counts a row in. Rows of size 0 move nothing and say nothing.
    pub fn push(&mut self, row: &Row) {
        if row.size_bytes == 0 {
            return;
        }
        for cell in &row.cells {
            if cell.ranks.len() == self.mode.ranks as usize {
                self.push_cell(row, cell);
            }
        }
    }

    fn push_cell(&mut self, row: &Row, cell: &Cell) {
        let case = Case::of(row, cell.placement);
        let totals = cell.ranks.iter().map(|sample| sample.total_us).collect();
        let intervals: Vec<&[f64]> =
            cell.ranks.iter().map(|sample| counted(interval(sample), self.mode)).collect();
        self.times.entry(case.clone()).or_default().push(totals, &intervals);
        if self.mode.knows_arrival() {
            let series: Vec<&[f64]> =
                cell.ranks.iter().map(|sample| counted(duration(sample, self.mode), self.mode)).collect();
            let medians: Option<Vec<f64>> = series.iter().map(|times| median(times)).collect();
            if let Some(medians) = medians {
                self.arrivals.entry(case).or_default().push(medians, &series);
            }
        }
    }

    /// Both findings over all rows so far.
    pub fn verdict(&self) -> Critical {
        let cycles = self.times.values().map(|track| track.seen).max().unwrap_or(0);
        let judge = |tracks: &HashMap<Case, Track>, end| match (self.mode.ranks, self.mode.groups) {
            (0 | 1, _) => Verdict::OneRank,
            (_, 2..) => Verdict::SeveralGroups,
            _ => judge(tracks, end).unwrap_or(Verdict::TooFewSamples { cycles }),
        };
        let longest = judge(&self.times, End::Longest);
        let last_to_arrive =
            (self.mode.knows_arrival() && self.mode.ranks > 1).then(|| judge(&self.arrivals, End::Shortest));
        Critical { longest, last_to_arrive }
    }
}

/// Without the iterations that `-K` leaves out.
fn counted(times: &[f64], mode: Mode) -> &[f64] {
    times.get(mode.skip..).unwrap_or(&[])
}

/// The series of `-I`, or the nearest thing that there is.
fn interval(sample: &RankSample) -> &[f64] {
    let series = &sample.series;
    [&series.interval_us, &series.event_us, &series.completion_us]
        .into_iter()
        .find(|times| !times.is_empty())
        .map_or(&[], Vec::as_slice)
}

/// Time of one operation from a common start: its own marks, else the host's; in `-z 3` the interval is that too.
fn duration(sample: &RankSample, mode: Mode) -> &[f64] {
    let series = &sample.series;
    let pair: &[f64] = if mode.blocking == 3 { &series.interval_us } else { &[] };
    [&series.event_us[..], &series.completion_us[..], pair]
        .into_iter()
        .find(|times| !times.is_empty())
        .unwrap_or(&[])
}

/// Which end of the order is looked at.
#[derive(Clone, Copy)]
enum End {
    Longest,
    Shortest,
}

/// The first rank of one case, and how far it is from the second.
struct Contest {
    rank: u32,
    gap_us: f64,
    spread_us: f64,
}

/// The distance of the first to the second rank, paired by sample, so that what slows all ranks alike drops out.
fn contest(samples: &[Vec<f64>], end: End) -> Option<Contest> {
    let sign = match end {
        End::Longest => 1.0,
        End::Shortest => -1.0,
    };
    let ranks = samples.first()?.len();
    let typical = |rank: usize| median(&samples.iter().map(|s| sign * s[rank]).collect::<Vec<_>>());
    let mut order: Vec<(f64, usize)> = (0..ranks).filter_map(|rank| Some((typical(rank)?, rank))).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (&(_, first), &(_, second)) = (order.first()?, order.get(1)?);
    let differences = sorted(&samples.iter().map(|s| sign * (s[first] - s[second])).collect::<Vec<_>>());
    let half_range = (nearest_rank(&differences, 90)? - nearest_rank(&differences, 10)?) / 2.0;
    Some(Contest { rank: first as u32, gap_us: median(&differences)?, spread_us: half_range })
}

/// The rank that more than half of the cases name; `None` where no case has enough samples.
fn judge(tracks: &HashMap<Case, Track>, end: End) -> Option<Verdict> {
    let contests: Vec<Contest> = tracks.values().filter_map(|track| contest(track.samples()?, end)).collect();
    let distinct: Vec<&Contest> = contests.iter().filter(|c| c.gap_us > c.spread_us).collect();
    let mut votes: BTreeMap<u32, usize> = BTreeMap::new();
    for contest in &distinct {
        *votes.entry(contest.rank).or_default() += 1;
    }
    let cases = contests.len();
    let named = votes.into_iter().find(|(_, agreeing)| agreeing * 2 > cases);
    let Some((rank, agreeing)) = named else {
        return Some(Verdict::NotDistinguishable {
            gap_us: median(&contests.iter().map(|c| c.gap_us).collect::<Vec<_>>())?,
            spread_us: median(&contests.iter().map(|c| c.spread_us).collect::<Vec<_>>())?,
            cases,
            distinct: distinct.len(),
        });
    };
    let agree = || distinct.iter().filter(|c| c.rank == rank);
    Some(Verdict::Named {
        rank,
        gap_us: median(&agree().map(|c| c.gap_us).collect::<Vec<_>>())?,
        spread_us: median(&agree().map(|c| c.spread_us).collect::<Vec<_>>())?,
        agreeing,
        cases,
    })
}

#[cfg(test)]
#[path = "critical_tests.rs"]
mod tests;
