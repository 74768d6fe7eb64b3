//! Over what each rank reaches its peers, read from NCCL's log: pure, lines in and links out.
//!
//! The lines are those of NCCL's `transport/{p2p,shm,net,coll_net}.cc`, 2.18 to 2.30:
//!
//! ```text
//! Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
//! Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
//! Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(4)/GDRDMA
//! CollNet 00/0 : 0 [receive] via COLLNET/SHARP/0/GDRDMA
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Links that are said one by one; of more, each kind's number is said.
const FEW: usize = 8;

/// Which way data goes, seen from the rank that told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// To the peer.
    Send,
    /// From the peer. Only networks tell it.
    Receive,
}

/// One rank's connections to one peer over one transport.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// The rank that told it.
    pub rank: u32,
    /// Which way data goes.
    pub side: Side,
    /// The other rank; absent where a switch reduces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
    /// NCCL's words without a device's number, such as `P2P/CUMEM/read` or `NET/IB/GDRDMA`.
    pub transport: String,
    /// Network devices by NCCL's numbers, `0(4)` where rank 4 drives it; of an indirect path the rank between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Channels that use it.
    pub channels: u32,
}

impl Link {
    /// Such as `0 -> 1 P2P/CUMEM (24 channels)`.
    fn words(&self) -> String {
        let arrow = if self.side == Side::Send { "->" } else { "<-" };
        let peer = self.peer.map_or_else(|| "switch".to_owned(), |peer| peer.to_string());
        let plural = if self.channels == 1 { "" } else { "s" };
        format!("{} {arrow} {peer} {} ({} channel{plural})", self.rank, self.transport, self.channels)
    }
}

/// One line's content.
struct Told {
    rank: u32,
    side: Side,
    peer: Option<u32>,
    transport: String,
    device: Option<String>,
    channel: u32,
}

/// All links that a log tells, in order of rank, direction and peer.
pub fn links(log: &str) -> Vec<Link> {
    let mut found = BTreeMap::<_, (BTreeSet<String>, BTreeSet<u32>)>::new();
    for told in log.lines().filter_map(told) {
        let (devices, channels) = found.entry((told.rank, told.side, told.peer, told.transport)).or_default();
        devices.extend(told.device);
        channels.insert(told.channel);
    }
    let link = |((rank, side, peer, transport), (devices, channels)): (_, (BTreeSet<_>, BTreeSet<_>))| Link {
        rank,
        side,
        peer,
        transport,
        devices: devices.into_iter().collect(),
        channels: channels.len() as u32,
    };
    found.into_iter().map(link).collect()
}

fn told(line: &str) -> Option<Told> {
    let line = line.split_once("NCCL INFO ")?.1;
    let (head, path) = line.split_once(" via ")?;
    let (kind, head) = head.split_once(' ')?;
    let (channel, ends) = head.split_once(" : ")?;
    let side = if ends.ends_with("[receive]") { Side::Receive } else { Side::Send };
    let (rank, peer) = match (kind, ends.split_once(" -> ")) {
        ("Channel", Some((from, to))) if side == Side::Send => (number(from)?, Some(number(to)?)),
        ("Channel", Some((from, to))) => (number(to)?, Some(number(from)?)),
        ("CollNet", None) => (number(ends)?, None),
        _ => return None,
    };
    let (transport, device) = split_device(path.trim_end());
    Some(Told { rank, side, peer, transport, device, channel: number(channel)? })
}

/// The number that a text begins with.
fn number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The third word is a device or a rank where it begins with a digit.
fn split_device(path: &str) -> (String, Option<String>) {
    let mut words: Vec<&str> = path.split('/').collect();
    let is_device = words.get(2).is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let device = is_device.then(|| words.remove(2).to_owned());
    (words.join("/"), device)
}

