//! libnccl: the operations.

#![expect(unsafe_code, reason = "NCCL's C interface")]

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::CUstream;
use cudarc::nccl::sys::ncclComm_t;

use super::cuda::Address;
use super::nccl::{Lane, Nccl, Reduction};
use crate::error::Result;

/// The operations. Each address was asked for with the length that its count means, so what NCCL reads and writes
/// lies in live device memory; communicator and stream are alive.
impl Nccl {
    #[inline]
    pub(in super::super) fn all_reduce(
        &self,
        from: Address,
        to: Address,
        count: u64,
        op: Reduction,
        lane: Lane<'_>,
    ) -> Result<()> {
        let (from, to, count, comm, stream) = raw(from, to, count, lane);
        // SAFETY: as said above this block.
        let code = unsafe { (self.f.all_reduce)(from, to, count, lane.dtype, op.0, comm, stream) };
        self.ok("ncclAllReduce", code)
    }

    #[inline]
    pub(in super::super) fn all_gather(
        &self,
        from: Address,
        to: Address,
        count: u64,
        lane: Lane<'_>,
    ) -> Result<()> {
        let (from, to, count, comm, stream) = raw(from, to, count, lane);
        // SAFETY: as said above this block.
        self.ok("ncclAllGather", unsafe { (self.f.all_gather)(from, to, count, lane.dtype, comm, stream) })
    }

    #[inline]
    pub(in super::super) fn reduce_scatter(
        &self,
        from: Address,
        to: Address,
        count: u64,
        op: Reduction,
        lane: Lane<'_>,
    ) -> Result<()> {
        let (from, to, count, comm, stream) = raw(from, to, count, lane);
        // SAFETY: as said above this block.
        let code = unsafe { (self.f.reduce_scatter)(from, to, count, lane.dtype, op.0, comm, stream) };
        self.ok("ncclReduceScatter", code)
    }

    #[inline]
    pub(in super::super) fn broadcast(
        &self,
        from: Address,
        to: Address,
        count: u64,
        root: u32,
        lane: Lane<'_>,
    ) -> Result<()> {
        let (from, to, count, comm, stream) = raw(from, to, count, lane);
        // SAFETY: as said above this block; a root that does not exist is refused.
        let code =
            unsafe { (self.f.broadcast)(from, to, count, lane.dtype, root.cast_signed(), comm, stream) };
        self.ok("ncclBroadcast", code)
    }

    #[inline]
    pub(in super::super) fn reduce(
        &self,
        from: Address,
        to: Address,
        count: u64,
        (op, root): (Reduction, u32),
        lane: Lane<'_>,
    ) -> Result<()> {
        let (from, to, count, comm, stream) = raw(from, to, count, lane);
        // SAFETY: as said above this block; a root that does not exist is refused.
        let code =
            unsafe { (self.f.reduce)(from, to, count, lane.dtype, op.0, root.cast_signed(), comm, stream) };
        self.ok("ncclReduce", code)
    }

    #[inline]
    pub(in super::super) fn send(&self, from: Address, count: u64, peer: u32, lane: Lane<'_>) -> Result<()> {
        let (from, _, count, comm, stream) = raw(from, from, count, lane);
        // SAFETY: as said above this block; a peer that does not exist is refused.
        self.ok("ncclSend", unsafe {
            (self.f.send)(from, count, lane.dtype, peer.cast_signed(), comm, stream)
        })
    }

    #[inline]
    pub(in super::super) fn recv(&self, to: Address, count: u64, peer: u32, lane: Lane<'_>) -> Result<()> {
        let (_, to, count, comm, stream) = raw(to, to, count, lane);
        // SAFETY: as said above this block; a peer that does not exist is refused.
        self.ok("ncclRecv", unsafe { (self.f.recv)(to, count, lane.dtype, peer.cast_signed(), comm, stream) })
    }
}

/// The arguments as C has them.
#[inline]
fn raw(
    from: Address,
    to: Address,
    count: u64,
    lane: Lane<'_>,
) -> (*const c_void, *mut c_void, usize, ncclComm_t, CUstream) {
    (
        ptr::with_exposed_provenance(from.0 as usize),
        ptr::with_exposed_provenance_mut(to.0 as usize),
        count as usize,
        lane.comm.0,
        lane.stream.0,
    )
}
