//! GPU events on the host's clock: an event on an idle stream is stamped between two readings of the host's clock.

use super::Nccl;
use crate::backend::{Anchor, Backend};
use crate::error::{Error, Result};

/// Tries, of which the one with the closest readings counts.
const TRIES: usize = 20;

impl Nccl {
    /// Ties the selected rank's events to the host's clock; its stream is idle.
    pub(super) fn tie(&mut self) -> Result<Anchor> {
        for slot in 0..2 {
            if self.local().anchors[slot].is_none() {
                let event = self.cuda.event()?;
                self.local_mut().anchors[slot] = Some(event);
            }
        }
        let mut best: Option<Anchor> = None;
        for _ in 0..TRIES {
            // The second is the one that may be overwritten.
            let before = self.now();
            let local = self.local();
            self.cuda.record(local.anchors[1].as_ref().ok_or_else(none)?, &local.stream)?;
            self.cuda.synchronize(&local.stream)?;
            let after = self.now();
            let error_ns = (after - before) / 2;
            if best.is_none_or(|best| error_ns < best.error_ns) {
                best = Some(Anchor { at_ns: before + error_ns, error_ns });
                self.local_mut().anchors.swap(0, 1);
            }
        }
        best.ok_or_else(none)
    }

    /// From a mark to the anchor, in µs.
    pub(super) fn before_tie_us(&self, mark: usize) -> Result<f64> {
        let local = self.local();
        let anchor = local.anchors[0].as_ref().ok_or_else(none)?;
        Ok(f64::from(self.cuda.elapsed_ms(local.mark(mark)?, anchor)?) * 1000.0)
    }
}

fn none() -> Error {
    Error::Setup("there is no anchor; this is an error of critrank".to_owned())
}
