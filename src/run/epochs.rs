//! `--epochs`: the sweep again and again, each time with new communicators in the same job.

use std::time::Instant;

use super::Job;
use super::reporter::Reporter;
use super::seat::{Group, Seat};
use super::sweep::{self, Range};
use super::timing::Timing;
use super::worker::AFTER_START;
use crate::error::Result;
use crate::measure::Bench;
use crate::plan;
use crate::session::watch::Phase;
use crate::vocab::Point;

impl Job<'_> {
    /// The sweep of every epoch. Collective; the reporter is rank 0's.
    pub(super) fn epochs(
        &self,
        (seat, group): (&Seat<'_>, &Group),
        bench: &mut Bench<'_>,
        series: &[plan::Series],
        range: Range,
        mut timing: Option<&mut Timing<'_>>,
        reporter: &mut Option<Reporter>,
    ) -> Result<()> {
        for epoch in 0..self.cli.extent.epochs {
            if epoch > 0 {
                self.renew(seat, group, bench, epoch, reporter)?;
            }
            self.timed(seat, AFTER_START[0], || {
                sweep::sweep(bench, self.cli, (series, range), epoch, timing.as_deref_mut(), reporter)
            })?;
        }
        Ok(())
    }

    /// New communicators for the same ranks. Each step is one further for the watchdog: a rank that hangs while it leaves
    /// or joins is behind those that wait for it.
    fn renew(
        &self,
        seat: &Seat<'_>,
        group: &Group,
        bench: &mut Bench<'_>,
        epoch: u64,
        reporter: &mut Option<Reporter>,
    ) -> Result<()> {
        bench.progress.enter(Phase::Renew, self.deadlines.init);
        let start = Instant::now();
        self.timed(seat, AFTER_START[1], || bench.backend.disconnect())?;
        if let Some(stall) = bench.stall {
            stall.here(Point::Epoch(epoch));
        }
        bench.progress.step(1);
        self.timed(seat, AFTER_START[2], || -> Result<()> {
            let id = if group.place == 0 { bench.backend.new_id()? } else { Vec::new() };
            let id = group.told_by_first(seat, id)?;
            bench.progress.step(2);
            bench.backend.reconnect(&id)
        })?;
        bench.progress.step(3);
        let took_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let longest_ns = seat.control.vote(took_ns)?;
        if let Some(reporter) = reporter {
            reporter.remarks(&bench.backend.remarks());
            reporter.sink.epoch(epoch, longest_ns as f64 / 1e3);
        }
        Ok(())
    }
}
