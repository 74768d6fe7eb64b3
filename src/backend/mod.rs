//! What runs a collective and tells its time: NCCL on GPUs, the MPI library on host memory, or a simulation.

#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(feature = "nccl")]
pub mod nccl;
pub mod sim;
pub mod transport;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::collective::Ops;
use crate::error::{Error, Result};
use crate::verify::{Arithmetic, Bad, Pattern, Tally};
pub use crate::vocab::Kind;
use crate::vocab::{Content, Dtype, Placement, RedOp, Slot};

/// The bit that [`Backend::flip`] flips, in an element's last byte: of floats one of the exponent, so that no rounding explains it.
pub const FLIPPED: u8 = 1 << 6;

/// The library that does the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// "NCCL", "Open MPI", …
    pub name: String,
    /// As the library says it, such as "2.28.3" or "4.1.4".
    pub version: String,
    /// NCCL's number (22803); 0 for others.
    pub code: u32,
    /// The file it was loaded from, where known.
    pub path: String,
}

/// The device behind one local rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Index that CUDA gives it in this process; 0 without a GPU.
    pub index: u32,
    /// PCI address as nccl-tests prints it, `0000:00:06`; `0000:00:00` without a GPU.
    pub bus_id: String,
    /// Model, or `HOST`.
    pub name: String,
    /// The GPU's UUID; empty without a GPU.
    pub uuid: String,
    /// Compute capability × 10 (90 on H100 and H200); 0 without a GPU.
    pub compute_capability: u32,
    /// Driver version; empty without a GPU.
    pub driver: String,
}

/// Memory of the device behind the local rank that has the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Free bytes now.
    pub free_bytes: u64,
    /// All bytes.
    pub total_bytes: u64,
}

/// Memory taken by each part of a run, in bytes, of the local rank that took most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// By making the communicator.
    pub init_bytes: u64,
    /// By the buffers.
    pub user_bytes: u64,
    /// Since the buffers were made.
    pub collective_bytes: u64,
}

/// Something to say about how a backend runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Something is not as asked.
    pub warning: bool,
    /// The words.
    pub text: String,
}

/// What differs between backends and shapes the loop or the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// In place, `reduce_scatter` leaves its result at the start of the input (MPI) rather than in the rank's block.
    pub shrinks_to_start: bool,
    /// Calls return before the operation is complete, so that enqueueing and completion are two times.
    pub asynchronous: bool,
    /// How narrow integers add up.
    pub arithmetic: Arithmetic,
    /// Times are the simulation's, not a clock's.
    pub simulated: bool,
}

/// A mark whose time the host knows, as the bounds that its own readings leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    /// The host's clock, in ns, in the middle of the bounds.
    pub at_ns: u64,
    /// Half their distance, in ns.
    pub error_ns: u64,
}

/// What is set before the operations of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Element type.
    pub dtype: Dtype,
    /// Reduction, for collectives that reduce.
    pub op: Option<RedOp>,
    /// Whether operations read and write one buffer.
    pub placement: Placement,
    /// The repetition whose scalars `mulsum` uses.
    pub repetition: u64,
}

/// Drives the local ranks of one process (one, unless `-g` says otherwise).
///
/// `Ops` and every per-rank method act on the local rank that `select` chose; the first is selected at start.
/// In the timed loop only `select`, `Ops`, `shift`, `mark`, `now`, `delay` and `wait` are called; they do not allocate.
pub trait Backend: Ops {
    /// Which backend this is.
    fn kind(&self) -> Kind;
    /// The library that does the work.
    fn library(&self) -> Library;
    /// Its properties.
    fn caps(&self) -> Caps;
    /// Local ranks that this process drives.
    fn locals(&self) -> u32;
    /// The device of each local rank.
    fn devices(&self) -> Vec<Device>;
    /// Chooses the local rank that the following calls act on.
    fn select(&mut self, local: u32) -> Result<()>;

    /// Why a type and reduction cannot be run here, if so (`op` is `None` where nothing is reduced).
    fn refuses(&self, dtype: Dtype, op: Option<RedOp>) -> Option<String>;
    /// The largest number of elements that one call can take; `u64::MAX` where there is no limit.
    fn largest_count(&self) -> u64;
    /// Memory for the size cap: the least of all local ranks' shares.
    fn memory(&mut self) -> Result<Memory>;
    /// Makes both buffers of every local rank, `bytes` each, and `marks` marks each. Called once.
    fn allocate(&mut self, bytes: u64, marks: usize) -> Result<()>;

    /// What there is to say about how it runs; each remark is given once.
    fn remarks(&mut self) -> Vec<Remark> {
        Vec::new()
    }
    /// Memory that was taken so far, where it is recorded (`-M`).
    fn usage(&mut self) -> Result<Usage> {
        Ok(Usage::default())
    }

