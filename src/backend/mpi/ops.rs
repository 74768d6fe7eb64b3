//! The collectives, each one blocking call of the MPI library.
//!
//! In place is `MPI_IN_PLACE` wherever MPI defines it. Two operations have no defined result in place (sendrecv,
//! and alltoallv with unequal blocks, as in nccl-tests): they read the other buffer instead of one that is being
//! written. An in-place reduce to another root than 0 copies the root's input first where MPICH would crash, and that
//! copy is timed. `MPI_Bcast` has one buffer, so out of place the root copies its input to its output after the call,
//! and that copy is timed.
#![expect(unsafe_code, reason = "MPI is a C library")]

use std::ffi::{c_int, c_void};
use std::ptr;

use mpi::ffi;

use super::{IN_PLACE, Message, MpiHost};
use crate::collective::{Exchange, Ops};
use crate::error::{Error, Result};
use crate::session::launcher::Flavour;
use crate::session::mpi::{FLAVOUR, check, int};
use crate::vocab::{Side, Slot};

/// Every message has the same tag: between two ranks, MPI keeps the order of calls.
const TAG: c_int = 0;

impl MpiHost {
    fn int(&self, count: u64) -> Result<c_int> {
        c_int::try_from(count).map_err(|_| self.too_many(count))
    }

    #[cold]
    fn too_many(&self, count: u64) -> Error {
        let largest = u64::from(i32::MAX.unsigned_abs()) * self.dtype.bytes();
        Error::Unsupported(format!(
            "{count} elements are more than one MPI call can take (counts and offsets are C ints): the largest \
             size of {} is {largest} bytes per call",
            self.dtype
        ))
    }

    /// The address of `count` elements that lie wholly in their buffer.
    fn at(&mut self, slot: Slot, count: u64) -> Result<*mut c_void> {
        let shift = self.shift;
        let element = self.dtype.bytes();
        let bytes = match slot.side {
            Side::Send => self.send.bytes_mut(),
            Side::Recv => self.recv.bytes_mut(),
        };
        let start = slot.offset.saturating_mul(element).saturating_add(shift);
        let end = start.saturating_add(count.saturating_mul(element));
        if end > bytes.len() as u64 {
            return Err(outside(end, bytes.len()));
        }
        Ok(bytes[start as usize..].as_mut_ptr().cast())
    }

    fn pair(&mut self, from: Slot, sent: u64, to: Slot, got: u64) -> Result<(*mut c_void, *mut c_void)> {
        Ok((self.at(from, sent)?, self.at(to, got)?))
    }

    /// Starts what the group holds, receives first, and waits for all.
    fn exchange(&mut self) -> Result<()> {
        let (messages, requests) = (std::mem::take(&mut self.messages), std::mem::take(&mut self.requests));
        let (mut messages, mut requests) = (messages, requests);
        let result = self.start_all(&messages, &mut requests).and_then(|()| wait_all(&mut requests));
        messages.clear();
        requests.clear();
        (self.messages, self.requests) = (messages, requests);
        result
    }

    fn start_all(&mut self, messages: &[Message], requests: &mut Vec<ffi::MPI_Request>) -> Result<()> {
        for message in messages.iter().filter(|message| !message.outgoing) {
            let to = self.at(message.slot, message.count)?;
            let (count, mut request) = (self.int(message.count)?, null_request());
            // SAFETY: `to` has room for `count` elements; nobody else reads or writes there until `wait_all`.
            check("MPI_Irecv", unsafe {
                ffi::MPI_Irecv(to, count, self.datatype, message.peer, TAG, self.comm, &raw mut request)
            })?;
            requests.push(request);
        }
        for message in messages.iter().filter(|message| message.outgoing) {
            let being_written = messages.iter().any(|other| !other.outgoing && message.overlaps(other));
            let side = if being_written { Side::Send } else { message.slot.side };
            let from = self.at(Slot { side, ..message.slot }, message.count)?;
            let (count, mut request) = (self.int(message.count)?, null_request());
            // SAFETY: `from` has `count` elements, which nobody writes until `wait_all`.
            check("MPI_Isend", unsafe {
                ffi::MPI_Isend(from, count, self.datatype, message.peer, TAG, self.comm, &raw mut request)
            })?;
            requests.push(request);
        }
        Ok(())
    }

