//! What a run needs before it can measure: the collective, the launcher's word, the GPU, the backend, the sites.

#[cfg(feature = "nccl")]
use super::agreement::fits;
use super::agreement::{Card, together};
use super::gpu::{self, Gpu};
use super::seat::{Group, Seat};
use super::traffic;
use super::world::World;
#[cfg(feature = "nccl")]
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use crate::aggregate::Average;
#[cfg(feature = "nccl")]
use crate::backend::nccl::Options;
use crate::backend::sim::{Law, Sim};
use crate::backend::{Backend, Device, Kind, Library};
use crate::cli::Cli;
use crate::cli::env::{Environment, shaping};
use crate::collective::{ALL, Collective, Traits};
use crate::error::{Error, Result};
use crate::report::{Config, Preamble, Site};
use crate::session::Control;
use crate::session::launcher::Launch;
use crate::session::watch::Who;

/// The collective of this binary.
pub(super) fn collective(name: &str, environment: &Environment) -> Result<Box<dyn Collective>> {
    let entry = ALL.iter().find(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| Error::Usage(format!("there is no collective '{name}'")))?;
    Ok((entry.build)(environment.shares()?))
}

/// Combinations of flags that a backend does not have.
pub(super) fn refuse_shape(cli: &Cli, environment: &Environment) -> Result<()> {
    let refused = match cli.backend {
        Kind::Mpi if cli.gpus * cli.threads > 1 => Some("--backend mpi has one rank per process: -g 1 -t 1"),
        Kind::Sim if cli.threads > 1 => Some("--backend sim has one thread: -t 1"),
        Kind::Mpi | Kind::Sim if environment.split.is_some() => {
            Some("NCCL_TESTS_SPLIT works with --backend nccl")
        }
        _ if cli.localize && environment.split.is_some() => {
            Some("--localize needs all ranks in one communicator: leave NCCL_TESTS_SPLIT out")
        }
        _ if cli.matrix && (environment.split.is_some() || cli.localize) => {
            Some("p2p_matrix_perf measures all pairs: leave NCCL_TESTS_SPLIT and --localize out")
        }
        Kind::Nccl if cli.gpus > 1 && (cli.localize || cli.matrix) => Some(
            "a thread has one clock for all its GPUs, so that pairs cannot be told apart: use -t, or a process for each GPU",
        ),
        _ if cli.matrix && (cli.json.is_some() || environment.min_busbw_gbps.is_some()) => {
            Some("p2p_matrix_perf has no rows for -J and NCCL_TESTS_MIN_BW: use --record and --csv")
        }
        _ if cli.matrix
            && (cli.self_test || cli.overhead || cli.extent.precision.or(cli.extent.budget).is_some()) =>
        {
            Some("p2p_matrix_perf has no sweep: leave --self-test, --overhead, --precision and --budget out")
        }
        _ if cli.csv.is_some() && !cli.matrix => Some("--csv belongs to p2p_matrix_perf"),
        Kind::Nccl | Kind::Mpi | Kind::Sim => None,
    };
    refused.map_or(Ok(()), |text| Err(Error::Unsupported(text.to_owned())))
}

