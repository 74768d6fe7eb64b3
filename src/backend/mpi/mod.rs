//! The MPI library's own collectives on host memory: the fabric without its GPUs, and what runs on any machine.
#![expect(unsafe_code, reason = "MPI's constants are C statics")]

mod buffer;
mod memory;
mod ops;

use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use mpi::ffi;

use self::buffer::Buffer;
use super::{Backend, Caps, Device, FLIPPED, Kind, Library, Memory, Setup};
use crate::error::{Error, Result};
use crate::session::launcher::Flavour;
use crate::session::mpi::{FLAVOUR, MpiWorld};
use crate::session::{self, Control};
use crate::verify::{Arithmetic, Bad, Pattern, Tally, check, collect_bad, fill};
use crate::vocab::{Content, Dtype, Member, RedOp, Run, Side, Slot};

/// `MPI_IN_PLACE`, a cast pointer in both headers that no binding generator can read: 1 in Open MPI, -1 in MPICH.
const IN_PLACE: *mut c_void = match FLAVOUR {
    Flavour::OpenMpi => std::ptr::without_provenance_mut(1),
    Flavour::Mpich => std::ptr::without_provenance_mut(usize::MAX),
};

/// The backend; one rank per process.
#[derive(Debug)]
pub struct MpiHost {
    me: Member,
    /// What operations go over: all processes of the job, or a duplicate of them that is ours to free.
    comm: ffi::MPI_Comm,
    local_ranks: u32,
    library: Library,
    send: Buffer,
    recv: Buffer,
    shift: u64,
    dtype: Dtype,
    datatype: ffi::MPI_Datatype,
    op: ffi::MPI_Op,
    origin: Instant,
    marks: Vec<u64>,
    depth: u32,
    messages: Vec<Message>,
    requests: Vec<ffi::MPI_Request>,
    numbers: Vec<c_int>,
}

/// A send or receive that waits for the end of its group.
#[derive(Clone, Copy, Debug)]
struct Message {
    outgoing: bool,
    slot: Slot,
    count: u64,
    peer: c_int,
}

impl Message {
    fn overlaps(&self, other: &Self) -> bool {
        self.slot.side == other.slot.side
            && self.slot.offset < other.slot.offset + other.count
            && other.slot.offset < self.slot.offset + self.count
    }
}

impl MpiHost {
    /// Over all processes of the job; `world` must outlive it (MPI is finalised by it alone).
    pub fn new(world: &MpiWorld) -> Result<Self> {
        let (name, version) = world.library();
        let me = Member { rank: world.rank(), ranks: world.size() };
        if me.ranks > Pattern::MAX_RANKS {
            return Err(Error::Unsupported(format!(
                "{} ranks are more than the data checks cover; start at most {}",
                me.ranks,
                Pattern::MAX_RANKS
            )));
        }
        let ranks = me.ranks as usize;
        Ok(Self {
            me,
            comm: session::mpi::world(),
            local_ranks: world.local_size(),
            library: Library { name, version, code: 0, path: String::new() },
            send: Buffer::default(),
            recv: Buffer::default(),
            shift: 0,
            dtype: Dtype::Float,
            datatype: datatype(Dtype::Float),
            op: sum(),
            origin: Instant::now(),
            marks: Vec::new(),
            depth: 0,
            messages: Vec::with_capacity(2 * ranks),
            requests: Vec::with_capacity(2 * ranks),
            numbers: Vec::with_capacity(4 * ranks),
        })
    }

    /// Frees the duplicate, if there is one; collective.
    fn free_duplicate(&mut self) -> Result<()> {
        if self.comm == session::mpi::world() {
            return Ok(());
        }
        let mut comm = std::mem::replace(&mut self.comm, session::mpi::world());
        // SAFETY: made by `reconnect`, with nothing under way over it; the handle is not used again.
        session::mpi::check("MPI_Comm_free", unsafe { ffi::MPI_Comm_free(&raw mut comm) })
    }

    /// The send and the receive buffer, for who makes calls of their own beside ours.
    pub fn buffers(&mut self) -> (&mut [u8], &mut [u8]) {
        (self.send.bytes_mut(), self.recv.bytes_mut())
    }

