//! Ranks without hardware: host memory, real reductions, time by a law with seeded noise, faults on demand.
//! For tests and demonstrations; its figures are never a measurement, and every output says so.

mod arith;
mod edges;
mod engine;
pub mod fabric;

use std::time::Duration;

use super::{Backend, Caps, Device, FLIPPED, Kind, Library, Memory, Setup};
use crate::collective::Ops;
use crate::error::{Error, Result};
use crate::verify::{self, Arithmetic, Bad, Pattern, Tally};
use crate::vocab::{Content, Dtype, Inject, RedOp, Run, Slot, What};
use edges::Edges;
use engine::{Engine, Op, Span};

/// What the simulated fabric is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Law {
    /// Ranks.
    pub ranks: u32,
    /// Time of a call that moves nothing, in µs.
    pub alpha_us: f64,
    /// Bytes that leave the busiest rank per ns (10^9 B/s).
    pub beta_gbps: f64,
    /// Relative standard deviation of a call's time.
    pub noise: f64,
    /// Time that enqueueing takes the host, in µs.
    pub enqueue_us: f64,
    /// Seed of the noise.
    pub seed: u64,
    /// Memory of one device, in bytes.
    pub memory_bytes: u64,
}

impl Law {
    /// A small fabric with 2 % noise.
    pub fn new(ranks: u32, seed: u64) -> Self {
        let memory_bytes = 1 << 30;
        Self { ranks, alpha_us: 8.0, beta_gbps: 100.0, noise: 0.02, enqueue_us: 2.0, seed, memory_bytes }
    }
}

/// The simulation; all its ranks are local to this process.
#[derive(Debug)]
pub struct Sim {
    engine: Engine,
    law: Law,
    inject: Vec<Inject>,
    /// Bytes of a buffer and marks, once they are made.
    room: (usize, usize),
    /// Communicators that were made by `reconnect`.
    made: u64,
    selected: u32,
    shift: u64,
    depth: u32,
    /// What was recorded; while `recording`, calls go there.
    graph: Vec<Step>,
    recording: bool,
}

/// A recorded call.
#[derive(Clone, Copy, Debug)]
enum Step {
    Post { rank: u32, op: Op },
    Copy { rank: u32, from: Span, to: Span },
    Run,
}

impl Sim {
    /// A simulation of `law` with the given faults.
    pub fn new(law: Law, inject: &[Inject]) -> Self {
        Self {
            engine: Engine::new(law.clone(), inject),
            law,
            inject: inject.to_vec(),
            room: (0, 0),
            made: 0,
            selected: 0,
            shift: 0,
            depth: 0,
            graph: Vec::new(),
            recording: false,
        }
    }

    /// The same with directed `links` that lose `lost_pct` % of their rate: what one rank sends to the other. A collective is
    /// a ring of its ranks in order.
    #[must_use]
    pub fn with_slow(mut self, links: &[(u32, u32)], lost_pct: u32) -> Self {
        self.engine.edges = Edges::slow(links, lost_pct);
        self
    }

    fn span(&self, slot: Slot, count: u64) -> Span {
        let bytes = self.engine.pattern.dtype.bytes();
        Span {
            side: slot.side,
            start: (slot.offset * bytes + self.shift) as usize,
            length: (count * bytes) as usize,
        }
    }

    fn post(&mut self, op: Op) -> Result<()> {
        self.step(Step::Post { rank: self.selected, op })?;
        if self.depth == 0 { self.step(Step::Run) } else { Ok(()) }
    }

    /// Does a step, or records it.
    fn step(&mut self, step: Step) -> Result<()> {
        if self.recording {
            self.graph.push(step);
            return Ok(());
        }
        match step {
            Step::Post { rank, op } => self.engine.post(rank, op),
            Step::Copy { rank, from, to } => self.engine.copy(rank, from, to),
            Step::Run => return self.engine.run(),
        }
        Ok(())
    }

    /// The selected rank's bytes of `run`.
    fn bytes(&mut self, run: &Run) -> Result<&mut [u8]> {
        let span = self.span(run.at, run.count);
        let buffer = self.engine.buffer(self.selected, span.side);
        buffer.get_mut(span.start..span.start + span.length).ok_or_else(|| {
            Error::Setup(format!("the simulation's buffer ends before {run:?}; this is an error of critrank"))
        })
    }
}

impl Ops for Sim {
    fn rank(&self) -> u32 {
        self.selected
    }

    fn ranks(&self) -> u32 {
        self.engine.ranks()
    }

    fn all_reduce(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (from, to) = (self.span(from, count), self.span(to, count));
        self.post(Op::Reduce { from, to, root: None })
    }

    fn all_gather(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (from, to) = (self.span(from, count), self.span(to, count * u64::from(self.ranks())));
        self.post(Op::Gather { from, to })
    }

    fn reduce_scatter(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (from, to) = (self.span(from, count * u64::from(self.ranks())), self.span(to, count));
        self.post(Op::ReduceScatter { from, to })
    }

    fn broadcast(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        let (from, to) = (self.span(from, count), self.span(to, count));
        self.post(Op::Broadcast { from, to, root })
    }

    fn reduce(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        let (from, to) = (self.span(from, count), self.span(to, count));
        self.post(Op::Reduce { from, to, root: Some(root) })
    }

    fn send(&mut self, from: Slot, count: u64, peer: u32) -> Result<()> {
        let from = self.span(from, count);
        self.post(Op::Send { from, peer })
    }

