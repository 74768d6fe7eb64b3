use super::*;
use crate::aggregate::Series;

/// Ranks of a run without hardware, in µs: what each adds to a barrier's exit and to a call.
struct Run {
    ranks: usize,
    iterations: usize,
    noise: fastrand::Rng,
}

impl Run {
    fn new(ranks: usize, seed: u64) -> Self {
        Self { ranks, iterations: 100, noise: fastrand::Rng::with_seed(seed) }
    }

    fn series(&mut self, extra: &dyn Fn(usize, usize, &mut fastrand::Rng) -> f64) -> Vec<Vec<f64>> {
        let mut series = vec![Vec::new(); self.ranks];
        for iteration in 0..self.iterations {
            let start = 1000.0 * iteration as f64;
            for (rank, times) in series.iter_mut().enumerate() {
                let own = extra(rank, iteration, &mut self.noise);
                times.push(start + own + 0.5 * self.noise.f64());
            }
        }
        series
    }

    /// What is said when ranks call `call` and leave bare barriers `exit` behind the rest.
    fn judge(
        &mut self,
        call: &dyn Fn(usize, usize, &mut fastrand::Rng) -> f64,
        exit: &dyn Fn(usize, usize, &mut fastrand::Rng) -> f64,
        clock_error_us: f64,
    ) -> Late {
        let (arrivals, exits) = (self.series(call), self.series(exit));
        let samples: Vec<RankSample> = (0..)
            .zip(arrivals.into_iter().zip(exits))
            .map(|(rank, (arrival_us, exit_us))| {
                let series = Series { arrival_us, exit_us, ..Series::default() };
                RankSample { rank, total_us: 0.0, cpu_us: 0.0, series, tally: None }
            })
            .collect();
        late(&samples, clock_error_us, 0, 1)
    }
}

fn named(late: Late) -> Option<u32> {
    match late {
        Late::Named { rank, .. } => Some(rank),
        Late::Nobody { .. } => None,
        Late::Unknown => panic!("not judged"),
    }
}

#[test]
fn a_rank_that_is_late_before_its_call_is_named_with_its_lateness() {
    for ranks in [2, 3, 4, 64] {
        let call = |rank, _, _: &mut fastrand::Rng| if rank == 1 { 200.0 } else { 0.0 };
        let late = Run::new(ranks, 1).judge(&call, &|_, _, _| 0.0, 5.0);
        let Late::Named { rank, seen_at: SeenAt::Calls, share, late_us, threshold_us, interval_us } = late
        else {
            panic!("{ranks}: {late:?}")
        };
        assert_eq!((rank, share), (1, 1.0));
        assert!((late_us - 200.0).abs() < 1.0 && (5.0..8.0).contains(&threshold_us), "{late:?}");
        assert!(interval_us.is_some_and(|[low, high]| low <= late_us && late_us <= high), "{late:?}");
    }
}

#[test]
fn often_last_alone_accuses_nobody() {
    // The barrier lets rank 3 (or of two ranks the first) out last, always, by 2.5 or 50 µs.
    for (ranks, last, step) in [(4, 3, 50.0), (2, 0, 2.5), (64, 63, 20.0)] {
        let order = move |rank: usize, _: usize, _: &mut fastrand::Rng| {
            if rank == last { step } else { step * 0.5 * rank as f64 / ranks as f64 }
        };
        for seed in 0..100 {
            assert_eq!(named(Run::new(ranks, seed).judge(&order, &order, 0.0)), None, "{ranks} {seed}");
        }
    }
}

#[test]
fn a_core_that_is_shared_is_no_excuse() {
    // The rank waits for time slices of 4 ms in half of all barriers, bare or not; its peer for messages of 15 µs.
    let hogged = |rank: usize, iteration: usize, noise: &mut fastrand::Rng| match rank {
        1 if iteration.is_multiple_of(2) => 4000.0 * f64::from(noise.u32(1..4)),
        0 if !iteration.is_multiple_of(2) => 15.0,
        _ => 0.0,
    };
    for seed in 0..100 {
        assert_eq!(named(Run::new(2, seed).judge(&hogged, &hogged, 10.0)), Some(1), "{seed}");
    }
}

#[test]
fn a_core_that_is_taken_away_within_the_operation_is_seen_at_bare_barriers() {
    // As with a hog at rank 1's core in lockstep: every other bare barrier costs a time slice, and no call does.
    let exit = |rank: usize, at: usize, _: &mut fastrand::Rng| match rank {
        1 if at.is_multiple_of(2) => 3970.0,
        _ => 0.0,
    };
    let call = |rank: usize, _: usize, _: &mut fastrand::Rng| if rank == 0 { 5.0 } else { 0.0 };
    for seed in 0..100 {
        let late = Run::new(2, seed).judge(&call, &exit, 8.0);
        let Late::Named { rank: 1, seen_at: SeenAt::Barriers, share, late_us, .. } = late else {
            panic!("{late:?}")
        };
        assert!((share - 0.5).abs() < 1e-9 && (1900.0..4000.0).contains(&late_us), "{late:?}");
    }
}

