//! `critrank recompute`: what a record's raw series say again, and what somebody changed in it.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// Measures in the simulation; the record's path and what the run printed.
fn measured(folder: &TempDir, program: &str, args: &str) -> (PathBuf, String) {
    let record = folder.path().join("record.jsonl");
    let output = Command::cargo_bin(program)
        .unwrap()
        .args(["--backend", "sim"])
        .args(args.split_whitespace())
        .arg("--record")
        .arg(&record)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    (record, String::from_utf8(output.stdout).unwrap())
}

/// Exit code and stdout.
fn recompute(record: &Path, more: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::cargo_bin("critrank").unwrap();
    let output = command.arg("recompute").arg(record).args(more).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

const RUNS: [(&str, &str); 19] = [
    ("all_reduce_perf", "-b 8 -e 1M -f 8"),
    ("all_reduce_perf", "-b 8 -e 64K -f 8 -N 7 -I 1 --order permuted --seed 5"),
    ("all_reduce_perf", "-b 8 -e 64K -f 8 -N 6 -I 1 -K 2 -z 3 --order mirrored"),
    ("all_reduce_perf", "-b 8 -e 64K -f 8 --precision 1%"),
    ("all_reduce_perf", "-b 8 -e 4K -f 8 --precision 1% -I 1 -N 2"),
    ("all_reduce_perf", "-b 8 -e 64 -f 8 --budget 30ms -C 1 -a 3"),
    ("all_reduce_perf", "-b 8 -e 64 -f 8 -c 0 -a 0 -S 1"),
    ("all_reduce_perf", "-b 8 -e 64K -f 8 --epochs 6 -N 2 -I 1 --order permuted"),
    ("all_gather_perf", "-b 1K -e 64K -f 8 --epochs 4 --order mirrored"),
    ("reduce_perf", "-b 8 -e 64 -f 8 --epochs 2 --precision 2% --budget 50ms -d all"),
    ("reduce_scatter_perf", "-b 1000 -e 10K -f 2 -d all -o all -N 2"),
    ("alltoall_perf", "-b 4 -e 1K -f 4 -a 2"),
    ("alltoallv_perf", "-b 1K -e 16K -f 4"),
    ("broadcast_perf", "-b 1K -e 4K -f 4 -r -1"),
    ("sendrecv_perf", "-b 8 -e 64 -f 8 --sim-ranks 1"),
    ("all_reduce_perf", "-b 8 -e 512 -f 8 -n 20 -z 3 -I 1 --overhead --self-test"),
    ("all_reduce_perf", "-b 8 -e 64 -f 8 --sim-ranks 8 --localize"),
    ("all_reduce_perf", "-b 8 -e 64 -f 8 --sim-ranks 8 --epochs 2 --localize --inject slow-link:1-6:40%"),
    ("all_reduce_perf", "-b 8 -e 512 -f 8 -z 3 -I 1 --sim-ranks 8 --localize --inject late:5:200us"),
];

#[test]
fn every_figure_follows_from_the_raw_series() {
    for (program, args) in RUNS {
        let folder = tempfile::tempdir().unwrap();
        let (record, printed) = measured(&folder, program, args);
        let (code, text) = recompute(&record, &[]);
        assert_eq!(code, Some(0), "{program} {args}: {text}");
        assert!(text.contains("footer: ") && text.trim_end().ends_with(" 0 differ"), "{text}");
        let (code, table) = recompute(&record, &["--table"]);
        assert_eq!((code, table), (Some(0), printed), "{program} {args}");
    }
}

#[test]
fn a_matrix_follows_from_the_times_of_its_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let (record, printed) = measured(&folder, "p2p_matrix_perf", "--sim-ranks 5");
    let (code, text) = recompute(&record, &[]);
    assert!(code == Some(0) && text.contains("matrix: ") && text.ends_with(" 0 differ\n"), "{text}");
    assert_eq!(recompute(&record, &["--table"]), (Some(0), printed));
    let original = std::fs::read(&record).unwrap();
    for field in ["latency_us", "messages_per_s", "one_way_gbps", "alone_gbps", "link_ratio", "noise_ratio"] {
        std::fs::write(&record, &original).unwrap();
        assert!(change(&record, "matrix", field), "no {field}");
        let (code, text) = recompute(&record, &[]);
        assert!(code == Some(7) && text.contains(&format!("{field}: recorded")), "{field}: {text}");
    }
}

