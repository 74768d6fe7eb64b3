//! One placement of one row, start to end: prime, warm up, time, check. What is timed stands in docs/METHODOLOGY.md.

mod arrivals;
mod blocks;
mod check;
mod gate;
mod marks;
mod overhead;
mod probe;
mod settings;
mod timed;

use std::time::{Duration, Instant};

pub use arrivals::{Delay, flipped};
pub use blocks::{longest, rule};
pub use check::{Checked, Mismatch};
pub use probe::Load;
use settings::Rotation;
pub use settings::{Blocking, Deadlines, Settings};

use crate::aggregate::RankSample;
use crate::backend::{Backend, Setup};
use crate::clock::Fit;
use crate::collective::{Case, Collective};
use crate::error::Result;
use crate::session::Control;
use crate::session::stall::Stall;
use crate::session::watch::{Phase, Progress};
use crate::stats::{Rule, Stop};
use crate::verify::Pattern;
use crate::vocab::{Dtype, Member, Placement, RedOp};
use timed::Stamps;

/// What one row measures, for both placements.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Size that the sweep asks for, in bytes.
    pub bytes: u64,
    /// Element type.
    pub dtype: Dtype,
    /// Reduction of the data; `None` for collectives that move bytes.
    pub op: Option<RedOp>,
    /// Root; 0 where there is none.
    pub root: u32,
}

/// Wall time of a sweep by what it was spent on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Filling buffers before the first operation.
    pub fill: Duration,
    /// Priming and warm-up, the barrier included.
    pub warm_up: Duration,
    /// The timed loop, the barrier behind it included.
    pub timed: Duration,
    /// Checked calls.
    pub check: Duration,
}

/// Runs collectives on this process's ranks, in step with all others.
pub struct Bench<'a> {
    /// Does the work.
    pub backend: &'a mut dyn Backend,
    /// Keeps processes in step.
    pub control: &'a dyn Control,
    /// Tells the watchdog.
    pub progress: &'a Progress,
    /// What is measured.
    pub collective: &'a dyn Collective,
    /// How.
    pub settings: Settings,
    /// The first local rank's number among all ranks of the job; with groups not its rank in the communicator.
    pub first_rank: u32,
    /// The group's colour under `NCCL_TESTS_SPLIT`.
    pub group: u32,
    /// Where this process goes no further, on purpose.
    pub stall: Option<Stall>,
    /// Which rank is late, on purpose.
    pub delay: Option<Delay>,
    /// This process's clock against the first's, for `-z G`.
    pub clock: Fit,
    /// Whose result of a checked call gets a flipped bit, on purpose.
    pub corrupt: Option<u32>,
    /// When the timed blocks of a placement end; without a rule there is one.
    pub rule: Option<Rule>,
    /// How the last placement's blocks ended.
    pub stopped: Option<Stop>,
    /// Where the sweep's time has gone so far.
    pub spent: Spent,
    stamps: Stamps,
    /// Of the current cases, so that the timed loop need not ask.
    rotations: Vec<Rotation>,
    rounds: u32,
    repetition: u64,
    last_op_us: f64,
}

impl<'a> Bench<'a> {
    /// All buffers are allocated; `settings` says how large.
    pub fn new(
        backend: &'a mut dyn Backend,
        control: &'a dyn Control,
        progress: &'a Progress,
        collective: &'a dyn Collective,
        settings: Settings,
    ) -> Self {
        let stamps = Stamps::new(backend.locals() as usize, &settings);
        Self {
            backend,
            control,
            progress,
            collective,
            settings,
            group: 0,
            stall: None,
            delay: None,
            clock: Fit::OWN,
            corrupt: None,
            rule: None,
            stopped: None,
            spent: Spent::default(),
            rotations: Vec::new(),
            rounds: 1,
            first_rank: 0,
            stamps,
            repetition: 0,
            last_op_us: 0.0,
        }
    }

