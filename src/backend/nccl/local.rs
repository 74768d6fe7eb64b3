//! One local rank: its GPU, communicator, stream, buffers, events and reduction.

use std::ffi::c_int;

use super::device::Place;
use super::ffi::{
    Address, Buffer, Comm, Cuda, Event, Gate, Graph, Kernels, Nccl, Reduction, Registered, Stream,
};
use crate::error::{Error, Result};
use crate::vocab::{Dtype, RedOp, Side};

/// NCCL's number of a type (`ncclDataType_t`).
pub(super) const fn type_number(dtype: Dtype) -> c_int {
    match dtype {
        Dtype::Int8 => 0,
        Dtype::Uint8 => 1,
        Dtype::Int32 => 2,
        Dtype::Uint32 => 3,
        Dtype::Int64 => 4,
        Dtype::Uint64 => 5,
        Dtype::Half => 6,
        Dtype::Float => 7,
        Dtype::Double => 8,
        Dtype::Bfloat16 => 9,
        Dtype::F8e4m3 => 10,
        Dtype::F8e5m2 => 11,
    }
}

/// NCCL's own reduction (`ncclRedOp_t`); `MulSum` has none, it is created for each communicator.
pub(super) const fn own_reduction(op: RedOp) -> Option<Reduction> {
    match op {
        RedOp::Sum => Some(Reduction(0)),
        RedOp::Prod => Some(Reduction(1)),
        RedOp::Max => Some(Reduction(2)),
        RedOp::Min => Some(Reduction(3)),
        RedOp::Avg => Some(Reduction(4)),
        RedOp::MulSum => None,
    }
}

/// The two buffers.
#[derive(Debug)]
struct Buffers {
    send: Buffer,
    recv: Buffer,
    /// They came from NCCL's allocator and go back to it.
    of_nccl: bool,
}

/// A local rank.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) place: Place,
    pub(super) comm: Comm,
    pub(super) stream: Stream,
    /// What was captured, until it is forgotten.
    pub(super) graph: Option<Graph>,
    /// What the operations of the current row reduce with.
    pub(super) op: Reduction,
    /// The reduction that was created for the current row.
    created: Option<Reduction>,
    buffers: Option<Buffers>,
    /// With `-R`, the buffers' registration.
    pub(super) registered: Option<Registered>,
    marks: Vec<Event>,
    /// Stamped while the host looks: the first is the one that it knows best.
    pub(super) anchors: [Option<Event>; 2],
    /// With `-z G`, what holds the stream.
    pub(super) gate: Option<Gate>,
    /// Loaded at the first fill, and what they report to.
    pub(super) kernels: Option<(Kernels, Buffer)>,
}

impl Local {
    /// A rank that has left its communicator, in a new one.
    pub(super) fn again(remains: Remains, comm: Comm) -> Self {
        let Remains { place, stream, buffers, marks, anchors, gate, kernels } = remains;
        let (graph, op, created, registered) = (None, Reduction(0), None, None);
        Self { place, comm, stream, graph, op, created, buffers, registered, marks, anchors, gate, kernels }
    }

    /// A rank without buffers; its context is current.
    pub(super) fn new(cuda: &Cuda, place: Place, comm: Comm, null_stream: bool) -> Result<Self> {
        let stream = if null_stream { Cuda::null_stream() } else { cuda.stream()? };
        let op = Reduction(0);
        let (graph, created, buffers, registered, marks, kernels) =
            (None, None, None, None, Vec::new(), None);
        let (anchors, gate) = ([None, None], None);
        Ok(Self {
            place,
            comm,
            stream,
            graph,
            op,
            created,
            buffers,
            registered,
            marks,
            anchors,
            gate,
            kernels,
        })
    }

    /// Makes buffers and events; the rank's context is current.
    pub(super) fn allocate(&mut self, cuda: &Cuda, nccl: &Nccl, bytes: u64, marks: usize) -> Result<()> {
        // A buffer of no bytes would have no address, and NCCL refuses null even for no elements.
        let bytes = bytes.max(256);
        let of_nccl = nccl.has_memory();
        let make = || nccl.allocate(bytes).unwrap_or_else(|| cuda.allocate(bytes));
        self.buffers = Some(Buffers { send: make()?, recv: make()?, of_nccl });
        self.marks = (0..marks).map(|_| cuda.event()).collect::<Result<_>>()?;
        Ok(())
    }

    /// The send and the receive buffer, once they are made.
    pub(super) fn both(&self) -> Option<[&Buffer; 2]> {
        self.buffers.as_ref().map(|buffers| [&buffers.send, &buffers.recv])
    }

    /// The address `offset` bytes into a buffer, with room for `bytes`.
    #[inline]
    pub(super) fn address(&self, side: Side, offset: u64, bytes: u64) -> Result<Address> {
        let buffers = self.buffers.as_ref();
        let buffer = buffers.map(|both| if side == Side::Send { &both.send } else { &both.recv });
        buffer.and_then(|buffer| buffer.place(offset, bytes)).ok_or_else(|| outside(offset, bytes))
    }

