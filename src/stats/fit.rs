//! Time over size as segments of alpha + bytes / beta: dynamic programming over the breaks, a truncated loss within a
//! segment, and as many segments as known noise pays for (docs/METHODOLOGY.md, "Time over size").

use serde::{Deserialize, Serialize};

/// Residual, in standard deviations, beyond which a point costs no more.
const TRUNCATE: f64 = 3.0;
/// Points of a segment.
const SHORTEST: usize = 3;
/// The same where sizes lie closer than a factor of two.
const SHORTEST_DENSE: usize = 4;
/// Segments.
const MOST: usize = 6;
/// Pairs of points that a segment's line is tried from.
const PAIRS: usize = 60;
/// Least relative error of a point: too small an error invents segments, too large a one hides few.
const LEAST_ERROR: f64 = 0.01;

/// One size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its size.
    pub bytes: f64,
    /// Median over cycles, in µs.
    pub time_us: f64,
    /// Relative standard error of that, such as the spread of ln(cycle) over sqrt(cycles).
    pub relative_error: f64,
}

impl Point {
    /// Twice the error, 1 % at least.
    fn sigma_us(self) -> f64 {
        (2.0 * self.relative_error).max(LEAST_ERROR) * self.time_us
    }
}

/// A stretch of sizes on one line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Smallest size.
    pub from_bytes: u64,
    /// Largest size.
    pub to_bytes: u64,
    /// Time of no bytes, in µs.
    pub alpha_us: f64,
    /// Time of one more byte, in µs; its inverse over 1000 is beta in 10^9 B/s.
    pub us_per_byte: f64,
    /// Largest distance of a time from the line, over the line.
    pub worst_residual: f64,
}

impl Segment {
    /// Time of `bytes`, in µs.
    pub fn time_us(&self, bytes: f64) -> f64 {
        self.alpha_us + self.us_per_byte * bytes
    }

    /// Asymptotic algbw, in 10^9 B/s; `None` where more bytes take no more time.
    pub fn beta_gbps(&self) -> Option<f64> {
        (self.us_per_byte > 0.0).then(|| 1e-3 / self.us_per_byte)
    }

    /// The size at which half of the asymptotic algbw is reached, in bytes.
    pub fn half_bytes(&self) -> Option<f64> {
        self.beta_gbps().map(|beta| self.alpha_us * beta * 1e3)
    }
}

/// Segments by size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// In order of size, without gaps.
    pub segments: Vec<Segment>,
}

impl Fit {
    /// What the model says of a size, in µs; beyond both ends the nearest segment speaks.
    pub fn time_us(&self, bytes: f64) -> Option<f64> {
        let holds = self.segments.iter().find(|segment| bytes <= segment.to_bytes as f64);
        holds.or(self.segments.last()).map(|segment| segment.time_us(bytes))
    }

    /// At each break, the right model's time over the left one's, at the first size of the right: 1 is a kink, above
    /// it the library switched too early, below it too late.
    pub fn jumps(&self) -> Vec<f64> {
        let jump = |pair: &[Segment]| {
            let at = pair[1].from_bytes as f64;
            pair[1].time_us(at) / pair[0].time_us(at)
        };
        self.segments.windows(2).map(jump).collect()
    }
}

/// Fits points with growing sizes and positive times; `None` below three of them.
pub fn fit(points: &[Point]) -> Option<Fit> {
    let m = points.len();
    let usable = points.iter().all(|point| point.time_us > 0.0 && point.bytes > 0.0);
    if m < SHORTEST || !usable {
        return None;
    }
    let octaves = (points[m - 1].bytes / points[0].bytes).log2();
    let shortest = if (m - 1) as f64 > 1.5 * octaves && m > SHORTEST { SHORTEST_DENSE } else { SHORTEST };
    // best[k][j]: least cost of the first j points in k segments, and where the last one starts.
    let mut best = vec![vec![(f64::INFINITY, 0); m + 1]; MOST + 1];
    best[0][0].0 = 0.0;
    let lines: Vec<Vec<Line>> =
        (0..m).map(|from| (from + shortest..=m).map(|to| line(&points[from..to])).collect()).collect();
    for k in 1..=MOST {
        for to in shortest * k..=m {
            let starts = (shortest * (k - 1)..=to - shortest)
                .map(|from| (best[k - 1][from].0 + lines[from][to - from - shortest].cost, from));
            best[k][to] = starts.min_by(|a, b| a.0.total_cmp(&b.0))?;
        }
    }
    // Two parameters a segment and one a break; sigma is known, so no estimate of it enters.
    let price = |k: usize| best[k][m].0 + (3 * k - 1) as f64 * (m as f64).ln();
    let mut k = (1..=MOST).min_by(|a, b| price(*a).total_cmp(&price(*b)))?;
    let (mut to, mut segments) = (m, Vec::new());
    while k > 0 {
        let from = best[k][to].1;
        segments.push(segment(&points[from..to], lines[from][to - from - shortest]));
        (to, k) = (from, k - 1);
    }
    segments.reverse();
    Some(Fit { segments })
}

