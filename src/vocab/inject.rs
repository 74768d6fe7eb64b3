//! Faults that a run puts in on purpose, so that it can be seen to find them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A fault on purpose. A run with one says so in every output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inject {
    /// Wrong data in results (outside `--backend sim` one flipped bit only).
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
    /// What one rank sends to one other is slow.
    SlowLink {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// What is lost of the rate, in %.
        lost_pct: u32,
    },
    /// Whatever a node's ranks send to other nodes, or receive from them, is slow.
    SlowNode {
        /// Which node.
        node: Node,
        /// What is lost of the rate, in %.
        lost_pct: u32,
    },
    /// A process that is stopped as by SIGSTOP; its watchdog is silent too.
    Stop {
        /// The rank.
        rank: u32,
        /// Where.
        at: Point,
    },
}

/// Every kind, as the command line writes it, with an example. A kind that is missing here cannot be asked for.
const KINDS: [(&str, &str); 6] = [
    ("late", "late:1:200us"),
    ("slow-link", "slow-link:0-1:50%"),
    ("slow-node", "slow-node:1:50%"),
    ("corrupt", "corrupt:1:flipped"),
    ("hang", "hang:1:3"),
    ("stop", "stop:1:3"),
];

impl Inject {
    /// A fault of each kind, as on the command line.
    pub fn examples() -> impl Iterator<Item = &'static str> {
        KINDS.into_iter().map(|(_, example)| example)
    }

    /// The ranks that its text names.
    pub fn ranks(&self) -> Vec<u32> {
        match self {
            Self::Corrupt { rank, .. }
            | Self::Hang { rank, .. }
            | Self::Late { rank, .. }
            | Self::Stop { rank, .. }
            | Self::SlowNode { node: Node::Of(rank), .. } => vec![*rank],
            Self::SlowLink { from, to, .. } => vec![*from, *to],
            Self::SlowNode { node: Node::Named(_), .. } => Vec::new(),
        }
    }

    /// Directed links that are slow, by the ranks' hosts in rank order; for a node, all between it and other hosts.
    ///
    /// # Errors
    /// A node that is not there, or the only one, has no such link.
    pub fn slow_links(&self, hosts: &[String]) -> Result<Vec<(u32, u32)>, String> {
        let host = match self {
            Self::SlowLink { from, to, .. } => return Ok(vec![(*from, *to)]),
            Self::SlowNode { node: Node::Of(rank), .. } => hosts.get(*rank as usize),
            Self::SlowNode { node: Node::Named(name), .. } => hosts.iter().find(|host| *host == name),
            _ => return Ok(Vec::new()),
        };
        let mut names: Vec<&str> = hosts.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let host =
            host.ok_or_else(|| format!("--inject {self}: no such node; there are {}", names.join(", ")))?;
        let inside = |rank: u32| hosts[rank as usize] == *host;
        let all = || 0..hosts.len() as u32;
        let pairs = all().flat_map(|from| all().map(move |to| (from, to)));
        let links: Vec<_> = pairs.filter(|(from, to)| inside(*from) != inside(*to)).collect();
        if links.is_empty() {
            Err(format!("--inject {self}: it is the only node, so no link leads away"))
        } else {
            Ok(links)
        }
    }

    /// Whether it slows links, and what it takes of their rate, in %.
    pub const fn lost_pct(&self) -> Option<u32> {
        match self {
            Self::SlowLink { lost_pct, .. } | Self::SlowNode { lost_pct, .. } => Some(*lost_pct),
            _ => None,
        }
    }
}

/// A node of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// By its host name.
    Named(String),
    /// The one that this rank is on.
    Of(u32),
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(host) => f.write_str(host),
            Self::Of(rank) => rank.fmt(f),
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
            Self::SlowLink { from, to, lost_pct } => write!(f, "slow-link:{from}-{to}:{lost_pct}%"),
            Self::SlowNode { node, lost_pct } => write!(f, "slow-node:{node}:{lost_pct}%"),
        }
    }
}

impl FromStr for Inject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || KINDS.map(|(_, example)| example).join(", ");
        let parts: Vec<_> = text.split(':').collect();
        let [kind, place, rest] = parts.as_slice() else {
            return Err(format!("'{text}' is no fault; one is written as {}", known()));
        };
        let unknown = || Err(format!("unknown fault '{kind}'; one is written as {}", known()));
        if !KINDS.iter().any(|(name, _)| name == kind) {
            return unknown();
        }
        match *kind {
            "corrupt" => {
                let how = Corruption::ALL.into_iter().find(|kind| kind.name() == *rest);
                let kinds = Corruption::ALL.map(Corruption::name).join(", ");
                let how = how.ok_or_else(|| format!("corrupt:RANK:HOW takes {kinds}"))?;
                Ok(Self::Corrupt { rank: rank(place)?, how })
            }
            "hang" => Ok(Self::Hang { rank: rank(place)?, at: rest.parse()? }),
            "late" => Ok(Self::Late { rank: rank(place)?, delay_ns: duration_ns(rest)? }),
            "slow-link" => {
                let (from, to) = ends(place)?;
                Ok(Self::SlowLink { from, to, lost_pct: percent(rest)? })
            }
            "slow-node" => Ok(Self::SlowNode { node: node(place)?, lost_pct: percent(rest)? }),
            "stop" => Ok(Self::Stop { rank: rank(place)?, at: rest.parse()? }),
            _ => unknown(),
        }
    }
}

fn rank(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("'{text}' is no rank"))
}

/// `A-B`, two ranks.
fn ends(text: &str) -> Result<(u32, u32), String> {
    let (from, to) =
        text.split_once('-').ok_or_else(|| format!("'{text}' is no link; write FROM-TO, two ranks"))?;
    let (from, to) = (rank(from)?, rank(to)?);
    if from == to { Err(format!("'{text}' is no link: rank {from} is both ends")) } else { Ok((from, to)) }
}

/// A rank of the node, or its host name.
fn node(text: &str) -> Result<Node, String> {
    match text.parse() {
        Ok(rank) => Ok(Node::Of(rank)),
        Err(_) if text.is_empty() => Err("slow-node:NODE:PERCENT takes a host name or a rank".to_owned()),
        Err(_) => Ok(Node::Named(text.to_owned())),
    }
}

/// A whole percentage from 1 to 90: nothing is no fault, and what hardly moves is another one.
fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse().ok());
    number
        .filter(|number| (1..=90).contains(number))
        .ok_or_else(|| format!("'{text}' is no share of a rate: write 1% to 90%"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_node_is_slow_to_and_from_all_other_nodes() {
        let hosts = ["a", "a", "b", "c"].map(str::to_owned);
        let links = |text: &str| text.parse::<Inject>().unwrap().slow_links(&hosts);
        let of_a = vec![(0, 2), (0, 3), (1, 2), (1, 3), (2, 0), (2, 1), (3, 0), (3, 1)];
        assert_eq!(links("slow-node:a:10%"), Ok(of_a.clone()));
        assert_eq!(links("slow-node:1:10%"), Ok(of_a));
        assert_eq!(links("slow-link:3-0:10%"), Ok(vec![(3, 0)]));
        assert_eq!(links("late:1:1us"), Ok(Vec::new()));
        assert!(links("slow-node:d:10%").is_err_and(|text| text.contains("there are a, b, c")));
        let one = "slow-node:0:10%".parse::<Inject>().unwrap().slow_links(&hosts[..2]);
        assert!(one.is_err_and(|text| text.contains("only node")));
    }
}