    /// Starts what was captured.
    #[inline]
    pub(super) fn replay(&self, cuda: &Cuda) -> Result<()> {
        let nothing = || Error::Setup("nothing was captured; this is an error of critrank".to_owned());
        cuda.launch_graph(self.graph.as_ref().ok_or_else(nothing)?, &self.stream)
    }

    /// The event of a mark.
    #[inline]
    pub(super) fn mark(&self, index: usize) -> Result<&Event> {
        self.marks.get(index).ok_or_else(|| Error::Setup(format!("mark {index} was never made")))
    }

    /// Takes the reduction for a row. One that needs a scalar is created, and the last such one destroyed.
    pub(super) fn reduce_with(
        &mut self,
        nccl: &Nccl,
        dtype: Dtype,
        op: Option<RedOp>,
        scalar: [u8; 8],
    ) -> Result<()> {
        if let Some(last) = self.created.take() {
            nccl.destroy_op(last, &self.comm)?;
        }
        self.op = match op.map(own_reduction) {
            None => Reduction(0),
            Some(Some(own)) => own,
            Some(None) => {
                let created = nccl.premul(&self.comm, type_number(dtype), scalar)?;
                self.created = Some(created);
                created
            }
        };
        Ok(())
    }

    /// Destroys the reduction and the communicator, or stops the communicator if it has `failed`.
    pub(super) fn leave(mut self, nccl: &Nccl, failed: bool) -> Result<Remains> {
        if failed {
            nccl.abort(self.comm)?;
        } else {
            if let Some(last) = self.created.take() {
                nccl.destroy_op(last, &self.comm)?;
            }
            if let Some(registered) = self.registered.take() {
                nccl.deregister(&self.comm, registered)?;
            }
            nccl.destroy(self.comm)?;
        }
        let Self { place, stream, buffers, marks, anchors, gate, kernels, .. } = self;
        Ok(Remains { place, stream, buffers, marks, anchors, gate, kernels })
    }
}

/// What is left of a rank without its communicator.
#[derive(Debug)]
pub(super) struct Remains {
    pub(super) place: Place,
    stream: Stream,
    buffers: Option<Buffers>,
    marks: Vec<Event>,
    anchors: [Option<Event>; 2],
    gate: Option<Gate>,
    kernels: Option<(Kernels, Buffer)>,
}

impl Remains {
    /// Frees everything. All communicators of the process are gone by now: they may have mapped the buffers.
    pub(super) fn free(self, cuda: &Cuda, nccl: &Nccl) -> Result<()> {
        cuda.enter(&self.place.context)?;
        for event in self.marks.into_iter().chain(self.anchors.into_iter().flatten()) {
            cuda.destroy_event(event)?;
        }
        if let Some(gate) = self.gate {
            gate.free(cuda)?;
        }
        if let Some((kernels, report)) = self.kernels {
            cuda.free(report)?;
            kernels.unload(cuda)?;
        }
        if let Some(Buffers { send, recv, of_nccl }) = self.buffers {
            for buffer in [send, recv] {
                if of_nccl { nccl.free(buffer)? } else { cuda.free(buffer)? }
            }
        }
        cuda.destroy_stream(self.stream)?;
        cuda.release(self.place.context)
    }
}

/// A mistake of this program, found before the GPU could make it worse.
#[cold]
fn outside(offset: u64, bytes: u64) -> Error {
    Error::Setup(format!(
        "{bytes} bytes at offset {offset} are outside the buffers; this is an error of critrank"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::nccl::sys::{ncclDataType_t, ncclRedOp_t};

    #[test]
    fn numbers_are_those_of_nccl() {
        let types = [
            (Dtype::Int8, ncclDataType_t::ncclInt8),
            (Dtype::Uint8, ncclDataType_t::ncclUint8),
            (Dtype::Int32, ncclDataType_t::ncclInt32),
            (Dtype::Uint32, ncclDataType_t::ncclUint32),
            (Dtype::Int64, ncclDataType_t::ncclInt64),
            (Dtype::Uint64, ncclDataType_t::ncclUint64),
            (Dtype::Half, ncclDataType_t::ncclFloat16),
            (Dtype::Float, ncclDataType_t::ncclFloat32),
            (Dtype::Double, ncclDataType_t::ncclFloat64),
            (Dtype::Bfloat16, ncclDataType_t::ncclBfloat16),
            (Dtype::F8e4m3, ncclDataType_t::ncclFloat8e4m3),
            (Dtype::F8e5m2, ncclDataType_t::ncclFloat8e5m2),
        ];
        assert_eq!(types.map(|(ours, _)| ours), Dtype::ALL);
        for (ours, theirs) in types {
            assert_eq!(type_number(ours), theirs as c_int, "{ours}");
        }
        let ops = [
            (RedOp::Sum, ncclRedOp_t::ncclSum),
            (RedOp::Prod, ncclRedOp_t::ncclProd),
            (RedOp::Max, ncclRedOp_t::ncclMax),
            (RedOp::Min, ncclRedOp_t::ncclMin),
            (RedOp::Avg, ncclRedOp_t::ncclAvg),
        ];
        for (ours, theirs) in ops {
            assert_eq!(own_reduction(ours), Some(Reduction(theirs as c_int)), "{ours}");
        }
        assert_eq!(own_reduction(RedOp::MulSum), None);
    }
}
