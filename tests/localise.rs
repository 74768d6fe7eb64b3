//! Faults of a simulated fabric of 1,024 ranks, and whom the localiser names: 200 seeds each with `CRITRANK_LONG`,
//! as `ci/long.sh` sets it, else a few. Each test prints how often it was right, and the tests that it took.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::sync::atomic::{AtomicU64, Ordering};

use critrank::backend::sim::fabric::{Fabric, Fault};
use critrank::judge::{Blame, Limits, Localiser, Places, Shape, Size, Verdict, bound};

const RANKS: u32 = 1024;
const LARGE_BYTES: u64 = 64 << 20;
const SMALL_BYTES: u64 = 8;

/// What the localiser says of a fabric, and after how many tests.
fn localise(mut fabric: Fabric, ranks: u32) -> (Verdict, usize) {
    let nodes: Vec<u32> = (0..ranks).map(|rank| rank / fabric.per_node).collect();
    let mut localiser = Localiser::new(Places::of(&nodes), Limits::default()).own_first();
    while let Some(test) = localiser.ask() {
        let active = test.groups.iter().map(Vec::len).sum();
        let bytes = if test.size == Size::Small { SMALL_BYTES } else { LARGE_BYTES };
        let time = |group: &Vec<u32>| match test.shape {
            Shape::Ring => fabric.ring_us(group, bytes, active),
            Shape::OneWay => fabric.message_us(group[0], group[1], bytes, active),
            Shape::Own => fabric.own_us(group[0], bytes),
        };
        let times_us = test.groups.iter().map(time).collect();
        localiser.tell(test, times_us);
    }
    assert!(localiser.asked() <= bound(ranks));
    (localiser.verdict(), localiser.asked())
}

fn seeds() -> u64 {
    if std::env::var_os("CRITRANK_LONG").is_some() { 200 } else { 4 }
}

/// Seeds in which `right` held, of all; the seeds are shared between two threads.
fn share(
    what: &str,
    faults: impl Fn(&mut fastrand::Rng) -> Vec<Fault> + Sync,
    right: impl Fn(&[Fault], &Verdict) -> bool + Sync,
) {
    let (next, hits, most) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds() {
                break;
            }
            let faults = faults(&mut fastrand::Rng::with_seed(seed));
            let (verdict, asked) = localise(Fabric::new(faults.clone(), seed + 1), RANKS);
            most.fetch_max(asked as u64, Ordering::Relaxed);
            if right(&faults, &verdict) {
                hits.fetch_add(1, Ordering::Relaxed);
            } else {
                println!("{what}, seed {seed}: {faults:?} came out as {verdict:?}");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let (hits, seeds) = (hits.into_inner(), seeds());
    println!("{what}: right in {hits} of {seeds} seeds, {RANKS} ranks, at most {} tests", most.into_inner());
    assert!(hits as f64 >= 0.95 * seeds as f64, "{what}: right in {hits} of {seeds} seeds");
}

/// Exactly the faults are named, nothing else.
fn named(faults: &[Fault], verdict: &Verdict) -> bool {
    let Verdict::Named { findings } = verdict else { return false };
    let mut expected: Vec<Blame> = faults.iter().map(name).collect();
    expected.sort();
    expected == findings.iter().map(|finding| finding.blame.clone()).collect::<Vec<_>>()
}

fn name(fault: &Fault) -> Blame {
    match *fault {
        Fault::Late { rank, .. } => Blame::LateRank { rank },
        Fault::Sender { rank, .. } => Blame::SlowSender { rank },
        Fault::Receiver { rank, .. } => Blame::SlowReceiver { rank },
        Fault::Both { rank, .. } => Blame::SlowBothWays { rank },
        Fault::Gpu { rank, .. } => Blame::SlowGpu { rank },
        Fault::Link { from, to, .. } => Blame::SlowLink { from, to },
        Fault::Node { node, .. } => Blame::SlowNode { ranks: (8 * node..8 * node + 8).collect() },
        Fault::Path { .. } | Fault::Scattered { .. } | Fault::Crowded { .. } => panic!("no name: {fault:?}"),
    }
}

fn not_localised(_: &[Fault], verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::NotLocalised { .. })
}

