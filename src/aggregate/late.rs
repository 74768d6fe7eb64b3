//! Which rank comes late, said only where it is later than this run's own barriers leave a healthy one, and than
//! the clocks can be wrong. Method and constants: docs/METHODOLOGY.md, "A late rank".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::RankSample;
use super::arrivals::{Times, columns, first, last, middle};
use crate::stats::{median, median_bounds, nearest_rank, sorted};

/// Iterations, and bare barriers, that a statement needs.
const NEEDED: usize = 20;
/// A rank is late where it is so many times its excuse behind.
const MARGIN: f64 = 2.0;
/// Its own lateness out of bare barriers excuses it up to so many times its peers': an order of exit is fixed by
/// the barrier's algorithm and costs messages, a core that is taken away costs time slices.
const PEERS: f64 = 10.0;
/// … or so many times the skew of the quietest tenth of the barriers.
const QUIET: f64 = 3.0;
/// Less than this, in µs, is what a call costs a host, and no lateness: two healthy H200 stood 0.3 µs apart.
const LEAST_US: f64 = 1.0;
/// Nor is less than this part of the iteration: it costs nothing that could be seen.
const OF_OPERATION: f64 = 0.01;
/// Late in so many of the iterations at least.
const SHARE: f64 = 0.2;
/// Chance of being last so often by luck, over all ranks together.
const LUCK: f64 = 0.01;
/// Placements that must name the same rank: so many, this share of all, and this share of those that name any.
const CONFIRMATIONS: usize = 2;
const OF_ALL: f64 = 0.25;
const OF_NAMED: f64 = 0.75;

/// Where a lateness is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenAt {
    /// The rank calls the collective late.
    #[default]
    Calls,
    /// The rank leaves bare barriers late, though it calls in time: a core that is taken away may always be so within
    /// the operation, where the next barrier hides it.
    Barriers,
}

/// What one placement's iterations say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Late {
    /// This rank.
    Named {
        /// It.
        rank: u32,
        /// Where.
        seen_at: SeenAt,
        /// Share of the iterations, or bare barriers, in which it was late, 0 to 1.
        share: f64,
        /// How late it then was: median behind the middle rank, in µs.
        late_us: f64,
        /// The 95 % interval of that median; absent where it was late too rarely for one.
        interval_us: Option<[f64; 2]>,
        /// From which lateness on it counts as late, in µs.
        threshold_us: f64,
    },
    /// Nobody is late, or not the same one.
    Nobody {
        /// The lateness that would have counted, of the rank with the largest such, in µs.
        threshold_us: f64,
    },
    /// Too few iterations, or no common clock.
    Unknown,
}

/// Judges one placement, whose iterations are of `aggregated` operations each. `clock_error_us` bounds the error between any
/// two ranks.
pub fn late(samples: &[RankSample], clock_error_us: f64, skip: usize, aggregated: u64) -> Late {
    let Some(times) = Times::of(samples, skip) else { return Late::Unknown };
    let arrivals: Vec<Vec<f64>> = columns(&times.arrivals_us).collect();
    let exits: Vec<Vec<f64>> = columns(&times.exits_us).collect();
    if arrivals.len() < NEEDED || exits.len() < NEEDED {
        return Late::Unknown;
    }
    let least_us = LEAST_US.max(OF_OPERATION * operation_us(samples, skip) * aggregated as f64);
    let thresholds: Vec<f64> =
        excuses(&exits).into_iter().map(|excuse| (MARGIN * excuse + clock_error_us).max(least_us)).collect();
    let at = |seen_at, moments: &[Vec<f64>]| {
        let (place, late_us) = Contest::of(moments, &thresholds).winner()?;
        let share = late_us.len() as f64 / moments.len() as f64;
        let (rank, threshold_us) = (times.ranks[place], thresholds[place]);
        let interval_us = median_bounds(&late_us).map(|(low, high)| [low, high]);
        let late_us = median(&late_us)?;
        (share >= SHARE).then_some(Late::Named { rank, seen_at, share, late_us, interval_us, threshold_us })
    };
    at(SeenAt::Calls, &arrivals)
        .or_else(|| at(SeenAt::Barriers, &exits))
        .unwrap_or_else(|| Late::Nobody { threshold_us: last(&thresholds) })
}

