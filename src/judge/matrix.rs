//! The matrix of all pairs, and what it is made of.

use serde::{Deserialize, Serialize};

use super::polish::Cell;
use super::suspects::{Limits, Suspects, suspects};
use super::{Places, lower_median};
use crate::stats::median;

/// Times of one directed pair, one for each repeat, in µs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairTimes {
    /// A small message each way at the same time.
    pub latency_us: Vec<f64>,
    /// A small message of many, one way.
    pub message_us: Vec<f64>,
    /// A large message, beside the other pairs of its round.
    pub one_way_us: Vec<f64>,
    /// The same while one comes back.
    pub both_ways_us: Vec<f64>,
    /// A large message one way while nobody else sends; none where it was not measured.
    pub alone_us: Vec<f64>,
}

/// What was measured of one directed pair: medians over repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Sender.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// A small message each way at the same time, in µs.
    pub latency_us: f64,
    /// Small messages a second, sent many at a time, one way.
    pub messages_per_s: f64,
    /// A large message, beside the other pairs of its round, in 10^9 B/s.
    pub one_way_gbps: f64,
    /// The same while one comes back, per direction.
    pub both_ways_gbps: f64,
    /// A large message one way while nobody else sends; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_gbps: Option<f64>,
    /// One-way time over what sender, receiver and pairs of its like (in a host, or between two) explain.
    pub link_ratio: f64,
    /// What the medians are of; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<PairTimes>,
}

impl Link {
    /// From the times of one pair; `None` where some were not measured.
    pub fn of(from: u32, to: u32, large_bytes: u64, times: PairTimes) -> Option<Self> {
        let gbps = |us: f64| large_bytes as f64 / us.max(1e-3) / 1e3;
        Some(Self {
            from,
            to,
            latency_us: median(&times.latency_us)?,
            messages_per_s: 1e6 / median(&times.message_us)?.max(1e-6),
            one_way_gbps: gbps(median(&times.one_way_us)?),
            both_ways_gbps: gbps(median(&times.both_ways_us)?),
            alone_gbps: median(&times.alone_us).map(gbps),
            link_ratio: 1.0,
            times: Some(times),
        })
    }
}

/// All pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Bytes of a small message.
    pub small_bytes: u64,
    /// Bytes of a large one.
    pub large_bytes: u64,
    /// By sender, then receiver.
    pub links: Vec<Link>,
    /// Each rank's one-way time as sender over that of others, in rank order.
    pub send_ratio: Vec<f64>,
    /// As receiver.
    pub recv_ratio: Vec<f64>,
    /// Standard deviation of what is left of a link, as a ratio.
    pub noise_ratio: f64,
}

impl Matrix {
    /// From all links, which are not yet taken apart.
    pub fn of(small_bytes: u64, large_bytes: u64, links: Vec<Link>) -> Self {
        let (send_ratio, recv_ratio) = (Vec::new(), Vec::new());
        Self { small_bytes, large_bytes, links, send_ratio, recv_ratio, noise_ratio: 1.0 }
    }

    /// Takes the one-way times apart, and says who stands out.
    pub fn decompose(&mut self, places: &Places) -> Suspects {
        let cell = |link: &Link| Cell { from: link.from, to: link.to, y: -link.one_way_gbps.max(1e-9).ln() };
        let cells: Vec<Cell> = self.links.iter().map(cell).collect();
        let found = suspects(places, &cells, 0.0, Limits::default().slow);
        let ratios = |parts: &[Option<f64>]| parts.iter().map(|part| part.unwrap_or(0.0).exp()).collect();
        self.send_ratio = ratios(&found.parts.send);
        self.recv_ratio = ratios(&found.parts.recv);
        self.noise_ratio = found.noise.exp();
        for (link, left) in self.links.iter_mut().zip(&found.parts.link) {
            link.link_ratio = left.exp();
        }
        found
    }

    /// The links that involve a suspect, once each: all of a sender's and a receiver's, and the single ones.
    pub fn of_suspects(&self, found: &Suspects) -> Vec<(u32, u32)> {
        let single =
            |link: &Link| found.links.iter().any(|(from, to, _)| (*from, *to) == (link.from, link.to));
        let accused = |link: &&Link| {
            found.send.contains_key(&link.from) || found.recv.contains_key(&link.to) || single(link)
        };
        self.links.iter().filter(accused).map(|link| (link.from, link.to)).collect()
    }

    /// The median one-way rate of all links, in 10^9 B/s; of an even number the lower one.
    pub fn typical_gbps(&self) -> Option<f64> {
        lower_median(&mut self.links.iter().map(|link| link.one_way_gbps).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_suspects_of_a_matrix() {
        let pairs = (0..6).flat_map(|from| (0..6).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let rate = |from, to| match (from, to) {
            (2, _) => 20.0,
            (4, 5) => 25.0,
            _ => 40.0 + f64::from((from * 5 + to * 3) % 4) * 0.05,
        };
        let link = |(from, to)| Link {
            from,
            to,
            latency_us: 5.0,
            messages_per_s: 1e6,
            one_way_gbps: rate(from, to),
            both_ways_gbps: rate(from, to),
            alone_gbps: None,
            link_ratio: 0.0,
            times: None,
        };
        let mut matrix = Matrix::of(8, 1 << 22, pairs.map(link).collect());
        let found = matrix.decompose(&Places::of(&(0..6).collect::<Vec<_>>()));
        assert!(
            (matrix.send_ratio[2] - 2.0).abs() < 0.02 && (matrix.recv_ratio[2] - 1.0).abs() < 0.02,
            "{matrix:?}"
        );
        assert_eq!(found.send.keys().copied().collect::<Vec<_>>(), [2]);
        let single: Vec<_> = found.links.iter().map(|(from, to, _)| (*from, *to)).collect();
        assert_eq!(single, [(4, 5)]);
        let of = matrix.of_suspects(&found);
        assert_eq!(of, [(2, 0), (2, 1), (2, 3), (2, 4), (2, 5), (4, 5)]);
        assert!(matrix.typical_gbps().is_some_and(|rate| (40.0..40.2).contains(&rate)));
    }
}
