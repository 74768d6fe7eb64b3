//! The reductions of NCCL, in the order in which nccl-tests lists them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedOp {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// Sum divided by the number of ranks.
    Avg,
    /// Sum of each rank's data times that rank's scalar (`ncclRedOpCreatePreMulSum`).
    MulSum,
}

impl RedOp {
    /// Every reduction, in the order of nccl-tests' `-o all`.
    pub const ALL: [Self; 6] = [Self::Sum, Self::Prod, Self::Max, Self::Min, Self::Avg, Self::MulSum];

    /// The name in the table, as nccl-tests spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::Avg => "avg",
            Self::MulSum => "mulsum",
        }
    }
}

impl fmt::Display for RedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for RedOp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|op| op.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|op| op.name()).collect();
            format!("unknown reduction '{text}'; known are {} and all", names.join(", "))
        })
    }
}
