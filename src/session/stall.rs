//! Processes that go no further, on purpose (`--inject hang:…`, `stop:…`).

use std::thread;
use std::time::Duration;

use crate::vocab::{Inject, Point};

/// How and where this process stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    at: Point,
    stops: bool,
}

impl Stall {
    /// What `inject` asks of the process that drives `ranks`.
    pub fn of(inject: &[Inject], ranks: std::ops::Range<u32>) -> Option<Self> {
        inject.iter().find_map(|fault| match *fault {
            Inject::Hang { rank, at } if ranks.contains(&rank) => Some(Self { at, stops: false }),
            Inject::Stop { rank, at } if ranks.contains(&rank) => Some(Self { at, stops: true }),
            _ => None,
        })
    }

    /// Stalls if this is the place.
    pub fn here(self, point: Point) {
        if self.at != point {
            return;
        }
        if self.stops {
            // Returns when somebody continues the process; a failure to raise it leaves the hang below.
            let _ = signal_hook::low_level::raise(signal_hook::consts::SIGSTOP);
        }
        loop {
            thread::sleep(Duration::from_hours(1));
        }
    }
}
