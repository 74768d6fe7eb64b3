//! Rows for the tests of this module.

use super::{Average, Check, How, RankSample, Row, cell};
use crate::collective::Traffic;
use crate::vocab::{Dtype, Placement};

/// Means over four ranks, a process each.
pub(super) fn how(per_iteration: bool, skip: usize) -> How<'static> {
    How { average: Average::Avg, cputime: false, per_iteration, skip, processes: &[0, 1, 2, 3] }
}

/// A row of a size in bytes, with the same samples in both placements.
pub(super) fn row(bytes: u64, cycle: u64, ranks: &[RankSample], how: How<'_>) -> Row {
    let traffic = Traffic { bytes, bus_factor: 1.0 };
    let cells =
        Placement::BOTH.map(|placement| cell(placement, ranks.to_vec(), traffic, how, Check::NotChecked));
    Row {
        requested_bytes: bytes,
        size_bytes: bytes,
        count: bytes,
        dtype: Dtype::Int8,
        redop: "sum".into(),
        root: -1,
        epoch: 0,
        cycle,
        iterations: 20,
        cadence: None,
        timestamp: String::new(),
        cells: cells.to_vec(),
    }
}
