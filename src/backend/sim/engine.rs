//! The simulated ranks: what their operations do to memory and to the clocks.

use std::collections::{HashMap, VecDeque};
use std::mem;

use super::Law;
use super::arith;
use super::edges::{Busy, Edges};
use crate::backend::FLIPPED;
use crate::error::{Error, Result};
use crate::verify::{Arithmetic, Pattern};
use crate::vocab::{Corruption, Dtype, Inject, RedOp, Side};

/// A stretch of a buffer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Span {
    pub(super) side: Side,
    pub(super) start: usize,
    pub(super) length: usize,
}

/// A posted operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// To the root, or to all.
    Reduce {
        from: Span,
        to: Span,
        root: Option<u32>,
    },
    ReduceScatter {
        from: Span,
        to: Span,
    },
    Gather {
        from: Span,
        to: Span,
    },
    Broadcast {
        from: Span,
        to: Span,
        root: u32,
    },
    Send {
        from: Span,
        peer: u32,
    },
    Recv {
        to: Span,
        peer: u32,
    },
}

#[derive(Debug, Default)]
struct Rank {
    send: Vec<u8>,
    recv: Vec<u8>,
    posted: VecDeque<Op>,
    host_ns: f64,
    stream_ns: f64,
    marks_ns: Vec<f64>,
}

#[derive(Debug)]
pub(super) struct Engine {
    law: Law,
    ranks: Vec<Rank>,
    noise: fastrand::Rng,
    corrupt: Option<(u32, Corruption)>,
    pub(super) edges: Edges,
    /// The last result of each place, for a stale one.
    previous: HashMap<(u32, Span), Vec<u8>>,
    /// Type, reduction and repetition of the operations.
    pub(super) pattern: Pattern,
    /// Whether operations move data: between a fill and the next barrier.
    pub(super) with_data: bool,
}

impl Engine {
    pub(super) fn new(law: Law, inject: &[Inject]) -> Self {
        let corrupt = inject.iter().find_map(|fault| {
            if let Inject::Corrupt { rank, how } = fault { Some((*rank, *how)) } else { None }
        });
        let ranks = (0..law.ranks).map(|_| Rank::default()).collect();
        let pattern = Pattern {
            dtype: Dtype::Float,
            op: None,
            ranks: law.ranks,
            repetition: 0,
            arithmetic: Arithmetic::Wrapping,
        };
        let noise = fastrand::Rng::with_seed(law.seed);
        let edges = Edges::default();
        Self { law, ranks, noise, corrupt, edges, previous: HashMap::new(), pattern, with_data: false }
    }

    pub(super) fn ranks(&self) -> u32 {
        self.law.ranks
    }

    pub(super) fn allocate(&mut self, bytes: usize, marks: usize) {
        for rank in &mut self.ranks {
            rank.send = vec![0; bytes];
            rank.recv = vec![0; bytes];
            rank.marks_ns = vec![0.0; marks];
        }
    }

    pub(super) fn buffer(&mut self, rank: u32, side: Side) -> &mut Vec<u8> {
        let rank = &mut self.ranks[rank as usize];
        match side {
            Side::Send => &mut rank.send,
            Side::Recv => &mut rank.recv,
        }
    }

    pub(super) fn post(&mut self, rank: u32, op: Op) {
        let rank = &mut self.ranks[rank as usize];
        rank.host_ns += self.law.enqueue_us * 1e3;
        rank.posted.push_back(op);
    }

    pub(super) fn copy(&mut self, rank: u32, from: Span, to: Span) {
        if self.with_data {
            let data = self.read(rank, from);
            self.write(rank, to, &data);
        }
    }

