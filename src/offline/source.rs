//! What a record's first line says about how its rows came about.

use std::collections::BTreeMap;

use crate::aggregate::{
    Cell, Check, ClockError, How, Mode, RankSample, Row, Wrong, arrivals, cell, split_cell,
};
use crate::cli::env::Environment;
use crate::cli::{Cli, Parsed};
use crate::collective::{ALL, Collective, traffic};
use crate::error::{Error, Result};
use crate::measure::{longest, rule};
use crate::report::Preamble;
use crate::stats::{Reason, Rule, Stop, Stopping};
use crate::vocab::Member;

/// Makes rows again.
pub(super) struct Source<'a> {
    preamble: &'a Preamble,
    collective: Box<dyn Collective>,
    processes: Vec<u32>,
    /// Colour and ranks of each group.
    groups: Vec<(u32, Vec<u32>)>,
    rule: Option<Rule>,
}

impl<'a> Source<'a> {
    pub(super) fn new(preamble: &'a Preamble) -> Result<Self> {
        let environment = Environment::read(|name| {
            preamble.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
        })?;
        let name = preamble.program.trim_end_matches("_perf");
        let entry = ALL.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| {
            Error::Unsupported(format!("a record of {} has no figures to compute again", preamble.program))
        })?;
        let mut groups = BTreeMap::<u32, Vec<u32>>::new();
        for site in &preamble.sites {
            groups.entry(site.group).or_default().push(site.rank);
        }
        let rule = match Cli::read(preamble.args.iter().map(Into::into)) {
            Ok(Parsed::Run(cli)) => rule(&cli.extent),
            Ok(Parsed::Show(_)) | Err(_) => None,
        };
        Ok(Self {
            preamble,
            collective: (entry.build)(environment.shares()?),
            processes: preamble.sites.iter().map(|site| site.process).collect(),
            groups: groups.into_iter().collect(),
            rule,
        })
    }

    /// What the critical rank may be told from.
    pub(super) fn mode(&self) -> Mode {
        self.preamble.mode(self.collective.traits().synchronising)
    }

    /// The row as its ranks' samples make it; what no sample holds (names, wall time, coverage) is the recorded one's.
    pub(super) fn row(&self, recorded: &Row) -> Row {
        let me = Member { rank: 0, ranks: self.ranks_of_first() };
        let layout = self.collective.layout(recorded.requested_bytes, recorded.dtype, me);
        Row {
            size_bytes: layout.span() * recorded.dtype.bytes(),
            count: layout.count,
            cells: recorded.cells.iter().map(|cell| self.cell(recorded, cell)).collect(),
            ..recorded.clone()
        }
    }

    /// Ranks in rank 0's communicator.
    fn ranks_of_first(&self) -> u32 {
        self.groups.iter().find(|(_, ranks)| ranks.contains(&0)).map_or(1, |(_, ranks)| ranks.len() as u32)
    }

    fn cell(&self, row: &Row, recorded: &Cell) -> Cell {
        let config = &self.preamble.config;
        let how = How {
            average: config.average,
            cputime: config.cputime,
            per_iteration: config.per_iteration,
            skip: config.skip as usize,
            processes: &self.processes,
        };
        let root = u32::try_from(row.root).unwrap_or(0);
        let traffic = |ranks| traffic(&*self.collective, row.requested_bytes, row.dtype, root, ranks);
        let samples: Vec<RankSample> = recorded.ranks.iter().cloned().map(from_blocks).collect();
        let made = match self.groups.as_slice() {
            [] | [_] => {
                let ranks = self.preamble.sites.len() as u32;
                cell(recorded.placement, samples, traffic(ranks), how, check(recorded))
            }
            several => {
                let parts: Vec<_> = several
                    .iter()
                    .map(|(color, ranks)| (*color, ranks.clone(), traffic(ranks.len() as u32)))
                    .collect();
                split_cell(recorded.placement, samples, &parts, how, check(recorded))
            }
        };
        Cell {
            coverage: recorded.coverage,
            algorithm: recorded.algorithm.clone(),
            predicted_us: recorded.predicted_us,
            unpredicted: recorded.unpredicted.clone(),
            stop: recorded.stop.and_then(|stop| self.stop(recorded, stop.reason)),
            arrivals: recorded.arrivals.as_ref().and_then(|told| {
                arrivals(&recorded.ranks, ClockError::of(told), how.skip, config.aggregated)
            }),
            ..made
        }
    }

    /// The stop rule, run again over the blocks. The record has no time of each block, so that only the last one can
    /// be over the budget, and only where the record says so.
    fn stop(&self, recorded: &Cell, reason: Reason) -> Option<Stop> {
        let blocks = recorded.ranks.first()?.series.blocks_us.len();
        let mut stopping = Stopping::new(self.rule?);
        for block in 0..blocks {
            let samples: Vec<RankSample> =
                recorded.ranks.iter().map(|sample| one_block(sample, block, blocks)).collect();
            let over = reason == Reason::Budget && block + 1 == blocks;
            let stop = stopping.push(&longest(&samples), if over { f64::INFINITY } else { 0.0 });
            if stop.is_some() {
                return stop;
            }
        }
        None
    }
}

/// Whether the samples were checked, which only they know where no reason stood against it.
fn check(recorded: &Cell) -> Check {
    match &recorded.wrong {
        Wrong::Blind(reason) => Check::Blind(reason.clone()),
        Wrong::Undefined => Check::Undefined,
        Wrong::Count(_) | Wrong::NotChecked if recorded.ranks.iter().any(|rank| rank.tally.is_some()) => {
            Check::Counted
        }
        Wrong::Count(_) | Wrong::NotChecked => Check::NotChecked,
    }
}

/// Where the loop ran in blocks, a rank's time is their mean.
fn from_blocks(mut sample: RankSample) -> RankSample {
    let blocks = &sample.series.blocks_us;
    if !blocks.is_empty() {
        sample.total_us = blocks.iter().sum::<f64>() / blocks.len() as f64;
    }
    sample
}

fn one_block(sample: &RankSample, block: usize, blocks: usize) -> RankSample {
    let mut one = sample.clone();
    one.total_us = sample.series.blocks_us.get(block).copied().unwrap_or_default();
    let each = sample.series.interval_us.len() / blocks;
    one.series.interval_us = sample.series.interval_us[block * each..(block + 1) * each].to_vec();
    one
}
