//! Rows to bytes: the table, nccl-tests' JSON, the record. One file prints.

mod files;
#[cfg(test)]
pub(crate) mod fixture;
pub mod matrix;
pub mod nccl_json;
mod printf;
pub mod record;
pub mod say;
mod self_test;
pub mod sink;
mod stats_table;
pub mod table;
pub mod words;

pub use self_test::{SelfTest, SelfTestSlow};
pub use sink::{Paths, Sink};
pub use stats_table::{drift_words, place};

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::aggregate::{Critical, Mode};
use crate::backend::{Device, Kind, Library};
use crate::error::Exit;
use crate::judge::Places;
use crate::vocab::Cadence;

/// Where a rank runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The rank.
    pub rank: u32,
    /// Its process (MPI rank in the world).
    pub process: u32,
    /// Group under `NCCL_TESTS_SPLIT`; 0 without.
    pub group: u32,
    /// Process id.
    pub pid: u32,
    /// Short host name.
    pub host: String,
    /// Rank within the host.
    pub local_rank: u32,
    /// Its device.
    pub device: Device,
}

/// Where ranks sit, in rank order.
pub fn places_of(sites: &[Site]) -> Places {
    Places::of(&sites.iter().map(|site| site.host.as_str()).collect::<Vec<_>>())
}

/// What is known before the first row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preamble {
    /// The binary's name, `all_reduce_perf`.
    pub program: String,
    /// Arguments as given, the program first.
    pub args: Vec<String>,
    /// Environment variables that matter to NCCL, MPI and fabric; an allowed list.
    pub env: Vec<(String, String)>,
    /// Local time at start, `%Y-%m-%d %H:%M:%S`.
    pub start_time: String,
    /// The backend.
    pub backend: Kind,
    /// Its library.
    pub library: Library,
    /// This program's version and build.
    pub version: String,
    /// Faults that were put in on purpose: such a run is no measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injected: Vec<String>,
    /// The sweep's settings, as the header and `-J` show them.
    pub config: Config,
    /// Every rank, in order.
    pub sites: Vec<Site>,
}

impl Preamble {
    /// What may be said of critical ranks, of a collective that synchronises or does not.
    pub fn mode(&self, synchronising: bool) -> Mode {
        let groups: BTreeSet<u32> = self.sites.iter().map(|site| site.group).collect();
        Mode {
            ranks: self.sites.len() as u32,
            groups: groups.len() as u32,
            blocking: self.config.blocking,
            skip: self.config.skip as usize,
            synchronising,
        }
    }
}

/// Settings that the header shows.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// `-t`.
    pub threads: u32,
    /// `-g`.
    pub gpus: u32,
    /// `-b`, in bytes.
    pub min_bytes: u64,
    /// `-e`, in bytes, before the memory cap.
    pub max_bytes: u64,
    /// `-f`; the sweep multiplies by it where it is above 1.
    pub step_factor: f64,
    /// `-i`, in bytes; used where there is no factor.
    pub step_bytes: u64,
    /// `-w`.
    pub warmup: u64,
    /// `-n`.
    pub iterations: u64,
    /// `-m`.
    pub aggregated: u64,
    /// `-c`.
    pub checks: u64,
    /// `-G`.
    pub graph: u64,
    /// `-u`.
    pub unalign: u64,
    /// `-z`.
    pub blocking: u8,
    /// `-I`.
    pub per_iteration: bool,
    /// `-K`.
    pub skip: u64,
    /// `-p`.
    pub parallel_init: bool,
    /// `-C`.
    pub cputime: bool,
    /// `-S`.
    pub timestamps: bool,
    /// `-a`.
    pub average: crate::aggregate::Average,
    /// `-N`; 0 is endless.
    pub cycles: u64,
    /// `--epochs`; absent in the record where there is one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub epochs: u64,
}

impl Config {
    /// How the operations of a timed loop follow each other.
    pub const fn cadence(&self) -> Cadence {
        Cadence::of(self.blocking, self.aggregated, self.graph)
    }
}

const fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_one(epochs: &u64) -> bool {
    *epochs == 1
}

/// GPU memory of rank 0, for `-M`; bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Taken by making the communicator.
    pub init_bytes: u64,
    /// The send and receive buffers.
    pub user_bytes: u64,
    /// Taken while collectives ran.
    pub collective_bytes: u64,
}

/// What a run that came to its end has to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Pairs of a rank and a measurement in which that rank's own data was wrong.
    pub out_of_bounds: u64,
    /// Wrong elements over all ranks and rows.
    pub wrong_elements: u64,
    /// Plain mean of all busbw, in 10^9 B/s.
    pub average_busbw_gbps: f64,
    /// `NCCL_TESTS_MIN_BW`, in 10^9 B/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_busbw_gbps: Option<f64>,
    /// The critical rank.
    pub critical: Critical,
    /// With `-M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryUse>,
    /// The library's last error, or empty.
    pub library_error: String,
    /// Local time at the end, `%Y-%m-%d %H:%M:%S`.
    pub end_time: String,
}

impl Outcome {
    /// Whether the average reaches 0.9 of `NCCL_TESTS_MIN_BW`; `None` without that variable. nccl-tests' gate.
    pub fn reaches_min(&self) -> Option<bool> {
        // Written so that an average that is no number does not pass.
        self.min_busbw_gbps.map(|min| self.average_busbw_gbps >= min * 0.9)
    }

    /// The exit code that the figures lead to.
    pub fn exit(&self) -> Exit {
        if self.out_of_bounds > 0 || self.wrong_elements > 0 || self.reaches_min() == Some(false) {
            Exit::Wrong
        } else {
            Exit::Success
        }
    }
}
