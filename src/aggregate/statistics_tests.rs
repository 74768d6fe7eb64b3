//! Cases are kept apart, and runs without a cause name none.
#![expect(clippy::print_stdout, reason = "docs/METHODOLOGY.md quotes it")]

use super::*;
use crate::aggregate::testing::{how, row};
use crate::aggregate::{Critical, Mode, Observer, RankSample, Series, Verdict};
use crate::stats::State;
use crate::stats::testing::Noise;

fn sample(rank: u32, total_us: f64, interval_us: Vec<f64>) -> RankSample {
    RankSample {
        rank,
        total_us,
        cpu_us: 0.0,
        series: Series { interval_us, ..Series::default() },
        tally: None,
    }
}

fn of(rows: &[Row]) -> Vec<Statistics> {
    let mut statistician = Statistician::default();
    for row in rows {
        statistician.push(row);
    }
    statistician.statistics()
}

#[test]
fn one_cycle_without_iterations_tells_nothing() {
    assert!(of(&[row(8, 0, &[sample(0, 5.0, vec![])], how(false, 0))]).is_empty());
    assert!(of(&[row(0, 0, &[sample(0, 5.0, vec![1.0; 9])], how(true, 0))]).is_empty(), "no bytes");
}

#[test]
fn the_time_of_a_cycle_is_the_median_of_the_maxima() {
    let ranks = [sample(0, 9.0, vec![90.0, 1.0, 5.0, 3.0]), sample(1, 8.0, vec![1.0, 2.0, 4.0, 7.0])];
    let found = of(&[row(8, 0, &ranks, how(true, 1))]);
    assert_eq!(found.len(), 2, "both placements");
    assert_eq!((found[0].basis, found[0].over.median_us), (Basis::MedianIteration, 5.0));
    assert_eq!(found[0].each[0].iterations.as_ref().unwrap().samples, 3);
    let found = of(&[row(8, 0, &ranks, how(false, 0)), row(8, 1, &ranks, how(false, 0))]);
    assert_eq!((found[0].basis, found[0].over.median_us), (Basis::MeanOperation, 9.0), "of the longest rank");
    assert_eq!((found[0].over.cycles, found[0].over.state), (2, Some(State::Stable)));
}

#[test]
fn without_iterations_blocks_are_the_samples() {
    let mut ranks = [sample(0, 40.0, vec![]), sample(1, 50.0, vec![])];
    ranks[0].series.blocks_us = vec![10.0, 12.0, 100.0];
    ranks[1].series.blocks_us = vec![11.0, 9.0, 130.0];
    let found = of(&[row(8, 0, &ranks, how(false, 0))]);
    assert_eq!((found[0].basis, found[0].over.median_us), (Basis::MedianBlock, 12.0));
    assert_eq!(found[0].each[0].iterations.as_ref().map(|of| of.max_us), Some(130.0));
}

#[test]
fn cases_are_kept_apart_and_in_order() {
    let ranks = |us| [sample(0, us, vec![])];
    let rows: Vec<Row> = (0..3)
        .flat_map(|cycle| {
            [(16, 2.0), (8, 1.0)].map(|(bytes, us)| row(bytes, cycle, &ranks(us), how(false, 0)))
        })
        .collect();
    let found = of(&rows);
    let sizes: Vec<_> = found.iter().map(|s| (s.size_bytes, s.placement, s.over.median_us)).collect();
    let (out, inside) = (Placement::OutOfPlace, Placement::InPlace);
    assert_eq!(sizes, [(16, out, 2.0), (16, inside, 2.0), (8, out, 1.0), (8, inside, 1.0)]);
}

#[test]
fn an_endless_run_keeps_its_last_cycles() {
    let rows: Vec<Row> =
        (0..KEPT as u64 + 5).map(|c| row(8, c, &[sample(0, 1.0, vec![])], how(false, 0))).collect();
    let found = of(&rows);
    assert_eq!((found[0].over.cycles, found[0].each[0].cycle), (KEPT, 5));
}