/// The shortest rank's time from call to completion, which holds no wait for a late one: median over iterations, in µs;
/// 0 where it is not known.
fn operation_us(samples: &[RankSample], skip: usize) -> f64 {
    let times: Vec<&[f64]> =
        samples.iter().map(|sample| sample.series.completion_us.get(skip..).unwrap_or(&[])).collect();
    let shortest: Vec<f64> = columns(&times).map(|times| first(&times)).collect();
    median(&shortest).unwrap_or(0.0)
}

/// How late each rank may be because of the barrier, in µs.
fn excuses(exits: &[Vec<f64>]) -> Vec<f64> {
    let ranks = exits.first().map_or(0, Vec::len);
    let typical = |values: &[f64], percent| nearest_rank(&sorted(values), percent).unwrap_or(0.0);
    let own: Vec<f64> = (0..ranks)
        .map(|rank| {
            let behind: Vec<f64> = exits.iter().map(|exit| (exit[rank] - middle(exit)).max(0.0)).collect();
            typical(&behind, 90)
        })
        .collect();
    let skews: Vec<f64> = exits.iter().map(|exit| last(exit) - first(exit)).collect();
    let quiet = QUIET * typical(&skews, 10);
    (0..ranks)
        .map(|rank| {
            let peers: Vec<f64> = (0..ranks).filter(|peer| *peer != rank).map(|peer| own[peer]).collect();
            let plausible = PEERS * median(&peers).unwrap_or(0.0);
            own[rank].min(plausible.max(quiet))
        })
        .collect()
}

/// Who is late, and who then is last, over iterations.
struct Contest {
    /// Per rank, its lateness where it was late, in µs.
    late: Vec<Vec<f64>>,
    /// Per rank, iterations in which it was late and last.
    last: Vec<usize>,
    /// Iterations in which anybody was late.
    with_late: usize,
}

impl Contest {
    fn of(moments: &[Vec<f64>], thresholds: &[f64]) -> Self {
        let ranks = thresholds.len();
        let mut contest = Self { late: vec![Vec::new(); ranks], last: vec![0; ranks], with_late: 0 };
        for times in moments {
            contest.count(times, thresholds);
        }
        contest
    }

    fn count(&mut self, arrived: &[f64], thresholds: &[f64]) {
        let (middle, latest) = (middle(arrived), last(arrived));
        let mut any = false;
        for (place, time) in arrived.iter().enumerate() {
            let behind = time - middle;
            if behind > thresholds[place] {
                any = true;
                self.late[place].push(behind);
                self.last[place] += usize::from(*time >= latest);
            }
        }
        self.with_late += usize::from(any);
    }

    /// The rank that is last more often than luck allows, and its lateness where it was late.
    fn winner(mut self) -> Option<(usize, Vec<f64>)> {
        let ranks = self.last.len();
        let place = (0..ranks).max_by_key(|place| self.last[*place])?;
        let luck = binomial_tail(self.with_late, self.last[place], 1.0 / ranks as f64) * ranks as f64;
        (luck <= LUCK).then(|| (place, std::mem::take(&mut self.late[place])))
    }
}

/// P(X ≥ `least`) of `trials` with chance `chance`.
fn binomial_tail(trials: usize, least: usize, chance: f64) -> f64 {
    if least == 0 {
        return 1.0;
    }
    let (yes, no) = (chance.ln(), (-chance).ln_1p());
    // ln C(trials, k), from one k to the next.
    let mut ways = 0.0_f64;
    let mut sum = 0.0;
    for k in 0..=trials {
        if k > 0 {
            ways += ((trials - k + 1) as f64).ln() - (k as f64).ln();
        }
        if k >= least {
            sum += (ways + k as f64 * yes + (trials - k) as f64 * no).exp();
        }
    }
    sum.min(1.0)
}