    /// The bytes of a run, as far as the buffer has them.
    fn range(&self, run: &Run, length: usize) -> std::ops::Range<usize> {
        let start = (run.at.offset * self.dtype.bytes() + self.shift) as usize;
        let end = start + (run.count * self.dtype.bytes()) as usize;
        start.min(length)..end.min(length)
    }

    fn bytes(&self, run: &Run) -> &[u8] {
        let buffer = match run.at.side {
            Side::Send => &self.send,
            Side::Recv => &self.recv,
        };
        &buffer.bytes()[self.range(run, buffer.bytes().len())]
    }
}

/// MPI's type: of 16-bit and FP8 floats, which MPI has not, an unsigned integer as wide.
fn datatype(dtype: Dtype) -> ffi::MPI_Datatype {
    // SAFETY: constants of the library.
    unsafe {
        match dtype {
            Dtype::Int8 => ffi::RSMPI_INT8_T,
            Dtype::Uint8 | Dtype::F8e4m3 | Dtype::F8e5m2 => ffi::RSMPI_UINT8_T,
            Dtype::Int32 => ffi::RSMPI_INT32_T,
            Dtype::Uint32 => ffi::RSMPI_UINT32_T,
            Dtype::Int64 => ffi::RSMPI_INT64_T,
            Dtype::Uint64 => ffi::RSMPI_UINT64_T,
            Dtype::Half | Dtype::Bfloat16 => ffi::RSMPI_UINT16_T,
            Dtype::Float => ffi::RSMPI_FLOAT,
            Dtype::Double => ffi::RSMPI_DOUBLE,
        }
    }
}

fn operation(op: RedOp) -> Option<ffi::MPI_Op> {
    // SAFETY: constants of the library.
    unsafe {
        match op {
            RedOp::Sum => Some(ffi::RSMPI_SUM),
            RedOp::Prod => Some(ffi::RSMPI_PROD),
            RedOp::Max => Some(ffi::RSMPI_MAX),
            RedOp::Min => Some(ffi::RSMPI_MIN),
            RedOp::Avg | RedOp::MulSum => None,
        }
    }
}

/// Whether this library's maximum of an unsigned type is the larger value: asked of the library itself, on one
/// element, because the answer depends on its version and its build.
fn orders(dtype: Dtype) -> bool {
    if !matches!(dtype, Dtype::Uint8 | Dtype::Uint32 | Dtype::Uint64) {
        return true;
    }
    let (high, mut found) = (u64::MAX.to_ne_bytes(), [0_u8; 8]);
    // SAFETY: both hold one element of the widest type.
    let code = unsafe {
        ffi::MPI_Reduce_local(
            high.as_ptr().cast::<c_void>(),
            found.as_mut_ptr().cast::<c_void>(),
            1,
            datatype(dtype),
            ffi::RSMPI_MAX,
        )
    };
    code == 0 && found[0] == u8::MAX
}

fn sum() -> ffi::MPI_Op {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_SUM }
}

impl Backend for MpiHost {
    fn kind(&self) -> Kind {
        Kind::Mpi
    }

    fn library(&self) -> Library {
        self.library.clone()
    }

    fn caps(&self) -> Caps {
        Caps { shrinks_to_start: true, asynchronous: false, arithmetic: Arithmetic::Narrow, simulated: false }
    }

    fn locals(&self) -> u32 {
        1
    }

    fn devices(&self) -> Vec<Device> {
        vec![Device {
            index: 0,
            bus_id: "0000:00:00".to_owned(),
            name: "HOST".to_owned(),
            uuid: String::new(),
            compute_capability: 0,
            driver: String::new(),
        }]
    }

    fn select(&mut self, local: u32) -> Result<()> {
        if local == 0 { Ok(()) } else { Err(Error::Unsupported(ONE_RANK.to_owned())) }
    }

    fn refuses(&self, dtype: Dtype, op: Option<RedOp>) -> Option<String> {
        let op = op?;
        if operation(op).is_none() {
            return Some(format!("MPI has no {op}"));
        }
        if matches!(op, RedOp::Max | RedOp::Min) && !orders(dtype) {
            return Some(format!(
                "{} {} takes the {op} of {dtype} as if it were signed (pmodels/mpich issue 6083)",
                self.library.name, self.library.version
            ));
        }
        let narrow = matches!(dtype, Dtype::Half | Dtype::Bfloat16) || dtype.is_fp8();
        narrow.then(|| format!("MPI has no arithmetic for {dtype}"))
    }