    /// Measures one placement. Every process gets its own ranks' samples, and what the check says of all.
    pub fn placement(&mut self, target: &Target, placement: Placement) -> Result<(Vec<RankSample>, Checked)> {
        let cases = self.cases(target, placement)?;
        self.progress.size(target.bytes);
        self.prepare(target, placement)?;
        let begin = Instant::now();
        if self.settings.checks > 0 {
            self.fill(&cases, &self.pattern(target), 0)?;
        }
        let filled = Instant::now();
        self.prime(&cases)?;
        self.barrier()?;
        let warmed = Instant::now();
        let samples = self.blocks(&cases)?;
        self.barrier()?;
        let timed = Instant::now();
        let mut checked = self.check(target, placement, &cases)?;
        self.spent.fill += filled - begin;
        self.spent.warm_up += warmed - filled;
        self.spent.timed += timed - warmed;
        self.spent.check += timed.elapsed();
        if self.settings.explain {
            checked.predicted = Some(self.predict(&cases)?);
            checked.algorithm = self.explain(&cases)?;
        }
        Ok((samples, checked))
    }

    /// One call outside all timing, which the library describes.
    fn explain(&mut self, cases: &[Case]) -> Result<Option<String>> {
        let deadline = self.settings.deadlines.later(self.expected(1));
        self.progress.enter(Phase::Check, deadline);
        self.backend.observe();
        self.operation(cases, 0)?;
        self.backend.wait(deadline)?;
        Ok(self.backend.observed())
    }

    /// The library's own estimate of one operation, in µs, or why there is none; nothing runs.
    fn predict(&mut self, cases: &[Case]) -> Result<std::result::Result<f64, String>> {
        if !self.collective.traits().one_call {
            return Ok(Err("NCCL predicts no sends and receives".to_owned()));
        }
        if cases.iter().any(|case| case.layout.count == 0) {
            return Ok(Err("no data".to_owned()));
        }
        if let Some(reason) = self.backend.unpredictable() {
            return Ok(Err(reason));
        }
        self.backend.predict()?;
        self.operation(cases, 0)?;
        let told = self.backend.predicted()?;
        Ok(told.ok_or_else(|| "NCCL gave none, as for symmetric kernels and tuner plugins".to_owned()))
    }

    /// The local ranks' view of `target`.
    pub fn cases(&mut self, target: &Target, placement: Placement) -> Result<Vec<Case>> {
        let mut cases = Vec::with_capacity(self.backend.locals() as usize);
        for local in 0..self.backend.locals() {
            self.backend.select(local)?;
            let me = Member { rank: self.backend.rank(), ranks: self.backend.ranks() };
            let layout = self.collective.layout(target.bytes, target.dtype, me);
            cases.push(Case {
                me,
                dtype: target.dtype,
                root: target.root,
                placement,
                shrinks_to_start: self.backend.caps().shrinks_to_start,
                layout,
                exchange: self.collective.exchange(&layout, target.dtype, me),
            });
        }
        let settings = self.settings;
        self.rotations = cases.iter().map(|case| settings.rotation(case)).collect();
        self.rounds = self.collective.rounds(self.backend.ranks());
        Ok(cases)
    }

    fn prepare(&mut self, target: &Target, placement: Placement) -> Result<()> {
        let setup = Setup { dtype: target.dtype, op: target.op, placement, repetition: self.repetition };
        self.backend.prepare(&setup)
    }

    fn pattern(&self, target: &Target) -> Pattern {
        Pattern {
            dtype: target.dtype,
            op: target.op,
            ranks: self.backend.ranks(),
            repetition: self.repetition,
            arithmetic: self.backend.caps().arithmetic,
        }
    }

