//! A fabric with faults, written as what they are: rates of edges and delays of ranks. It knows nothing of how faults
//! are found (`tests/tidy.rs`), so that finding them over it proves something.

/// A fault of the fabric.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A rank starts every operation late.
    Late {
        /// It.
        rank: u32,
        /// By so many µs.
        delay_us: f64,
    },
    /// What a rank sends keeps this part of its rate.
    Sender {
        /// It.
        rank: u32,
        /// The part, below 1.
        rate: f64,
    },
    /// What a rank receives does.
    Receiver {
        /// It.
        rank: u32,
        /// The part.
        rate: f64,
    },
    /// Both do.
    Both {
        /// It.
        rank: u32,
        /// The part.
        rate: f64,
    },
    /// A rank's GPU does, at its own memory as well.
    Gpu {
        /// It.
        rank: u32,
        /// The part.
        rate: f64,
    },
    /// What goes from one rank to one other does.
    Link {
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
        /// The part.
        rate: f64,
    },
    /// All traffic of a node's ranks does.
    Node {
        /// Number of the node.
        node: u32,
        /// The part.
        rate: f64,
    },
    /// All traffic between two nodes does, as over a bad cable between their switches.
    Path {
        /// The nodes.
        nodes: (u32, u32),
        /// The part.
        rate: f64,
    },
    /// Links here and there do, as where a hash spreads them over uplinks of which some are bad.
    Scattered {
        /// Share of all links.
        share: f64,
        /// The part.
        rate: f64,
        /// Which links.
        seed: u64,
    },
    /// What a rank sends does, while more than so many ranks are active.
    Crowded {
        /// It.
        rank: u32,
        /// The number.
        above: usize,
        /// The part.
        rate: f64,
    },
}

/// Ranks on nodes, with two rates, noise and faults.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// Ranks of a node.
    pub per_node: u32,
    /// Time of an empty message, in µs.
    pub alpha_us: f64,
    /// Rate within a node, in 10^9 B/s.
    pub near_gbps: f64,
    /// Rate between nodes.
    pub far_gbps: f64,
    /// Rate at which a rank copies within its own memory.
    pub own_gbps: f64,
    /// Relative standard deviation of a message's time.
    pub noise: f64,
    /// What is wrong.
    pub faults: Vec<Fault>,
    random: fastrand::Rng,
}

impl Fabric {
    /// Nodes of eight, 400 GB/s within and 50 between, 2,000 within a rank's memory, 2 % noise.
    pub fn new(faults: Vec<Fault>, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self {
            per_node: 8,
            alpha_us: 10.0,
            near_gbps: 400.0,
            far_gbps: 50.0,
            own_gbps: 2000.0,
            noise: 0.02,
            faults,
            random,
        }
    }

    /// How late a rank starts, in µs.
    pub fn delay_us(&self, rank: u32) -> f64 {
        let delay = |fault: &Fault| match fault {
            Fault::Late { rank: late, delay_us } if *late == rank => *delay_us,
            _ => 0.0,
        };
        self.faults.iter().map(delay).sum()
    }

    /// The rate of an edge while so many ranks are active, in 10^9 B/s.
    pub fn rate_gbps(&self, from: u32, to: u32, active: usize) -> f64 {
        let (here, there) = (from / self.per_node, to / self.per_node);
        let healthy = if here == there { self.near_gbps } else { self.far_gbps };
        let kept = |fault: &Fault| match fault {
            Fault::Sender { rank, rate } if *rank == from => *rate,
            Fault::Receiver { rank, rate } if *rank == to => *rate,
            Fault::Both { rank, rate } | Fault::Gpu { rank, rate } if *rank == from || *rank == to => *rate,
            Fault::Link { from: a, to: b, rate } if (*a, *b) == (from, to) => *rate,
            Fault::Node { node, rate } if *node == here || *node == there => *rate,
            Fault::Path { nodes: (a, b), rate } if [(here, there), (there, here)].contains(&(*a, *b)) => {
                *rate
            }
            Fault::Scattered { share, rate, seed } if chosen(from, to, *seed) < *share => *rate,
            Fault::Crowded { rank, above, rate } if *rank == from && active > *above => *rate,
            _ => 1.0,
        };
        self.faults.iter().map(kept).product::<f64>() * healthy
    }

