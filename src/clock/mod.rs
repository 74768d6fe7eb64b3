//! Clocks of several hosts on one scale: offsets from ping-pong, drift from several of them. Pure: no clock is read.
//!
//! Bounding as in `SKaMPI`: the other clock was read between sending and receiving, so each round trip bounds the
//! offset, and all bounds hold at once. There is nothing to average, and the error is a bound, not an estimate.

mod timer;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub use timer::{Timer, timer};

/// One round trip: two readings of the own clock around one of the other, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Own clock, before the question is sent.
    pub sent_ns: u64,
    /// The other clock, while it answers.
    pub other_ns: u64,
    /// Own clock, when the answer is there.
    pub received_ns: u64,
}

impl Ping {
    /// From question to answer.
    pub fn round_trip_ns(&self) -> u64 {
        self.received_ns.saturating_sub(self.sent_ns)
    }

    /// The least and the largest that `other − own` can be.
    fn bounds_ns(&self) -> (f64, f64) {
        (difference(self.other_ns, self.received_ns), difference(self.other_ns, self.sent_ns))
    }
}

/// What one burst of round trips says. All in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Own clock in the middle of the burst.
    pub at_ns: u64,
    /// Other clock minus own.
    pub offset_ns: f64,
    /// The true offset is at most so far away.
    pub error_ns: f64,
    /// The fastest round trip.
    pub round_trip_ns: u64,
}

impl Point {
    /// What all round trips of a burst allow at once. Where they contradict each other (a clock was set, or drifts
    /// faster than the burst is long) the fastest alone decides. `None` without any.
    pub fn from_pings(pings: &[Ping]) -> Option<Self> {
        let fastest = pings.iter().min_by_key(|ping| ping.round_trip_ns())?;
        let (start, end) = (pings.first()?.sent_ns, pings.last()?.received_ns);
        let bounds = || pings.iter().map(Ping::bounds_ns);
        let least = bounds().map(|(least, _)| least).fold(f64::NEG_INFINITY, f64::max);
        let most = bounds().map(|(_, most)| most).fold(f64::INFINITY, f64::min);
        let (least, most) = if least <= most { (least, most) } else { fastest.bounds_ns() };
        Some(Self {
            at_ns: start.midpoint(end),
            offset_ns: f64::midpoint(least, most),
            error_ns: (most - least) / 2.0,
            round_trip_ns: fastest.round_trip_ns(),
        })
    }
}

/// Points that a fit looks back to: over minutes a clock's drift changes with its temperature.
const KEPT: usize = 8;

/// The points of one other clock, the newest last.
#[derive(Clone, Debug, Default)]
pub struct Track {
    points: VecDeque<Point>,
}

impl Track {
    /// Adds a point that is newer than all others.
    pub fn push(&mut self, point: Point) {
        if self.points.len() == KEPT {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// The newest point.
    pub fn newest(&self) -> Option<&Point> {
        self.points.back()
    }

    /// The line through the points: weighted least squares, weights 1/error². `None` without a point.
    pub fn fit(&self) -> Option<Fit> {
        let newest = self.points.back()?;
        let weight = |point: &Point| 1.0 / (point.error_ns.max(1.0) * point.error_ns.max(1.0));
        let time = |point: &Point| difference(point.at_ns, newest.at_ns);
        let sum = |value: &dyn Fn(&Point) -> f64| {
            self.points.iter().map(|point| weight(point) * value(point)).sum::<f64>()
        };
        let total = sum(&|_| 1.0);
        let (mean_time, mean_offset) = (sum(&time) / total, sum(&|point| point.offset_ns) / total);
        let spread = sum(&|point| (time(point) - mean_time).powi(2));
        let slope = if spread > 0.0 {
            sum(&|point| (time(point) - mean_time) * (point.offset_ns - mean_offset)) / spread
        } else {
            0.0
        };
        // Points close together would else make a drift of their errors, and of that, later, an offset.
        let slope = if slope.abs() > self.doubt() { slope } else { 0.0 };
        let mut fit = Fit {
            at_ns: newest.at_ns,
            offset_ns: mean_offset - slope * mean_time,
            drift_ppm: slope * 1e6,
            error_ns: 0.0,
        };
        // The truth is within each point's error, the line its residue away from the point; between two points a
        // steady drift leaves the line by no more than at the worse of them.
        let far = |point: &Point| (fit.offset_at(point.at_ns) - point.offset_ns).abs() + point.error_ns;
        fit.error_ns = self.points.iter().map(far).fold(0.0, f64::max);
        Some(fit)
    }

    /// The drift that errors alone may come to, as the two points say that say most of it.
    fn doubt(&self) -> f64 {
        let pairs = self
            .points
            .iter()
            .enumerate()
            .flat_map(|(at, first)| self.points.iter().skip(at + 1).map(move |last| (first, last)));
        let doubts = pairs.map(|(first, last)| {
            (first.error_ns + last.error_ns) / difference(last.at_ns, first.at_ns).max(1.0)
        });
        doubts.fold(f64::INFINITY, f64::min)
    }
}

/// Another clock's offset over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    at_ns: u64,
    offset_ns: f64,
    /// How fast the other clock gains, in 10^-6; 0 where the points' errors alone may come to as much.
    pub drift_ppm: f64,
    /// A bound of the offset's error between the first and the last point, if the drift was steady.
    pub error_ns: f64,
}

impl Fit {
    /// The own clock itself.
    pub const OWN: Self = Self { at_ns: 0, offset_ns: 0.0, drift_ppm: 0.0, error_ns: 0.0 };

    /// Other minus own clock, when the own shows `own_ns`.
    pub fn offset_at(&self, own_ns: u64) -> f64 {
        self.offset_ns + self.drift_ppm * 1e-6 * difference(own_ns, self.at_ns)
    }

    /// What the own clock shows when the other shows `other_us`, both in µs.
    pub fn to_own_us(&self, other_us: f64) -> f64 {
        let about_us = other_us - self.offset_ns / 1e3;
        let since_us = about_us - self.at_ns as f64 / 1e3;
        about_us - self.drift_ppm * 1e-6 * since_us / (1.0 + self.drift_ppm * 1e-6)
    }
}

/// `a − b` without the rounding of two large numbers.
fn difference(a: u64, b: u64) -> f64 {
    i128::from(a).saturating_sub(i128::from(b)) as f64
}

#[cfg(test)]
mod tests;
