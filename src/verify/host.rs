//! Filling and checking a buffer on the host. A run is a window of whole elements into a stream of 8-byte words.

use super::scheme::{divide, input_word, mask, result_word, stream_seed, stream_word};
use serde::{Deserialize, Serialize};

use super::spec::{RunSpec, Spec};
use crate::vocab::Run;

/// Mismatches of a row against the two legal patterns; sums over runs and ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Elements that differ from pattern A.
    pub wrong_a: u64,
    /// Elements that differ from pattern B, which is A except for float averages.
    pub wrong_b: u64,
    /// Position of the first that differs from A, in elements from its buffer's start; `u64::MAX` if none.
    pub first_a: u64,
    /// Position of the last; 0 if none.
    pub last_a: u64,
    /// The first that differs from B.
    pub first_b: u64,
    /// The last that differs from B.
    pub last_b: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { wrong_a: 0, wrong_b: 0, first_a: u64::MAX, last_a: 0, first_b: u64::MAX, last_b: 0 }
    }
}

impl Tally {
    /// Adds another run's or rank's mismatches.
    pub fn merge(&mut self, other: &Self) {
        self.wrong_a += other.wrong_a;
        self.wrong_b += other.wrong_b;
        self.first_a = self.first_a.min(other.first_a);
        self.first_b = self.first_b.min(other.first_b);
        self.last_a = self.last_a.max(other.last_a);
        self.last_b = self.last_b.max(other.last_b);
    }

    /// Wrong elements. One call follows one pattern throughout, so this is the smaller of the two totals: to be
    /// asked of the whole row, not of its parts.
    pub fn wrong(&self) -> u64 {
        self.wrong_a.min(self.wrong_b)
    }

    /// Whether pattern B explains the row better.
    pub fn follows_b(&self) -> bool {
        self.wrong_b < self.wrong_a
    }

    /// Positions of the first and the last wrong element, if any is wrong.
    pub fn span(&self) -> Option<(u64, u64)> {
        let (first, last) =
            if self.follows_b() { (self.first_b, self.last_b) } else { (self.first_a, self.last_a) };
        (self.wrong() > 0).then_some((first, last))
    }

    fn note(&mut self, position: u64, wrong_a: bool, wrong_b: bool) {
        if wrong_a {
            self.wrong_a += 1;
            self.first_a = self.first_a.min(position);
            self.last_a = self.last_a.max(position);
        }
        if wrong_b {
            self.wrong_b += 1;
            self.first_b = self.first_b.min(position);
            self.last_b = self.last_b.max(position);
        }
    }
}

/// A wrong element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad {
    /// The run in which it lies.
    pub run: Run,
    /// Its place in that run, in elements.
    pub index: u64,
    /// What was found, in the low bits.
    pub got: u64,
}

/// One element after the other of one stream: the piece of a run that lies in one block.
struct Piece {
    /// Its first element, within the run.
    index: u64,
    /// Elements.
    count: u64,
    /// Its first element, in the stream.
    first: u64,
    /// Whose stream.
    rank: u32,
}

/// The pieces of a run.
fn pieces(run: RunSpec) -> impl Iterator<Item = Piece> {
    let mut index = 0;
    std::iter::from_fn(move || {
        let (block, within) = divide(index, run.block, run.block_magic);
        let count = (run.count - index).min(run.block - within);
        let piece = Piece {
            index,
            count,
            first: run.first.wrapping_add(block.wrapping_mul(run.first_step)).wrapping_add(within),
            rank: run.rank.wrapping_add((block as u32).wrapping_mul(run.rank_step)),
        };
        index += count;
        (count > 0).then_some(piece)
    })
}

fn twice(word: u64) -> (u64, u64) {
    (word, word)
}

