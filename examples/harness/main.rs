//! What critrank itself costs. 2 ranks: `mpirun -np 2 harness [QUADRUPLES]`; `ci/bench.sh harness` builds and runs it.
//!
//! Three measurements: the loop without any library, the time that it shows against that of a bare `MPI_Allreduce`
//! loop (8 B to 1 MiB), and what each mode adds to the bare loop. It exits with 1 where a limit does not hold.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

mod mode;
mod null;
mod over_mpi;
mod stats;
mod without_library;

use std::process::ExitCode;

use critrank::error::Result;
use critrank::session::Control;
use critrank::session::mpi::MpiWorld;

use mode::{ALLOWANCE_NS, Mode, all_reduce};
use over_mpi::{Job, Pair, extra_readings};
use stats::Mean;
use without_library::Cost;

const SMALLEST: u64 = 8;
const LARGEST: u64 = 1 << 20;
/// Our time over that of the bare loop, geometric mean over all sizes.
const BAND: std::ops::RangeInclusive<f64> = 0.97..=1.03;

fn main() -> ExitCode {
    let quadruples = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20);
    match run(quadruples) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit().code())
        }
    }
}

fn run(quadruples: usize) -> Result<bool> {
    // Before MPI starts, which may have threads of its own.
    let costs = without_library::measure(quadruples.max(2) * 5)?;
    let world = MpiWorld::init()?;
    let first = world.rank() == 0;
    let collective = all_reduce()?;
    let mut job = Job { world: &world, host: over_mpi::host(&world, LARGEST)?, collective: &*collective };
    if first {
        println!("# library={} ranks={}", world.version(), world.size());
    }
    let mut holds = true;
    if first {
        holds &= show_costs(&costs);
    }
    holds &= ratios(&mut job, quadruples, first)?;
    let clock = costs.first().map_or(0.0, |cost| cost.clock);
    holds &= modes(&mut job, quadruples, clock, first)?;
    // Only rank 0 judges the loop without a library, but all leave with the same code.
    let holds = world.vote(u64::from(!holds))? == 0;
    if first {
        println!("{}", if holds { "OK: all limits hold" } else { "ABOVE A LIMIT" });
    }
    world.finalize()?;
    Ok(holds)
}

fn show_costs(costs: &[Cost]) -> bool {
    println!("#\n# The loop without a library, ns per operation (medians)");
    println!(
        "# {:<10} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8}",
        "mode", "bare", "ours", "added", "readings", "clock", "limit"
    );
    for cost in costs {
        println!(
            "LOOP  {:<8} {:8.1} {:8.1} {:8.1} {:9} {:8.1} {:8.1}  {}",
            cost.mode.name(),
            cost.bare,
            cost.ours,
            cost.ours - cost.bare,
            cost.mode.readings(),
            cost.clock,
            cost.limit(),
            verdict(cost.holds())
        );
    }
    costs.iter().all(Cost::holds)
}

fn verdict(holds: bool) -> &'static str {
    if holds { "ok" } else { "ABOVE" }
}

/// The mean of a quadruple's two pairs is one independent value.
fn mean_of(quadruples: &[[Pair; 2]], value: impl Fn(Pair) -> f64) -> Mean {
    let values: Vec<f64> =
        quadruples.iter().map(|pairs| f64::midpoint(value(pairs[0]), value(pairs[1]))).collect();
    Mean::of(&values)
}

fn ratios(job: &mut Job, quadruples: usize, first: bool) -> Result<bool> {
    if first {
        println!(
            "#\n# Our time over a bare MPI_Allreduce loop's, -z 0: every pair, then geometric means with 95 % intervals"
        );
        println!("# PAIR {:>8} {:>10} {:>10} {:>8}", "bytes", "ours_us", "bare_us", "ratio");
    }
    let mut means = Vec::new();
    let sizes = std::iter::successors(Some(SMALLEST), |bytes| Some(bytes * 2));
    for bytes in sizes.take_while(|bytes| *bytes <= LARGEST) {
        let pairs = job.pairs(Mode::PLAIN, bytes, quadruples)?;
        means.push((bytes, mean_of(&pairs, Pair::log_ratio)));
        if first {
            for pair in pairs.iter().flatten() {
                println!(
                    "PAIR   {bytes:8} {:10.3} {:10.3} {:8.4}",
                    pair.ours,
                    pair.bare,
                    pair.ours / pair.bare
                );
            }
        }
    }
    let overall = Mean::over(&means.iter().map(|(_, mean)| *mean).collect::<Vec<_>>());
    let holds = BAND.contains(&overall.ratios()[1]);
    if first {
        for (bytes, mean) in &means {
            let [low, middle, high] = mean.ratios();
            println!("SIZE   {bytes:8} {middle:8.4} [{low:.4}, {high:.4}]");
        }
        let [low, middle, high] = overall.ratios();
        println!("RATIO {middle:.4} [{low:.4}, {high:.4}] of {BAND:?}  {}", verdict(holds));
    }
    Ok(holds)
}

/// A difference of two times of a microsecond is not known to a nanosecond here, so this fails only where the whole
/// interval lies above the limit; the loop without a library is the sharp one.
fn modes(job: &mut Job, quadruples: usize, clock: f64, first: bool) -> Result<bool> {
    if first {
        println!(
            "#\n# What a mode adds to the bare loop with the same calls, ns per operation, with 95 % intervals"
        );
        println!(
            "# {:<10} {:>8} {:>10} {:>10} {:>9} {:>18} {:>9} {:>8}",
            "mode", "bytes", "bare", "ours", "added", "interval", "readings", "limit"
        );
    }
    let mut holds = true;
    for mode in Mode::all() {
        for bytes in [8, 4096, 65536] {
            let pairs = job.pairs(mode, bytes, quadruples)?;
            let added = mean_of(&pairs, |pair| (pair.ours - pair.bare) * 1e3);
            let limit = f64::from(extra_readings(mode)) * clock + ALLOWANCE_NS;
            let fits = added.value - added.half <= limit;
            holds &= fits;
            if first {
                let mean = |value: fn(Pair) -> f64| mean_of(&pairs, value).value * 1e3;
                let interval = format!("[{:.0}, {:.0}]", added.value - added.half, added.value + added.half);
                println!(
                    "MODE  {:<10} {bytes:8} {:10.1} {:10.1} {:9.1} {interval:>18} {:9} {limit:8.1}  {}",
                    mode.name(),
                    mean(|pair| pair.bare),
                    mean(|pair| pair.ours),
                    added.value,
                    extra_readings(mode),
                    verdict(fits)
                );
            }
        }
    }
    Ok(holds)
}