    /// Time of a message of `bytes`, in µs.
    pub fn message_us(&mut self, from: u32, to: u32, bytes: u64, active: usize) -> f64 {
        let moved = self.alpha_us + bytes as f64 / self.rate_gbps(from, to, active) / 1e3;
        let noise = 1.0 + self.noise * self.gauss();
        self.delay_us(from).max(self.delay_us(to)) + moved * noise.max(0.5)
    }

    /// Time in which a rank copies `bytes` within its memory, in µs.
    pub fn own_us(&mut self, own: u32, bytes: u64) -> f64 {
        let kept = |fault: &Fault| match fault {
            Fault::Gpu { rank, rate } if *rank == own => *rate,
            _ => 1.0,
        };
        let rate_gbps = self.own_gbps * self.faults.iter().map(kept).product::<f64>();
        let noise = 1.0 + self.noise * self.gauss();
        bytes as f64 / rate_gbps / 1e3 * noise.max(0.5)
    }

    /// Time in which each of `ranks` sends `bytes` to the next, the last to the first; the longest message's.
    pub fn ring_us(&mut self, ranks: &[u32], bytes: u64, active: usize) -> f64 {
        let next = |at: usize| ranks[(at + 1) % ranks.len()];
        (0..ranks.len()).map(|at| self.message_us(ranks[at], next(at), bytes, active)).fold(0.0, f64::max)
    }

    /// A standard normal deviate, by Box and Muller's method.
    fn gauss(&mut self) -> f64 {
        let (u, v) = (1.0 - self.random.f64(), self.random.f64());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// A number from 0 to 1 that belongs to a link.
fn chosen(from: u32, to: u32, seed: u64) -> f64 {
    fastrand::Rng::with_seed(seed ^ (u64::from(from) << 32 | u64::from(to))).f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_change_their_own_edges_only() {
        let rate = |fault: Fault, from, to| Fabric::new(vec![fault], 1).rate_gbps(from, to, 2);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(rate(Fault::Sender { rank: 1, rate: 0.5 }, 1, 2), 200.0);
        near(rate(Fault::Sender { rank: 1, rate: 0.5 }, 2, 1), 400.0);
        near(rate(Fault::Receiver { rank: 1, rate: 0.5 }, 9, 1), 25.0);
        near(rate(Fault::Both { rank: 1, rate: 0.5 }, 1, 9), 25.0);
        near(rate(Fault::Gpu { rank: 1, rate: 0.5 }, 9, 1), 25.0);
        let mut own = Fabric::new(vec![Fault::Gpu { rank: 1, rate: 0.5 }], 1);
        own.noise = 0.0;
        near(own.own_us(1, 2_000_000), 2.0);
        near(own.own_us(9, 2_000_000), 1.0);
        near(rate(Fault::Link { from: 1, to: 9, rate: 0.8 }, 1, 9), 40.0);
        near(rate(Fault::Link { from: 1, to: 9, rate: 0.8 }, 9, 1), 50.0);
        near(rate(Fault::Node { node: 1, rate: 0.8 }, 0, 15), 40.0);
        near(rate(Fault::Path { nodes: (0, 1), rate: 0.8 }, 15, 0), 40.0);
        near(rate(Fault::Path { nodes: (0, 1), rate: 0.8 }, 15, 16), 50.0);
        near(rate(Fault::Crowded { rank: 0, above: 2, rate: 0.8 }, 0, 1), 400.0);
        let scattered = Fabric::new(vec![Fault::Scattered { share: 0.1, rate: 0.5, seed: 7 }], 1);
        let slow = (0..100).flat_map(|a| (0..100).map(move |b| (a, b)));
        let slow = slow.filter(|(a, b)| scattered.rate_gbps(*a * 8, *b * 8 + 8000, 2) < 40.0).count();
        assert!((800..1200).contains(&slow), "{slow}");
    }

    #[test]
    fn a_late_rank_delays_whoever_needs_it() {
        let mut fabric = Fabric::new(vec![Fault::Late { rank: 3, delay_us: 200.0 }], 1);
        fabric.noise = 0.0;
        assert!((fabric.ring_us(&[1, 2, 3, 4], 0, 4) - 210.0).abs() < 1e-9);
        assert!((fabric.ring_us(&[1, 2, 4], 0, 4) - 10.0).abs() < 1e-9);
        assert!((fabric.message_us(0, 8, 50_000_000, 2) - 1010.0).abs() < 1e-9);
    }
}
