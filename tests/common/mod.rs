//! Launches the real binaries: alone, or over the MPI that `CRITRANK_MPI` names.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::needless_pass_by_value,
    clippy::single_match_else,
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    missing_docs
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The folder of the binaries under test.
pub fn binaries() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_all_reduce_perf")).parent().unwrap().to_owned()
}

pub fn binary(name: &str) -> String {
    binaries().join(format!("{name}_perf")).display().to_string()
}

/// A folder with fakes of libcuda (so many GPUs) and libnccl (built with `nccl`, see its source), for `LD_LIBRARY_PATH`.
pub fn fake_gpus(devices: u32, nccl: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_gpu");
    let build = |library: &str, file: &str, defines: &[&str]| {
        let mut gcc = Command::new("gcc");
        gcc.current_dir(&source).args(["-shared", "-fPIC", "-O1", "-o"]).arg(folder.path().join(library));
        assert!(gcc.args(defines).arg(file).status().unwrap().success());
    };
    build("libcuda.so.1", "cuda.c", &["-D", &format!("DEVICES={devices}"), "-DTOTAL=17179869184ull"]);
    build("libnccl.so.2", "nccl.c", nccl);
    folder
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    Open,
    Mpich,
}

impl Mpi {
    /// The one that the binaries are built with, as the stage of `ci/test.sh` says.
    pub fn under_test() -> Self {
        match std::env::var("CRITRANK_MPI").as_deref() {
            Ok("openmpi") => Self::Open,
            Ok("mpich") => Self::Mpich,
            other => panic!("CRITRANK_MPI must be openmpi or mpich, not {other:?}; run ci/test.sh"),
        }
    }

    /// How its library names itself in the first line of the table.
    pub fn library(self) -> &'static str {
        match self {
            Self::Open => "library=Open MPI ",
            Self::Mpich => "library=MPICH ",
        }
    }

    /// `mpirun` for `ranks` ranks.
    pub fn launcher(self, ranks: u32) -> Command {
        let mut command = match self {
            Self::Open => {
                let mut command = Command::new("mpirun.openmpi");
                command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
                command.env("OMPI_MCA_mpi_yield_when_idle", "1");
                command
            }
            Self::Mpich => Command::new("mpirun.mpich"),
        };
        command.arg("-np").arg(ranks.to_string());
        command
    }
}

/// What a run left behind.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Run {
    pub fn of(output: &Output, took: Duration) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            took,
        }
    }

    /// Lines of the table that are rows, split into fields.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let is_row = |line: &&str| {
            line.starts_with(' ') && line.trim_start().starts_with(|c: char| c.is_ascii_digit())
        };
        let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        self.stdout.lines().filter(is_row).map(fields).collect()
    }
}

/// Runs to the end, or kills it after `limit` and fails the test.
pub fn finish(command: &mut Command, limit: Duration) -> Run {
    let start = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait(child, start, limit)
}

/// Waits for `child`, whose output is piped.
pub fn wait(child: Child, start: Instant, limit: Duration) -> Run {
    let pid = child.id();
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    if let Ok(output) = finished.recv_timeout(limit.saturating_sub(start.elapsed())) {
        return Run::of(&output.unwrap(), start.elapsed());
    }
    let _ = Command::new("pkill").args(["-KILL", "-P", &pid.to_string()]).status();
    let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    panic!("not finished after {limit:?}")
}

/// The events of a record; every line but a cut last one is JSON.
pub fn record(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let parse = |(at, line): (usize, &&str)| match serde_json::from_str(line) {
        Ok(event) => Some(event),
        Err(error) => {
            assert_eq!(at + 1, lines.len(), "{error}: {line}");
            None
        }
    };
    lines.iter().enumerate().filter_map(parse).collect()
}

/// Process ids by rank, once the record has its first event.
pub fn pids(path: &Path) -> Vec<u32> {
    let start = Instant::now();
    loop {
        if let Ok(text) = std::fs::read_to_string(path)
            && let Some(Ok(event)) = text.lines().next().map(serde_json::from_str::<serde_json::Value>)
        {
            let sites = event["sites"].as_array().unwrap();
            return sites.iter().map(|site| site["pid"].as_u64().unwrap() as u32).collect();
        }
        assert!(start.elapsed() < Duration::from_secs(30), "no record after 30 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}