#[test]
fn where_all_cores_are_shared_nobody_can_be_told() {
    let all = |_: usize, _: usize, noise: &mut fastrand::Rng| 4000.0 * f64::from(noise.u32(0..4));
    let called = (0..200).filter(|seed| named(Run::new(2, *seed).judge(&all, &all, 10.0)).is_some()).count();
    assert_eq!(called, 0);
    // Nor is a rank then found that is late by less.
    let late = |rank: usize, at: usize, noise: &mut fastrand::Rng| {
        all(rank, at, noise) + if rank == 1 { 200.0 } else { 0.0 }
    };
    assert_eq!(named(Run::new(2, 7).judge(&late, &all, 10.0)), None);
}

#[test]
fn less_than_the_clocks_error_is_nothing() {
    let call = |rank, _, _: &mut fastrand::Rng| if rank == 1 { 20.0 } else { 0.0 };
    assert_eq!(named(Run::new(2, 1).judge(&call, &|_, _, _| 0.0, 25.0)), None);
    assert_eq!(named(Run::new(2, 1).judge(&call, &|_, _, _| 0.0, 10.0)), Some(1));
}

#[test]
fn a_hundredth_of_the_iteration_is_nothing() {
    let judge = |completion_us: f64, aggregated: u64| {
        let sample = |rank: u32, late_us: f64| {
            let times = |extra_us: f64| (0..50).map(|at| 1e5 * f64::from(at) + extra_us).collect();
            // Whoever waits for the late one has the longer time.
            let completion_us = vec![completion_us + 200.0 - late_us; 50];
            let series = Series {
                arrival_us: times(late_us),
                exit_us: times(0.0),
                completion_us,
                ..Series::default()
            };
            RankSample { rank, total_us: 0.0, cpu_us: 0.0, series, tally: None }
        };
        named(late(&[sample(0, 0.0), sample(1, 200.0)], 0.0, 0, aggregated))
    };
    assert_eq!(judge(19_000.0, 1), Some(1));
    assert_eq!(judge(21_000.0, 1), None);
    // Times are those of one of its operations.
    assert_eq!(judge(1_900.0, 10), Some(1));
    assert_eq!(judge(2_100.0, 10), None);
}

#[test]
fn now_and_then_is_not_late() {
    let seldom = |rank: usize, at: usize, _: &mut fastrand::Rng| {
        if rank == 1 && at.is_multiple_of(6) { 500.0 } else { 0.0 }
    };
    assert_eq!(named(Run::new(2, 1).judge(&seldom, &|_, _, _| 0.0, 0.0)), None);
    let often = |rank: usize, at: usize, _: &mut fastrand::Rng| {
        if rank == 1 && at.is_multiple_of(3) { 500.0 } else { 0.0 }
    };
    assert_eq!(named(Run::new(2, 1).judge(&often, &|_, _, _| 0.0, 0.0)), Some(1));
}

#[test]
fn ranks_that_take_turns_are_not_late_ranks() {
    let turns = |rank: usize, at: usize, _: &mut fastrand::Rng| if rank == at % 2 { 300.0 } else { 0.0 };
    assert_eq!(named(Run::new(2, 1).judge(&turns, &|_, _, _| 0.0, 0.0)), None);
    // 56 of 100 is what luck gives one of two ranks in 27 % of all cases.
    let nearly = |rank: usize, at: usize, _: &mut fastrand::Rng| {
        if rank == usize::from(at % 9 < 5) { 300.0 } else { 0.0 }
    };
    assert_eq!(named(Run::new(2, 1).judge(&nearly, &|_, _, _| 0.0, 0.0)), None);
}

#[test]
fn equal_ranks_are_hardly_ever_accused() {
    // Noise with a heavy tail, A/A: 1000 placements.
    let noise = |_: usize, _: usize, noise: &mut fastrand::Rng| {
        let tail = 1.0 / (1.0 - noise.f64());
        3.0 * tail.min(1000.0)
    };
    for ranks in [2, 4, 16] {
        let false_alarms = (0..1000)
            .filter(|seed| named(Run::new(ranks, *seed).judge(&noise, &noise, 0.0)).is_some())
            .count();
        assert!(false_alarms <= 10, "{ranks}: {false_alarms} of 1000");
    }
}

