//! How fast buffers are filled and checked on a GPU, against a copy within it: `ci/bench.sh verify`.
//!
//! One GPU, one rank; the patterns are those of 8 and of 4,096 ranks, and what is checked the fill has written. A ratio is
//! bytes filled or checked a second over bytes copied a second; a copy reads and writes each of its bytes, so memory that
//! does nothing else would allow up to 2. `<` marks less than 0.7, of one-byte types less than 0.5.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use critrank::backend::nccl::{Early, Options, Request};
use critrank::backend::{Backend, Setup};
use critrank::error::Result;
use critrank::verify::{Arithmetic, Pattern, Sight};
use critrank::vocab::{Dtype, Placement, RedOp, Run, Side, Slot, What};

const REPEATS: usize = 5;
const DEADLINE: Duration = Duration::from_mins(1);

/// The median time of `act` by the GPU's own clock, in µs.
fn time_us(backend: &mut impl Backend, mut act: impl FnMut(&mut dyn Backend) -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..=REPEATS {
        backend.mark(0)?;
        act(backend)?;
        backend.mark(1)?;
        backend.wait(DEADLINE)?;
        times.push(backend.between_us(0, 1)?);
    }
    // The first loads code.
    times.remove(0);
    times.sort_by(f64::total_cmp);
    Ok(times[REPEATS / 2])
}

/// What is filled, and how long a copy of as many bytes takes.
struct Job {
    what: What,
    bytes: u64,
    copy_us: f64,
}

/// Prints one row; false where a check found its own fill wrong.
fn row(backend: &mut impl Backend, pattern: &Pattern, name: &str, job: &Job) -> Result<bool> {
    let Job { what, bytes, copy_us } = *job;
    let count = bytes / pattern.dtype.bytes();
    let limit = if pattern.dtype.bytes() == 1 { 0.5 } else { 0.7 };
    backend.prepare(&Setup {
        dtype: pattern.dtype,
        op: None,
        placement: Placement::OutOfPlace,
        repetition: 0,
    })?;
    let content = vec![Run { at: Slot { side: Side::Recv, offset: 0 }, count, what }];
    let cell =
        |us: f64| format!("{us:>10.1} {:>6.3}{}", copy_us / us, if copy_us / us < limit { '<' } else { ' ' });
    let fill_us = time_us(backend, |backend| backend.fill(&content, pattern, false))?;
    let mut wrong = 0;
    let check_us = time_us(backend, |backend| {
        let tally = backend.check(&content, pattern)?;
        wrong = tally.wrong_a.min(tally.wrong_b);
        Ok(())
    })?;
    // Inputs are never checked in a run.
    let checked = if matches!(what, What::Input { .. }) { String::new() } else { cell(check_us) };
    println!("{name:<12} {:<9} {:>5} {} {checked} {wrong:>6}", pattern.dtype, pattern.ranks, cell(fill_us));
    Ok(wrong == 0)
}

fn measure(bytes: u64) -> Result<bool> {
    let early = Early::open(&Request::new(0, 1, |name| std::env::var(name).ok())?)?;
    let id = early.unique_id()?;
    let mut backend = early.connect(&id, 0, 1, &Options::default())?;
    backend.allocate(bytes, 2)?;
    let slot = |side| Slot { side, offset: 0 };
    let floats = bytes / Dtype::Float.bytes();
    let copy_us = time_us(&mut backend, |backend| backend.copy(slot(Side::Send), slot(Side::Recv), floats))?;
    println!(
        "# {bytes} bytes; copy within the GPU: {copy_us:.1} us, {:.0} GB/s",
        bytes as f64 / copy_us / 1e3
    );
    println!("# reduction  type      ranks    fill_us  ratio    check_us  ratio   wrong");
    let job = |what| Job { what, bytes, copy_us };
    let mut good = true;
    for ranks in [8, 4096] {
        for dtype in Dtype::ALL {
            let pattern = |op| Pattern { dtype, op, ranks, repetition: 3, arithmetic: Arithmetic::Wrapping };
            good &= row(&mut backend, &pattern(None), "copies", &job(What::stream(3, 0)))?;
            for op in RedOp::ALL {
                let pattern = pattern(Some(op));
                if matches!(pattern.sight(), Sight::Refused { .. }) {
                    continue;
                }
                let input = What::Input { rank: 3, first: 0 };
                good &= row(&mut backend, &pattern, &format!("{op} input"), &job(input))?;
                let result = What::Reduced { first: 0 };
                good &= row(&mut backend, &pattern, &format!("{op} result"), &job(result))?;
            }
        }
    }
    backend.close()?;
    Ok(good)
}

fn main() -> std::process::ExitCode {
    let bytes = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1 << 30);
    match measure(bytes) {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => {
            println!("a check found wrong what a fill had written");
            std::process::ExitCode::from(7)
        }
        Err(error) => {
            println!("{error}");
            std::process::ExitCode::from(error.exit().code())
        }
    }
}
