//! `NCCL_TESTS_SPLIT` over real launches, and threads, over fakes of the GPU's libraries (`tests/fake_gpu`).
#![cfg(all(feature = "mpi", feature = "nccl"))]
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::time::Duration;

use common::{Mpi, binary, fake_gpus, finish, record};

/// Groups of three ranks and of one, over fakes of the GPU's libraries, whose data stays where it is.
#[test]
fn groups_of_several_sizes_stay_in_step() {
    let fakes = fake_gpus(4, &["-DFAR"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.jsonl");
    let mut command = Mpi::under_test().launcher(4);
    command.arg(binary("all_reduce")).args("-b 1K -e 1K -n 1 -w 0 -c 0 -d all -o all".split(' '));
    command.arg("--record").arg(&path).env("NCCL_TESTS_SPLIT", "DIV 3").env("LD_LIBRARY_PATH", fakes.path());
    let run = finish(&mut command, Duration::from_secs(150));
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains(" not compared between groups"), "{}", run.stdout);
    let events = record(&path);
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    // What one rank alone cannot do is done by none, and said with that rank.
    let waived = of("waived");
    let scaled = waived.iter().filter(|event| event["dtype"] == "f8e4m3").collect::<Vec<_>>();
    assert_eq!(scaled.len(), 2, "{waived:?}");
    assert!(scaled.iter().all(|event| event["reason"].as_str().unwrap().ends_with("(rank 3)")), "{scaled:?}");
    let rows = of("row");
    assert!(rows.len() > 40, "{}", run.stdout);
    for row in rows {
        for cell in row["cells"].as_array().unwrap() {
            let groups: Vec<_> = cell["groups"].as_array().unwrap().iter().collect();
            let sizes: Vec<_> = groups.iter().map(|group| (&group["group"], &group["ranks"])).collect();
            assert_eq!(serde_json::json!(sizes), serde_json::json!([[0, 3], [1, 1]]), "{cell}");
            assert_eq!(cell["ranks"].as_array().unwrap().len(), 4);
        }
    }
}