    /// Sets type, reduction and placement for the operations that follow.
    fn prepare(&mut self, setup: &Setup) -> Result<()>;
    /// Moves every slot by `bytes` (buffer rotation, misalignment).
    fn shift(&mut self, bytes: u64);
    /// Writes a pattern, or with `inverted` its bitwise complement; complete on return.
    fn fill(&mut self, content: &Content, pattern: &Pattern, inverted: bool) -> Result<()>;
    /// Compares with a pattern.
    fn check(&mut self, content: &Content, pattern: &Pattern) -> Result<Tally>;
    /// The first elements that differ from pattern A, or B where `pattern_b`; at most `limit`.
    fn bad(
        &mut self,
        content: &Content,
        pattern: &Pattern,
        pattern_b: bool,
        limit: usize,
    ) -> Result<Vec<Bad>>;

    /// Flips the highest bit but one of an element, as what transports or stores data may do; complete on return.
    fn flip(&mut self, _at: Slot) -> Result<()> {
        Err(Error::Unsupported("this backend flips no bit of a result".to_owned()))
    }

    /// The host's clock of the selected rank, in ns.
    fn now(&mut self) -> u64;
    /// The selected rank's host does nothing for so long, on purpose.
    fn delay(&mut self, ns: u64) {
        let until = self.now().saturating_add(ns);
        while self.now() < until {
            std::hint::spin_loop();
        }
    }
    /// Stamps mark `index` behind the selected rank's operations so far (a CUDA event; elsewhere the clock).
    fn mark(&mut self, index: usize) -> Result<()>;
    /// Time between two marks of the selected rank, in µs; both are complete.
    fn between_us(&mut self, from: usize, to: usize) -> Result<f64>;
    /// Ties the selected rank's marks to its host's clock, while nothing runs; `None` where marks are readings of
    /// that clock.
    fn anchor(&mut self) -> Result<Option<Anchor>> {
        Ok(None)
    }
    /// Time from a mark of the selected rank to its anchor, in µs; negative where the mark is later.
    fn until_anchor_us(&mut self, _mark: usize) -> Result<f64> {
        Err(Error::Unsupported("this backend's marks have no anchor".to_owned()))
    }
    /// What follows on the selected rank waits until `open`, or for two seconds.
    fn hold(&mut self) -> Result<()> {
        Err(Error::Unsupported("-z G needs GPUs: --backend nccl".to_owned()))
    }
    /// Lets all local ranks go on.
    fn open(&mut self) {}
    /// Whether a local rank did not wait for `open`, because it took so long.
    fn gave_up(&self) -> bool {
        false
    }
    /// Waits until all operations of all local ranks are complete, or fails at the deadline.
    fn wait(&mut self, deadline: Duration) -> Result<()>;
    /// From now on the library tells how it runs operations.
    fn observe(&mut self) {}
    /// The end of `observe`: which algorithm the first local rank's operations used, or why that is unknown.
    fn observed(&mut self) -> Option<String> {
        None
    }
    /// Why the library can estimate no operation here, if so.
    fn unpredictable(&self) -> Option<String> {
        Some("only NCCL predicts".to_owned())
    }
    /// From now on operations are estimated instead of run. Not for sends and receives, nor where `unpredictable`.
    fn predict(&mut self) -> Result<()> {
        Ok(())
    }
    /// The end of `predict`: the library's own estimate of the operation, in µs, where it gives one.
    fn predicted(&mut self) -> Result<Option<f64>> {
        Ok(None)
    }
    /// From now on operations of all local ranks are recorded instead of run.
    fn capture(&mut self) -> Result<()> {
        no_graphs()
    }
    /// Ends the recording, and makes it ready to run.
    fn captured(&mut self) -> Result<()> {
        no_graphs()
    }
    /// Starts what was recorded, on every local rank.
    fn replay(&mut self) -> Result<()> {
        no_graphs()
    }
    /// Destroys the recording; its runs are complete.
    fn forget(&mut self) -> Result<()> {
        no_graphs()
    }
    /// All processes have just left a barrier (a simulation aligns its clocks).
    fn aligned(&mut self) {}

    /// The first half of the orderly end, or of an epoch's: leaves the communicator, and keeps buffers, streams and
    /// marks. Not called after a failure.
    fn disconnect(&mut self) -> Result<()> {
        Ok(())
    }
    /// An id for the next communicator, made by one worker of a group and told to all; empty where none is needed.
    fn new_id(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    /// Joins a new communicator of the same ranks, after `disconnect`. Blocks until all have joined; a failure is this
    /// process's own, and others may hang in it.
    fn reconnect(&mut self, id: &[u8]) -> Result<()>;
    /// The orderly end: disconnects, if that was not done, and frees everything. Not called after a failure.
    fn close(&mut self) -> Result<()>;
}

/// The answer of a backend that cannot record operations.
fn no_graphs() -> Result<()> {
    Err(Error::Unsupported("-G needs a backend with CUDA graphs: --backend nccl".to_owned()))
}
