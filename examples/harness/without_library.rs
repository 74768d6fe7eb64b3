//! The loop's own cost: a library that does nothing, driven by our loop and by a bare loop of the same calls.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use critrank::backend::Backend;
use critrank::error::Result;
use critrank::session::Control;
use critrank::session::solo::Solo;
use critrank::vocab::{Side, Slot};

use crate::mode::{ALLOWANCE_NS, Mode, all_reduce, ours};
use crate::null::Null;
use crate::stats::median;

const OPERATIONS: u64 = 2000;
const BYTES: u64 = 8;

/// Nanoseconds of one operation in one mode.
pub(crate) struct Cost {
    pub(crate) mode: Mode,
    pub(crate) bare: f64,
    pub(crate) ours: f64,
    /// One clock reading.
    pub(crate) clock: f64,
}

impl Cost {
    pub(crate) fn limit(&self) -> f64 {
        f64::from(self.mode.readings()) * self.clock + ALLOWANCE_NS
    }

    pub(crate) fn holds(&self) -> bool {
        self.ours - self.bare <= self.limit()
    }
}

/// Every mode, `quadruples` blocks ABBA each; medians, for what interrupts a block only adds to it.
pub(crate) fn measure(quadruples: usize) -> Result<Vec<Cost>> {
    Mode::all().map(|mode| cost(mode, quadruples)).collect()
}

fn cost(mode: Mode, quadruples: usize) -> Result<Cost> {
    let collective = all_reduce()?;
    let mut null = Null::new(1, nanoseconds);
    null.allocate(BYTES, mode.settings(OPERATIONS, BYTES).marks())?;
    let (mut our, mut bare, mut clock) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..quadruples {
        for is_ours in [true, false, false, true] {
            if is_ours {
                ours(&mut null, &Solo, &*collective, mode, OPERATIONS, BYTES)?;
                our.push(null.counted() as f64 / OPERATIONS as f64);
            } else {
                bare.push(bare_loop(black_box(&mut null), black_box(&Solo), mode)?);
            }
        }
        clock.push(readings(black_box(&mut null)));
    }
    Ok(Cost { mode, bare: median(&mut bare), ours: median(&mut our), clock: median(&mut clock) })
}

fn nanoseconds() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The library's calls of the mode and nothing else, ns per operation.
fn bare_loop(backend: &mut dyn Backend, control: &dyn Control, mode: Mode) -> Result<f64> {
    let (from, to) = (Slot { side: Side::Send, offset: 0 }, Slot { side: Side::Recv, offset: 0 });
    let (waits, meets) = (mode.blocking().waits(), mode.blocking().meets());
    let start = Instant::now();
    for _ in 0..OPERATIONS {
        backend.all_reduce(from, to, BYTES / 4)?;
        if waits {
            backend.wait(Duration::from_secs(1))?;
        }
        if meets {
            control.barrier()?;
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / OPERATIONS as f64)
}

fn readings(backend: &mut dyn Backend) -> f64 {
    let start = Instant::now();
    for _ in 0..OPERATIONS {
        black_box(backend.now());
    }
    start.elapsed().as_nanos() as f64 / OPERATIONS as f64
}
