//! The two figures of the table's footer, over all rows.

use super::{Row, Wrong};

/// Grows row by row; small, whatever the number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    busbw_sum_gbps: f64,
    peak_busbw_gbps: f64,
    cells: u64,
    out_of_bounds: u64,
    wrong_elements: u64,
}

impl Totals {
    /// Counts a row in.
    pub fn push(&mut self, row: &Row) {
        for cell in &row.cells {
            self.busbw_sum_gbps += cell.busbw_gbps;
            self.peak_busbw_gbps = self.peak_busbw_gbps.max(cell.busbw_gbps);
            self.cells += 1;
            self.out_of_bounds += cell.wrong_ranks.len() as u64;
            if let Wrong::Count(wrong) = cell.wrong {
                self.wrong_elements += wrong;
            }
        }
    }

    /// Plain mean of all busbw, both placements, rows of size 0 included, in 10^9 B/s; 0 without rows. Source:
    /// nccl-tests, `bw[0] / bw_count[0]`.
    pub fn average_busbw_gbps(&self) -> f64 {
        if self.cells == 0 { 0.0 } else { self.busbw_sum_gbps / self.cells as f64 }
    }

    /// The highest busbw of any cell, in 10^9 B/s; 0 without rows.
    pub const fn peak_busbw_gbps(&self) -> f64 {
        self.peak_busbw_gbps
    }

    /// Pairs of a rank and a measurement in which that rank's own data was wrong; nccl-tests' "Out of bounds
    /// values".
    pub const fn out_of_bounds(&self) -> u64 {
        self.out_of_bounds
    }

    /// Wrong elements over all ranks and cells: the sum of the `#wrong` columns.
    pub const fn wrong_elements(&self) -> u64 {
        self.wrong_elements
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the values are exact")]
mod tests {
    use super::*;

    #[test]
    fn without_rows_the_average_is_zero() {
        assert_eq!(Totals::default().average_busbw_gbps(), 0.0);
    }
}
