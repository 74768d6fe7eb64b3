//! Rows to bytes: the table, nccl-tests' JSON, the record. One file prints.

use serde::{Deserialize, Serialize};

use crate::backend::{Device, Kind, Library};

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
    /// The sweep's settings, as the header and `-J` show them.
    pub config: Config,
    /// Every rank, in order.
    pub sites: Vec<Site>,
}

/// Settings that the header shows.
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
}
