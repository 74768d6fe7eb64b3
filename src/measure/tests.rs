//! Every collective over the simulation: right data is right, and every fault is found and named.

use super::*;
use crate::backend::sim::{Law, Sim};
use crate::collective::{ALL, Shares, Traits};
use crate::judge::{Shape, Size, Test};
use crate::session::solo::Solo;
use crate::vocab::{Corruption, Inject};

fn settings(checks: u64, blocking: Blocking, per_iteration: bool) -> Settings {
    Settings {
        iterations: 3,
        aggregated: 1,
        warmup: 1,
        checks,
        blocking,
        per_iteration,
        graph: 0,
        explain: false,
        unalign: 0,
        max_bytes: 1 << 16,
        deadlines: Deadlines { init: Duration::from_secs(1), every: None },
    }
}

struct Run<'a> {
    name: &'a str,
    ranks: u32,
    dtype: Dtype,
    op: RedOp,
    bytes: u64,
    inject: &'a [Inject],
    settings: Settings,
    root: u32,
}

impl Run<'_> {
    fn go(&self, placement: Placement) -> (Traits, Vec<RankSample>, Checked) {
        let entry = ALL.iter().find(|entry| entry.name == self.name).unwrap();
        let collective = (entry.build)(Shares::default());
        let mut sim = Sim::new(Law::new(self.ranks, 7), self.inject);
        sim.allocate(self.settings.max_bytes + 64, self.settings.marks()).unwrap();
        let progress = Progress::default();
        let mut bench = Bench::new(&mut sim, &Solo, &progress, &*collective, self.settings);
        let op = collective.traits().reduces.then_some(self.op);
        let target = Target { bytes: self.bytes, dtype: self.dtype, op, root: self.root };
        let (samples, checked) = bench.placement(&target, placement).unwrap();
        (collective.traits(), samples, checked)
    }
}

fn base(name: &str, ranks: u32) -> Run<'_> {
    let settings = settings(2, Blocking::None, false);
    Run { name, ranks, dtype: Dtype::Float, op: RedOp::Sum, bytes: 4096, inject: &[], settings, root: 0 }
}

#[test]
fn right_data_is_right_for_every_type_and_reduction() {
    for entry in &ALL {
        for ranks in [1, 2, 3, 4, 8] {
            if (entry.build)(Shares::default()).refuses(ranks).is_some() {
                continue;
            }
            for dtype in Dtype::ALL {
                for op in RedOp::ALL {
                    for placement in Placement::BOTH {
                        let run = Run { dtype, op, bytes: 1000, root: ranks - 1, ..base(entry.name, ranks) };
                        let (traits, _, checked) = run.go(placement);
                        let skipped = checked.blind.is_some()
                            || (placement == Placement::InPlace && !traits.checks_in_place);
                        let wanted = if skipped { None } else { Some(0) };
                        let what = format!("{} {ranks} {dtype} {op} {placement:?}", entry.name);
                        assert_eq!(checked.wrong, wanted, "{what}: {:?}", checked.mismatches);
                        if !traits.reduces {
                            break;
                        }
                    }
                }
            }
        }
    }
}

/// What a fault must be called, or `None` where it cannot be seen at all.
fn name_of(how: Corruption, traits: Traits) -> Option<&'static [&'static str]> {
    Some(match (how, traits.reduces) {
        (Corruption::Lost, true) => &["contribution of rank 1 missing"],
        (Corruption::Doubled, true) => &["contribution of rank 1 counted twice"],
        (Corruption::Doubled, false) | (Corruption::Swapped, true) => return None,
        (Corruption::Shifted, _) => &["shifted by 1 elements"],
        (Corruption::Swapped, false) => &["block of rank", "shifted by"],
        (Corruption::Stale, _) => &["previous repetition", "repetitions ago"],
        (Corruption::Unwritten, _) | (Corruption::Lost, false) => &["never written"],
        (Corruption::Flipped, _) => &["one bit flipped"],
    })
}

#[test]
fn every_fault_is_found_and_named_in_every_collective() {
    for entry in &ALL {
        for how in Corruption::ALL {
            let inject = [Inject::Corrupt { rank: 1, how }];
            let run = Run { inject: &inject, root: 1, ..base(entry.name, 4) };
            let (traits, _, checked) = run.go(Placement::OutOfPlace);
            let what = format!("{} {how:?}: {:?}", entry.name, checked.mismatches);
            match name_of(how, traits) {
                None => assert_eq!(checked.wrong, Some(0), "{what}"),
                Some(names) => {
                    assert!(checked.wrong > Some(0), "{what}");
                    let fits = |word: &&str| checked.mismatches.iter().any(|bad| bad.cause.contains(*word));
                    assert!(names.iter().any(fits), "{what}");
                }
            }
            let unchecked = Run { settings: settings(0, Blocking::None, false), ..run };
            assert_eq!(unchecked.go(Placement::OutOfPlace).2.wrong, None, "{what}: the check was off");
        }
    }
}

