//! critrank measures collective communication over a GPU fabric and names the rank that holds it back.
//!
//! Modules in reading order; each imports only from those above it (docs/ARCHITECTURE.md).

pub mod error;
pub mod vocab;

pub mod collective;
pub mod verify;

pub mod cli;
pub mod plan;

pub mod clock;

pub mod backend;
pub mod session;

pub mod stats;

pub mod aggregate;
pub mod judge;
pub mod measure;
pub mod report;

pub mod offline;
pub mod run;

use std::process::ExitCode;

use cli::tool::Tool;
use cli::{Cli, Parsed};
use report::say;

/// A `*_perf` binary: reads the command line and measures collective `name`.
pub fn perf_main(name: &str) -> ExitCode {
    main(name, false)
}

/// `p2p_matrix_perf`: as `perf_main`, with all pairs in place of the sweep; ranks connect as `name` needs it.
pub fn matrix_main(name: &str) -> ExitCode {
    main(name, true)
}

fn main(name: &str, matrix: bool) -> ExitCode {
    obey(Cli::read_for(std::env::args_os(), matrix), |mut cli| {
        log(cli.verbose);
        run::run(name, &mut cli)
    })
}

/// The `critrank` binary: what needs neither MPI nor a GPU.
pub fn tool_main() -> ExitCode {
    obey(Tool::read(std::env::args_os()), |task| offline::run(&task))
}

/// Does what the command line asks for.
fn obey<T>(asked: error::Result<Parsed<T>>, run: impl FnOnce(T) -> error::Exit) -> ExitCode {
    let done = asked.and_then(|parsed| match parsed {
        Parsed::Run(task) => Ok(run(task)),
        Parsed::Show(text) => say::show(&text).map(|()| error::Exit::Success),
    });
    let exit = done.unwrap_or_else(|error| {
        say::error(error.to_string().trim_end());
        error.exit()
    });
    ExitCode::from(exit.code())
}

/// Tracing to stderr: `-v`, `-vv`, or `RUST_LOG`.
fn log(verbose: u8) {
    use tracing_subscriber::EnvFilter;
    let level = ["warn", "info", "debug"][usize::from(verbose.min(2))];
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    // Fails only where a subscriber is set already.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}