    /// Runs what is posted: collectives in step, then sends and receives, all at once.
    pub(super) fn run(&mut self) -> Result<()> {
        let mut busy = Busy::new(self.law.ranks);
        while self.ranks.iter().any(|rank| !rank.posted.is_empty()) {
            let ops: Vec<Option<Op>> = self.ranks.iter_mut().map(|rank| rank.posted.pop_front()).collect();
            if ops.iter().flatten().any(|op| matches!(op, Op::Send { .. } | Op::Recv { .. })) {
                self.exchange(ops, &mut busy)?;
            } else {
                let together: Option<Vec<Op>> = ops.into_iter().collect();
                let together = together.ok_or_else(|| mismatch("a collective that not every rank called"))?;
                busy.takes_part(0, self.collective(&together)?);
                (1..self.law.ranks).for_each(|rank| busy.tie(0, rank));
            }
        }
        self.take_time(&busy);
        Ok(())
    }

    /// Ranks of a group end together: the last start, plus the law.
    fn take_time(&mut self, busy: &Busy) {
        for (members, bytes) in busy.groups() {
            let start = |rank: &usize| self.ranks[*rank].host_ns.max(self.ranks[*rank].stream_ns);
            let last = members.iter().map(start).fold(0.0, f64::max);
            let law_ns = self.law.alpha_us * 1e3 + bytes / self.law.beta_gbps;
            let end = last + law_ns * (1.0 + self.law.noise * self.gauss()).max(0.1);
            for rank in members {
                self.ranks[rank].stream_ns = end;
            }
        }
    }

