//! What a buffer holds before and after a checked call, said as data: a host loop, a device kernel and a test
//! all read the same description.

use super::Slot;

/// A stretch of one buffer and the pattern that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it starts.
    pub at: Slot,
    /// Elements.
    pub count: u64,
    /// Its pattern.
    pub what: What,
}

/// A pattern. Its values follow from `verify`'s closed forms, for the element type, reduction, number of ranks
/// and repetition of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// What `rank` contributes to elements `first..` of a reduction.
    Input {
        /// The contributing rank.
        rank: u32,
        /// Index of the first element in the whole message.
        first: u64,
    },
    /// Elements `first..` of a reduction's result over all ranks.
    Reduced {
        /// Index of the first element in the whole message.
        first: u64,
    },
    /// Bytes of source ranks, in blocks: element `j` of the run lies in block `b = j / block` and is element
    /// `first + b * first_step + j % block` of the stream of rank `source + b * source_step`.
    Copied {
        /// Elements of a block, at least 1.
        block: u64,
        /// Source rank of the first block.
        source: u32,
        /// How much the source rank grows from block to block.
        source_step: u32,
        /// Where in its source's stream the first block starts, in elements.
        first: u64,
        /// How much that grows from block to block.
        first_step: u64,
    },
}

impl What {
    /// One block of `source`'s stream from element `first` on.
    pub fn stream(source: u32, first: u64) -> Self {
        Self::Copied { block: u64::MAX, source, source_step: 0, first, first_step: 0 }
    }
}

/// Everything that one rank's buffers hold; runs do not overlap.
pub type Content = Vec<Run>;
