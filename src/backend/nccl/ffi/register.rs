//! libnccl: registration of buffers.

#![expect(unsafe_code, reason = "NCCL's C interface")]

use std::ffi::{c_int, c_void};
use std::ptr;

use super::cuda::{Buffer, Context, Cuda};
use super::nccl::{Comm, Nccl};
use crate::error::Result;

/// `NCCL_WIN_COLL_SYMMETRIC`.
const COLL_SYMMETRIC: c_int = 1;

/// The registration of a rank's two buffers.
#[derive(Debug)]
pub(in super::super) struct Registered {
    handles: [*mut c_void; 2],
    windows: bool,
}

impl Registered {
    /// Whether NCCL gave a handle for each buffer; it may give none although it reports success.
    pub(in super::super) fn is_obtained(&self) -> bool {
        self.handles.iter().all(|handle| !handle.is_null())
    }
}

impl Nccl {
    /// Registers the two buffers of each rank with its communicator, as windows or for this rank alone. All ranks
    /// of the process at once, and those of the job alike: windows are made together.
    pub(in super::super) fn register(
        &self,
        cuda: &Cuda,
        ranks: &[(&Context, &Comm, [&Buffer; 2])],
        windows: bool,
    ) -> Result<Vec<Registered>> {
        // Null from the start: where NCCL cannot register, it reports success and writes nothing.
        let mut all: Vec<_> =
            ranks.iter().map(|_| Registered { handles: [ptr::null_mut(); 2], windows }).collect();
        self.group_start()?;
        for ((context, comm, buffers), registered) in ranks.iter().zip(&mut all) {
            cuda.enter(context)?;
            for (buffer, handle) in buffers.iter().zip(&mut registered.handles) {
                self.register_one(comm, buffer, handle, windows)?;
            }
        }
        self.group_end()?;
        Ok(all)
    }

    fn register_one(
        &self,
        comm: &Comm,
        buffer: &Buffer,
        handle: &mut *mut c_void,
        windows: bool,
    ) -> Result<()> {
        let (address, bytes) =
            (ptr::with_exposed_provenance_mut(buffer.address as usize), buffer.bytes as usize);
        if let Some(register) = self.f.window_register.filter(|_| windows) {
            let window = ptr::from_mut(handle).cast();
            // SAFETY: communicator and buffer are alive. The handle is written now or when the group ends; the
            // vector that holds it keeps its place until then, and if the group never ends, nothing is written.
            let code = unsafe { register(comm.0, address, bytes, window, COLL_SYMMETRIC) };
            return self.ok("ncclCommWindowRegister", code);
        }
        let Some(register) = self.f.register else { return Ok(()) };
        // SAFETY: communicator and buffer are alive; writes one handle.
        self.ok("ncclCommRegister", unsafe { register(comm.0, address, bytes, handle) })
    }

    /// Ends a registration; its communicator is alive and has no work left.
    #[expect(clippy::needless_pass_by_value, reason = "the handles end here")]
    pub(in super::super) fn deregister(&self, comm: &Comm, registered: Registered) -> Result<()> {
        for handle in registered.handles.into_iter().filter(|handle| !handle.is_null()) {
            let (call, code) = match (registered.windows, self.f.window_deregister, self.f.deregister) {
                // SAFETY: the handle came from ncclCommWindowRegister for this communicator, and is consumed.
                (true, Some(end), _) => ("ncclCommWindowDeregister", unsafe { end(comm.0, handle.cast()) }),
                // SAFETY: as above, of ncclCommRegister.
                (false, _, Some(end)) => ("ncclCommDeregister", unsafe { end(comm.0, handle) }),
                _ => return Ok(()),
            };
            self.ok(call, code)?;
        }
        Ok(())
    }
}
