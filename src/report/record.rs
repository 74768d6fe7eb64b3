//! The record (`--record`): JSON Lines with a versioned schema, one event a line. docs/FORMAT.md lists the fields.
//!
//! Every printed figure follows from it, and a killed run leaves a readable one.

use serde::{Deserialize, Serialize};

use super::{Outcome, Preamble};
use crate::aggregate::Row;
use crate::error::{Error, Result};
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
}

/// A rank that a failure is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// The rank.
    pub rank: u32,
    /// Short host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Its device; empty while unknown.
    pub device: String,
    /// What is wrong with it, and where it stands or was last seen.
    pub state: String,
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
    /// One row with every rank's own times.
    Row(Row),
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
    /// The run came to its end.
    Finish {
        /// The exit code of the process.
        exit_code: u8,
        /// The footer's figures.
        #[serde(flatten)]
        outcome: Outcome,
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
    /// Events up to the end, or to the first line that cannot be read.
    pub events: Vec<Event>,
    /// What follows from that line on; a killed run may leave half a line.
    pub truncated: Option<String>,
}

/// Reads a record, also that of a run that was killed. Blank lines, unknown events and unknown fields pass.
/// What is no record, or a newer one than this program understands, is an error.
pub fn read(bytes: &[u8]) -> Result<Record> {
    let mut events = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        let (line, next) = rest.split_at(end);
        if !line.trim_ascii().is_empty() {
            match serde_json::from_slice(line) {
                Ok(event) => events.push(event),
                Err(_) => break,
            }
        }
        rest = next;
    }
    match events.first() {
        Some(Event::Start { schema, schema_version, .. }) if schema == SCHEMA => {
            if *schema_version > SCHEMA_VERSION {
                return Err(Error::Setup(format!(
                    "the record has version {schema_version} of its schema; this program reads up to \
                     {SCHEMA_VERSION}; use a newer critrank"
                )));
            }
        }
        _ => return Err(Error::Setup("this is no critrank record: its first line is no start".to_owned())),
    }
    let truncated = (!rest.is_empty()).then(|| String::from_utf8_lossy(rest).into_owned());
    Ok(Record { events, truncated })
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
