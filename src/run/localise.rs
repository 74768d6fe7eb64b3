//! `--localize`: runs the tests that the localiser asks for, and says what it came to.

use std::time::{Duration, Instant};

use super::expect;
use super::reporter::Reporter;
use super::slowness;
use crate::backend::Kind;
use crate::cli::Cli;
use crate::error::Result;
use crate::judge::{Blame, Finding, Limits, Localiser, Shape, Size, Test, Verdict};
use crate::measure::{Bench, Load};
use crate::report::record::Event;
use crate::report::sink::Level;
use crate::report::{Site, places_of, table};

/// After so long no further test is asked, so that the whole takes less than a minute.
const TIME: Duration = Duration::from_secs(45);

/// What messages carry: 8 bytes in turns, so that leaving a barrier late counts little; and so much that the start
/// counts little.
/// Copies are so many that other work on the GPU, which gets its turn every few ms, is among them.
pub(super) fn load(kind: Kind, shape: Shape, size: Size) -> Load {
    match (size, kind) {
        (Size::Large, Kind::Nccl) if shape == Shape::Own => {
            Load { bytes: 64 << 20, batch: 256, operations: 1 }
        }
        (Size::Small, _) => Load { bytes: 8, batch: 1, operations: 16 },
        (Size::Large, Kind::Nccl) => Load { bytes: 64 << 20, batch: 1, operations: 2 },
        (Size::Large, Kind::Mpi | Kind::Sim) => Load { bytes: 4 << 20, batch: 1, operations: 1 },
    }
}

/// Bytes that the buffers must hold for it, and for `--self-test`; 0 without both.
pub(super) fn room_bytes(cli: &Cli) -> u64 {
    // A matrix's small messages have 8 bytes.
    let large_bytes = load(cli.backend, Shape::Ring, Size::Large).bytes;
    match (cli.self_test, cli.localize) {
        (true, _) => slowness::room_bytes(large_bytes),
        (false, true) => large_bytes,
        (false, false) => 8 * u64::from(cli.matrix),
    }
}

/// Marks that it sets per rank.
pub(super) fn marks(cli: &Cli) -> usize {
    if cli.localize { 2 } else { 0 }
}

/// Tests until there is a verdict. Every process takes part; the first one, whose `reporter` is there, decides.
pub(super) fn localise(bench: &mut Bench<'_>, cli: &Cli, reporter: Option<&Reporter>) -> Result<()> {
    let is_wanted = reporter.is_some_and(|reporter| expect::is_wanted(reporter, cli));
    if bench.control.vote(u64::from(is_wanted))? == 0 {
        return Ok(());
    }
    let mut localiser = reporter.map(|reporter| {
        let mut localiser = Localiser::new(places_of(&reporter.preamble.sites), Limits::default());
        // A host's own memory says little about its network.
        if cli.backend != Kind::Mpi {
            localiser = localiser.own_first();
        }
        if let Some(rank) = reporter.late_rank() {
            localiser.told_late(rank);
        }
        localiser
    });
    let begin = Instant::now();
    loop {
        if let Some(localiser) = localiser.as_mut().filter(|_| begin.elapsed() > TIME) {
            localiser.stop("time is up");
        }
        let asked = localiser.as_mut().and_then(Localiser::ask);
        let words = asked.map(|test| serde_json::to_vec(&test).unwrap_or_default()).unwrap_or_default();
        let Ok(test) = serde_json::from_slice::<Test>(&bench.control.broadcast(words)?) else { break };
        let times_us = bench.probe(&test, load(cli.backend, test.shape, test.size))?;
        if let (Some(localiser), Some(times_us)) = (&mut localiser, times_us) {
            tracing::debug!("{:?} {:?} {:?}: {times_us:.1?} us", test.shape, test.size, test.groups);
            localiser.tell(test, times_us);
        }
    }
    if let (Some(localiser), Some(reporter)) = (localiser, reporter) {
        report(reporter, localiser, begin.elapsed());
    }
    Ok(())
}

