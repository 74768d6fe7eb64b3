//! The command line: nccl-tests' flags under their own names, and ours. Text to values; no machine is asked.

mod arrivals;
pub mod env;
mod epochs;
mod expect;
mod extent;
mod faults;
mod flags;
mod settle;
mod split;
pub mod tool;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};

pub use expect::Expect;
pub use extent::{Extent, Order};
pub use flags::All;
pub use split::Split;

use crate::error::Error;
use crate::vocab::{Dtype, Inject, Kind, RedOp};
use flags::{blocking, expand_prefix, factor, hex_or_decimal, signed, size};

/// What `p2p_matrix_perf --help` says of itself.
const OF_MATRIX: &str = "Measures all pairs of ranks in one launch: latency, message rate and bandwidth, and what is due to \
                         sender, receiver and link.";

/// Everything that can be asked of a `*_perf` binary.
#[derive(Clone, Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(
    version,
    about = "Measures one collective over all ranks; nccl-tests' flags, table and JSON.",
    args_override_self = true,
    allow_negative_numbers = true,
    disable_help_subcommand = true,
    disable_version_flag = true,
    next_help_heading = "As in nccl-tests",
    after_help = "Sizes take K, M, G, T (1024 based). Environment: NCCL_TESTS_DEVICE, NCCL_TESTS_MIN_BW, \
                  NCCL_TESTS_ALLTOALLV_SPREAD, _MATRIX_FILE, _MATRIX_SCALE, _PRINT_SUMMARY; NCCL_TESTS_SPLIT \
                  ('MOD 2', 'DIV 8', 'AND 0x7', 'OR 1', of the process's number) or NCCL_TESTS_SPLIT_MASK (hexadecimal) \
                  for groups that measure side by side; CRITRANK_WATCH_ADDRESS, where rank 0's watchdog listens.\n\
                  Exit codes: 0 good, 1 usage, 2 CUDA, 3 NCCL or MPI, 4 timeout, 5 ranks and GPUs do not fit or \
                  not supported, 6 set-up, 7 wrong data or below NCCL_TESTS_MIN_BW, 8 a rank or the job died."
)]
pub struct Cli {
    /// Threads per process
    #[arg(short = 't', long = "nthreads", value_name = "N", default_value = "1", value_parser = hex_or_decimal)]
    pub threads: u64,
    /// GPUs per thread
    #[arg(short = 'g', long = "ngpus", value_name = "N", default_value = "1", value_parser = hex_or_decimal)]
    pub gpus: u64,
    /// Smallest size
    #[arg(short = 'b', long = "minbytes", value_name = "SIZE", default_value = "32M", value_parser = size)]
    pub min_bytes: u64,
    /// Largest size
    #[arg(short = 'e', long = "maxbytes", value_name = "SIZE", default_value = "32M", value_parser = size)]
    pub max_bytes: u64,
    /// Step between sizes, where there is no factor
    #[arg(short = 'i', long = "stepbytes", value_name = "SIZE", default_value = "1M", value_parser = size)]
    pub step_bytes: u64,
    /// Factor between sizes; above 1 it takes the place of the step, and may be a fraction such as 1.2
    #[arg(short = 'f', long = "stepfactor", value_name = "F", default_value = "1", value_parser = factor)]
    pub step_factor: f64,
    /// Timed iterations of each size and placement
    #[arg(short = 'n', long = "iters", value_name = "N", default_value = "20", value_parser = hex_or_decimal)]
    pub iterations: u64,
    /// Operations aggregated into one iteration (one group)
    #[arg(short = 'm', long = "agg_iters", value_name = "N", default_value = "1", value_parser = hex_or_decimal)]
    pub aggregated: u64,
    /// Warm-up operations of each size, out of place, before the first is measured
    #[arg(short = 'w', long = "warmup_iters", value_name = "N", default_value = "1", value_parser = hex_or_decimal)]
    pub warmup: u64,
    /// Passes over all sizes; 0 goes on until stopped
    #[arg(short = 'N', long = "run_cycles", value_name = "N", default_value = "1", value_parser = hex_or_decimal)]
    pub cycles: u64,
    /// Initialise communicators in parallel threads <0/1>
    #[arg(short = 'p', long = "parallel_init", value_name = "0/1", default_value = "0", value_parser = hex_or_decimal)]
    pub parallel_init: u64,
    /// Checks of each size and placement; 0 checks nothing
    #[arg(short = 'c', long = "check", value_name = "N", default_value = "1", value_parser = hex_or_decimal)]
    pub checks: u64,
    /// Reduction: sum, prod, min, max, avg, mulsum or all
    #[arg(short = 'o', long = "op", value_name = "OP", default_value = "sum")]
    pub op: All<RedOp>,
    /// Element type, such as float or bfloat16, or all
    #[arg(short = 'd', long = "datatype", value_name = "TYPE", default_value = "float")]
    pub dtype: All<Dtype>,
    /// Root; -1 or all takes every rank in turn
    #[arg(short = 'r', long = "root", value_name = "RANK", default_value = "0", value_parser = signed, allow_hyphen_values = true)]
    pub root: i64,
    /// Wait and barrier: 0 none, 1 after each operation, 2 wait only, 3 after each iteration and outside the time;
    /// G: gates hold all GPUs until one time
    #[arg(short = 'z', long = "blocking", value_name = "0..3|G", default_value = "0", value_parser = blocking)]
    pub blocking: u64,
    /// Use the null stream <0/1>
    #[arg(short = 'y', long = "stream_null", value_name = "0/1", default_value = "0", value_parser = hex_or_decimal)]
    pub stream_null: u64,
    /// Seconds that anything but the set-up may take; 0 keeps the deadlines of docs/METHODOLOGY.md
    #[arg(short = 'T', long = "timeout", value_name = "SECONDS", default_value = "0", value_parser = hex_or_decimal)]
    pub timeout: u64,
    /// CUDA graph launches; 0 captures nothing
    #[arg(short = 'G', long = "cudagraph", value_name = "N", default_value = "0", value_parser = hex_or_decimal)]
    pub graph: u64,
    /// Show the host's time to enqueue instead of the time to completion <0/1>
    #[arg(short = 'C', long = "report_cputime", value_name = "0/1", default_value = "0", value_parser = hex_or_decimal)]
    pub cputime: u64,
    /// Show a time stamp for each row <0/1>
    #[arg(short = 'S', long = "report_timestamps", value_name = "0/1", default_value = "0", value_parser = hex_or_decimal)]
    pub timestamps: u64,
    /// Write nccl-tests' JSON to FILE, complete after every row
    #[arg(short = 'J', long = "output_file", value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// What the table shows of all ranks' times: 0 rank 0, 1 mean, 2 min, 3 max
    #[arg(short = 'a', long = "average", value_name = "0..3", default_value = "1", value_parser = hex_or_decimal)]
    pub average: u64,
    /// Register buffers: 1 locally, 2 as symmetric windows
    #[arg(short = 'R', long = "local_register", value_name = "0..2", default_value = "0", value_parser = hex_or_decimal)]
    pub register: u64,
    /// CTA policy: 0 default, 1 efficiency, 2 zero
    #[arg(short = 'x', long = "cta_policy", value_name = "0..2", value_parser = signed, allow_hyphen_values = true)]
    pub cta_policy: Option<i64>,
    /// Device API implementation; 0 is NCCL's own
    #[arg(short = 'D', long = "device_implementation", value_name = "N", default_value = "0", value_parser = hex_or_decimal)]
    pub device_implementation: u64,
    /// CTAs of a device API implementation
    #[arg(short = 'V', long = "device_cta_count", value_name = "N", default_value = "16", value_parser = hex_or_decimal)]
    pub device_ctas: u64,
    /// Report memory use <0/1>
    #[arg(short = 'M', long = "memory", value_name = "0/1", default_value = "0", value_parser = hex_or_decimal)]
    pub memory: u64,
    /// Misalign both buffers by N elements
    #[arg(short = 'u', long = "unalign", value_name = "N", default_value = "0", value_parser = hex_or_decimal)]
    pub unalign: u64,
    /// Time each iteration by events <0/1>
    #[arg(short = 'I', long = "per_iter_timing", value_name = "0/1", default_value = "0", value_parser = hex_or_decimal)]
    pub per_iteration: u64,
    /// Leading iterations that the statistics of -I leave out
    #[arg(short = 'K', long = "per_iter_skip", value_name = "N", default_value = "0", value_parser = signed, allow_hyphen_values = true)]
    pub skip: i64,

