//! The rules of docs/ARCHITECTURE.md, held.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                all.push((name, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()));
            }
        }
    }
    assert!(!all.is_empty(), "{folder} has no {ending}");
    all
}

/// Code without comments.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn only_in(word: &str, homes: &[&str]) {
    for (name, text) in files("src", ".rs") {
        let at_home = homes.iter().any(|home| name.starts_with(home));
        assert!(at_home || !code(&text).contains(word), "{name} has '{word}', which belongs into {homes:?}");
    }
}

#[test]
fn dangerous_words_stay_in_their_homes() {
    only_in("unsafe ", &["src/backend/nccl/ffi/", "src/backend/mpi/", "src/session/mpi.rs"]);
    only_in("mpi::ffi", &["src/backend/mpi/", "src/session/mpi.rs"]);
    only_in("cudarc", &["src/backend/nccl/"]);
    only_in("libloading", &["src/backend/nccl/"]);
    only_in("nvml_wrapper", &["src/backend/nccl/"]);
    only_in("io::stdout", &["src/report/sink.rs"]);
    only_in("process::exit", &["src/error.rs"]);
}

#[test]
fn no_collective_is_told_by_its_name() {
    for (name, text) in files("src", ".rs") {
        let home =
            name.starts_with("src/collective/") || name.starts_with("src/bin/") || name.contains("test");
        let text = code(text.split("#[cfg(test)]").next().unwrap());
        for word in
            ["all_reduce", "all_gather", "alltoall", "broadcast", "hypercube", "sendrecv", "reduce_scatter"]
        {
            let quoted = format!("\"{word}\"");
            assert!(home || !text.contains(&quoted), "{name} tells {word} by its name");
        }
    }
}

#[test]
fn modules_import_only_from_their_left() {
    let order = [
        "vocab",
        "error",
        "collective",
        "verify",
        "cli",
        "plan",
        "clock",
        "session",
        "backend",
        "stats",
        "aggregate",
        "judge",
        "measure",
        "report",
        "offline",
        "run",
    ];
    let place = |module: &str| order.iter().position(|name| *name == module);
    for (name, text) in files("src", ".rs") {
        let module = name.trim_start_matches("src/").split('/').next().unwrap().trim_end_matches(".rs");
        let Some(own) = place(module) else { continue };
        if name.contains("test") || name.contains("fixture") {
            continue;
        }
        let text = code(text.split("#[cfg(test)]\nmod tests {").next().unwrap());
        for part in text.split("crate::").skip(1) {
            let other: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if let Some(theirs) = place(&other) {
                assert!(theirs <= own, "{name} ({module}) imports from {other}, which is to its right");
            }
        }
    }
}

#[test]
fn files_fit_a_reader() {
    for (name, text) in files("src", ".rs") {
        let lines = text.lines().count();
        let limit = if name.contains("test") { 600 } else { 420 };
        assert!(lines <= limit, "{name} has {lines} lines; split it");
    }
}

#[test]
fn nothing_names_a_developers_machine() {
    let patterns = [
        "/wor".to_owned() + "k/",
        "/ro".to_owned() + "ot/",
        "../sha".to_owned() + "red",
        "artifac".to_owned() + "tory",
    ];
    for folder in ["src", "tests", "ci", "launch", "docs", "hostfiles"] {
        for (name, text) in files(folder, "") {
            if name.starts_with("docs/evidence") || name.starts_with("tests/fixtures") {
                continue;
            }
            for pattern in &patterns {
                assert!(!text.contains(pattern.as_str()), "{name} has {pattern}");
            }
        }
    }
}

#[test]
fn faults_are_not_written_by_whoever_finds_them() {
    let (_, fabric) =
        files("src/backend/sim", ".rs").into_iter().find(|(name, _)| name.ends_with("fabric.rs")).unwrap();
    for word in ["judge", "crate::", "super::"] {
        assert!(!code(fabric.split("#[cfg(test)]").next().unwrap()).contains(word), "fabric.rs has {word}");
    }
}
