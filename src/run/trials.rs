//! What a run finds out about itself: the cost of `-I` (`--overhead`), and the lateness that would have been found
//! (`--self-test`).

use super::reporter::Reporter;
use super::sweep;
use super::timing::Timing;
use crate::aggregate::{LateObserver, PAIRS, late, overhead, smallest_found};
use crate::error::Result;
use crate::measure::{Bench, Delay, Target};
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
    let mut false_alarms = 0;
    let before = bench.delay.take();
    for _ in 0..HEALTHY {
        false_alarms += usize::from(trial(bench, target, timing)?.is_some());
    }
    let guilty = ranks - 1;
    let mine = bench.first_rank..bench.first_rank + bench.backend.locals();
    let (mut ladder, mut in_a_row) = (Vec::new(), 0);
    for step in 0..STEPS {
        let delay_ns = FIRST_NS << step;
        bench.delay = Delay::of(&[Inject::Late { rank: guilty, delay_ns }], mine.clone());
        let mut found = 0;
        for _ in 0..EACH {
            found += usize::from(trial(bench, target, timing)? == Some(guilty));
        }
        ladder.push((delay_ns as f64 / 1e3, found));
        in_a_row = if found == EACH { in_a_row + 1 } else { 0 };
        // Rank 0 alone knows what was found.
        if bench.control.vote(u64::from(in_a_row == 2))? == 1 {
            break;
        }
    }
    bench.delay = before;
    let Some(reporter) = reporter else { return Ok(()) };
    let smallest_us = smallest_found(ladder.iter().rev(), EACH);
    let steps: Vec<String> = ladder.iter().map(|(us, found)| format!("{us} us {found}/{EACH}")).collect();
    let answer = smallest_us.map_or_else(
        || "no lateness that was tried is found every time".to_owned(),
        |us| format!("the smallest lateness found every time is {us} us"),
    );
    let text = format!(
        "self-test at {}: {answer} (rank {guilty}: {}); {}",
        target.bytes,
        steps.join(", "),
        alarms(false_alarms, HEALTHY)
    );
    let event = Event::SelfTest {
        size_bytes: target.bytes,
        rank: guilty,
        smallest_us,
        trials: EACH,
        ladder,
        healthy_trials: HEALTHY,
        false_alarms,
    };
    reporter.found(&event, &text);
    Ok(())
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

/// Both placements, judged as a run would be; at rank 0 the rank that is named.
fn trial(bench: &mut Bench<'_>, target: &Target, timing: &mut Timing<'_>) -> Result<Option<u32>> {
    let mut observer = LateObserver::default();
    for placement in Placement::BOTH {
        let cell = sweep::cell(bench, target, placement, true)?;
        timing.sync()?;
        if let Some(mut cell) = cell {
            timing.place(&mut cell);
            observer.push(late(&cell.samples, cell.clock_error.map_or(0.0, |error| error.host_us), 0));
        }
    }
    Ok(observer.late_rank())
}
