//! Who sends how much to whom in alltoallv: a distance-weighted pattern, or a matrix from a file.
//! Source of both: nccl-tests, `alltoallv.cu`, and its `NCCL_TESTS_ALLTOALLV_*` variables.

use thiserror::Error;

use super::Exchange;
use crate::vocab::{Dtype, Member};

/// Every block is a multiple of this many bytes.
const ALIGN: u64 = 16;

/// Why a traffic matrix cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SharesError {
    /// A value is no number of bytes.
    #[error(
        "row {row} column {column} of the traffic matrix is '{text}'; write a number of bytes, 0 or more"
    )]
    Value {
        /// Row, from 1.
        row: usize,
        /// Column, from 1.
        column: usize,
        /// What stands there.
        text: String,
    },
    /// Not square.
    #[error("the traffic matrix has {rows} rows and row {row} has {columns} columns; it must be square")]
    Shape {
        /// Rows of the file.
        rows: usize,
        /// The first row of another length, from 1.
        row: usize,
        /// Its columns.
        columns: usize,
    },
}

/// The rule by which a rank's bytes are split over its peers.
#[derive(Clone, Debug, PartialEq)]
pub enum Shares {
    /// A blend of equal shares (`spread` 0) and shares that grow with the distance round the ring (`spread` 1).
    Generated {
        /// 0 to 1.
        spread: f64,
    },
    /// Bytes from rank i to rank j, already scaled and rounded down to 16.
    Matrix {
        /// `rows[i][j]`; square.
        rows: Vec<Vec<u64>>,
    },
}

impl Default for Shares {
    fn default() -> Self {
        Self::Generated { spread: 1.0 }
    }
}

impl Shares {
    /// Reads a whitespace-separated square matrix of bytes; every value is multiplied by `scale`.
    pub fn parse_matrix(text: &str, scale: f64) -> Result<Self, SharesError> {
        let mut rows = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let mut row = Vec::new();
            for word in line.split_whitespace() {
                let bytes = word.parse().map_or(f64::NAN, |value: f64| value * scale);
                if !(0.0..9.2e18).contains(&bytes) {
                    let at = (rows.len() + 1, row.len() + 1);
                    return Err(SharesError::Value { row: at.0, column: at.1, text: word.to_owned() });
                }
                row.push(bytes as u64 & !(ALIGN - 1));
            }
            rows.push(row);
        }
        let count = rows.len();
        match rows.iter().position(|row| row.len() != count) {
            None if count > 0 => Ok(Self::Matrix { rows }),
            None => Err(SharesError::Shape { rows: 0, row: 0, columns: 0 }),
            Some(at) => Err(SharesError::Shape { rows: count, row: at + 1, columns: rows[at].len() }),
        }
    }

    /// Whether blocks follow from the size of the sweep rather than from a file.
    pub fn is_generated(&self) -> bool {
        matches!(self, Self::Generated { .. })
    }

    /// Why so many ranks cannot use it.
    pub fn refuses(&self, ranks: u32) -> Option<String> {
        match self {
            Self::Matrix { rows } if rows.len() < ranks as usize => Some(format!(
                "the alltoallv traffic matrix has {} rows for {ranks} ranks; add rows and columns",
                rows.len()
            )),
            Self::Generated { .. } | Self::Matrix { .. } => None,
        }
    }

    /// Bytes that the largest sender or receiver of a matrix needs (`-e` must hold them); 0 where generated.
    pub fn matrix_bytes(&self, ranks: u32) -> u64 {
        let (send, recv) = if self.is_generated() { (0, 0) } else { self.largest(0, Dtype::Int8, ranks) };
        send.max(recv)
    }

    /// The largest send and receive totals of any rank, in elements, when the mean share is `count` elements.
    pub(super) fn largest(&self, count: u64, dtype: Dtype, ranks: u32) -> (u64, u64) {
        let table = self.table(count, dtype, ranks);
        match self {
            // Every rank sends and receives the same total.
            Self::Generated { .. } => {
                let total = table.row_total(0);
                (total, total)
            }
            Self::Matrix { .. } => {
                let send = (0..ranks).map(|rank| table.row_total(rank)).max();
                let recv = (0..ranks).map(|to| (0..ranks).map(|from| table.block(from, to)).sum()).max();
                (send.unwrap_or(0), recv.unwrap_or(0))
            }
        }
    }

    /// One rank's part.
    pub(super) fn exchange(&self, count: u64, dtype: Dtype, me: Member) -> Exchange {
        let table = self.table(count, dtype, me.ranks);
        let send: Vec<u64> = (0..me.ranks).map(|peer| table.block(me.rank, peer)).collect();
        let recv: Vec<u64> = (0..me.ranks).map(|peer| table.block(peer, me.rank)).collect();
        let (send_at, recv_at) = (starts(&send), starts(&recv));
        Exchange { send, send_at, recv, recv_at }
    }

    /// For every rank, where its block for `to` starts in its input, in elements.
    pub(super) fn starts_towards(&self, count: u64, dtype: Dtype, to: Member) -> Vec<u64> {
        let table = self.table(count, dtype, to.ranks);
        (0..to.ranks).map(|from| table.start(from, to.rank)).collect()
    }

    fn table(&self, count: u64, dtype: Dtype, ranks: u32) -> Table<'_> {
        match self {
            Self::Generated { spread } => {
                let total = count * dtype.bytes() * u64::from(ranks);
                let by_distance: Vec<u64> = (0..ranks)
                    .map(|distance| generated_bytes(*spread, total, distance, ranks) / dtype.bytes())
                    .collect();
                let starts = starts(&by_distance);
                Table::Distance { by_distance, starts }
            }
            Self::Matrix { rows } => Table::Matrix { rows, bytes: dtype.bytes(), ranks: ranks as usize },
        }
    }
}

