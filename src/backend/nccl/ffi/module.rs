//! libcuda: device code and its start.

#![expect(unsafe_code, reason = "the CUDA driver's C interface")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use cudarc::driver::sys::{CUfunction, CUmodule};

use super::cuda::{Cuda, Stream};
use crate::error::Result;

/// `CU_JIT_ERROR_LOG_BUFFER` and `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
const JIT_LOG: [c_int; 2] = [5, 6];

/// Loaded device code.
#[derive(Debug)]
pub(super) struct Module(CUmodule);

/// A kernel of a loaded module, valid while the module is.
#[derive(Debug)]
pub(super) struct Kernel(CUfunction);

impl Cuda {
    /// Compiles PTX for the current context's device, with the compiler's log where it fails.
    pub(super) fn module(&self, ptx: &CStr) -> Result<Module> {
        let mut module = ptr::null_mut();
        let mut log = [0_u8; 4096];
        let mut options = JIT_LOG;
        // An option's value is the pointer itself, or a number in its place.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(log.len())];
        // SAFETY: the image ends with a zero; both options have their value; the log has the length stated, and
        // lives until the call returns.
        let code = unsafe {
            (self.f.module_load)(
                &raw mut module,
                ptx.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if code == 0 {
            return Ok(Module(module));
        }
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]);
        let log: Vec<_> = log.split_whitespace().collect();
        Err(self.error("cuModuleLoadDataEx", code, &log.join(" ")))
    }

    /// Loads code that was compiled for the current context's device; nothing where the driver does not take it.
    pub(super) fn compiled(&self, code: &[u8]) -> Option<Module> {
        // The driver reads the image as words; the bytes inside this program may lie anywhere.
        let mut words = vec![0_u64; code.len().div_ceil(8)];
        for (word, bytes) in words.iter_mut().zip(code.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        let mut module = ptr::null_mut();
        // SAFETY: the image is a whole cubin, which states its own length; there are no options.
        let code = unsafe {
            (self.f.module_load)(&raw mut module, words.as_ptr().cast(), 0, ptr::null_mut(), ptr::null_mut())
        };
        (code == 0).then_some(Module(module))
    }

    /// Unloads a module, and with it its kernels.
    #[expect(clippy::needless_pass_by_value, reason = "the handle ends here")]
    pub(super) fn unload(&self, module: Module) -> Result<()> {
        // SAFETY: alive until here, and consumed; `Kernels` keeps module and kernels together.
        self.ok("cuModuleUnload", unsafe { (self.f.module_unload)(module.0) })
    }

    /// The kernel of this name.
    pub(super) fn kernel(&self, module: &Module, name: &CStr) -> Result<Kernel> {
        let mut kernel = ptr::null_mut();
        // SAFETY: writes one handle; a name that is not there is refused.
        let code = unsafe { (self.f.module_function)(&raw mut kernel, module.0, name.as_ptr()) };
        self.ok("cuModuleGetFunction", code).map(|()| Kernel(kernel))
    }

    /// Starts a kernel in one-dimensional blocks.
    ///
    /// # Safety
    ///
    /// `arguments` point to values of the types that the kernel declares, in its order, and what the kernel reads
    /// and writes with them is device memory that outlives it.
    pub(super) unsafe fn launch(
        &self,
        kernel: &Kernel,
        blocks: u32,
        threads: u32,
        stream: &Stream,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        // SAFETY: kernel and stream are alive, and the caller vouches for the arguments, which the driver copies
        // before it returns.
        let code = unsafe {
            (self.f.launch)(
                kernel.0,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream.0,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.ok("cuLaunchKernel", code)
    }
}
