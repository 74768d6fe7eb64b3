//! The command line of `critrank`: subcommands that need neither MPI nor a GPU.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::Parsed;
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

impl Tool {
    /// Reads a command line, the program's name first.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Parsed<Task>, Error> {
        match Self::try_parse_from(args) {
            Ok(tool) => Ok(Parsed::Run(tool.task)),
            Err(error) => Parsed::answer(&error),
        }
    }
}