/// What the launcher says that cannot work, before anything starts.
pub(super) fn refuse_launch(kind: Kind, launch: &Launch) -> Result<()> {
    if kind == Kind::Sim {
        return match launch.size {
            Some(size) if size > 1 => Err(Error::Usage(
                "--backend sim is one process; set its ranks with --sim-ranks and start it without a launcher".to_owned(),
            )),
            _ => Ok(()),
        };
    }
    #[cfg(feature = "mpi")]
    return launch.refuse_before_init(crate::session::mpi::FLAVOUR);
    #[cfg(not(feature = "mpi"))]
    match launch.size {
        Some(size) if size > 1 => Err(Error::Setup(format!(
            "{} started {size} processes, and this binary is built without MPI: build it with the feature 'mpi'",
            launch.launcher.name()
        ))),
        _ if kind == Kind::Mpi => {
            Err(Error::Setup("--backend mpi needs a build with the feature 'mpi'".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Refuses processes that were meant to be one job and are each alone.
#[cfg_attr(not(feature = "mpi"), expect(clippy::unnecessary_wraps, reason = "with MPI it fails"))]
pub(super) fn refuse_singletons(launch: &Launch, world_size: u32) -> Result<()> {
    #[cfg(feature = "mpi")]
    return launch.refuse_singletons(
        world_size,
        crate::session::mpi::FLAVOUR,
        &crate::session::mpi::library_version(),
    );
    #[cfg(not(feature = "mpi"))]
    {
        let _ = (launch, world_size);
        Ok(())
    }
}

/// This process, as reports name it.
pub(super) fn who(launch: &Launch) -> Who {
    Who { rank: launch.rank.unwrap_or(0), host: short_host(), pid: std::process::id(), device: String::new() }
}

/// The host's name up to its first dot, as nccl-tests shows it.
fn short_host() -> String {
    let full = hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    full.split('.').next().unwrap_or_default().to_owned()
}

/// Where NCCL's log goes, if it would tear the table. Before any thread is started.
pub(super) fn redirect_debug(kind: Kind) -> Option<PathBuf> {
    #[cfg(feature = "nccl")]
    if kind == Kind::Nccl {
        return crate::backend::nccl::redirect_debug(Path::new("."));
    }
    let _ = kind;
    None
}

/// A backend before its ranks are connected.
pub(super) enum Unconnected {
    /// GPUs are open.
    #[cfg(feature = "nccl")]
    Gpu(Box<Gpu>),
    /// Nothing to connect.
    Ready(Box<dyn Backend>),
}

/// Makes the backend as far as this process can alone; all succeed, or all leave.
pub(super) fn backend(
    cli: &Cli,
    seat: &Seat<'_>,
    gpu: Option<Result<Gpu>>,
    host: &str,
) -> Result<Unconnected> {
    let control = seat.control;
    match cli.backend {
        Kind::Sim => {
            let ranks = if cli.gpus > 1 { cli.gpus } else { cli.sim_ranks };
            let hosts: Vec<String> = (0..ranks as u32).map(|rank| site_host(cli, rank, host)).collect();
            let slow = together(control, host, traffic::slow_links(cli, &hosts))?;
            let sim = Sim::new(Law::new(ranks as u32, cli.sim_seed), &cli.inject);
            let (links, lost_pct) = slow.unwrap_or_default();
            Ok(Unconnected::Ready(Box::new(sim.with_slow(&links, lost_pct))))
        }
        Kind::Mpi => ready_mpi(seat.world, host),
        Kind::Nccl => {
            let opened = gpu.unwrap_or_else(|| gpu::open(cli, seat.world.local().0, seat.thread.0));
            nccl(control, host, opened)
        }
    }
}

#[cfg(feature = "nccl")]
fn nccl(control: &dyn Control, host: &str, opened: Result<Gpu>) -> Result<Unconnected> {
    fits(control, host, &opened)?;
    Ok(Unconnected::Gpu(Box::new(together(control, host, opened)?)))
}

#[cfg(not(feature = "nccl"))]
fn nccl(control: &dyn Control, host: &str, opened: Result<Gpu>) -> Result<Unconnected> {
    together(control, host, opened).map(|never| match never {})
}

#[cfg(feature = "mpi")]
fn ready_mpi(world: &World, host: &str) -> Result<Unconnected> {
    match world {
        World::Mpi(mpi) => {
            let made = crate::backend::mpi::MpiHost::new(mpi);
            let made = together(world.control(), host, made)?;
            Ok(Unconnected::Ready(Box::new(made)))
        }
        World::Solo(_) => Err(Error::Setup("--backend mpi needs MPI".to_owned())),
    }
}

#[cfg(not(feature = "mpi"))]
fn ready_mpi(_world: &World, _host: &str) -> Result<Unconnected> {
    Err(Error::Setup("--backend mpi needs a build with the feature 'mpi'".to_owned()))
}

impl Unconnected {
    /// Local ranks that it drives.
    pub(super) fn locals(&self) -> u32 {
        match self {
            #[cfg(feature = "nccl")]
            Self::Gpu(early) => early.locals(),
            Self::Ready(backend) => backend.locals(),
        }
    }

    pub(super) fn library(&self) -> Library {
        match self {
            #[cfg(feature = "nccl")]
            Self::Gpu(early) => early.library(),
            Self::Ready(backend) => backend.library(),
        }
    }

    fn devices(&self) -> Vec<Device> {
        match self {
            #[cfg(feature = "nccl")]
            Self::Gpu(early) => early.devices(),
            Self::Ready(backend) => backend.devices(),
        }
    }

    /// What opening the libraries and GPUs took, in order.
    pub(super) fn steps(&self) -> &[(&'static str, Duration)] {
        match self {
            #[cfg(feature = "nccl")]
            Self::Gpu(early) => early.steps(),
            Self::Ready(_) => &[],
        }
    }

    /// The communicator's id, made by the group's first worker and told to all.
    #[cfg_attr(not(feature = "nccl"), expect(clippy::unnecessary_wraps, reason = "with NCCL it fails"))]
    pub(super) fn meet(&self, seat: &Seat<'_>, group: &Group) -> Result<Vec<u8>> {
        match self {
            #[cfg(feature = "nccl")]
            Self::Gpu(early) => {
                let id = if group.place == 0 { early.unique_id()?.to_vec() } else { Vec::new() };
                group.told_by_first(seat, id)
            }
            Self::Ready(_) => {
                let _ = (seat, group);
                Ok(Vec::new())
            }
        }
    }

    /// Makes the communicator of `meet`'s id. A failure here is this process's own: others may hang in it.
    pub(super) fn connect(
        self,
        cli: &Cli,
        id: &[u8],
        group: &Group,
        traits: Traits,
    ) -> Result<Box<dyn Backend>> {
        match self {
            #[cfg(feature = "nccl")]
            Self::Gpu(early) => {
                let locals = early.locals();
                let options = Options::new(cli, traits);
                Ok(Box::new(early.connect(id, group.place * locals, group.ranks(locals), &options)?))
            }
            Self::Ready(mut backend) => {
                let _ = (id, group, traits);
                // Every epoch's communicator is made alike, the first one's too.
                if cli.extent.epochs > 1 {
                    backend.reconnect(&[])?;
                }
                Ok(backend)
            }
        }
    }
}

/// What this process shows the others.
pub(super) fn card(host: &str, library: &Library, environment: &Environment) -> Card {
    Card {
        host: host.to_owned(),
        args: std::env::args().skip(1).collect(),
        build: build(),
        library: format!("{} {}", library.name, library.version),
        inputs: format!("{environment:?} {:?}", environment.shares().ok()),
        env: shaping(std::env::vars()),
    }
}

/// Version and build: two binaries of one version that differ have different lengths or linker ids.
fn build() -> String {
    let head = std::fs::File::open("/proc/self/exe").and_then(|file| {
        let mut bytes = vec![0; 4096];
        let read = std::io::Read::read(&mut &file, &mut bytes)?;
        bytes.truncate(read);
        Ok((file.metadata()?.len(), bytes))
    });
    let (length, bytes) = head.unwrap_or_default();
    // FNV-1a: short, and stable between compilers, unlike the standard library's hasher.
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{}+{length:x}.{hash:016x}", env!("CARGO_PKG_VERSION"))
}

/// Everything that is known before the first row; the sites at the first worker only.
pub(super) fn preamble(
    cli: &Cli,
    seat: &Seat<'_>,
    group: &Group,
    backend: &Unconnected,
    who: &Who,
) -> Result<Preamble> {
    let control = seat.control;
    let locals = backend.locals();
    let mine: Vec<Site> = (0..)
        .zip(backend.devices())
        .map(|(local, device)| Site {
            rank: control.rank() * locals + local,
            process: seat.process(),
            group: group.color,
            pid: who.pid,
            host: site_host(cli, control.rank() * locals + local, &who.host),
            local_rank: seat.world.local().0,
            device,
        })
        .collect();
    let all = control.gather(&serde_json::to_vec(&mine).unwrap_or_default())?.unwrap_or_default();
    let sites =
        all.iter().flat_map(|bytes| serde_json::from_slice::<Vec<Site>>(bytes).unwrap_or_default()).collect();
    let args: Vec<String> = std::env::args().collect();
    Ok(Preamble {
        program: program(&args),
        args,
        env: shaping(std::env::vars()),
        start_time: super::reporter::local_time(),
        backend: cli.backend,
        library: backend.library(),
        version: build(),
        injected: cli.inject.iter().map(ToString::to_string).collect(),
        config: config(cli),
        sites,
    })
}

/// A rank's host: this one, or the simulation's node.
fn site_host(cli: &Cli, rank: u32, host: &str) -> String {
    match (cli.backend, cli.sim_per_node) {
        (Kind::Sim, each @ 1..) => format!("node{}", u64::from(rank) / each),
        _ => host.to_owned(),
    }
}

/// The most ranks that share one GPU; 1 without GPUs, where the backend divides the host's memory itself.
pub(super) fn sharing(sites: &[Site]) -> u64 {
    let on_gpu = sites.iter().filter(|site| site.device.compute_capability > 0);
    let same = |site: &&Site| {
        let twins = |other: &&Site| other.host == site.host && other.device.bus_id == site.device.bus_id;
        sites.iter().filter(twins).count() as u64
    };
    on_gpu.map(|site| same(&site)).max().unwrap_or(1)
}

/// This process's devices, as a report names them.
pub(super) fn device_words(backend: &Unconnected) -> String {
    let words = |device: &Device| match device.compute_capability {
        0 => device.name.clone(),
        _ => format!("GPU {} [{}]", device.index, device.bus_id),
    };
    let mut all: Vec<String> = backend.devices().iter().map(words).collect();
    all.dedup();
    all.join(", ")
}

/// The binary's name, without its folder.
fn program(args: &[String]) -> String {
    let path = args.first().map_or("", String::as_str);
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

fn config(cli: &Cli) -> Config {
    Config {
        threads: cli.threads as u32,
        gpus: cli.gpus as u32,
        min_bytes: cli.min_bytes,
        max_bytes: cli.max_bytes,
        step_factor: cli.step_factor,
        step_bytes: cli.step_bytes,
        warmup: cli.warmup,
        iterations: cli.iterations,
        aggregated: cli.aggregated,
        checks: cli.checks,
        graph: cli.graph,
        unalign: cli.unalign,
        blocking: cli.blocking as u8,
        per_iteration: cli.per_iteration == 1,
        skip: cli.skip as u64,
        parallel_init: cli.parallel_init == 1,
        cputime: cli.cputime == 1,
        timestamps: cli.timestamps == 1,
        average: match cli.average {
            0 => Average::Rank0,
            1 => Average::Avg,
            2 => Average::Min,
            _ => Average::Max,
        },
        cycles: cli.cycles,
        epochs: cli.extent.epochs,
    }
}
