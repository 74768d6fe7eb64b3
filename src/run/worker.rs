//! One worker's run: from the agreement with all others to the exit code that all come to.

use std::time::Duration;

use super::gpu::Gpu;
use super::limits::{self, Bounds};
use super::localise;
use super::matrix;
use super::reporter::Reporter;
use super::seat::{Group, Seat};
use super::sweep::Range;
use super::timing::Timing;
use super::{Job, agreement, setup, slowness, traffic, trials};
use crate::backend::{Backend, Kind, Memory, Usage};
use crate::cli::env::why_no_gate;
use crate::error::{Error, Exit, Result};
use crate::judge::{Shape, Size};
use crate::measure::{Bench, Delay, Settings, Spent, Target, flipped, rule};
use crate::offline::Baseline;
use crate::plan;
use crate::report::{MemoryUse, Preamble, say};
use crate::session::Control;
use crate::session::stall::Stall;
use crate::session::watch::{Phase, Progress};
use crate::vocab::{Dtype, Inject, Point};
use agreement::together;

/// Steps of the timeline behind the start.
pub(super) const AFTER_START: [&str; 4] =
    ["sweep", "close communicator", "new communicator", "free buffers and context"];

impl Job<'_> {
    /// Measures this worker's ranks. Every worker takes the same steps; an error is this worker's own, unless all
    /// have agreed on it.
    pub(super) fn measure(&self, seat: &Seat<'_>, gpu: Option<Result<Gpu>>) -> Result<Exit> {
        let (cli, control, host) = (self.cli, seat.control, self.who.host.as_str());
        // The watchdog looks at one thread of each process; the others wait for it, and it for them.
        let progress = if seat.thread.0 == 0 { self.progress.clone() } else { Progress::default() };
        let opens_now = gpu.is_none() && seat.thread.0 == 0;
        let early = setup::backend(cli, seat, gpu, host)?;
        if opens_now {
            self.timeline().extend(early.steps());
        }
        let locals = early.locals();
        let group = Group::of(seat, self.environment.split);
        agreement::agree(control, &setup::card(host, &early.library(), &self.environment))?;
        self.refuse_faults(control, control.size() * locals)?;
        let series = self.plan(control, group.ranks(locals))?;
        let preamble = setup::preamble(cli, seat, &group, &early, &self.who)?;
        let baseline = self.baseline(control, &preamble, &series)?;
        let sharing = control.vote(setup::sharing(&preamble.sites))?;
        self.refuse_gates(control, sharing)?;
        let mut reporter = self.open(control, &preamble, baseline)?;
        if seat.thread.0 == 0 {
            self.watch.describe(&setup::device_words(&early));
        }

        progress.enter(Phase::Init, self.deadlines.init);
        let first_rank = control.rank() * locals;
        let stall = Stall::of(&cli.inject, first_rank..first_rank + locals);
        if let Some(stall) = stall {
            stall.here(Point::Init);
        }
        // Who has come so far waits inside the library; who has not is behind.
        progress.step(1);
        let traits = self.collective.traits();
        let id = self.timed(seat, "unique id and broadcast", || early.meet(seat, &group))?;
        let mut backend = self.timed(seat, "communicator", || early.connect(cli, &id, &group, traits))?;
        self.refuse_by_name(control, &*backend, &series)?;
        let bounds = self.bounds(control, &mut *backend, sharing)?;
        if let Some(reporter) = &mut reporter {
            reporter.begin(&series, &bounds, cli);
        }
        progress.enter(Phase::Allocate, self.deadlines.init);
        let settings = Settings::new(cli, bounds.max_bytes);
        let room = (bounds.max_bytes + 8 * cli.unalign).max(localise::room_bytes(cli));
        let allocated = self
            .timed(seat, "buffers", || backend.allocate(room, settings.marks().max(localise::marks(cli))));
        together(control, host, allocated)?;
        if let Some(reporter) = &mut reporter {
            reporter.remarks(&backend.remarks());
        }

        let range = Range { min_bytes: bounds.min_bytes, max_bytes: bounds.max_bytes };
        let mut bench = Bench::new(&mut *backend, control, &progress, &*self.collective, settings);
        (bench.stall, bench.first_rank, bench.group) = (stall, first_rank, group.color);
        bench.delay = Delay::of(&cli.inject, first_rank..first_rank + locals);
        // The simulation corrupts its own.
        bench.corrupt =
            flipped(&cli.inject, first_rank..first_rank + locals).filter(|_| cli.backend != Kind::Sim);
        bench.rule = rule(&cli.extent);
        if cli.cold_start {
            self.cold_start(seat, &mut bench, &series, range, reporter.as_ref())?;
        }
        self.loaded_rows((seat, &group), &mut bench, &series, range, &mut reporter)?;
        let spent = bench.spent;
        progress.enter(Phase::Close, self.deadlines.later(Duration::ZERO));
        let usage = if cli.memory == 1 { Some(most(control, backend.usage()?)?) } else { None };
        self.transport(seat, (&group, locals), reporter.as_ref())?;
        self.timed(seat, AFTER_START[1], || backend.disconnect())?;
        self.timed(seat, AFTER_START[3], || backend.close())?;
        self.spent(reporter.as_ref(), spent);
        let exit = match reporter {
            Some(reporter) if cli.matrix => matrix::end(&reporter),
            Some(reporter) => reporter.finish(self.environment.min_busbw_gbps, usage, String::new())?,
            None => Exit::Success,
        };
        // The first worker knows the figures; all leave with its code.
        Ok(Exit::from_code(control.vote(u64::from(exit.code()))? as u8))
    }

    /// All that is measured: the sweep and who is to blame, or all pairs.
    fn rows(
        &self,
        place: (&Seat<'_>, &Group),
        bench: &mut Bench<'_>,
        series: &[plan::Series],
        range: Range,
        reporter: &mut Option<Reporter>,
    ) -> Result<()> {
        if self.cli.matrix {
            let (host, most) = (self.who.host.as_str(), range.max_bytes);
            return self.timed(place.0, AFTER_START[0], || {
                matrix::measure(bench, self.cli, host, most, reporter.as_ref())
            });
        }
        self.sweep(place, bench, series, range, reporter)?;
        // Before the search, which begins with this rank.
        if let Some(reporter) = reporter {
            reporter.tell_late();
        }
        if self.cli.localize { localise::localise(bench, self.cli, reporter.as_ref()) } else { Ok(()) }
    }

    /// [`Self::rows`], beside the traffic that is injected.
    fn loaded_rows(
        &self,
        seat: (&Seat<'_>, &Group),
        bench: &mut Bench<'_>,
        series: &[plan::Series],
        range: Range,
        reporter: &mut Option<Reporter>,
    ) -> Result<()> {
        let host = self.who.host.as_str();
        let traffic = traffic::begin(self.cli, bench.control, host)?;
        self.rows(seat, bench, series, range, reporter)?;
        traffic::end(traffic, bench.control, host, reporter.as_ref())
    }

    /// A step of the timeline; a process's first thread stands for it.
    pub(super) fn timed<T>(&self, seat: &Seat<'_>, name: &'static str, act: impl FnOnce() -> T) -> T {
        if seat.thread.0 == 0 { self.timeline().step(name, act) } else { act() }
    }

    /// With `--cold-start`, where the time went after the start.
    fn spent(&self, reporter: Option<&Reporter>, spent: Spent) {
        let Some(reporter) = reporter.filter(|_| self.cli.cold_start) else { return };
        let mut steps = self.timeline().steps_us();
        steps.retain(|(name, _)| AFTER_START.contains(name));
        let parts = [
            ("fill", spent.fill),
            ("warm-up", spent.warm_up),
            ("timed", spent.timed),
            ("check", spent.check),
        ];
        steps.extend(parts.map(|(name, part)| (name, part.as_secs_f64() * 1e6)));
        reporter.spent(&steps);
    }

    /// The longest of all ranks for every step and first call; a size per class of algorithm (latency, middle,
    /// large).
    fn cold_start(
        &self,
        seat: &Seat<'_>,
        bench: &mut Bench<'_>,
        series: &[plan::Series],
        range: Range,
        reporter: Option<&Reporter>,
    ) -> Result<()> {
        const CALLS: usize = 10;
        let longest = |us: f64| seat.control.vote((us * 1e3) as u64).map(|ns| ns as f64 / 1e3);
        let mut steps = Vec::new();
        // Not in the loop's head, where the lock would last until its end, and other threads vote behind it.
        let known = self.timeline().steps_us();
        for (name, us) in known {
            steps.push((name.to_owned(), longest(us)?));
        }
        let Some(series) = series.first() else { return Ok(()) };
        let op = series.op.filter(|_| self.collective.traits().reduces);
        let mut calls = Vec::new();
        for bytes in [8, 64 << 10, 4 << 20].into_iter().filter(|bytes| *bytes <= range.max_bytes) {
            let target = Target { bytes, dtype: series.dtype, op, root: series.root.unwrap_or(0) };
            let mine = bench.cold_calls(&target, CALLS)?;
            calls.push((bytes, mine.into_iter().map(longest).collect::<Result<Vec<f64>>>()?));
        }
        if let Some(reporter) = reporter {
            reporter.cold_start(steps, calls);
        }
        Ok(())
    }

    /// All rows of all epochs, and with them what tells when ranks arrive. Trials have the last one's communicator.
    fn sweep(
        &self,
        (seat, group): (&Seat<'_>, &Group),
        bench: &mut Bench<'_>,
        series: &[plan::Series],
        range: Range,
        reporter: &mut Option<Reporter>,
    ) -> Result<()> {
        let mut timing = if bench.knows_arrivals() {
            let process = (seat.thread.0 == 0).then(|| seat.world.control());
            Some(Timing::new(process, bench.backend.locals() * seat.thread.1)?)
        } else {
            None
        };
        if let Some(reporter) = reporter {
            if let Some(timing) = &timing {
                reporter.clocks(timing);
            }
            reporter.marks(bench)?;
        }
        self.epochs((seat, group), bench, series, range, timing.as_mut(), reporter)?;
        self.trials(bench, series, range, timing.as_mut(), reporter.as_ref())?;
        if let (Some(timing), Some(reporter)) = (&timing, &reporter) {
            reporter.clocks(timing);
        }
        Ok(())
    }

    /// What `--overhead` and `--self-test` ask for, of the first series.
    fn trials(
        &self,
        bench: &mut Bench<'_>,
        series: &[plan::Series],
        range: Range,
        timing: Option<&mut Timing<'_>>,
        reporter: Option<&Reporter>,
    ) -> Result<()> {
        let Some(series) = series.first().filter(|_| self.cli.overhead || self.cli.self_test) else {
            return Ok(());
        };
        let op = series.op.filter(|_| self.collective.traits().reduces);
        let root = series.root.unwrap_or(0);
        let target = |bytes| Target { bytes, dtype: series.dtype, op, root };
        let sizes: Vec<u64> = range.sizes(self.cli).collect();
        if self.cli.overhead {
            // The smallest, a middle and the largest size.
            let mut places = vec![0, sizes.len() / 2, sizes.len().saturating_sub(1)];
            places.dedup();
            let targets: Vec<Target> =
                places.iter().filter_map(|at| sizes.get(*at)).map(|bytes| target(*bytes)).collect();
            trials::measure_overhead(bench, &targets, reporter)?;
        }
        if let (true, Some(timing), Some(bytes)) = (self.cli.self_test, timing, sizes.first()) {
            let ranks = bench.control.vote(u64::from(bench.first_rank + bench.backend.locals()))?;
            trials::self_test(bench, &target(*bytes), timing, ranks as u32, reporter)?;
            let load = localise::load(self.cli.backend, Shape::Ring, Size::Large);
            slowness::self_test(bench, ranks as u32, load, reporter)?;
        }
        Ok(())
    }

    /// A gate of one rank would hold the others of its GPU; and some settings would have it wait for itself.
    fn refuse_gates(&self, control: &dyn Control, sharing: u64) -> Result<()> {
        let shared = (sharing > 1).then(|| {
            format!("{sharing} ranks share a GPU, and a gate of one would hold the others; give each its own, or use -z 3")
        });
        let refused = shared.or_else(|| why_no_gate(|name| std::env::var(name).ok()));
        let refused =
            refused.filter(|_| self.cli.gated()).map(|why| Error::Unsupported(format!("-z G: {why}")));
        together(control, &self.who.host, refused.map_or(Ok(()), Err))
    }

    /// A fault at a rank that is not there would be none, and the run would pass for one with a fault.
    fn refuse_faults(&self, control: &dyn Control, ranks: u32) -> Result<()> {
        let beyond = |fault: &&Inject| fault.ranks().iter().any(|rank| *rank >= ranks);
        let outside = self.cli.inject.iter().find(beyond);
        let refused = outside.map_or(Ok(()), |fault| {
            Err(Error::Usage(format!("--inject {fault}: there are ranks 0 to {}", ranks - 1)))
        });
        together(control, &self.who.host, refused)?;
        traffic::plan(self.cli, control, &self.who.host).map(drop)
    }

    /// What will be measured; what cannot be is refused by all alike, and said once.
    fn plan(&self, control: &dyn Control, ranks: u32) -> Result<Vec<plan::Series>> {
        let (cli, collective) = (self.cli, &*self.collective);
        // Groups may differ in size: the first that refuses speaks for all, and roots are those that all have.
        let refused = collective.refuses(ranks).map(Error::Unsupported);
        let refused = refused
            .or_else(|| collective.refuses_sizes(cli.min_bytes, cli.max_bytes, ranks).map(Error::Usage))
            .map_or(Ok(()), Err);
        together(control, &self.who.host, refused)?;
        let ranks = u64::MAX - control.vote(u64::MAX - u64::from(ranks))?;
        plan::series(cli, collective.traits(), ranks as u32).map_err(|error| {
            if control.rank() == 0 {
                say::error(&error.to_string());
            }
            Error::Agreed(error.exit())
        })
    }

    /// Refuses a type or reduction that was asked for by name and cannot be run here.
    fn refuse_by_name(
        &self,
        control: &dyn Control,
        backend: &dyn Backend,
        series: &[plan::Series],
    ) -> Result<()> {
        let reduces = self.collective.traits().reduces;
        let refused = series
            .iter()
            .filter(|series| !series.from_all)
            .find_map(|series| backend.refuses(series.dtype, series.op.filter(|_| reduces)));
        let refused = refused.map_or(Ok(()), |text| match backend.kind() {
            Kind::Mpi => Err(Error::Usage(text)),
            Kind::Nccl | Kind::Sim => Err(Error::Unsupported(text)),
        });
        together(control, &self.who.host, refused)
    }

    /// Opens the first worker's outputs and prints what is known; an output that cannot be opened ends the run.
    fn open(
        &self,
        control: &dyn Control,
        preamble: &Preamble,
        baseline: Option<Baseline>,
    ) -> Result<Option<Reporter>> {
        let open = || Reporter::open(self.cli, preamble, &*self.collective, &self.environment, &self.sink);
        let opened = if control.rank() == 0 { open().map(Some) } else { Ok(None) };
        let mut opened = together(control, &self.who.host, opened)?;
        if let Some(reporter) = &mut opened {
            reporter.baseline = baseline;
        }
        Ok(opened)
    }

    /// The sweep's bounds, cut alike everywhere to what the device with the least memory holds.
    fn bounds(&self, control: &dyn Control, backend: &mut dyn Backend, sharing: u64) -> Result<Bounds> {
        let (cli, host) = (self.cli, self.who.host.as_str());
        let memory = together(control, host, backend.memory())?;
        let least = |value: u64| control.vote(u64::MAX - value).map(|voted| u64::MAX - voted);
        let memory = Memory {
            free_bytes: least(memory.free_bytes / sharing)?,
            total_bytes: control.vote(memory.total_bytes)?,
        };
        let (capacity, formula) = limits::capacity(backend.kind(), memory, 8 * cli.unalign);
        let bounds = limits::bounds(cli.min_bytes, cli.max_bytes, capacity, formula, cli.strict_size);
        let bounds = together(control, host, bounds)?;
        // A matrix sends bytes.
        let dtypes = if cli.matrix { vec![Dtype::Uint8] } else { cli.dtype.choose(&Dtype::ALL) };
        together(control, host, limits::countable(bounds.max_bytes, &dtypes, backend.largest_count()))?;
        Ok(bounds)
    }
}

/// Of each part, the most that any rank took.
fn most(control: &dyn Control, usage: Usage) -> Result<MemoryUse> {
    Ok(MemoryUse {
        init_bytes: control.vote(usage.init_bytes)?,
        user_bytes: control.vote(usage.user_bytes)?,
        collective_bytes: control.vote(usage.collective_bytes)?,
    })
}
