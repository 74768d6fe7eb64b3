//! The verbs that a collective may use. Nothing here allocates, waits or reads a clock.

use crate::error::Result;
use crate::vocab::Slot;

/// One rank's part in an uneven exchange: elements per peer, and where each peer's block starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Elements to each peer.
    pub send: Vec<u64>,
    /// Start of each peer's block in the input.
    pub send_at: Vec<u64>,
    /// Elements from each peer.
    pub recv: Vec<u64>,
    /// Start of each peer's block in the result.
    pub recv_at: Vec<u64>,
}

/// Operations of the selected local rank. Type, reduction and buffers were set when the row was prepared; counts
/// are elements. Operations between `group_start` and `group_end` may run together; groups nest.
pub trait Ops {
    /// The selected rank.
    fn rank(&self) -> u32;
    /// Ranks in the communicator.
    fn ranks(&self) -> u32;

    /// Every rank gets the reduction of all ranks' `count` elements.
    fn all_reduce(&mut self, from: Slot, to: Slot, count: u64) -> Result<()>;
    /// Every rank gets all ranks' `count` elements, in rank order.
    fn all_gather(&mut self, from: Slot, to: Slot, count: u64) -> Result<()>;
    /// Rank r gets elements `r * count..` of the reduction of all ranks' `ranks * count` elements.
    fn reduce_scatter(&mut self, from: Slot, to: Slot, count: u64) -> Result<()>;
    /// Every rank gets the root's `count` elements.
    fn broadcast(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()>;
    /// The root gets the reduction of all ranks' `count` elements.
    fn reduce(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()>;

    /// Sends `count` elements to `peer`, which receives as many.
    fn send(&mut self, from: Slot, count: u64, peer: u32) -> Result<()>;
    /// Receives `count` elements from `peer`.
    fn recv(&mut self, to: Slot, count: u64, peer: u32) -> Result<()>;
    /// Copies `count` elements within the rank, in order with its other operations.
    fn copy(&mut self, from: Slot, to: Slot, count: u64) -> Result<()>;
    /// Opens a group.
    fn group_start(&mut self) -> Result<()>;
    /// Closes a group; the outermost close starts its operations.
    fn group_end(&mut self) -> Result<()>;

    /// Block p of every rank's input goes to block `rank` of rank p's result.
    fn alltoall(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        composed_alltoall(self, from, to, count)
    }

    /// As `alltoall`, with a length for each pair; empty blocks are left out.
    fn alltoallv(&mut self, from: Slot, to: Slot, exchange: &Exchange) -> Result<()> {
        self.group_start()?;
        for peer in 0..self.ranks() {
            let at = peer as usize;
            if exchange.send[at] > 0 {
                let block = Slot { offset: from.offset + exchange.send_at[at], ..from };
                self.send(block, exchange.send[at], peer)?;
            }
            if exchange.recv[at] > 0 {
                let block = Slot { offset: to.offset + exchange.recv_at[at], ..to };
                self.recv(block, exchange.recv[at], peer)?;
            }
        }
        self.group_end()
    }

    /// The root gets all ranks' `count` elements, in rank order.
    fn gather(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        composed_gather(self, from, to, count, root)
    }

    /// Rank r gets block r of the root's `ranks * count` elements.
    fn scatter(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        composed_scatter(self, from, to, count, root)
    }
}

/// `blocks` blocks of `count` elements behind `slot`.
fn ahead(slot: Slot, blocks: u32, count: u64) -> Slot {
    Slot { offset: slot.offset + u64::from(blocks) * count, ..slot }
}

/// As `Ops::alltoall`, of sends and receives.
pub fn composed_alltoall<O: Ops + ?Sized>(ops: &mut O, from: Slot, to: Slot, count: u64) -> Result<()> {
    ops.group_start()?;
    for peer in 0..ops.ranks() {
        ops.send(ahead(from, peer, count), count, peer)?;
        ops.recv(ahead(to, peer, count), count, peer)?;
    }
    ops.group_end()
}

/// As `Ops::gather`, of a send and the root's receives.
pub fn composed_gather<O: Ops + ?Sized>(
    ops: &mut O,
    from: Slot,
    to: Slot,
    count: u64,
    root: u32,
) -> Result<()> {
    ops.group_start()?;
    ops.send(from, count, root)?;
    if ops.rank() == root {
        for peer in 0..ops.ranks() {
            ops.recv(ahead(to, peer, count), count, peer)?;
        }
    }
    ops.group_end()
}

/// As `Ops::scatter`, of the root's sends and a receive.
pub fn composed_scatter<O: Ops + ?Sized>(
    ops: &mut O,
    from: Slot,
    to: Slot,
    count: u64,
    root: u32,
) -> Result<()> {
    ops.group_start()?;
    if ops.rank() == root {
        for peer in 0..ops.ranks() {
            ops.send(ahead(from, peer, count), count, peer)?;
        }
    }
    ops.recv(to, count, root)?;
    ops.group_end()
}
