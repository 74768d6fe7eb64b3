//! Launch constants: what the host loop and a kernel need besides the index of an element.

use super::number::Format;
use crate::vocab::{Dtype, Run, What};

/// Which closed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Streams of bytes.
    Copy = 0,
    /// Same-sign integers times one power of two, whose total fits in a significand (or in a narrow integer).
    Bounded = 1,
    /// Odd integers added modulo 2^width.
    Linear = 2,
    /// Powers of one generator, multiplied modulo 2^width.
    Power = 3,
    /// Negative powers of two and one significand, multiplied.
    Signs = 4,
    /// One owner in the half of the values that wins.
    Extreme = 5,
    /// Two equal contributions, averaged.
    Average = 6,
}

/// The launch constants of a [`Pattern`], passed by value to loops and kernels. The C struct of the same name in
/// `kernels/verify.cu` has the same fields in the same order. An element's *slice* is its own `width` bits of the
/// hash of the 8-byte word in which it lies; its *place* `q` is how far a rank is behind the rank that leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Spec {
    /// Added to the word's multiple of the golden ratio before it is mixed.
    pub seed: u64,
    /// The repetition.
    pub repetition: u64,
    /// `(2^64 - 1) / ranks`: the high half of a product with it is a quotient by `ranks`, or one too small.
    pub magic: u64,
    /// Added to an element's index to find who leads there: moves the windows with the repetition.
    pub drift: u64,
    /// Added to a slice before the payload is taken from it.
    pub age: u64,
    /// Bits of the slice that are payload.
    pub payload: u64,
    /// Integer inputs are multiplied by it.
    pub factor: u64,
    /// Added to encoded floats: the lowest exponent of the form, and the change of bias from binary32.
    pub exponent: u64,
    /// `Average`: the scalar of libraries that multiply before they add, or its table of 8 results (FP8).
    pub scalar_a: u64,
    /// `Average`: the same for libraries that add before they multiply.
    pub scalar_b: u64,
    /// Constants of the form by digit (`Bounded`, `Linear`, `Power`) or by purpose (`Signs`, `Extreme`).
    pub base: [u64; 8],
    /// What the leader adds by digit (`Bounded`), its age (`Linear`), or powers of the generator (`Power`).
    pub lead: [u64; 8],
    /// Closed form, a [`Kind`].
    pub kind: u32,
    /// Bits of an element: 8, 16, 32 or 64.
    pub width: u32,
    /// Ranks.
    pub ranks: u32,
    /// Ranks that contribute to an element, and how far the next element's window starts behind this one's.
    pub stride: u32,
    /// 1 where windows fall back by one per lap, so that their edges meet every rank.
    pub wander: u32,
    /// Digits of a place or rank, less one; element `i` shows digit `i & digit_last`.
    pub digit_last: u32,
    /// Bits of a digit.
    pub digit_bits: u32,
    /// Exclusive or into a digit: makes unsigned contributions move with the repetition.
    pub digit_flip: u32,
    /// Fraction bits of a float type, 0 for integers.
    pub mantissa: u32,
    /// The slice's bits from here up choose the exponent.
    pub exponent_shift: u32,
    /// Which exponents above the lowest.
    pub exponent_mask: u32,
    /// log2 of the scalar that every other rank multiplies with (`MulSum`), else 0.
    pub scale: u32,
    /// 1 where elements have signs, which flip with the repetition.
    pub signed: u32,
    /// 1 for float types.
    pub float: u32,
    /// 1 where a second bit pattern is legal.
    pub two: u32,
    /// Keeps the size a multiple of 8.
    pub reserved: u32,
}

/// A [`Run`] in the numbers that a loop or kernel needs; all in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RunSpec {
    /// Elements.
    pub count: u64,
    /// Where it starts in its buffer; a [`super::Tally`] counts positions from the buffer's start.
    pub origin: u64,
    /// First element of the message or stream.
    pub first: u64,
    /// `Copied`: how much `first` grows from block to block.
    pub first_step: u64,
    /// `Copied`: elements of a block.
    pub block: u64,
    /// `(2^64 - 1) / block`.
    pub block_magic: u64,
    /// 0 input of `rank`, 1 result, 2 copied.
    pub what: u32,
    /// Contributing rank, or source of the first block.
    pub rank: u32,
    /// `Copied`: how much the source grows from block to block.
    pub rank_step: u32,
    /// Keeps the size a multiple of 8.
    pub reserved: u32,
}

impl RunSpec {
    /// `what` of a rank's input.
    pub const INPUT: u32 = 0;
    /// `what` of a copying operation's data.
    pub const COPIED: u32 = 2;
}

impl From<&Run> for RunSpec {
    fn from(run: &Run) -> Self {
        let (what, rank, rank_step, block, first, first_step) = match run.what {
            What::Input { rank, first } => (Self::INPUT, rank, 0, u64::MAX, first, 0),
            What::Reduced { first } => (1, 0, 0, u64::MAX, first, 0),
            What::Copied { block, source, source_step, first, first_step } => {
                (Self::COPIED, source, source_step, block.max(1), first, first_step)
            }
        };
        Self {
            count: run.count,
            origin: run.at.offset,
            first,
            first_step,
            block,
            block_magic: u64::MAX / block,
            what,
            rank,
            rank_step,
            reserved: 0,
        }
    }
}

/// Whether `rank` multiplies with the scalar that is not 1.
pub(super) fn is_scaled(rank: u32, repetition: u64) -> bool {
    (u64::from(rank) + repetition) % 2 == 1
}

/// log2 of the float scalar that is not 1: one more than the significand's bits, so that a contribution without
/// it lies below half a unit of every partial sum.
pub(super) fn scale_shift(dtype: Dtype) -> u32 {
    if dtype.is_float() { Format::of(dtype).mantissa + 2 } else { 1 }
}

/// Mixes three numbers into a seed.
pub(super) fn mix(a: u64, b: u64, c: u64) -> u64 {
    [a, b, c].into_iter().fold(0x243f_6a88_85a3_08d3, |state, part| {
        let state = (state ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let state = (state ^ (state >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^ (state >> 32)
    })
}