#[test]
fn cycles_of_an_epoch_are_kept_together() {
    let rows: Vec<Row> = (0..6)
        .flat_map(|epoch| (0..2).map(move |cycle| (epoch, cycle)))
        .map(|(epoch, cycle)| {
            let time = 100.0 + epoch as f64 + 0.1 * cycle as f64;
            Row { epoch, ..row(8, cycle, &[sample(0, time, vec![])], how(false, 0)) }
        })
        .collect();
    let found = of(&rows).remove(0);
    let epochs = found.over.epochs.unwrap();
    assert_eq!((epochs.epochs, found.over.cycles, found.each.len()), (6, 12, 12));
    assert_eq!((found.each[3].epoch, found.each[3].cycle), (1, 1));
    assert!((found.over.median_us - 102.55).abs() < 1e-9, "the median of medians: {found:?}");
    assert!((found.over.interval.unwrap().lower_us - 100.05).abs() < 1e-9, "an epoch's median is its end");
}

#[test]
fn an_unstable_case_tells_times_only() {
    let series = |level: f64| (0..8).map(|at| level + f64::from(at)).collect();
    let level = |cycle: u64| if cycle.is_multiple_of(2) { 100.0 } else { 150.0 };
    let rows: Vec<Row> =
        (0..6).map(|cycle| row(8, cycle, &[sample(0, 1.0, series(level(cycle)))], how(true, 0))).collect();
    let found = of(&rows);
    let text = serde_json::to_string(&found).unwrap();
    assert!(text.contains("\"unstable\"") && !text.contains("_pct"), "{text}");
    let back: Vec<Statistics> = serde_json::from_str(&text).unwrap();
    assert_eq!(back, found);
}

/// A sweep of 30 sizes in 7 cycles over 4 ranks without any cause: cycles differ by 2 %, ranks by 0.5 %.
fn sweep(noise: &mut Noise, drift_pct: f64) -> (Vec<Statistics>, Critical) {
    let mode = Mode { ranks: 4, groups: 1, skip: 0, blocking: 3, synchronising: true };
    let (mut statistician, mut observer) = (Statistician::default(), Observer::new(mode));
    for cycle in 0..7 {
        for size in 0..30 {
            let drifted = 1.0 + drift_pct / 100.0 * cycle as f64 / 6.0;
            let level = 20.0 * 1.4_f64.powi(size) * drifted * (1.0 + 0.02 * noise.normal());
            let mut rank = |rank| {
                let time = level * (1.0 + 0.005 * noise.normal());
                let mut sample = sample(rank, time, vec![]);
                sample.series.event_us = vec![time];
                sample
            };
            let ranks = [0, 1, 2, 3].map(&mut rank);
            let row = row(8 << size, cycle, &ranks, how(false, 0));
            statistician.push(&row);
            observer.push(&row);
        }
    }
    (statistician.statistics(), observer.verdict())
}

#[test]
fn runs_without_a_cause_name_none() {
    let mut noise = Noise::new(2026);
    let (mut drifted, mut named, mut unstable, mut any) = (0, 0, 0, 0);
    for _ in 0..1000 {
        let (all, critical) = sweep(&mut noise, 0.0);
        let found = [
            !drifting(&all).is_empty(),
            [Some(&critical.longest), critical.last_to_arrive.as_ref()]
                .into_iter()
                .flatten()
                .any(|verdict| matches!(verdict, Verdict::Named { .. })),
            all.iter().any(|of| of.over.state == Some(State::Unstable)),
        ];
        drifted += usize::from(found[0]);
        named += usize::from(found[1]);
        unstable += usize::from(found[2]);
        any += usize::from(found.contains(&true));
    }
    println!(
        "of 1000 sweeps: {drifted} with a drift, {named} name a rank, {unstable} unstable; {any} with any"
    );
    assert!(any <= 50);
}

#[test]
fn a_drift_is_found() {
    let mut noise = Noise::new(7);
    let found = (0..20).filter(|_| !drifting(&sweep(&mut noise, 12.0).0).is_empty()).count();
    assert!(found >= 15, "{found} of 20 with 12 % over 7 cycles of 2 % noise");
}