    /// Results hold the complement of what they must become, inputs what they must hold.
    fn fill(&mut self, cases: &[Case], pattern: &Pattern, index: u64) -> Result<()> {
        for (local, case) in (0..).zip(cases) {
            self.backend.select(local)?;
            self.backend.shift(self.settings.shift(case, index));
            self.backend.fill(&self.collective.after(case), pattern, true)?;
            self.backend.fill(&self.collective.before(case), pattern, false)?;
        }
        Ok(())
    }

    /// One untimed operation, which makes connections where there are none yet.
    fn prime(&mut self, cases: &[Case]) -> Result<()> {
        let deadline = self.settings.deadlines.first_use();
        self.progress.enter(Phase::FirstUse, deadline);
        let begin = Instant::now();
        if self.settings.blocking == Blocking::Gate {
            // As in the loop: what is new to the library must not come behind a closed gate.
            self.iteration(cases, 0)?;
        } else {
            self.operation(cases, 0)?;
        }
        self.backend.wait(deadline)?;
        // Deadlines are judged by it: the row before may be of quite another size.
        self.last_op_us = begin.elapsed().as_secs_f64() * 1e6;
        Ok(())
    }

    /// The untimed operations of a size before a series: `-w` of them out of place, behind one that makes connections.
    /// All sizes are warmed before the first is measured, as in nccl-tests, so that a GPU's clock and what a process does
    /// in its first moments are not the smallest sizes' alone.
    pub fn warm(&mut self, target: &Target) -> Result<()> {
        let begin = Instant::now();
        let cases = self.cases(target, Placement::OutOfPlace)?;
        self.prepare(target, Placement::OutOfPlace)?;
        self.progress.size(target.bytes);
        self.prime(&cases)?;
        let deadline = self.settings.deadlines.first_use();
        self.progress.enter(Phase::WarmUp, deadline);
        for index in 0..self.settings.warmup {
            self.operation(&cases, index)?;
        }
        self.backend.wait(deadline)?;
        self.spent.warm_up += begin.elapsed();
        Ok(())
    }

    /// One operation of every local rank, at its place in the rotation of buffers.
    fn operation(&mut self, cases: &[Case], index: u64) -> Result<()> {
        if let ([case], [rotation], 1) = (cases, self.rotations.as_slice(), self.rounds) {
            self.backend.shift(rotation.shift(index));
            return self.collective.launch(case, 0, self.backend);
        }
        for round in 0..self.rounds {
            if cases.len() > 1 {
                self.backend.group_start()?;
            }
            for (local, case) in (0..).zip(cases) {
                if cases.len() > 1 {
                    self.backend.select(local)?;
                }
                self.backend.shift(self.rotations[local as usize].shift(index));
                self.collective.launch(case, round, self.backend)?;
            }
            if cases.len() > 1 {
                self.backend.group_end()?;
            }
        }
        Ok(())
    }

    /// The first `count` calls of a size, each from call to completion, in µs; the longest of the local ranks.
    pub fn cold_calls(&mut self, target: &Target, count: usize) -> Result<Vec<f64>> {
        let cases = self.cases(target, Placement::OutOfPlace)?;
        self.prepare(target, Placement::OutOfPlace)?;
        self.progress.size(target.bytes);
        self.progress.enter(Phase::FirstUse, self.settings.deadlines.first_use());
        let mut times_us = Vec::with_capacity(count);
        for index in 0..count {
            self.barrier()?;
            let start = self.backend.now();
            self.operation(&cases, index as u64)?;
            self.backend.wait(self.settings.deadlines.first_use())?;
            times_us.push(self.backend.now().saturating_sub(start) as f64 / 1e3);
        }
        Ok(times_us)
    }

    fn barrier(&mut self) -> Result<()> {
        self.control.barrier()?;
        self.backend.aligned();
        Ok(())
    }

    /// How long so many operations should take, judged by the last row.
    fn expected(&self, operations: u64) -> Duration {
        Duration::from_secs_f64((self.last_op_us * 1e-6 * operations as f64).min(1e6))
    }
}

#[cfg(test)]
mod tests;
