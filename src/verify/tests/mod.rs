//! Every type, reduction and number of ranks: the closed forms against brute force, and every fault that shows.
//! `CRITRANK_LONG=1` tries more elements and ranks.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod buffers;
mod faults;
mod forms;
mod model;
mod naming;

use super::{Arithmetic, Pattern, Sight};
use crate::vocab::{Dtype, RedOp};

const RANKS: [u32; 18] = [1, 2, 3, 4, 5, 8, 16, 64, 100, 127, 128, 255, 256, 512, 1000, 1024, 4096, 65_536];

fn long() -> bool {
    std::env::var_os("CRITRANK_LONG").is_some()
}

/// A number that differs from call to call in a fixed way.
fn scatter(seed: u64) -> u64 {
    super::spec::mix(seed, 17, 4) >> 30
}

fn pattern(dtype: Dtype, op: RedOp, ranks: u32, repetition: u64) -> Pattern {
    Pattern { dtype, op: Some(op), ranks, repetition, arithmetic: Arithmetic::Wrapping }
}

/// Every pattern that a library runs, for the given numbers of ranks; 8-bit sums also in narrow arithmetic.
fn patterns(ranks: &[u32], repetition: u64) -> Vec<Pattern> {
    let mut all = Vec::new();
    for &n in ranks {
        for dtype in Dtype::ALL {
            for op in RedOp::ALL {
                all.push(pattern(dtype, op, n, repetition));
            }
        }
        for dtype in [Dtype::Int8, Dtype::Uint8] {
            all.push(Pattern { arithmetic: Arithmetic::Narrow, ..pattern(dtype, RedOp::Sum, n, repetition) });
        }
    }
    all.retain(|pattern| !matches!(pattern.sight(), Sight::Refused { .. }));
    all
}

/// Elements from which loss shows; none where the row is waived.
fn cover(pattern: &Pattern) -> Option<u64> {
    match pattern.sight() {
        Sight::Full { cover_elems } | Sight::Weak { cover_elems, .. } => Some(cover_elems),
        _ => None,
    }
}