    /// What is measured: nccl (GPUs), mpi (the MPI library, host memory), sim (no hardware; never a measurement)
    #[arg(long, value_name = "BACKEND", default_value = "nccl", help_heading = "Of our own")]
    pub backend: Kind,
    /// Write everything measured, one event a line, to FILE (docs/FORMAT.md)
    #[arg(long, value_name = "FILE", help_heading = "Of our own")]
    pub record: Option<PathBuf>,
    /// Seconds that libraries, agreement and communicator may take
    #[arg(long = "timeout-init", value_name = "SECONDS", default_value = "600", value_parser = hex_or_decimal, help_heading = "Of our own")]
    pub timeout_init: u64,
    /// How alltoall, gather and scatter run with NCCL: as its own call from 2.28 on where it has one (auto), always
    /// so, or never, but as sends and receives
    #[arg(
        long,
        value_name = "auto|always|never",
        default_value = "auto",
        value_enum,
        hide_possible_values = true,
        help_heading = "Of our own"
    )]
    pub native: Native,
    /// Say to stderr and in the record which algorithm, protocol and channels NCCL uses at each size (one more call
    /// of each row, untimed), what NCCL predicts, and over what each rank reaches its peers
    #[arg(long, help_heading = "Of our own")]
    pub explain: bool,
    /// Fail where memory is too short for -e, instead of measuring up to what fits
    #[arg(long = "strict-size", help_heading = "Of our own")]
    pub strict_size: bool,
    /// Show what each step from process start to the tenth call costs, before the sweep
    #[arg(long = "cold-start", help_heading = "Of our own")]
    pub cold_start: bool,
    /// With -I 1: measure what -I itself costs, in the same launch, at three sizes
    #[arg(long, help_heading = "Of our own")]
    pub overhead: bool,
    /// With -I 1 and -z 1 or -z 3: say which lateness of a rank and which slow-down of a link would have been found here, and
    /// how often a healthy one is named
    #[arg(long = "self-test", help_heading = "Of our own")]
    pub self_test: bool,
    /// All pairs instead of a sweep: this is `p2p_matrix_perf`
    #[arg(skip)]
    pub matrix: bool,
    /// Write the matrix of all pairs to FILE too, a line for each pair, over a file that is there
    #[arg(long, value_name = "FILE", help_heading = "Of our own")]
    pub csv: Option<PathBuf>,
    /// After the sweep, look for the rank, link or node that is slow or late: tests of groups and pairs, a minute at
    /// most
    #[arg(long, help_heading = "Of our own")]
    pub localize: bool,
    /// Do --localize only where the highest busbw of the sweep is below GBPS, or where some row is surely below that of an
    /// earlier run's --record
    #[arg(long, value_name = "GBPS|RECORD", requires = "localize", help_heading = "Of our own")]
    pub expect: Option<Expect>,
    /// Ranks of --backend sim
    #[arg(long = "sim-ranks", value_name = "N", default_value = "4", value_parser = hex_or_decimal, help_heading = "Of our own")]
    pub sim_ranks: u64,
    /// Ranks of a node with --backend sim; 0: all are of one
    #[arg(long = "sim-per-node", value_name = "N", default_value = "0", value_parser = hex_or_decimal, help_heading = "Of our own")]
    pub sim_per_node: u64,
    /// Seed of --backend sim
    #[arg(long = "sim-seed", value_name = "N", default_value = "1", value_parser = hex_or_decimal, help_heading = "Of our own")]
    pub sim_seed: u64,
    /// Put a fault in, to see it found: late:RANK:200us (before every call; with -z 1 or -z 3), slow-link:FROM-TO:50% and
    /// slow-node:HOST|RANK:50% (by competing TCP traffic between hosts; not with --backend nccl), hang:RANK:init|epochN|ITERATION,
    /// stop:RANK:init|epochN|ITERATION (as by SIGSTOP), corrupt:RANK:flipped (a bit of the result before it is checked), and with
    /// --backend sim corrupt:RANK:lost|doubled|shifted|swapped|stale|unwritten
    #[arg(long, value_name = "FAULT", help_heading = "Of our own")]
    pub inject: Vec<Inject>,
    /// How long, and in which order
    #[command(flatten)]
    pub extent: Extent,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version, help_heading = "Of our own")]
    pub version: Option<bool>,
    /// More of what happens, to stderr; twice for debugging
    #[arg(short = 'v', long, action = clap::ArgAction::Count, help_heading = "Of our own")]
    pub verbose: u8,
}

