//! The closed forms equal a brute-force reduction of the inputs.

use super::super::forms::digit_sum;
use super::super::number::{decode, encode};
use super::super::{Arithmetic, Sight, expected_bits};
use super::model::{ORDERS, Order, column, integer, is_signed, reduce};
use super::{RANKS, long, pattern, patterns, scatter};
use crate::vocab::{Dtype, RedOp};

#[test]
fn every_order_of_reduction_gives_the_expected_bits() {
    for repetition in [0, 1, 6] {
        for pattern in patterns(&RANKS, repetition) {
            if matches!(pattern.sight(), Sight::Blind { .. }) {
                continue;
            }
            let spec = pattern.spec();
            let n = u64::from(pattern.ranks);
            let base = scatter(n + repetition);
            let few = if n > 1024 && !long() { 1 } else { 6 };
            for index in
                (0..few).flat_map(|k| [k * 7, base + k, base + k * n]).take(if few == 1 { 2 } else { 18 })
            {
                let inputs: Vec<_> = (0..).zip(column(&spec, index)).collect();
                let (a, b) = expected_bits(&spec, index);
                for order in ORDERS {
                    assert_eq!(reduce(&pattern, order, &inputs, false), a, "{pattern:?} {index} {order:?}");
                    assert_eq!(
                        reduce(&pattern, order, &inputs, true),
                        b,
                        "{pattern:?} {index} {order:?} late"
                    );
                }
            }
        }
    }
}

#[test]
fn narrow_sums_never_leave_the_type() {
    for pattern in patterns(&RANKS, 3).into_iter().filter(|pattern| pattern.arithmetic == Arithmetic::Narrow)
    {
        let spec = pattern.spec();
        for index in 0..if pattern.ranks > 1024 { 4 } else { 100 } {
            let total: i128 =
                column(&spec, index).iter().map(|bits| integer(pattern.dtype, *bits).abs()).sum();
            assert!(
                total <= if is_signed(pattern.dtype) { 127 } else { 255 },
                "{pattern:?} {index}: {total}"
            );
        }
    }
}

#[test]
fn integer_averages_neither_wrap_nor_round() {
    for pattern in patterns(&RANKS, 4) {
        let wanted = pattern.op == Some(RedOp::Avg) && !pattern.dtype.is_float();
        if !wanted || matches!(pattern.sight(), Sight::Blind { .. }) {
            continue;
        }
        let spec = pattern.spec();
        for index in 0..if pattern.ranks > 1024 { 3 } else { 40 } {
            let total: i128 = column(&spec, index).iter().map(|bits| integer(pattern.dtype, *bits)).sum();
            let width = 8 * pattern.dtype.bytes() as u32 - u32::from(is_signed(pattern.dtype));
            assert!(total < 1 << width && total % i128::from(pattern.ranks) == 0, "{pattern:?} {index}");
        }
    }
}

#[test]
fn float_inputs_and_results_are_normal_numbers() {
    for pattern in
        patterns(&[1, 2, 3, 8, 100, 1000], 5).into_iter().filter(|pattern| pattern.dtype.is_float())
    {
        let spec = pattern.spec();
        let smallest = decode(pattern.dtype, 1 << spec.mantissa);
        let normal = |bits: u64| bits == 0 || decode(pattern.dtype, bits).abs() >= smallest;
        for index in 0..200 {
            assert!(column(&spec, index).into_iter().all(normal), "{pattern:?} {index}");
            let small = pattern.op == Some(RedOp::Avg) && pattern.dtype.is_fp8();
            assert!(small || normal(expected_bits(&spec, index).0), "{pattern:?} {index}");
        }
    }
}

#[test]
fn no_integer_contribution_is_neutral() {
    for pattern in patterns(&[1, 2, 3, 8], 3).into_iter().filter(|pattern| !pattern.dtype.is_float()) {
        let spec = pattern.spec();
        let mut inputs = (0..3000).flat_map(|index| column(&spec, index));
        match (pattern.op, pattern.arithmetic) {
            (Some(RedOp::Prod), _) => assert!(inputs.all(|x| x & 1 == 1 && x != 1), "{pattern:?}"),
            (Some(RedOp::Sum), Arithmetic::Wrapping) => assert!(inputs.all(|x| x & 1 == 1), "{pattern:?}"),
            _ => {}
        }
    }
}