#[test]
fn what_a_diagnosis_found_follows_from_its_tests() {
    let runs = [
        (
            "-z 3 -I 1 --inject late:5:200us --localize",
            "localised",
            &["tests", "told_late", "ratio", "excess_us"][..],
        ),
        ("-z 3 -I 1 -n 20 --overhead", "overhead", &["added_us", "low_us", "without_us"]),
        ("-z 3 -I 1 -n 20 --self-test", "self_test", &["smallest_us", "healthy_trials", "false_alarms"]),
        (
            "-z 3 -I 1 -n 20 --self-test",
            "self_test_slow",
            &["smallest_pct", "healthy_trials", "false_alarms"],
        ),
    ];
    for (args, event, fields) in runs {
        let folder = tempfile::tempdir().unwrap();
        let args = format!("-b 8 -e 64 -f 8 --sim-ranks 8 {args}");
        let (record, _) = measured(&folder, "all_reduce_perf", &args);
        let original = std::fs::read_to_string(&record).unwrap();
        for field in fields {
            std::fs::write(&record, &original).unwrap();
            assert!(change(&record, event, field), "no {field} in {event}");
            let (code, text) = recompute(&record, &[]);
            assert!(code == Some(7) && text.contains(": DIFFERS"), "{event} {field}: {text}");
        }
    }
}

#[test]
fn a_self_test_follows_from_the_series_of_its_trials() {
    let folder = tempfile::tempdir().unwrap();
    let args = "-b 8 -e 8 --sim-ranks 4 -z 3 -I 1 -n 20 --self-test";
    let (record, _) = measured(&folder, "all_reduce_perf", args);
    let original = std::fs::read_to_string(&record).unwrap();
    let without = |events: &[&str]| {
        let is_left =
            |line: &&str| !events.iter().any(|event| line.starts_with(&format!("{{\"event\":\"{event}\"")));
        std::fs::write(&record, original.lines().filter(is_left).collect::<Vec<_>>().join("\n")).unwrap();
        recompute(&record, &[])
    };
    let (code, text) = without(&[]);
    let agree =
        |part: &str| text.lines().any(|line| line.starts_with(part) && line.ends_with("figures agree"));
    assert!(
        code == Some(0) && agree("self-test of lateness: ") && agree("self-test of slow-downs: "),
        "{text}"
    );
    let (code, text) = without(&["late_trial", "slow_trial"]);
    let lacks = ["no trials of lateness", "no trials of slow-downs"].map(|words| text.contains(words));
    assert!(code == Some(9) && lacks == [true, true], "{text}");

    // All healthy times of the longer message doubled: every healthy trial is a false alarm.
    let slower = |line: &str| {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["event"] == "slow_trial" && event.get("lost_pct").is_none() {
            let pairs: Vec<(f64, f64)> = serde_json::from_value(event["pairs_us"].take()).unwrap();
            event["pairs_us"] = pairs.iter().map(|(longer, plain)| vec![2.0 * longer, *plain]).collect();
        }
        format!("{event}\n")
    };
    std::fs::write(&record, original.lines().map(slower).collect::<String>()).unwrap();
    let (code, text) = recompute(&record, &[]);
    assert_eq!(code, Some(7), "{text}");
    assert!(text.contains("  false_alarms: recorded 0, recomputed 20: DIFFERS"), "{text}");
    // One trial of lateness lost: the counts show it.
    let at = original.lines().position(|line| line.starts_with("{\"event\":\"late_trial\"")).unwrap();
    let one_less: Vec<&str> =
        original.lines().enumerate().filter(|(place, _)| *place != at).map(|(_, line)| line).collect();
    std::fs::write(&record, one_less.join("\n")).unwrap();
    let (code, text) = recompute(&record, &[]);
    assert_eq!(code, Some(7), "{text}");
    assert!(text.contains("  healthy_trials: recorded 20, recomputed 19: DIFFERS"), "{text}");
}