/// `--native`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Native {
    /// The library's own call where it has one, as in nccl-tests.
    #[default]
    Auto,
    /// The library's own call, or nothing.
    Always,
    /// Sends and receives.
    Never,
}

/// What a command line comes to.
#[derive(Debug)]
pub enum Parsed<T> {
    /// Run.
    Run(T),
    /// Print this to stdout and end well (`-h`, `--version`).
    Show(String),
}

impl<T> Parsed<T> {
    /// What clap answers in place of a command: help, or what it refuses, without its own "error: ", since whoever prints it
    /// has one.
    fn answer(error: &clap::Error) -> Result<Self, Error> {
        let text = error.render().to_string();
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Err(Error::Usage(format!("no command is given\n\n{text}")));
        }
        if error.use_stderr() {
            return Err(Error::Usage(text.strip_prefix("error: ").unwrap_or(&text).to_owned()));
        }
        Ok(Self::Show(text))
    }
}

impl Cli {
    /// Reads the command line of a collective's binary, the program's name first.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Parsed<Box<Self>>, Error> {
        Self::read_for(args, false)
    }

    /// As [`Self::read`], or that of `p2p_matrix_perf`.
    pub fn read_for(
        args: impl IntoIterator<Item = OsString>,
        matrix: bool,
    ) -> Result<Parsed<Box<Self>>, Error> {
        let names = Self::long_names();
        let args = args.into_iter().map(|arg| expand_prefix(arg, &names));
        let command = if matrix { Self::command().about(OF_MATRIX) } else { Self::command() };
        let read = command.try_get_matches_from(args);
        let mut cli = match read.and_then(|matches| Self::from_arg_matches(&matches)) {
            Ok(cli) => cli,
            Err(error) => return Parsed::answer(&error),
        };
        cli.matrix = matrix;
        cli.validate()?;
        Ok(Parsed::Run(Box::new(cli)))
    }

    /// nccl-tests' long names, each of which may be cut to an unambiguous beginning.
    fn long_names() -> Vec<String> {
        let command = Self::command();
        let theirs = command.get_arguments().filter(|arg| arg.get_help_heading() != Some("Of our own"));
        theirs.filter_map(|arg| arg.get_long().map(str::to_owned)).chain(["help".to_owned()]).collect()
    }

    fn validate(&self) -> Result<(), Error> {
        let usage = |text: String| Err(Error::Usage(text));
        if self.min_bytes == 0 {
            return usage("-b 0 has no size to measure; start with -b 1 or more".to_owned());
        }
        if self.min_bytes > self.max_bytes {
            let (min, max) = (self.min_bytes, self.max_bytes);
            return usage(format!("invalid sizes for 'minbytes' and 'maxbytes': {min} > {max}"));
        }
        if self.step_factor <= 1.0 && self.step_bytes == 0 && self.min_bytes < self.max_bytes {
            return usage("-i 0 never reaches -e; give a step or -f 2".to_owned());
        }
        for (flag, value, least) in [
            ("-n", self.iterations, 1),
            ("-m", self.aggregated, 1),
            ("-t", self.threads, 1),
            ("-g", self.gpus, 1),
            ("--sim-ranks", self.sim_ranks, 1),
            ("--epochs", self.extent.epochs, 1),
        ] {
            if value < least {
                return usage(format!("{flag} must be {least} or more"));
            }
        }
        for (flag, value, most) in [
            ("-a", self.average, 3),
            ("-p", self.parallel_init, 1),
            ("-t", self.threads, 256),
            ("-g", self.gpus, 4096),
            ("-n", self.iterations, 100_000_000),
            ("-m", self.aggregated, 1_000_000),
            ("-w", self.warmup, 100_000_000),
            ("-c", self.checks, 1_000_000_000),
            ("-u", self.unalign, 1 << 30),
            ("-G", self.graph, 1_000_000_000),
            ("-R", self.register, 2),
            ("-x", self.cta_policy.unwrap_or(0).max(0).unsigned_abs(), 2),
            ("-y", self.stream_null, 1),
            ("-M", self.memory, 1),
            ("--sim-ranks", self.sim_ranks, 4096),
            ("--epochs", self.extent.epochs, 100_000),
        ] {
            if value > most {
                return usage(format!("{flag} must be {most} or less"));
            }
        }
        if self.graph > 0 && matches!(self.blocking, 1 | 2) {
            return usage(format!("-z {} waits inside what -G captures; use -z 0 with -G", self.blocking));
        }
        if self.graph > 0 && self.stream_null != 0 {
            return usage("-G cannot capture the null stream; leave -y out".to_owned());
        }
        if self.graph > 0 && self.backend == Kind::Mpi {
            return usage("-G needs GPUs: --backend nccl".to_owned());
        }
        if self.root < -1 {
            return usage(format!("-r {} is no rank; -1 takes every rank in turn", self.root));
        }
        self.validate_files()?;
        self.validate_faults()?;
        self.validate_epochs()?;
        self.validate_arrivals()
    }

    /// No two outputs are one file.
    fn validate_files(&self) -> Result<(), Error> {
        let files = [("-J", &self.json), ("--record", &self.record), ("--csv", &self.csv)];
        let named: Vec<_> = files
            .iter()
            .filter_map(|(flag, file)| Some((flag, std::path::absolute(file.as_ref()?).ok()?)))
            .collect();
        for (at, (flag, file)) in named.iter().enumerate() {
            if let Some((other, _)) = named[..at].iter().find(|(_, other)| other == file) {
                let file = file.display();
                return Err(Error::Usage(format!(
                    "{other} and {flag} both name {file}: give each its own file"
                )));
            }
        }
        Ok(())
    }

    /// Flags whose values wait for a later version: what to say of the first, if any is not neutral.
    pub fn not_supported_yet(&self) -> Option<String> {
        (self.device_implementation != 0).then(|| {
            "-D (device API) is not supported yet: docs/DEVICE_API.md says what stands in the way".to_owned()
        })
    }
}

#[cfg(test)]
mod tests;
