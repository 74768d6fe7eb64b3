//! libcuda: contexts, streams, events, memory and modules.

#![expect(unsafe_code, reason = "the CUDA driver's C interface")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::{fmt, ptr};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmodule, CUstream, CUuuid,
};

use super::load::{functions, open};
use crate::backend::nccl::hints;
use crate::error::{Error, Result};

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: c_int = 100;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: c_int = 600;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
functions! {
    /// Results are `c_int`: a driver may return numbers that no enum here knows.
    Functions
    required {
        init = cuInit(c_uint) -> c_int;
        error_name = cuGetErrorName(c_int, *mut *const c_char) -> c_int;
        error_string = cuGetErrorString(c_int, *mut *const c_char) -> c_int;
        driver_version = cuDriverGetVersion(*mut c_int) -> c_int;
        device_count = cuDeviceGetCount(*mut c_int) -> c_int;
        device_get = cuDeviceGet(*mut CUdevice, c_int) -> c_int;
        device_name = cuDeviceGetName(*mut c_char, c_int, CUdevice) -> c_int;
        device_attribute = cuDeviceGetAttribute(*mut c_int, c_int, CUdevice) -> c_int;
        device_uuid = cuDeviceGetUuid(*mut CUuuid, CUdevice) -> c_int;
        context_retain = cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice) -> c_int;
        context_release = cuDevicePrimaryCtxRelease_v2(CUdevice) -> c_int;
        context_set = cuCtxSetCurrent(CUcontext) -> c_int;
        memory_info = cuMemGetInfo_v2(*mut usize, *mut usize) -> c_int;
        memory_alloc = cuMemAlloc_v2(*mut CUdeviceptr, usize) -> c_int;
        memory_free = cuMemFree_v2(CUdeviceptr) -> c_int;
        copy_within = cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream) -> c_int;
        copy_in = cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream) -> c_int;
        copy_out = cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream) -> c_int;
        stream_create = cuStreamCreate(*mut CUstream, c_uint) -> c_int;
        stream_destroy = cuStreamDestroy_v2(CUstream) -> c_int;
        stream_query = cuStreamQuery(CUstream) -> c_int;
        stream_synchronize = cuStreamSynchronize(CUstream) -> c_int;
        event_create = cuEventCreate(*mut CUevent, c_uint) -> c_int;
        event_destroy = cuEventDestroy_v2(CUevent) -> c_int;
        event_record = cuEventRecord(CUevent, CUstream) -> c_int;
        event_elapsed = cuEventElapsedTime(*mut f32, CUevent, CUevent) -> c_int;
        module_load = cuModuleLoadDataEx(
            *mut CUmodule, *const c_void, c_uint, *mut c_int, *mut *mut c_void
        ) -> c_int;
        module_unload = cuModuleUnload(CUmodule) -> c_int;
        module_function = cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char) -> c_int;
        launch = cuLaunchKernel(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
            *mut *mut c_void, *mut *mut c_void
        ) -> c_int;
    }
    optional {
        capture_begin = cuStreamBeginCapture_v2(CUstream, c_int) -> c_int;
        capture_end = cuStreamEndCapture(CUstream, *mut CUgraph) -> c_int;
        graph_instantiate = cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, c_ulonglong) -> c_int;
        graph_launch = cuGraphLaunch(CUgraphExec, CUstream) -> c_int;
        graph_exec_destroy = cuGraphExecDestroy(CUgraphExec) -> c_int;
        graph_destroy = cuGraphDestroy(CUgraph) -> c_int;
        host_alloc = cuMemHostAlloc(*mut *mut c_void, usize, c_uint) -> c_int;
        host_address = cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint) -> c_int;
        host_free = cuMemFreeHost(*mut c_void) -> c_int;
        device_uuid_2 = cuDeviceGetUuid_v2(*mut CUuuid, CUdevice) -> c_int;
    }
}

/// A device of this process; always there once found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Gpu(CUdevice);

/// The retained primary context of a device: the one that NCCL and MPI libraries use as well.
#[derive(Debug)]
pub(in super::super) struct Context(CUcontext, CUdevice);

// SAFETY: any thread may make a context current; the handle names it and is not tied to the thread that made it.
unsafe impl Send for Context {}

