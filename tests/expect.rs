//! `--expect RECORD` in the simulation, where every figure follows from a seed.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::Path;

use assert_cmd::Command;

/// Code, stderr, and the record's events.
fn run(folder: &Path, name: &str, args: &str) -> (Option<i32>, String, Vec<serde_json::Value>) {
    run_binary("all_reduce_perf", folder, name, args)
}

fn run_binary(
    binary: &str,
    folder: &Path,
    name: &str,
    args: &str,
) -> (Option<i32>, String, Vec<serde_json::Value>) {
    let record = folder.join(name);
    let mut command = Command::cargo_bin(binary).unwrap();
    command.args(["--backend", "sim", "-b", "8", "-e", "64K", "-f", "8", "-z", "3", "-I", "1"]);
    let output = command.args(args.split_whitespace()).arg("--record").arg(&record).output().unwrap();
    let text = std::fs::read_to_string(&record).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status.code(), String::from_utf8(output.stderr).unwrap(), events)
}

fn expected(events: &[serde_json::Value]) -> &Vec<serde_json::Value> {
    events.iter().find(|event| event["event"] == "expected").unwrap()["rows"].as_array().unwrap()
}

fn recomputes(record: &Path) {
    let output = Command::cargo_bin("critrank").unwrap().arg("recompute").arg(record).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("\nexpected: "), "{text}");
}

#[test]
fn a_run_beside_one_that_was_as_fast_or_faster() {
    for (extent, few) in [("-N 7", "-N 3"), ("--epochs 7 -N 2", "--epochs 3 -N 7")] {
        let folder = tempfile::tempdir().unwrap();
        let earlier = folder.path().join("earlier");
        assert_eq!(run(folder.path(), "earlier", extent).0, Some(0));
        let beside = |name: &str, args: &str| {
            run(folder.path(), name, &format!("{args} --localize --expect {}", earlier.display()))
        };
        let (code, said, events) = beside("alike", &format!("{extent} --sim-seed 2"));
        assert_eq!(code, Some(0), "{said}");
        assert!(expected(&events).iter().all(|row| row["verdict"] == "reaches"), "{said}");
        assert!(said.contains("of 10 rows all reach it") && !said.contains("tests in"), "{said}");
        recomputes(&folder.path().join("alike"));

        let (code, said, events) = beside("late", &format!("{extent} --sim-seed 2 --inject late:1:200us"));
        assert_eq!(code, Some(0), "{said}");
        assert!(expected(&events).iter().all(|row| row["verdict"] == "below"), "{said}");
        assert!(said.contains("warning: below the record at 8 float sum out: 0.0"), "{said}");
        assert!(said.contains("of 10 rows 10 are below, 0 reach it, of 0 cannot tell"), "{said}");
        assert!(said.contains("tests in"), "a search: {said}");
        recomputes(&folder.path().join("late"));

        // Too few cycles to tell, however slow: nothing is looked for.
        let (code, said, events) = beside("few", &format!("{few} --inject late:1:200us"));
        assert_eq!(code, Some(0), "{said}");
        assert!(expected(&events).iter().all(|row| row["verdict"] == "cannot_tell"), "{said}");
        assert!(said.contains("of 10 rows cannot tell of any") && !said.contains("tests in"), "{said}");
        assert!(said.contains("fewer than 4 cycles"), "{said}");
    }
}

#[test]
fn rows_of_size_0_are_there_and_say_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let gather = |name: &str, args: &str| run_binary("all_gather_perf", folder.path(), name, args);
    assert_eq!(gather("earlier", "-N 5").0, Some(0));
    let expect = format!("-N 5 --localize --expect {}", folder.path().join("earlier").display());
    let (code, said, events) = gather("beside", &expect);
    assert_eq!(code, Some(0), "{said}");
    assert!(expected(&events).len() < 10, "{said}");
}

#[test]
fn an_injected_run_is_no_baseline() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), "injected", "-N 4 --inject late:1:200us").0, Some(0));
    let expect = format!("-N 4 --localize --expect {}", folder.path().join("injected").display());
    let (code, said, events) = run(folder.path(), "beside", &expect);
    assert_eq!((code, events.len()), (Some(1), 0), "{said}");
    assert!(
        said.contains("a fault was injected into that run (late:1:200us), so it is no measurement"),
        "{said}"
    );
}