fn report(reporter: &Reporter, localiser: Localiser, took: Duration) {
    let sink = &reporter.sink;
    let (verdict, tests) = (localiser.verdict(), localiser.asked());
    let effort = format!("{tests} tests in {:.1} s", took.as_secs_f64());
    match &verdict {
        Verdict::Named { findings } => {
            for finding in findings {
                let text = format!("{}; {effort}", words(finding, &reporter.preamble.sites));
                sink.finding(finding.blame.kind(), &finding.blame.ranks(), &text);
            }
        }
        Verdict::NotLocalised { reasons } => {
            sink.note(Level::Warning, &format!("not localised: {}; {effort}", reasons.join("; ")));
        }
        Verdict::Even if reporter.preamble.sites.len() < 2 => {
            sink.note(Level::Info, "one rank has nobody to be compared with: nothing was localised");
        }
        Verdict::Even => sink.note(Level::Info, &format!("no rank, link or node stands out: {effort}")),
    }
    if let rest @ 1.. = localiser.unasked() {
        let text = format!(
            "the other {rest} ranks are too few to compare their traffic: run again when what was named is mended"
        );
        sink.note(Level::Info, &text);
    }
    let took_us = took.as_secs_f64() * 1e6;
    sink.event(&Event::Localised {
        tests: tests as u64,
        took_us,
        verdict,
        trail: Some(localiser.into_trail()),
    });
}

/// A finding in words.
fn words(finding: &Finding, sites: &[Site]) -> String {
    let rank = |rank: u32| table::ranked(rank, sites);
    let host = |rank: Option<&u32>| {
        let site = sites.iter().find(|site| Some(&site.rank) == rank);
        site.map(|site| site.host.clone()).unwrap_or_default()
    };
    let who = match &finding.blame {
        Blame::LateRank { rank: it } => format!("late rank: {}", rank(*it)),
        Blame::SlowGpu { rank: it } => format!("slow GPU, by itself: rank {}", rank(*it)),
        Blame::SlowBothWays { rank: it } => format!("slow both ways: rank {}", rank(*it)),
        Blame::SlowSender { rank: it } => format!("slow sender: rank {}", rank(*it)),
        Blame::SlowReceiver { rank: it } => format!("slow receiver: rank {}", rank(*it)),
        Blame::SlowLink { from, to } => format!("slow link: rank {} to rank {}", rank(*from), rank(*to)),
        Blame::SlowNode { ranks } => format!("slow node: {}, ranks {ranks:?}", host(ranks.first())),
        Blame::SlowRail { ranks } => format!("slow rail: ranks {ranks:?}"),
        Blame::SlowBlock { ranks } => {
            format!("slow block: {} to {}, ranks {ranks:?}", host(ranks.first()), host(ranks.last()))
        }
    };
    let Finding { ratio, ratio_low, ratio_high, excess_us, repeats, confirmations, .. } = finding;
    format!(
        "{who}: {ratio:.2} x the time of others [{ratio_low:.2}, {ratio_high:.2}], {excess_us:.1} us more; \
         {confirmations} confirmations of {repeats} pairs each"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{fixture, words::broken};

    #[test]
    fn names_keep_to_the_words_of_a_good_run() {
        let ranks = vec![0, 1];
        let all = [
            Blame::LateRank { rank: 1 },
            Blame::SlowGpu { rank: 1 },
            Blame::SlowBothWays { rank: 1 },
            Blame::SlowSender { rank: 1 },
            Blame::SlowReceiver { rank: 1 },
            Blame::SlowLink { from: 0, to: 1 },
            Blame::SlowNode { ranks: ranks.clone() },
            Blame::SlowRail { ranks: ranks.clone() },
            Blame::SlowBlock { ranks },
        ];
        for blame in all {
            let finding = Finding {
                blame,
                ratio: 2.514,
                ratio_low: 2.4,
                ratio_high: 2.6,
                excess_us: 1500.04,
                repeats: 9,
                confirmations: 2,
            };
            let text = words(&finding, &fixture::preamble().sites);
            assert!(
                broken(&text).is_none() && text.contains(": 2.51 x") && text.contains(" 1500.0 us more"),
                "{text}"
            );
        }
    }
}
