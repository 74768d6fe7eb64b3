//! Reductions as NCCL performs them, one element at a time: the simulation's adder, independent of the closed
//! forms that check it.

use crate::verify::{Pattern, decode, encode, round};
use crate::vocab::{Dtype, RedOp};

/// What one rank contributes after the scaling that `avg` and `mulsum` do before they add.
pub(super) fn prepared(pattern: &Pattern, op: RedOp, rank: u32, bits: u64) -> u64 {
    let dtype = pattern.dtype;
    match op {
        RedOp::MulSum => {
            let scalar = u64::from_le_bytes(pattern.scalar(rank));
            combined(dtype, RedOp::Prod, bits, scalar)
        }
        RedOp::Avg if dtype.is_float() => {
            let scalar = round_to(dtype, 1.0 / f64::from(pattern.ranks));
            encode(dtype, through_half(dtype, decode(dtype, bits) * scalar))
        }
        RedOp::Sum | RedOp::Prod | RedOp::Max | RedOp::Min | RedOp::Avg => bits,
    }
}

/// What `avg` does to integers after it has added.
pub(super) fn finished(pattern: &Pattern, op: RedOp, bits: u64) -> u64 {
    let dtype = pattern.dtype;
    if op != RedOp::Avg || dtype.is_float() {
        return bits;
    }
    let ranks = u64::from(pattern.ranks);
    if is_signed(dtype) {
        (extended(dtype, bits) / ranks.cast_signed()).cast_unsigned()
    } else {
        bits / ranks
    }
}

/// Two contributions to one.
pub(super) fn combined(dtype: Dtype, op: RedOp, a: u64, b: u64) -> u64 {
    if dtype.is_float() { float(dtype, op, a, b) } else { integer(dtype, op, a, b) & mask(dtype) }
}

fn float(dtype: Dtype, op: RedOp, a: u64, b: u64) -> u64 {
    let (x, y) = (decode(dtype, a), decode(dtype, b));
    let value = match op {
        RedOp::Sum | RedOp::Avg | RedOp::MulSum => x + y,
        RedOp::Prod => x * y,
        RedOp::Max => x.max(y),
        RedOp::Min => x.min(y),
    };
    encode(dtype, value)
}

fn integer(dtype: Dtype, op: RedOp, a: u64, b: u64) -> u64 {
    let (x, y) = (extended(dtype, a), extended(dtype, b));
    let less = if is_signed(dtype) { x < y } else { a < b };
    match op {
        RedOp::Sum | RedOp::Avg | RedOp::MulSum => x.wrapping_add(y) as u64,
        RedOp::Prod => x.wrapping_mul(y) as u64,
        RedOp::Max => {
            if less {
                b
            } else {
                a
            }
        }
        RedOp::Min => {
            if less {
                a
            } else {
                b
            }
        }
    }
}

fn is_signed(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Int8 | Dtype::Int32 | Dtype::Int64)
}

fn mask(dtype: Dtype) -> u64 {
    u64::MAX >> (64 - 8 * dtype.bytes())
}

/// The bits as a number, with its sign.
fn extended(dtype: Dtype, bits: u64) -> i64 {
    let unused = 64 - 8 * dtype.bytes();
    if is_signed(dtype) { (bits << unused).cast_signed() >> unused } else { bits.cast_signed() }
}

/// 8-bit floats are multiplied as halves; the others in one rounding.
fn through_half(dtype: Dtype, value: f64) -> f64 {
    if dtype.is_fp8() { round(Dtype::Half, value) } else { value }
}

/// NCCL rounds 1/n to float first, except for double.
fn round_to(dtype: Dtype, value: f64) -> f64 {
    if dtype == Dtype::Double { value } else { round(dtype, round(Dtype::Float, value)) }
}
