//! The command line of `critrank`: subcommands that need neither MPI nor a GPU.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::error::Error;

/// `critrank`.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "critrank",
    version,
    about = "Works on records of the *_perf binaries; needs neither MPI nor a GPU."
)]
pub struct Tool {
    /// What to do.
    #[command(subcommand)]
    pub task: Task,
}

/// A subcommand.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Task {
    /// Compute every printed figure again from the record's raw series and say whether it agrees
    #[command(after_help = "Exit codes: 0 all agree, 7 some differ, 9 cannot tell, 6 no record.")]
    Recompute {
        /// What `--record` wrote
        record: PathBuf,
        /// A line for every figure, not only for those that differ
        #[arg(long, conflicts_with = "table")]
        all: bool,
        /// Print the table as it follows from the raw series, to compare with what was printed
        #[arg(long)]
        table: bool,
    },
}

/// What a command line of `critrank` comes to.
#[derive(Debug)]
pub enum Asked {
    /// Do this.
    Do(Task),
    /// Print this to stdout and end well.
    Show(String),
}

impl Tool {
    /// Reads a command line, the program's name first.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Asked, Error> {
        match Self::try_parse_from(args) {
            Ok(tool) => Ok(Asked::Do(tool.task)),
            Err(error) if !error.use_stderr() => Ok(Asked::Show(error.render().to_string())),
            Err(error) => Err(super::refused(&error)),
        }
    }
}