    fn message(&mut self, message: Message) -> Result<()> {
        self.messages.push(message);
        if self.depth == 0 { self.exchange() } else { Ok(()) }
    }
}

#[cold]
fn outside(end: u64, length: usize) -> Error {
    Error::Setup(format!("a call reaches byte {end} of a buffer of {length} bytes: an error of this program"))
}

fn null_request() -> ffi::MPI_Request {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}

fn wait_all(requests: &mut [ffi::MPI_Request]) -> Result<()> {
    // SAFETY: all requests were started above and are waited for once; a group has at most a few per rank.
    check("MPI_Waitall", unsafe {
        ffi::MPI_Waitall(int(requests.len()), requests.as_mut_ptr(), ffi::RSMPI_STATUSES_IGNORE)
    })
}

/// `blocks` blocks of `count` elements behind `slot`.
fn ahead(slot: Slot, blocks: u32, count: u64) -> Slot {
    Slot { offset: slot.offset + u64::from(blocks) * count, ..slot }
}

impl Ops for MpiHost {
    fn rank(&self) -> u32 {
        self.me.rank
    }

    fn ranks(&self) -> u32 {
        self.me.ranks
    }

    fn all_reduce(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (input, output) = self.pair(from, count, to, count)?;
        let input = if from == to { IN_PLACE } else { input };
        let count = self.int(count)?;
        // SAFETY: both places hold `count` elements and differ, or the input is MPI_IN_PLACE.
        check("MPI_Allreduce", unsafe {
            ffi::MPI_Allreduce(input, output, count, self.datatype, self.op, self.comm)
        })
    }

    fn all_gather(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (input, output) = self.pair(from, count, to, count * u64::from(self.me.ranks))?;
        let input = if from == ahead(to, self.me.rank, count) { IN_PLACE } else { input };
        let (count, datatype) = (self.int(count)?, self.datatype);
        // SAFETY: the input holds one block and the output one for each rank; they are apart or in place.
        check("MPI_Allgather", unsafe {
            ffi::MPI_Allgather(input, count, datatype, output, count, datatype, self.comm)
        })
    }

    fn reduce_scatter(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (mut input, mut output) = self.pair(from, count * u64::from(self.me.ranks), to, count)?;
        if from.side == to.side {
            (input, output) = (IN_PLACE, input);
        }
        let count = self.int(count)?;
        // SAFETY: the input holds a block for each rank and the output one; or in place, the output all of them.
        check("MPI_Reduce_scatter_block", unsafe {
            ffi::MPI_Reduce_scatter_block(input, output, count, self.datatype, self.op, self.comm)
        })
    }

    fn broadcast(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        let (input, output) = self.pair(from, count, to, count)?;
        let is_root = self.me.rank == root;
        let (elements, bytes) = (self.int(count)?, (count * self.dtype.bytes()) as usize);
        let buffer = if is_root { input } else { output };
        // SAFETY: both places hold `count` elements; the root's is only read.
        check("MPI_Bcast", unsafe {
            ffi::MPI_Bcast(buffer, elements, self.datatype, root.cast_signed(), self.comm)
        })?;
        if is_root && from != to {
            // SAFETY: both places hold `bytes` bytes; `copy` allows overlap.
            unsafe { ptr::copy(input.cast::<u8>(), output.cast::<u8>(), bytes) };
        }
        Ok(())
    }

    fn reduce(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        let (mut input, mut output) = self.pair(from, count, to, count)?;
        let other = Slot { side: Side::Send, ..from };
        match (from == to, self.me.rank == root) {
            // MPICH up to 4.1.1 may read address MPI_IN_PLACE here and crash (pmodels/mpich issue 6540).
            (true, true) if FLAVOUR == Flavour::Mpich && root != 0 => {
                self.copy(from, other, count)?;
                input = self.at(other, count)?;
            }
            (true, true) => input = IN_PLACE,
            // Not written; no null, which MPICH 3.4 dereferenced (pmodels/mpich issue 5700).
            (true, false) => output = self.at(other, count)?,
            (false, _) => {}
        }
        let count = self.int(count)?;
        // SAFETY: both places hold `count` elements and are apart, or in place; the output matters at the root only.
        check("MPI_Reduce", unsafe {
            ffi::MPI_Reduce(input, output, count, self.datatype, self.op, root.cast_signed(), self.comm)
        })
    }

