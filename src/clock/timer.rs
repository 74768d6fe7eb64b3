//! What a timer can tell and what it costs.

use serde::{Deserialize, Serialize};

/// A timer's limits, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    /// The smallest step between two different readings; 0 for a timer that never moved.
    pub resolution_ns: u64,
    /// What one reading takes, on average.
    pub cost_ns: f64,
}

/// Reads `now` some thousand times.
pub fn timer(mut now: impl FnMut() -> u64) -> Timer {
    const READINGS: u32 = 2000;
    let start = now();
    let (mut last, mut resolution_ns) = (start, u64::MAX);
    for _ in 0..READINGS {
        let next = now();
        let step = next.saturating_sub(last);
        if step > 0 {
            resolution_ns = resolution_ns.min(step);
        }
        last = next;
    }
    let cost_ns = last.saturating_sub(start) as f64 / f64::from(READINGS);
    Timer { resolution_ns: if resolution_ns == u64::MAX { 0 } else { resolution_ns }, cost_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_cost_are_those_of_the_timer() {
        // Each reading takes 7 ns, and the timer shows multiples of 20.
        let mut truth = 0;
        let measured = timer(|| {
            truth += 7;
            truth / 20 * 20
        });
        assert_eq!(measured.resolution_ns, 20);
        assert!((measured.cost_ns - 7.0).abs() < 0.1, "{measured:?}");
        assert_eq!(timer(|| 5), Timer { resolution_ns: 0, cost_ns: 0.0 });
    }
}