    fn largest_count(&self) -> u64 {
        u64::from(i32::MAX.unsigned_abs())
    }

    fn memory(&mut self) -> Result<Memory> {
        memory::share(self.local_ranks)
    }

    fn allocate(&mut self, bytes: u64, marks: usize) -> Result<()> {
        self.send = Buffer::new(bytes)?;
        self.recv = Buffer::new(bytes)?;
        self.marks = vec![0; marks];
        Ok(())
    }

    fn prepare(&mut self, setup: &Setup) -> Result<()> {
        if let Some(reason) = self.refuses(setup.dtype, setup.op) {
            return Err(Error::Unsupported(reason));
        }
        self.dtype = setup.dtype;
        self.datatype = datatype(setup.dtype);
        self.op = setup.op.and_then(operation).unwrap_or_else(sum);
        Ok(())
    }

    fn shift(&mut self, bytes: u64) {
        self.shift = bytes;
    }

    fn fill(&mut self, content: &Content, pattern: &Pattern, inverted: bool) -> Result<()> {
        let spec = pattern.spec();
        for run in content {
            let length = self.recv.bytes().len();
            let range = self.range(run, length);
            let buffer = match run.at.side {
                Side::Send => &mut self.send,
                Side::Recv => &mut self.recv,
            };
            fill(&mut buffer.bytes_mut()[range], &spec, run, inverted);
        }
        Ok(())
    }

    fn check(&mut self, content: &Content, pattern: &Pattern) -> Result<Tally> {
        let spec = pattern.spec();
        let mut tally = Tally::default();
        for run in content {
            tally.merge(&check(self.bytes(run), &spec, run));
        }
        Ok(tally)
    }

    fn bad(
        &mut self,
        content: &Content,
        pattern: &Pattern,
        pattern_b: bool,
        limit: usize,
    ) -> Result<Vec<Bad>> {
        let spec = pattern.spec();
        let mut bad = Vec::new();
        for run in content {
            bad.extend(collect_bad(self.bytes(run), &spec, run, pattern_b, limit - bad.len()));
        }
        Ok(bad)
    }

    fn flip(&mut self, at: Slot) -> Result<()> {
        let last = ((at.offset + 1) * self.dtype.bytes() + self.shift) as usize - 1;
        let buffer = match at.side {
            Side::Send => &mut self.send,
            Side::Recv => &mut self.recv,
        };
        let byte = buffer.bytes_mut().get_mut(last);
        *byte.ok_or_else(|| Error::Setup(NO_ELEMENT.to_owned()))? ^= FLIPPED;
        Ok(())
    }

    fn now(&mut self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    fn mark(&mut self, index: usize) -> Result<()> {
        let now = self.now();
        let mark = self.marks.get_mut(index).ok_or_else(|| Error::Setup(NO_MARK.to_owned()))?;
        *mark = now;
        Ok(())
    }

    fn between_us(&mut self, from: usize, to: usize) -> Result<f64> {
        match (self.marks.get(from), self.marks.get(to)) {
            (Some(from), Some(to)) => Ok((*to as f64 - *from as f64) / 1000.0),
            _ => Err(Error::Setup(NO_MARK.to_owned())),
        }
    }

    /// Calls block, so everything is complete; a call that does not return is the watchdog's business.
    fn wait(&mut self, _deadline: Duration) -> Result<()> {
        Ok(())
    }

    fn disconnect(&mut self) -> Result<()> {
        self.free_duplicate()
    }

    /// A duplicate of the job's communicator; it has that one's error handler.
    fn reconnect(&mut self, _id: &[u8]) -> Result<()> {
        self.free_duplicate()?;
        let mut comm = self.comm;
        // SAFETY: MPI is initialised; every process calls this alike, and `comm` is written before it is read.
        let code = unsafe { ffi::MPI_Comm_dup(session::mpi::world(), &raw mut comm) };
        session::mpi::check("MPI_Comm_dup", code)?;
        self.comm = comm;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.free_duplicate()?;
        self.send = Buffer::default();
        self.recv = Buffer::default();
        Ok(())
    }
}

const ONE_RANK: &str =
    "the mpi backend drives one rank per process; start more processes instead of using -g or -t";
const NO_ELEMENT: &str = "an element beyond the buffer: an error of this program";
const NO_MARK: &str = "a mark beyond those that were made: an error of this program";