/// Bytes to the peer at `distance` on the ring when a rank sends `total`.
fn generated_bytes(spread: f64, total: u64, distance: u32, ranks: u32) -> u64 {
    if ranks == 1 {
        return total & !(ALIGN - 1);
    }
    let distances = u64::from(ranks) * u64::from(ranks - 1) / 2;
    let uniform = total as f64 / f64::from(ranks);
    let weighted = f64::from(distance) * total as f64 / distances as f64;
    ((1.0 - spread) * uniform + spread * weighted) as u64 & !(ALIGN - 1)
}

/// Running sums, each before its own element.
fn starts(lengths: &[u64]) -> Vec<u64> {
    lengths
        .iter()
        .scan(0, |sum, length| {
            let start = *sum;
            *sum += length;
            Some(start)
        })
        .collect()
}

/// Block lengths in elements for one size.
enum Table<'a> {
    Distance { by_distance: Vec<u64>, starts: Vec<u64> },
    Matrix { rows: &'a [Vec<u64>], bytes: u64, ranks: usize },
}

impl Table<'_> {
    fn block(&self, from: u32, to: u32) -> u64 {
        match self {
            Self::Distance { by_distance, .. } => by_distance[distance(from, to, by_distance.len())],
            Self::Matrix { rows, bytes, .. } => rows[from as usize][to as usize] / bytes,
        }
    }

    fn row_total(&self, from: u32) -> u64 {
        match self {
            Self::Distance { by_distance, .. } => by_distance.iter().sum(),
            Self::Matrix { rows, bytes, ranks } => {
                rows[from as usize][..*ranks].iter().map(|length| length / bytes).sum()
            }
        }
    }

    /// Elements in `from`'s input before its block for `to`.
    fn start(&self, from: u32, to: u32) -> u64 {
        match self {
            // Peers 0..to are the distances from -from to to-from-1, which may go once round the ring.
            Self::Distance { by_distance, starts } => {
                let ranks = by_distance.len();
                let total: u64 = by_distance.iter().sum();
                let (first, end) = (distance(from, 0, ranks), distance(from, to, ranks));
                if end >= first { starts[end] - starts[first] } else { total - starts[first] + starts[end] }
            }
            Self::Matrix { rows, bytes, .. } => {
                rows[from as usize][..to as usize].iter().map(|length| length / bytes).sum()
            }
        }
    }
}

fn distance(from: u32, to: u32, ranks: usize) -> usize {
    (to as usize + ranks - from as usize) % ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_agree_with_summed_blocks() {
        let matrix = Shares::parse_matrix("100 200 150\n50 100 75\n300 150 200\n", 1.0).unwrap();
        for shares in [matrix, Shares::default(), Shares::Generated { spread: 0.3 }] {
            for ranks in 1..=3 {
                let table = shares.table(1000, Dtype::Float, ranks);
                for to in 0..ranks {
                    let starts = shares.starts_towards(1000, Dtype::Float, Member { rank: to, ranks });
                    for from in 0..ranks {
                        let sum: u64 = (0..to).map(|peer| table.block(from, peer)).sum();
                        assert_eq!(starts[from as usize], sum, "{shares:?} {from} to {to}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_generated_pattern_is_that_of_nccl_tests() {
        // nccl-tests 2.19.6, 4 ranks, 512 B: the table's size column reads 496.
        let shares = Shares::default();
        assert_eq!(shares.largest(32, Dtype::Float, 4), (124, 124));
        let exchange = shares.exchange(32, Dtype::Float, Member { rank: 1, ranks: 4 });
        assert_eq!(exchange.send, [64, 0, 20, 40]);
        assert_eq!(exchange.recv, [20, 0, 64, 40]);
    }

    #[test]
    fn bad_matrices_say_where() {
        let error = |text| Shares::parse_matrix(text, 1.0).unwrap_err().to_string();
        assert!(error("1 2\n3 x\n").starts_with("row 2 column 2"));
        assert!(error("1 2\n3\n").contains("row 2 has 1 columns"));
        assert!(error("1 -2\n3 4\n").starts_with("row 1 column 2"));
        assert!(error("").contains("0 rows"));
    }
}
