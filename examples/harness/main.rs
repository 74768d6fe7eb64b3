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
use stats::{Mean, Middle, median};
use without_library::Cost;

const SMALLEST: u64 = 8;
const LARGEST: u64 = 1 << 20;
/// Our time over that of the bare loop, geometric mean over all sizes.
const BAND: std::ops::RangeInclusive<f64> = 0.97..=1.05;

fn main() -> ExitCode {
    let quadruples = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(40);
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
    let costs = without_library::measure(quadruples.max(2) * 2)?;
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
    modes(&mut job, quadruples, clock, first)?;
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

fn all(pairs: &[[Pair; 2]], value: impl Fn(Pair) -> f64) -> Vec<f64> {
    pairs.iter().flatten().map(|pair| value(*pair)).collect()
}

fn ratios(job: &mut Job, quadruples: usize, first: bool) -> Result<bool> {
    if first {
        println!(
            "#\n# Our time over a bare MPI_Allreduce loop's, -z 0: every pair, then medians with 95 % intervals"
        );
        println!("# PAIR {:>8} {:>10} {:>10} {:>8}", "bytes", "ours_us", "bare_us", "ratio");
    }
    let (mut medians, mut plain) = (Vec::new(), Vec::new());
    let sizes = std::iter::successors(Some(SMALLEST), |bytes| Some(bytes * 2));
    for bytes in sizes.take_while(|bytes| *bytes <= LARGEST) {
        let pairs = job.pairs(Mode::PLAIN, bytes, quadruples)?;
        medians.push((bytes, Middle::of(all(&pairs, Pair::log_ratio))));
        // A quadruple is one independent value: its two pairs share a drift.
        plain.extend(pairs.iter().map(|two| f64::midpoint(two[0].log_ratio(), two[1].log_ratio())));
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
    let overall = Middle::mean(&medians.iter().map(|(_, median)| *median).collect::<Vec<_>>()).ratios();
    let plain = Mean::of(&plain).ratios();
    // All pairs' mean carries every interruption: it may not contradict the band, and on an idle machine it agrees.
    let holds = BAND.contains(&overall[1]) && plain[0] <= *BAND.end() && plain[2] >= *BAND.start();
    if first {
        for (bytes, median) in &medians {
            let [low, middle, high] = median.ratios();
            println!("SIZE   {bytes:8} {middle:8.4} [{low:.4}, {high:.4}]");
        }
        println!("PLAIN {:.4} [{:.4}, {:.4}] geometric mean of all pairs", plain[1], plain[0], plain[2]);
        println!(
            "RATIO {:.4} [{:.4}, {:.4}] geometric mean of the sizes' medians, to be in {BAND:?}  {}",
            overall[1],
            overall[0],
            overall[2],
            verdict(holds)
        );
    }
    Ok(holds)
}

/// Shown, not judged: two times of a microsecond differ by where their code and data lie in the caches as well. The
/// loop without a library is what the limit is held against.
fn modes(job: &mut Job, quadruples: usize, clock: f64, first: bool) -> Result<()> {
    if first {
        println!(
            "#\n# What a mode adds to the bare loop with the same calls, ns per operation: medians with 95 % intervals"
        );
        println!(
            "# {:<10} {:>8} {:>10} {:>10} {:>9} {:>18} {:>9} {:>8}",
            "mode", "bytes", "bare", "ours", "added", "interval", "readings", "limit"
        );
    }
    for mode in Mode::all() {
        for bytes in [8, 4096, 65536] {
            let pairs = job.pairs(mode, bytes, quadruples)?;
            let added = Middle::of(all(&pairs, |pair| (pair.ours - pair.bare) * 1e3));
            let limit = f64::from(extra_readings(mode)) * clock + ALLOWANCE_NS;
            if first {
                let typical = |value: fn(Pair) -> f64| median(&mut all(&pairs, value)) * 1e3;
                let interval = format!("[{:.0}, {:.0}]", added.low, added.high);
                println!(
                    "MODE  {:<10} {bytes:8} {:10.1} {:10.1} {:9.1} {interval:>18} {:9} {limit:8.1}",
                    mode.name(),
                    typical(|pair| pair.bare),
                    typical(|pair| pair.ours),
                    added.value,
                    extra_readings(mode)
                );
            }
        }
    }
    Ok(())
}