#[test]
fn a_flipped_bit_of_one_rank_is_found_in_every_collective_type_and_reduction() {
    for entry in &ALL {
        for (dtype, op) in Dtype::ALL.into_iter().flat_map(|dtype| RedOp::ALL.map(|op| (dtype, op))) {
            let collective = (entry.build)(Shares::default());
            let mut sim = Sim::new(Law::new(4, 7), &[]);
            let settings = settings(1, Blocking::None, false);
            sim.allocate(settings.max_bytes, 0).unwrap();
            let progress = Progress::default();
            let mut bench = Bench::new(&mut sim, &Solo, &progress, &*collective, settings);
            bench.corrupt = Some(2);
            let op = collective.traits().reduces.then_some(op);
            let target = Target { bytes: 1000, dtype, op, root: 2 };
            let checked = bench.placement(&target, Placement::OutOfPlace).unwrap().1;
            if checked.blind.is_some() {
                continue;
            }
            let what = format!("{} {dtype} {op:?}: {:?}", entry.name, checked.mismatches);
            assert_eq!(checked.wrong, Some(1), "{what}");
            let [found] = checked.mismatches.as_slice() else { panic!("{what}") };
            assert_eq!((found.rank, found.first), (2, found.last), "{what}");
            let highest_but_one = 1 << (8 * dtype.bytes() - 2);
            assert_eq!(found.expected ^ found.got, highest_but_one, "{what}");
        }
    }
}

#[test]
fn series_exist_as_the_modes_say() {
    let series = |blocking, per_iteration| {
        let run = Run { settings: settings(0, blocking, per_iteration), ..base("all_reduce", 2) };
        let (_, samples, _) = run.go(Placement::OutOfPlace);
        assert!(samples.iter().all(|sample| sample.total_us > 0.0 && sample.cpu_us <= sample.total_us));
        let series = samples[1].series.clone();
        [series.enqueue_us.len(), series.event_us.len(), series.completion_us.len(), series.interval_us.len()]
    };
    for blocking in [Blocking::None, Blocking::Wait, Blocking::WaitAndBarrier, Blocking::WaitThenBarrier] {
        assert_eq!(series(blocking, false), [0, 0, 0, 0]);
    }
    assert_eq!(series(Blocking::None, true), [3, 0, 0, 3]);
    for blocking in [Blocking::Wait, Blocking::WaitAndBarrier, Blocking::WaitThenBarrier] {
        assert_eq!(series(blocking, true), [3, 3, 3, 3]);
    }
}

#[test]
fn a_captured_loop_is_timed_by_its_launches_and_checked() {
    for entry in &ALL {
        for inject in [&[][..], &[Inject::Corrupt { rank: 1, how: Corruption::Unwritten }]] {
            let graph = Settings { graph: 3, aggregated: 2, ..settings(2, Blocking::None, false) };
            let (_, samples, checked) =
                Run { settings: graph, inject, root: 1, ..base(entry.name, 4) }.go(Placement::OutOfPlace);
            let wrong = checked.wrong.is_some_and(|wrong| wrong > 0);
            assert_eq!(wrong, !inject.is_empty(), "{}", entry.name);
            let RankSample { total_us, cpu_us, .. } = samples[0];
            // The law's 8 us for a call, and 2 us for each part of it, whatever the number of launches.
            assert!((4.0..25.0).contains(&total_us) && cpu_us <= total_us, "{} {total_us}", entry.name);
        }
    }
}

#[test]
fn modes_measure_what_they_say() {
    let total = |blocking, aggregated| {
        let mut settings = settings(0, blocking, false);
        (settings.iterations, settings.aggregated) = (50, aggregated);
        let run = Run { settings, ..base("all_reduce", 2) };
        run.go(Placement::OutOfPlace).1[0].total_us
    };
    // The law: 2 us to enqueue, 8 us for the call.
    let (batch, each) = (total(Blocking::None, 1), total(Blocking::Wait, 1));
    assert!((7.5..9.0).contains(&batch), "{batch}");
    assert!((10.0..11.5).contains(&each), "{each}");
    let (inside, outside) = (total(Blocking::WaitAndBarrier, 1), total(Blocking::WaitThenBarrier, 1));
    assert!(inside > outside, "the barrier counts in -z 1 and not in -z 3: {inside} {outside}");
    assert!(total(Blocking::Wait, 4) < each, "aggregated operations share one wait");
}

