//! The sweep: every type, reduction and root; every cycle; every size; both placements.

use super::agreement::objection;
use super::reporter::Reporter;
use super::timing::Timing;
use crate::aggregate::{ClockError, RankSample};
use crate::cli::Cli;
use crate::collective::{Case, traffic};
use crate::error::{Error, Result};
use crate::measure::{Bench, Blocking, Checked, Mismatch, Target};
use crate::plan::{Series, Sizes, in_order};
use crate::session::watch::Phase;
use crate::stats::Stop;
use crate::vocab::Placement;

/// Sizes of the sweep, after the cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) min_bytes: u64,
    pub(super) max_bytes: u64,
}

impl Range {
    pub(super) fn sizes(self, cli: &Cli) -> Sizes {
        Sizes::new(self.min_bytes, self.max_bytes, cli.step_factor, cli.step_bytes)
    }
}

/// One placement of all ranks, as rank 0 has it.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) placement: Placement,
    pub(super) samples: Vec<RankSample>,
    pub(super) checked: Checked,
    /// Where arrivals are known.
    pub(super) clock_error: Option<ClockError>,
    pub(super) stop: Option<Stop>,
}

/// Measures everything once, as epoch number `epoch`; `reporter` is rank 0's.
pub(super) fn sweep(
    bench: &mut Bench<'_>,
    cli: &Cli,
    (all, range): (&[Series], Range),
    epoch: u64,
    mut timing: Option<&mut Timing<'_>>,
    reporter: &mut Option<Reporter>,
) -> Result<()> {
    let reduces = bench.collective.traits().reduces;
    for series in all {
        let op = series.op.filter(|_| reduces);
        // Groups of other sizes and GPUs of other kinds may have other reasons.
        let refused = bench.backend.refuses(series.dtype, op);
        if let Some(reason) = objection(bench.control, refused)? {
            if !series.from_all {
                return Err(Error::Unsupported(reason));
            }
            // Every epoch waives the same.
            if let Some(reporter) = reporter.as_ref().filter(|_| epoch == 0) {
                reporter.waived(series, &reason);
            }
            continue;
        }
        let root = series.root.unwrap_or(0);
        let target = |bytes| Target { bytes, dtype: series.dtype, op, root };
        for bytes in range.sizes(cli).filter(|_| cli.warmup > 0) {
            bench.warm(&target(bytes))?;
        }
        let mut cycle = 0;
        while cli.cycles == 0 || cycle < cli.cycles {
            // The order goes on over epochs, so that these do not all begin alike.
            let turn = epoch * cli.cycles + cycle;
            for bytes in in_order(range.sizes(cli).collect(), &cli.extent, turn) {
                row(bench, series, &target(bytes), (epoch, cycle), timing.as_deref_mut(), reporter)?;
            }
            cycle += 1;
        }
    }
    Ok(())
}

fn row(
    bench: &mut Bench<'_>,
    series: &Series,
    target: &Target,
    (epoch, cycle): (u64, u64),
    timing: Option<&mut Timing<'_>>,
    reporter: &mut Option<Reporter>,
) -> Result<()> {
    let mut cells = Vec::with_capacity(2);
    let mut case: Option<Case> = None;
    if let (Blocking::Gate, Some(timing)) = (bench.settings.blocking, timing.as_deref()) {
        bench.clock = timing.share(bench)?;
    }
    for placement in Placement::BOTH {
        cells.extend(cell(bench, target, placement, timing.is_some())?);
        if reporter.is_some() && case.is_none() {
            case = bench.cases(target, placement)?.into_iter().next();
        }
    }
    if let Some(timing) = timing {
        timing.sync()?;
        for cell in &mut cells {
            timing.place(cell);
        }
    }
    if let (Some(reporter), Some(case)) = (reporter, case) {
        let traffic = |ranks| traffic(bench.collective, target.bytes, target.dtype, target.root, ranks);
        if reporter.wants_shares() {
            reporter.shares(target, &bench.collective.shares(&case));
        }
        reporter.row(series, target, &case, &traffic, (epoch, cycle, bench.settings.iterations), cells);
    }
    Ok(())
}

/// Measures one placement; at rank 0 with all ranks' samples, `arrivals` of each process's own clock.
pub(super) fn cell(
    bench: &mut Bench<'_>,
    target: &Target,
    placement: Placement,
    arrivals: bool,
) -> Result<Option<Gathered>> {
    let (mut samples, checked) = bench.placement(target, placement)?;
    let clock_error = if arrivals { Some(Timing::exits(bench, &mut samples)?) } else { None };
    bench.progress.enter(Phase::Collect, bench.settings.deadlines.later(std::time::Duration::ZERO));
    let gathered = gather(bench, placement, samples, checked)?;
    Ok(gathered.map(|gathered| Gathered { clock_error, ..gathered }))
}

/// Brings all ranks' samples and mismatches to rank 0.
fn gather(
    bench: &Bench<'_>,
    placement: Placement,
    mut samples: Vec<RankSample>,
    mut checked: Checked,
) -> Result<Option<Gathered>> {
    for (sample, tally) in samples.iter_mut().zip(&checked.tallies) {
        sample.tally = Some(*tally);
    }
    let mine = serde_json::to_vec(&(samples, std::mem::take(&mut checked.mismatches))).unwrap_or_default();
    let Some(all) = bench.control.gather(&mine)? else { return Ok(None) };
    let mut samples = Vec::new();
    for bytes in &all {
        let (theirs, bad): (Vec<RankSample>, Vec<Mismatch>) = serde_json::from_slice(bytes)
            .map_err(|error| Error::Setup(format!("a rank's samples cannot be read: {error}")))?;
        samples.extend(theirs);
        checked.mismatches.extend(bad);
    }
    samples.sort_by_key(|sample| sample.rank);
    Ok(Some(Gathered { placement, samples, checked, clock_error: None, stop: bench.stopped }))
}
