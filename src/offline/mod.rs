//! What `critrank` does with records: no MPI, no GPU.

mod agreement;
mod baseline;
mod matrix;
mod recompute;
mod source;

use std::path::Path;

pub use baseline::Baseline;

use crate::cli::tool::Task;
use crate::error::{Error, Exit, Result};
use crate::report::say;

/// Carries a task out; what it finds goes to stdout.
pub fn run(task: &Task) -> Exit {
    let Task::Recompute { record, all, table } = task;
    let done = read(record).and_then(|bytes| recompute::recompute(&bytes)).and_then(|found| {
        say::show(&if *table { found.table } else { found.account.text(*all) })?;
        Ok(found.account.exit())
    });
    match done {
        Ok(exit) => exit,
        Err(error) => {
            say::error(&error.to_string());
            error.exit()
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| Error::File { action: "read", path: path.to_owned(), source })
}
