//! Tests only: reads real nccl-tests output back into the values that it was printed from.

use super::{Config, MemoryUse, Outcome, Preamble, Site};
use crate::aggregate::{Average, Cell, Critical, PerIteration, Row, Summary, Verdict, Wrong};
use crate::backend::{Device, Kind, Library};
use crate::vocab::Placement;

/// A table, and all that it was made from.
pub(crate) struct Table {
    pub(super) preamble: Preamble,
    pub(crate) rows: Vec<Row>,
    pub(super) outcome: Outcome,
}

/// The text of a fixture.
pub(crate) fn text(name: &str) -> String {
    let path = format!("{}/tests/fixtures/nccl-tests-2.19.6/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(super) fn config() -> Config {
    Config {
        threads: 1,
        gpus: 1,
        min_bytes: 8,
        max_bytes: 8,
        step_factor: 1.0,
        step_bytes: 1 << 20,
        warmup: 1,
        iterations: 20,
        aggregated: 1,
        checks: 1,
        graph: 0,
        unalign: 0,
        blocking: 0,
        per_iteration: false,
        skip: 0,
        parallel_init: false,
        cputime: false,
        timestamps: false,
        average: Average::Avg,
        cycles: 1,
        epochs: 1,
    }
}

pub(super) fn site(rank: u32, host: &str) -> Site {
    Site {
        rank,
        process: rank,
        group: 0,
        pid: 1369 + rank,
        host: host.to_owned(),
        local_rank: rank,
        device: Device {
            index: rank,
            bus_id: format!("0000:00:{:02x}", 6 + rank),
            name: "NVIDIA H200".to_owned(),
            uuid: String::new(),
            compute_capability: 90,
            driver: String::new(),
        },
    }
}

pub(crate) fn preamble() -> Preamble {
    Preamble {
        program: "all_reduce_perf".to_owned(),
        args: vec!["all_reduce_perf".to_owned()],
        env: vec![("NCCL_NVLS_ENABLE".to_owned(), "0".to_owned())],
        start_time: "2026-11-30 12:02:43".to_owned(),
        backend: Kind::Nccl,
        library: Library {
            name: "NCCL".to_owned(),
            version: "2.28.3".to_owned(),
            code: 22803,
            path: "libnccl.so.2".to_owned(),
        },
        version: "0.1.0".to_owned(),
        injected: Vec::new(),
        config: config(),
        sites: vec![site(0, "vm"), site(1, "vm")],
    }
}

pub(crate) fn outcome() -> Outcome {
    Outcome {
        out_of_bounds: 0,
        wrong_elements: 0,
        average_busbw_gbps: 87.631,
        min_busbw_gbps: None,
        critical: Critical { longest: Verdict::OneRank, last_to_arrive: None },
        memory: None,
        library_error: String::new(),
        end_time: "2026-11-30 12:02:46".to_owned(),
    }
}

pub(super) fn cell(placement: Placement, shown_us: f64, gbps: [f64; 2], wrong: Wrong) -> Cell {
    let time = Summary::over(&[shown_us]);
    Cell {
        placement,
        time,
        cputime: time,
        shown_us,
        algbw_gbps: gbps[0],
        busbw_gbps: gbps[1],
        wrong,
        wrong_ranks: Vec::new(),
        coverage: None,
        algorithm: None,
        predicted_us: None,
        unpredicted: None,
        stop: None,
        groups: Vec::new(),
        per_iteration: None,
        arrivals: None,
        ranks: Vec::new(),
    }
}

/// From the four printed figures; the others are not in the table.
pub(super) fn iterations(min_us: f64, max_us: f64, p99_us: f64, cv_pct: f64) -> PerIteration {
    PerIteration {
        skipped: 0,
        min_us,
        max_us,
        avg_us: 0.0,
        p50_us: 0.0,
        p95_us: 0.0,
        p99_us,
        stdev_us: 0.0,
        cv_pct,
        times_us: Vec::new(),
        per_process_us: Vec::new(),
    }
}

/// Reads a table.
pub(crate) fn table(text: &str) -> Table {
    let mut table = Table { preamble: preamble(), rows: Vec::new(), outcome: outcome() };
    table.preamble.sites.clear();
    for line in text.lines() {
        if line.starts_with("#  Rank") {
            table.preamble.sites.push(read_site(line));
        } else if line.starts_with("# ") {
            read_comment(&mut table, line);
        } else if line.starts_with(' ') && line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            let row = read_row(&table.preamble.config, line);
            table.rows.push(row);
        }
    }
    table
}

