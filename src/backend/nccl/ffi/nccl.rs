//! libnccl: communicators, reductions and operations.

#![expect(unsafe_code, reason = "NCCL's C interface")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::{fmt, ptr};

use cudarc::driver::sys::CUstream;
use cudarc::nccl::sys::{ncclComm_t, ncclSimInfo_t, ncclUniqueId, ncclWindow_t};

use super::cuda::{Buffer, Context, Cuda, Stream};
use super::load::{file_of, functions, open};
use crate::backend::nccl::config::Config;
use crate::backend::nccl::hints;
use crate::error::{Error, Result};

/// `ncclInProgress`.
const IN_PROGRESS: c_int = 7;
/// `ncclScalarHostImmediate`.
const HOST_IMMEDIATE: c_int = 1;

functions! {
    /// Results, types and reductions are `c_int`: a library newer than the bindings may use numbers that they lack.
    Functions
    required {
        get_version = ncclGetVersion(*mut c_int) -> c_int;
        get_unique_id = ncclGetUniqueId(*mut ncclUniqueId) -> c_int;
        init = ncclCommInitRankConfig(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *const Config) -> c_int;
        destroy = ncclCommDestroy(ncclComm_t) -> c_int;
        abort = ncclCommAbort(ncclComm_t) -> c_int;
        async_error = ncclCommGetAsyncError(ncclComm_t, *mut c_int) -> c_int;
        error_string = ncclGetErrorString(c_int) -> *const c_char;
        last_error = ncclGetLastError(ncclComm_t) -> *const c_char;
        premul = ncclRedOpCreatePreMulSum(*mut c_int, *mut c_void, c_int, c_int, ncclComm_t) -> c_int;
        op_destroy = ncclRedOpDestroy(c_int, ncclComm_t) -> c_int;
        group_start = ncclGroupStart() -> c_int;
        group_end = ncclGroupEnd() -> c_int;
        all_reduce = ncclAllReduce(
            *const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream
        ) -> c_int;
        all_gather = ncclAllGather(*const c_void, *mut c_void, usize, c_int, ncclComm_t, CUstream) -> c_int;
        reduce_scatter = ncclReduceScatter(
            *const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream
        ) -> c_int;
        broadcast = ncclBroadcast(
            *const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream
        ) -> c_int;
        reduce = ncclReduce(
            *const c_void, *mut c_void, usize, c_int, c_int, c_int, ncclComm_t, CUstream
        ) -> c_int;
        send = ncclSend(*const c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int;
        recv = ncclRecv(*mut c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int;
    }
    optional {
        mem_alloc = ncclMemAlloc(*mut *mut c_void, usize) -> c_int;
        mem_free = ncclMemFree(*mut c_void) -> c_int;
        register = ncclCommRegister(ncclComm_t, *mut c_void, usize, *mut *mut c_void) -> c_int;
        deregister = ncclCommDeregister(ncclComm_t, *mut c_void) -> c_int;
        window_register = ncclCommWindowRegister(
            ncclComm_t, *mut c_void, usize, *mut ncclWindow_t, c_int
        ) -> c_int;
        window_deregister = ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) -> c_int;
        alltoall = ncclAlltoAll(*const c_void, *mut c_void, usize, c_int, ncclComm_t, CUstream) -> c_int;
        gather = ncclGather(
            *const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream
        ) -> c_int;
        scatter = ncclScatter(
            *const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream
        ) -> c_int;
        split = ncclCommSplit(ncclComm_t, c_int, c_int, *mut ncclComm_t, *const Config) -> c_int;
        simulate = ncclGroupSimulateEnd(*mut ncclSimInfo_t) -> c_int;
        init_scalable = ncclCommInitRankScalable(
            *mut ncclComm_t, c_int, c_int, c_int, *mut ncclUniqueId, *const Config
        ) -> c_int;
        finalize = ncclCommFinalize(ncclComm_t) -> c_int;
        shrink = ncclCommShrink(
            ncclComm_t, *mut c_int, c_int, *mut ncclComm_t, *const Config, c_uint
        ) -> c_int;
    }
}

/// `NCCL_SIM_INFO_INITIALIZER`: its magic number, and what an estimate holds before NCCL writes one.
const SIM_MAGIC: c_uint = 0x7468_5283;
const SIM_UNDEFINED: f32 = -1.0;

/// A communicator of one local rank.
#[derive(Debug)]
pub(in super::super) struct Comm(pub(super) ncclComm_t);

/// A reduction: one of NCCL's own, or one that was created for a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Reduction(pub(in super::super) c_int);

/// What one operation needs besides its data: where it runs.
#[derive(Clone, Copy)]
pub(in super::super) struct Lane<'a> {
    /// The rank's communicator.
    pub(in super::super) comm: &'a Comm,
    /// The rank's stream.
    pub(in super::super) stream: &'a Stream,
    /// NCCL's number of the element type.
    pub(in super::super) dtype: c_int,
}