/// A line and its cost.
#[derive(Clone, Copy, Debug)]
struct Line {
    alpha_us: f64,
    us_per_byte: f64,
    cost: f64,
}

fn segment(points: &[Point], line: Line) -> Segment {
    let off = |point: &Point| {
        let model = line.alpha_us + line.us_per_byte * point.bytes;
        (point.time_us / model - 1.0).abs()
    };
    Segment {
        from_bytes: points[0].bytes as u64,
        to_bytes: points[points.len() - 1].bytes as u64,
        alpha_us: line.alpha_us,
        us_per_byte: line.us_per_byte,
        worst_residual: points.iter().map(off).fold(0.0, f64::max),
    }
}

/// The line with the least sum of min(r², 9), r in standard deviations, from several starts.
fn line(points: &[Point]) -> Line {
    let all: Vec<&Point> = points.iter().collect();
    let starts = std::iter::once(least_squares(&all)).chain(elemental(points));
    let best = starts.map(|start| refined(points, start)).min_by(|a, b| a.cost.total_cmp(&b.cost));
    // There is always the first start.
    best.unwrap_or(Line { alpha_us: 0.0, us_per_byte: 0.0, cost: f64::INFINITY })
}

/// Lines through pairs of points, up to [`PAIRS`] of them, evenly chosen.
fn elemental(points: &[Point]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let m = points.len();
    let pairs: Vec<(usize, usize)> = (0..m).flat_map(|i| (i + 1..m).map(move |j| (i, j))).collect();
    let step = pairs.len().div_ceil(PAIRS).max(1);
    pairs.into_iter().step_by(step).filter_map(|(i, j)| {
        let slope = (points[j].time_us - points[i].time_us) / (points[j].bytes - points[i].bytes);
        let alpha = points[i].time_us - slope * points[i].bytes;
        (slope >= 0.0 && alpha >= 0.0).then_some((alpha, slope))
    })
}

/// Least squares over what lies near, four times.
fn refined(points: &[Point], (mut alpha_us, mut us_per_byte): (f64, f64)) -> Line {
    let residual = |point: &Point, alpha: f64, slope: f64| {
        (point.time_us - alpha - slope * point.bytes) / point.sigma_us()
    };
    for _ in 0..4 {
        let near: Vec<&Point> =
            points.iter().filter(|point| residual(point, alpha_us, us_per_byte).abs() <= TRUNCATE).collect();
        if near.len() < 2.max(points.len().div_ceil(2)) {
            break;
        }
        (alpha_us, us_per_byte) = least_squares(&near);
    }
    let cost = |point: &Point| residual(point, alpha_us, us_per_byte).powi(2).min(TRUNCATE * TRUNCATE);
    Line { alpha_us, us_per_byte, cost: points.iter().map(cost).sum() }
}

/// Weighted by 1 / sigma²; neither alpha nor the slope below 0.
fn least_squares(points: &[&Point]) -> (f64, f64) {
    let sum = |term: &dyn Fn(&Point) -> f64| {
        points.iter().map(|point| term(point) / point.sigma_us().powi(2)).sum::<f64>()
    };
    let weight = sum(&|_| 1.0);
    let (bytes, time) = (sum(&|p| p.bytes) / weight, sum(&|p| p.time_us) / weight);
    let square = sum(&|p| (p.bytes - bytes).powi(2));
    let product = sum(&|p| (p.bytes - bytes) * (p.time_us - time));
    let slope = if square > 0.0 { product / square } else { 0.0 };
    if slope < 0.0 {
        return (time, 0.0);
    }
    let alpha = time - slope * bytes;
    if alpha < 0.0 {
        return (0.0, sum(&|p| p.bytes * p.time_us) / sum(&|p| p.bytes.powi(2)));
    }
    (alpha, slope)
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
