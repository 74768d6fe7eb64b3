//! Fill and check of buffers against the closed forms, element by element.

use proptest::prelude::*;

use super::super::host::locate;
use super::super::{
    Arithmetic, Pattern, RunSpec, Tally, check, collect_bad, expected_bits, fill, input_bits,
};
use super::{pattern, patterns};
use crate::vocab::{Dtype, RedOp, Run, Side, Slot, What};

pub(super) fn run(count: u64, what: What) -> Run {
    Run { at: Slot { side: Side::Recv, offset: 5 }, count, what }
}

pub(super) fn filled(pattern: &Pattern, run: &Run, inverted: bool) -> Vec<u8> {
    let mut buffer = vec![0x55; (run.count * pattern.dtype.bytes()) as usize];
    fill(&mut buffer, &pattern.spec(), run, inverted);
    buffer
}

fn element(buffer: &[u8], bytes: u64, index: u64) -> u64 {
    let mut word = [0; 8];
    let (from, to) = ((index * bytes) as usize, ((index + 1) * bytes) as usize);
    word[..bytes as usize].copy_from_slice(&buffer[from..to]);
    u64::from_le_bytes(word)
}

proptest! {
    #[test]
    fn every_element_of_a_run_is_its_closed_form(
        dtype in proptest::sample::select(&Dtype::ALL[..]),
        op in proptest::sample::select(&RedOp::ALL[..]),
        ranks in 2_u32..2000,
        count in 0_u64..70,
        first in 0_u64..1 << 40,
        block in 1_u64..20,
        steps in (0_u32..5, 0_u64..50),
        kind in 0..3,
    ) {
        let what = match kind {
            0 => What::Input { rank: (first % u64::from(ranks)) as u32, first },
            1 => What::Reduced { first },
            _ => What::Copied { block, source: ranks / 2, source_step: steps.0, first, first_step: steps.1 },
        };
        let pattern = Pattern { op: (kind != 2).then_some(op), ..pattern(dtype, op, ranks, first % 11) };
        let (spec, run) = (pattern.spec(), run(count, what));
        let buffer = filled(&pattern, &run, false);
        for index in 0..count {
            let (rank, at) = locate(&RunSpec::from(&run), index);
            let expected = if kind == 1 { expected_bits(&spec, at).0 } else { input_bits(&spec, rank, at) };
            prop_assert_eq!(element(&buffer, dtype.bytes(), index), expected);
        }
        prop_assert_eq!(check(&buffer, &spec, &run).wrong_a, 0);
        let before = check(&filled(&pattern, &run, true), &spec, &run);
        prop_assert_eq!(before.wrong_a, count);
    }
}

#[test]
fn a_flipped_bit_is_one_wrong_element_at_its_place() {
    for pattern in patterns(&[1, 3, 64], 5) {
        let run = run(61, What::Reduced { first: 13 });
        let bits = 8 * pattern.dtype.bytes();
        for (index, bit) in [(0, 0), (7, bits - 1), (60, bits / 2), (33, 1)] {
            let mut buffer = filled(&pattern, &run, false);
            let at = index * bits + bit;
            buffer[(at / 8) as usize] ^= 1 << (at % 8);
            let tally = check(&buffer, &pattern.spec(), &run);
            assert_eq!(
                (tally.wrong_a, tally.first_a, tally.last_a),
                (1, index + 5, index + 5),
                "{pattern:?}"
            );
            let bad = collect_bad(&buffer, &pattern.spec(), &run, false, 64);
            assert_eq!((bad.len(), bad[0].index), (1, index));
            assert_eq!((bad[0].got ^ expected_bits(&pattern.spec(), 13 + index).0).count_ones(), 1);
        }
    }
}

#[test]
fn blocks_of_other_ranks_places_and_repetitions_differ() {
    for dtype in Dtype::ALL {
        let pattern = Pattern { dtype, op: None, ranks: 8, repetition: 3, arithmetic: Arithmetic::Wrapping };
        let right = run(256, What::stream(3, 100));
        let spec = pattern.spec();
        let wrong =
            |other: &Pattern, what| check(&filled(other, &run(256, what), false), &spec, &right).wrong();
        assert_eq!(wrong(&pattern, What::stream(3, 100)), 0);
        assert!(wrong(&pattern, What::stream(4, 100)) > 230, "swapped");
        assert!(wrong(&pattern, What::stream(3, 101)) > 230, "shifted");
        assert!(wrong(&Pattern { repetition: 2, ..pattern }, What::stream(3, 100)) > 230, "stale");
        assert_eq!(check(&[], &spec, &right).wrong(), 256, "nothing there");
    }
}

#[test]
fn a_row_follows_one_pattern_not_a_union() {
    let pattern = pattern(Dtype::Half, RedOp::Avg, 1000, 2);
    let (spec, row) = (pattern.spec(), run(256, What::Reduced { first: 0 }));
    let both: Vec<_> = (0..256).map(|index| expected_bits(&spec, index)).collect();
    let buffer = |pick: &dyn Fn(usize, (u64, u64)) -> u64| -> Vec<u8> {
        both.iter().enumerate().flat_map(|(index, pair)| (pick(index, *pair) as u16).to_le_bytes()).collect()
    };
    let (a, b) = (buffer(&|_, pair| pair.0), buffer(&|_, pair| pair.1));
    assert_eq!(check(&a, &spec, &row).wrong(), 0);
    let tally = check(&b, &spec, &row);
    assert_eq!(tally.wrong(), 0);
    assert!(tally.follows_b() && tally.span().is_none());
    let mixed = check(&buffer(&|index, pair| if index % 2 == 0 { pair.0 } else { pair.1 }), &spec, &row);
    assert!(mixed.wrong() > 20, "{mixed:?}");
    let mut merged = Tally::default();
    merged.merge(&check(&a, &spec, &row));
    merged.merge(&tally);
    assert_eq!(merged.wrong(), tally.wrong_a);
}
