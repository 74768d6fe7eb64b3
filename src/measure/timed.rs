//! The timed loop: a straight line that allocates nothing, logs nothing, and reads the clock only where the mode
//! needs it.

use super::{Bench, Blocking, Settings};
use crate::aggregate::{RankSample, Series};
use crate::collective::Case;
use crate::error::Result;
use crate::session::watch::Phase;
use crate::vocab::Point;

/// Clock readings of every local rank, in ns; made before the loop and only written in it.
#[derive(Debug)]
pub(super) struct Stamps {
    begin: Vec<u64>,
    cpu: Vec<u64>,
    end: Vec<u64>,
    /// Per iteration: called, enqueued, complete.
    each: Vec<[Vec<u64>; 3]>,
}

/// Index into `Stamps::each`.
pub(super) const CALLED: usize = 0;
const ENQUEUED: usize = 1;
pub(super) const COMPLETE: usize = 2;

impl Stamps {
    pub(super) fn new(locals: usize, settings: &Settings) -> Self {
        let needed = settings.per_iteration || settings.blocking == Blocking::WaitThenBarrier;
        let iterations = if needed { settings.iterations as usize } else { 0 };
        let series = || [vec![0; iterations], vec![0; iterations], vec![0; iterations]];
        Self {
            begin: vec![0; locals],
            cpu: vec![0; locals],
            end: vec![0; locals],
            each: (0..locals).map(|_| series()).collect(),
        }
    }

    /// A local rank's readings of every iteration.
    pub(super) fn each(&mut self, local: usize) -> &mut [Vec<u64>; 3] {
        &mut self.each[local]
    }
}

