//! What the user or the machine can cause, one variant each, and the exit code that follows.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// The process's exit codes; 2, 3, 4, 5 and 7 are nccl-tests' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Everything measured, every checked value right.
    Success = 0,
    /// The command line makes no sense.
    Usage = 1,
    /// CUDA refused or failed.
    Cuda = 2,
    /// NCCL or MPI refused or failed.
    Library = 3,
    /// A deadline passed.
    Timeout = 4,
    /// Ranks and GPUs do not fit, or the request is not supported here.
    Unsupported = 5,
    /// A library, a file, or ranks that disagree.
    Setup = 6,
    /// Wrong data, or below `NCCL_TESTS_MIN_BW`.
    Wrong = 7,
    /// A rank or the job died.
    Died = 8,
    /// Not enough evidence for a verdict.
    Inconclusive = 9,
    /// Below a limit, or a regression.
    BelowLimit = 10,
}

impl Exit {
    /// The number that the process returns.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The exit with this number, as another rank sent it.
    pub fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Success,
            1 => Self::Usage,
            2 => Self::Cuda,
            3 => Self::Library,
            4 => Self::Timeout,
            5 => Self::Unsupported,
            6 => Self::Setup,
            7 => Self::Wrong,
            9 => Self::Inconclusive,
            10 => Self::BelowLimit,
            _ => Self::Died,
        }
    }
}

/// Shorthand of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that ends a run or a row. The text says what happened and what to do next; where (host, rank, GPU)
/// is added by the rank that reports it.
#[derive(Debug, Error)]
pub enum Error {
    /// A command line that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A CUDA driver call failed.
    #[error("CUDA failure in {call}: {text}{hint}")]
    Cuda {
        /// The driver function.
        call: &'static str,
        /// CUDA's name and words for the error.
        text: String,
        /// What to do next, with a leading "; ", or empty.
        hint: String,
    },
    /// An NCCL call failed, or NCCL reported an asynchronous error.
    #[error("NCCL failure in {call}: {text}{hint}")]
    Nccl {
        /// The NCCL function.
        call: &'static str,
        /// NCCL's words for the result and its last error.
        text: String,
        /// What to do next, with a leading "; ", or empty.
        hint: String,
    },
    /// An MPI call failed.
    #[error("MPI failure in {call}: {text}")]
    Mpi {
        /// The MPI function.
        call: &'static str,
        /// The MPI library's words for the error.
        text: String,
    },
    /// The stream did not finish in time.
    #[error("not finished after {} s", deadline.as_secs_f64())]
    Timeout {
        /// The deadline that passed.
        deadline: Duration,
    },
    /// More ranks than GPUs, in nccl-tests' words.
    #[error(
        "Invalid number of GPUs: {requested} requested but only {found} were found.\n\
         Please check the number of processes and GPUs per process."
    )]
    TooFewGpus {
        /// GPUs that this process's ranks would need to be there.
        requested: u32,
        /// GPUs that CUDA shows.
        found: u32,
    },
    /// The request is clear and cannot be met here.
    #[error("{0}")]
    Unsupported(String),
    /// The environment is not as it must be: libraries, launcher, agreement between ranks.
    #[error("{0}")]
    Setup(String),
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// "write", "read", …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A defect of this program.
    #[error("thread {thread} of this process panicked, as said above; please report it")]
    Panicked {
        /// Thread of the process, from 0.
        thread: u32,
    },
    /// Some rank failed; it has been reported, and every rank now leaves with the same code.
    #[error("ended by another rank's failure")]
    Agreed(Exit),
}

impl Error {
    /// The exit code that this error leads to.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Cuda { .. } => Exit::Cuda,
            Self::Nccl { .. } | Self::Mpi { .. } => Exit::Library,
            Self::Timeout { .. } => Exit::Timeout,
            Self::TooFewGpus { .. } | Self::Unsupported(_) => Exit::Unsupported,
            Self::Setup(_) | Self::File { .. } => Exit::Setup,
            Self::Panicked { .. } => Exit::Died,
            Self::Agreed(exit) => *exit,
        }
    }
}

/// Ends the process at once, without exit handlers: a library's may hang as the library does. The only way out but
/// returning from `main`, for a watchdog whose process is stuck.
pub fn leave(exit: Exit) {
    signal_hook::low_level::exit(i32::from(exit.code()));
}
