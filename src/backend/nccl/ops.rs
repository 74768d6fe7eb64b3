//! The operations, as NCCL calls on the selected rank's stream.

use super::Nccl;
use super::ffi::{Address, Lane};
use crate::collective::{Native, Ops, composed_alltoall, composed_gather, composed_scatter};
use crate::error::Result;
use crate::vocab::Slot;

impl Nccl {
    /// The address of a slot, with room for `count` elements.
    #[inline]
    pub(super) fn at(&self, slot: Slot, count: u64) -> Result<Address> {
        let offset = slot.offset.saturating_mul(self.element).saturating_add(self.shift);
        self.local().address(slot.side, offset, count.saturating_mul(self.element))
    }

    /// Where the selected rank's operations run.
    #[inline]
    fn lane(&self) -> Lane<'_> {
        let local = self.local();
        Lane { comm: &local.comm, stream: &local.stream, dtype: self.dtype }
    }

    /// Elements of all ranks' blocks.
    #[inline]
    fn all(&self, count: u64) -> u64 {
        count.saturating_mul(u64::from(self.ranks))
    }
}

impl Ops for Nccl {
    #[inline]
    fn rank(&self) -> u32 {
        self.first_rank + self.selected as u32
    }

    #[inline]
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn all_reduce(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (from, to) = (self.at(from, count)?, self.at(to, count)?);
        self.api.all_reduce(from, to, count, self.local().op, self.lane())
    }

    fn all_gather(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (from, to) = (self.at(from, count)?, self.at(to, self.all(count))?);
        self.api.all_gather(from, to, count, self.lane())
    }

    fn reduce_scatter(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (from, to) = (self.at(from, self.all(count))?, self.at(to, count)?);
        self.api.reduce_scatter(from, to, count, self.local().op, self.lane())
    }

    fn broadcast(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        let (from, to) = (self.at(from, count)?, self.at(to, count)?);
        self.api.broadcast(from, to, count, root, self.lane())
    }

    fn reduce(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        let (from, to) = (self.at(from, count)?, self.at(to, count)?);
        self.api.reduce(from, to, count, (self.local().op, root), self.lane())
    }

    fn send(&mut self, from: Slot, count: u64, peer: u32) -> Result<()> {
        let from = self.at(from, count)?;
        self.api.send(from, count, peer, self.lane())
    }

    fn recv(&mut self, to: Slot, count: u64, peer: u32) -> Result<()> {
        let to = self.at(to, count)?;
        self.api.recv(to, count, peer, self.lane())
    }

    fn copy(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (from, to) = (self.at(from, count)?, self.at(to, count)?);
        self.cuda.copy(from, to, count * self.element, &self.local().stream)
    }

    fn alltoall(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        if self.native != Some(Native::Alltoall) {
            return composed_alltoall(self, from, to, count);
        }
        let all = self.all(count);
        let (from, to) = (self.at(from, all)?, self.at(to, all)?);
        self.api.alltoall(from, to, count, self.lane())
    }

    fn gather(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        if self.native != Some(Native::Gather) {
            return composed_gather(self, from, to, count, root);
        }
        if count == 0 {
            return Ok(());
        }
        // Only the root's result is written.
        let result = if self.rank() == root { self.all(count) } else { count };
        let (from, to) = (self.at(from, count)?, self.at(to, result)?);
        self.api.gather(from, to, count, root, self.lane())
    }

    fn scatter(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        if self.native != Some(Native::Scatter) {
            return composed_scatter(self, from, to, count, root);
        }
        if count == 0 {
            return Ok(());
        }
        // Only the root's input is read.
        let input = if self.rank() == root { self.all(count) } else { count };
        let (from, to) = (self.at(from, input)?, self.at(to, count)?);
        self.api.scatter(from, to, count, root, self.lane())
    }

    fn group_start(&mut self) -> Result<()> {
        self.api.group_start()
    }

    fn group_end(&mut self) -> Result<()> {
        self.api.group_end()
    }
}