    /// A standard normal deviate, by Box and Muller's method.
    fn gauss(&mut self) -> f64 {
        let (u, v) = (1.0 - self.noise.f64(), self.noise.f64());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// One collective of all ranks, as a ring; what its slowest edge costs in bytes at the full rate.
    fn collective(&mut self, ops: &[Op]) -> Result<f64> {
        let others = f64::from(self.law.ranks - 1) / f64::from(self.law.ranks);
        let (spans, factor): (Vec<(Span, Span)>, f64) = match ops[0] {
            Op::Reduce { root: None, .. } => (pairs(ops)?, 2.0 * others),
            Op::Reduce { .. } | Op::Broadcast { .. } => (pairs(ops)?, 1.0),
            Op::ReduceScatter { .. } | Op::Gather { .. } => (pairs(ops)?, others),
            Op::Send { .. } | Op::Recv { .. } => return Err(mismatch("a send among collectives")),
        };
        let bytes = spans.iter().map(|(from, to)| from.length.max(to.length)).max().unwrap_or(0);
        if self.with_data {
            self.move_data(ops[0], &spans);
        }
        Ok(self.edges.ring_bytes(self.law.ranks, bytes as f64 * factor))
    }

    fn move_data(&mut self, op: Op, spans: &[(Span, Span)]) {
        let inputs: Vec<Vec<u8>> = (0..).zip(spans).map(|(rank, (from, _))| self.read(rank, *from)).collect();
        let inputs = self.misplace(&inputs);
        match op {
            Op::Reduce { root, .. } => {
                let result = self.reduced(&inputs);
                for (rank, (_, to)) in
                    (0..).zip(spans).filter(|(rank, _)| root.is_none_or(|root| root == *rank))
                {
                    self.deliver(rank, None, *to, &result);
                }
            }
            Op::ReduceScatter { .. } => {
                let result = self.reduced(&inputs);
                for (rank, (_, to)) in (0..).zip(spans) {
                    let block = &result[rank as usize * to.length..][..to.length];
                    self.deliver(rank, None, *to, block);
                }
            }
            Op::Gather { .. } => {
                for (rank, (from, to)) in (0..).zip(spans) {
                    for (source, block) in (0..).zip(&inputs) {
                        let start = to.start + source as usize * from.length;
                        self.deliver(rank, Some(source), Span { start, length: from.length, ..*to }, block);
                    }
                }
            }
            Op::Broadcast { root, .. } => {
                for (rank, (_, to)) in (0..).zip(spans) {
                    self.deliver(rank, Some(root), *to, &inputs[root as usize]);
                }
            }
            Op::Send { .. } | Op::Recv { .. } => {}
        }
    }

    /// Sends and receives, this round's and all that are still posted.
    fn exchange(&mut self, first: Vec<Option<Op>>, busy: &mut Busy) -> Result<()> {
        let mut sends: Vec<Vec<(u32, Vec<u8>)>> = vec![Vec::new(); self.ranks.len()];
        let mut landing = Vec::new();
        for (rank, op) in (0..).zip(first) {
            let posted = mem::take(&mut self.ranks[rank as usize].posted);
            let mut sent = 0.0;
            for op in op.into_iter().chain(posted) {
                match op {
                    Op::Send { from, peer } => {
                        busy.tie(rank, peer);
                        let bytes = if peer == rank { 0.0 } else { from.length as f64 };
                        sent += self.edges.cost_bytes(rank, peer, bytes);
                        let data = if self.with_data { self.read(rank, from) } else { Vec::new() };
                        sends[rank as usize].push((peer, data));
                    }
                    Op::Recv { to, peer } => landing.push((rank, to, peer)),
                    _ => return Err(mismatch("a collective among sends")),
                }
                busy.takes_part(rank, sent);
            }
        }
        self.swap_sends(&mut sends);
        for (rank, to, peer) in landing {
            let found = sends[peer as usize].iter().position(|(towards, _)| *towards == rank);
            let at = found.ok_or_else(|| mismatch("a receive without its send"))?;
            let (_, data) = sends[peer as usize].remove(at);
            if self.with_data {
                self.deliver(rank, Some(peer), to, &data);
            }
        }
        Ok(())
    }

    /// With `Swapped`, the faulty rank's messages and its neighbour's carry each other's data; where only one of
    /// them sends, its messages to the two are exchanged.
    fn swap_sends(&self, sends: &mut [Vec<(u32, Vec<u8>)>]) {
        let Some((faulty, Corruption::Swapped)) = self.corrupt else { return };
        let (a, b) = (faulty as usize % sends.len(), (faulty as usize + 1) % sends.len());
        let [first, second] = [a.min(b), a.max(b)];
        let (left, right) = sends.split_at_mut(second);
        let (one, other) = (&mut left[first], &mut right[0]);
        for ((_, x), (_, y)) in one.iter_mut().zip(other.iter_mut()) {
            mem::swap(x, y);
        }
        if one.is_empty() != other.is_empty() {
            let only = if one.is_empty() { other } else { one };
            if let [x, y, ..] = &mut only[first..] {
                mem::swap(&mut x.1, &mut y.1);
            }
        }
    }

    fn read(&mut self, rank: u32, span: Span) -> Vec<u8> {
        self.buffer(rank, span.side)[span.start..][..span.length].to_vec()
    }

    fn write(&mut self, rank: u32, span: Span, data: &[u8]) {
        let length = data.len().min(span.length);
        self.buffer(rank, span.side)[span.start..][..length].copy_from_slice(&data[..length]);
    }

    /// The reduction of all inputs, in rank order.
    fn reduced(&self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let (op, bytes) = (self.pattern.op.unwrap_or(RedOp::Sum), self.pattern.dtype.bytes() as usize);
        let weight = |rank: u32| match self.corrupt {
            Some((faulty, Corruption::Lost)) if faulty == rank => 0,
            Some((faulty, Corruption::Doubled)) if faulty == rank => 2,
            _ => 1,
        };
        let mut result = vec![0; inputs[0].len()];
        for (index, slot) in result.chunks_exact_mut(bytes).enumerate() {
            let mut sum = None;
            for (rank, input) in (0..).zip(inputs) {
                let element = load(&input[index * bytes..][..bytes]);
                let element = arith::prepared(&self.pattern, op, rank, element);
                for _ in 0..weight(rank) {
                    let so_far = sum.map(|sum| arith::combined(self.pattern.dtype, op, sum, element));
                    sum = Some(so_far.unwrap_or(element));
                }
            }
            let bits = arith::finished(&self.pattern, op, sum.unwrap_or(0));
            slot.copy_from_slice(&bits.to_le_bytes()[..bytes]);
        }
        result
    }

    /// A rank's data, or with `swapped` its neighbour's.
    fn swapped(&self, rank: u32) -> u32 {
        match self.corrupt {
            Some((faulty, Corruption::Swapped)) if rank == faulty => (faulty + 1) % self.law.ranks,
            Some((faulty, Corruption::Swapped)) if rank == (faulty + 1) % self.law.ranks => faulty,
            _ => rank,
        }
    }

    fn misplace(&self, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        (0..).zip(inputs).map(|(rank, _)| inputs[self.swapped(rank) as usize].clone()).collect()
    }

    /// Puts a result where it belongs, with the injected fault. `source` is whose data it is, where it is copied.
    fn deliver(&mut self, rank: u32, source: Option<u32>, to: Span, data: &[u8]) {
        let bytes = self.pattern.dtype.bytes() as usize;
        let before = self.previous.insert((rank, to), data.to_vec());
        let how = match self.corrupt {
            Some((faulty, Corruption::Lost)) if source == Some(faulty) => return,
            Some((faulty, how)) if faulty == rank && data.len() >= bytes => how,
            _ => return self.write(rank, to, data),
        };
        let mut data = data.to_vec();
        match how {
            // The last element keeps its value, so that every wrong one is a shifted one.
            Corruption::Shifted => data.copy_within(bytes.., 0),
            Corruption::Stale => match before {
                Some(before) => data = before,
                None => return,
            },
            Corruption::Unwritten => data.truncate(data.len() - bytes),
            Corruption::Flipped => {
                let middle = to.length / bytes / 2;
                if let Some(byte) = data.get_mut((middle + 1) * bytes - 1) {
                    *byte ^= FLIPPED;
                }
            }
            Corruption::Lost | Corruption::Doubled | Corruption::Swapped => {}
        }
        self.write(rank, to, &data);
    }

    pub(super) fn now(&mut self, rank: u32) -> u64 {
        self.ranks[rank as usize].host_ns as u64
    }

    pub(super) fn delay(&mut self, rank: u32, ns: u64) {
        self.ranks[rank as usize].host_ns += ns as f64;
    }

    pub(super) fn mark(&mut self, rank: u32, index: usize) {
        let rank = &mut self.ranks[rank as usize];
        rank.marks_ns[index] = rank.stream_ns.max(rank.host_ns);
    }

    pub(super) fn between_us(&self, rank: u32, from: usize, to: usize) -> f64 {
        let marks = &self.ranks[rank as usize].marks_ns;
        (marks[to] - marks[from]) / 1e3
    }

    pub(super) fn wait(&mut self) {
        for rank in &mut self.ranks {
            rank.host_ns = rank.host_ns.max(rank.stream_ns) + 500.0;
        }
    }

    /// A barrier: all host clocks meet, and leave it a little apart.
    pub(super) fn align(&mut self) {
        self.with_data = false;
        let latest = self.ranks.iter().map(|rank| rank.host_ns).fold(0.0, f64::max);
        for rank in &mut self.ranks {
            rank.host_ns = latest + 1000.0 * self.noise.f64();
        }
    }
}

/// The spans of operations that all ranks called alike.
fn pairs(ops: &[Op]) -> Result<Vec<(Span, Span)>> {
    let same = |op: &Op| mem::discriminant(op) == mem::discriminant(&ops[0]);
    let spans = |op: &Op| match op {
        Op::Reduce { from, to, .. }
        | Op::ReduceScatter { from, to }
        | Op::Gather { from, to }
        | Op::Broadcast { from, to, .. } => Some((*from, *to)),
        Op::Send { .. } | Op::Recv { .. } => None,
    };
    let together: Option<Vec<_>> = ops.iter().map(|op| spans(op).filter(|_| same(op))).collect();
    together.ok_or_else(|| mismatch("different collectives at once"))
}

fn load(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn mismatch(what: &str) -> Error {
    Error::Setup(format!("the simulation met {what}; this is an error of critrank"))
}
