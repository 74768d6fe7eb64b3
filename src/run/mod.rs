//! A run from command line to exit code, as one straight line; every process takes the same steps.

mod agreement;
mod limits;
mod reporter;
mod setup;
mod sweep;
mod world;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::backend::{Backend, Kind};
use crate::cli::Cli;
use crate::cli::env::Environment;
use crate::collective::Collective;
use crate::error::{Error, Exit, Result};
use crate::measure::{Bench, Deadlines, Settings};
use crate::plan;
use crate::report::{Preamble, Sink, say};
use crate::session::Control;
use crate::session::launcher::Launch;
use crate::session::stall::Stall;
use crate::session::watch::{ADDRESS_VARIABLE, Phase, Progress, Watch, Who};
use crate::vocab::Point;
use agreement::together;
use limits::Bounds;
use reporter::Reporter;
use sweep::Range;
use world::World;

/// Rank 0's outputs, once they are open: the watchdog writes its report there.
type SharedSink = Arc<OnceLock<Sink>>;

/// Measures collective `name` as `cli` asks.
pub fn run(name: &str, cli: &Cli) -> Exit {
    let lookup = |name: &str| std::env::var(name).ok();
    let launch = Launch::read(&lookup);
    match Job::start(name, cli, launch) {
        Ok(job) => job.go(),
        Err(error) => {
            // Before MPI there is no vote: each process says what it met and leaves.
            say::error(&match launch.rank {
                Some(rank) => format!("rank {rank}: {error}"),
                None => error.to_string(),
            });
            error.exit()
        }
    }
}

/// A run whose watchdog runs.
struct Job<'a> {
    cli: &'a Cli,
    environment: Environment,
    launch: Launch,
    collective: Box<dyn Collective>,
    deadlines: Deadlines,
    progress: Progress,
    watch: Watch,
    sink: SharedSink,
    who: Who,
    gpu: Option<Result<setup::Gpu>>,
}

impl<'a> Job<'a> {
    /// Everything before MPI: what can be refused is refused, the GPU is chosen, the watchdog starts.
    fn start(name: &str, cli: &'a Cli, launch: Launch) -> Result<Self> {
        if let Some(text) = cli.not_supported_yet() {
            return Err(Error::Unsupported(text));
        }
        let environment = Environment::read(|name| std::env::var(name).ok())?;
        if environment.split.is_some() {
            return Err(Error::Unsupported("NCCL_TESTS_SPLIT is not supported yet".to_owned()));
        }
        let collective = setup::collective(name, &environment)?;
        setup::refuse_launch(cli.backend, &launch)?;
        let who = setup::who(&launch);
        let (progress, sink) = (Progress::default(), SharedSink::default());
        let deadlines = Settings::deadlines(cli);
        progress.enter(Phase::Setup, deadlines.init);
        let watch = Watch::start(who.clone(), &progress, reporter::emergency(&sink))?;
        // Where the launcher tells the local rank, before MPI_Init: an MPI with CUDA support would otherwise open
        // a context on GPU 0 from every rank.
        let early = cli.backend == Kind::Nccl && launch.local_rank.is_some();
        let gpu = early.then(|| setup::open_gpu(launch.local_rank.unwrap_or(0)));
        Ok(Self { cli, environment, launch, collective, deadlines, progress, watch, sink, who, gpu })
    }

    /// The rest: all processes together.
    fn go(mut self) -> Exit {
        let world = match World::init(self.cli.backend == Kind::Sim) {
            Ok(world) => world,
            Err(error) => {
                say::error(&error.to_string());
                return error.exit();
            }
        };
        let outcome = self.measure(&world);
        self.leave(world, outcome)
    }

    /// Everyone leaves with one code: after an orderly end through MPI's, after a failure of this process alone
    /// through the watchdog, which names it and ends the job.
    fn leave(self, world: World, outcome: Result<Exit>) -> Exit {
        let exit = match outcome {
            Ok(exit) | Err(Error::Agreed(exit)) => exit,
            Err(error) => {
                let exit = error.exit();
                self.watch.fail(exit, &error.to_string(), &world.control().abort());
                return exit;
            }
        };
        self.progress.enter(Phase::Close, self.deadlines.later(Duration::ZERO));
        // Files are closed before anyone leaves: a launcher may end all as soon as one has.
        let closed = world.control().barrier();
        self.progress.enter(Phase::Done, Duration::MAX);
        self.watch.finish();
        match closed.and_then(|()| world.finalize()) {
            Ok(()) => exit,
            Err(error) => {
                say::error(&error.to_string());
                exit.max(error.exit())
            }
        }
    }

