//! Places in a rank's two buffers. No pointer ever leaves a backend.

use serde::{Deserialize, Serialize};

/// Which of a rank's two buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The buffer that is read by an out-of-place operation.
    Send,
    /// The buffer that is written; in place it is read as well.
    Recv,
}

/// A place in a buffer, in elements from the buffer's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The buffer.
    pub side: Side,
    /// Elements from its start.
    pub offset: u64,
}

/// Whether an operation reads and writes one buffer or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Reads `Side::Send`, writes `Side::Recv`.
    OutOfPlace,
    /// Reads and writes `Side::Recv`.
    InPlace,
}

impl Placement {
    /// Both, in the order of the table's columns.
    pub const BOTH: [Self; 2] = [Self::OutOfPlace, Self::InPlace];
}
