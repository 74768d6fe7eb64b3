//! How long each step to the first collective takes (`--cold-start`).

use std::time::{Duration, Instant};

use crate::stats::median;

/// Steps of this process with their durations, in order.
#[derive(Debug, Default)]
pub(super) struct Timeline(Vec<(&'static str, Duration)>);

impl Timeline {
    /// Does a step and notes its duration.
    pub(super) fn step<T>(&mut self, name: &'static str, act: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = act();
        self.0.push((name, start.elapsed()));
        done
    }

    /// The steps so far, in µs.
    pub(super) fn steps_us(&self) -> Vec<(&'static str, f64)> {
        self.0.iter().map(|(name, duration)| (*name, duration.as_secs_f64() * 1e6)).collect()
    }

    /// The kernel's start of this process to now: loading the binary and its libraries. The kernel counts in ticks,
    /// mostly 10 ms.
    pub(super) fn since_exec() -> Option<Duration> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // Field 22, counted from behind the command's name, which may hold blanks.
        let ticks: f64 = stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()?;
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let up: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        Some(Duration::from_secs_f64((up - ticks / 100.0).max(0.0)))
    }

    /// Notes steps that were done and measured elsewhere.
    pub(super) fn extend(&mut self, steps: &[(&'static str, Duration)]) {
        self.0.extend_from_slice(steps);
    }

    /// Notes a step that ended now.
    pub(super) fn note(&mut self, name: &'static str, duration: Duration) {
        self.0.push((name, duration));
    }
}

/// The first call from which on none is slower than 1.05 × the median of the last half; from 1. `None` where even the
/// last one is.
pub(super) fn steady_from(calls_us: &[f64]) -> Option<usize> {
    let limit = median(&calls_us[calls_us.len() / 2..])? * 1.05;
    let unsteady = calls_us.iter().rposition(|call| *call > limit).map_or(0, |at| at + 1);
    (unsteady < calls_us.len()).then_some(unsteady + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_steady_call_is_found() {
        assert_eq!(steady_from(&[900.0, 50.0, 10.6, 10.0, 10.0, 10.4, 10.0, 9.9, 10.0, 10.1]), Some(4));
        assert_eq!(steady_from(&[10.0; 10]), Some(1));
        assert_eq!(steady_from(&[10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 90.0]), None);
        assert_eq!(steady_from(&[]), None);
    }

    #[test]
    fn this_process_has_started() {
        assert!(Timeline::since_exec().is_some_and(|age| age < Duration::from_hours(1)));
    }
}