/// Two ranks on different nodes.
fn two(random: &mut fastrand::Rng) -> (u32, u32) {
    let (a, b) = (random.u32(0..RANKS), random.u32(0..RANKS));
    if a / 8 == b / 8 { two(random) } else { (a, b) }
}

#[test]
fn nobody_is_named_in_a_healthy_fabric() {
    share("healthy", |_| Vec::new(), |_, verdict| !matches!(verdict, Verdict::Named { .. }));
}

#[test]
fn a_slow_link() {
    share(
        "slow link (-20 %)",
        |random| {
            let (from, to) = two(random);
            vec![Fault::Link { from, to, rate: 0.8 }]
        },
        named,
    );
}

#[test]
fn a_slow_sender() {
    share(
        "slow sender (-20 %)",
        |random| vec![Fault::Sender { rank: random.u32(0..RANKS), rate: 0.8 }],
        named,
    );
}

#[test]
fn a_slow_gpu() {
    share("slow GPU (-20 %)", |random| vec![Fault::Gpu { rank: random.u32(0..RANKS), rate: 0.8 }], named);
}

#[test]
fn a_rank_that_is_slow_both_ways() {
    share(
        "slow both ways (-20 %)",
        |random| vec![Fault::Both { rank: random.u32(0..RANKS), rate: 0.8 }],
        named,
    );
}

#[test]
fn a_slow_node() {
    share(
        "slow node of 8 (-20 %)",
        |random| vec![Fault::Node { node: random.u32(0..RANKS / 8), rate: 0.8 }],
        named,
    );
}

#[test]
fn a_late_rank() {
    share(
        "late rank (200 us)",
        |random| vec![Fault::Late { rank: random.u32(0..RANKS), delay_us: 200.0 }],
        named,
    );
}

#[test]
fn two_at_once() {
    share(
        "late rank and slow sender",
        |random| {
            let (late, slow) = two(random);
            vec![Fault::Late { rank: late, delay_us: 200.0 }, Fault::Sender { rank: slow, rate: 0.8 }]
        },
        named,
    );
}

#[test]
fn two_of_a_kind_at_once() {
    share(
        "two slow senders (-20 %, -40 %)",
        |random| {
            let (one, other) = two(random);
            vec![Fault::Sender { rank: one, rate: 0.8 }, Fault::Sender { rank: other, rate: 0.6 }]
        },
        named,
    );
}

#[test]
fn a_path_between_two_nodes_is_no_known_kind() {
    share(
        "all links between two nodes",
        |random| {
            let (a, b) = two(random);
            vec![Fault::Path { nodes: (a / 8, b / 8), rate: 0.8 }]
        },
        not_localised,
    );
}

#[test]
fn links_here_and_there_are_no_known_kind() {
    share(
        "3 % of all links",
        |random| vec![Fault::Scattered { share: 0.03, rate: 0.8, seed: random.u64(..) }],
        not_localised,
    );
}

#[test]
fn a_rank_that_is_slow_in_company_only_is_no_known_kind() {
    share(
        "slow in company only",
        |random| vec![Fault::Crowded { rank: random.u32(0..RANKS), above: 100, rate: 0.7 }],
        not_localised,
    );
}

#[test]
fn tests_grow_linearly_with_ranks() {
    let mut asked = Vec::new();
    for ranks in [16, 64, 256, 1024] {
        let (verdict, tests) = localise(Fabric::new(Vec::new(), 1), ranks);
        assert_eq!(verdict, Verdict::Even);
        println!("{ranks} ranks: {tests} tests of a healthy fabric, at most {}", bound(ranks));
        asked.push((ranks, tests));
    }
    for (ranks, tests) in asked {
        // All pairs, each way; the splits at two sizes, three times; six rounds of three tests; each by itself.
        let bits = ranks.ilog2() as usize;
        assert!(tests <= 2 * ranks as usize + 6 * (bits + 1) + 18 + 5, "{ranks} {tests}");
    }
}
