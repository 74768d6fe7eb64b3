//! Where a worker sits: its process, its thread, its group.

use super::world::World;
use crate::cli::Split;
use crate::error::Result;
use crate::session::Control;

/// One worker (a thread of a process) among all.
#[derive(Clone, Copy)]
pub(super) struct Seat<'a> {
    /// All workers.
    pub(super) control: &'a dyn Control,
    /// All processes.
    pub(super) world: &'a World,
    /// Thread of the process, and how many each process has.
    pub(super) thread: (u32, u32),
}

impl Seat<'_> {
    /// The process.
    pub(super) fn process(&self) -> u32 {
        self.control.rank() / self.thread.1
    }
}

/// The workers that share a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Its colour: 0 without a split.
    pub(super) color: u32,
    /// Its workers, in order.
    pub(super) workers: Vec<u32>,
    /// This worker's place among them.
    pub(super) place: u32,
}

impl Group {
    /// Groups by process, as `NCCL_TESTS_SPLIT` asks.
    pub(super) fn of(seat: &Seat<'_>, split: Option<Split>) -> Self {
        let threads = seat.thread.1;
        let color = |worker: u32| split.map_or(0, |split| split.group(worker / threads));
        let mine = color(seat.control.rank());
        let workers: Vec<u32> = (0..seat.control.size()).filter(|worker| color(*worker) == mine).collect();
        let place = workers.iter().take_while(|worker| **worker < seat.control.rank()).count() as u32;
        Self { color: mine, workers, place }
    }

    /// Ranks of the group when each worker drives `locals`.
    pub(super) fn ranks(&self, locals: u32) -> u32 {
        self.workers.len() as u32 * locals
    }

    /// The rank in the job of a rank of the group.
    pub(super) fn world_rank(&self, rank: u32, locals: u32) -> u32 {
        let worker = self.workers.get((rank / locals) as usize).copied().unwrap_or_default();
        worker * locals + rank % locals
    }

    /// What the group's first worker says, told to the whole group. Collective over all workers.
    pub(super) fn told_by_first(&self, seat: &Seat<'_>, words: Vec<u8>) -> Result<Vec<u8>> {
        if self.workers.len() as u32 == seat.control.size() {
            return seat.control.broadcast(words);
        }
        let mut all = seat.control.all_gather(&words)?;
        let first = self.workers.first().map_or(0, |worker| *worker as usize);
        Ok(all.get_mut(first).map(std::mem::take).unwrap_or_default())
    }
}
