//! The rule ends where it should, and the interval that it ends with covers the true median.
#![expect(clippy::print_stdout, reason = "docs/METHODOLOGY.md quotes it")]

use super::*;
use crate::stats::quantile::median;
use crate::stats::testing::Noise;

const RULE: Rule = Rule { precision: Some(0.01), budget_s: 1e9, least: 20, batch: 10, most: 10_000 };

fn constant(rule: Rule, batch: usize) -> (usize, Stop) {
    let mut stopping = Stopping::new(rule);
    (1..).find_map(|push| Some((push, stopping.push(&vec![5.0; batch], push as f64)?))).unwrap()
}

#[test]
fn without_noise_two_looks_suffice() {
    let (pushes, stop) = constant(RULE, 10);
    assert_eq!((pushes, stop.reason, stop.samples), (2, Reason::Converged, 20));
    assert_eq!(constant(Rule { least: 72, ..RULE }, 10).0, 8, "not before the least number");
    assert_eq!(constant(RULE, 1).1.samples, 20, "single samples wait for their batch");
    assert_eq!(constant(RULE, 50).1.samples, 100, "a large batch is one look");
}

#[test]
fn time_and_room_end_any_series() {
    let (pushes, stop) = constant(Rule { precision: None, budget_s: 7.0, ..RULE }, 10);
    assert_eq!((pushes, stop.reason, stop.samples), (7, Reason::Budget, 70));
    let (_, stop) = constant(Rule { precision: None, most: 95, ..RULE }, 10);
    assert_eq!((stop.reason, stop.samples), (Reason::MostSamples, 100));
    let (_, stop) = constant(Rule { budget_s: 0.0, ..RULE }, 1);
    assert_eq!((stop.reason, stop.samples, stop.interval), (Reason::Budget, 1, None));
}

#[test]
fn noise_that_grows_with_time_is_a_floor() {
    let mut noise = Noise::new(3);
    let mut stopping = Stopping::new(RULE);
    let stop = (0..1000_u32)
        .find_map(|batch| {
            let level = 100.0 + f64::from(batch);
            stopping.push(&(0..10).map(|_| level + 20.0 * noise.normal()).collect::<Vec<_>>(), 0.0)
        })
        .unwrap();
    assert_eq!(stop.reason, Reason::NoiseFloor);
    assert!(stop.samples >= FLOOR_FROM);
}

/// Of 1000 runs: how many end with an interval that covers the true median, how many each reason ended, and samples.
fn covered(rho: f64) -> (usize, usize, f64) {
    let truth = median(&Noise::new(99).times_us(1_000_000, &mut 0.0, 0.0)).unwrap();
    let (mut covered, mut converged, mut samples) = (0, 0, 0);
    for seed in 0..1000 {
        let mut noise = Noise::new(1000 + seed);
        let mut last = noise.normal();
        let mut stopping = Stopping::new(Rule { most: 4000, ..RULE });
        let stop = std::iter::repeat(())
            .find_map(|()| stopping.push(&noise.times_us(10, &mut last, rho), 0.0))
            .unwrap();
        let inside = |i: Interval| i.lower_us <= truth && truth <= i.upper_us;
        covered += usize::from(stop.interval.is_some_and(inside));
        converged += usize::from(stop.reason == Reason::Converged);
        samples += stop.samples;
    }
    (covered, converged, samples as f64 / 1000.0)
}

#[test]
fn the_interval_covers_the_true_median() {
    let (inside, converged, samples) = covered(0.0);
    println!("independent: {inside} of 1000 cover, {converged} converged, {samples} samples");
    assert!(inside >= 930 && converged >= 950);
    let (inside, converged, samples) = covered(0.5);
    println!("autocorrelation 0.5: {inside} of 1000 cover, {converged} converged, {samples} samples");
    assert!(inside >= 900 && converged >= 900);
}
