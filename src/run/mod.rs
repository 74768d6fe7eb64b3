//! A run from command line to exit code, as one straight line; every process takes the same steps.

mod agreement;
mod emergency;
mod epochs;
mod expect;
mod explain;
mod gpu;
mod late;
mod limits;
mod localise;
mod matrix;
mod reporter;
mod seat;
mod setup;
mod slowness;
mod statistics;
mod sweep;
mod timeline;
mod timing;
mod traffic;
mod trials;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::Kind;
use crate::cli::Cli;
use crate::cli::env::Environment;
use crate::collective::Collective;
use crate::error::{Error, Exit, Result};
use crate::measure::{Deadlines, Settings};
use crate::report::{Sink, say};
use crate::session::Control;
use crate::session::launcher::Launch;
use crate::session::team::Team;
use crate::session::watch::{ADDRESS_VARIABLE, Phase, Progress, Watch, Who};
use gpu::Gpu;
use seat::Seat;
use timeline::Timeline;
use world::World;

/// Rank 0's outputs, once they are open: the watchdog writes its report there.
type SharedSink = Arc<OnceLock<Sink>>;

/// Measures collective `name` as `cli` asks.
pub fn run(name: &str, cli: &mut Cli) -> Exit {
    let lookup = |name: &str| std::env::var(name).ok();
    let launch = Launch::read(&lookup);
    let is_first = launch.rank.unwrap_or(0) == 0;
    for word in cli.settle() {
        if is_first {
            say::warning(&word);
        }
    }
    if let Some(word) = cli.explain.then(explain::offer_profiler).flatten()
        && is_first
    {
        say::warning(word);
    }
    if let Some(file) = setup::redirect_debug(cli.backend)
        && is_first
    {
        say::warning(&format!(
            "NCCL_DEBUG is set: NCCL's own lines go to {} (NCCL_DEBUG_FILE)",
            file.display()
        ));
    }
    let log = explain::listen(cli);
    match Job::start(name, cli, launch, log) {
        Ok((job, gpu)) => job.go(gpu),
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
    /// With `--explain`, NCCL's log of this process.
    log: Option<explain::Log>,
    timeline: Mutex<Timeline>,
    /// The local rank whose GPU is opened while MPI starts.
    beside: Option<u32>,
}

impl<'a> Job<'a> {
    /// Everything before MPI: what can be refused is refused, the GPU is chosen, the watchdog starts.
    fn start(
        name: &str,
        cli: &'a Cli,
        launch: Launch,
        log: Option<explain::Log>,
    ) -> Result<(Self, Option<Result<Gpu>>)> {
        if let Some(text) = cli.not_supported_yet() {
            return Err(Error::Unsupported(text));
        }
        let environment = Environment::read(|name| std::env::var(name).ok())?;
        setup::refuse_shape(cli, &environment)?;
        let mut timeline = Timeline::default();
        timeline.note("process to main", Timeline::since_exec().unwrap_or_default());
        let collective = setup::collective(name, &environment)?;
        setup::refuse_launch(cli.backend, &launch)?;
        let who = setup::who(&launch);
        let (progress, sink) = (Progress::default(), SharedSink::default());
        let deadlines = Settings::deadlines(cli);
        progress.pace(deadlines.init.min(deadlines.later(Duration::ZERO)));
        progress.enter(Phase::Setup, deadlines.init);
        let watch = Watch::start(who.clone(), &progress, emergency::emergency(&sink))?;
        // Where the launcher tells the local rank, before MPI_Init: an MPI with CUDA support would otherwise open
        // a context on GPU 0 from every rank. Another MPI may start meanwhile: each takes a quarter of a second.
        let local_rank = launch.local_rank.filter(|_| cli.backend == Kind::Nccl);
        let beside = local_rank.filter(|_| gpu::mpi_leaves_gpus_alone());
        let gpu = local_rank.filter(|_| beside.is_none()).map(|rank| gpu::open(cli, rank, 0));
        let timeline = Mutex::new(timeline);
        Ok((
            Self {
                cli,
                environment,
                launch,
                collective,
                deadlines,
                progress,
                watch,
                sink,
                who,
                log,
                timeline,
                beside,
            },
            gpu,
        ))
    }

    /// The rest: all processes together, each with its threads.
    fn go(mut self, gpu: Option<Result<Gpu>>) -> Exit {
        let (started, gpu) = std::thread::scope(|scope| {
            let opening = self.beside.map(|rank| scope.spawn(move || gpu::open(self.cli, rank, 0)));
            let started = self.timeline().step("MPI_Init", || World::init(self.cli.backend == Kind::Sim));
            let opened = opening.and_then(|opening| opening.join().ok());
            (started, opened.or(gpu))
        });
        self.timeline().extend(gpu.as_ref().map_or(&[], gpu::opening));
        let world = match started {
            Ok(world) => world,
            Err(error) => {
                say::error(&error.to_string());
                return error.exit();
            }
        };
        let exit = match self.join(&world) {
            Ok(()) => self.work(&world, gpu),
            Err(error) => self.fail(&world, &error),
        };
        self.leave(world, exit)
    }

    fn timeline(&self) -> MutexGuard<'_, Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The world is the one that was meant, and its watchdogs know each other.
    fn join(&mut self, world: &World) -> Result<()> {
        let control = world.control();
        setup::refuse_singletons(&self.launch, control.size())?;
        self.who.rank = control.rank();
        self.watch.connect(control, &self.who, std::env::var(ADDRESS_VARIABLE).ok().as_deref())
    }

    /// Every thread measures its ranks; all come to the same exit code.
    fn work(&self, world: &World, gpu: Option<Result<Gpu>>) -> Exit {
        let threads = self.cli.threads as u32;
        let team = Team::new(world.control(), threads);
        let worker = |thread: u32, gpu| {
            let member = team.member(thread);
            // Alone, the process itself is the worker: nothing stands between it and MPI.
            let control: &dyn Control = if threads == 1 { world.control() } else { &member };
            let seat = Seat { control, world, thread: (thread, threads) };
            // A thread that just went away would leave the others waiting for it. Nothing is used behind a panic.
            let done = catch_unwind(AssertUnwindSafe(|| self.measure(&seat, gpu)));
            done.unwrap_or(Err(Error::Panicked { thread })).unwrap_or_else(|error| self.fail(world, &error))
        };
        let worker = &worker;
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..threads).map(|thread| scope.spawn(move || worker(thread, None))).collect();
            let exit = worker(0, gpu);
            others.into_iter().fold(exit, |worst, other| worst.max(other.join().unwrap_or(Exit::Died)))
        })
    }

    /// A failure of this process alone goes through the watchdog, which names it and ends the job; one that all
    /// know of already does not.
    fn fail(&self, world: &World, error: &Error) -> Exit {
        let exit = error.exit();
        if !matches!(error, Error::Agreed(_)) {
            self.watch.fail(exit, &error.to_string(), &world.control().abort());
        }
        exit
    }

    /// Everyone leaves with one code.
    fn leave(self, world: World, exit: Exit) -> Exit {
        self.progress.enter(Phase::Close, self.deadlines.later(Duration::ZERO));
        // Files are closed before anyone leaves: a launcher may end all as soon as one has.
        let closed = world.control().barrier();
        self.progress.enter(Phase::Done, Duration::MAX);
        self.watch.finish();
        let is_first = world.control().rank() == 0;
        let start = Instant::now();
        match closed.and_then(|()| world.finalize()) {
            Ok(()) => {
                if self.cli.cold_start && is_first {
                    let (finalize, age) = (start.elapsed(), Timeline::since_exec().unwrap_or_default());
                    say::note(&format!(
                        "time spent: MPI_Finalize {finalize:.1?}; the process is {age:.2?} old"
                    ));
                }
                exit
            }
            Err(error) => {
                say::error(&error.to_string());
                exit.max(error.exit())
            }
        }
    }
}