/// Calls `visit(position, length, words)` for the bytes `position..position + length` of the run, which lie in one
/// word of their stream; `words` are its two legal patterns, shifted down to the first of those bytes.
fn for_each_word(spec: &Spec, run: &RunSpec, mut visit: impl FnMut(usize, usize, (u64, u64))) {
    let bytes = u64::from(spec.width / 8);
    for piece in pieces(*run) {
        let seed = stream_seed(spec, piece.rank);
        let word = |k| match run.what {
            0 => twice(input_word(spec, piece.rank, k)),
            1 => result_word(spec, k),
            _ => twice(stream_word(seed, k)),
        };
        let (start, end) = (piece.first * bytes, (piece.first + piece.count) * bytes);
        let mut position = (piece.index * bytes) as usize;
        for k in start / 8..end.div_ceil(8) {
            let (from, to) = (start.max(8 * k), end.min(8 * k + 8));
            let shift = 8 * (from - 8 * k);
            let (a, b) = word(k);
            let length = (to - from) as usize;
            visit(position, length, (a >> shift, b >> shift));
            position += length;
        }
    }
}

/// Writes what `run` holds to `buffer`, which starts where the run does. `inverted` writes the complement of every
/// bit: put there before a call, it makes an element that nobody writes certain to be wrong.
pub fn fill(buffer: &mut [u8], spec: &Spec, run: &Run, inverted: bool) {
    let flip = if inverted { u64::MAX } else { 0 };
    for_each_word(spec, &RunSpec::from(run), |position, length, (word, _)| {
        let bytes = (word ^ flip).to_le_bytes();
        if let Some(target) = buffer.get_mut(position..position + 8).filter(|_| length == 8) {
            target.copy_from_slice(&bytes);
        } else if let Some(target) = buffer.get_mut(position..position + length) {
            target.copy_from_slice(&bytes[..length]);
        }
    });
}

/// The bytes at `position` as a number, short ones filled up with zeros; none if they are not there.
fn load(buffer: &[u8], position: usize, length: usize) -> Option<u64> {
    let mut bytes = [0; 8];
    if length == 8 {
        bytes.copy_from_slice(buffer.get(position..position + 8)?);
    } else {
        bytes[..length].copy_from_slice(buffer.get(position..position + length)?);
    }
    Some(u64::from_le_bytes(bytes))
}

/// Calls `visit(index, got, wrong_a, wrong_b)` for every element that differs from either pattern.
fn for_each_difference(
    buffer: &[u8],
    spec: &Spec,
    run: &RunSpec,
    mut visit: impl FnMut(u64, u64, bool, bool),
) {
    let bytes = (spec.width / 8) as usize;
    for_each_word(spec, run, |position, length, (a, b)| {
        let found = load(buffer, position, length);
        let got = found.unwrap_or(0);
        let keep = u64::MAX >> (64 - 8 * length);
        if found.is_some() && ((got ^ a) | (got ^ b)) & keep == 0 {
            return;
        }
        for element in 0..length / bytes {
            let shift = 8 * bytes * element;
            let wrong = |expected: u64| found.is_none() || ((got ^ expected) >> shift) & mask(spec) != 0;
            if wrong(a) || wrong(b) {
                visit((position / bytes + element) as u64, (got >> shift) & mask(spec), wrong(a), wrong(b));
            }
        }
    });
}

/// Compares `buffer`, which starts where `run` does, with what the run must hold. Elements beyond the buffer's
/// end are wrong.
pub fn check(buffer: &[u8], spec: &Spec, run: &Run) -> Tally {
    let mut tally = Tally::default();
    for_each_difference(buffer, spec, &RunSpec::from(run), |index, _, a, b| {
        tally.note(run.at.offset + index, a, b);
    });
    tally
}

/// The first `limit` elements of `run` that are wrong by pattern A, or B if `pattern_b`.
pub fn collect_bad(buffer: &[u8], spec: &Spec, run: &Run, pattern_b: bool, limit: usize) -> Vec<Bad> {
    let mut bad = Vec::new();
    for_each_difference(buffer, spec, &RunSpec::from(run), |index, got, a, b| {
        if bad.len() < limit && if pattern_b { b } else { a } {
            bad.push(Bad { run: *run, index, got });
        }
    });
    bad
}

/// The stream, and the element of it, in which element `index` of a run lies: (rank, element).
pub(super) fn locate(run: &RunSpec, index: u64) -> (u32, u64) {
    let (block, within) = divide(index, run.block, run.block_magic);
    let first = run.first.wrapping_add(block.wrapping_mul(run.first_step)).wrapping_add(within);
    (run.rank.wrapping_add((block as u32).wrapping_mul(run.rank_step)), first)
}