impl Bench<'_> {
    /// Times `-n` iterations of `-m` operations.
    pub(super) fn timed(&mut self, cases: &[Case]) -> Result<Vec<RankSample>> {
        let deadline = self.settings.deadlines.later(self.expected(self.settings.operations()));
        self.progress.enter(Phase::Timed, deadline);
        if self.settings.graph > 0 {
            self.replay_loop(cases, deadline)?;
        } else if self.settings.blocking == Blocking::Gate {
            self.gated_loop(cases, deadline)?;
        } else {
            self.run_loop(cases, deadline)?;
        }
        let samples = self.samples()?;
        self.last_op_us = samples.iter().map(|sample| sample.total_us).fold(0.0, f64::max);
        Ok(samples)
    }

    fn run_loop(&mut self, cases: &[Case], deadline: std::time::Duration) -> Result<()> {
        let Settings { iterations, per_iteration, blocking, .. } = self.settings;
        let outside = blocking == Blocking::WaitThenBarrier;
        let disturbed = self.stall.is_some() || self.delay.is_some();
        self.stamp(|stamps, local, now| stamps.begin[local] = now)?;
        for iteration in 0..iterations as usize {
            if disturbed {
                self.disturb(iteration as u64)?;
            }
            // Before the operation: whoever waits in it for a rank that has not come is further than that rank.
            self.progress.step(iteration as u64 + 1);
            if per_iteration || outside {
                self.stamp(|stamps, local, now| stamps.each[local][CALLED][iteration] = now)?;
            }
            if per_iteration {
                self.mark(self.start_mark(iteration))?;
            }
            self.iteration(cases, iteration as u64)?;
            if per_iteration {
                if blocking.waits() {
                    // Right behind the operation, not after the wait: the pair is the collective's own.
                    self.mark(self.start_mark(iteration) + 1)?;
                }
                self.stamp(|stamps, local, now| stamps.each[local][ENQUEUED][iteration] = now)?;
            }
            if blocking.waits() {
                self.backend.wait(deadline)?;
                if per_iteration || outside {
                    self.stamp(|stamps, local, now| stamps.each[local][COMPLETE][iteration] = now)?;
                }
            }
            if blocking.meets() {
                self.barrier()?;
            }
        }
        if per_iteration {
            self.mark(self.start_mark(iterations as usize))?;
        }
        self.stamp(|stamps, local, now| stamps.cpu[local] = now)?;
        self.backend.wait(deadline)?;
        self.stamp(|stamps, local, now| stamps.end[local] = now)
    }

    /// The faults that are injected before an operation.
    #[cold]
    pub(super) fn disturb(&mut self, iteration: u64) -> Result<()> {
        if let Some(stall) = self.stall {
            stall.here(Point::Iteration(iteration));
        }
        if let Some(delay) = self.delay {
            self.backend.select(delay.local)?;
            self.backend.delay(delay.ns);
        }
        Ok(())
    }

    /// With `-G` the operations of all iterations are recorded once, and what is timed is the launches of that
    /// recording. Recording and making it ready are left out of the time, as in nccl-tests.
    fn replay_loop(&mut self, cases: &[Case], deadline: std::time::Duration) -> Result<()> {
        self.backend.capture()?;
        for iteration in 0..self.settings.iterations {
            self.iteration(cases, iteration)?;
        }
        self.backend.captured()?;
        self.barrier()?;
        self.stamp(|stamps, local, now| stamps.begin[local] = now)?;
        for launch in 0..self.settings.graph {
            if let Some(stall) = self.stall {
                stall.here(Point::Iteration(launch));
            }
            self.progress.step(launch + 1);
            self.backend.replay()?;
        }
        self.stamp(|stamps, local, now| stamps.cpu[local] = now)?;
        self.backend.wait(deadline)?;
        self.stamp(|stamps, local, now| stamps.end[local] = now)?;
        self.backend.forget()
    }

    /// `-m` operations, as one group where there are several and their rounds allow it.
    pub(super) fn iteration(&mut self, cases: &[Case], iteration: u64) -> Result<()> {
        let aggregated = self.settings.aggregated;
        if aggregated == 1 {
            return self.operation(cases, iteration);
        }
        let grouped = self.collective.rounds(cases[0].me.ranks) == 1;
        if grouped {
            self.backend.group_start()?;
        }
        for index in 0..aggregated {
            self.operation(cases, iteration * aggregated + index)?;
        }
        if grouped { self.backend.group_end() } else { Ok(()) }
    }

    pub(super) fn start_mark(&self, iteration: usize) -> usize {
        if self.settings.blocking.waits() { 2 * iteration } else { iteration }
    }

    pub(super) fn stamp(&mut self, store: impl Fn(&mut Stamps, usize, u64)) -> Result<()> {
        let locals = self.stamps.begin.len();
        for local in 0..locals {
            if locals > 1 {
                self.backend.select(local as u32)?;
            }
            let now = self.backend.now();
            store(&mut self.stamps, local, now);
        }
        Ok(())
    }

    pub(super) fn mark(&mut self, index: usize) -> Result<()> {
        let locals = self.stamps.begin.len();
        for local in 0..locals {
            if locals > 1 {
                self.backend.select(local as u32)?;
            }
            self.backend.mark(index)?;
        }
        Ok(())
    }

    /// The loop's readings as times per operation, in µs.
    fn samples(&mut self) -> Result<Vec<RankSample>> {
        let blocking = self.settings.blocking;
        let operations = self.settings.operations() as f64;
        let mut samples = Vec::with_capacity(self.stamps.begin.len());
        for local in 0..self.stamps.begin.len() {
            self.backend.select(local as u32)?;
            let series = self.series(local)?;
            let stamps = &self.stamps;
            let since_begin = |stamp: u64| stamp.saturating_sub(stamps.begin[local]) as f64 / 1e3;
            let [called, _, complete] = &stamps.each[local];
            // In -z 3 the barriers are left out: only call to completion counts.
            let inside = |start: &u64, end: &u64| end.saturating_sub(*start) as f64 / 1e3;
            let without_barriers: f64 =
                called.iter().zip(complete).map(|(start, end)| inside(start, end)).sum();
            let (total_us, cpu_us) = match blocking {
                Blocking::WaitThenBarrier => (without_barriers, without_barriers),
                // The GPU's own: when a gate lets go, its host cannot know.
                Blocking::Gate => {
                    let on_gpu = series.event_us.iter().sum::<f64>() * self.settings.aggregated as f64;
                    (on_gpu, on_gpu)
                }
                _ => (since_begin(stamps.end[local]), since_begin(stamps.cpu[local])),
            };
            samples.push(RankSample {
                rank: self.first_rank + local as u32,
                total_us: total_us / operations,
                cpu_us: cpu_us / operations,
                series,
                tally: None,
            });
        }
        Ok(samples)
    }

    /// The selected rank's series, as far as the mode and the backend have them.
    fn series(&mut self, local: usize) -> Result<Series> {
        let Settings { per_iteration, blocking, aggregated, .. } = self.settings;
        let mut series = Series::default();
        if !per_iteration {
            return Ok(series);
        }
        let per_operation = aggregated as f64;
        for iteration in 0..self.settings.iterations as usize {
            let start = self.start_mark(iteration);
            if blocking.waits() {
                series.event_us.push(self.backend.between_us(start, start + 1)? / per_operation);
            }
            let to = if blocking.is_apart() { start + 1 } else { self.start_mark(iteration + 1) };
            series.interval_us.push(self.backend.between_us(start, to)? / per_operation);
        }
        let [called, enqueued, complete] = &self.stamps.each[local];
        if self.knows_arrivals() {
            series.arrival_us = called.iter().map(|stamp| *stamp as f64 / 1e3).collect();
        }
        let times = |ends: &[u64]| -> Vec<f64> {
            let time = |(start, end): (&u64, &u64)| end.saturating_sub(*start) as f64 / 1e3 / per_operation;
            called.iter().zip(ends).map(time).collect()
        };
        // Behind a gate the call is before the time that counts as its start.
        if self.backend.caps().asynchronous && blocking != Blocking::Gate {
            series.enqueue_us = times(enqueued);
        }
        if blocking.waits() {
            series.completion_us = times(complete);
        } else if !self.backend.caps().asynchronous {
            series.completion_us = times(enqueued);
        }
        Ok(series)
    }
}
