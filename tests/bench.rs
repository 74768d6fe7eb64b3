//! The figures of `ci/bench.sh`, from recorded tables: no GPU, no MPI.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const TABLE: &str = include_str!("fixtures/nccl-tests-2.19.6/all_reduce.txt");

/// The recorded table with every time multiplied.
fn scaled(factor: f64) -> String {
    let row = |line: &str| {
        let mut fields: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        for time in [5, 9] {
            fields[time] = format!("{:.4}", fields[time].parse::<f64>().unwrap() * factor);
        }
        format!("  {}", fields.join(" "))
    };
    let lines = TABLE.lines().map(|line| if line.starts_with(' ') { row(line) } else { line.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}

fn analyse(folder: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("ci/bench.sh");
    Command::new("bash").arg(script).arg("analyse").arg(folder).output().unwrap()
}

fn pairs(folder: &Path) {
    for (pair, factor) in (1..).zip([0.88, 0.89, 0.90, 0.91, 0.92]) {
        fs::write(folder.join(format!("all_reduce-{pair}-ours.txt")), scaled(factor)).unwrap();
        fs::write(folder.join(format!("all_reduce-{pair}-peer.txt")), TABLE).unwrap();
    }
}

#[test]
fn ratios_and_their_intervals_are_those_of_the_pairs() {
    let folder = tempfile::tempdir().unwrap();
    pairs(folder.path());
    let output = analyse(folder.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    // 28 sizes, two placements, five pairs; then the sizes, the collective, below 1 MiB, all.
    assert_eq!(text.lines().filter(|line| line.starts_with("PAIR ")).count(), 28 * 2 * 5);
    // Logarithms of 0.88 to 0.92: mean -0.10549, standard deviation 0.01757, t(4) = 2.776.
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("0.9000   0.8999 [0.88")).collect();
    assert_eq!(rows.len(), 28 + 3, "{text}");
    for what in ["all_reduce             all", "all            below 1 MiB", "all                    all"] {
        assert!(
            rows.iter().any(|row| row.starts_with(what) && row.contains("[0.8805, 0.9197]")),
            "{what}: {text}"
        );
    }
}

#[test]
fn a_launch_that_brought_no_table_is_said() {
    let folder = tempfile::tempdir().unwrap();
    pairs(folder.path());
    fs::write(folder.path().join("all_reduce-3-peer.txt"), "# died\n").unwrap();
    let output = analyse(folder.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("56 pairs are incomplete"), "{text}");
}
