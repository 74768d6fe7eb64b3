//! Faults that a run puts in on purpose, so that it can be seen to find them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A fault on purpose. A run with one says so in every output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inject {
    /// Wrong data in results (`--backend sim`).
    Corrupt {
        /// The rank whose contribution or result is hit.
        rank: u32,
        /// How.
        how: Corruption,
    },
    /// A rank whose main thread goes no further; its watchdog still answers.
    Hang {
        /// The rank.
        rank: u32,
        /// Where.
        at: Point,
    },
    /// A rank whose host waits before every call, spinning.
    Late {
        /// The rank.
        rank: u32,
        /// How long, in ns.
        delay_ns: u64,
    },
    /// A process that is stopped as by SIGSTOP; its watchdog is silent too.
    Stop {
        /// The rank.
        rank: u32,
        /// Where.
        at: Point,
    },
}

impl Inject {
    /// The rank that it hits.
    pub const fn rank(&self) -> u32 {
        match self {
            Self::Corrupt { rank, .. }
            | Self::Hang { rank, .. }
            | Self::Late { rank, .. }
            | Self::Stop { rank, .. } => *rank,
        }
    }
}

/// A place in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// Before the communicator is made.
    Init,
    /// Before the communicator of this epoch is made; the first one, 0, has `Init`.
    Epoch(u64),
    /// Before this iteration of the first timed loop.
    Iteration(u64),
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Init => f.write_str("init"),
            Self::Epoch(epoch) => write!(f, "epoch{epoch}"),
            Self::Iteration(iteration) => iteration.fmt(f),
        }
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "init" {
            return Ok(Self::Init);
        }
        let parsed = match text.strip_prefix("epoch") {
            Some(epoch) => epoch.parse().map(Self::Epoch),
            None => text.parse().map(Self::Iteration),
        };
        parsed.map_err(|_| format!("'{text}' is neither init nor an epoch such as epoch1 nor an iteration"))
    }
}

/// What is wrong with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Corruption {
    /// The rank's contribution is missing from every result.
    Lost,
    /// The rank's contribution counts twice.
    Doubled,
    /// The rank's result stands one element too early.
    Shifted,
    /// The rank's data and the next rank's stand in each other's place.
    Swapped,
    /// The rank's result is that of the call before.
    Stale,
    /// One element of the rank's result is never written.
    Unwritten,
    /// One bit of the rank's result is flipped.
    Flipped,
}

impl Corruption {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Lost,
        Self::Doubled,
        Self::Shifted,
        Self::Swapped,
        Self::Stale,
        Self::Unwritten,
        Self::Flipped,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Shifted => "shifted",
            Self::Swapped => "swapped",
            Self::Stale => "stale",
            Self::Unwritten => "unwritten",
            Self::Flipped => "flipped",
        }
    }
}

impl fmt::Display for Inject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { rank, how } => write!(f, "corrupt:{rank}:{}", how.name()),
            Self::Hang { rank, at } => write!(f, "hang:{rank}:{at}"),
            Self::Stop { rank, at } => write!(f, "stop:{rank}:{at}"),
            Self::Late { rank, delay_ns } => write!(f, "late:{rank}:{}us", *delay_ns as f64 / 1e3),
        }
    }
}

impl FromStr for Inject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(':').collect();
        let [fault, rank, rest] = parts.as_slice() else {
            return Err(format!(
                "'{text}' is no fault; write late:RANK:TIME, corrupt:RANK:HOW, hang:RANK:WHERE or stop:RANK:WHERE"
            ));
        };
        let rank = rank.parse().map_err(|_| format!("'{rank}' is no rank"))?;
        match *fault {
            "corrupt" => {
                let how = Corruption::ALL.into_iter().find(|kind| kind.name() == *rest);
                let kinds = Corruption::ALL.map(Corruption::name).join(", ");
                let how = how.ok_or_else(|| format!("corrupt:RANK:HOW takes {kinds}"))?;
                Ok(Self::Corrupt { rank, how })
            }
            "hang" => Ok(Self::Hang { rank, at: rest.parse()? }),
            "late" => Ok(Self::Late { rank, delay_ns: duration_ns(rest)? }),
            "stop" => Ok(Self::Stop { rank, at: rest.parse()? }),
            _ => Err(format!("unknown fault '{fault}'; known are late, corrupt, hang and stop")),
        }
    }
}

/// A time such as `200us`, `1.5ms` or `2s`, in ns.
fn duration_ns(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no time such as 200us, 5ms or 1s");
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let found = units.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)));
    let (number, unit_ns) = found.ok_or_else(wrong)?;
    let value: f64 = number.parse().map_err(|_| wrong())?;
    // An hour is more than any deadline; nothing is no delay.
    if value > 0.0 && value * unit_ns <= 3600e9 { Ok((value * unit_ns).round() as u64) } else { Err(wrong()) }
}
