//! What a run finds out about itself: the cost of `-I` (`--overhead`), and the lateness that would have been found
//! (`--self-test`).

use super::reporter::Reporter;
use super::sweep;
use super::timing::Timing;
use crate::aggregate::{Gathering, Ladder, LateTrial, PAIRS, overhead};
use crate::error::Result;
use crate::measure::{Bench, Delay, Target};
use crate::report::SelfTest;
use crate::report::record::Event;
use crate::report::sink::Level;
use crate::vocab::{Inject, Placement};

/// Trials without a fault, and of each lateness.
const HEALTHY: usize = 20;
const EACH: usize = 5;
/// The first lateness, in ns; each next one is twice as long.
const FIRST_NS: u64 = 250;
const STEPS: u32 = 17;

/// The cost of `-I` at these sizes. Collective; the reporter is rank 0's.
pub(super) fn measure_overhead(
    bench: &mut Bench<'_>,
    targets: &[Target],
    reporter: Option<&Reporter>,
) -> Result<()> {
    for target in targets {
        let mine = bench.overhead(target, PAIRS)?;
        let mine = serde_json::to_vec(&mine).unwrap_or_default();
        let Some(all) = bench.control.gather(&mine)? else { continue };
        let all: Vec<Vec<[f64; 2]>> =
            all.iter().filter_map(|bytes| serde_json::from_slice(bytes).ok()).collect();
        // The longest rank's, block by block.
        let longest: Vec<[f64; 2]> = (0..PAIRS)
            .map(|pair| {
                let of =
                    |which: usize| all.iter().filter_map(|blocks| blocks.get(pair)).map(move |b| b[which]);
                [of(0).fold(0.0, f64::max), of(1).fold(0.0, f64::max)]
            })
            .collect();
        if let (Some(found), Some(reporter)) = (overhead(&longest), reporter) {
            let text = format!(
                "cost of -I at {}: {:+.3} us per operation [{:+.3}, {:+.3}] to {:.3} us (median of {PAIRS} pairs of \
                 blocks, 95.9 % interval; not subtracted anywhere)",
                target.bytes, found.added_us, found.low_us, found.high_us, found.without_us
            );
            let event = Event::Overhead { size_bytes: target.bytes, overhead: found, pairs_us: longest };
            reporter.found(&event, &text);
        }
    }
    Ok(())
}

/// Which lateness is found here, and how often a healthy rank is named. Collective; the reporter is rank 0's.
pub(super) fn self_test(
    bench: &mut Bench<'_>,
    target: &Target,
    timing: &mut Timing<'_>,
    ranks: u32,
    reporter: Option<&Reporter>,
) -> Result<()> {
    if ranks < 2 {
        if let Some(reporter) = reporter {
            reporter.sink.note(Level::Info, "self-test: one rank is never late");
        }
        return Ok(());
    }
    let before = bench.delay.take();
    let (guilty, aggregated) = (ranks - 1, bench.settings.aggregated);
    let mut ladder = Ladder::new(EACH);
    let mut judge = |late_by_us, trial: Option<LateTrial>| {
        if let (Some(trial), Some(reporter)) = (trial, reporter) {
            ladder.push_named(late_by_us, trial.named(aggregated), guilty);
            reporter.sink.event(&Event::LateTrial(trial));
        }
        ladder.sure()
    };
    for _ in 0..HEALTHY {
        judge(None, trial(bench, target, timing, None)?);
    }
    let mine = bench.first_rank..bench.first_rank + bench.backend.locals();
    for step in 0..STEPS {
        let delay_ns = FIRST_NS << step;
        let late_by_us = Some(delay_ns as f64 / 1e3);
        bench.delay = Delay::of(&[Inject::Late { rank: guilty, delay_ns }], mine.clone());
        let mut sure = 0;
        for _ in 0..EACH {
            sure = judge(late_by_us, trial(bench, target, timing, late_by_us)?);
        }
        // Rank 0 alone knows what was found.
        if bench.control.vote(u64::from(sure == 2))? == 1 {
            break;
        }
    }
    bench.delay = before;
    if let Some(reporter) = reporter {
        say(reporter, SelfTest::new(target.bytes, guilty, &ladder));
    }
    Ok(())
}

fn say(reporter: &Reporter, found: SelfTest) {
    let SelfTest { size_bytes, rank, healthy_trials, false_alarms, .. } = found;
    let steps: Vec<String> =
        found.ladder.iter().map(|(us, found)| format!("{us} us {found}/{EACH}")).collect();
    let answer = found.smallest_us.map_or_else(
        || "no lateness that was tried is found every time".to_owned(),
        |us| format!("the smallest lateness found every time is {us} us"),
    );
    let text = format!(
        "self-test at {size_bytes}: {answer} (rank {rank}: {}); {}",
        steps.join(", "),
        alarms(false_alarms, healthy_trials)
    );
    reporter.found(&Event::SelfTest(found), &text);
}

/// False alarms in words.
pub(super) fn alarms(false_alarms: usize, trials: usize) -> String {
    // No alarm in n trials leaves a rate of up to 1 - 0.05^(1/n) possible (95 %).
    let bound = if false_alarms == 0 && trials > 0 {
        format!(" (95 % bound {:.0} %)", 100.0 * (1.0 - 0.05_f64.powf(1.0 / trials as f64)))
    } else {
        String::new()
    };
    format!("{false_alarms} false alarms in {trials} healthy trials{bound}")
}

/// Both placements, at rank 0 as a run would see them.
fn trial(
    bench: &mut Bench<'_>,
    target: &Target,
    timing: &mut Timing<'_>,
    late_by_us: Option<f64>,
) -> Result<Option<LateTrial>> {
    let mut placements = Vec::new();
    for placement in Placement::BOTH {
        let cell = sweep::cell(bench, target, placement, true)?;
        timing.sync()?;
        if let Some(mut cell) = cell {
            timing.place(&mut cell);
            let clock_error_us = cell.clock_error.map_or(0.0, |error| error.host_us);
            placements.push(Gathering { clock_error_us, ranks: cell.samples });
        }
    }
    Ok((!placements.is_empty()).then_some(LateTrial { late_by_us, placements }))
}
