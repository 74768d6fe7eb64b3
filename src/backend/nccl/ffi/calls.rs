//! libnccl: the operations.

#![expect(unsafe_code, reason = "NCCL's C interface")]

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::CUstream;
use cudarc::nccl::sys::ncclComm_t;

use super::cuda::Address;
use super::nccl::{Lane, Nccl, Reduction};
use crate::collective::Native;
use crate::error::{Error, Result};

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

/// The calls that came with 2.28; an error of this program where the library lacks them.
impl Nccl {
    /// Whether the library has the call.
    pub(in super::super) fn has(&self, call: Native) -> bool {
        match call {
            Native::Alltoall => self.f.alltoall.is_some(),
            Native::Gather => self.f.gather.is_some(),
            Native::Scatter => self.f.scatter.is_some(),
        }
    }

    #[inline]
    pub(in super::super) fn alltoall(
        &self,
        from: Address,
        to: Address,
        count: u64,
        lane: Lane<'_>,
    ) -> Result<()> {
        let call = self.f.alltoall.ok_or_else(absent)?;
        let (from, to, count, comm, stream) = raw(from, to, count, lane);
        // SAFETY: as said above the operations.
        self.ok("ncclAlltoAll", unsafe { call(from, to, count, lane.dtype, comm, stream) })
    }

    #[inline]
    pub(in super::super) fn gather(
        &self,
        from: Address,
        to: Address,
        count: u64,
        root: u32,
        lane: Lane<'_>,
    ) -> Result<()> {
        let call = self.f.gather.ok_or_else(absent)?;
        let (from, to, count, comm, stream) = raw(from, to, count, lane);
        // SAFETY: as said above the operations; a root that does not exist is refused.
        let code = unsafe { call(from, to, count, lane.dtype, root.cast_signed(), comm, stream) };
        self.ok("ncclGather", code)
    }

    #[inline]
    pub(in super::super) fn scatter(
        &self,
        from: Address,
        to: Address,
        count: u64,
        root: u32,
        lane: Lane<'_>,
    ) -> Result<()> {
        let call = self.f.scatter.ok_or_else(absent)?;
        let (from, to, count, comm, stream) = raw(from, to, count, lane);
        // SAFETY: as said above the operations; a root that does not exist is refused.
        let code = unsafe { call(from, to, count, lane.dtype, root.cast_signed(), comm, stream) };
        self.ok("ncclScatter", code)
    }
}

#[cold]
fn absent() -> Error {
    Error::Setup("a call that this NCCL lacks was chosen; this is an error of critrank".to_owned())
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
