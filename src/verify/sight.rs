//! What a check of a pattern can see, and where it must not claim anything.

use super::forms::{fp8_average, largest_average, spec};
use super::spec::Kind;
use super::{Arithmetic, Pattern};
use crate::vocab::{Dtype, RedOp};

/// How much a check can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Losing or doubling one rank's contribution is certain to show (a doubled maximum or minimum is no fault).
    Full {
        /// From this many consecutive elements on.
        cover_elems: u64,
    },
    /// That shows, something else does not.
    Weak {
        /// From this many consecutive elements on.
        cover_elems: u64,
        /// What does not show, as a sentence for the user.
        reason: &'static str,
    },
    /// Nothing shows: the row is waived, its number of wrong elements says nothing.
    Blind {
        /// Why, as a sentence for the user.
        reason: &'static str,
    },
    /// The library does not run it.
    Refused {
        /// Why, as a sentence for the user.
        reason: &'static str,
    },
}

/// Classifies `pattern`.
pub(super) fn sight(pattern: &Pattern) -> Sight {
    let Pattern { dtype, op, ranks, arithmetic, .. } = *pattern;
    if ranks == 0 || ranks > Pattern::MAX_RANKS {
        return Sight::Refused { reason: "The check covers 1 to 65536 ranks." };
    }
    match op {
        Some(RedOp::Avg | RedOp::MulSum) if dtype.is_fp8() && ranks == 1 => {
            Sight::Refused { reason: "NCCL has no FP8 average or scaled sum of a single rank." }
        }
        Some(RedOp::MulSum) if arithmetic == Arithmetic::Narrow && dtype.bytes() == 1 => {
            Sight::Refused { reason: "Scaled sums of 8-bit types need a library that wraps around." }
        }
        Some(RedOp::Avg) if dtype.is_fp8() => fp8_sight(pattern),
        Some(RedOp::Avg) if !dtype.is_float() => match largest_average(dtype, ranks) {
            0 => Sight::Blind { reason: "More ranks than the type's largest value: every average is 0." },
            1 => Sight::Weak {
                cover_elems: cover(pattern),
                reason: "Only 1 is possible as an average, so a shifted or old result is not seen.",
            },
            _ => Sight::Full { cover_elems: cover(pattern) },
        },
        _ => Sight::Full { cover_elems: cover(pattern) },
    }
}

/// Elements within which every rank has contributed something that shows.
fn cover(pattern: &Pattern) -> u64 {
    let spec = spec(pattern);
    let (n, stride) = (u64::from(spec.ranks), u64::from(spec.stride));
    match spec.kind {
        kind if kind == Kind::Extreme as u32 => n,
        kind if kind == Kind::Bounded as u32 || kind == Kind::Average as u32 => {
            // Windows of `stride` ranks touch or, where they wander, overlap by one once a lap.
            if stride >= n {
                1
            } else if spec.wander == 0 {
                n.div_ceil(stride)
            } else {
                (n + 1).div_ceil(stride) + 1
            }
        }
        _ => 1,
    }
}

/// An 8-bit float average may round to 0, or to the same pattern with and without a rank.
fn fp8_sight(pattern: &Pattern) -> Sight {
    let Pattern { dtype, ranks, .. } = *pattern;
    let fractions = if dtype == Dtype::F8e4m3 { 8 } else { 4 };
    let contributors = ranks.min(2);
    let legal = |fraction| fp8_average(dtype, ranks, fraction, contributors);
    if (0..fractions).any(|fraction| legal(fraction).0 == 0) {
        return Sight::Blind { reason: "1 divided by the ranks is 0 in this type, and so is every average." };
    }
    let hides = |fraction| {
        let (a, b) = legal(fraction);
        [contributors - 1, contributors + 1].into_iter().any(|faulty| {
            let (x, y) = fp8_average(dtype, ranks, fraction, faulty);
            [x, y].into_iter().any(|got| got == a || got == b)
        })
    };
    let cover_elems = cover(pattern);
    if (0..fractions).any(hides) {
        Sight::Weak {
            cover_elems,
            reason: "Averages this small round alike with and without a rank, for some values.",
        }
    } else {
        Sight::Full { cover_elems }
    }
}