#[test]
fn a_late_rank_is_seen_in_arrivals_and_not_in_bare_barriers() {
    let late = Run { settings: settings(0, Blocking::WaitThenBarrier, true), ..base("all_reduce", 4) };
    for (delay, named) in [(None, None), (Some(Delay { local: 2, ns: 50_000 }), Some(2))] {
        let collective = (ALL[1].build)(Shares::default());
        let mut sim = Sim::new(Law::new(4, 7), &[]);
        let settings = Settings { iterations: 30, ..late.settings };
        sim.allocate(settings.max_bytes, settings.marks()).unwrap();
        let progress = Progress::default();
        let mut bench = Bench::new(&mut sim, &Solo, &progress, &*collective, settings);
        bench.delay = delay;
        let op = collective.traits().reduces.then_some(RedOp::Sum);
        let target = Target { bytes: 4096, dtype: Dtype::Float, op, root: 0 };
        let (mut samples, _) = bench.placement(&target, Placement::OutOfPlace).unwrap();
        let (error_us, gpu_us) = bench.exits(&mut samples).unwrap();
        assert_eq!(gpu_us, None);
        assert!(error_us.abs() < f64::EPSILON, "a simulation's clock is common");
        let found = match crate::aggregate::late(&samples, error_us, 0, 1) {
            crate::aggregate::Late::Named { rank, late_us, .. } => {
                assert!((49.0..51.5).contains(&late_us), "{late_us}");
                Some(rank)
            }
            _ => None,
        };
        assert_eq!(found, named);
        let arrivals = crate::aggregate::arrivals(
            &samples,
            crate::aggregate::ClockError { host_us: error_us, gpu_us },
            0,
            1,
        )
        .unwrap();
        // Barriers leave ranks up to 1 us apart; the call takes 10.
        assert!(arrivals.exit_skew.unwrap().max_us < 1.0, "{arrivals:?}");
        let late_us = delay.map_or(0.0, |delay| delay.ns as f64 / 1e3);
        assert!((late_us - 1.0..late_us + 1.0).contains(&arrivals.skew.p50_us), "{arrivals:?}");
        assert!((8.0..14.0).contains(&arrivals.from_last.p50_us), "{arrivals:?}");
        assert!((arrivals.makespan.p50_us - arrivals.from_last.p50_us - late_us).abs() < 1.5, "{arrivals:?}");
    }
}

/// Times of the groups of a test with messages of 4 MiB, in µs, over a simulation without noise.
fn probed(slow: &[(u32, u32)], shape: Shape, groups: &[&[u32]]) -> Vec<f64> {
    let collective = (ALL[1].build)(Shares::default());
    let mut sim = Sim::new(Law { noise: 0.0, ..Law::new(4, 7) }, &[]).with_slow(slow, 50);
    let load = Load { bytes: 4 << 20, batch: 1, operations: 1 };
    sim.allocate(load.bytes, 0).unwrap();
    let progress = Progress::default();
    let settings = settings(0, Blocking::None, false);
    let mut bench = Bench::new(&mut sim, &Solo, &progress, &*collective, settings);
    let groups = groups.iter().map(|group| group.to_vec()).collect();
    bench.probe(&Test { shape, size: Size::Large, groups }, load).unwrap().unwrap()
}

#[test]
fn a_slow_link_slows_its_own_messages_only() {
    // 8 us and 4 MiB at 100 GB/s; calls, the wait and the start take up to 6 more.
    let (healthy, slow) = (50.0..56.0, 92.0..98.0);
    let near = |times: &[f64], expected: &[bool]| {
        for (time, is_slow) in times.iter().zip(expected) {
            assert!(if *is_slow { &slow } else { &healthy }.contains(time), "{times:?}");
        }
    };
    near(&probed(&[(2, 3)], Shape::OneWay, &[&[0, 1], &[2, 3]]), &[false, true]);
    near(&probed(&[(2, 3)], Shape::OneWay, &[&[0, 1], &[3, 2]]), &[false, false]);
    near(&probed(&[(2, 3)], Shape::Ring, &[&[3, 1, 2]]), &[true]);
    near(&probed(&[(2, 3)], Shape::Ring, &[&[0, 2, 1, 3]]), &[false]);
}

#[test]
fn a_late_rank_is_late_in_tests_too_where_it_takes_part() {
    let collective = (ALL[1].build)(Shares::default());
    let mut sim = Sim::new(Law { noise: 0.0, ..Law::new(4, 7) }, &[]);
    sim.allocate(8, 0).unwrap();
    let progress = Progress::default();
    let mut bench = Bench::new(&mut sim, &Solo, &progress, &*collective, settings(0, Blocking::None, false));
    bench.delay = Some(Delay { local: 2, ns: 200_000 });
    let load = Load { bytes: 8, batch: 1, operations: 16 };
    let mut times = |groups: &[&[u32]]| {
        let groups = groups.iter().map(|group| group.to_vec()).collect();
        bench.probe(&Test { shape: Shape::Ring, size: Size::Small, groups }, load).unwrap().unwrap()
    };
    let both = times(&[&[0, 1], &[2, 3]]);
    assert!(both[0] < 20.0 && (205.0..220.0).contains(&both[1]), "{both:?}");
    let alone = times(&[&[0, 1]]);
    assert!(alone[0] < 20.0, "{alone:?}");
}

