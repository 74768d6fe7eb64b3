//! `--self-test`, second part: which slow-down of a link would have been found on this fabric, and how often the decision
//! accuses a healthy one.

use std::iter::repeat_n;
use std::time::{Duration, Instant};

use super::reporter::Reporter;
use super::trials::alarms;
use crate::aggregate::Ladder;
use crate::error::Result;
use crate::judge::{REPEATS, Shape, Size, Test, is_slow};
use crate::measure::{Bench, Load};
use crate::report::SelfTestSlow;
use crate::report::record::Event;
use crate::report::sink::Level;
use crate::stats::abba;

/// Trials without a slow-down, and of each.
const HEALTHY: usize = 20;
const EACH: usize = 5;
/// Slow-downs, in %, the largest first.
const LADDER: [u32; 4] = [40, 20, 10, 5];
/// After so long no further trial starts.
const TIME: Duration = Duration::from_mins(2);

/// Bytes of a message that takes as long as one of `bytes` over a link that lost `lost_pct` % of its rate.
pub(super) fn longer_bytes(bytes: u64, lost_pct: u32) -> u64 {
    bytes * 100 / u64::from(100 - lost_pct.min(99))
}

/// Bytes that the buffers must hold for it, where a message has `bytes`.
pub(super) fn room_bytes(bytes: u64) -> u64 {
    longer_bytes(bytes, LADDER[0])
}

/// Messages of `load` from the first rank to the last, against longer ones. Collective; the reporter is rank 0's.
pub(super) fn self_test(
    bench: &mut Bench<'_>,
    ranks: u32,
    load: Load,
    reporter: Option<&Reporter>,
) -> Result<()> {
    // With groups, ranks of one communicator are not those of the job.
    if ranks < 2 || bench.backend.ranks() != ranks {
        return Ok(());
    }
    let delay = bench.delay.take();
    let (begin, last) = (Instant::now(), ranks - 1);
    let over = |bench: &Bench<'_>| -> Result<bool> {
        Ok(bench.control.vote(u64::from(begin.elapsed() > TIME))? > 0)
    };
    let mut ladder = Ladder::new(EACH);
    let mut judge = |lost_pct, pairs_us: Vec<(f64, f64)>| {
        ladder.push(lost_pct, is_slow(&pairs_us));
        if let Some(reporter) = reporter {
            reporter.sink.event(&Event::SlowTrial { lost_pct, pairs_us });
        }
    };
    let faults = repeat_n((None, load.bytes), HEALTHY)
        .chain(LADDER.into_iter().flat_map(|pct| repeat_n((Some(pct), longer_bytes(load.bytes, pct)), EACH)));
    for (lost_pct, bytes) in faults {
        if over(bench)? {
            break;
        }
        judge(lost_pct, trial(bench, last, load, bytes)?);
    }
    bench.delay = delay;
    if let Some(reporter) = reporter {
        say(reporter, SelfTestSlow::new((0, last), load.bytes, &ladder));
    }
    Ok(())
}

/// One comparison as the localiser confirms by: at rank 0 pairs of times of the longer and the plain message.
fn trial(bench: &mut Bench<'_>, last: u32, load: Load, bytes: u64) -> Result<Vec<(f64, f64)>> {
    let test = Test { shape: Shape::OneWay, size: Size::Large, groups: vec![vec![0, last]] };
    let mut pairs = Vec::with_capacity(REPEATS);
    for repeat in 0..REPEATS {
        let mut times = [0.0; 2];
        for which in abba(repeat) {
            let bytes = if which == 0 { bytes } else { load.bytes };
            let told = bench.probe(&test, Load { bytes, ..load })?;
            times[which] = told.and_then(|times| times.first().copied()).unwrap_or_default();
        }
        pairs.push((times[0], times[1]));
    }
    Ok(pairs)
}

fn say(reporter: &Reporter, found: SelfTestSlow) {
    let SelfTestSlow { to, bytes, healthy_trials, false_alarms, .. } = found;
    let complete = found.ladder.len() == LADDER.len() && healthy_trials == HEALTHY;
    let steps: Vec<String> =
        found.ladder.iter().map(|(pct, found)| format!("{pct} % {found}/{EACH}")).collect();
    let answer = match (found.smallest_pct, steps.len()) {
        (Some(pct), _) => format!("the smallest slow-down found every time is {pct} %"),
        (None, 0) => "no slow-down was tried, since time was up".to_owned(),
        (None, _) => "no slow-down that was tried is found every time".to_owned(),
    };
    let text = format!(
        "self-test of the way from rank 0 to rank {to}, {bytes} bytes: {answer} ({}); {}",
        steps.join(", "),
        alarms(false_alarms, healthy_trials)
    );
    reporter.found(&Event::SelfTestSlow(found), &text);
    if !complete {
        reporter.sink.note(Level::Warning, "self-test: time was up before all trials");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_message_takes_as_long_as_over_a_slower_link() {
        assert_eq!(longer_bytes(4 << 20, 50), 8 << 20);
        assert_eq!(longer_bytes(900, 10), 1000);
        assert!(LADDER.into_iter().all(|pct| longer_bytes(1 << 20, pct) <= room_bytes(1 << 20)));
    }
}
