//! Rank × repetition to rows: pure. What is summarised how stands in docs/METHODOLOGY.md.

mod arrivals;
mod case;
mod cell;
mod critical;
mod expectation;
mod ladder;
mod late;
mod marks;
mod model;
mod overhead;
mod statistics;
mod summary;
#[cfg(test)]
mod testing;
mod totals;

pub use arrivals::{Arrivals, ClockError, Last, OnGpu, Spread, arrivals};
pub use case::Case;
pub use cell::{Check, How, cell, split_cell};
pub use critical::{Critical, Mode, Observer, Verdict};
pub use expectation::{Compared, Ratio, Side, Speeds, Standing};
pub use ladder::{Gathering, Ladder, LateTrial, smallest_found};
pub use late::{Late, LateObserver, LateVerdict, SeenAt, late};
pub use marks::MarkTimer;
pub use model::{Model, models};
pub use overhead::{Overhead, PAIRS, overhead};
pub use statistics::{Basis, Cycle, Drifting, Statistician, Statistics, by_epoch, drifting};
pub use totals::Totals;

use serde::{Deserialize, Serialize};

use crate::stats::Stop;
use crate::verify::Tally;
use crate::vocab::{Cadence, Dtype, Placement};

/// Per-iteration times of one rank in µs; a series that does not exist in the mode is empty, never zeros.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// From the call to its return.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enqueue_us: Vec<f64>,
    /// The collective's own pair of marks on its stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event_us: Vec<f64>,
    /// From the call to the end of the host's wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completion_us: Vec<f64>,
    /// nccl-tests' interval of `-I`: between the marks of neighbouring iterations, or in `-z 3` the pair.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interval_us: Vec<f64>,
    /// When the operation was called, on one clock for all ranks, counted from the first call of the cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrival_us: Vec<f64>,
    /// When the operation's marks were reached on the GPU, first the one before it, then the one behind it, on the
    /// same clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_us: Vec<[f64; 2]>,
    /// When the rank came out of bare barriers, right after the timed loop, on the same clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exit_us: Vec<f64>,
    /// With `--precision` or `--budget`: `total_us` of every timed block, whose mean the rank's is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks_us: Vec<f64>,
}

/// What one rank brings back from one placement of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankSample {
    /// The rank.
    pub rank: u32,
    /// Host time per operation to completion, in µs; in `-z 3` without the barriers.
    pub total_us: f64,
    /// Host time per operation before the last wait, in µs (`-C`).
    pub cpu_us: f64,
    /// Per iteration, where the mode has it.
    pub series: Series,
    /// Wrong elements, where they were counted.
    pub tally: Option<Tally>,
}

/// RANK0, AVG, MIN and MAX over ranks, in µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Rank 0's own (`-a 0`).
    pub rank0_us: f64,
    /// Mean over ranks (`-a 1`, the default).
    pub avg_us: f64,
    /// The shortest (`-a 2`).
    pub min_us: f64,
    /// The longest (`-a 3`).
    pub max_us: f64,
}

/// What `-a` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Average {
    /// `-a 0`.
    Rank0,
    /// `-a 1`.
    Avg,
    /// `-a 2`.
    Min,
    /// `-a 3`.
    Max,
}

/// What the check of one placement says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// Wrong elements, summed over ranks.
    Count(u64),
    /// `-c 0`.
    #[default]
    NotChecked,
    /// The placement has no defined result (in-place alltoall).
    Undefined,
    /// No check can see an error here; the reason.
    Blind(String),
}

/// Statistics of `-I`, as nccl-tests defines them, over the per-iteration maximum of all ranks; µs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerIteration {
    /// Leading samples that the statistics leave out (`-K`).
    pub skipped: usize,
    /// Smallest.
    pub min_us: f64,
    /// Largest.
    pub max_us: f64,
    /// Mean.
    pub avg_us: f64,
    /// Upper median: element n/2 of the sorted samples.
    pub p50_us: f64,
    /// Nearest rank.
    pub p95_us: f64,
    /// Nearest rank; below 100 samples it is the largest.
    pub p99_us: f64,
    /// Population standard deviation.
    pub stdev_us: f64,
    /// `stdev_us / avg_us`, in percent.
    pub cv_pct: f64,
    /// The maximum over ranks, per iteration.
    pub times_us: Vec<f64>,
    /// Per process, the maximum over its ranks, per iteration.
    pub per_process_us: Vec<Vec<f64>>,
}

/// One group's part in a cell, where `NCCL_TESTS_SPLIT` makes groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupTime {
    /// Its colour.
    pub group: u32,
    /// Its ranks.
    pub ranks: u32,
    /// Over its ranks, of the host time to completion.
    pub time: Summary,
    /// As the cell's, of this group alone.
    pub algbw_gbps: f64,
    /// As the cell's, of this group alone.
    pub busbw_gbps: f64,
    /// Wrong elements of its ranks.
    #[serde(default)]
    pub wrong: Wrong,
}

/// One placement of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Out-of-place or in-place.
    pub placement: Placement,
    /// Over ranks, of the host time to completion.
    pub time: Summary,
    /// Over ranks, of the host time before the last wait.
    pub cputime: Summary,
    /// The table's time: `-a` of `time`, or with `-C` of `cputime`.
    pub shown_us: f64,
    /// From `-a` of `time` (also with `-C`, as in nccl-tests), in 10^9 B/s.
    pub algbw_gbps: f64,
    /// algbw × the collective's factor.
    pub busbw_gbps: f64,
    /// The check.
    pub wrong: Wrong,
    /// Ranks whose own data was wrong: nccl-tests' "Out of bounds values" counts them over all cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_ranks: Vec<u32>,
    /// Where losing one rank's contribution is not certain to show: elements of the message over the number from
    /// which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<f64>,
    /// With `--explain`, the algorithm, protocol and channels that the library used, or `unknown` and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// With `--explain`, the library's own estimate of one operation, in µs, where it gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_us: Option<f64>,
    /// With `--explain`, why there is no estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpredicted: Option<String>,
    /// With `--precision` or `--budget`: why the timed blocks ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Every group, where there are several; the figures above are then the slowest group's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupTime>,
    /// With `-I`.
    pub per_iteration: Option<PerIteration>,
    /// With `-I` where ranks meet after each iteration (`-z 1`, `-z 3`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Every rank's own times, in rank order.
    pub ranks: Vec<RankSample>,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Bytes that the sweep asked for.
    pub requested_bytes: u64,
    /// Bytes that the table shows, after rounding to what ranks can share.
    pub size_bytes: u64,
    /// The count argument of the call.
    pub count: u64,
    /// Element type.
    pub dtype: Dtype,
    /// The redop column: a reduction's name, or `none`.
    pub redop: String,
    /// The root column; -1 where there is none.
    pub root: i64,
    /// Which communicator (`--epochs`), from 0.
    #[serde(default)]
    pub epoch: u64,
    /// Which pass over the sizes (`-N`) of its epoch, from 0.
    pub cycle: u64,
    /// Iterations per placement, or of a timed block.
    pub iterations: u64,
    /// How its operations follow each other; the first records do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cadence: Option<Cadence>,
    /// Local time when the row was finished, `%Y-%m-%d %H:%M:%S`.
    pub timestamp: String,
    /// Out-of-place, then in-place.
    pub cells: Vec<Cell>,
}
