use super::*;
use crate::aggregate::Series;
use crate::aggregate::testing::{how, row};

/// A small generator of its own, so that the noise is the same on every machine.
struct Noise(u64);

impl Noise {
    /// Uniform in -1..1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

const SIZES: [u64; 4] = [8, 1024, 65536, 1 << 20];
const Z0: Mode = Mode { ranks: 4, groups: 1, skip: 0, blocking: 0, synchronising: true };
const Z3: Mode = Mode { blocking: 3, ..Z0 };

fn sample(rank: u32, total_us: f64, event_us: Vec<f64>) -> RankSample {
    let series = Series { event_us, ..Series::default() };
    RankSample { rank, total_us, cpu_us: 0.0, series, tally: None }
}

/// A run in which rank r takes `100 + extra[r]` µs, with noise common to all ranks and noise of their own.
fn run(mode: Mode, cycles: u64, iterations: usize, extra: &[f64], own_noise: f64, seed: u64) -> Critical {
    let mut noise = Noise(seed);
    let mut observer = Observer::new(mode);
    for cycle in 0..cycles {
        for bytes in SIZES {
            let common = 50.0 * noise.next();
            let ranks = extra.iter().enumerate().map(|(rank, more)| {
                let mut time = || 100.0 + common + more + own_noise * noise.next();
                let total = time();
                sample(rank as u32, total, (0..iterations).map(|_| time()).collect())
            });
            let ranks: Vec<_> = ranks.collect();
            observer.push(&row(bytes, cycle, &ranks, how(false, 0)));
        }
    }
    observer.verdict()
}

#[test]
fn a_rank_beyond_the_spread_is_named() {
    let critical = run(Z0, 5, 0, &[0.0, 0.0, 18.0, 0.0], 2.0, 1);
    let Verdict::Named { rank, gap_us, spread_us, agreeing, cases } = critical.longest else {
        panic!("{critical:?}")
    };
    assert_eq!((rank, agreeing, cases), (2, 8, 8));
    assert!((gap_us - 17.0).abs() < 3.0, "{gap_us}");
    assert!(spread_us < 4.0, "{spread_us}");
    assert_eq!(critical.last_to_arrive, None, "not known without a common start");
}

#[test]
fn the_victim_is_not_the_culprit() {
    // Rank 1 is late by 40 µs: all others wait for it and so are the longer ones; 3 the longest by far.
    let critical = run(Z3, 1, 20, &[40.0, 0.0, 41.0, 60.0], 2.0, 2);
    let rank = |verdict: &Verdict| match verdict {
        Verdict::Named { rank, .. } => *rank,
        other => panic!("{other:?}"),
    };
    assert_eq!(rank(&critical.longest), 3);
    assert_eq!(rank(critical.last_to_arrive.as_ref().unwrap()), 1);
}

#[test]
fn arrival_is_unknown_where_ranks_need_not_wait() {
    let mode = Mode { synchronising: false, ..Z3 };
    assert_eq!(run(mode, 5, 20, &[40.0, 0.0, 41.0, 60.0], 2.0, 2).last_to_arrive, None);
}

#[test]
fn one_cycle_says_nothing() {
    let critical = run(Z0, 1, 0, &[0.0, 0.0, 500.0, 0.0], 2.0, 3);
    assert_eq!(critical.longest, Verdict::TooFewSamples { cycles: 1 });
    assert_eq!(run(Z0, 4, 0, &[0.0; 4], 2.0, 3).longest, Verdict::TooFewSamples { cycles: 4 });
}

#[test]
fn one_rank_has_nobody_to_compare_with() {
    let mode = Mode { ranks: 1, ..Z3 };
    let critical = run(mode, 5, 20, &[0.0], 2.0, 3);
    assert_eq!(critical, Critical { longest: Verdict::OneRank, last_to_arrive: None });
}

#[test]
fn ranks_of_several_groups_are_not_compared() {
    let mode = Mode { groups: 2, ..Z3 };
    let critical = run(mode, 5, 20, &[0.0, 0.0, 500.0, 0.0], 2.0, 3);
    let several = Verdict::SeveralGroups;
    assert_eq!(critical, Critical { longest: several.clone(), last_to_arrive: Some(several) });
}

#[test]
fn skipped_iterations_say_nothing() {
    // Rank 2 is 1 us longer, which only the first two iterations hide.
    let times = |rank| if rank == 2 { [500.0, 0.0, 11.0, 11.0, 11.0, 11.0, 11.0] } else { [10.0; 7] };
    let longest = |skip: usize| {
        let mut observer = Observer::new(Mode { skip, ..Z0 });
        let ranks: Vec<_> = (0..4).map(|rank| sample(rank, 10.0, times(rank).to_vec())).collect();
        observer.push(&row(8, 0, &ranks, how(false, 0)));
        observer.verdict().longest
    };
    assert!(matches!(longest(2), Verdict::Named { rank: 2, gap_us: 1.0, .. }));
    assert!(matches!(longest(0), Verdict::NotDistinguishable { gap_us: 1.0, .. }));
}

#[test]
fn equal_ranks_are_not_distinguishable() {
    assert!(matches!(run(Z0, 5, 0, &[0.0; 4], 0.0, 4).longest, Verdict::NotDistinguishable { .. }));
    let named =
        (0..400).filter(|seed| matches!(run(Z0, 5, 0, &[0.0; 4], 5.0, *seed).longest, Verdict::Named { .. }));
    assert_eq!(named.count(), 0, "false accusations in 400 runs of noise");
    let named = (0..400)
        .filter(|seed| matches!(run(Z0, 1, 20, &[0.0; 4], 5.0, *seed).longest, Verdict::Named { .. }));
    assert_eq!(named.count(), 0, "the same with iterations");
}

#[test]
fn sizes_that_disagree_name_nobody() {
    let mut observer = Observer::new(Z0);
    for cycle in 0..5 {
        for (at, bytes) in SIZES.into_iter().enumerate() {
            let ranks = (0..4).map(|rank| sample(rank, if rank == at as u32 { 90.0 } else { 50.0 }, vec![]));
            observer.push(&row(bytes, cycle, &ranks.collect::<Vec<_>>(), how(false, 0)));
        }
    }
    let verdict = observer.verdict().longest;
    let want = Verdict::NotDistinguishable { gap_us: 40.0, spread_us: 0.0, cases: 8, distinct: 8 };
    assert_eq!(verdict, want);
}

#[test]
fn rows_of_size_zero_say_nothing() {
    let mut observer = Observer::new(Z0);
    for cycle in 0..9 {
        let ranks: Vec<_> = (0..4).map(|rank| sample(rank, f64::from(rank), vec![])).collect();
        observer.push(&row(0, cycle, &ranks, how(false, 0)));
    }
    assert_eq!(observer.verdict().longest, Verdict::TooFewSamples { cycles: 0 });
}

#[test]
fn an_endless_run_keeps_a_bounded_number_of_cycles() {
    let mut track = Track::default();
    for cycle in 0..1000 {
        track.push(vec![f64::from(cycle)], &[&[1.0, 2.0]]);
        assert!(track.cycles.len() <= KEPT);
    }
    let apart: Vec<f64> = track.cycles.windows(2).map(|pair| pair[1][0] - pair[0][0]).collect();
    assert!(apart.iter().all(|step| *step > 15.5 && *step < 16.5), "evenly spread: {apart:?}");
    assert!(track.iterations.is_empty());
}