#[test]
fn too_little_is_unknown() {
    let mut short = Run { iterations: NEEDED - 1, ..Run::new(2, 1) };
    assert_eq!(short.judge(&|_, _, _| 0.0, &|_, _, _| 0.0, 0.0), Late::Unknown);
    assert_eq!(late(&[], 0.0, 0, 1), Late::Unknown);
}

#[test]
fn the_binomial_tail_is_right() {
    // Exact sums: P(X ≥ 8 | 10, 1/2) = 56/1024; P(X ≥ 2 | 3, 1/4) = 10/64; P(X ≥ 1 | 4, 1/3) = 1 − 16/81.
    for (trials, least, chance, want) in [
        (10, 8, 0.5, 56.0 / 1024.0),
        (3, 2, 0.25, 10.0 / 64.0),
        (4, 1, 1.0 / 3.0, 65.0 / 81.0),
        (5, 0, 0.5, 1.0),
        (0, 0, 0.5, 1.0),
        (20, 20, 0.5, 0.5_f64.powi(20)),
    ] {
        let got = binomial_tail(trials, least, chance);
        assert!((got - want).abs() < 1e-12, "{trials} {least} {chance}: {got} {want}");
    }
    assert!((binomial_tail(10_000, 5_000, 0.5) - 0.504).abs() < 1e-3);
}

/// A placement's judgement.
fn found(rank: u32, seen_at: SeenAt, late_us: f64) -> Late {
    let interval_us = Some([late_us - 1.0, late_us + 2.0]);
    Late::Named { rank, seen_at, share: 0.5, late_us, interval_us, threshold_us: 8.0 }
}

#[test]
fn a_name_needs_two_placements_and_no_rival() {
    let (one, other) = (found(3, SeenAt::Calls, 200.0), found(2, SeenAt::Calls, 200.0));
    let nobody = Late::Nobody { threshold_us: 10.0 };
    let verdict = |all: &[Late]| {
        let mut observer = LateObserver::default();
        for late in all {
            observer.push(*late);
        }
        observer.verdict()
    };
    assert_eq!(verdict(&[]), None);
    assert_eq!(verdict(&[Late::Unknown]), None);
    let name = |agreeing, cases| {
        let (share_pct, late_us, threshold_us) = (50.0, 200.0, 8.0);
        Some(LateVerdict::Named {
            rank: 3,
            seen_at: SeenAt::Calls,
            share_pct,
            late_us,
            interval_us: Some([199.0, 202.0]),
            threshold_us,
            agreeing,
            cases,
        })
    };
    assert_eq!(verdict(&[one, one]), name(2, 2));
    assert_eq!(verdict(&[one, nobody, one]), name(2, 3));
    let none = |threshold_us, cases, distinct| {
        Some(LateVerdict::NotDistinguishable { threshold_us, cases, distinct })
    };
    assert_eq!(verdict(&[one]), none(8.0, 1, 1), "one placement is no confirmation");
    assert_eq!(verdict(&[one, nobody, nobody, one]), name(2, 4));
    let few: Vec<Late> = [one, one].into_iter().chain([nobody; 7]).collect();
    assert_eq!(verdict(&few), none(10.0, 9, 2), "two of nine are too few");
    assert_eq!(verdict(&[one, other, one]), none(8.0, 3, 3), "another one is named too often");
    assert_eq!(verdict(&[one, other, one, one]), name(3, 4));
    assert_eq!(verdict(&[nobody, nobody]), none(10.0, 2, 0));
}

#[test]
fn figures_of_calls_and_of_bare_barriers_are_not_mixed() {
    let mut observer = LateObserver::default();
    for (seen_at, late_us) in [(SeenAt::Calls, 200.0), (SeenAt::Barriers, 4000.0), (SeenAt::Barriers, 4000.0)]
    {
        observer.push(found(3, seen_at, late_us));
    }
    let Some(LateVerdict::Named { seen_at, late_us, interval_us, agreeing, .. }) = observer.verdict() else {
        panic!()
    };
    assert_eq!((seen_at, agreeing, interval_us), (SeenAt::Barriers, 3, Some([3999.0, 4002.0])));
    assert!((late_us - 4000.0).abs() < 1e-9, "{late_us}");
}

#[test]
fn an_endless_run_remembers_a_bounded_number_of_placements() {
    let mut observer = LateObserver::default();
    for _ in 0..3 * KEPT {
        observer.push(Late::Nobody { threshold_us: 1.0 });
        assert!(observer.placements.len() <= KEPT);
    }
    for _ in 0..KEPT {
        observer.push(found(3, SeenAt::Calls, 200.0));
    }
    assert!(matches!(observer.verdict(), Some(LateVerdict::Named { rank: 3, .. })));
}
