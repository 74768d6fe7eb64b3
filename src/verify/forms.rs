//! The launch constants of each closed form.

use super::number::{Format, decode, encode, round};
use super::spec::{Kind, Spec, mix, scale_shift};
use super::{Arithmetic, Pattern};
use crate::vocab::{Dtype, RedOp};

/// The launch constants of `pattern`.
pub(super) fn spec(pattern: &Pattern) -> Spec {
    let Pattern { dtype, op, ranks, repetition, arithmetic } = *pattern;
    let fresh = Spec {
        seed: mix(1, repetition, 0),
        repetition,
        magic: u64::MAX / u64::from(ranks.max(1)),
        drift: repetition,
        age: 0,
        payload: 0,
        factor: 1,
        exponent: 0,
        scalar_a: 0,
        scalar_b: 0,
        base: [0; 8],
        lead: [0; 8],
        kind: Kind::Copy as u32,
        width: 8 * dtype.bytes() as u32,
        ranks: ranks.max(1),
        stride: 1,
        wander: 0,
        digit_last: 0,
        digit_bits: 0,
        digit_flip: 0,
        mantissa: if dtype.is_float() { Format::of(dtype).mantissa } else { 0 },
        exponent_shift: 0,
        exponent_mask: 0,
        scale: 0,
        signed: 0,
        float: u32::from(dtype.is_float()),
        two: 0,
        reserved: 0,
    };
    match op {
        None => fresh,
        Some(op @ (RedOp::Max | RedOp::Min)) => extreme(&fresh, dtype, op == RedOp::Min),
        Some(op) if dtype.is_float() => match op {
            RedOp::Prod => signs(&fresh, dtype),
            RedOp::Avg => average(&fresh, dtype),
            _ => float_sum(&fresh, dtype, op == RedOp::MulSum),
        },
        Some(RedOp::Prod) => power(&fresh),
        Some(RedOp::Avg) => integer_average(&fresh, dtype),
        Some(RedOp::Sum) if arithmetic == Arithmetic::Narrow && fresh.width == 8 => narrow_sum(&fresh, dtype),
        Some(op) => linear(&fresh, op == RedOp::MulSum),
    }
}

/// Sum of digit `digit` (of `bits` bits) over the numbers below `n`.
pub(super) fn digit_sum(n: u64, digit: u32, bits: u32) -> u64 {
    let shift = digit * bits;
    let (period, values) = (1_u64 << shift, 1_u64 << bits);
    let (full, rest) = (n / (period * values), n % (period * values));
    let (whole, part) = (rest / period, rest % period);
    full * period * (values * (values - 1) / 2)
        + period * (whole * whole.saturating_sub(1) / 2)
        + part * whole
}

/// Digits of `bits` bits that tell the numbers below `n` apart, rounded up to a power of two, less one.
fn last_digit(n: u32, bits: u32) -> u32 {
    let needed = u32::BITS - n.saturating_sub(1).leading_zeros();
    needed.div_ceil(bits.max(1)).max(1).next_power_of_two() - 1
}

/// Room of a bounded sum: contributions up to `values`, from at most `ranks` ranks, and a payload below `payload`.
#[derive(Clone, Copy)]
struct Room {
    values: u32,
    ranks: u64,
    payload: u64,
}

/// `stride` ranks give 1 + digit of their place, the first of them a payload too; all others give 0.
fn bounded(spec: &Spec, room: Room, digit_flip: u32) -> Spec {
    // With contributions that are all 1, one rank counted for another shows only if someone does not contribute.
    let most = if room.values >= 2 { spec.ranks } else { spec.ranks.max(2) - 1 };
    let stride = room.ranks.min(u64::from(most)) as u32;
    let digit_bits = room.values.ilog2();
    let digit_last = if digit_bits == 0 { 0 } else { last_digit(stride, digit_bits) };
    let mut base = [0; 8];
    let mut lead = [0; 8];
    let mut payload = room.payload - 1;
    for digit in 0..=digit_last {
        let plain = digit_sum(u64::from(stride), digit, digit_bits);
        let flipped = plain + u64::from(stride) - 2 * odd_digits(stride, digit, digit_bits);
        let sum = u64::from(stride) + if digit_flip == 1 { flipped } else { plain };
        // Unsigned contributions all change parity with the repetition. A total of an even number of them then
        // keeps its parity, so bit 1 of the total is made to follow the repetition.
        let follows =
            if digit_bits > 0 && spec.signed == 0 { ((sum >> 1) ^ u64::from(digit_flip)) & 1 } else { 0 };
        lead[digit as usize] = 2 * follows;
        base[digit as usize] = sum + 2 * follows;
    }
    if digit_bits > 0 && spec.signed == 0 {
        payload &= !3;
    }
    let spec = windows(spec, stride);
    Spec { kind: Kind::Bounded as u32, digit_bits, digit_last, digit_flip, base, lead, payload, ..spec }
}

