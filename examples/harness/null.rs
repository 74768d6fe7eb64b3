//! A backend whose operations do nothing, so that what is left is the loop itself.

use std::hint::black_box;
use std::time::Duration;

use critrank::backend::{Backend, Caps, Device, Kind, Library, Memory, Setup};
use critrank::collective::Ops;
use critrank::error::Result;
use critrank::verify::{Arithmetic, Bad, Pattern, Tally};
use critrank::vocab::{Content, Dtype, RedOp, Slot};

/// Any number of local ranks that all do nothing.
pub(crate) struct Null {
    ranks: u32,
    selected: u32,
    clock: fn() -> u64,
    marks: Vec<u64>,
    /// The first and the last reading since `prepare`: the loop's first and last act.
    seen: Option<(u64, u64)>,
}

impl Null {
    /// `clock` may count anything that only grows, such as nanoseconds or allocations.
    pub(crate) fn new(ranks: u32, clock: fn() -> u64) -> Self {
        Self { ranks, selected: 0, clock, marks: Vec::new(), seen: None }
    }

    /// What the clock counted from the first reading to the last.
    pub(crate) fn counted(&self) -> u64 {
        self.seen.map_or(0, |(first, last)| last - first)
    }
}

impl Ops for Null {
    fn rank(&self) -> u32 {
        self.selected
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn all_reduce(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        black_box((from, to, count));
        Ok(())
    }

    fn all_gather(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        self.all_reduce(from, to, count)
    }

    fn reduce_scatter(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        self.all_reduce(from, to, count)
    }

    fn broadcast(&mut self, from: Slot, to: Slot, count: u64, _root: u32) -> Result<()> {
        self.all_reduce(from, to, count)
    }

    fn reduce(&mut self, from: Slot, to: Slot, count: u64, _root: u32) -> Result<()> {
        self.all_reduce(from, to, count)
    }

    fn send(&mut self, from: Slot, count: u64, _peer: u32) -> Result<()> {
        self.all_reduce(from, from, count)
    }

    fn recv(&mut self, to: Slot, count: u64, _peer: u32) -> Result<()> {
        self.all_reduce(to, to, count)
    }

    fn copy(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        self.all_reduce(from, to, count)
    }

    fn group_start(&mut self) -> Result<()> {
        Ok(())
    }

    fn group_end(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Backend for Null {
    fn kind(&self) -> Kind {
        Kind::Sim
    }

    fn library(&self) -> Library {
        Library { name: "null".to_owned(), version: String::new(), code: 0, path: String::new() }
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
        self.ranks
    }

    fn devices(&self) -> Vec<Device> {
        Vec::new()
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
        Ok(Memory { free_bytes: 0, total_bytes: 0 })
    }

    fn allocate(&mut self, _bytes: u64, marks: usize) -> Result<()> {
        self.marks = vec![0; marks];
        Ok(())
    }

    fn prepare(&mut self, _setup: &Setup) -> Result<()> {
        self.seen = None;
        Ok(())
    }

    fn shift(&mut self, bytes: u64) {
        black_box(bytes);
    }

    fn fill(&mut self, _content: &Content, _pattern: &Pattern, _inverted: bool) -> Result<()> {
        Ok(())
    }

    fn check(&mut self, _content: &Content, _pattern: &Pattern) -> Result<Tally> {
        Ok(Tally::default())
    }

    fn bad(&mut self, _: &Content, _: &Pattern, _: bool, _: usize) -> Result<Vec<Bad>> {
        Ok(Vec::new())
    }

    fn now(&mut self) -> u64 {
        let now = (self.clock)();
        let first = self.seen.map_or(now, |(first, _)| first);
        self.seen = Some((first, now));
        now
    }

    /// As the `mpi` backend does it: a reading of the clock, kept.
    fn mark(&mut self, index: usize) -> Result<()> {
        let now = (self.clock)();
        self.marks[index] = now;
        Ok(())
    }

    fn between_us(&mut self, from: usize, to: usize) -> Result<f64> {
        Ok((self.marks[to] - self.marks[from]) as f64 / 1e3)
    }

    fn wait(&mut self, deadline: Duration) -> Result<()> {
        black_box(deadline);
        Ok(())
    }

    fn hold(&mut self) -> Result<()> {
        Ok(())
    }

    fn capture(&mut self) -> Result<()> {
        Ok(())
    }

    fn captured(&mut self) -> Result<()> {
        Ok(())
    }

    fn replay(&mut self) -> Result<()> {
        Ok(())
    }

    fn forget(&mut self) -> Result<()> {
        Ok(())
    }

    fn reconnect(&mut self, _id: &[u8]) -> Result<()> {
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
