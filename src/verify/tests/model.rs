//! Brute force: reduces the inputs of one element under the arithmetic of the type, in several orders.

use super::super::number::{decode, encode, round};
use super::super::{Pattern, Spec, input_bits};
use crate::vocab::{Dtype, RedOp};

/// How a library may go about a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Ring,
    Backwards,
    Tree,
    /// Groups of eight in binary32 (a switch, or a node's shared memory), the type between the groups.
    Groups,
}

pub(super) const ORDERS: [Order; 4] = [Order::Ring, Order::Backwards, Order::Tree, Order::Groups];

/// What every rank contributes to element `index`.
pub(super) fn column(spec: &Spec, index: u64) -> Vec<u64> {
    (0..spec.ranks).map(|rank| input_bits(spec, rank, index)).collect()
}

pub(super) fn is_signed(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Int8 | Dtype::Int32 | Dtype::Int64)
}

/// Sign-extends or zero-extends.
pub(super) fn integer(dtype: Dtype, bits: u64) -> i128 {
    let width = 8 * dtype.bytes();
    let negative = is_signed(dtype) && bits >> (width - 1) == 1;
    i128::from(bits) - if negative { 1 << width } else { 0 }
}

fn fold<T: Copy>(
    order: Order,
    values: &[T],
    narrow: impl Fn(T) -> T,
    wide: impl Fn(T) -> T,
    op: impl Fn(T, T) -> T,
) -> T {
    let (first, rest) = values.split_first().unwrap();
    match order {
        Order::Ring => rest.iter().fold(*first, |sum, value| narrow(op(sum, *value))),
        Order::Backwards => {
            let (last, rest) = values.split_last().unwrap();
            rest.iter().rev().fold(*last, |sum, value| narrow(op(sum, *value)))
        }
        Order::Tree if values.len() == 1 => *first,
        Order::Tree => {
            let (low, high) = values.split_at(values.len() / 2);
            let half = |part| {
                fold(
                    order,
                    part,
                    &narrow as &dyn Fn(T) -> T,
                    &wide as &dyn Fn(T) -> T,
                    &op as &dyn Fn(T, T) -> T,
                )
            };
            narrow(op(half(low), half(high)))
        }
        Order::Groups => {
            let group =
                |part: &[T]| narrow(part[1..].iter().fold(part[0], |sum, value| wide(op(sum, *value))));
            let groups: Vec<T> = values.chunks(8).map(group).collect();
            fold(
                Order::Ring,
                &groups,
                &narrow as &dyn Fn(T) -> T,
                &wide as &dyn Fn(T) -> T,
                &op as &dyn Fn(T, T) -> T,
            )
        }
    }
}

/// Reduces `inputs`, of which each names its rank; `late` multiplies averages after the sum.
pub(super) fn reduce(pattern: &Pattern, order: Order, inputs: &[(u32, u64)], late: bool) -> u64 {
    if pattern.dtype.is_float() {
        floats(pattern, order, inputs, late)
    } else {
        integers(pattern, order, inputs)
    }
}

fn integers(pattern: &Pattern, order: Order, inputs: &[(u32, u64)]) -> u64 {
    let dtype = pattern.dtype;
    let width = 8 * dtype.bytes();
    let mask = u64::MAX >> (64 - width);
    let wrap = |value: i128| integer(dtype, value as u64 & mask);
    let op = pattern.op.unwrap();
    let values: Vec<i128> = inputs
        .iter()
        .map(|(rank, bits)| {
            let scalar = if op == RedOp::MulSum { i128::from(pattern.scalar(*rank)[0]) } else { 1 };
            wrap(integer(dtype, *bits) * scalar)
        })
        .collect();
    let combine = |a: i128, b: i128| match op {
        RedOp::Prod => a.wrapping_mul(b),
        RedOp::Max => a.max(b),
        RedOp::Min => a.min(b),
        _ => a + b,
    };
    let sum = fold(order, &values, wrap, wrap, combine);
    (if op == RedOp::Avg { sum / i128::from(pattern.ranks) } else { sum }) as u64 & mask
}

fn floats(pattern: &Pattern, order: Order, inputs: &[(u32, u64)], late: bool) -> u64 {
    let dtype = pattern.dtype;
    let op = pattern.op.unwrap();
    let inverse = match dtype {
        Dtype::Double => 1.0 / f64::from(pattern.ranks),
        _ => f64::from(1.0 / pattern.ranks as f32),
    };
    let middle = if dtype.is_fp8() { Dtype::Half } else { dtype };
    let values: Vec<f64> = inputs
        .iter()
        .map(|(rank, bits)| {
            let scalar = match op {
                RedOp::MulSum => decode(dtype, u64::from_le_bytes(pattern.scalar(*rank))),
                RedOp::Avg if !late => round(dtype, inverse),
                _ => 1.0,
            };
            round(dtype, round(middle, decode(dtype, *bits) * scalar))
        })
        .collect();
    let combine = |a: f64, b: f64| match op {
        RedOp::Prod => a * b,
        RedOp::Max => a.max(b),
        RedOp::Min => a.min(b),
        _ => a + b,
    };
    let wide = if dtype == Dtype::Double { Dtype::Double } else { Dtype::Float };
    if op == RedOp::Avg && late {
        // Symmetric kernels: the sum and its product with 1/n in the accumulator's type, then one rounding.
        let accumulator = if dtype.is_fp8() { Dtype::Half } else { wide };
        let sum = fold(order, &values, |x| round(accumulator, x), |x| round(accumulator, x), combine);
        return encode(dtype, round(accumulator, sum * round(accumulator, inverse)));
    }
    encode(dtype, fold(order, &values, |x| round(dtype, x), |x| round(wide, x), combine))
}
