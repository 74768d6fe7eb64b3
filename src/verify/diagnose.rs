//! Naming a fault: which one fault explains all of the wrong elements.

use std::fmt;

use super::Pattern;
use super::forms::fp8_average;
use super::host::{Bad, locate};
use super::number::{decode, encode};
use super::scheme::{expected_bits, input_bits, mask};
use super::spec::{Kind, RunSpec, Spec, is_scaled};
use crate::vocab::{Dtype, RedOp, What};

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The buffer still holds what was put there before the call.
    NeverWritten,
    /// The data of an earlier call: how many repetitions ago.
    Stale(u64),
    /// The contribution of a rank is missing.
    Lost(u32),
    /// The contribution of a rank was counted twice.
    Doubled(u32),
    /// The data of another rank's block.
    Block(u32),
    /// The data that belongs so many elements further on.
    Shifted(i64),
    /// One bit of each wrong element is flipped.
    Flipped,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverWritten => write!(f, "never written"),
            Self::Stale(1) => write!(f, "data of the previous repetition"),
            Self::Stale(ago) => write!(f, "data of {ago} repetitions ago"),
            Self::Lost(rank) => write!(f, "contribution of rank {rank} missing"),
            Self::Doubled(rank) => write!(f, "contribution of rank {rank} counted twice"),
            Self::Block(rank) => write!(f, "block of rank {rank}"),
            Self::Shifted(by) => write!(f, "shifted by {by} elements"),
            Self::Flipped => write!(f, "one bit flipped"),
        }
    }
}

/// The faults each of which alone explains every wrong element; often one, none if several faults met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Likelier ones first.
    pub causes: Vec<Cause>,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.causes.as_slice() {
            [] => write!(f, "no single known cause"),
            [only] => write!(f, "{only}"),
            [first, second] => write!(f, "{first} or {second}"),
            [first, second, rest @ ..] => write!(f, "{first}, {second} or {} other causes", rest.len()),
        }
    }
}

/// Farthest shift that is tried, in elements.
const FARTHEST: i64 = 4096;

/// Names what explains all of `bad`, which came from a check of `pattern`. `pattern_b` says against which of the
/// two legal patterns. Costs about `ranks` evaluations for the first wrong element, few for the others.
pub fn diagnose(pattern: &Pattern, bad: &[Bad], pattern_b: bool) -> Diagnosis {
    let spec = pattern.spec();
    let sites: Vec<Site> = bad.iter().map(|bad| Site::new(bad, pattern_b)).collect();
    let Some(first) = sites.first() else {
        return Diagnosis::default();
    };
    let mut causes = candidates(pattern, &spec, first);
    for site in &sites[1..] {
        causes.retain(|cause| cause.explains(pattern, &spec, site));
    }
    Diagnosis { causes }
}

/// A wrong element, and where its value comes from.
struct Site {
    run: RunSpec,
    /// Element of the message, or of the stream.
    index: u64,
    /// Source of the stream, or contributing rank.
    rank: u32,
    got: u64,
    pattern_b: bool,
}

impl Site {
    fn new(bad: &Bad, pattern_b: bool) -> Self {
        let run = RunSpec::from(&bad.run);
        let (rank, index) = locate(&run, bad.index);
        Self { run, index, rank, got: bad.got, pattern_b }
    }

    /// What another element of the same message holds, or of another stream.
    fn value(&self, spec: &Spec, rank: u32, index: u64) -> u64 {
        if self.run.what == 1 {
            let (a, b) = expected_bits(spec, index);
            if self.pattern_b { b } else { a }
        } else {
            input_bits(spec, rank, index)
        }
    }

    fn expected(&self, spec: &Spec) -> u64 {
        self.value(spec, self.rank, self.index)
    }
}

/// Every fault that explains `site`.
fn candidates(pattern: &Pattern, spec: &Spec, site: &Site) -> Vec<Cause> {
    let reduced = site.run.what == 1;
    let copied = site.run.what == 2;
    let ranks = || 0..spec.ranks;
    // Not beyond the blocks of all ranks.
    let blocks = site.run.count.saturating_mul(u64::from(spec.ranks));
    let farthest = FARTHEST.min(i64::try_from(blocks).unwrap_or(FARTHEST));
    let shifts = (1..=farthest).flat_map(|by| [by, -by]).map(Cause::Shifted);
    let all = [Cause::NeverWritten].into_iter().chain((1..=3).map(Cause::Stale));
    let all = all.chain(ranks().filter(|_| reduced).map(Cause::Lost));
    let all = all.chain(ranks().filter(|_| reduced).map(Cause::Doubled));
    let all = all.chain(ranks().filter(|rank| copied && *rank != site.rank).map(Cause::Block));
    // Before shifts, thousands of which are tried: of one byte one in 256 fits by chance.
    let all = all.chain([Cause::Flipped]).chain(shifts);
    all.filter(|cause| cause.explains(pattern, spec, site)).collect()
}

impl Cause {
    /// Whether this fault alone makes of the site's element what was found there.
    fn explains(self, pattern: &Pattern, spec: &Spec, site: &Site) -> bool {
        let predicted = match self {
            Self::NeverWritten => Some(!site.expected(spec) & mask(spec)),
            Self::Stale(ago) => pattern
                .repetition
                .checked_sub(ago)
                .map(|repetition| site.expected(&Pattern { repetition, ..*pattern }.spec())),
            Self::Lost(rank) => faulty(pattern, spec, site, rank, false),
            Self::Doubled(rank) => faulty(pattern, spec, site, rank, true),
            Self::Block(rank) => Some(site.value(spec, rank, site.index)),
            Self::Shifted(by) => {
                site.index.checked_add_signed(by).map(|index| site.value(spec, site.rank, index))
            }
            Self::Flipped => return (site.expected(spec) ^ site.got).is_power_of_two(),
        };
        predicted == Some(site.got)
    }
}

