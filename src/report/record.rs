//! The record (`--record`): JSON Lines with a versioned schema, one event a line. docs/FORMAT.md lists the fields.
//!
//! Every printed figure follows from it, and a killed run leaves a readable one.

use serde::{Deserialize, Serialize};

use super::{Outcome, Preamble, SelfTest, SelfTestSlow};

use crate::aggregate::{Compared, LateTrial, LateVerdict, MarkTimer, Model, Overhead, Row, Statistics};
use crate::backend::transport::Link;
use crate::cli::{Extent, Order};
use crate::clock::Timer;
use crate::error::{Error, Result};
use crate::judge::{Matrix, Trail, Verdict};
use crate::session::traffic::Flow;
use crate::session::watch::Culprit;
use crate::vocab::Dtype;

/// The schema's name, in the first line of every record.
pub const SCHEMA: &str = "critrank-record";
/// Its version: grows when a field changes its meaning or goes; a new field or event leaves it.
pub const SCHEMA_VERSION: u32 = 1;

/// What will be run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Sizes that the sweep asks for, in bytes, in order.
    pub sizes_bytes: Vec<u64>,
    /// Element types, in order.
    pub dtypes: Vec<Dtype>,
    /// The redop column's texts, in order.
    pub redops: Vec<String>,
    /// Roots, in order; -1 where there is none.
    pub roots: Vec<i64>,
    /// Largest size after the cut to what memory holds, in bytes; absent without a cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced_max_bytes: Option<u64>,
    /// Order of the sizes within a cycle, with its seed; absent where they grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<SizeOrder>,
}

/// `--order`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeOrder {
    /// `mirrored` or `permuted`.
    pub name: String,
    /// `--seed`.
    pub seed: u64,
}

impl SizeOrder {
    /// The command line's, where it is not the natural one.
    pub fn of(extent: &Extent) -> Option<Self> {
        (extent.order != Order::Natural)
            .then(|| Self { name: extent.order.name().to_owned(), seed: extent.seed })
    }
}

/// The clock of one host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockState {
    /// The first process that reads it.
    pub process: u32,
    /// It minus process 0's, in µs, by the newest comparison.
    pub offset_us: f64,
    /// A bound of the offset's error over the last comparisons, in µs.
    pub error_us: f64,
    /// Fastest round trip, in µs.
    pub round_trip_us: f64,
    /// How fast it gains, in 10^-6, over the last comparisons; 0 where their errors alone could come to as much.
    pub drift_ppm: f64,
}

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first line: who runs what, where.
    Start {
        /// [`SCHEMA`].
        schema: String,
        /// [`SCHEMA_VERSION`].
        schema_version: u32,
        /// Settings, library and every rank with its process, host and device.
        #[serde(flatten)]
        preamble: Preamble,
    },
    /// What will be run.
    Plan(Plan),
    /// With `--epochs`: rows from here on have new communicators.
    Epoch {
        /// Its number, from 0; the first one has no such line.
        epoch: u64,
        /// What leaving the old communicators and making the new ones took, longest of all processes, in µs.
        renewal_us: f64,
    },
    /// One row with every rank's own times.
    Row(Row),
    /// With `--cold-start`: the longest of all ranks, in µs.
    ColdStart {
        /// Steps from the process's start to the buffers, in order.
        steps: Vec<(String, f64)>,
        /// Per size in bytes, its first calls.
        calls: Vec<(u64, Vec<f64>)>,
    },
    /// With `--explain`: over what ranks reach their peers.
    Transport {
        /// Every rank's, in order of rank, direction and peer.
        links: Vec<Link>,
        /// Why some process knows none of its own.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unknown: Vec<String>,
    },
    /// How the hosts' clocks run against process 0's; at the start and at the end of a run that tells arrivals.
    Clocks {
        /// The host's timer at rank 0.
        timer: Timer,
        /// Every other clock.
        others: Vec<ClockState>,
    },
    /// With `-I 1`: what rank 0's marks show where there is nothing between them.
    Marks {
        /// In short.
        #[serde(flatten)]
        timer: MarkTimer,
        /// Each pair, in µs.
        pairs_us: Vec<f64>,
    },
    /// With `--overhead`: what `-I` costs.
    Overhead {
        /// The size, in bytes.
        size_bytes: u64,
        /// Per operation.
        #[serde(flatten)]
        overhead: Overhead,
        /// Its pairs of blocks, without and with `-I`, in µs per operation.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pairs_us: Vec<[f64; 2]>,
    },
    /// With `--self-test`: one trial of lateness.
    LateTrial(LateTrial),
    /// With `--self-test`: one trial of a slow-down.
    SlowTrial {
        /// What the longer message stands for, in % of the rate; absent in a healthy trial.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost_pct: Option<u32>,
        /// Times of the longer and the plain message, in µs.
        pairs_us: Vec<(f64, f64)>,
    },
    /// With `--self-test`: which lateness is found here.
    SelfTest(SelfTest),
    /// With `--self-test`: which slow-down of a link is found here.
    SelfTestSlow(SelfTestSlow),
    /// What the traffic of an injected slow link or node came to.
    Traffic {
        /// Every way, in order of the rank that sends.
        flows: Vec<Flow>,
    },
    /// Whether a rank comes late.
    LateRank(LateVerdict),
    /// A type and reduction that are not run here.
    Waived {
        /// Element type.
        dtype: Dtype,
        /// The redop column's text.
        redop: String,
        /// Why.
        reason: String,
    },
    /// A remark that is printed to stderr as well.
    Note {
        /// `info` or `warning`.
        level: String,
        /// The words.
        text: String,
    },
    /// Something that a diagnosis found.
    Finding {
        /// A stable name for programs, such as `wrong_data`.
        kind: String,
        /// The ranks that it is about.
        ranks: Vec<u32>,
        /// The words.
        text: String,
    },
    /// With `--expect RECORD`: every row beside the earlier run's.
    Expected {
        /// The earlier run's record, as it was given.
        record: String,
        /// When the earlier run began.
        start_time: String,
        /// Each size, type, reduction, root and placement.
        rows: Vec<Compared>,
    },
    /// At the end, for each size, type, reduction, root and placement: what its cycles and iterations say.
    Stats(Statistics),
    /// At the end: time over size, where sizes and cycles suffice.
    Model(Model),
    /// All pairs of `p2p_matrix_perf`.
    Matrix(Matrix),
    /// What `--localize` came to; each name is a finding as well.
    Localised {
        /// Tests of groups and pairs that were run.
        tests: u64,
        /// How long they took, in µs.
        took_us: f64,
        /// The names with their evidence, or why there is none.
        #[serde(flatten)]
        verdict: Verdict,
        /// What it follows from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trail: Option<Trail>,
    },
    /// The run came to its end.
    Finish {
        /// The exit code of the process.
        exit_code: u8,
        /// The footer's figures.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// A matrix came to its end.
    Ended {
        /// The exit code of the process.
        exit_code: u8,
        /// Local time, `%Y-%m-%d %H:%M:%S`.
        end_time: String,
    },
    /// The run did not.
    Failed {
        /// The exit code of the process.
        exit_code: u8,
        /// What the run was doing.
        phase: String,
        /// The size that was being measured, in bytes.
        size_bytes: u64,
        /// Iterations begun there.
        iteration: u64,
        /// What happened.
        cause: String,
        /// The ranks behind it, those that are behind or silent first.
        culprits: Vec<Culprit>,
        /// Local time, `%Y-%m-%d %H:%M:%S`.
        end_time: String,
    },
    /// An event that this version does not know.
    #[serde(other)]
    Unknown,
}