/// Rewrites the times that a search heard.
fn heard(record: &str, change: impl Fn(&mut Vec<Vec<f64>>)) -> String {
    let line = |line: &str| {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(times) = event.pointer_mut("/trail/times_us") {
            let mut all: Vec<Vec<f64>> = serde_json::from_value(times.take()).unwrap();
            change(&mut all);
            *times = serde_json::json!(all);
        }
        format!("{event}\n")
    };
    record.lines().map(line).collect()
}

#[test]
fn a_search_that_heard_something_else_comes_to_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let args = "-b 8 -e 64 -f 8 --sim-ranks 8 --localize --inject slow-link:1-6:40%";
    let (record, _) = measured(&folder, "all_reduce_perf", args);
    let original = std::fs::read_to_string(&record).unwrap();
    let with = |changed: String| {
        std::fs::write(&record, changed).unwrap();
        recompute(&record, &[])
    };
    assert_eq!(with(heard(&original, |_| {})).0, Some(0));
    let (code, text) = with(heard(&original, |all| all.iter_mut().flatten().for_each(|time| *time = 1.0)));
    assert!(code == Some(7) && text.contains("verdict"), "{text}");
    let (code, text) = with(heard(&original, |all| all.truncate(20)));
    assert!(code == Some(7) && text.contains("tests: recorded"), "{text}");
}

#[test]
fn a_record_of_an_earlier_version_is_compared_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (record, _) = measured(&folder, "all_reduce_perf", "-b 8 -e 64 -f 8 --sim-ranks 8 --localize");
    let text = std::fs::read_to_string(&record).unwrap();
    let at = text.find(",\"trail\":").unwrap();
    let end = at + text[at..].find('\n').unwrap() - 1;
    std::fs::write(&record, format!("{}{}", &text[..at], &text[end..])).unwrap();
    let (code, said) = recompute(&record, &[]);
    assert!(code == Some(9) && said.contains("holds no times of the tests of --localize"), "{said}");
}

/// The exit code, and what is said on stderr.
fn refused(record: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_critrank")).arg("recompute").arg(record).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn two_runs_in_one_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (record, _) = measured(&folder, "all_reduce_perf", "-b 8 -e 8");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.repeat(2)).unwrap();
    let (code, said) = refused(&record);
    let at = text.lines().count() + 1;
    assert!(code == Some(6) && said.contains(&format!("a second run begins in line {at} ")), "{said}");
}

#[test]
fn a_record_that_names_no_ranks_ends_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    for (program, args) in [("all_reduce_perf", "-b 8 -e 8"), ("p2p_matrix_perf", "--sim-ranks 3")] {
        let (record, _) = measured(&folder, program, args);
        let text = std::fs::read_to_string(&record).unwrap();
        let mut start: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let rest = text.split_once('\n').unwrap().1;
        start["sites"] = serde_json::json!([]);
        std::fs::write(&record, format!("{start}\n{rest}")).unwrap();
        let (code, said) = refused(&record);
        assert!(code == Some(6) && said.contains("names no ranks"), "{program}: {said}");
    }
}

#[test]
fn without_its_output_it_does_not_end_well() {
    let folder = tempfile::tempdir().unwrap();
    let (record, _) = measured(&folder, "all_reduce_perf", "-b 8 -e 8");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_critrank"));
    let output = command.arg("recompute").arg(&record).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
}

/// Rewrites the first number behind `field` in the first line of `event`.
fn change(record: &Path, event: &str, field: &str) -> bool {
    let text = std::fs::read_to_string(record).unwrap();
    let start = text.find(&format!("{{\"event\":\"{event}\"")).unwrap();
    let label = format!("\"{field}\":");
    let Some(at) = text[start..].find(&label).map(|at| start + at + label.len()) else { return false };
    let is_number = |c: char| c.is_ascii_digit() || ".-+eE".contains(c);
    let end = at + text[at..].find(|c| !is_number(c)).unwrap();
    let value: serde_json::Number = text[at..end].parse().unwrap();
    let other = if value.is_f64() {
        format!("{:?}", value.as_f64().unwrap() * 1.01 + 0.001)
    } else {
        format!("{}", value.as_i64().unwrap() + 1)
    };
    std::fs::write(record, format!("{}{other}{}", &text[..at], &text[end..])).unwrap();
    true
}

