//! What rows are compared within: over cycles, epochs and runs these stay the same.

use serde::{Deserialize, Serialize};

use super::Row;
use crate::vocab::{Dtype, Placement};

/// A size of one type, reduction, root and placement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// As the row's.
    pub requested_bytes: u64,
    /// Element type.
    pub dtype: Dtype,
    /// The redop column.
    pub redop: String,
    /// The root column.
    pub root: i64,
    /// Out-of-place or in-place.
    pub placement: Placement,
}

impl Case {
    /// That of a row's cell of this placement.
    pub fn of(row: &Row, placement: Placement) -> Self {
        let Row { requested_bytes, dtype, redop, root, .. } = row;
        Self {
            requested_bytes: *requested_bytes,
            dtype: *dtype,
            redop: redop.clone(),
            root: *root,
            placement,
        }
    }
}