#[test]
fn averages_of_every_fraction_round_to_even() {
    for ranks in 1..=40 {
        for dtype in [Dtype::Half, Dtype::Bfloat16, Dtype::Float, Dtype::Double] {
            let pattern = pattern(dtype, RedOp::Avg, ranks, 1);
            let spec = pattern.spec();
            for index in 0..400 {
                let inputs: Vec<_> = (0..).zip(column(&spec, index)).collect();
                let (a, b) = expected_bits(&spec, index);
                assert_eq!(reduce(&pattern, Order::Ring, &inputs, false), a, "{pattern:?} {index}");
                assert_eq!(reduce(&pattern, Order::Ring, &inputs, true), b, "{pattern:?} {index} late");
            }
        }
    }
}

#[test]
fn digit_sums_count() {
    for n in [0, 1, 2, 3, 5, 8, 63, 64, 65, 100, 1000, 4097] {
        for (digit, bits) in [(0, 1), (3, 1), (0, 7), (1, 7), (2, 5), (0, 31)] {
            let brute: u64 = (0..n).map(|x: u64| (x >> (digit * bits)) & ((1 << bits) - 1)).sum();
            assert_eq!(digit_sum(n, digit, bits), brute, "{n} {digit} {bits}");
        }
    }
}

#[test]
fn rounding_picks_the_nearest_and_the_even() {
    for (dtype, finite) in
        [(Dtype::F8e4m3, 0x7f), (Dtype::F8e5m2, 0x7c), (Dtype::Half, 0x7c00), (Dtype::Bfloat16, 0x7f80)]
    {
        for bits in 0..finite {
            let value = decode(dtype, bits);
            assert_eq!(encode(dtype, value), bits, "{dtype} {bits:#x}");
            if bits + 1 < finite {
                let next = decode(dtype, bits + 1);
                let middle = f64::midpoint(value, next);
                let even = bits + (bits & 1);
                assert!(next > value);
                assert_eq!(encode(dtype, middle), even, "{dtype} {bits:#x}");
                assert_eq!(encode(dtype, middle * (1.0 + f64::EPSILON)), bits + 1, "{dtype} {bits:#x}");
                assert_eq!(encode(dtype, middle * (1.0 - f64::EPSILON)), bits, "{dtype} {bits:#x}");
            }
        }
    }
    let known = [(Dtype::F8e4m3, 1.0, 0x38), (Dtype::F8e4m3, 448.0, 0x7e), (Dtype::F8e4m3, 1e9, 0x7e)];
    let known = known.into_iter().chain([(Dtype::F8e5m2, 1.0, 0x3c), (Dtype::F8e5m2, 57344.0, 0x7b)]);
    let known = known.chain([
        (Dtype::Half, 65504.0, 0x7bff),
        (Dtype::Half, 1e9, 0x7c00),
        (Dtype::Half, -2.0, 0xc000),
    ]);
    for (dtype, value, bits) in
        known.chain([(Dtype::Bfloat16, 1.0, 0x3f80), (Dtype::Bfloat16, 3.140_625, 0x4049)])
    {
        assert_eq!(encode(dtype, value), bits, "{dtype} {value}");
    }
}

#[test]
fn every_pattern_is_classified_and_says_why() {
    for repetition in [0, 1] {
        for n in 1..=65_536_u32 {
            if n > 2000 && n % 97 != 0 && n < 65_530 && !long() {
                continue;
            }
            for dtype in Dtype::ALL {
                for op in RedOp::ALL {
                    let sight = pattern(dtype, op, n, repetition).sight();
                    let expected_blind = op == RedOp::Avg
                        && match dtype {
                            Dtype::Int8 => n > 127,
                            Dtype::Uint8 => n > 255,
                            Dtype::F8e4m3 => n >= 1024,
                            _ => false,
                        };
                    let refused = n == 1 && dtype.is_fp8() && matches!(op, RedOp::Avg | RedOp::MulSum);
                    assert_eq!(
                        matches!(sight, Sight::Blind { .. }),
                        expected_blind,
                        "{dtype} {op} {n}: {sight:?}"
                    );
                    assert_eq!(
                        matches!(sight, Sight::Refused { .. }),
                        refused,
                        "{dtype} {op} {n}: {sight:?}"
                    );
                    if let Sight::Weak { reason, .. } | Sight::Blind { reason } | Sight::Refused { reason } =
                        sight
                    {
                        assert!(reason.ends_with('.'));
                        for word in [" on ", "bandwidth", "FAILED", "Test failure", "Avg bus"] {
                            assert!(!reason.contains(word));
                        }
                    }
                }
            }
        }
    }
}