#[test]
fn a_changed_figure_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let (record, _) = measured(&folder, "all_reduce_perf", "-b 8 -e 4K -f 8 -N 6 -I 1 --precision 2%");
    let original = std::fs::read(&record).unwrap();
    for (event, field) in [
        ("row", "size_bytes"),
        ("row", "count"),
        ("row", "avg_us"),
        ("row", "max_us"),
        ("row", "shown_us"),
        ("row", "algbw_gbps"),
        ("row", "busbw_gbps"),
        ("row", "p99_us"),
        ("row", "cv_pct"),
        ("row", "samples"),
        ("row", "median_us"),
        ("row", "upper_us"),
        ("row", "total_us"),
        ("stats", "median_us"),
        ("stats", "cv_pct"),
        ("stats", "upper_pct"),
        ("stats", "over_series_pct"),
        ("stats", "lag1"),
        ("model", "alpha_us"),
        ("finish", "average_busbw_gbps"),
        ("finish", "out_of_bounds"),
        ("finish", "wrong_elements"),
        ("finish", "gap_us"),
        ("finish", "exit_code"),
    ] {
        std::fs::write(&record, &original).unwrap();
        assert!(change(&record, event, field), "no {field} in {event}");
        let (code, text) = recompute(&record, &[]);
        assert_eq!(code, Some(7), "{event} {field}: {text}");
        assert!(
            text.lines().any(|line| line.contains(field) && line.ends_with(": DIFFERS")),
            "{field}: {text}"
        );
    }
}

#[test]
fn a_changed_sample_or_verdict_is_found() {
    for (args, changes) in [
        (
            "-N 6",
            [
                ("\"state\":\"stable\"", "\"state\":\"unstable\""),
                ("\"wrong\":{\"count\":0}", "\"wrong\":{\"count\":3}"),
                ("\"wrong\":{\"count\":0}", "\"wrong\":\"not_checked\""),
            ],
        ),
        (
            "-n 2 --budget 1ms",
            [
                ("\"reason\":\"budget\"", "\"reason\":\"converged\""),
                ("\"interval_us\":[", "\"interval_us\":[99.5,"),
                ("\"blocks_us\":[", "\"blocks_us\":[99.5,"),
            ],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (record, _) = measured(&folder, "all_reduce_perf", &format!("-b 8 -e 8 -I 1 {args}"));
        let original = std::fs::read_to_string(&record).unwrap();
        assert_eq!(recompute(&record, &[]).0, Some(0), "{args}");
        for (from, to) in changes {
            let changed = original.replacen(from, to, 1);
            assert_ne!(changed, original, "{from}");
            std::fs::write(&record, changed).unwrap();
            assert_eq!(recompute(&record, &[]).0, Some(7), "{from}");
        }
    }
}

#[test]
fn a_cut_record_is_compared_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (record, _) = measured(&folder, "all_reduce_perf", "-b 8 -e 4K -f 8");
    let text = std::fs::read_to_string(&record).unwrap();
    let rows = text.find("{\"event\":\"finish\"").unwrap();
    std::fs::write(&record, &text[..rows]).unwrap();
    let (code, said) = recompute(&record, &[]);
    assert!(code == Some(0) && said.contains("did not finish"), "{said}");
    std::fs::write(&record, &text[..rows - 40]).unwrap();
    let (code, said) = recompute(&record, &[]);
    assert!(code == Some(9) && said.contains("1 lines cannot be read"), "{said}");
    let first = text.find('\n').unwrap() + 1;
    std::fs::write(&record, &text[..first]).unwrap();
    assert_eq!(recompute(&record, &[]).0, Some(9), "nothing to compare");
}

#[test]
fn what_is_no_record_ends_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other");
    std::fs::write(&file, "{}\n").unwrap();
    assert_eq!(recompute(&file, &[]).0, Some(6));
    assert_eq!(recompute(&folder.path().join("missing"), &[]).0, Some(6));
    let bare = Command::cargo_bin("critrank").unwrap().arg("recompute").output().unwrap();
    assert_eq!(bare.status.code(), Some(1));
    let help = Command::cargo_bin("critrank").unwrap().arg("--help").output().unwrap();
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("recompute"));
}
