//! Tukey's median polish: times of pairs into a common part, sender, receiver and link.
//!
//! `y_ij = overall + send_i + recv_j + link_ij` with `y` the logarithm of a time, so that parts are ratios. The
//! table may have holes.

use super::lower_median;

/// One directed pair's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Sender.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// Logarithm of the time.
    pub y: f64,
}

/// What the polish takes a table apart into.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Polished {
    /// The part of all cells.
    pub overall: f64,
    /// Each rank's part as sender; `None` where it never sent.
    pub send: Vec<Option<f64>>,
    /// Each rank's part as receiver; `None` where it never received.
    pub recv: Vec<Option<f64>>,
    /// What is left of each cell, in the order of the cells.
    pub link: Vec<f64>,
}

/// Sweeps at most; a change below `SETTLED` ends them.
const SWEEPS: usize = 10;
const SETTLED: f64 = 2e-3;

/// Takes apart the `cells` of `ranks` ranks. Medians are lower ones: of two values the smaller, since a fault only
/// ever adds time. A rank with less than half as many cells as the one with most gets no part: a single cell would
/// lay its peer's slowness upon it.
pub fn polish(ranks: u32, cells: &[Cell]) -> Polished {
    let overall = lower_median(&mut cells.iter().map(|cell| cell.y).collect::<Vec<_>>()).unwrap_or(0.0);
    let mut link: Vec<f64> = cells.iter().map(|cell| cell.y - overall).collect();
    let mut rows = index(ranks, cells, |cell| cell.from);
    let mut columns = index(ranks, cells, |cell| cell.to);
    let longest = rows.iter().chain(&columns).map(Vec::len).max().unwrap_or(0);
    rows.iter_mut().chain(&mut columns).filter(|line| 2 * line.len() < longest).for_each(Vec::clear);
    let (mut send, mut recv) = (vec![None; ranks as usize], vec![None; ranks as usize]);
    for _ in 0..SWEEPS {
        let change = sweep(&mut link, &rows, &mut send).max(sweep(&mut link, &columns, &mut recv));
        if change < SETTLED {
            break;
        }
    }
    let overall = overall + center(&mut send) + center(&mut recv);
    Polished { overall, send, recv, link }
}

/// Cells by row or column.
fn index(ranks: u32, cells: &[Cell], line: impl Fn(&Cell) -> u32) -> Vec<Vec<u32>> {
    let mut lines = vec![Vec::new(); ranks as usize];
    for (at, cell) in (0..).zip(cells) {
        lines[line(cell) as usize].push(at);
    }
    lines
}

/// Moves each line's median from its cells into its part; the largest move.
fn sweep(link: &mut [f64], lines: &[Vec<u32>], parts: &mut [Option<f64>]) -> f64 {
    let (mut largest, mut values) = (0.0_f64, Vec::new());
    for (line, part) in lines.iter().zip(parts) {
        values.clear();
        values.extend(line.iter().map(|at| link[*at as usize]));
        let Some(median) = lower_median(&mut values) else { continue };
        for at in line {
            link[*at as usize] -= median;
        }
        *part = Some(part.unwrap_or(0.0) + median);
        largest = largest.max(median.abs());
    }
    largest
}

/// Takes the median over all ranks out of the parts, and returns it; a rank without a part counts as 0.
fn center(parts: &mut [Option<f64>]) -> f64 {
    let mut values: Vec<f64> = parts.iter().map(|part| part.unwrap_or(0.0)).collect();
    let median = lower_median(&mut values).unwrap_or(0.0);
    parts.iter_mut().flatten().for_each(|part| *part -= median);
    median
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(ranks: u32, y: impl Fn(u32, u32) -> f64) -> Vec<Cell> {
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to).map(|(from, to)| Cell { from, to, y: y(from, to) }).collect()
    }

    #[test]
    fn sender_receiver_and_link_are_told_apart() {
        // The injected ones of docs/METHODOLOGY.md: sender +25 %, receiver +10 %, one link +50 %.
        let wobble = |from: u32, to: u32| f64::from((from * 7 + to * 13) % 5) * 1e-3;
        let cells = full(8, |from, to| {
            let mut time: f64 = 100.0;
            time *= if from == 3 { 1.25 } else { 1.0 };
            time *= if to == 5 { 1.10 } else { 1.0 };
            time *= if (from, to) == (1, 6) { 1.50 } else { 1.0 };
            time.ln() + wobble(from, to)
        });
        let polished = polish(8, &cells);
        let part = |parts: &[Option<f64>], rank: usize| parts[rank].unwrap().exp();
        assert!((part(&polished.send, 3) - 1.25).abs() < 0.01, "{polished:?}");
        assert!((part(&polished.recv, 5) - 1.10).abs() < 0.01, "{polished:?}");
        assert!((polished.overall.exp() - 100.0).abs() < 1.0, "{polished:?}");
        for (cell, link) in cells.iter().zip(&polished.link) {
            let expected = if (cell.from, cell.to) == (1, 6) { 1.5 } else { 1.0 };
            assert!((link.exp() - expected).abs() < 0.01, "{cell:?} {link}");
        }
    }

    #[test]
    fn holes_stay_holes_and_every_cell_adds_up() {
        let mut cells = full(5, |from, to| f64::from(from * 3 + to));
        cells.retain(|cell| cell.from != 2 && (cell.from, cell.to) != (0, 4));
        let polished = polish(5, &cells);
        assert_eq!(polished.send[2], None);
        for (cell, link) in cells.iter().zip(&polished.link) {
            let part = |parts: &[Option<f64>], rank: u32| parts[rank as usize].unwrap();
            let parts = part(&polished.send, cell.from) + part(&polished.recv, cell.to);
            assert!((polished.overall + parts + link - cell.y).abs() < 1e-9);
        }
        assert_eq!(polish(3, &[]).send, [None, None, None]);
    }

    #[test]
    fn whoever_met_the_slow_one_alone_gets_no_part() {
        let cells: Vec<Cell> = (1..5).map(|from| Cell { from, to: 0, y: 1.0 }).collect();
        let others = [(1, 2), (2, 1), (3, 4), (4, 3), (5, 6), (6, 5), (7, 8), (8, 7)];
        let others = others.map(|(from, to)| Cell { from, to, y: 0.0 });
        let polished = polish(9, &[cells, others.to_vec()].concat());
        assert_eq!(polished.recv[0], Some(1.0));
        assert!(polished.send.iter().flatten().all(|part| part.abs() < 1e-9), "{polished:?}");
    }

    #[test]
    fn among_three_ranks_the_slow_sender_does_not_accuse_its_receivers() {
        let cells = full(3, |from, _| if from == 2 { 1.0 } else { 0.0 });
        let polished = polish(3, &cells);
        assert_eq!(polished.send, [Some(0.0), Some(0.0), Some(1.0)]);
        assert_eq!(polished.recv, [Some(0.0); 3]);
    }
}
