//! `critrank recompute`: every printed figure once more, from the record's raw series.

use serde::Serialize;

use super::agreement::Account;
use super::matrix;
use super::source::Source;
use crate::aggregate::{
    Case, Compared, Ladder, LateObserver, LateVerdict, MarkTimer, Model, Observer, Overhead, RankSample, Row,
    Series, Side, Speeds, Statistician, Statistics, Totals, drifting, late, models, overhead,
};
use crate::error::{Error, Result};
use crate::judge::{Trail, Verdict, is_slow};
use crate::report::record::{self, Event};
use crate::report::{Config, Outcome, Preamble, SelfTest, SelfTestSlow, drift_words, places_of, table};

/// What came out.
pub(super) struct Recomputed {
    /// Figure by figure.
    pub(super) account: Account,
    /// The table that follows from the raw series.
    pub(super) table: String,
}

/// Reads a record and computes it again.
pub(super) fn recompute(bytes: &[u8]) -> Result<Recomputed> {
    let record = record::read(bytes)?;
    let Some(Event::Start { preamble, .. }) = record.events.first() else {
        return Err(Error::Setup("this is no critrank record: its first line is no start".to_owned()));
    };
    if preamble.sites.is_empty() {
        return Err(Error::Setup("the record's first line names no ranks".to_owned()));
    }
    let mut found = if record.events.iter().any(|event| matches!(event, Event::Matrix(_))) {
        matrix::recompute(preamble, &record.events)
    } else {
        sweep(preamble, &record.events)?
    };
    let unreadable = record.unreadable.len();
    if unreadable > 0 {
        found.account.leaves_out(format!("{unreadable} lines cannot be read"));
    }
    Ok(found)
}

/// What a record of a sweep comes to.
fn sweep(preamble: &Preamble, events: &[Event]) -> Result<Recomputed> {
    let mut again = Again::new(preamble)?;
    for event in events {
        again.take(event);
    }
    if !again.finished {
        again.account.remarks.push("the run did not finish: there is no footer to compare".to_owned());
    }
    Ok(Recomputed { account: again.account, table: again.table })
}

/// What is printed of a search, and what was told before it.
#[derive(Serialize)]
struct Search<'a> {
    tests: u64,
    told_late: Option<u32>,
    verdict: &'a Verdict,
}

/// Events so far.
struct Again<'a> {
    preamble: &'a Preamble,
    source: Source<'a>,
    account: Account,
    table: String,
    /// The header stands behind the plan.
    has_header: bool,
    finished: bool,
    totals: Totals,
    observer: Observer,
    statistician: Statistician,
    speeds: Speeds,
    late: LateObserver,
    /// Recorded, one or none.
    late_rank: Vec<LateVerdict>,
    statistics: Vec<Statistics>,
    models: Vec<Model>,
    drifts: Vec<String>,
    /// How late a rank was made, and who was named.
    late_trials: Vec<(Option<f64>, Option<u32>)>,
    /// What a message was made longer by, and whether its link was called slow.
    slow_trials: Vec<(Option<u32>, bool)>,
}

