//! One rank of the communicator.

use serde::{Deserialize, Serialize};

/// A rank, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// This rank, `0..ranks`.
    pub rank: u32,
    /// Ranks in the communicator, at least 1.
    pub ranks: u32,
}

impl Member {
    /// The rank `step` places further on the ring of all ranks; negative steps go back.
    pub fn ring(self, step: i64) -> u32 {
        (i64::from(self.rank) + step).rem_euclid(i64::from(self.ranks)) as u32
    }
}
