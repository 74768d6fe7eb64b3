//! Who it was, with the evidence.

use serde::{Deserialize, Serialize};

/// What can be named, in the order in which it is looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Blame {
    /// It starts later than the others, whatever the size.
    LateRank {
        /// It.
        rank: u32,
    },
    /// It is slow by itself: at copies within its own memory.
    SlowGpu {
        /// It.
        rank: u32,
    },
    /// It sends and receives slowly, whoever the peer.
    SlowBothWays {
        /// It.
        rank: u32,
    },
    /// It sends slowly, whoever the peer.
    SlowSender {
        /// It.
        rank: u32,
    },
    /// It receives slowly, whoever the peer.
    SlowReceiver {
        /// It.
        rank: u32,
    },
    /// Only this pair is slow, and in this direction.
    SlowLink {
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
    },
    /// All ranks of a host.
    SlowNode {
        /// They.
        ranks: Vec<u32>,
    },
    /// The ranks with one number in every host.
    SlowRail {
        /// They.
        ranks: Vec<u32>,
    },
    /// All ranks of hosts that follow each other, such as those of one switch.
    SlowBlock {
        /// They.
        ranks: Vec<u32>,
    },
}

impl Blame {
    /// A stable name for programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::LateRank { .. } => "late_rank",
            Self::SlowGpu { .. } => "slow_gpu",
            Self::SlowBothWays { .. } => "slow_both_ways",
            Self::SlowSender { .. } => "slow_sender",
            Self::SlowReceiver { .. } => "slow_receiver",
            Self::SlowLink { .. } => "slow_link",
            Self::SlowNode { .. } => "slow_node",
            Self::SlowRail { .. } => "slow_rail",
            Self::SlowBlock { .. } => "slow_block",
        }
    }

    pub(super) const fn is_link(&self) -> bool {
        matches!(self, Self::SlowLink { .. })
    }

    /// The ranks that it is about.
    pub fn ranks(&self) -> Vec<u32> {
        match self {
            Self::LateRank { rank }
            | Self::SlowGpu { rank }
            | Self::SlowBothWays { rank }
            | Self::SlowSender { rank }
            | Self::SlowReceiver { rank } => vec![*rank],
            Self::SlowLink { from, to } => vec![*from, *to],
            Self::SlowNode { ranks } | Self::SlowRail { ranks } | Self::SlowBlock { ranks } => ranks.clone(),
        }
    }
}

/// A name, and how sure it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Who.
    #[serde(flatten)]
    pub blame: Blame,
    /// Time with the accused over time without, alone: the median of paired repeats.
    pub ratio: f64,
    /// Lower end of the 95 % interval of `ratio`.
    pub ratio_low: f64,
    /// Its upper end.
    pub ratio_high: f64,
    /// The difference of the two times, in µs: the median.
    pub excess_us: f64,
    /// Pairs of repeats in each confirmation.
    pub repeats: usize,
    /// Confirmations, each measured anew: alone against another, and in a ring with it against one without (a GPU by itself:
    /// against two others; of two ranks, twice against the one that there is).
    pub confirmations: u32,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Somebody is to blame.
    Named {
        /// In the order of [`Blame`].
        findings: Vec<Finding>,
    },
    /// Something is slow, and it is none of what can be named, or it could not be confirmed.
    NotLocalised {
        /// What was seen.
        reasons: Vec<String>,
    },
    /// No test was slower than its like.
    Even,
}