/// What a run says about late ranks. Times are in µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum LateVerdict {
    /// One rank, in enough of the placements, and hardly any other in the rest.
    Named {
        /// It.
        rank: u32,
        /// Where most of the placements that agree saw it; the first records knew calls alone.
        #[serde(default)]
        seen_at: SeenAt,
        /// Share of the iterations, or bare barriers, in which it was late, in percent; median over the placements
        /// that agree and saw it there.
        share_pct: f64,
        /// How late it then was; median over the same.
        late_us: f64,
        /// The 95 % interval of its median over a placement's iterations; of both ends the median over the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interval_us: Option<[f64; 2]>,
        /// What counted as late; median over the same.
        threshold_us: f64,
        /// Placements that name it.
        agreeing: usize,
        /// Placements that could be judged.
        cases: usize,
    },
    /// Nobody.
    NotDistinguishable {
        /// The lateness that would have counted; median over placements.
        threshold_us: f64,
        /// Placements that could be judged.
        cases: usize,
        /// Placements in which some rank was late.
        distinct: usize,
    },
}

/// Placements that are remembered at most; of an endless run the newest, at least half as many.
const KEPT: usize = 1 << 14;

/// Collects placements of a run.
#[derive(Clone, Debug, Default)]
pub struct LateObserver {
    placements: Vec<Late>,
}

impl LateObserver {
    /// Counts a placement in.
    pub fn push(&mut self, late: Late) {
        if late == Late::Unknown {
            return;
        }
        if self.placements.len() == KEPT {
            self.placements.drain(..KEPT / 2);
        }
        self.placements.push(late);
    }

    /// The rank that the placements so far name.
    pub fn late_rank(&self) -> Option<u32> {
        match self.verdict() {
            Some(LateVerdict::Named { rank, .. }) => Some(rank),
            _ => None,
        }
    }

    /// Over all placements so far; `None` where none could be judged.
    pub fn verdict(&self) -> Option<LateVerdict> {
        let mut votes = BTreeMap::<u32, usize>::new();
        for late in &self.placements {
            if let Late::Named { rank, .. } = late {
                *votes.entry(*rank).or_default() += 1;
            }
        }
        let (cases, distinct) = (self.placements.len(), votes.values().sum::<usize>());
        let first = votes.into_iter().max_by_key(|(_, agreeing)| *agreeing);
        let enough = |agreeing: usize| {
            agreeing >= CONFIRMATIONS
                && agreeing as f64 >= OF_ALL * cases as f64
                && agreeing as f64 >= OF_NAMED * distinct as f64
        };
        if let Some((rank, agreeing)) = first.filter(|(_, agreeing)| enough(*agreeing)) {
            return self.named(rank, agreeing);
        }
        let thresholds = self.placements.iter().filter_map(|late| match late {
            Late::Named { threshold_us, .. } | Late::Nobody { threshold_us } => Some(*threshold_us),
            Late::Unknown => None,
        });
        let threshold_us = median(&thresholds.collect::<Vec<_>>())?;
        Some(LateVerdict::NotDistinguishable { threshold_us, cases, distinct })
    }

    fn named(&self, rank: u32, agreeing: usize) -> Option<LateVerdict> {
        let is_of = |late: &&Late| matches!(late, Late::Named { rank: named, .. } if *named == rank);
        let of: Vec<&Late> = self.placements.iter().filter(is_of).collect();
        let calls =
            of.iter().filter(|late| matches!(late, Late::Named { seen_at: SeenAt::Calls, .. })).count();
        let most = if 2 * calls >= agreeing { SeenAt::Calls } else { SeenAt::Barriers };
        // Figures of calls and of bare barriers are two things.
        let (of, intervals): (Vec<[f64; 3]>, Vec<Option<[f64; 2]>>) = of
            .into_iter()
            .filter_map(|late| match *late {
                Late::Named { seen_at, share, late_us, interval_us, threshold_us, .. } if seen_at == most => {
                    Some(([share, late_us, threshold_us], interval_us))
                }
                _ => None,
            })
            .unzip();
        let end = |which: usize| {
            let ends: Option<Vec<f64>> = intervals.iter().map(|ends| ends.map(|ends| ends[which])).collect();
            median(&ends?)
        };
        let typical = |part: usize| median(&of.iter().map(|parts| parts[part]).collect::<Vec<_>>());
        Some(LateVerdict::Named {
            rank,
            seen_at: most,
            share_pct: typical(0)? * 100.0,
            late_us: typical(1)?,
            interval_us: end(0).zip(end(1)).map(|(low, high)| [low, high]),
            threshold_us: typical(2)?,
            agreeing,
            cases: self.placements.len(),
        })
    }
}

#[cfg(test)]
#[path = "late_tests.rs"]
mod tests;
