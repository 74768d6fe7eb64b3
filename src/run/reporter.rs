//! Rank 0's account of a run: rows to the outputs, totals and the critical rank to the footer.

use std::collections::{BTreeMap, HashSet};

use super::SharedSink;
use super::late::LateReporter;
use super::limits::Bounds;
use super::statistics::tell;
use super::sweep::{Gathered, Range};
use super::timeline::steady_from;
use super::timing::Timing;
use crate::aggregate::{
    Average, Cell, Check, How, MarkTimer, Observer, RankSample, Row, Statistician, Totals, cell, split_cell,
};
use crate::backend::{Kind, Remark};
use crate::cli::Cli;
use crate::cli::env::Environment;
use crate::collective::{Case, Collective, Traffic};
use crate::error::{Error, Exit, Result};
use crate::measure::{Bench, Checked, Mismatch, Target};
use crate::offline::Baseline;
use crate::plan::Series;
use crate::report::record::{Event, Plan, SizeOrder};
use crate::report::sink::Level;
use crate::report::{MemoryUse, Outcome, Paths, Preamble, Sink, Site};
use crate::vocab::Placement;

/// Local time as nccl-tests writes it.
pub(super) fn local_time() -> String {
    jiff::ZonedDateTime::now().strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Rank 0's.
pub(super) struct Reporter {
    pub(super) sink: Sink,
    observer: Observer,
    statistician: Statistician,
    show_stats: bool,
    totals: Totals,
    how: Recipe,
    pub(super) preamble: Preamble,
    checks_in_place: bool,
    /// Remarks that were made, each once.
    pub(super) told: HashSet<String>,
    print_summary: bool,
    late: LateReporter,
    /// With `--expect RECORD`.
    pub(super) baseline: Option<Baseline>,
    /// Colour and ranks of each group, in order of colour.
    groups: Vec<(u32, Vec<u32>)>,
}

/// How cells are made, from the command line.
struct Recipe {
    average: Average,
    cputime: bool,
    per_iteration: bool,
    skip: usize,
    processes: Vec<u32>,
}

impl Reporter {
    /// Makes the files, and prints what is known before the first row.
    pub(super) fn open(
        cli: &Cli,
        preamble: &Preamble,
        collective: &dyn Collective,
        environment: &Environment,
        shared: &SharedSink,
    ) -> Result<Self> {
        let sink = Sink::open(&Paths { json: cli.json.clone(), record: cli.record.clone() })?;
        // The first to come is the only one: a run opens its outputs once.
        let _ = shared.set(sink.clone());
        sink.start(preamble);
        let traits = collective.traits();
        let mode = preamble.mode(traits.synchronising);
        Ok(Self {
            sink,
            observer: Observer::new(mode),
            statistician: Statistician::default(),
            show_stats: cli.extent.stats,
            totals: Totals::default(),
            how: Recipe {
                average: preamble.config.average,
                cputime: cli.cputime == 1,
                per_iteration: cli.per_iteration == 1,
                skip: preamble.config.skip as usize,
                processes: preamble.sites.iter().map(|site| site.process).collect(),
            },
            preamble: preamble.clone(),
            checks_in_place: traits.checks_in_place,
            told: HashSet::new(),
            print_summary: environment.print_summary,
            late: LateReporter::new(preamble),
            baseline: None,
            groups: groups(&preamble.sites),
        })
    }

    /// The highest busbw so far, in 10^9 B/s.
    pub(super) fn peak_busbw_gbps(&self) -> f64 {
        self.totals.peak_busbw_gbps()
    }

    /// The rank that arrivals name as late so far.
    pub(super) fn late_rank(&self) -> Option<u32> {
        self.late.named()
    }

    /// The plan, the cut of the sizes, the header.
    pub(super) fn begin(&self, series: &[Series], bounds: &Bounds, cli: &Cli) {
        let range = Range { min_bytes: bounds.min_bytes, max_bytes: bounds.max_bytes };
        let mut plan = Plan {
            sizes_bytes: range.sizes(cli).collect(),
            order: SizeOrder::of(&cli.extent),
            reduced_max_bytes: bounds.reduced.then_some(bounds.max_bytes),
            ..Plan::default()
        };
        for one in series {
            push_new(&mut plan.dtypes, one.dtype);
            push_new(&mut plan.redops, one.label().to_owned());
            push_new(&mut plan.roots, one.root_column());
        }
        self.sink.event(&Event::Plan(plan));
        for fault in &cli.inject {
            self.sink.note(
                Level::Warning,
                &format!("a fault is injected on purpose: {fault}; this is no measurement"),
            );
        }
        if bounds.reduced {
            self.sink.reduced(bounds.max_bytes);
            self.sink.note(
                Level::Warning,
                &format!("-e {} is cut to what memory holds: {}", cli.max_bytes, bounds.formula),
            );
        }
        if self.preamble.backend == Kind::Sim {
            self.sink.say(Level::Warning, "these times are a simulation's, not a measurement");
        }
        if !cli.matrix {
            self.sink.header();
        }
    }

    /// The steps to the first call and the first calls, to stderr and the record.
    pub(super) fn cold_start(&self, steps: Vec<(String, f64)>, calls: Vec<(u64, Vec<f64>)>) {
        for (name, us) in &steps {
            self.sink.say(Level::Info, &format!("cold start: {name:<26} {:>12.3} ms", us / 1e3));
        }
        for (bytes, times_us) in &calls {
            let times: Vec<String> = times_us.iter().map(|us| format!("{us:.1}")).collect();
            let steady = match steady_from(times_us) {
                Some(call) => format!("steady from call {call}"),
                None => format!("not steady after {} calls", times_us.len()),
            };
            let text = format!("cold start: size {bytes}: {} us; {steady}", times.join(" "));
            self.sink.say(Level::Info, &text);
        }
        self.sink.event(&Event::ColdStart { steps, calls });
    }

    /// How the clocks run, to stderr and the record.
    pub(super) fn clocks(&self, timing: &Timing<'_>) {
        if let Some((event, text)) = timing.account() {
            self.found(&event, &text);
        }
    }

    /// What marks can tell here, where the loop has any and they are no simulation's.
    pub(super) fn marks(&self, bench: &mut Bench<'_>) -> Result<()> {
        if !bench.settings.per_iteration || bench.backend.caps().simulated {
            return Ok(());
        }
        let pairs_us = bench.empty_pairs_us()?;
        if let Some(timer) = MarkTimer::of(&pairs_us) {
            let MarkTimer { p50_us, p95_us, step_us } = timer;
            let step = step_us.map_or_else(String::new, |step_us| format!(", its step is {step_us:.3} us"));
            let text = format!(
                "marks (-I): a pair with nothing between shows {p50_us:.2} us (P95 {p95_us:.2}){step}"
            );
            self.found(&Event::Marks { timer, pairs_us }, &text);
        }
        Ok(())
    }

    /// What the run found out about itself, to stderr and the record.
    pub(super) fn found(&self, event: &Event, text: &str) {
        self.sink.say(Level::Info, text);
        self.sink.event(event);
    }

    /// How the backend runs, to stderr and the record; of a later epoch what is new.
    pub(super) fn remarks(&mut self, remarks: &[Remark]) {
        for Remark { warning, text } in remarks {
            if self.told.insert(text.clone()) {
                self.sink.note(if *warning { Level::Warning } else { Level::Info }, text);
            }
        }
    }

    /// Where rank 0's time went after the start, to stderr and the record.
    pub(super) fn spent(&self, steps: &[(&str, f64)]) {
        let words: Vec<String> =
            steps.iter().map(|(name, us)| format!("{name} {:.1} ms", us / 1e3)).collect();
        self.sink.note(Level::Info, &format!("time spent: {}", words.join(", ")));
    }

    /// A type and reduction that cannot be run here.
    pub(super) fn waived(&self, series: &Series, reason: &str) {
        self.sink.waived(series.dtype, series.label(), reason);
    }

    /// Whether `NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY` asks for each rank's traffic.
    pub(super) fn wants_shares(&self) -> bool {
        self.print_summary
    }

    /// Each rank's bytes, to stderr and the record; nccl-tests prints them into the row.
    pub(super) fn shares(&self, target: &Target, shares: &[(u64, u64)]) {
        for (rank, (send, recv)) in shares.iter().enumerate() {
            let text = format!("size {} rank {rank} send_bytes={send} recv_bytes={recv}", target.bytes);
            self.sink.note(Level::Info, &text);
        }
    }

    /// A finished row.
    pub(super) fn row(
        &mut self,
        series: &Series,
        target: &Target,
        case: &Case,
        traffic: &dyn Fn(u32) -> Traffic,
        (epoch, cycle, iterations): (u64, u64, u64),
        gathered: Vec<Gathered>,
    ) {
        let mut cells = Vec::with_capacity(gathered.len());
        for Gathered { placement, samples, checked, clock_error, stop } in gathered {
            let check = self.check(placement, &checked);
            let mut made = self.cell(placement, samples, traffic, check);
            if let Some(clock_error) = clock_error {
                made.arrivals = self.late.push(target, &made, clock_error, &self.sink);
            }
            let coverage = checked.coverage.filter(|coverage| *coverage < 1.0);
            let (predicted_us, unpredicted) = match checked.predicted.clone() {
                Some(Ok(us)) => (Some(us), None),
                Some(Err(reason)) => (None, Some(reason)),
                None => (None, None),
            };
            let algorithm = checked.algorithm.clone();
            cells.push(Cell { coverage, algorithm, predicted_us, unpredicted, stop, ..made });
            self.tell(series, target, placement, &checked);
        }
        let row = Row {
            requested_bytes: target.bytes,
            size_bytes: case.layout.span() * case.dtype.bytes(),
            count: case.layout.count,
            dtype: series.dtype,
            redop: series.label().to_owned(),
            root: series.root_column(),
            epoch,
            cycle,
            iterations,
            cadence: Some(self.preamble.config.cadence()),
            timestamp: local_time(),
            cells,
        };
        self.explain(&row);
        self.observer.push(&row);
        self.statistician.push(&row);
        self.totals.push(&row);
        if let Some(baseline) = &mut self.baseline {
            baseline.found.push(&row);
        }
        self.sink.row(&row);
    }

    /// A cell of all ranks, or of their groups.
    fn cell(
        &self,
        placement: Placement,
        samples: Vec<RankSample>,
        traffic: &dyn Fn(u32) -> Traffic,
        check: Check,
    ) -> Cell {
        match self.groups.as_slice() {
            [] | [_] => {
                cell(placement, samples, traffic(self.preamble.sites.len() as u32), self.how(), check)
            }
            several => {
                let groups: Vec<_> = several
                    .iter()
                    .map(|(color, ranks)| (*color, ranks.clone(), traffic(ranks.len() as u32)))
                    .collect();
                split_cell(placement, samples, &groups, self.how(), check)
            }
        }
    }

    fn how(&self) -> How<'_> {
        let Recipe { average, cputime, per_iteration, skip, processes } = &self.how;
        How { average: *average, cputime: *cputime, per_iteration: *per_iteration, skip: *skip, processes }
    }

    fn check(&self, placement: Placement, checked: &Checked) -> Check {
        match (checked.blind, checked.wrong) {
            (Some(reason), _) => Check::Blind(reason.to_owned()),
            (None, Some(_)) => Check::Counted,
            (None, None) if placement == Placement::InPlace && !self.checks_in_place => Check::Undefined,
            (None, None) => Check::NotChecked,
        }
    }

    /// Wrong data in words, and what the check cannot see.
    fn tell(&mut self, series: &Series, target: &Target, placement: Placement, checked: &Checked) {
        let place = match placement {
            Placement::OutOfPlace => "out of place",
            Placement::InPlace => "in place",
        };
        let what = format!("{} {}", series.dtype, series.label());
        for mismatch in checked.mismatches.iter().take(16) {
            let text =
                format!("wrong data at size {} {what} {place}: {}", target.bytes, self.words(mismatch));
            self.sink.finding("wrong_data", &[mismatch.rank], &text);
        }
        if checked.mismatches.len() > 16 {
            let ranks: Vec<u32> = checked.mismatches.iter().map(|mismatch| mismatch.rank).collect();
            let text = format!("wrong data at {} ranks in all; the first 16 are listed", ranks.len());
            self.sink.finding("wrong_data", &ranks, &text);
        }
        let remark = match (checked.blind, checked.weak) {
            (Some(reason), _) => format!("{what} is measured but not checked (#wrong N/A): {reason}"),
            (None, Some(reason)) => format!("the check of {what} is weak: {reason}"),
            (None, None) => return,
        };
        if self.told.insert(remark.clone()) {
            self.sink.note(Level::Info, &remark);
        }
    }

    fn words(&self, mismatch: &Mismatch) -> String {
        let site = self.preamble.sites.iter().find(|site| site.rank == mismatch.rank);
        let place = site.map_or_else(String::new, |site| match site.device.compute_capability {
            0 => format!(" ({}, pid {})", site.host, site.pid),
            _ => format!(" ({}, GPU {} [{}])", site.host, site.device.index, site.device.bus_id),
        });
        format!(
            "rank {}{place} has {} wrong elements from {} to {}; the first must be 0x{:x} and is 0x{:x}: {}",
            mismatch.rank,
            mismatch.wrong,
            mismatch.first,
            mismatch.last,
            mismatch.expected,
            mismatch.got,
            mismatch.cause
        )
    }

    /// Whether a rank comes late; once, when all rows are there.
    pub(super) fn tell_late(&self) {
        self.late.finish(&self.sink);
    }

    /// The footer; the run's exit code.
    pub(super) fn finish(
        self,
        min_busbw_gbps: Option<f64>,
        memory: Option<MemoryUse>,
        library_error: String,
    ) -> Result<Exit> {
        tell(&self.sink, &self.statistician.statistics(), self.show_stats);
        let outcome = Outcome {
            out_of_bounds: self.totals.out_of_bounds(),
            wrong_elements: self.totals.wrong_elements(),
            average_busbw_gbps: self.totals.average_busbw_gbps(),
            min_busbw_gbps,
            critical: self.observer.verdict(),
            memory,
            library_error,
            end_time: local_time(),
        };
        let exit = outcome.exit();
        // An output that failed was reported when it did; what was measured is in the others.
        match self.sink.finish(&outcome, exit.code()) {
            Err(Error::File { .. }) if exit == Exit::Success => Ok(Exit::Setup),
            Ok(()) | Err(Error::File { .. }) => Ok(exit),
            Err(error) => Err(error),
        }
    }
}

/// Ranks by group.
fn groups(sites: &[Site]) -> Vec<(u32, Vec<u32>)> {
    let mut groups = BTreeMap::<u32, Vec<u32>>::new();
    for site in sites {
        groups.entry(site.group).or_default().push(site.rank);
    }
    groups.into_iter().collect()
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
