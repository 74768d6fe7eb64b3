//! Sizes that fit: into memory, and into one call.

use crate::backend::{Kind, Memory};
use crate::error::{Error, Result};
use crate::vocab::Dtype;

const GIB: u64 = 1 << 30;

/// The sweep's bounds after the cut to what memory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) min_bytes: u64,
    pub(super) max_bytes: u64,
    /// Whether memory cut it.
    pub(super) reduced: bool,
    /// How the cut came about, with its numbers.
    pub(super) formula: String,
}

/// Memory that is left alone: for the communicator's later buffers on a GPU (nccl-tests' rule: 1 GiB per 16 GiB, at
/// most 4, plus 1), a tenth on a host.
fn reserve(kind: Kind, memory: Memory) -> u64 {
    match kind {
        Kind::Nccl => (memory.total_bytes.div_ceil(16 * GIB) * GIB).min(4 * GIB) + GIB,
        Kind::Mpi | Kind::Sim => memory.free_bytes / 10,
    }
}

/// The largest size whose two buffers fit into one rank's share of free memory.
pub(super) fn capacity(kind: Kind, memory: Memory, unalign_bytes: u64) -> (u64, String) {
    let reserve = reserve(kind, memory);
    let capacity = (memory.free_bytes.saturating_sub(reserve) / 2).saturating_sub(unalign_bytes) & !15;
    let formula = format!(
        "({} free - {reserve} reserved) / 2 buffers = {capacity} bytes for each rank, at the rank with the least",
        memory.free_bytes
    );
    (capacity, formula)
}

/// Cuts the sweep to `capacity`, or refuses with `strict`.
pub(super) fn bounds(
    min_bytes: u64,
    max_bytes: u64,
    capacity: u64,
    formula: String,
    strict: bool,
) -> Result<Bounds> {
    if max_bytes <= capacity {
        return Ok(Bounds { min_bytes, max_bytes, reduced: false, formula });
    }
    if strict || capacity == 0 {
        return Err(Error::Unsupported(format!(
            "-e {max_bytes} does not fit: {formula}; use -e {capacity} or fewer ranks for each device"
        )));
    }
    Ok(Bounds { min_bytes: min_bytes.min(capacity), max_bytes: capacity, reduced: true, formula })
}

/// Refuses a sweep whose largest call has more elements than the library can count.
pub(super) fn countable(max_bytes: u64, dtypes: &[Dtype], largest_count: u64) -> Result<()> {
    let narrowest = dtypes.iter().min_by_key(|dtype| dtype.bytes());
    let Some(dtype) = narrowest.filter(|dtype| max_bytes / dtype.bytes() > largest_count) else {
        return Ok(());
    };
    let fits = largest_count.saturating_mul(dtype.bytes());
    Err(Error::Unsupported(format!(
        "-e {max_bytes} is {} elements of {dtype}; the library counts up to {largest_count} in one call: use -e {fits} or less",
        max_bytes / dtype.bytes()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_of_140_gib_takes_half_of_what_is_free() {
        let memory = Memory { free_bytes: 139 * GIB, total_bytes: 140 * GIB };
        let (capacity, formula) = capacity(Kind::Nccl, memory, 0);
        assert_eq!(capacity, 67 * GIB);
        assert!(formula.contains("5368709120 reserved"), "{formula}");
    }

    #[test]
    fn sizes_are_cut_or_refused() {
        let cut = bounds(8, 1 << 40, 1 << 30, String::new(), false).unwrap();
        assert_eq!((cut.min_bytes, cut.max_bytes, cut.reduced), (8, 1 << 30, true));
        let low = bounds(1 << 40, 1 << 40, 1 << 30, String::new(), false).unwrap();
        assert_eq!((low.min_bytes, low.max_bytes), (1 << 30, 1 << 30));
        assert!(bounds(8, 1 << 40, 1 << 30, String::new(), true).is_err());
        assert!(bounds(8, 1 << 40, 0, String::new(), false).is_err());
        assert!(!bounds(8, 64, 64, String::new(), true).unwrap().reduced);
    }

    #[test]
    fn the_largest_size_that_can_be_counted_is_named() {
        let largest = i32::MAX as u64;
        assert!(countable(8 << 30, &[Dtype::Double], largest).is_ok());
        let error = countable(16 << 30, &[Dtype::Double, Dtype::Float], largest).unwrap_err().to_string();
        assert!(error.contains("use -e 8589934588 or less"), "{error}");
    }
}