impl Event {
    /// The first event.
    pub fn start(preamble: Preamble) -> Self {
        Self::Start { schema: SCHEMA.to_owned(), schema_version: SCHEMA_VERSION, preamble }
    }

    /// The event as a line, newline included.
    pub fn line(&self) -> Result<String> {
        serde_json::to_string(self)
            .map(|line| line + "\n")
            .map_err(|error| Error::Setup(format!("cannot write the record: {error}")))
    }
}

/// What a record holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Events, in order.
    pub events: Vec<Event>,
    /// Lines that cannot be read: a killed run may leave half a line, and so may a thread that was stuck in the
    /// middle of one when the watchdog wrote the next.
    pub unreadable: Vec<String>,
}

/// Reads a record, also that of a run that was killed. Blank lines, unknown events and unknown fields pass.
/// What is no record, or a newer one than this program understands, is an error.
pub fn read(bytes: &[u8]) -> Result<Record> {
    let mut record = Record { events: Vec::new(), unreadable: Vec::new() };
    let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
    for (at, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        match serde_json::from_slice(line) {
            Ok(Event::Start { .. }) if !record.events.is_empty() => {
                return Err(Error::Setup(format!(
                    "a second run begins in line {at} of the record; put each run into a file of its own"
                )));
            }
            Ok(event) => record.events.push(event),
            Err(_) if record.events.is_empty() => break,
            Err(_) => record.unreadable.push(String::from_utf8_lossy(line).into_owned()),
        }
    }
    match record.events.first() {
        Some(Event::Start { schema, schema_version: ..=SCHEMA_VERSION, .. }) if schema == SCHEMA => {
            Ok(record)
        }
        Some(Event::Start { schema, schema_version, .. }) if schema == SCHEMA => Err(Error::Setup(format!(
            "the record has version {schema_version} of its schema; this program reads up to {SCHEMA_VERSION}; \
             use a newer critrank"
        ))),
        _ => Err(Error::Setup("this is no critrank record: its first line is no start".to_owned())),
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
