//! Rows are below, reach what is expected, or cannot be told: never a percentage of what is unstable.

use proptest::prelude::*;

use super::*;
use crate::aggregate::testing::{how, row};
use crate::aggregate::{RankSample, Series};
use crate::stats::testing::Noise;

/// A case in both placements; busbw is 8 bytes over the time.
fn speeds(epochs: &[&[f64]]) -> Speeds {
    let mut speeds = Speeds::default();
    push(&mut speeds, 8, epochs);
    speeds
}

fn push(speeds: &mut Speeds, bytes: u64, epochs: &[&[f64]]) {
    for (epoch, times) in (0..).zip(epochs) {
        for (cycle, total_us) in (0..).zip(*times) {
            let series = Series::default();
            let sample = RankSample { rank: 0, total_us: *total_us, cpu_us: 0.0, series, tally: None };
            speeds.push(&Row { epoch, ..row(bytes, cycle, &[sample], how(false, 0)) });
        }
    }
}

fn first(expected: &Speeds, found: &Speeds) -> Compared {
    found.beside(|case| expected.side(case)).remove(0)
}

fn reason(compared: &Compared) -> &str {
    match &compared.standing {
        Standing::CannotTell { reason } => reason,
        told => panic!("{told:?}"),
    }
}

const STEADY: [f64; 7] = [100.0, 101.2, 99.4, 100.6, 102.1, 98.9, 100.3];

fn slower(by: f64) -> [f64; 7] {
    STEADY.map(|time| time * by)
}

#[test]
fn slower_is_below_and_as_fast_is_not() {
    let expected = speeds(&[&STEADY]);
    let below = first(&expected, &speeds(&[&slower(1.25)]));
    assert_eq!(below.standing, Standing::Below);
    let ratio = below.ratio.unwrap();
    assert!((ratio.ratio - 0.8).abs() < 1e-9 && ratio.low < 0.8 && 0.8 < ratio.high, "{ratio:?}");
    assert!(ratio.high < 0.83 && ratio.p < 0.002, "two cases, 0.00058 each: {ratio:?}");
    for by in [1.0, 0.5] {
        assert_eq!(first(&expected, &speeds(&[&slower(by)])).standing, Standing::Reaches, "{by}");
    }
    // Between the margin and what the interval leaves.
    let close = first(&expected, &speeds(&[&slower(1.03)]));
    assert_eq!(reason(&close), "the interval holds both");
}

#[test]
fn what_is_unstable_or_few_has_no_ratio() {
    let expected = speeds(&[&STEADY]);
    let unstable = speeds(&[&[100.0, 150.0, 100.0, 170.0, 100.0, 160.0, 130.0]]);
    for (old, new, words) in [
        (&expected, &unstable, "unstable in this run"),
        (&unstable, &expected, "unstable in the record"),
        (&unstable, &unstable, "unstable in the record and this run"),
        (&expected, &speeds(&[&STEADY[..3]]), "fewer than 4 cycles"),
        // Seven cycles of one epoch and of another are two units.
        (&expected, &speeds(&[&STEADY, &STEADY]), "in this run"),
    ] {
        let compared = first(old, new);
        assert!(reason(&compared).starts_with(words) || reason(&compared).contains(words), "{compared:?}");
        let text = serde_json::to_string(&compared).unwrap();
        assert!(!text.contains("ratio") && text.contains("cannot_tell"), "{text}");
        assert_eq!(serde_json::from_str::<Compared>(&text).unwrap(), compared);
    }
    let nothing = found_alone(&expected);
    assert_eq!((reason(&nothing), &nothing.expected), ("the record has no such row", &None));
}

fn found_alone(found: &Speeds) -> Compared {
    found.beside(|_| None).remove(0)
}

#[test]
fn epochs_that_differ_are_units_however_many_cycles_they_have() {
    let epochs = |by: f64| -> Vec<Vec<f64>> { STEADY.iter().map(|time| vec![time * by; 3]).collect() };
    let of = |epochs: &[Vec<f64>]| speeds(&epochs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let below = first(&of(&epochs(1.0)), &of(&epochs(1.25)));
    assert_eq!((below.found.units_gbps.len(), &below.standing), (7, &Standing::Below));
    let by_cycles = first(&speeds(&[&STEADY]), &speeds(&[&slower(1.25)]));
    assert_eq!(below.ratio, by_cycles.ratio, "an epoch's median is one value");
}

#[test]
fn wrong_data_and_nothing_cannot_be_told() {
    let mut found = speeds(&[&STEADY]);
    found.0[0].1.wrong = true;
    assert_eq!(reason(&first(&speeds(&[&STEADY]), &found)), "this run has wrong data");
    found.0[0].1.wrong = false;
    found.0[0].1.cycles[0].1 = 0.0;
    assert_eq!(reason(&first(&speeds(&[&STEADY]), &found)), "this run moved nothing");
}

#[test]
fn with_few_cycles_and_many_rows_chance_does_as_much() {
    let (mut expected, mut found) = (Speeds::default(), Speeds::default());
    for size in 3..33 {
        push(&mut expected, 1 << size, &[&STEADY[..4]]);
        push(&mut found, 1 << size, &[&slower(1.25)[..4]]);
    }
    let all = found.beside(|case| expected.side(case));
    assert_eq!(all.len(), 60);
    assert!(all.iter().all(|of| reason(of).starts_with("slower, but with so few cycles")), "{:?}", all[0]);
    assert!(all.iter().all(|of| of.ratio.unwrap().high < 0.9));
}

#[test]
fn runs_that_are_as_fast_are_rarely_below() {
    let mut noise = Noise::new(5);
    let mut sweep = |by: f64| {
        let mut speeds = Speeds::default();
        for size in 3..23 {
            let times: Vec<f64> = (0..7).map(|_| 100.0 * by * (0.02 * noise.normal()).exp()).collect();
            push(&mut speeds, 1 << size, &[&times]);
        }
        speeds
    };
    let (mut false_alarms, mut found) = (0, 0);
    for _ in 0..200 {
        let expected = sweep(1.0);
        let is_below = |new: &Speeds| {
            new.beside(|case| expected.side(case)).iter().any(|of| of.standing == Standing::Below)
        };
        false_alarms += u32::from(is_below(&sweep(1.0)));
        found += u32::from(is_below(&sweep(1.1)));
    }
    assert!(false_alarms <= 10, "{false_alarms} of 200 sweeps as fast");
    assert!(found >= 190, "{found} of 200 sweeps 10 % slower");
}

proptest! {
    #[test]
    fn a_verdict_follows_from_the_ratio_alone(
        old in prop::collection::vec(98.0_f64..102.0, 4..9),
        by in 0.7_f64..1.4,
    ) {
        let new: Vec<f64> = old.iter().rev().map(|time| time * by).collect();
        let compared = first(&speeds(&[&old]), &speeds(&[&new]));
        let ratio = compared.ratio.unwrap();
        prop_assert!(ratio.low <= ratio.ratio && ratio.ratio <= ratio.high);
        prop_assert!((ratio.ratio * by - 1.0).abs() < 0.05, "{ratio:?} {by}");
        match compared.standing {
            Standing::Below => prop_assert!(ratio.high < 1.0 / MARGIN && ratio.p < 0.05),
            Standing::Reaches => prop_assert!(ratio.low > 1.0 / MARGIN),
            Standing::CannotTell { .. } => prop_assert!(ratio.low <= 1.0 / MARGIN),
        }
    }
}
