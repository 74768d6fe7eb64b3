//! libcuda: graphs captured from a stream.

#![expect(unsafe_code, reason = "the CUDA driver's C interface")]

use std::ffi::c_int;
use std::ptr;

use cudarc::driver::sys::{CUgraph, CUgraphExec};

use super::cuda::{Cuda, Stream};
use crate::error::{Error, Result};

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: NCCL may connect peers while it is captured, and so allocate memory, and
/// other threads of the process may capture too.
const THREAD_LOCAL: c_int = 1;

/// A captured graph, and the same made ready to run.
#[derive(Debug)]
pub(in super::super) struct Graph {
    captured: CUgraph,
    ready: CUgraphExec,
}

impl Cuda {
    /// Whether the driver has all that graphs need (CUDA 11.4).
    fn has_graphs(&self) -> bool {
        let f = &self.f;
        f.capture_begin.is_some()
            && f.capture_end.is_some()
            && f.graph_instantiate.is_some()
            && f.graph_launch.is_some()
            && f.graph_exec_destroy.is_some()
            && f.graph_destroy.is_some()
    }

    /// From now on the stream's work is recorded instead of run.
    pub(in super::super) fn begin_capture(&self, stream: &Stream) -> Result<()> {
        let Some(begin) = self.f.capture_begin.filter(|_| self.has_graphs()) else { return Err(too_old()) };
        // SAFETY: the stream is alive; one that cannot be captured is refused.
        self.ok("cuStreamBeginCapture", unsafe { begin(stream.0, THREAD_LOCAL) })
    }

    /// Ends the recording, and makes it ready to run in the current context.
    pub(in super::super) fn end_capture(&self, stream: &Stream) -> Result<Graph> {
        let (Some(end), Some(instantiate)) = (self.f.capture_end, self.f.graph_instantiate) else {
            return Err(too_old());
        };
        let (mut captured, mut ready) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is alive; writes one handle. A stream that was not captured is refused.
        self.ok("cuStreamEndCapture", unsafe { end(stream.0, &raw mut captured) })?;
        // SAFETY: the graph was just made; writes one handle; no flags.
        self.ok("cuGraphInstantiate", unsafe { instantiate(&raw mut ready, captured, 0) })?;
        Ok(Graph { captured, ready })
    }

    /// Starts a graph behind the stream's work so far.
    #[inline]
    pub(in super::super) fn launch_graph(&self, graph: &Graph, stream: &Stream) -> Result<()> {
        let Some(launch) = self.f.graph_launch else { return Err(too_old()) };
        // SAFETY: graph and stream are alive, and so is all memory that the graph's operations use: buffers and
        // communicators go after the graphs.
        self.ok("cuGraphLaunch", unsafe { launch(graph.ready, stream.0) })
    }

    /// Destroys a graph whose runs are complete.
    #[expect(clippy::needless_pass_by_value, reason = "the handles end here")]
    pub(in super::super) fn destroy_graph(&self, graph: Graph) -> Result<()> {
        let (Some(exec), Some(template)) = (self.f.graph_exec_destroy, self.f.graph_destroy) else {
            return Err(too_old());
        };
        // SAFETY: alive until here, and consumed.
        self.ok("cuGraphExecDestroy", unsafe { exec(graph.ready) })?;
        // SAFETY: as above.
        self.ok("cuGraphDestroy", unsafe { template(graph.captured) })
    }
}

#[cold]
fn too_old() -> Error {
    Error::Unsupported("-G needs a driver for CUDA 11.4 or later".to_owned())
}
