//! An earlier run's record as what a run is expected to reach (`--expect RECORD`). Pure: bytes in.

use std::collections::BTreeSet;

use crate::aggregate::Speeds;
use crate::cli::env::is_a_ranks_own;
use crate::cli::{Cli, Parsed};
use crate::error::{Error, Result};
use crate::plan::Series;
use crate::report::Preamble;
use crate::report::record::{self, Event, Record};
use crate::report::table::listed;
use crate::vocab::Placement;

/// What is expected, and what came so far.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// When the earlier run began.
    pub start_time: String,
    /// What differs from the earlier run and does not stand against a comparison.
    pub differs: Vec<String>,
    /// Of the earlier run.
    pub expected: Speeds,
    /// Of this one.
    pub found: Speeds,
}

impl Baseline {
    /// Reads a record for a run of `ours` that measures `series` at `sizes`. What cannot be compared is an error that
    /// says all that stands against it.
    pub fn read(bytes: &[u8], ours: &Preamble, series: &[Series], sizes: &[u64]) -> Result<Self> {
        let record = record::read(bytes)?;
        let Some(Event::Start { preamble: theirs, .. }) = record.events.first() else {
            return Err(Error::Setup("its first line is no start".to_owned()));
        };
        let mut expected = Speeds::default();
        for event in &record.events {
            if let Event::Row(row) = event {
                expected.push(row);
            }
        }
        let mut against = unfit(&record, theirs);
        against.extend(other(ours, theirs));
        if against.is_empty() {
            against.extend(missing(&record, series, sizes));
        }
        if !against.is_empty() {
            return Err(Error::Usage(against.join("; ")));
        }
        Ok(Self {
            start_time: theirs.start_time.clone(),
            differs: remarkable(ours, theirs),
            expected,
            found: Speeds::default(),
        })
    }
}

/// Why a record can be nobody's baseline.
fn unfit(record: &Record, theirs: &Preamble) -> Vec<String> {
    let mut against: Vec<String> = Vec::new();
    if !theirs.injected.is_empty() {
        let faults = theirs.injected.join(", ");
        against.push(format!("a fault was injected into that run ({faults}), so it is no measurement"));
    }
    if !record.unreadable.is_empty() {
        against.push(format!("{} of its lines cannot be read", record.unreadable.len()));
    }
    let finish = record.events.iter().rev().find_map(|event| match event {
        Event::Finish { outcome, .. } => Some(outcome),
        _ => None,
    });
    match finish {
        None => against.push("that run did not finish".to_owned()),
        Some(outcome) if outcome.wrong_elements > 0 || outcome.out_of_bounds > 0 => {
            against.push("that run had wrong data".to_owned());
        }
        Some(_) => {}
    }
    against
}

/// What makes two runs' figures no figures of one thing, one sentence each.
fn other(ours: &Preamble, theirs: &Preamble) -> Vec<String> {
    let (mine, its) = (&ours.config, &theirs.config);
    let devices = |of: &Preamble| {
        let mut names: Vec<String> = of.sites.iter().map(|site| site.device.name.clone()).collect();
        names.dedup();
        names.join(", ")
    };
    let pairs = [
        ("program", theirs.program.clone(), ours.program.clone()),
        ("backend", theirs.backend.to_string(), ours.backend.to_string()),
        ("ranks", theirs.sites.len().to_string(), ours.sites.len().to_string()),
        ("ranks by host", layout(theirs, |site| site.host.clone()), layout(ours, |site| site.host.clone())),
        ("ranks by process", layout(theirs, |site| site.process), layout(ours, |site| site.process)),
        ("groups", layout(theirs, |site| site.group), layout(ours, |site| site.group)),
        ("devices", devices(theirs), devices(ours)),
        ("-z", its.blocking.to_string(), mine.blocking.to_string()),
        ("-m", its.aggregated.to_string(), mine.aggregated.to_string()),
        ("-G", its.graph.to_string(), mine.graph.to_string()),
        ("-u", its.unalign.to_string(), mine.unalign.to_string()),
        ("-I", u8::from(its.per_iteration).to_string(), u8::from(mine.per_iteration).to_string()),
        ("-a", format!("{:?}", its.average), format!("{:?}", mine.average)),
        ("-R, -x, -y, --native", modes(theirs), modes(ours)),
    ];
    differing(pairs)
}

/// Of what, there and here, one sentence for each that is not the same.
fn differing<'a>(pairs: impl IntoIterator<Item = (&'a str, String, String)>) -> Vec<String> {
    let differ = pairs.into_iter().filter(|(_, theirs, ours)| theirs != ours);
    differ.map(|(what, theirs, ours)| format!("{what}: {theirs} there, {ours} here")).collect()
}

