//! Ranks that meet in barriers under a watchdog, and one that misbehaves on demand: what the tests of the watchdog
//! launch. `watch_probe FAULT RANK [SECONDS]`, with faults `none`, `die`, `stop`, `hang`, `error`, `term`,
//! `early-stop`, `early-die`, and `cost` or `cost-bare` (a timed loop with and without the watchdog).
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a program")]

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use critrank::error::{Exit, Result};
use critrank::session::Control;
use critrank::session::launcher::Launch;
use critrank::session::mpi::{FLAVOUR, MpiWorld};
use critrank::session::watch::{ADDRESS_VARIABLE, Failure, Phase, Progress, Sink, Watch, Who};

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().collect();
    let word = |at: usize| arguments.get(at).map_or("", String::as_str);
    let number = |at: usize, default| word(at).parse().unwrap_or(default);
    match run(word(1), number(2, 1), Duration::from_secs(u64::from(number(3, 2)))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("watch_probe: {error}");
            ExitCode::from(error.exit().code())
        }
    }
}

/// Sends this process a signal, with the shell's own tool.
fn signal(name: &str) {
    let pid = std::process::id().to_string();
    if let Err(error) = Command::new("kill").args([name, &pid]).status() {
        eprintln!("watch_probe: cannot run kill: {error}");
    }
}

fn run(fault: &str, culprit: u32, deadline: Duration) -> Result<()> {
    let launch = Launch::read(&|name| std::env::var(name).ok());
    launch.refuse_before_init(FLAVOUR)?;
    let early = launch.rank == Some(culprit);
    let host = hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let who = Who { rank: launch.rank.unwrap_or(0), host, pid: std::process::id(), device: String::new() };
    let sink: Sink =
        Arc::new(|failure: &Failure| eprintln!("critrank: {}", failure.lines.join("\ncritrank: ")));
    let progress = Progress::default();
    let watch = Watch::start(who.clone(), &progress, sink)?;
    progress.enter(Phase::Setup, deadline * 2);
    match fault {
        "early-stop" if early => signal("-STOP"),
        "early-die" if early => signal("-KILL"),
        _ => {}
    }
    let world = MpiWorld::init()?;
    launch.refuse_singletons(world.size(), FLAVOUR, world.version())?;
    let address = std::env::var(ADDRESS_VARIABLE).ok();
    watch.connect(&world, &who, address.as_deref())?;
    watch.describe("HOST");
    let me = world.rank() == culprit;
    if world.rank() == 0 {
        println!("mpi={} ranks={} locals={}", world.version(), world.size(), world.local_size());
    }
    world.barrier()?;
    progress.enter(Phase::Timed, deadline);
    progress.size(1 << 20);
    if fault == "cost-bare" {
        watch.finish();
        cost(&world, &progress)?;
        return world.finalize();
    }
    if fault == "cost" {
        cost(&world, &progress)?;
    } else {
        let end = Instant::now() + Duration::from_millis(1500);
        let mut iteration = 0;
        // Rank 0 alone knows when; the others would disagree.
        while world.vote(u64::from(world.rank() == 0 && Instant::now() > end && fault == "none"))? == 0 {
            iteration += 1;
            if me && Instant::now() > end {
                misbehave(fault, &watch, &world);
            }
            progress.step(iteration);
            world.barrier()?;
        }
    }
    progress.enter(Phase::Close, deadline);
    world.finalize()?;
    progress.enter(Phase::Done, Duration::MAX);
    watch.finish();
    Ok(())
}

fn misbehave(fault: &str, watch: &Watch, world: &MpiWorld) {
    match fault {
        "die" => {
            eprintln!("watch_probe: dies at {:?}", std::time::UNIX_EPOCH.elapsed().unwrap_or_default());
            signal("-KILL");
        }
        "stop" => signal("-STOP"),
        "hang" => std::thread::sleep(Duration::from_mins(2)),
        "error" => watch.fail(Exit::Library, "a made-up error of this rank", &world.abort()),
        "term" => signal("-TERM"),
        _ => {}
    }
}

/// The time of a vote (an 8-byte all-reduce), and this process's other threads' share of the processor.
fn cost(world: &MpiWorld, progress: &Progress) -> Result<()> {
    progress.enter(Phase::Timed, Duration::from_mins(10));
    for _ in 0..1000 {
        world.vote(1)?;
    }
    let start = Instant::now();
    let mut calls = 0_u64;
    let mut times = Vec::with_capacity(1 << 22);
    while world.vote(u64::from(start.elapsed() > Duration::from_secs(4)))? == 0 {
        let before = Instant::now();
        progress.step(calls);
        world.vote(1)?;
        times.push(before.elapsed().as_nanos() as u64);
        calls += 1;
    }
    times.sort_unstable();
    let quantile = |q: f64| times[((times.len() - 1) as f64 * q) as usize];
    println!(
        "rank {}: {calls} calls in {:.1} s, median {} ns, p99 {} ns; watchdog thread {}",
        world.rank(),
        start.elapsed().as_secs_f64(),
        quantile(0.5),
        quantile(0.99),
        watchdog_time()
    );
    Ok(())
}

fn watchdog_time() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for task in tasks {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        if read("comm").trim() == "watchdog" {
            let schedule = read("schedstat");
            let ns: u64 = schedule.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
            let switches = read("status");
            let switches = switches.lines().find(|line| line.starts_with("voluntary")).unwrap_or_default();
            return format!("{} us of processor, {switches}", ns / 1000);
        }
    }
    "has ended".to_owned()
}
