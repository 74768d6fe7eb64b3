//! What does the measured work.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The three backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// NCCL, one GPU behind each rank.
    Nccl,
    /// The MPI library's own collectives, host memory.
    Mpi,
    /// Ranks without hardware; never a measurement.
    Sim,
}

impl Kind {
    /// Every backend.
    pub const ALL: [Self; 3] = [Self::Nccl, Self::Mpi, Self::Sim];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nccl => "nccl",
            Self::Mpi => "mpi",
            Self::Sim => "sim",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| format!("unknown backend '{text}'; known are nccl, mpi and sim"))
    }
}
