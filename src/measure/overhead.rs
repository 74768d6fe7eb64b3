//! What `-I` costs, measured in the same launch: blocks with and without it in turn.

use super::{Bench, Target};
use crate::error::Result;
use crate::stats::abba;
use crate::vocab::Placement;

impl Bench<'_> {
    /// `pairs` pairs of blocks as ABBA: each without `-I` and with it, in µs per operation, the longest of the local
    /// ranks. The loop has `-I`. Collective.
    pub fn overhead(&mut self, target: &Target, pairs: usize) -> Result<Vec<[f64; 2]>> {
        let cases = self.cases(target, Placement::OutOfPlace)?;
        self.prepare(target, Placement::OutOfPlace)?;
        self.progress.size(target.bytes);
        self.prime(&cases)?;
        let mut times_us = Vec::with_capacity(pairs);
        for pair in 0..pairs {
            let mut both = [0.0; 2];
            for which in abba(pair) {
                self.settings.per_iteration = which == 1;
                self.barrier()?;
                let block = self.timed(&cases);
                self.settings.per_iteration = true;
                both[which] = block?.iter().map(|sample| sample.total_us).fold(0.0, f64::max);
            }
            times_us.push(both);
        }
        Ok(times_us)
    }
}
