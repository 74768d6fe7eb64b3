//! `--explain` of a whole run, over fakes of both libraries (`tests/fake_gpu`): two ranks in one process.
#![cfg(feature = "nccl")]
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use common::fake_gpus;

const ALL_GATHER: &str = env!("CARGO_BIN_EXE_all_gather_perf");
const ALLTOALL: &str = env!("CARGO_BIN_EXE_alltoall_perf");

/// stderr, and the record's events.
fn run(fakes: &TempDir, folder: &Path, program: &str, variables: &[(&str, &str)]) -> (String, Vec<Value>) {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars() {
        if name.starts_with("NCCL_") || name.starts_with("OMPI_") || name.starts_with("PMI") {
            command.env_remove(name);
        }
    }
    command.args(["-b", "1K", "-e", "1K", "-n", "2", "-w", "1", "-c", "0", "--explain"]);
    command.args(["-g", "2", "--record", "record.jsonl"]).current_dir(folder);
    command.env("LD_LIBRARY_PATH", fakes.path()).env("TMPDIR", folder);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let record = std::fs::read_to_string(folder.join("record.jsonl")).unwrap();
    (text, record.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn event<'a>(events: &'a [Value], name: &str) -> &'a Value {
    events.iter().find(|event| event["event"] == name).unwrap()
}

#[test]
fn transport_and_prediction_are_told_and_nothing_is_left_behind() {
    let (fakes, folder) = (fake_gpus(2, &[]), tempfile::tempdir().unwrap());
    let (text, events) = run(&fakes, folder.path(), ALL_GATHER, &[]);
    assert!(text.contains("transport: 0 -> 1 P2P/CUMEM (2 channels)\n"), "{text}");
    assert!(text.contains("predicted 10.5 us, measured "), "{text}");
    let links = event(&events, "transport")["links"].as_array().unwrap();
    let ends: Vec<_> = links.iter().map(|link| (link["rank"].as_u64(), link["peer"].as_u64())).collect();
    assert_eq!(ends, [(Some(0), Some(1)), (Some(1), Some(0))]);
    let predicted = event(&events, "row")["cells"][0]["predicted_us"].as_f64().unwrap();
    assert!((predicted - 10.512).abs() < 1e-3, "{predicted}");
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["record.jsonl"]);
}

/// The fake keeps simulated sends for the next group, as NCCL does: it would then find them without receives.
#[test]
fn sends_and_receives_are_never_simulated() {
    let (fakes, folder) = (fake_gpus(2, &[]), tempfile::tempdir().unwrap());
    let (text, events) = run(&fakes, folder.path(), ALLTOALL, &[]);
    assert!(text.contains("no prediction: NCCL predicts no sends and receives\n"), "{text}");
    let cell = &event(&events, "row")["cells"][0];
    assert_eq!((cell.get("predicted_us"), cell["unpredicted"].is_string()), (None, true));
}

#[test]
fn a_log_that_the_user_wants_is_left_to_him() {
    let fakes = fake_gpus(2, &[]);
    for (variables, words) in [
        (
            &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", "mine.log")][..],
            "transport: 1 -> 0 P2P/CUMEM (2 channels)",
        ),
        (
            &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", "mine.log"), ("NCCL_DEBUG_SUBSYS", "NET")],
            "transport: unknown (NCCL's log mine.log is no file)",
        ),
        (&[("NCCL_DEBUG", "WARN")], "transport: unknown (NCCL_DEBUG=WARN is set, which logs none)"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (text, events) = run(&fakes, folder.path(), ALL_GATHER, variables);
        assert!(text.contains(words), "{text}");
        let env = event(&events, "start")["env"].to_string();
        assert!(env.contains(&format!("[\"NCCL_DEBUG\",\"{}\"]", variables[0].1)), "{env}");
        assert_eq!(env.contains("SUBSYS"), variables.len() == 3, "{env}");
    }
}
