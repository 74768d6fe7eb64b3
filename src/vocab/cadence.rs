//! In which rhythm operations follow each other: figures of two rhythms are no comparison.

use serde::{Deserialize, Serialize};

use super::GATE;

/// How the operations of a timed loop follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cadence {
    /// Each behind the last, awaited once (`-z 0`).
    #[default]
    BackToBack,
    /// The same, several in a group (`-m`).
    Aggregated,
    /// Each is awaited (`-z 2`).
    Awaited,
    /// Each is awaited by all ranks before the next (`-z 1`, `-z 3`).
    Isolated,
    /// All ranks' GPUs start each at one time (`-z G`).
    Gated,
    /// As launches of a CUDA graph (`-G`).
    Graph,
}

impl Cadence {
    /// Of `-z`, `-m` and `-G`.
    pub const fn of(blocking: u8, aggregated: u64, graph: u64) -> Self {
        match (graph, blocking) {
            (1.., _) => Self::Graph,
            (_, GATE) => Self::Gated,
            (_, 1 | 3) => Self::Isolated,
            (_, 2) => Self::Awaited,
            _ if aggregated > 1 => Self::Aggregated,
            _ => Self::BackToBack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_comes_before_what_is_grouped() {
        assert_eq!(Cadence::of(0, 1, 0), Cadence::BackToBack);
        assert_eq!(Cadence::of(0, 4, 0), Cadence::Aggregated);
        assert_eq!(Cadence::of(2, 4, 0), Cadence::Awaited);
        assert_eq!((Cadence::of(1, 1, 0), Cadence::of(3, 1, 0)), (Cadence::Isolated, Cadence::Isolated));
        assert_eq!(Cadence::of(GATE, 1, 0), Cadence::Gated);
        assert_eq!(Cadence::of(0, 1, 2), Cadence::Graph);
    }
}