    fn measure(&mut self, world: &World) -> Result<Exit> {
        let control = world.control();
        self.join(world)?;
        let (cli, host) = (self.cli, self.who.host.clone());
        let early = setup::backend(cli, world, self.gpu.take(), &host)?;
        let ranks = control.size() * early.locals();
        let series = self.plan(control, ranks)?;
        agreement::agree(
            control,
            &setup::card(&host, &early.library(), &self.environment, &*self.collective),
        )?;
        let preamble = setup::preamble(cli, world, &early, &self.who)?;
        let mut reporter = self.open(control, &preamble)?;
        let sharing = control.vote(setup::sharing(&preamble.sites))?;
        self.watch.describe(&setup::device_words(&early));

        self.progress.enter(Phase::Init, self.deadlines.init);
        let first = control.rank() * early.locals();
        let stall = Stall::of(&cli.inject, first..first + early.locals());
        if let Some(stall) = stall {
            stall.here(Point::Init);
        }
        // Who has come so far waits inside the library; who has not is behind.
        self.progress.step(1);
        let mut backend = early.connect(control, self.collective.traits())?;
        let bounds = self.bounds(control, &mut *backend, sharing)?;
        if let Some(reporter) = &mut reporter {
            reporter.begin(&series, &bounds, cli);
        }
        self.progress.enter(Phase::Allocate, self.deadlines.init);
        let settings = Settings::new(cli, bounds.max_bytes);
        let room = bounds.max_bytes + 8 * cli.unalign;
        together(control, &host, backend.allocate(room, settings.marks()))?;

        let range = Range { min_bytes: bounds.min_bytes, max_bytes: bounds.max_bytes };
        let mut bench = Bench::new(&mut *backend, control, &self.progress, &*self.collective, settings);
        bench.stall = stall;
        sweep::sweep(&mut bench, cli, &series, range, &mut reporter)?;
        self.progress.enter(Phase::Close, self.deadlines.later(Duration::ZERO));
        backend.close()?;
        let exit = match reporter {
            Some(reporter) => reporter.finish(self.environment.min_busbw_gbps, String::new())?,
            None => Exit::Success,
        };
        // Rank 0 knows the figures; all leave with its code.
        Ok(Exit::from_code(control.vote(u64::from(exit.code()))? as u8))
    }

    /// The world is the one that was meant, and its watchdogs know each other.
    fn join(&mut self, world: &World) -> Result<()> {
        let control = world.control();
        setup::refuse_singletons(&self.launch, control.size())?;
        self.who.rank = control.rank();
        self.watch.connect(control, &self.who, std::env::var(ADDRESS_VARIABLE).ok().as_deref())
    }

    /// What will be measured; what cannot be is refused by all alike, and said once.
    fn plan(&self, control: &dyn Control, ranks: u32) -> Result<Vec<plan::Series>> {
        let refused = self.collective.refuses(ranks).map(Error::Unsupported);
        let planned = match refused {
            Some(error) => Err(error),
            None => plan::series(self.cli, self.collective.traits(), ranks),
        };
        planned.map_err(|error| {
            if control.rank() == 0 {
                say::error(&error.to_string());
            }
            Error::Agreed(error.exit())
        })
    }

    /// Opens rank 0's outputs and prints what is known; an output that cannot be opened ends the run here.
    fn open(&self, control: &dyn Control, preamble: &Preamble) -> Result<Option<Reporter>> {
        let opened = if control.rank() == 0 {
            Reporter::open(self.cli, preamble, &*self.collective, &self.sink).map(Some)
        } else {
            Ok(None)
        };
        together(control, &self.who.host, opened)
    }

    /// The sweep's bounds, cut alike on all ranks.
    fn bounds(&self, control: &dyn Control, backend: &mut dyn Backend, sharing: u64) -> Result<Bounds> {
        let (cli, host) = (self.cli, self.who.host.as_str());
        let mut memory = together(control, host, backend.memory())?;
        memory.free_bytes /= sharing;
        let (mine, _) = limits::capacity(backend.kind(), memory, 8 * cli.unalign);
        let capacity = u64::MAX - control.vote(u64::MAX - mine)?;
        let (_, formula) = limits::capacity(backend.kind(), memory, 8 * cli.unalign);
        let bounds = limits::bounds(cli.min_bytes, cli.max_bytes, capacity, formula, cli.strict_size);
        let bounds = together(control, host, bounds)?;
        let dtypes = cli.dtype.choose(&crate::vocab::Dtype::ALL);
        together(control, host, limits::countable(bounds.max_bytes, &dtypes, backend.largest_count()))?;
        Ok(bounds)
    }
}