/// A stream that does not wait for the default stream, or the default stream itself.
#[derive(Debug)]
pub(in super::super) struct Stream(pub(super) CUstream);

/// A timing event.
#[derive(Debug)]
pub(in super::super) struct Event(CUevent);

/// Device memory.
#[derive(Debug)]
pub(in super::super) struct Buffer {
    pub(super) address: CUdeviceptr,
    pub(super) bytes: u64,
}

/// An address inside a [`Buffer`], with the bytes that were asked for in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(in super::super) struct Address(pub(super) CUdeviceptr);

impl Buffer {
    /// The address `offset` bytes into the buffer, if `bytes` from there on lie in it.
    #[inline]
    pub(in super::super) fn place(&self, offset: u64, bytes: u64) -> Option<Address> {
        (offset.checked_add(bytes)? <= self.bytes).then_some(Address(self.address + offset))
    }
}

/// libcuda, loaded and initialised.
#[derive(Clone, Copy)]
pub(in super::super) struct Cuda {
    pub(super) f: Functions,
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda").field("late", &self.f.late()).finish()
    }
}

impl Cuda {
    /// Loads libcuda (`names`, in this order) and initialises it.
    pub(in super::super) fn load(names: &[String]) -> Result<&'static Self> {
        let library = open(names).map_err(|reason| {
            Error::Setup(format!(
                "the CUDA driver's library cannot be loaded ({reason}); the nccl backend needs an NVIDIA driver: \
                 install one, or measure the fabric without its GPUs with --backend mpi"
            ))
        })?;
        // SAFETY: the names of the table are those of cuda.h, with its types; libcuda keeps every version of a
        // symbol that it ever had.
        let f = unsafe { Functions::load(library) }.map_err(|missing| {
            Error::Setup(format!(
                "the CUDA driver's library lacks {}; it is no libcuda, or older than CUDA 11",
                missing.join(", ")
            ))
        })?;
        let cuda = Self { f };
        // SAFETY: cuInit may be called by any thread at any time; its argument must be 0.
        match unsafe { (f.init)(0) } {
            NO_DEVICE => Err(no_device()),
            code => cuda.ok("cuInit", code).map(|()| &*Box::leak(Box::new(cuda))),
        }
    }

    /// Nothing for 0, else the error in CUDA's words.
    #[inline]
    pub(super) fn ok(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code, "")) }
    }

    /// An error in CUDA's words, with a log behind them.
    #[cold]
    pub(super) fn error(&self, call: &'static str, code: c_int, log: &str) -> Error {
        let words = |lookup: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = ptr::null();
            // SAFETY: the function writes one pointer, which the variable takes: to a static string, or null.
            let found = unsafe { lookup(code, &raw mut text) } == 0 && !text.is_null();
            // SAFETY: not null, so a static string that ends with a zero.
            found.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = words(self.f.error_name).unwrap_or_else(|| "an error without a name".to_owned());
        let text = words(self.f.error_string).unwrap_or_default();
        let log = if log.is_empty() { String::new() } else { format!(": {log}") };
        Error::Cuda {
            call,
            text: format!("{name} ({code}): {text}{log}"),
            hint: hints::cuda(code).to_owned(),
        }
    }

    /// The newest CUDA that the driver can run, such as 13000.
    pub(in super::super) fn driver_version(&self) -> Result<u32> {
        let mut version = 0;
        // SAFETY: writes one int.
        self.ok("cuDriverGetVersion", unsafe { (self.f.driver_version)(&raw mut version) })?;
        Ok(version.unsigned_abs())
    }

    /// Devices that this process sees; none is an error.
    pub(in super::super) fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: writes one int.
        self.ok("cuDeviceGetCount", unsafe { (self.f.device_count)(&raw mut count) })?;
        if count > 0 { Ok(count.unsigned_abs()) } else { Err(no_device()) }
    }

    /// The device with this index.
    pub(in super::super) fn gpu(&self, index: u32) -> Result<Gpu> {
        let mut gpu = 0;
        let index = c_int::try_from(index).unwrap_or(c_int::MAX);
        // SAFETY: writes one device number; an index that does not exist is refused.
        self.ok("cuDeviceGet", unsafe { (self.f.device_get)(&raw mut gpu, index) })?;
        Ok(Gpu(gpu))
    }

    /// The device's model.
    pub(in super::super) fn name(&self, gpu: Gpu) -> Result<String> {
        let mut name: [c_char; 256] = [0; 256];
        // SAFETY: writes at most the length given, and ends the text with a zero.
        self.ok("cuDeviceGetName", unsafe { (self.f.device_name)(name.as_mut_ptr(), 256, gpu.0) })?;
        Ok(name.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte.cast_unsigned())).collect())
    }

    /// One attribute, by its number in cuda.h.
    pub(in super::super) fn attribute(&self, gpu: Gpu, attribute: c_int) -> Result<i32> {
        let mut value = 0;
        // SAFETY: writes one int; an attribute that the driver does not know is refused.
        let code = unsafe { (self.f.device_attribute)(&raw mut value, attribute, gpu.0) };
        self.ok("cuDeviceGetAttribute", code).map(|()| value)
    }

    /// The UUID of the device, or of its MIG instance where the driver tells.
    pub(in super::super) fn uuid(&self, gpu: Gpu) -> Result<[u8; 16]> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        let lookup = self.f.device_uuid_2.unwrap_or(self.f.device_uuid);
        // SAFETY: writes one UUID.
        self.ok("cuDeviceGetUuid", unsafe { lookup(&raw mut uuid, gpu.0) })?;
        Ok(uuid.bytes.map(c_char::cast_unsigned))
    }

    /// Creates or joins the device's primary context and makes it current.
    pub(in super::super) fn context(&self, gpu: Gpu) -> Result<Context> {
        let mut context = ptr::null_mut();
        // SAFETY: writes one handle, which stays valid until it is released.
        self.ok("cuDevicePrimaryCtxRetain", unsafe { (self.f.context_retain)(&raw mut context, gpu.0) })?;
        let context = Context(context, gpu.0);
        self.enter(&context)?;
        Ok(context)
    }

    /// Makes the context current for this thread.
    #[inline]
    pub(in super::super) fn enter(&self, context: &Context) -> Result<()> {
        // SAFETY: a Context is retained until `release` consumes it.
        self.ok("cuCtxSetCurrent", unsafe { (self.f.context_set)(context.0) })
    }

    /// Gives the context back.
    #[expect(clippy::needless_pass_by_value, reason = "the handle ends here")]
    pub(in super::super) fn release(&self, context: Context) -> Result<()> {
        // SAFETY: retained once by `context`, released once since the handle is consumed.
        self.ok("cuDevicePrimaryCtxRelease", unsafe { (self.f.context_release)(context.1) })
    }

    /// Free and total bytes of the current context's device.
    pub(in super::super) fn memory(&self) -> Result<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes; without a current context it is refused.
        self.ok("cuMemGetInfo", unsafe { (self.f.memory_info)(&raw mut free, &raw mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// Allocates memory in the current context.
    pub(in super::super) fn allocate(&self, bytes: u64) -> Result<Buffer> {
        let mut address = 0;
        // SAFETY: writes one address.
        self.ok("cuMemAlloc", unsafe { (self.f.memory_alloc)(&raw mut address, bytes as usize) })?;
        Ok(Buffer { address, bytes })
    }

    /// Frees memory of `allocate`; waits for kernels that may use it.
    #[expect(clippy::needless_pass_by_value, reason = "the handle ends here")]
    pub(in super::super) fn free(&self, buffer: Buffer) -> Result<()> {
        // SAFETY: the buffer came from `allocate` (those of NCCL go to `Nccl::free`) and is consumed.
        self.ok("cuMemFree", unsafe { (self.f.memory_free)(buffer.address) })
    }

    /// Copies `bytes` in stream order; both places were asked for with that length.
    #[inline]
    pub(in super::super) fn copy(
        &self,
        from: Address,
        to: Address,
        bytes: u64,
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: an Address lies in a live buffer with room for the bytes that it was asked for.
        let code = unsafe { (self.f.copy_within)(to.0, from.0, bytes as usize, stream.0) };
        self.ok("cuMemcpyDtoDAsync", code)
    }

    /// Writes the start of a buffer, in stream order; complete on return.
    pub(in super::super) fn write(&self, words: &[u64], to: &Buffer, stream: &Stream) -> Result<()> {
        let bytes = size_of_val(words).min(to.bytes as usize);
        // SAFETY: reads at most the slice's length, until the stream is synchronised below; writes at most the
        // buffer's length.
        let code = unsafe { (self.f.copy_in)(to.address, words.as_ptr().cast(), bytes, stream.0) };
        self.ok("cuMemcpyHtoDAsync", code)?;
        self.synchronize(stream)
    }

    /// Reads the start of a buffer, in stream order; complete on return.
    pub(in super::super) fn read(&self, from: &Buffer, words: &mut [u64], stream: &Stream) -> Result<()> {
        let bytes = size_of_val(words).min(from.bytes as usize);
        // SAFETY: writes at most the slice's length, until the stream is synchronised below; any bits are a u64.
        let code = unsafe { (self.f.copy_out)(words.as_mut_ptr().cast(), from.address, bytes, stream.0) };
        self.ok("cuMemcpyDtoHAsync", code)?;
        self.synchronize(stream)
    }

    /// A new stream in the current context.
    pub(in super::super) fn stream(&self) -> Result<Stream> {
        let mut stream = ptr::null_mut();
        // SAFETY: writes one handle.
        self.ok("cuStreamCreate", unsafe { (self.f.stream_create)(&raw mut stream, NON_BLOCKING) })?;
        Ok(Stream(stream))
    }

    /// The default stream of whatever context is current when it is used.
    pub(in super::super) fn null_stream() -> Stream {
        Stream(ptr::null_mut())
    }

    /// Destroys a stream; the null stream is nobody's to destroy.
    #[expect(clippy::needless_pass_by_value, reason = "the handle ends here")]
    pub(in super::super) fn destroy_stream(&self, stream: Stream) -> Result<()> {
        if stream.0.is_null() {
            return Ok(());
        }
        // SAFETY: alive until here, and consumed.
        self.ok("cuStreamDestroy", unsafe { (self.f.stream_destroy)(stream.0) })
    }

    /// Whether all work of the stream is complete.
    #[inline]
    pub(in super::super) fn is_done(&self, stream: &Stream) -> Result<bool> {
        // SAFETY: the stream is alive; any context may be current.
        match unsafe { (self.f.stream_query)(stream.0) } {
            0 => Ok(true),
            NOT_READY => Ok(false),
            code => Err(self.error("cuStreamQuery", code, "")),
        }
    }

    /// Waits for all work of the stream, without a deadline.
    pub(in super::super) fn synchronize(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the stream is alive.
        self.ok("cuStreamSynchronize", unsafe { (self.f.stream_synchronize)(stream.0) })
    }

    /// A new event, with timing, in the current context.
    pub(in super::super) fn event(&self) -> Result<Event> {
        let mut event = ptr::null_mut();
        // SAFETY: writes one handle; flags 0 is an event with timing.
        self.ok("cuEventCreate", unsafe { (self.f.event_create)(&raw mut event, 0) })?;
        Ok(Event(event))
    }

    /// Destroys an event.
    #[expect(clippy::needless_pass_by_value, reason = "the handle ends here")]
    pub(in super::super) fn destroy_event(&self, event: Event) -> Result<()> {
        // SAFETY: alive until here, and consumed.
        self.ok("cuEventDestroy", unsafe { (self.f.event_destroy)(event.0) })
    }

    /// Stamps the event behind the stream's work so far; both belong to the same context, or it is refused.
    #[inline]
    pub(in super::super) fn record(&self, event: &Event, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive.
        self.ok("cuEventRecord", unsafe { (self.f.event_record)(event.0, stream.0) })
    }

    /// Milliseconds between two completed events; refused where one is not complete or was never stamped.
    pub(in super::super) fn elapsed_ms(&self, from: &Event, to: &Event) -> Result<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: writes one float; both events are alive.
        let code = unsafe { (self.f.event_elapsed)(&raw mut milliseconds, from.0, to.0) };
        self.ok("cuEventElapsedTime", code).map(|()| milliseconds)
    }
}

/// No GPU in sight.
fn no_device() -> Error {
    Error::Unsupported(
        "CUDA finds no GPU here; see `nvidia-smi` and CUDA_VISIBLE_DEVICES, or measure the fabric without its \
         GPUs with --backend mpi"
            .to_owned(),
    )
}