#[test]
fn a_slow_link_slows_collectives_whose_ring_goes_over_it() {
    let time = |slow: &[(u32, u32)]| {
        let collective = (ALL[1].build)(Shares::default());
        let mut sim = Sim::new(Law { noise: 0.0, ..Law::new(4, 7) }, &[]).with_slow(slow, 50);
        let settings = Settings { max_bytes: 4 << 20, ..settings(0, Blocking::Wait, false) };
        sim.allocate(settings.max_bytes, 0).unwrap();
        let progress = Progress::default();
        let mut bench = Bench::new(&mut sim, &Solo, &progress, &*collective, settings);
        let op = collective.traits().reduces.then_some(RedOp::Sum);
        let target = Target { bytes: 4 << 20, dtype: Dtype::Float, op, root: 0 };
        bench.placement(&target, Placement::OutOfPlace).unwrap().0[0].total_us
    };
    let (healthy, slow) = (time(&[]), time(&[(1, 2)]));
    let wire_us = 1.5 * f64::from(4 << 20) / 100e3;
    assert!((slow - healthy - wire_us).abs() < 0.1, "{healthy} {slow}");
    assert!((time(&[(1, 3)]) - healthy).abs() < 0.1);
}

#[test]
fn arrivals_are_known_only_where_ranks_meet() {
    for (blocking, per_iteration, known) in [
        (Blocking::None, true, 0),
        (Blocking::Wait, true, 0),
        (Blocking::WaitAndBarrier, true, 3),
        (Blocking::WaitThenBarrier, true, 3),
        (Blocking::WaitThenBarrier, false, 0),
    ] {
        let run = Run { settings: settings(0, blocking, per_iteration), ..base("all_reduce", 2) };
        let (_, samples, _) = run.go(Placement::OutOfPlace);
        assert!(samples.iter().all(|sample| sample.series.arrival_us.len() == known), "{blocking:?}");
    }
}

#[test]
fn overhead_comes_in_pairs_and_leaves_the_loop_as_it_was() {
    let collective = (ALL[1].build)(Shares::default());
    let mut sim = Sim::new(Law { noise: 0.0, ..Law::new(2, 7) }, &[]);
    let settings = settings(0, Blocking::None, true);
    sim.allocate(settings.max_bytes, settings.marks()).unwrap();
    let progress = Progress::default();
    let mut bench = Bench::new(&mut sim, &Solo, &progress, &*collective, settings);
    let op = collective.traits().reduces.then_some(RedOp::Sum);
    let target = Target { bytes: 4096, dtype: Dtype::Float, op, root: 0 };
    let pairs = bench.overhead(&target, 5).unwrap();
    assert_eq!(pairs.len(), 5);
    assert!(pairs.iter().flatten().all(|us| (5.0..20.0).contains(us)), "{pairs:?}");
    assert!(bench.settings.per_iteration);
}

#[test]
fn a_new_communicator_measures_and_checks_as_the_first() {
    let collective = (ALL.iter().find(|entry| entry.name == "all_gather").unwrap().build)(Shares::default());
    let lost = [Inject::Corrupt { rank: 1, how: Corruption::Lost }];
    for (inject, wrong) in [(&[][..], false), (&lost[..], true)] {
        let mut sim = Sim::new(Law::new(3, 7), inject);
        let settings = settings(1, Blocking::None, true);
        sim.allocate(settings.max_bytes + 64, settings.marks()).unwrap();
        let progress = Progress::default();
        let mut bench = Bench::new(&mut sim, &Solo, &progress, &*collective, settings);
        let target = Target { bytes: 3072, dtype: Dtype::Float, op: None, root: 0 };
        let mut times = Vec::new();
        for epoch in 0..3 {
            let (samples, checked) = bench.placement(&target, Placement::OutOfPlace).unwrap();
            let found = checked.wrong.is_some_and(|count| count > 0);
            assert_eq!((found, samples.len()), (wrong, 3), "epoch {epoch}");
            times.push(samples[0].series.interval_us.clone());
            bench.backend.disconnect().unwrap();
            bench.backend.reconnect(&[]).unwrap();
        }
        // The first `reconnect` starts the seed again, as a run with several epochs does at its start.
        assert_eq!(times[0], times[1]);
        assert_ne!(times[1], times[2], "each has its own noise");
    }
}
