//! Edges of the simulated fabric: what slow ones keep of their rate, and who waits for whom.

use std::collections::HashMap;

/// The part of its rate that each slow edge keeps; all others keep all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Edges {
    kept: HashMap<(u32, u32), f64>,
}

impl Edges {
    /// Directed `links` that lose `lost_pct` % of their rate.
    pub(super) fn slow(links: &[(u32, u32)], lost_pct: u32) -> Self {
        let kept = 1.0 - f64::from(lost_pct) / 100.0;
        Self { kept: links.iter().map(|link| (*link, kept)).collect() }
    }

    /// What a message costs of bytes at the full rate.
    pub(super) fn cost_bytes(&self, from: u32, to: u32, bytes: f64) -> f64 {
        bytes / self.kept.get(&(from, to)).unwrap_or(&1.0)
    }

    /// What bytes cost that every rank passes on to the next, the last to the first: what the slowest edge makes of them.
    pub(super) fn ring_bytes(&self, ranks: u32, bytes: f64) -> f64 {
        let edges = (0..ranks).map(|from| self.cost_bytes(from, (from + 1) % ranks, bytes));
        edges.fold(bytes, f64::max)
    }
}

/// Ranks that an operation ties together, which end together, and what it costs them in bytes at the full rate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Busy {
    /// Of each rank, one of its group: itself, or another with a smaller number.
    leader: Vec<Option<usize>>,
    bytes: Vec<f64>,
}

impl Busy {
    /// Nobody does anything.
    pub(super) fn new(ranks: u32) -> Self {
        Self { leader: vec![None; ranks as usize], bytes: vec![0.0; ranks as usize] }
    }

    /// The rank has something to do; `bytes` of its own cost.
    pub(super) fn takes_part(&mut self, rank: u32, bytes: f64) {
        let at = rank as usize;
        self.leader[at] = self.leader[at].or(Some(at));
        self.bytes[at] = self.bytes[at].max(bytes);
    }

    /// Both wait for each other.
    pub(super) fn tie(&mut self, a: u32, b: u32) {
        for rank in [a, b] {
            self.takes_part(rank, 0.0);
        }
        let (a, b) = (self.first(a as usize), self.first(b as usize));
        self.leader[a.max(b)] = Some(a.min(b));
    }

    /// The groups' first rank, of each rank that has something to do.
    fn first(&self, mut rank: usize) -> usize {
        while let Some(leader) = self.leader[rank].filter(|leader| *leader != rank) {
            rank = leader;
        }
        rank
    }

    /// The groups, each with what its busiest rank costs.
    pub(super) fn groups(&self) -> Vec<(Vec<usize>, f64)> {
        let mut groups: Vec<(Vec<usize>, f64)> = vec![(Vec::new(), 0.0); self.leader.len()];
        for rank in (0..self.leader.len()).filter(|rank| self.leader[*rank].is_some()) {
            let (members, bytes) = &mut groups[self.first(rank)];
            members.push(rank);
            *bytes = bytes.max(self.bytes[rank]);
        }
        groups.retain(|(members, _)| !members.is_empty());
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slow_edges_cost_more_and_a_ring_as_much_as_its_slowest() {
        let edges = Edges::slow(&[(1, 2), (3, 1)], 20);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(edges.cost_bytes(1, 2, 80.0), 100.0);
        near(edges.cost_bytes(2, 1, 80.0), 80.0);
        near(edges.ring_bytes(4, 80.0), 100.0);
        near(Edges::slow(&[(3, 1)], 20).ring_bytes(4, 80.0), 80.0);
        near(Edges::slow(&[(3, 0)], 20).ring_bytes(4, 80.0), 100.0);
        near(Edges::default().ring_bytes(1, 80.0), 80.0);
    }

    #[test]
    fn who_exchanges_nothing_with_others_does_not_wait_for_them() {
        let mut busy = Busy::new(6);
        busy.tie(5, 3);
        busy.tie(1, 0);
        busy.tie(3, 4);
        busy.takes_part(4, 7.0);
        busy.takes_part(0, 9.0);
        busy.takes_part(0, 2.0);
        assert_eq!(busy.groups(), [(vec![0, 1], 9.0), (vec![3, 4, 5], 7.0)]);
    }
}
