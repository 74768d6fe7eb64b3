//! A gate in a stream: a kernel that lets nothing pass before the host opens it, or before a deadline of its own.

#![expect(unsafe_code, reason = "memory that host and GPU share")]

use std::ffi::{CString, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::cuda::{Cuda, Stream};
use super::module::{Kernel, Module};
use crate::error::{Error, Result};

/// The kernel of `kernels/gate.cu`, which is so small that the driver's compiler is done with it at once.
const PTX: &str = include_str!("../kernels/gate.ptx");
/// After so long a gate opens by itself, in ns.
const MOST_NS: u64 = 2_000_000_000;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`.
const MAPPED: c_uint = 1 | 2;

/// A gate of one context.
#[derive(Debug)]
pub(in super::super) struct Gate {
    module: Module,
    kernel: Kernel,
    /// The newest ticket that may pass, and the newest that did not wait for it; pinned, until `free`.
    page: NonNull<[AtomicU32; 2]>,
    /// Where the GPU sees it.
    address: u64,
    /// Of the newest gate.
    ticket: u32,
}

impl Gate {
    /// Loads the kernel into the current context and runs it once, open: CUDA loads code when it first runs, and
    /// that must not happen behind a closed gate.
    pub(in super::super) fn new(cuda: &Cuda, stream: &Stream) -> Result<Self> {
        let damaged = |_| Error::Setup("the gate kernel inside this program is damaged".to_owned());
        let module = cuda.module(&CString::new(PTX).map_err(damaged)?)?;
        let kernel = cuda.kernel(&module, c"critrank_gate")?;
        let (page, address) = cuda.shared_page()?;
        let mut gate = Self { module, kernel, page, address, ticket: 0 };
        gate.words()[0].store(1, Ordering::Release);
        gate.close(cuda, stream)?;
        cuda.synchronize(stream)?;
        Ok(gate)
    }

    fn words(&self) -> &[AtomicU32; 2] {
        // SAFETY: `shared_page` gave it, of that size and aligned to pages, and `free` consumes the gate; the host
        // touches it as atomics only.
        unsafe { self.page.as_ref() }
    }

    /// What is put on the stream from here on waits.
    #[inline]
    pub(in super::super) fn close(&mut self, cuda: &Cuda, stream: &Stream) -> Result<()> {
        self.ticket = self.ticket.wrapping_add(1);
        let (mut page, mut ticket, mut most_ns) = (self.address, self.ticket, MOST_NS);
        let mut arguments: [*mut c_void; 3] =
            [(&raw mut page).cast(), (&raw mut ticket).cast(), (&raw mut most_ns).cast()];
        // SAFETY: `critrank_gate(volatile unsigned *page, unsigned ticket, unsigned long long most_ns)`; the page
        // lives until `free`, which comes only behind waits for the stream, or never.
        unsafe { cuda.launch(&self.kernel, 1, 1, stream, &mut arguments) }
    }

    /// Lets all pass that is behind gates so far.
    #[inline]
    pub(in super::super) fn open(&self) {
        self.words()[0].store(self.ticket, Ordering::Release);
    }

    /// Whether the newest gate, or one before it, opened by itself.
    pub(in super::super) fn gave_up(&self) -> bool {
        self.words()[1].load(Ordering::Acquire) != 0
    }

    /// Frees it; nothing waits at it any more.
    pub(in super::super) fn free(self, cuda: &Cuda) -> Result<()> {
        cuda.unload(self.module)?;
        cuda.free_page(self.page.cast())
    }
}

impl Cuda {
    /// Two zeroed words that the host and the current context's GPU share, and where the GPU sees them.
    fn shared_page(&self) -> Result<(NonNull<[AtomicU32; 2]>, u64)> {
        let lacks = || Error::Unsupported("-z G needs a driver with cuMemHostAlloc".to_owned());
        let (allocate, find) = (self.f.host_alloc.ok_or_else(lacks)?, self.f.host_address.ok_or_else(lacks)?);
        let mut page = ptr::null_mut();
        // SAFETY: writes one pointer.
        self.ok("cuMemHostAlloc", unsafe { allocate(&raw mut page, size_of::<[AtomicU32; 2]>(), MAPPED) })?;
        let page: NonNull<[AtomicU32; 2]> = NonNull::new(page.cast()).ok_or_else(lacks)?;
        // SAFETY: fresh memory of this size, which nobody else knows.
        unsafe { page.write([AtomicU32::new(0), AtomicU32::new(0)]) };
        let mut address = 0;
        // SAFETY: writes one address; the memory is mapped, and 0 is the only flag there is.
        let code = unsafe { find(&raw mut address, page.as_ptr().cast(), 0) };
        self.ok("cuMemHostGetDevicePointer", code)?;
        Ok((page, address))
    }

    fn free_page(&self, page: NonNull<c_void>) -> Result<()> {
        let lacks = || Error::Unsupported("the driver lacks cuMemFreeHost".to_owned());
        let free = self.f.host_free.ok_or_else(lacks)?;
        // SAFETY: of `shared_page`, and its gate is consumed.
        self.ok("cuMemFreeHost", unsafe { free(page.as_ptr()) })
    }
}