fn after<'a>(line: &'a str, label: &str) -> Option<&'a str> {
    line.split_once(label).map(|(_, rest)| rest)
}

fn number(line: &str, label: &str) -> u64 {
    let digits = after(line, label).unwrap().trim_start();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap()
}

fn read_comment(table: &mut Table, line: &str) {
    let config = &mut table.preamble.config;
    if let Some(program) = after(line, "Collective test starting: ") {
        program.clone_into(&mut table.preamble.program);
    } else if line.starts_with("# nThread") {
        config.threads = number(line, "nThread ") as u32;
        config.gpus = number(line, "nGpus ") as u32;
        config.min_bytes = number(line, "minBytes ");
        config.max_bytes = number(line, "maxBytes ");
        let step = number(line, "step: ");
        if line.contains("(factor)") {
            config.step_factor = step as f64;
        } else {
            config.step_bytes = step;
        }
        config.warmup = number(line, "warmup iters: ");
        config.iterations =
            number(after(line, "warmup").unwrap().split_once("iters: ").unwrap().1, "iters: ");
        config.aggregated = number(line, "agg iters: ");
        config.checks = number(line, "validation: ");
        config.graph = number(line, "graph: ");
        config.unalign = number(line, "unalign: ");
    } else if let Some(what) = after(line, "Blocking Enabled: ") {
        config.blocking = 1 + u8::from(what.contains("no barrier")) + 2 * u8::from(what.contains("outer"));
    } else if line.contains("Per-Iteration Report") {
        config.per_iteration = true;
    } else if line.contains("#wrong") {
        config.cputime = line.contains("cputime");
        config.timestamps = line.contains("timestamp");
    } else if line.contains("Out of bounds values") {
        table.outcome.out_of_bounds = number(line, ": ");
    } else if let Some(average) = after(line, "Avg bus bandwidth    : ") {
        table.outcome.average_busbw_gbps = average.split(' ').next().unwrap().parse().unwrap();
        table.outcome.min_busbw_gbps = average.contains("FAILED").then_some(1e6);
    } else if line.contains("GPU memory usage") {
        let mega = |label| (f64::from(number(line, label) as u32) * 1_048_576.0) as u64;
        table.outcome.memory = Some(MemoryUse {
            init_bytes: mega("Initialization "),
            user_bytes: mega("User-Allocated "),
            collective_bytes: mega("Collective "),
        });
    }
}

fn read_site(line: &str) -> Site {
    let host = after(line, " on ").unwrap().split_whitespace().next().unwrap();
    let mut site = site(number(line, "Rank ") as u32, host);
    site.group = number(line, "Group ") as u32;
    site.pid = number(line, "Pid ") as u32;
    site.device.index = number(line, "device ") as u32;
    let (bus_id, name) = after(line, "[").unwrap().split_once("] ").unwrap();
    bus_id.clone_into(&mut site.device.bus_id);
    name.clone_into(&mut site.device.name);
    site
}

fn read_row(config: &Config, line: &str) -> Row {
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    let width = if config.per_iteration { 8 } else { 4 };
    let stamps = if config.timestamps { 2 } else { 0 };
    if fields.len() == 4 + 2 * width + stamps {
        fields.insert(3, "none");
    }
    assert_eq!(fields.len(), 5 + 2 * width + stamps, "{line}");
    let real = |text: &str| text.parse::<f64>().unwrap();
    let cells = Placement::BOTH.into_iter().zip(fields[5..].chunks_exact(width)).map(|(placement, f)| {
        let wrong = f[3].parse().map_or(Wrong::Undefined, Wrong::Count);
        let mut cell = cell(placement, real(f[0]), [real(f[1]), real(f[2])], wrong);
        cell.per_iteration =
            config.per_iteration.then(|| iterations(real(f[4]), real(f[5]), real(f[6]), real(f[7])));
        cell
    });
    Row {
        requested_bytes: fields[0].parse().unwrap(),
        size_bytes: fields[0].parse().unwrap(),
        count: fields[1].parse().unwrap(),
        dtype: fields[2].parse().unwrap(),
        redop: fields[3].to_owned(),
        root: fields[4].parse().unwrap(),
        epoch: 0,
        cycle: 0,
        iterations: config.iterations,
        cadence: Some(config.cadence()),
        timestamp: fields[5 + 2 * width..].join(" "),
        cells: cells.collect(),
    }
}