    fn recv(&mut self, to: Slot, count: u64, peer: u32) -> Result<()> {
        let to = self.span(to, count);
        self.post(Op::Recv { to, peer })
    }

    fn copy(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (from, to) = (self.span(from, count), self.span(to, count));
        self.step(Step::Copy { rank: self.selected, from, to })
    }

    fn group_start(&mut self) -> Result<()> {
        self.depth += 1;
        Ok(())
    }

    fn group_end(&mut self) -> Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 { self.step(Step::Run) } else { Ok(()) }
    }
}

impl Backend for Sim {
    fn kind(&self) -> Kind {
        Kind::Sim
    }

    fn library(&self) -> Library {
        Library {
            name: "simulation".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            code: 0,
            path: String::new(),
        }
    }

    fn caps(&self) -> Caps {
        Caps {
            shrinks_to_start: false,
            asynchronous: true,
            arithmetic: Arithmetic::Wrapping,
            simulated: true,
        }
    }

    fn locals(&self) -> u32 {
        self.engine.ranks()
    }

    fn devices(&self) -> Vec<Device> {
        let device = |index| Device {
            index,
            bus_id: "0000:00:00".to_owned(),
            name: "HOST".to_owned(),
            uuid: String::new(),
            compute_capability: 0,
            driver: String::new(),
        };
        (0..self.engine.ranks()).map(device).collect()
    }

    fn select(&mut self, local: u32) -> Result<()> {
        self.selected = local;
        Ok(())
    }

    fn refuses(&self, _dtype: Dtype, _op: Option<RedOp>) -> Option<String> {
        None
    }

    fn largest_count(&self) -> u64 {
        u64::MAX
    }

    fn memory(&mut self) -> Result<Memory> {
        Ok(Memory { free_bytes: self.law.memory_bytes, total_bytes: self.law.memory_bytes })
    }

    fn allocate(&mut self, bytes: u64, marks: usize) -> Result<()> {
        self.room = (bytes as usize, marks);
        self.engine.allocate(bytes as usize, marks);
        Ok(())
    }

    fn prepare(&mut self, setup: &Setup) -> Result<()> {
        self.engine.pattern = Pattern {
            dtype: setup.dtype,
            op: setup.op,
            ranks: self.engine.ranks(),
            repetition: setup.repetition,
            arithmetic: Arithmetic::Wrapping,
        };
        Ok(())
    }

    fn shift(&mut self, bytes: u64) {
        self.shift = bytes;
    }

    fn fill(&mut self, content: &Content, pattern: &Pattern, inverted: bool) -> Result<()> {
        self.engine.with_data = true;
        let spec = pattern.spec();
        for run in content {
            verify::fill(self.bytes(run)?, &spec, run, inverted);
        }
        Ok(())
    }

    fn check(&mut self, content: &Content, pattern: &Pattern) -> Result<Tally> {
        let (spec, mut tally) = (pattern.spec(), Tally::default());
        for run in content {
            tally.merge(&verify::check(self.bytes(run)?, &spec, run));
        }
        Ok(tally)
    }

    fn bad(&mut self, content: &Content, pattern: &Pattern, b: bool, limit: usize) -> Result<Vec<Bad>> {
        let (spec, mut bad) = (pattern.spec(), Vec::new());
        for run in content {
            let left = limit - bad.len();
            bad.extend(verify::collect_bad(self.bytes(run)?, &spec, run, b, left));
        }
        Ok(bad)
    }

    fn flip(&mut self, at: Slot) -> Result<()> {
        let run = Run { at, count: 1, what: What::stream(0, 0) };
        if let Some(last) = self.bytes(&run)?.last_mut() {
            *last ^= FLIPPED;
        }
        Ok(())
    }

    fn now(&mut self) -> u64 {
        self.engine.now(self.selected)
    }

    fn delay(&mut self, ns: u64) {
        self.engine.delay(self.selected, ns);
    }

    fn mark(&mut self, index: usize) -> Result<()> {
        self.engine.mark(self.selected, index);
        Ok(())
    }

    fn between_us(&mut self, from: usize, to: usize) -> Result<f64> {
        Ok(self.engine.between_us(self.selected, from, to))
    }

    fn wait(&mut self, _deadline: Duration) -> Result<()> {
        self.engine.wait();
        Ok(())
    }

    fn capture(&mut self) -> Result<()> {
        self.graph.clear();
        self.recording = true;
        Ok(())
    }

    fn captured(&mut self) -> Result<()> {
        self.recording = false;
        Ok(())
    }

    fn replay(&mut self) -> Result<()> {
        (0..self.graph.len()).try_for_each(|index| self.step(self.graph[index]))
    }

    fn forget(&mut self) -> Result<()> {
        self.graph.clear();
        Ok(())
    }

    fn aligned(&mut self) {
        self.engine.align();
    }

    /// A new instance with empty buffers and clocks at 0; the first one's noise is the seed's own.
    fn reconnect(&mut self, _id: &[u8]) -> Result<()> {
        let seed = self.law.seed.wrapping_add(self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.made += 1;
        let edges = std::mem::take(&mut self.engine.edges);
        self.engine = Engine::new(Law { seed, ..self.law.clone() }, &self.inject);
        self.engine.edges = edges;
        let (bytes, marks) = self.room;
        self.engine.allocate(bytes, marks);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