/// The links in short: each where they are few, else the number of each kind. A receiver's is left out where it is
/// as its sender's.
pub fn summary(links: &[Link]) -> Vec<String> {
    let sent: BTreeSet<_> = links
        .iter()
        .filter(|link| link.side == Side::Send)
        .map(|link| (Some(link.rank), link.peer, &link.transport))
        .collect();
    let is_new = |link: &&Link| {
        let other_end = (link.peer, Some(link.rank), &link.transport);
        link.side == Side::Send || !sent.contains(&other_end)
    };
    let shown: Vec<&Link> = links.iter().filter(is_new).collect();
    if shown.len() <= FEW {
        return shown.into_iter().map(Link::words).collect();
    }
    let mut kinds = BTreeMap::<&str, usize>::new();
    for link in shown {
        *kinds.entry(&link.transport).or_default() += 1;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    vec![kinds.iter().map(|(kind, number)| format!("{kind} {number}")).collect::<Vec<_>>().join(", ")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use Side::{Receive, Send};

    fn link(rank: u32, side: Side, peer: u32, transport: &str, devices: &[&str], channels: u32) -> Link {
        let devices = devices.iter().map(|device| (*device).to_owned()).collect();
        Link { rank, side, peer: Some(peer), transport: transport.to_owned(), devices, channels }
    }

    /// What each version writes for its format strings.
    #[test]
    fn every_versions_lines_are_read() {
        let lines = [
            // 2.18 to 2.30, p2p.cc
            (
                "Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer",
                link(0, Send, 1, "P2P/direct pointer", &[], 1),
            ),
            (
                "Channel 13/1 : 10[2] -> 11[3] via P2P/direct pointer/read",
                link(10, Send, 11, "P2P/direct pointer/read", &[], 1),
            ),
            ("Channel 23/0 : 1[1] -> 0[0] via P2P/CUMEM/read", link(1, Send, 0, "P2P/CUMEM/read", &[], 1)),
            (
                "Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM/read/CE",
                link(1, Send, 0, "P2P/CUMEM/read/CE", &[], 1),
            ),
            ("Channel 00/0 : 1[1] -> 0[0] via P2P/IPC", link(1, Send, 0, "P2P/IPC", &[], 1)),
            ("Channel 00/0 : 1[1] -> 0[0] via P2P/MNNVL", link(1, Send, 0, "P2P/MNNVL", &[], 1)),
            (
                "Channel 01/0 : 0[0] -> 5[5] via P2P/indirect/4[4]/read",
                link(0, Send, 5, "P2P/indirect/read", &["4[4]"], 1),
            ),
            // shm.cc: 2.18 to 2.29, then 2.30
            (
                "Channel 01 : 2[2] -> 3[3] via SHM/direct/direct",
                link(2, Send, 3, "SHM/direct/direct", &[], 1),
            ),
            ("Channel 01 : 2[2] -> 3[3] via SHM/CE/direct", link(2, Send, 3, "SHM/CE/direct", &[], 1)),
            ("Channel 01 : 2[2] -> 3[3] via SHM/direct", link(2, Send, 3, "SHM/direct", &[], 1)),
            // net.cc: 2.18 on, and with another rank's device
            (
                "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
                link(0, Send, 1, "NET/Socket", &["0"], 1),
            ),
            (
                "Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/3/GDRDMA",
                link(0, Receive, 15, "NET/IB/GDRDMA", &["3"], 1),
            ),
            (
                "Channel 02/1 : 0[0] -> 9[1] [send] via NET/IB/2(4)/GDRDMA/Shared",
                link(0, Send, 9, "NET/IB/GDRDMA/Shared", &["2(4)"], 1),
            ),
            (
                "Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA(PCI)",
                link(0, Send, 8, "NET/AWS Libfabric/GDRDMA(PCI)", &["0"], 1),
            ),
            // coll_net.cc
            (
                "CollNet 00/1 : 3 [receive] via COLLNET/SHARP/0/GDRDMA",
                Link { peer: None, ..link(3, Receive, 0, "COLLNET/SHARP/GDRDMA", &["0"], 1) },
            ),
        ];
        for (line, expected) in lines {
            // The prefix of debug.cc, which from 2.27 on may begin with a time.
            for prefix in
                ["node1:4711:4720 [0] NCCL INFO ", "[2026-11-30 16:40:00] node1:4711:4720 [3] NCCL INFO "]
            {
                assert_eq!(links(&format!("{prefix}{line}\n")), std::slice::from_ref(&expected), "{line}");
            }
        }
    }

    #[test]
    fn other_lines_tell_no_link() {
        for line in [
            "Channel 00/24 :    0   1",
            "Channel 00/24 : 0 1 via nothing",
            "Ring 00 : 0 -> 1 -> 0",
            "Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1",
            "Connected all rings, use ring PXN 0 GDR 1",
            "GPU/0 can reach NET/0 via 2 hops",
            "Channel 00/0 : 0[0] -> 1[1]",
            "",
        ] {
            assert_eq!(links(&format!("node1:1:2 [0] NCCL INFO {line}\n")), [], "{line}");
        }
        assert_eq!(links("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"), [], "not NCCL's line");
    }

    #[test]
    fn channels_and_devices_are_counted_once() {
        let line = |channel: u32, index: u32, device: u32| {
            format!(
                "h:1:2 [0] NCCL INFO Channel {channel:02}/{index} : 0[0] -> 8[0] [send] via NET/IB/{device}\n"
            )
        };
        let log = [line(0, 0, 0), line(1, 0, 1), line(0, 1, 0), line(12, 0, 1)].concat();
        assert_eq!(links(&log), [link(0, Send, 8, "NET/IB", &["0", "1"], 3)]);
    }

    #[test]
    fn few_links_are_said_one_by_one_and_many_by_kind() {
        let pair = [
            link(0, Send, 1, "NET/IB/GDRDMA", &["0"], 1),
            link(1, Receive, 0, "NET/IB/GDRDMA", &["0"], 1),
            link(1, Send, 0, "P2P/CUMEM", &[], 24),
            link(2, Receive, 1, "NET/IB", &["0"], 2),
            Link { peer: None, ..link(3, Send, 0, "COLLNET/SHARP", &["0"], 2) },
        ];
        assert_eq!(
            summary(&pair),
            [
                "0 -> 1 NET/IB/GDRDMA (1 channel)",
                "1 -> 0 P2P/CUMEM (24 channels)",
                "2 <- 1 NET/IB (2 channels)",
                "3 -> switch COLLNET/SHARP (2 channels)",
            ]
        );
        let mut many: Vec<Link> =
            (0..8).map(|rank| link(rank, Send, rank + 1, "NET/IB", &["0"], 2)).collect();
        assert_eq!(summary(&many).len(), 8);
        many.extend((0..56).map(|rank| link(rank, Send, rank + 1, "P2P/CUMEM", &[], 24)));
        assert_eq!(summary(&many), ["P2P/CUMEM 56, NET/IB 8"]);
        assert_eq!(summary(&[]), [] as [&str; 0]);
    }
}
