//! Launch scripts on a virtual cluster of four nodes: Open MPI over TCP, and a real Slurm.
//! Run by `ci/test.sh cluster`, which brings the cluster up; needs root.
#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Mpi, Run, binary, finish, record, wait};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn cluster(verb: &str) -> Command {
    let mut command = Command::new(root().join("ci/cluster.sh"));
    command.arg(verb).current_dir(root());
    command
}

fn four_hosts(run: &Run) {
    for node in 0..4 {
        let device = format!(" on      node{node} device ");
        assert_eq!(run.stdout.matches(&device).count(), 1, "node{node}: {}{}", run.stdout, run.stderr);
    }
}

/// The newest results folder below `results` that ends in `-all_reduce_perf`.
fn newest(results: &Path) -> PathBuf {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(results).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.pop().unwrap()
}

const ARGS: [&str; 10] = ["--backend", "mpi", "-b", "8", "-e", "64K", "-f", "8", "-n", "5"];

#[test]
fn mpirun_script_measures_over_four_nodes() {
    let results = tempfile::tempdir().unwrap();
    let script = format!(
        "CRITRANK_RESULTS={} {}/launch/mpirun.sh -n 4 -N 1 --hostfile \"$CRITRANK_HOSTFILE\" {} {}",
        results.path().display(),
        root().display(),
        binary("all_reduce"),
        ARGS.join(" ")
    );
    let run = finish(cluster("exec").arg("node0").arg(script), Duration::from_mins(2));
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    four_hosts(&run);
    let last = record(&newest(results.path()).join("record.jsonl")).pop().unwrap();
    assert_eq!(last["event"], "finish");
}

#[test]
fn clocks_of_four_hosts_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.jsonl");
    let mut command = cluster("mpirun");
    let spread = if matches!(Mpi::under_test(), Mpi::Mpich) { ["-ppn", "1"] } else { ["--map-by", "node"] };
    command.args(["-np", "4"]).args(spread).args([&binary("all_reduce"), "--record", file.to_str().unwrap()]);
    let run = finish(command.args(ARGS).args(["-z", "3", "-I", "1"]), Duration::from_mins(2));
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let events = record(&file);
    let clocks: Vec<_> = events.iter().filter(|event| event["event"] == "clocks").collect();
    assert_eq!(clocks.len(), 2, "at the start and at the end");
    for clock in clocks.iter().flat_map(|event| event["others"].as_array().unwrap()) {
        let figure = |name: &str| clock[name].as_f64().unwrap();
        // The nodes share one kernel: the true offset is 0.
        assert!(figure("offset_us").abs() <= figure("error_us") + 0.1, "{clock}");
        assert!(figure("round_trip_us") > 0.0, "{clock}");
    }
    assert_eq!(clocks[1]["others"].as_array().unwrap().len(), 3);
    let row = events.iter().find(|event| event["event"] == "row").unwrap();
    assert!(row["cells"][0]["ranks"][3]["series"]["arrival_us"].as_array().unwrap().len() == 5, "{row}");
}

#[test]
fn a_slow_link_or_node_is_loaded_and_what_arrived_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.jsonl");
    let spread = if matches!(Mpi::under_test(), Mpi::Mpich) { ["-ppn", "1"] } else { ["--map-by", "node"] };
    let of_node: Vec<[u64; 2]> = vec![[0, 2], [1, 2], [2, 0], [2, 1], [2, 3], [3, 2]];
    for (fault, ways) in [("slow-link:3-1:50%", vec![[3, 1]]), ("slow-node:node2:10%", of_node)] {
        let mut command = cluster("mpirun");
        command.args(["-np", "4"]).args(spread).args([
            &binary("all_reduce"),
            "--record",
            file.to_str().unwrap(),
        ]);
        let run = finish(command.args(ARGS).args(["--inject", fault]), Duration::from_mins(2));
        assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains(&format!("a fault is injected, {fault}")), "{}", run.stdout);
        assert!(run.stderr.contains("injected traffic, rank "), "{}", run.stderr);
        let events = record(&file);
        let flows = events.iter().find(|event| event["event"] == "traffic").unwrap()["flows"].clone();
        let flows = flows.as_array().unwrap();
        let rank = |flow: &serde_json::Value, end: &str| flow[end].as_u64().unwrap();
        let found: Vec<_> = flows.iter().map(|flow| [rank(flow, "from"), rank(flow, "to")]).collect();
        assert_eq!(found, ways, "{fault}");
        for flow in flows {
            let figure = |name: &str| flow[name].as_f64().unwrap();
            assert!(figure("target_gbps") < 0.51 * figure("alone_gbps"), "{flow}");
            // The cores are shared: it may be less than meant, never much more.
            assert!(figure("received_gbps") > 0.0, "{flow}");
            assert!(figure("received_gbps") < 1.2 * figure("target_gbps") + 0.01, "{flow}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn srun_script_and_batch_job_measure_over_four_nodes() {
    let results = tempfile::tempdir().unwrap();
    let env = format!("CRITRANK_RESULTS={}", results.path().display());
    let srun = format!(
        "{env} {}/launch/srun.sh -N 4 -n 4 -- {} {}",
        root().display(),
        binary("all_reduce"),
        ARGS.join(" ")
    );
    let run = finish(cluster("exec").arg("node0").arg(srun), Duration::from_mins(2));
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    four_hosts(&run);

    let mut batch = cluster("sbatch");
    batch.args([
        "--wait",
        "-N",
        "4",
        "-n",
        "4",
        "--ntasks-per-node=1",
        "--gpus-per-node=0",
        "--exclusive=user",
        "--time=5",
    ]);
    batch.arg(format!("--output={}/batch.out", results.path().display()));
    batch.arg(root().join("launch/critrank.sbatch")).arg(binary("all_reduce")).args(ARGS);
    let run = finish(batch.env("CRITRANK_RESULTS", results.path()), Duration::from_mins(3));
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let text = std::fs::read_to_string(results.path().join("batch.out")).unwrap();
    four_hosts(&Run { stdout: text, ..run });
}

#[test]
fn a_cancelled_step_leaves_a_readable_record() {
    let results = tempfile::tempdir().unwrap();
    let script = format!(
        "CRITRANK_RESULTS={} {}/launch/srun.sh -N 4 -n 4 -J cancelled -- {} --backend mpi -N 0 -n 5 -b 1K -e 64K -f 8",
        results.path().display(),
        root().display(),
        binary("all_reduce"),
    );
    let start = Instant::now();
    let mut command = cluster("exec");
    let child =
        command.arg("node0").arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let rows = || {
        let folder = std::fs::read_dir(results.path()).ok()?.next()?.ok()?.path();
        std::fs::read_to_string(folder.join("record.jsonl")).ok().map(|text| text.matches("\"row\"").count())
    };
    while rows().unwrap_or(0) < 3 {
        assert!(start.elapsed() < Duration::from_mins(1), "no rows after 60 s");
        std::thread::sleep(Duration::from_millis(100));
    }
    let cancel = finish(cluster("exec").args(["node0", "scancel --name=cancelled"]), Duration::from_secs(20));
    assert_eq!(cancel.code, Some(0), "{}", cancel.stderr);
    let run = wait(child, start, Duration::from_mins(2));
    assert_ne!(run.code, Some(0), "{}", run.stdout);
    let folder = newest(results.path());
    let last = record(&folder.join("record.jsonl")).pop().unwrap();
    assert_eq!((last["event"].as_str(), last["exit_code"].as_u64()), (Some("failed"), Some(8)), "{last}");
    let json = std::fs::read(folder.join("result.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert!(json["results"].as_array().unwrap().len() >= 3);
}
