//! Timed blocks of one placement: one, or as many as it takes to know the median.

use std::time::Instant;

use super::Bench;
use crate::aggregate::RankSample;
use crate::cli::Extent;
use crate::collective::Case;
use crate::error::{Error, Result};
use crate::stats::{Rule, Stop, Stopping};

/// Time for a placement where only `--precision` is given, in s.
const BUDGET_S: f64 = 10.0;

/// The stop rule that the command line asks for, if it does.
pub fn rule(extent: &Extent) -> Option<Rule> {
    let Extent { precision, budget, .. } = *extent;
    (precision.is_some() || budget.is_some()).then(|| Rule {
        precision,
        budget_s: budget.unwrap_or(BUDGET_S),
        least: 20,
        batch: 10,
        most: 10_000,
    })
}

impl Bench<'_> {
    /// One timed block, or with a rule blocks until it ends them.
    pub(super) fn blocks(&mut self, cases: &[Case]) -> Result<Vec<RankSample>> {
        self.stopped = None;
        let Some(rule) = self.rule else { return self.timed(cases) };
        let begin = Instant::now();
        let mut stopping = Stopping::new(rule);
        let mut blocks = Vec::new();
        loop {
            let block = self.timed(cases)?;
            let times_us = longest(&block);
            blocks.push(block);
            self.stopped = self.agree_on_end(&mut stopping, &times_us, begin.elapsed().as_secs_f64())?;
            if self.stopped.is_some() {
                return Ok(joined(&blocks));
            }
            self.barrier()?;
        }
    }

    /// Rank 0 decides over all ranks' times and tells the others: ranks that decided alone could go apart.
    fn agree_on_end(
        &self,
        stopping: &mut Stopping,
        times_us: &[f64],
        elapsed_s: f64,
    ) -> Result<Option<Stop>> {
        let mine: Vec<u8> = times_us.iter().flat_map(|time| time.to_le_bytes()).collect();
        let stop = self.control.gather(&mine)?.and_then(|all| stopping.push(&maxima(&all), elapsed_s));
        let told = self.control.broadcast(serde_json::to_vec(&stop).unwrap_or_default())?;
        serde_json::from_slice(&told).map_err(|error| {
            Error::Setup(format!("rank 0's word on the end of a row cannot be read: {error}"))
        })
    }
}

/// What a block adds to the series that the rule looks at: per iteration the longest of `samples` with `-I`, else the
/// longest time of an operation.
pub fn longest(samples: &[RankSample]) -> Vec<f64> {
    let whole: Vec<[f64; 1]> = samples.iter().map(|sample| [sample.total_us]).collect();
    let series =
        samples.iter().zip(&whole).map(|(sample, whole)| match sample.series.interval_us.as_slice() {
            [] => whole.as_slice(),
            intervals => intervals,
        });
    series.fold(Vec::new(), raised)
}

/// All processes' times, each a list of 8-byte floats, to their maxima.
fn maxima(all: &[Vec<u8>]) -> Vec<f64> {
    let times = |bytes: &Vec<u8>| -> Vec<f64> {
        bytes.as_chunks().0.iter().map(|eight| f64::from_le_bytes(*eight)).collect()
    };
    all.iter().map(times).fold(Vec::new(), |longest, times| raised(longest, &times))
}

/// Element-wise maximum; an empty list is none yet.
fn raised(mut longest: Vec<f64>, times: &[f64]) -> Vec<f64> {
    if longest.is_empty() {
        return times.to_vec();
    }
    for (most, time) in longest.iter_mut().zip(times) {
        *most = most.max(*time);
    }
    longest
}

/// Blocks of the same ranks as one: means of totals, series end to end.
fn joined(blocks: &[Vec<RankSample>]) -> Vec<RankSample> {
    let ranks = blocks.first().map_or(0, Vec::len);
    (0..ranks)
        .map(|local| {
            let mut joined = blocks[0][local].clone();
            let count = blocks.len() as f64;
            let mine = || blocks.iter().map(|block| &block[local]);
            joined.series.blocks_us = mine().map(|sample| sample.total_us).collect();
            joined.total_us = joined.series.blocks_us.iter().sum::<f64>() / count;
            joined.cpu_us = mine().map(|sample| sample.cpu_us).sum::<f64>() / count;
            for more in mine().skip(1) {
                joined.series.enqueue_us.extend(&more.series.enqueue_us);
                joined.series.event_us.extend(&more.series.event_us);
                joined.series.completion_us.extend(&more.series.completion_us);
                joined.series.interval_us.extend(&more.series.interval_us);
            }
            joined
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Series;

    fn sample(rank: u32, total_us: f64, interval_us: &[f64]) -> RankSample {
        let series = Series { interval_us: interval_us.to_vec(), ..Series::default() };
        RankSample { rank, total_us, cpu_us: total_us / 2.0, series, tally: None }
    }

    #[test]
    fn the_series_is_the_longest_of_all_ranks() {
        assert_eq!(longest(&[sample(0, 4.0, &[]), sample(1, 5.0, &[])]), [5.0]);
        assert_eq!(longest(&[sample(0, 4.0, &[1.0, 8.0]), sample(1, 5.0, &[2.0, 3.0])]), [2.0, 8.0]);
        let bytes = |times: &[f64]| times.iter().flat_map(|time| time.to_le_bytes()).collect();
        assert_eq!(maxima(&[bytes(&[1.0, 8.0]), bytes(&[2.0, 3.0])]), [2.0, 8.0]);
        assert!(maxima(&[]).is_empty());
    }

    #[test]
    fn blocks_are_joined_rank_by_rank() {
        let blocks = [
            vec![sample(0, 4.0, &[1.0, 2.0]), sample(1, 6.0, &[3.0, 4.0])],
            vec![sample(0, 8.0, &[5.0, 6.0]), sample(1, 7.0, &[7.0, 8.0])],
        ];
        let all = joined(&blocks);
        assert_eq!((all[0].total_us, all[0].cpu_us, all[1].total_us), (6.0, 3.0, 6.5));
        assert_eq!(all[0].series.interval_us, [1.0, 2.0, 5.0, 6.0]);
        assert_eq!((&all[1].series.blocks_us, all[1].rank), (&vec![6.0, 7.0], 1));
    }

    #[test]
    fn the_command_line_makes_the_rule() {
        assert_eq!(rule(&Extent::default()), None);
        let precise = rule(&Extent { precision: Some(0.01), ..Extent::default() }).unwrap();
        assert_eq!((precise.precision, precise.budget_s), (Some(0.01), BUDGET_S));
        let timed = rule(&Extent { budget: Some(2.0), ..Extent::default() }).unwrap();
        assert_eq!((timed.precision, timed.budget_s), (None, 2.0));
    }
}
