//! Faults show from as few elements as `Sight` says.

use super::super::spec::Kind;
use super::super::{Pattern, Sight, Spec, expected_bits, input_bits};
use super::model::{ORDERS, column, reduce};
use super::{RANKS, cover, long, patterns, scatter};
use crate::vocab::RedOp;

/// Ranks to try: all of few, else some at both ends and between.
fn some_ranks(n: u32) -> Vec<u32> {
    if n <= 8 || (long() && n <= 128) {
        return (0..n).collect();
    }
    let mut ranks = vec![0, 1, n / 2, n - 1, scatter(u64::from(n)) as u32 % n];
    ranks.dedup();
    ranks
}

fn is_extreme(pattern: &Pattern) -> bool {
    matches!(pattern.op, Some(RedOp::Max | RedOp::Min))
}

/// Whether a rank's contribution matters at an element at all: cheap, and decides where brute force is worth it.
fn matters(pattern: &Pattern, spec: &Spec, rank: u32, index: u64) -> bool {
    let x = input_bits(spec, rank, index);
    if is_extreme(pattern) { x == expected_bits(spec, index).0 } else { x != 0 }
}

/// Whether the row of `indices` differs from both legal patterns when a library computes `inputs(index)`.
fn shows(pattern: &Pattern, spec: &Spec, indices: &[u64], inputs: impl Fn(u64) -> Vec<(u32, u64)>) -> bool {
    let orders = if pattern.ranks > 300 { &ORDERS[..1] } else { &ORDERS };
    let is_average = pattern.op == Some(RedOp::Avg) && pattern.dtype.is_float();
    orders.iter().all(|order| {
        [false, is_average].into_iter().all(|late| {
            let differs = |b: bool| {
                indices.iter().any(|&index| {
                    let legal = expected_bits(spec, index);
                    let faulty = inputs(index);
                    // A lost contribution of a single rank leaves nothing to reduce: the pre-filled buffer.
                    !faulty.is_empty()
                        && reduce(pattern, *order, &faulty, late) != if b { legal.1 } else { legal.0 }
                })
            };
            differs(false) && differs(true)
        })
    })
}

#[test]
fn lost_and_doubled_contributions_show_within_the_cover() {
    for pattern in patterns(&RANKS, 2).into_iter().filter(|pattern| pattern.ranks > 1) {
        let Some(cover) = cover(&pattern) else { continue };
        let strict = matches!(pattern.sight(), Sight::Full { .. }) || !pattern.dtype.is_float();
        let spec = pattern.spec();
        for rank in some_ranks(pattern.ranks) {
            let base = scatter(u64::from(rank) + 99);
            let hit = (base..base + cover).find(|index| matters(&pattern, &spec, rank, *index));
            let hit = hit.unwrap_or_else(|| panic!("{pattern:?}: rank {rank} never matters within {cover}"));
            let all = |index| (0..).zip(column(&spec, index)).collect::<Vec<(u32, u64)>>();
            let lost = |index| all(index).into_iter().filter(|(other, _)| *other != rank).collect();
            let doubled = |index| {
                let mut inputs = all(index);
                inputs.push(inputs[rank as usize]);
                inputs
            };
            assert!(
                !strict || shows(&pattern, &spec, &[hit], lost),
                "{pattern:?}: lost rank {rank} at {hit}"
            );
            if is_extreme(&pattern) {
                assert!(!shows(&pattern, &spec, &[hit], doubled), "a doubled extreme is no fault");
            } else {
                assert!(
                    !strict || shows(&pattern, &spec, &[hit], doubled),
                    "{pattern:?}: doubled {rank} at {hit}"
                );
            }
        }
    }
}

#[test]
fn short_messages_meet_every_rank_in_as_many_repetitions() {
    for first in patterns(&[2, 5, 8, 64, 100, 512], 0) {
        let Some(cover) = cover(&first) else { continue };
        for rank in some_ranks(first.ranks) {
            let seen = (7..7 + cover).any(|repetition| {
                let pattern = Pattern { repetition, ..first };
                matters(&pattern, &pattern.spec(), rank, 3)
            });
            assert!(seen, "{first:?}: rank {rank} not within {cover} repetitions of one element");
        }
    }
}

