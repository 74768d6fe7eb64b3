//! What critrank's loop adds to a bare loop over the MPI library under test. `ci/test.sh` builds the example.
#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::print_stdout, missing_docs)]

mod common;

use std::time::Duration;

use common::{Mpi, binaries, finish};

/// The fields of the only line that starts so.
fn line<'a>(output: &'a str, start: &str) -> Vec<&'a str> {
    let found: Vec<&str> = output.lines().filter(|line| line.starts_with(start)).collect();
    assert_eq!(found.len(), 1, "{start}: {output}");
    found[0].split_whitespace().collect()
}

#[test]
fn our_time_is_a_bare_loops_time() {
    let mpi = Mpi::under_test();
    let example = binaries().join("../release/examples/harness");
    assert!(example.exists(), "{} is missing; run ci/test.sh", example.display());
    // Two ranks on two cores need not yield, and yielding is time of the library that a bare loop spends otherwise.
    let mut command = mpi.launcher(2);
    command.env("OMPI_MCA_mpi_yield_when_idle", "0").arg(example).arg("20");
    let run = finish(&mut command, Duration::from_mins(4));
    println!("{}", run.stdout);
    assert!(run.stdout.contains(&format!("# {}", mpi.library())), "{}{}", run.stdout, run.stderr);
    let ratio: f64 = line(&run.stdout, "RATIO ")[1].parse().unwrap();
    assert!((0.97..=1.05).contains(&ratio), "{ratio}: {}", run.stdout);
    let pairs = run.stdout.lines().filter(|line| line.starts_with("PAIR ")).count();
    assert_eq!(pairs, 18 * 40, "two pairs of each of 20 quadruples of each size");
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
}