/// libnccl, loaded.
#[derive(Clone, Copy)]
pub(in super::super) struct Nccl {
    pub(super) f: Functions,
    version: u32,
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nccl").field("version", &self.version).field("late", &self.f.late()).finish()
    }
}

impl Nccl {
    /// Loads the first of `names` that can be loaded.
    pub(in super::super) fn load(names: &[String]) -> Result<&'static Self> {
        let library = open(names).map_err(|reason| {
            Error::Setup(format!(
                "NCCL cannot be loaded ({reason}); install it (package libnccl2, or pip's nvidia-nccl-cu12 or \
                 nvidia-nccl-cu13), put its folder into LD_LIBRARY_PATH, or name the file in \
                 CRITRANK_NCCL_LIBRARY; --backend mpi measures the fabric without it"
            ))
        })?;
        // SAFETY: the names of the table are those of nccl.h, and their types have not changed since 2.14.
        let f = unsafe { Functions::load(library) }.map_err(|missing| {
            Error::Setup(format!(
                "the NCCL that was loaded lacks {}; NCCL 2.18 or later is needed: name its file in \
                 CRITRANK_NCCL_LIBRARY, or put its folder first in LD_LIBRARY_PATH",
                missing.join(", ")
            ))
        })?;
        let mut nccl = Self { f, version: 0 };
        let mut version = 0;
        // SAFETY: writes one int.
        nccl.ok("ncclGetVersion", unsafe { (f.get_version)(&raw mut version) })?;
        nccl.version = version.unsigned_abs();
        Ok(Box::leak(Box::new(nccl)))
    }

    /// Version as one number, such as 22803.
    pub(in super::super) fn version(&self) -> u32 {
        self.version
    }

    /// The file that it was loaded from; empty where that cannot be told.
    pub(in super::super) fn path(&self) -> String {
        file_of(self.f.get_version as usize).map_or_else(String::new, |path| path.display().to_string())
    }

    /// Nothing for success, else the error in NCCL's words.
    #[inline]
    pub(super) fn ok(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code)) }
    }

    #[cold]
    fn error(&self, call: &'static str, code: c_int) -> Error {
        let words = |text: *const c_char| {
            // SAFETY: not null, so a text that ends with a zero and stays until the next call into NCCL.
            let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy());
            text.unwrap_or_default().into_owned()
        };
        // SAFETY: takes any number.
        let text = words(unsafe { (self.f.error_string)(code) });
        // SAFETY: the communicator is not looked at and may be null.
        let last = words(unsafe { (self.f.last_error)(ptr::null_mut()) });
        let hint = hints::nccl(code, &last);
        let last: Vec<_> = last.split_whitespace().collect();
        let last = if last.is_empty() { String::new() } else { format!("; last error: {}", last.join(" ")) };
        Error::Nccl { call, text: format!("{} ({code}): {text}{last}", hints::nccl_name(code)), hint }
    }

    /// A new id, for rank 0 to give to all.
    pub(in super::super) fn unique_id(&self) -> Result<[u8; 128]> {
        let mut id = ncclUniqueId { internal: [0; 128] };
        // SAFETY: writes one id.
        self.ok("ncclGetUniqueId", unsafe { (self.f.get_unique_id)(&raw mut id) })?;
        Ok(id.internal.map(c_char::cast_unsigned))
    }

    /// Makes the communicators of local ranks `first..`, one per context. Blocks until all ranks of the job do so.
    pub(in super::super) fn init(
        &self,
        cuda: &Cuda,
        contexts: &[&Context],
        config: &Config,
        id: &[u8; 128],
        (first, ranks): (u32, u32),
    ) -> Result<Vec<Comm>> {
        let id = ncclUniqueId { internal: id.map(u8::cast_signed) };
        // One thread that makes several communicators must group them, or the first waits for the second.
        let grouped = contexts.len() > 1;
        let mut comms: Vec<ncclComm_t> = vec![ptr::null_mut(); contexts.len()];
        if grouped {
            self.group_start()?;
        }
        for (rank, (comm, context)) in (first..).zip(comms.iter_mut().zip(contexts)) {
            cuda.enter(context)?;
            // SAFETY: the handle is written now or at the end of the group; the vector keeps its place until
            // then. The configuration has the layout that its size states.
            let code = unsafe { (self.f.init)(comm, ranks.cast_signed(), id, rank.cast_signed(), config) };
            self.ok("ncclCommInitRankConfig", code)?;
        }
        if grouped {
            self.group_end()?;
        }
        Ok(comms.into_iter().map(Comm).collect())
    }

    /// Destroys a communicator whose work is complete. For a blocking communicator NCCL finalizes it first, and
    /// with several local ranks it does the work when the last is destroyed.
    #[expect(clippy::needless_pass_by_value, reason = "the handle ends here")]
    pub(in super::super) fn destroy(&self, comm: Comm) -> Result<()> {
        // SAFETY: alive until here, and consumed.
        self.ok("ncclCommDestroy", unsafe { (self.f.destroy)(comm.0) })
    }

    /// Stops the work of a communicator that failed, and frees it.
    #[expect(clippy::needless_pass_by_value, reason = "the handle ends here")]
    pub(in super::super) fn abort(&self, comm: Comm) -> Result<()> {
        // SAFETY: alive until here, and consumed.
        self.ok("ncclCommAbort", unsafe { (self.f.abort)(comm.0) })
    }

    /// Fails if NCCL's own threads, or the network, have met an error.
    #[inline]
    pub(in super::super) fn health(&self, comm: &Comm) -> Result<()> {
        let mut state = 0;
        // SAFETY: the communicator is alive; writes one int.
        let code = unsafe { (self.f.async_error)(comm.0, &raw mut state) };
        self.ok("ncclCommGetAsyncError", code)?;
        if state == 0 || state == IN_PROGRESS {
            return Ok(());
        }
        Err(self.error("an operation that was running (ncclCommGetAsyncError)", state))
    }

    /// Creates the reduction "sum of each rank's data times its scalar" for a communicator.
    pub(in super::super) fn premul(&self, comm: &Comm, dtype: c_int, scalar: [u8; 8]) -> Result<Reduction> {
        let (mut op, mut scalar) = (0, u64::from_ne_bytes(scalar));
        let value = (&raw mut scalar).cast();
        // SAFETY: writes one int; the scalar is read before the call returns, at most 8 bytes of it.
        let code = unsafe { (self.f.premul)(&raw mut op, value, dtype, HOST_IMMEDIATE, comm.0) };
        self.ok("ncclRedOpCreatePreMulSum", code).map(|()| Reduction(op))
    }

    /// Destroys a reduction that `premul` created for the same communicator.
    pub(in super::super) fn destroy_op(&self, op: Reduction, comm: &Comm) -> Result<()> {
        // SAFETY: the communicator is alive; a number that is no reduction of it is refused.
        self.ok("ncclRedOpDestroy", unsafe { (self.f.op_destroy)(op.0, comm.0) })
    }

    /// Whether it has an allocator of its own (2.19).
    pub(in super::super) fn has_memory(&self) -> bool {
        self.f.mem_alloc.is_some() && self.f.mem_free.is_some()
    }

    /// Allocates memory as NCCL likes it best, in the current context; `None` before 2.19.
    pub(in super::super) fn allocate(&self, bytes: u64) -> Option<Result<Buffer>> {
        let (alloc, _) = self.f.mem_alloc.zip(self.f.mem_free)?;
        let mut memory = ptr::null_mut();
        // SAFETY: writes one address.
        let code = unsafe { alloc(&raw mut memory, bytes as usize) };
        let address = memory.expose_provenance() as u64;
        Some(self.ok("ncclMemAlloc", code).map(|()| Buffer { address, bytes }))
    }

    /// Frees memory of `allocate`.
    #[expect(clippy::needless_pass_by_value, reason = "the handle ends here")]
    pub(in super::super) fn free(&self, buffer: Buffer) -> Result<()> {
        let Some(free) = self.f.mem_free else { return Ok(()) };
        // SAFETY: the buffer came from `allocate`, which needs ncclMemFree too, and is consumed.
        self.ok("ncclMemFree", unsafe { free(ptr::with_exposed_provenance_mut(buffer.address as usize)) })
    }

    /// Opens a group.
    #[inline]
    pub(in super::super) fn group_start(&self) -> Result<()> {
        // SAFETY: no arguments; groups nest.
        self.ok("ncclGroupStart", unsafe { (self.f.group_start)() })
    }

    /// Closes a group.
    #[inline]
    pub(in super::super) fn group_end(&self) -> Result<()> {
        // SAFETY: no arguments; without an open group it is refused.
        self.ok("ncclGroupEnd", unsafe { (self.f.group_end)() })
    }

    /// Whether a group can be closed by `simulate_end` (2.22).
    pub(in super::super) fn has_estimate(&self) -> bool {
        self.f.simulate.is_some()
    }

    /// Closes the outermost group without running it: NCCL's own estimate of its operation, in µs; `None` where it
    /// gives none. NCCL forgets the collectives of the group, but keeps sends and receives for the next one and runs
    /// what one rank does alone, so none of these may be in it (`taskAppend` and `groupLaunch`, 2.22 to 2.30).
    pub(in super::super) fn simulate_end(&self) -> Result<Option<f64>> {
        let absent = || Error::Setup("this NCCL estimates nothing; this is an error of critrank".to_owned());
        let simulate = self.f.simulate.ok_or_else(absent)?;
        let mut info = ncclSimInfo_t {
            size: size_of::<ncclSimInfo_t>(),
            magic: SIM_MAGIC,
            version: self.version,
            estimatedTime: SIM_UNDEFINED,
        };
        // SAFETY: reads the structure by the size that it states, and writes no more than that.
        self.ok("ncclGroupSimulateEnd", unsafe { simulate(&raw mut info) })?;
        // A tuner plugin says 0 for what it has chosen.
        Ok((info.estimatedTime > 0.0).then_some(f64::from(info.estimatedTime)))
    }
}