/// Flags that change what is measured and are no part of the table's settings.
fn modes(of: &Preamble) -> String {
    match Cli::read(of.args.iter().map(Into::into)) {
        Ok(Parsed::Run(cli)) => {
            format!("{} {:?} {} {:?}", cli.register, cli.cta_policy, cli.stream_null, cli.native)
        }
        Ok(Parsed::Show(_)) | Err(_) => "unknown".to_owned(),
    }
}

/// Which ranks share something, whatever its name: `2 x 8` where 8 ranks in a row share each of two.
fn layout<T: PartialEq>(of: &Preamble, key: impl Fn(&crate::report::Site) -> T) -> String {
    let mut seen: Vec<T> = Vec::new();
    let mut places: Vec<usize> = Vec::new();
    for site in &of.sites {
        let key = key(site);
        places.push(seen.iter().position(|other| *other == key).unwrap_or(seen.len()));
        if places.last() == Some(&seen.len()) {
            seen.push(key);
        }
    }
    let runs: Vec<usize> = places.chunk_by(|a, b| a == b).map(<[usize]>::len).collect();
    match runs.first() {
        Some(first) if runs.len() == seen.len() && runs.iter().all(|run| run == first) => {
            format!("{} x {first}", runs.len())
        }
        _ => format!("{places:?}"),
    }
}

/// Rows that this run will have and the record has not.
fn missing(record: &Record, series: &[Series], sizes: &[u64]) -> Vec<String> {
    let reduced = record.events.iter().find_map(|event| match event {
        Event::Plan(plan) => plan.reduced_max_bytes,
        _ => None,
    });
    // Rows of size 0 as well, of which no comparison says anything.
    let rows = || {
        record.events.iter().filter_map(|event| match event {
            Event::Row(row) => Some(row),
            _ => None,
        })
    };
    let mut against = Vec::new();
    for one in series {
        let (label, root) = (one.label(), one.root_column());
        let has = |bytes: u64, placement| {
            rows().any(|row| {
                (row.requested_bytes, row.dtype, row.root) == (bytes, one.dtype, root)
                    && row.redop == label
                    && row.cells.iter().any(|cell| cell.placement == placement)
            })
        };
        let waived = |event: &Event| matches!(event, Event::Waived { dtype, redop, .. } if *dtype == one.dtype && *redop == label);
        // Of all types and reductions, those that could not be run there are not run here either, or cannot be told.
        if one.from_all && record.events.iter().any(waived) {
            continue;
        }
        // What that run's memory cut off, this one's may as well.
        let cut = |bytes: u64| reduced.is_some_and(|most| bytes > most);
        let all = |bytes: u64| cut(bytes) || Placement::BOTH.iter().all(|placement| has(bytes, *placement));
        let lacks: Vec<String> = sizes.iter().filter(|bytes| !all(**bytes)).map(u64::to_string).collect();
        if !lacks.is_empty() {
            let listed = listed(&lacks, 4);
            against.push(format!("it has no row of {} {label} at {listed} bytes", one.dtype));
        }
    }
    against
}

/// What may be why figures differ, and is often what is compared.
fn remarkable(ours: &Preamble, theirs: &Preamble) -> Vec<String> {
    let library = |of: &Preamble| format!("{} {}", of.library.name, of.library.version);
    let hosts = |of: &Preamble| {
        let mut hosts: Vec<&str> = of.sites.iter().map(|site| site.host.as_str()).collect();
        hosts.dedup();
        hosts.join(", ")
    };
    let mut pairs = vec![
        ("library", library(theirs), library(ours)),
        ("version", theirs.version.clone(), ours.version.clone()),
        ("hosts", hosts(theirs), hosts(ours)),
        ("-n", theirs.config.iterations.to_string(), ours.config.iterations.to_string()),
    ];
    let names: BTreeSet<&str> = ours.env.iter().chain(&theirs.env).map(|(name, _)| name.as_str()).collect();
    let value = |of: &Preamble, name: &str| {
        let found = of.env.iter().find(|(known, _)| known == name);
        found.map_or_else(|| "not set".to_owned(), |(_, value)| value.clone())
    };
    let shared = names.into_iter().filter(|name| !is_a_ranks_own(name));
    pairs.extend(shared.map(|name| (name, value(theirs, name), value(ours, name))));
    differing(pairs)
}

#[cfg(test)]
#[path = "baseline_tests.rs"]
mod tests;
