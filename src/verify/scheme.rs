//! The closed forms, in 8-byte words: word `k` of a message or stream holds its bytes `8k..8k+8`, whatever the type.
//! `kernels/verify.cu` says the same in C, line by line.

use super::spec::{Kind, Spec, is_scaled, mix};

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of word `k` in the stream of `seed`.
fn hash(seed: u64, k: u64) -> u64 {
    let state = k.wrapping_mul(GOLDEN).wrapping_add(seed);
    let state = (state ^ (state >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let state = (state ^ (state >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 32)
}

/// Signs of word `k`'s elements, one a bit: from the index alone, so that all of them flip with the repetition.
fn signs(spec: &Spec, k: u64) -> u64 {
    let signs = (k.wrapping_mul(GOLDEN) >> 56) ^ (spec.repetition & 1).wrapping_neg();
    if spec.signed == 1 { signs } else { 0 }
}

/// The low `width` bits.
pub(super) fn mask(spec: &Spec) -> u64 {
    u64::MAX >> (64 - spec.width)
}

/// Exact quotient and remainder by a constant of which `magic` is `(2^64 - 1) / divisor`.
pub(super) fn divide(value: u64, divisor: u64, magic: u64) -> (u64, u64) {
    let quotient = ((u128::from(value) * u128::from(magic)) >> 64) as u64;
    let remainder = value - quotient * divisor;
    if remainder >= divisor { (quotient + 1, remainder - divisor) } else { (quotient, remainder) }
}

/// A rank's place in the windows of consecutive elements.
struct Place {
    /// `stride * index % ranks`.
    phase: u32,
    /// How far the rank is behind the one that leads.
    q: u32,
}

impl Place {
    /// At element `index`, whose window starts at `stride * j - wander * floor(stride * j / ranks)` modulo ranks,
    /// `j` being the index plus the drift.
    fn at(spec: &Spec, rank: u32, index: u64) -> Self {
        let n = u64::from(spec.ranks);
        let (lap, phase) = divide(u64::from(spec.stride) * (index + spec.drift), n, spec.magic);
        let back = if spec.wander == 1 { divide(lap, n, spec.magic).1 } else { 0 };
        let (_, q) = divide(u64::from(rank) + n - phase + back, n, spec.magic);
        Self { phase: phase as u32, q: q as u32 }
    }

    /// To the next element.
    fn advance(&mut self, spec: &Spec) {
        self.phase += spec.stride;
        let mut q = self.q + spec.ranks - spec.stride;
        if self.phase >= spec.ranks {
            self.phase -= spec.ranks;
            q += spec.wander;
        }
        self.q = if q >= spec.ranks { q - spec.ranks } else { q };
    }
}

/// An integer below 2^(significand bits) times the power of two that `slice` chooses, as bits of the type.
fn encode(spec: &Spec, value: u64, slice: u64, negative: u64) -> u64 {
    let bits = if spec.float == 0 {
        return if negative == 1 { value.wrapping_neg() } else { value };
    } else if spec.width == 64 {
        (value as f64).to_bits()
    } else {
        u64::from((value as f32).to_bits()) >> (23 - spec.mantissa)
    };
    let exponent = (slice >> spec.exponent_shift) & u64::from(spec.exponent_mask);
    (bits.wrapping_add(exponent << spec.mantissa).wrapping_add(spec.exponent))
        | (negative << (spec.width - 1))
}

/// The generator of `Power` to the power of `exponent`.
fn power(spec: &Spec, exponent: u64) -> u64 {
    let factors = spec.lead.iter().enumerate().filter(|(bit, _)| (exponent >> bit) & 1 == 1);
    factors.fold(1, |product, (_, factor)| product.wrapping_mul(*factor))
}

/// Result of `Power`: 3 modulo 4, moving with the repetition.
fn power_result(spec: &Spec, slice: u64) -> u64 {
    (slice << 3).wrapping_add(spec.repetition << 2).wrapping_add(3)
}

/// Leading contribution of `Signs`, without its sign; its significand is never 1.0.
fn signs_lead(spec: &Spec, slice: u64) -> u64 {
    let exponent = (slice >> spec.exponent_shift) & u64::from(spec.exponent_mask);
    spec.exponent + (exponent << spec.mantissa) + ((slice & spec.payload) | 1)
}

/// Rounds a binary32 to the fraction bits of a narrower type that has it in its normal range.
fn narrow(spec: &Spec, value: f32) -> u64 {
    let bits = u64::from(value.to_bits());
    let drop = 23 - spec.mantissa;
    if drop == 0 {
        return bits;
    }
    let rounded = (bits + (1 << (drop - 1)) - 1 + ((bits >> drop) & 1)) >> drop;
    if spec.mantissa == 10 { rounded - (112 << 10) } else { rounded }
}

/// Both legal averages of an element, without sign.
fn average(spec: &Spec, slice: u64) -> (u64, u64) {
    let fraction = slice & spec.payload;
    if spec.width == 8 {
        return ((spec.scalar_a >> (8 * fraction)) & 0xff, (spec.scalar_b >> (8 * fraction)) & 0xff);
    }
    let doubled = u64::from(spec.stride - 1) << spec.mantissa;
    let bits = spec.exponent | fraction;
    if spec.width == 64 {
        let average = (f64::from_bits(bits) * f64::from_bits(spec.scalar_a)).to_bits() + doubled;
        return (average, average);
    }
    let rebase = if spec.mantissa == 10 { 112_u64 << 10 } else { 0 };
    let value = f32::from_bits(((bits + rebase) << (23 - spec.mantissa)) as u32);
    let scale = |scalar: u64| narrow(spec, value * f32::from_bits(scalar as u32)) + doubled;
    (scale(spec.scalar_a), scale(spec.scalar_b))
}

/// What comes out at element `index`, both legal patterns, from its slice and sign.
fn result(spec: &Spec, index: u64, slice: u64, negative: u64) -> (u64, u64) {
    let digit = (index as u32 & spec.digit_last) as usize;
    let bits = match spec.kind {
        kind if kind == Kind::Bounded as u32 => {
            let payload = slice.wrapping_add(spec.age) & spec.payload;
            encode(spec, spec.base[digit] + payload, slice, negative)
        }
        kind if kind == Kind::Linear as u32 => (spec.base[digit].wrapping_add(slice << 1)) << spec.scale,
        kind if kind == Kind::Power as u32 => power_result(spec, slice),
        kind if kind == Kind::Signs as u32 => (signs_lead(spec, slice) + spec.base[1]) | spec.base[2],
        kind if kind == Kind::Extreme as u32 => {
            ((slice.wrapping_add(spec.age) & spec.payload) + spec.base[0]) ^ spec.base[1]
        }
        _ => {
            let sign = negative << (spec.width - 1);
            let (before, after) = average(spec, slice);
            return (before | sign, after | sign);
        }
    };
    (bits & mask(spec), bits & mask(spec))
}

/// What `rank`, at place `q`, contributes to element `index`.
fn contribution(spec: &Spec, rank: u32, q: u32, index: u64, slice: u64, negative: u64) -> u64 {
    let digit = index as u32 & spec.digit_last;
    let of = |number: u32| u64::from(number >> (spec.digit_bits * digit)) & ((1 << spec.digit_bits) - 1);
    let rank_digit = of(rank);
    let (n, t) = (u64::from(spec.ranks), spec.repetition);
    let scaled = is_scaled(rank, t);
    match spec.kind {
        kind if kind == Kind::Bounded as u32 => {
            if q >= spec.stride {
                return 0;
            }
            let lead = spec.lead[digit as usize] + (slice.wrapping_add(spec.age) & spec.payload);
            let value = 1 + (of(q) ^ u64::from(spec.digit_flip)) + if q == 0 { lead } else { 0 };
            let bits = encode(spec, value.wrapping_mul(spec.factor), slice, negative);
            if scaled { bits - (u64::from(spec.scale) << spec.mantissa) } else { bits }
        }
        kind if kind == Kind::Linear as u32 => {
            let lead = slice.wrapping_mul(1_u64.wrapping_sub(n)).wrapping_add(spec.lead[0]);
            let half =
                slice.wrapping_add(rank_digit).wrapping_add(t).wrapping_add(if q == 0 { lead } else { 0 });
            let value = half.wrapping_mul(2).wrapping_add(1);
            if scaled { value } else { value << spec.scale }
        }
        kind if kind == Kind::Power as u32 => {
            let own = 1_u64.wrapping_add(slice.wrapping_add(rank_digit).wrapping_add(t).wrapping_mul(2));
            let all = spec.base[digit as usize].wrapping_add(slice.wrapping_mul(2 * n));
            if q == 0 {
                power_result(spec, slice).wrapping_mul(power(spec, own.wrapping_sub(all)))
            } else {
                power(spec, own)
            }
        }
        kind if kind == Kind::Signs as u32 => {
            let magnitude = match q {
                0 => signs_lead(spec, slice),
                1 => spec.base[0] + (1 << spec.mantissa),
                2 => spec.base[0] - (1 << spec.mantissa),
                _ => spec.base[0],
            };
            magnitude | (1 << (spec.width - 1))
        }
        kind if kind == Kind::Extreme as u32 => {
            if q == 0 {
                return result(spec, index, slice, 0).0;
            }
            let low = slice ^ u64::from(rank).wrapping_mul(GOLDEN) ^ t.wrapping_mul(5);
            ((low & spec.payload) + spec.base[2]) ^ spec.base[1]
        }
        _ if q < spec.stride => spec.exponent | (slice & spec.payload) | (negative << (spec.width - 1)),
        _ => 0,
    }
}

/// Word `k` of `source`'s stream, of a copying operation.
pub(super) fn stream_seed(spec: &Spec, source: u32) -> u64 {
    mix(spec.seed, u64::from(source), 3)
}

/// Word `k` of the stream of `seed`.
pub(super) fn stream_word(seed: u64, k: u64) -> u64 {
    hash(seed, k)
}

/// Word `k` of the result, both legal patterns.
pub(super) fn result_word(spec: &Spec, k: u64) -> (u64, u64) {
    let (hash, signs) = (hash(spec.seed, k), signs(spec, k));
    let per_word = 64 / spec.width;
    let mut words = (0, 0);
    for element in 0..per_word {
        let slice = (hash >> (element * spec.width)) & mask(spec);
        let index = k * u64::from(per_word) + u64::from(element);
        let (a, b) = result(spec, index, slice, (signs >> element) & 1);
        words.0 |= a << (element * spec.width);
        words.1 |= b << (element * spec.width);
    }
    words
}

/// Word `k` of what `rank` contributes.
pub(super) fn input_word(spec: &Spec, rank: u32, k: u64) -> u64 {
    let (hash, signs) = (hash(spec.seed, k), signs(spec, k));
    let per_word = 64 / spec.width;
    let first = k * u64::from(per_word);
    let mut place = Place::at(spec, rank, first);
    let mut word = 0;
    for element in 0..per_word {
        let slice = (hash >> (element * spec.width)) & mask(spec);
        let index = first + u64::from(element);
        let bits = contribution(spec, rank, place.q, index, slice, (signs >> element) & 1);
        word |= (bits & mask(spec)) << (element * spec.width);
        place.advance(spec);
    }
    word
}

/// The element's bits in the word that holds it.
fn pick(spec: &Spec, word: u64, index: u64) -> u64 {
    let per_word = u64::from(64 / spec.width);
    (word >> (index % per_word * u64::from(spec.width))) & mask(spec)
}

/// What `rank` contributes to element `index` of a reduction, or element `index` of its stream: bits in the low
/// `width`.
pub fn input_bits(spec: &Spec, rank: u32, index: u64) -> u64 {
    let k = index / u64::from(64 / spec.width);
    let word = if spec.kind == Kind::Copy as u32 {
        stream_word(stream_seed(spec, rank), k)
    } else {
        input_word(spec, rank, k)
    };
    pick(spec, word, index)
}

/// What must come out at element `index` of a reduction: two legal patterns, which differ for float averages only
/// (libraries differ in whether they multiply by 1/n before or after they add; one call does one of the two).
pub fn expected_bits(spec: &Spec, index: u64) -> (u64, u64) {
    let (a, b) = result_word(spec, index / u64::from(64 / spec.width));
    (pick(spec, a, index), pick(spec, b, index))
}
