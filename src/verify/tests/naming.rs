//! The fault that was made is among the causes named, and mostly the only one.

use super::super::{Cause, Pattern, Sight, check, collect_bad, diagnose};
use super::buffers::{filled, run};
use super::model::{Order, column, reduce};
use super::patterns;
use crate::vocab::{Dtype, RedOp, What};

const COUNT: u64 = 512;

/// A result of which every element is what `reduce` makes of the inputs that `change` leaves.
fn computed(pattern: &Pattern, change: impl Fn(&mut Vec<(u32, u64)>)) -> Vec<u8> {
    let spec = pattern.spec();
    let bytes = pattern.dtype.bytes() as usize;
    let element = |index| {
        let mut inputs: Vec<(u32, u64)> = (0..).zip(column(&spec, index)).collect();
        change(&mut inputs);
        reduce(pattern, Order::Ring, &inputs, false)
    };
    (0..COUNT).flat_map(|index| element(index).to_le_bytes()[..bytes].to_vec()).collect()
}

fn named(pattern: &Pattern, buffer: &[u8], what: What) -> Vec<Cause> {
    let row = run(COUNT, what);
    assert!(check(buffer, &pattern.spec(), &row).wrong_a > 0, "{pattern:?}");
    let bad = collect_bad(buffer, &pattern.spec(), &row, false, 64);
    diagnose(pattern, &bad, false).causes
}

#[test]
fn reductions() {
    let mut sole = 0;
    let mut asked = 0;
    for pattern in patterns(&[5, 8, 64], 6) {
        let Sight::Full { .. } = pattern.sight() else { continue };
        let what = What::Reduced { first: 0 };
        let good = filled(&pattern, &run(COUNT, what), false);
        let victim = pattern.ranks / 2;
        let mut faults = vec![(
            Cause::Lost(victim),
            computed(&pattern, |inputs| inputs.retain(|input| input.0 != victim)),
        )];
        if !matches!(pattern.op, Some(RedOp::Max | RedOp::Min)) {
            let doubled = computed(&pattern, |inputs| inputs.push(inputs[victim as usize]));
            faults.push((Cause::Doubled(victim), doubled));
        }
        faults.push((Cause::NeverWritten, filled(&pattern, &run(COUNT, what), true)));
        faults
            .push((Cause::Stale(1), filled(&Pattern { repetition: 5, ..pattern }, &run(COUNT, what), false)));
        faults.push((Cause::Shifted(16), filled(&pattern, &run(COUNT, What::Reduced { first: 16 }), false)));
        let mut flipped = good.clone();
        flipped[40] ^= 2;
        faults.push((Cause::Flipped, flipped));
        for (made, buffer) in faults {
            let causes = named(&pattern, &buffer, what);
            // Beyond the significand a double count rounds in an order of its own.
            let rounds = matches!(made, Cause::Doubled(_)) && pattern.dtype.is_float();
            assert!(rounds || causes.contains(&made), "{pattern:?} {made}: {causes:?}");
            asked += u32::from(made != Cause::Flipped);
            sole += u32::from(made != Cause::Flipped && causes == [made]);
        }
    }
    assert!(sole * 10 > asked * 8, "{sole} of {asked} named alone");
}

#[test]
fn copies() {
    let pattern = Pattern { op: None, ..super::pattern(Dtype::Bfloat16, RedOp::Sum, 64, 6) };
    let what = What::stream(9, 128);
    let of = |pattern: &Pattern, what| filled(pattern, &run(COUNT, what), false);
    assert_eq!(named(&pattern, &of(&pattern, What::stream(11, 128)), what), [Cause::Block(11)]);
    assert_eq!(named(&pattern, &of(&pattern, What::stream(9, 120)), what), [Cause::Shifted(-8)]);
    assert_eq!(named(&pattern, &of(&Pattern { repetition: 4, ..pattern }, what), what), [Cause::Stale(2)]);
    assert_eq!(named(&pattern, &filled(&pattern, &run(COUNT, what), true), what), [Cause::NeverWritten]);
    assert!(named(&pattern, &vec![0; 1024], what).is_empty());
}

#[test]
fn phrases_avoid_the_words_that_parsers_look_for() {
    let causes = [Cause::NeverWritten, Cause::Stale(1), Cause::Stale(3), Cause::Lost(3), Cause::Doubled(4)];
    let causes = causes.into_iter().chain([Cause::Block(5), Cause::Shifted(-4), Cause::Flipped]);
    for phrase in causes.map(|cause| cause.to_string()) {
        for word in [" on ", "bandwidth", "FAILED", "Test failure", "Avg bus"] {
            assert!(!phrase.contains(word), "{phrase}");
        }
    }
    assert_eq!(Cause::Lost(3).to_string(), "contribution of rank 3 missing");
}
