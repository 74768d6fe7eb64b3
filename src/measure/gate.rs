//! `-z G`: all ranks enqueue behind a closed gate each, agree on a time, and open their gates at it, so that how long a
//! host takes to enqueue is in no figure.

use std::time::Duration;

use super::Bench;
use super::timed::{CALLED, COMPLETE};
use crate::collective::Case;
use crate::error::{Error, Exit, Result};
use crate::session::sync::monotonic_ns;

/// From the last rank's word to the opening: all must have heard of it by then. In ns.
const AHEAD_NS: u64 = 100_000;

impl Bench<'_> {
    /// Times `-n` iterations, each behind gates of its own.
    pub(super) fn gated_loop(&mut self, cases: &[Case], deadline: Duration) -> Result<()> {
        for iteration in 0..self.settings.iterations as usize {
            self.disturb(iteration as u64)?;
            self.progress.step(iteration as u64 + 1);
            self.hold()?;
            self.mark(self.start_mark(iteration))?;
            self.iteration(cases, iteration as u64)?;
            self.mark(self.start_mark(iteration) + 1)?;
            self.open_together(iteration)?;
            self.backend.wait(deadline)?;
            self.stamp(|stamps, local, now| stamps.each(local)[COMPLETE][iteration] = now)?;
        }
        self.gates_held()
    }

    /// Closes every local rank's gate.
    fn hold(&mut self) -> Result<()> {
        for local in 0..self.backend.locals() {
            self.backend.select(local)?;
            self.backend.hold()?;
        }
        Ok(())
    }

    /// Opens every local rank's gate at the time that all agree on: a little after the last of them came here. A rank
    /// that hears of it too late opens at once, and its own time of opening shows it.
    fn open_together(&mut self, iteration: usize) -> Result<()> {
        let clock = self.clock;
        let first_ns = |own_ns: u64| (clock.to_own_us(own_ns as f64 / 1e3) * 1e3) as u64;
        let at_ns = self.control.vote(first_ns(monotonic_ns()) + AHEAD_NS)?;
        let until_ns = (at_ns as f64 + clock.offset_at(at_ns)) as u64;
        while monotonic_ns() < until_ns {
            std::hint::spin_loop();
        }
        self.backend.open();
        self.stamp(|stamps, local, now| stamps.each(local)[CALLED][iteration] = now)
    }

    /// What was measured behind gates that did not wait for their opening is no measurement; all ranks come to the
    /// same.
    fn gates_held(&self) -> Result<()> {
        // The last of them tells, the others agree.
        let mine = u64::from(self.first_rank) + 1;
        match self.control.vote(if self.backend.gave_up() { mine } else { 0 })? {
            0 => Ok(()),
            told if told == mine => Err(Error::Setup(format!(
                "the gate (-z G) of rank {} was not opened within 2 s and opened by itself: a rank was stopped or starved; \
                 see what else runs, or use -z 3",
                self.first_rank
            ))),
            _ => Err(Error::Agreed(Exit::Setup)),
        }
    }
}