impl<'a> Again<'a> {
    fn new(preamble: &'a Preamble) -> Result<Self> {
        let source = Source::new(preamble)?;
        Ok(Self {
            preamble,
            observer: Observer::new(source.mode()),
            source,
            account: Account::default(),
            table: table::opening(preamble) + &table::devices(&preamble.sites),
            has_header: false,
            finished: false,
            totals: Totals::default(),
            statistician: Statistician::default(),
            speeds: Speeds::default(),
            late: LateObserver::default(),
            late_rank: Vec::new(),
            statistics: Vec::new(),
            models: Vec::new(),
            drifts: Vec::new(),
            late_trials: Vec::new(),
            slow_trials: Vec::new(),
        })
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Plan(plan) => {
                self.table += &plan.reduced_max_bytes.map(table::reduced).unwrap_or_default();
                self.header();
            }
            Event::Expected { rows, .. } => self.expected(rows),
            Event::Epoch { epoch, .. } => self.table += &table::epoch(&self.preamble.config, *epoch),
            Event::Row(row) => self.row(row),
            Event::Stats(statistics) => self.statistics.push(statistics.clone()),
            Event::LateRank(verdict) => self.late_rank.push(*verdict),
            Event::Model(model) => self.models.push(model.clone()),
            Event::Finding { kind, text, .. } if kind == "drift" => self.drifts.push(text.clone()),
            Event::Marks { timer, pairs_us } => {
                self.account.compare("marks".to_owned(), &Some(*timer), &MarkTimer::of(pairs_us));
            }
            Event::Overhead { size_bytes, overhead, pairs_us } => {
                self.overhead(*size_bytes, overhead, pairs_us);
            }
            Event::LateTrial(trial) => {
                let named = trial.named(self.preamble.config.aggregated);
                self.late_trials.push((trial.late_by_us, named));
            }
            Event::SlowTrial { lost_pct, pairs_us } => self.slow_trials.push((*lost_pct, is_slow(pairs_us))),
            Event::SelfTest(recorded) => self.self_test(recorded),
            Event::SelfTestSlow(recorded) => self.self_test_slow(recorded),
            Event::Localised { tests, verdict, trail, .. } => self.localised(*tests, verdict, trail.as_ref()),
            Event::Finish { exit_code, outcome } => self.finish(*exit_code, outcome),
            _ => {}
        }
    }

    fn header(&mut self) {
        if !self.has_header {
            self.table += &table::header(&self.preamble.config);
            self.has_header = true;
        }
    }

    fn row(&mut self, recorded: &Row) {
        self.header();
        let row = self.source.row(recorded);
        self.table += &table::row(&self.preamble.config, &row);
        let Row { requested_bytes, dtype, redop, root, epoch, cycle, .. } = recorded;
        let part = if self.preamble.config.epochs > 1 { format!("epoch {epoch}, ") } else { String::new() };
        let name = format!("row {requested_bytes} {dtype} {redop} {root}, {part}cycle {cycle}");
        self.account.compare(name, &without_samples(recorded), &without_samples(&row));
        let Config { skip, aggregated, .. } = self.preamble.config;
        for cell in &row.cells {
            if let Some(told) = &cell.arrivals {
                self.late.push(late(&cell.ranks, told.clock_error_us, skip as usize, aggregated));
            }
        }
        self.totals.push(&row);
        self.observer.push(&row);
        self.statistician.push(&row);
        self.speeds.push(&row);
    }

    /// The verdicts, from this record's rows and what the event says of the earlier run's.
    fn expected(&mut self, recorded: &[Compared]) {
        let side = |case: &Case| {
            let of = recorded.iter().find(|of| of.case == *case)?;
            of.expected.clone().map(Side::again)
        };
        self.account.compare("expected".to_owned(), &recorded, &self.speeds.beside(side).as_slice());
    }

    fn overhead(&mut self, size_bytes: u64, recorded: &Overhead, pairs_us: &[[f64; 2]]) {
        if pairs_us.is_empty() {
            return self.account.lacks("blocks of --overhead");
        }
        let name = format!("overhead at {size_bytes}");
        self.account.compare(name, &Some(*recorded), &overhead(pairs_us));
    }

    fn self_test(&mut self, recorded: &SelfTest) {
        let SelfTest { size_bytes, rank, trials, .. } = *recorded;
        if self.late_trials.is_empty() {
            return self.account.lacks("trials of lateness of --self-test");
        }
        let mut ladder = Ladder::new(trials);
        self.late_trials.iter().for_each(|(by_us, named)| ladder.push_named(*by_us, *named, rank));
        let again = SelfTest::new(size_bytes, rank, &ladder);
        self.account.compare("self-test of lateness".to_owned(), recorded, &again);
    }

    fn self_test_slow(&mut self, recorded: &SelfTestSlow) {
        let SelfTestSlow { from, to, bytes, trials, .. } = *recorded;
        if self.slow_trials.is_empty() {
            return self.account.lacks("trials of slow-downs of --self-test");
        }
        let mut ladder = Ladder::new(trials);
        self.slow_trials.iter().for_each(|(lost_pct, found)| ladder.push(*lost_pct, *found));
        let again = SelfTestSlow::new((from, to), bytes, &ladder);
        self.account.compare("self-test of slow-downs".to_owned(), recorded, &again);
    }

    /// The search once more: the same tests, which hear the same times.
    fn localised(&mut self, tests: u64, verdict: &Verdict, trail: Option<&Trail>) {
        let Some(trail) = trail else { return self.account.lacks("times of the tests of --localize") };
        let again = trail.replay(places_of(&self.preamble.sites));
        let recorded = Search { tests, told_late: trail.told_late, verdict };
        let (tests, told_late) = (again.asked() as u64, self.late.late_rank());
        let recomputed = Search { tests, told_late, verdict: &again.verdict() };
        self.account.compare("localised".to_owned(), &recorded, &recomputed);
    }

    fn finish(&mut self, exit_code: u8, recorded: &Outcome) {
        self.finished = true;
        let all = self.statistician.statistics();
        if self.statistics.is_empty() && !all.is_empty() {
            self.account.lacks("statistics");
        } else {
            self.account.compare("statistics".to_owned(), &self.statistics, &all);
        }
        let mut late_rank: Vec<_> = self.late.verdict().into_iter().collect();
        if let ([LateVerdict::Named { interval_us: None, .. }], [LateVerdict::Named { interval_us, .. }]) =
            (self.late_rank.as_slice(), late_rank.as_mut_slice())
            && interval_us.take().is_some()
        {
            self.account.lacks("interval of how late the late rank is");
        }
        self.account.compare("late rank".to_owned(), &self.late_rank, &late_rank);
        self.account.compare("models".to_owned(), &self.models, &models(&all));
        let drifts = drifting(&all).iter().map(|drift| drift_words(&all[drift.case])).collect();
        self.account.compare("drifts".to_owned(), &self.drifts, &drifts);
        let outcome = Outcome {
            out_of_bounds: self.totals.out_of_bounds(),
            wrong_elements: self.totals.wrong_elements(),
            average_busbw_gbps: self.totals.average_busbw_gbps(),
            critical: self.observer.verdict(),
            ..recorded.clone()
        };
        self.account.compare("footer".to_owned(), recorded, &outcome);
        let exit = |code: u8| serde_json::json!({ "exit_code": code });
        self.account.compare("end".to_owned(), &exit(exit_code), &exit(outcome.exit().code()));
        self.table += &table::footer(self.preamble, &outcome);
    }
}

/// The row, of its raw series only each rank's time, which may be the mean of blocks.
fn without_samples(row: &Row) -> Row {
    let mut row = row.clone();
    for cell in &mut row.cells {
        for sample in &mut cell.ranks {
            let RankSample { rank, total_us, cpu_us, .. } = *sample;
            *sample = RankSample { rank, total_us, cpu_us, series: Series::default(), tally: None };
        }
    }
    row
}