    fn send(&mut self, from: Slot, count: u64, peer: u32) -> Result<()> {
        self.message(Message { outgoing: true, slot: from, count, peer: peer.cast_signed() })
    }

    fn recv(&mut self, to: Slot, count: u64, peer: u32) -> Result<()> {
        self.message(Message { outgoing: false, slot: to, count, peer: peer.cast_signed() })
    }

    fn copy(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let (input, output) = self.pair(from, count, to, count)?;
        // SAFETY: both places hold `count` elements; `copy` allows overlap.
        unsafe { ptr::copy(input.cast::<u8>(), output.cast::<u8>(), (count * self.dtype.bytes()) as usize) };
        Ok(())
    }

    fn group_start(&mut self) -> Result<()> {
        self.depth += 1;
        Ok(())
    }

    fn group_end(&mut self) -> Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 { self.exchange() } else { Ok(()) }
    }

    fn alltoall(&mut self, from: Slot, to: Slot, count: u64) -> Result<()> {
        let all = count * u64::from(self.me.ranks);
        let (input, output) = self.pair(from, all, to, all)?;
        let input = if from == to { IN_PLACE } else { input };
        let (count, datatype) = (self.int(count)?, self.datatype);
        // SAFETY: both places hold a block for each rank and are apart, or in place.
        check("MPI_Alltoall", unsafe {
            ffi::MPI_Alltoall(input, count, datatype, output, count, datatype, self.comm)
        })
    }

    fn alltoallv(&mut self, from: Slot, to: Slot, exchange: &Exchange) -> Result<()> {
        let side = if from == to { Side::Send } else { from.side };
        let (input, output) =
            self.pair(Slot { side, ..from }, exchange.send.iter().sum(), to, exchange.recv.iter().sum())?;
        let mut numbers = std::mem::take(&mut self.numbers);
        let ranks = self.me.ranks as usize;
        let lists = [&exchange.send, &exchange.send_at, &exchange.recv, &exchange.recv_at];
        numbers.clear();
        for value in lists.into_iter().flat_map(|list| list.iter().take(ranks)) {
            // The vector keeps its capacity of four numbers a rank; after an error the job ends.
            numbers.push(self.int(*value)?);
        }
        let (counts, rest) = numbers.split_at(ranks);
        let (starts, rest) = rest.split_at(ranks);
        let (room, places) = rest.split_at(ranks);
        // SAFETY: four lists of one number a rank; the sums were checked against both buffers, which are apart.
        let result = check("MPI_Alltoallv", unsafe {
            ffi::MPI_Alltoallv(
                input,
                counts.as_ptr(),
                starts.as_ptr(),
                self.datatype,
                output,
                room.as_ptr(),
                places.as_ptr(),
                self.datatype,
                self.comm,
            )
        });
        self.numbers = numbers;
        result
    }

    fn gather(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        let is_root = self.me.rank == root;
        let expected = if is_root { count * u64::from(self.me.ranks) } else { 0 };
        let (mut input, output) = self.pair(from, count, to, expected)?;
        if is_root && from == ahead(to, root, count) {
            input = IN_PLACE;
        }
        let (count, datatype) = (self.int(count)?, self.datatype);
        // SAFETY: the input holds one block, and the root's output one for each rank; they are apart or in place.
        check("MPI_Gather", unsafe {
            ffi::MPI_Gather(input, count, datatype, output, count, datatype, root.cast_signed(), self.comm)
        })
    }

    fn scatter(&mut self, from: Slot, to: Slot, count: u64, root: u32) -> Result<()> {
        let is_root = self.me.rank == root;
        let held = if is_root { count * u64::from(self.me.ranks) } else { 0 };
        let (input, mut output) = self.pair(from, held, to, count)?;
        if is_root && to == ahead(from, root, count) {
            output = IN_PLACE;
        }
        let (count, datatype) = (self.int(count)?, self.datatype);
        // SAFETY: the root's input holds a block for each rank, the output one; they are apart or in place.
        check("MPI_Scatter", unsafe {
            ffi::MPI_Scatter(input, count, datatype, output, count, datatype, root.cast_signed(), self.comm)
        })
    }
}