/// Windows of `stride` ranks, each starting where the last one ended. Their starts meet every rank by themselves if
/// ranks and stride have no common divisor; else falling back by one per lap makes them.
fn windows(spec: &Spec, stride: u32) -> Spec {
    let (mut divisor, mut rest) = (spec.ranks, stride);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    // Where every rank contributes no window need move, and one that did could undo the change of a digit.
    let drift = if stride == spec.ranks { 0 } else { spec.repetition };
    Spec { stride, wander: u32::from(divisor > 1), drift, ..*spec }
}

/// How many of the numbers below `n` have an odd digit.
fn odd_digits(n: u32, digit: u32, bits: u32) -> u64 {
    if bits == 0 {
        return 0;
    }
    // Bit 0 of the digit is a digit of one bit at the same place.
    let period = 1_u64 << (digit * bits);
    let n = u64::from(n);
    n / (2 * period) * period + (n % (2 * period)).saturating_sub(period)
}

/// Exponents of a form: the lowest, and log2 of how many. All sums stay normal and finite in the type.
fn exponents(dtype: Dtype, op: RedOp) -> (i64, u32) {
    match (dtype, op) {
        (Dtype::Double, RedOp::MulSum) => (-40, 6),
        (Dtype::Double, _) => (-64, 7),
        (Dtype::Half, RedOp::Sum) => (-11, 4),
        (Dtype::Half, RedOp::MulSum) => (-2, 2),
        (Dtype::F8e4m3, RedOp::MulSum) => (-1, 2),
        (Dtype::F8e4m3, _) => (-4, 3),
        (Dtype::Half | Dtype::F8e5m2, _) => (-8, 4),
        _ => (-32, 6),
    }
}

/// With contributions below 2^p in total, every partial sum is exact in the type, in any order and grouping.
fn float_sum(spec: &Spec, dtype: Dtype, scaled: bool) -> Spec {
    let (values, ranks, payload) = match dtype {
        Dtype::Half => (4, 256, 1 << 10),
        Dtype::Bfloat16 => (2, 64, 1 << 7),
        Dtype::F8e4m3 => (1, 8, 1 << 3),
        Dtype::F8e5m2 => (1, 4, 1 << 2),
        Dtype::Float => (128, 65_536, 1 << 23),
        _ => (1 << 16, 65_536, 1 << 32),
    };
    let format = Format::of(dtype);
    let (lowest, log2) = exponents(dtype, if scaled { RedOp::MulSum } else { RedOp::Sum });
    // Integers are encoded through binary32 (double: binary64), and rebased by one addition.
    let through = if dtype == Dtype::Double { 1023 } else { 127 };
    let spec = Spec {
        signed: 1,
        exponent: ((format.bias - through + lowest) << format.mantissa) as u64,
        exponent_shift: spec.width - log2,
        exponent_mask: (1 << log2) - 1,
        scale: if scaled { scale_shift(dtype) } else { 0 },
        ..*spec
    };
    bounded(&spec, Room { values, ranks, payload }, 0)
}

/// Sums that stay inside 8 bits, for libraries that may saturate.
fn narrow_sum(spec: &Spec, dtype: Dtype) -> Spec {
    if dtype == Dtype::Int8 {
        bounded(&Spec { signed: 1, ..*spec }, Room { values: 2, ranks: 32, payload: 64 }, 0)
    } else {
        bounded(spec, Room { values: 2, ranks: 64, payload: 128 }, (spec.repetition & 1) as u32)
    }
}