#[test]
fn a_stale_contribution_shows() {
    for repetition in [1, 4] {
        for pattern in patterns(&[2, 3, 4, 5, 8, 64, 129], repetition) {
            let Sight::Full { cover_elems } = pattern.sight() else { continue };
            let old = Pattern { repetition: repetition - 1, ..pattern }.spec();
            let spec = pattern.spec();
            // Where most ranks give the same on every call, it takes the element at which the rank leads.
            let sparse = matches!(pattern.op, Some(RedOp::Prod)) && pattern.dtype.is_float()
                || pattern.op == Some(RedOp::Avg) && pattern.dtype.bytes() == 1
                || is_extreme(&pattern);
            let within = match cover_elems {
                _ if sparse => 2 * u64::from(pattern.ranks) + 2 * cover_elems,
                1 => 1,
                some => some + 1,
            };
            // Anywhere, and from an element that the rank leads.
            let n = u64::from(pattern.ranks);
            let cases = some_ranks(pattern.ranks).into_iter().flat_map(|rank| {
                let anywhere = scatter(u64::from(rank) + repetition);
                [(rank, anywhere), (rank, anywhere / n * n + u64::from(rank))]
            });
            for (rank, base) in cases {
                let differs = |index: &u64| input_bits(&spec, rank, *index) != input_bits(&old, rank, *index);
                let hits: Vec<u64> = (base..base + within).filter(differs).collect();
                let inputs = |index| {
                    let mut inputs: Vec<(u32, u64)> = (0..).zip(column(&spec, index)).collect();
                    inputs[rank as usize].1 = input_bits(&old, rank, index);
                    inputs
                };
                assert!(
                    shows(&pattern, &spec, &hits, inputs),
                    "{pattern:?}: stale rank {rank} within {within}"
                );
            }
        }
    }
}

#[test]
fn a_stale_result_shows_at_every_element() {
    for repetition in [1, 2, 3, 4, 8, 64, 1001] {
        for pattern in patterns(&RANKS, repetition) {
            let Sight::Full { .. } = pattern.sight() else { continue };
            let (spec, old) = (pattern.spec(), Pattern { repetition: repetition - 1, ..pattern }.spec());
            for index in 0..40 {
                let ((a, b), (old_a, old_b)) = (expected_bits(&spec, index), expected_bits(&old, index));
                assert!(old_a != a && old_a != b && old_b != a && old_b != b, "{pattern:?} {index}");
            }
        }
    }
}

#[test]
fn older_and_shifted_results_show_within_a_few_elements() {
    for pattern in patterns(&RANKS, 9) {
        let Sight::Full { .. } = pattern.sight() else { continue };
        let spec = pattern.spec();
        let alike = |other: &Spec, by: u64| {
            (1000..1256)
                .filter(|index| expected_bits(other, index + by).0 == expected_bits(&spec, *index).0)
                .count()
        };
        for by in [1, 2, 3, 7, 16, 64, 100, 4096] {
            assert!(alike(&spec, by) < 176, "{pattern:?} shifted by {by}: {} of 256 alike", alike(&spec, by));
        }
        // Averages of 8-bit integers over so many ranks that only 1 and 2 are possible repeat every other call.
        let few = spec.kind == Kind::Bounded as u32 && spec.factor != 1 && spec.payload == 1;
        for ago in if few { vec![1, 3] } else { vec![2, 3] } {
            let old = Pattern { repetition: 9 - ago, ..pattern }.spec();
            assert!(alike(&old, 0) < 176, "{pattern:?} {ago} old: {} of 256 alike", alike(&old, 0));
        }
    }
}

#[test]
fn one_rank_counted_for_another_shows() {
    for pattern in patterns(&[2, 3, 4, 5, 8, 16, 33], 6) {
        let Sight::Full { cover_elems } = pattern.sight() else { continue };
        // Two ranks that are averaged as floats give the same value: nothing is wrong, nothing to find.
        let equal = pattern.op == Some(RedOp::Avg) && pattern.dtype.is_float() && pattern.ranks == 2;
        if is_extreme(&pattern) || equal {
            continue;
        }
        let spec = pattern.spec();
        let within = 3 * u64::from(pattern.ranks) + 4 * cover_elems + 8;
        for (absent, twice) in
            [(0, 1), (1, 0), (0, pattern.ranks - 1), (pattern.ranks / 2, pattern.ranks - 1)]
        {
            if absent == twice {
                continue;
            }
            let inputs = |index| {
                let mut inputs: Vec<(u32, u64)> = (0..).zip(column(&spec, index)).collect();
                // Its buffer is read with the right rank's scalar.
                inputs[absent as usize] = inputs[twice as usize];
                inputs
            };
            let indices: Vec<u64> = (50..50 + within).collect();
            assert!(shows(&pattern, &spec, &indices, inputs), "{pattern:?}: {twice} for {absent}");
        }
    }
}

#[test]
fn a_scalar_left_out_shows() {
    let scaled_sum = |pattern: &Pattern| pattern.op == Some(RedOp::MulSum);
    for pattern in patterns(&[2, 3, 5, 64, 300], 3).into_iter().filter(scaled_sum) {
        let spec = pattern.spec();
        // In odd repetitions the even ranks have the scalar; a neighbour's is 1.
        for rank in (0..pattern.ranks).step_by(2).take(4) {
            assert_ne!(pattern.scalar(rank), pattern.scalar(rank + 1));
            let index = (0..2000).find(|index| matters(&pattern, &spec, rank, *index)).unwrap();
            let mut inputs: Vec<(u32, u64)> = (0..).zip(column(&spec, index)).collect();
            inputs[rank as usize].0 = rank + 1;
            for order in ORDERS {
                let got = reduce(&pattern, order, &inputs, false);
                assert_ne!(got, expected_bits(&spec, index).0, "{pattern:?} rank {rank}");
            }
        }
    }
}