/// The result with `rank`'s contribution missing or doubled, if it can be told.
fn faulty(pattern: &Pattern, spec: &Spec, site: &Site, rank: u32, doubled: bool) -> Option<u64> {
    let (y, x) = (site.expected(spec), input_bits(spec, rank, site.index));
    match pattern.op? {
        RedOp::Max | RedOp::Min => (!doubled).then(|| second_best(pattern, spec, site, rank)).flatten(),
        RedOp::Avg if pattern.dtype.is_float() => (x != 0).then(|| average(pattern, spec, site, y, doubled)),
        _ if pattern.dtype.is_float() => Some(float(pattern, rank, y, x, doubled)),
        op => Some(integer(pattern, spec, op, rank, (y, x), doubled) & mask(spec)),
    }
}

/// Integers: subtracts or adds, divides or multiplies modulo 2^width.
fn integer(pattern: &Pattern, spec: &Spec, op: RedOp, rank: u32, (y, x): (u64, u64), doubled: bool) -> u64 {
    let scaled = op == RedOp::MulSum && is_scaled(rank, pattern.repetition);
    let x = if scaled { x.wrapping_mul(2) } else { x };
    if op == RedOp::Avg {
        let sum = y.wrapping_mul(spec.factor);
        let sum = if doubled { sum.wrapping_add(x) } else { sum.wrapping_sub(x) } & mask(spec);
        let signed = matches!(pattern.dtype, Dtype::Int8 | Dtype::Int32 | Dtype::Int64);
        let negative = signed && sum >> (spec.width - 1) == 1;
        let sum = i128::from(sum) - if negative { 1 << spec.width } else { 0 };
        return (sum / i128::from(spec.ranks)) as u64;
    }
    match (op, doubled) {
        (RedOp::Prod, true) => y.wrapping_mul(x),
        (RedOp::Prod, false) => y.wrapping_mul(inverse(x)),
        (_, true) => y.wrapping_add(x),
        (_, false) => y.wrapping_sub(x),
    }
}

/// The inverse of an odd number modulo 2^64: each step of Newton's method doubles the bits that are right.
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse))))
}

/// Floats, sums and products: exact but for a double count that leaves the significand.
fn float(pattern: &Pattern, rank: u32, y: u64, x: u64, doubled: bool) -> u64 {
    let dtype = pattern.dtype;
    let (y, x) = (decode(dtype, y), decode(dtype, x));
    let scalar = decode(dtype, u64::from_le_bytes(pattern.scalar(rank)));
    let value = match (pattern.op, doubled) {
        (Some(RedOp::Prod), true) => y * x,
        (Some(RedOp::Prod), false) => y / x,
        (Some(RedOp::MulSum), true) => y + x * scalar,
        (Some(RedOp::MulSum), false) => y - x * scalar,
        (_, true) => y + x,
        (_, false) => y - x,
    };
    encode(dtype, value)
}

/// A float average with one contribution less or more.
fn average(pattern: &Pattern, spec: &Spec, site: &Site, y: u64, doubled: bool) -> u64 {
    let contributors = if doubled { spec.stride + 1 } else { spec.stride - 1 };
    if pattern.dtype.is_fp8() {
        let fraction = input_bits(spec, first_contributor(spec, site.index), site.index) & spec.payload;
        let (a, b) = fp8_average(pattern.dtype, spec.ranks, fraction, contributors);
        return if site.pattern_b { b } else { a } | (y & (1 << (spec.width - 1)));
    }
    let share = decode(pattern.dtype, y) / f64::from(spec.stride);
    encode(pattern.dtype, share * f64::from(contributors))
}

/// The rank that leads at element `index`.
fn first_contributor(spec: &Spec, index: u64) -> u32 {
    (0..spec.ranks).find(|rank| input_bits(spec, *rank, index) != 0).unwrap_or(0)
}

/// Maximum or minimum over all ranks but `rank`, if `rank` is the owner: no other is missed.
fn second_best(pattern: &Pattern, spec: &Spec, site: &Site, rank: u32) -> Option<u64> {
    if spec.kind != Kind::Extreme as u32 || input_bits(spec, rank, site.index) != site.expected(spec) {
        return None;
    }
    // In the order of the unsigned numbers 0.. as which the closed form counts values upwards from the loser's end.
    let others = (0..spec.ranks).filter(|other| *other != rank);
    let rank_of = |bits: u64| {
        let bits = bits ^ spec.base[1];
        // Beneath the sign, a larger magnitude is the smaller float.
        if pattern.dtype.is_float() { !bits } else { bits }
    };
    others.map(|other| input_bits(spec, other, site.index)).max_by_key(|bits| rank_of(*bits))
}

impl Bad {
    /// The element of the message, or of its source's stream.
    pub fn element(&self) -> u64 {
        locate(&RunSpec::from(&self.run), self.index).1
    }

    /// The bits that it must have, by pattern A, or B if `pattern_b`.
    pub fn expected(&self, spec: &Spec, pattern_b: bool) -> u64 {
        Site::new(self, pattern_b).expected(spec)
    }

    /// Whether it is the result of a reduction.
    pub fn is_reduced(&self) -> bool {
        matches!(self.run.what, What::Reduced { .. })
    }
}