/// Largest average of `ranks` integers whose sum stays inside the type.
pub(super) fn largest_average(dtype: Dtype, ranks: u32) -> u64 {
    let sign = u32::from(matches!(dtype, Dtype::Int8 | Dtype::Int32 | Dtype::Int64));
    (u64::MAX >> (64 - 8 * dtype.bytes() as u32 + sign)) / u64::from(ranks)
}

/// Contributions are multiples of the number of ranks, so that the sum neither wraps nor rounds when divided.
fn integer_average(spec: &Spec, dtype: Dtype) -> Spec {
    let largest = largest_average(dtype, spec.ranks);
    if largest == 0 {
        return Spec { kind: Kind::Bounded as u32, wander: 1, factor: 0, ..*spec };
    }
    let values = match (spec.width, largest) {
        (8, 0..8) => 1,
        (8, _) => 2,
        (32, _) => 4,
        _ => 1 << 16,
    };
    let ranks = (largest / (2 * u64::from(values))).clamp(1, 65_536);
    let spec = Spec { factor: u64::from(spec.ranks), ..*spec };
    // The room left follows from the ranks that do contribute.
    let used = u64::from(bounded(&spec, Room { values, ranks, payload: 1 }, 0).stride) * u64::from(values);
    let payload = 1 << (largest - used + 1).ilog2().min(32);
    if values == 1 {
        // Nothing but the payload moves: it counts the repetitions, above a hash that does not change with them.
        let spec = Spec { seed: mix(2, 0, 0), age: spec.repetition, ..spec };
        bounded(&spec, Room { values, ranks, payload }, 0)
    } else {
        bounded(&spec, Room { values, ranks, payload }, (spec.repetition & 1) as u32)
    }
}

/// Every contribution is odd, so none is 0; all move by an odd multiple of 2 with the repetition, the leader's so
/// that the total does too.
fn linear(spec: &Spec, scaled: bool) -> Spec {
    let n = u64::from(spec.ranks);
    let digit_bits = (spec.width - 1).min(31);
    let digit_last = last_digit(spec.ranks, digit_bits);
    let pace = if n % 2 == 1 { 1 } else { 2 };
    let mut base = [0; 8];
    for digit in 0..=digit_last {
        let digits = digit_sum(n, digit, digit_bits);
        base[digit as usize] =
            n.wrapping_add(2 * digits).wrapping_add(spec.repetition.wrapping_mul(2 * pace));
    }
    let lead = spec.repetition.wrapping_mul(u64::wrapping_sub(pace, n));
    Spec {
        kind: Kind::Linear as u32,
        seed: mix(2, 0, 0),
        drift: 0,
        digit_bits,
        digit_last,
        base,
        lead: [lead, 0, 0, 0, 0, 0, 0, 0],
        scale: u32::from(scaled),
        ..*spec
    }
}

/// Odd powers of an element of order 2^m, and a leader that is 3 modulo 4: no factor is 1.
fn power(spec: &Spec) -> Spec {
    let n = u64::from(spec.ranks);
    let order = (spec.width - 2).min(8);
    let mut generator = 5_u64;
    for _ in order..spec.width - 2 {
        generator = generator.wrapping_mul(generator);
    }
    let mut lead = [0; 8];
    for entry in &mut lead {
        *entry = generator;
        generator = generator.wrapping_mul(generator);
    }
    let digit_bits = order - 1;
    let digit_last = last_digit(spec.ranks, digit_bits);
    let mut base = [0; 8];
    for digit in 0..=digit_last {
        base[digit as usize] =
            n + 2 * digit_sum(n, digit, digit_bits) + 2 * n.wrapping_mul(spec.repetition & 0xff);
    }
    Spec {
        kind: Kind::Power as u32,
        seed: mix(2, 0, 0),
        drift: 0,
        digit_bits,
        digit_last,
        base,
        lead,
        ..*spec
    }
}

/// All negative: the product's sign tells an even from an odd number of factors.
fn signs(spec: &Spec, dtype: Dtype) -> Spec {
    let format = Format::of(dtype);
    let (lowest, log2) = exponents(dtype, RedOp::Prod);
    let mut base = [0; 8];
    base[0] = format.one();
    base[1] = if spec.ranks == 2 { 1 << format.mantissa } else { 0 };
    base[2] = u64::from(spec.ranks % 2) << (spec.width - 1);
    Spec {
        kind: Kind::Signs as u32,
        payload: (1 << format.mantissa) - 1,
        // The lowest bit of the exponent follows the repetition.
        exponent: ((format.bias + lowest) as u64 + (spec.repetition & 1)) << format.mantissa,
        exponent_shift: spec.width - log2,
        exponent_mask: (1 << log2) - 2,
        base,
        ..*spec
    }
}

/// The owner's value lies in the half of the type's values that wins, all others' in the other half.
fn extreme(spec: &Spec, dtype: Dtype, min: bool) -> Spec {
    let top = 1_u64 << (spec.width - 1);
    let mut base = [0; 8];
    let payload;
    if dtype.is_float() {
        let format = Format::of(dtype);
        let (lowest, log2) = exponents(dtype, RedOp::Prod);
        payload = (1 << (format.mantissa + log2)) - 1;
        base[0] = ((format.bias + lowest) as u64) << format.mantissa;
        base[1] = if min { top } else { 0 };
        base[2] = base[0] | top;
    } else {
        payload = top - 1;
        base[0] = top;
        let signed = matches!(dtype, Dtype::Int8 | Dtype::Int32 | Dtype::Int64);
        base[1] = if signed { top } else { 0 } ^ if min { top | payload } else { 0 };
    }
    Spec { kind: Kind::Extreme as u32, seed: mix(2, 0, 0), age: spec.repetition, payload, base, ..*spec }
}

/// log2 of the magnitude that two ranks contribute to a float average.
fn average_exponent(dtype: Dtype) -> i64 {
    match dtype {
        Dtype::F8e4m3 => 6,
        Dtype::F8e5m2 | Dtype::Half => 13,
        _ => 20,
    }
}

/// Two ranks give the same value, all others 0. Doubling is exact, so each order of work has one legal result:
/// A multiplies by 1/n in the type and then adds; B adds and then multiplies by 1/n in a wider type.
fn average(spec: &Spec, dtype: Dtype) -> Spec {
    let format = Format::of(dtype);
    let inverse = 1.0 / f64::from(spec.ranks);
    let single = f64::from(inverse as f32);
    let in_type = round(dtype, single);
    let stride = spec.ranks.min(2);
    let (scalar_a, scalar_b) = match dtype {
        Dtype::Double => (inverse.to_bits(), inverse.to_bits()),
        Dtype::F8e4m3 | Dtype::F8e5m2 => fp8_averages(dtype, spec.ranks, stride),
        _ => (encode(Dtype::Float, in_type), encode(Dtype::Float, single)),
    };
    Spec {
        kind: Kind::Average as u32,
        signed: 1,
        payload: (1 << format.mantissa) - 1,
        exponent: ((format.bias + average_exponent(dtype)) as u64) << format.mantissa,
        scalar_a,
        scalar_b,
        two: u32::from(format.mantissa <= 10),
        ..windows(spec, stride)
    }
}

/// The averages of each fraction, one a byte from the lowest up: (A, B) of [`average`].
fn fp8_averages(dtype: Dtype, ranks: u32, contributors: u32) -> (u64, u64) {
    let mut tables = (0, 0);
    for fraction in 0..1_u64 << Format::of(dtype).mantissa {
        let (before, after) = fp8_average(dtype, ranks, fraction, contributors);
        tables.0 |= before << (8 * fraction);
        tables.1 |= after << (8 * fraction);
    }
    tables
}

/// What comes out where `contributors` ranks give the value with `fraction`: (A, B) of [`average`]. Between
/// multiplication and the type lies a `half`, as NCCL's kernels have it.
pub(super) fn fp8_average(dtype: Dtype, ranks: u32, fraction: u64, contributors: u32) -> (u64, u64) {
    let format = Format::of(dtype);
    let single = f64::from((1.0 / f64::from(ranks)) as f32);
    let scale = (format.bias + average_exponent(dtype)) as u64;
    let value = decode(dtype, (scale << format.mantissa) | fraction);
    let count = f64::from(contributors);
    let before = round(dtype, round(Dtype::Half, value * round(dtype, single)));
    let after = round(Dtype::Half, round(Dtype::Half, count * value) * round(Dtype::Half, single));
    (encode(dtype, count * before), encode(dtype, after))
}
