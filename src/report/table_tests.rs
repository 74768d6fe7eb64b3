use regex::Regex;

use super::*;
use crate::report::fixture;

/// Everything that a good run prints.
fn render(table: &fixture::Table) -> String {
    let config = &table.preamble.config;
    let mut text = opening(&table.preamble) + &devices(&table.preamble.sites) + &header(config);
    for line in &table.rows {
        text += &row(config, line);
    }
    text + &footer(&table.preamble, &table.outcome)
}

/// Without the lines that are each program's own: version, critical rank, the notice of `-J`, what follows the end.
fn comparable(text: &str) -> String {
    let own = ["# Writing JSON output", "# nccl-tests version", "# critrank", "# Critical rank"];
    let mut lines = Vec::new();
    let mut ended = false;
    for line in text.lines() {
        if own.iter().any(|start| line.starts_with(start)) {
            continue;
        }
        if ended && !line.starts_with('#') {
            break;
        }
        ended |= line.starts_with("# Collective test concluded");
        lines.push(line);
    }
    lines.join("\n")
}

const FIXTURES: &[&str] = &[
    "all_gather",
    "all_reduce",
    "all_reduce-8B-4G",
    "alltoall",
    "alltoallv-4ranks-1xh200",
    "alltypes-1xh200",
    "broadcast",
    "cputime",
    "g2",
    "graph",
    "iter",
    "minbw-1xh200",
    "np1-1xh200",
    "sendrecv",
    "split-1xh200",
    "stamps",
    "z0",
    "z3",
];

#[test]
fn tables_are_nccl_tests_to_the_byte() {
    for name in FIXTURES {
        let real = fixture::text(&format!("{name}.txt"));
        let table = fixture::table(&real);
        assert!(!table.rows.is_empty(), "{name}");
        let ours = render(&table);
        for (at, (ours, real)) in comparable(&ours).lines().zip(comparable(&real).lines()).enumerate() {
            assert_eq!(ours, real, "{name}, line {at}");
        }
        assert_eq!(comparable(&ours), comparable(&real), "{name}");
        assert!(ours.ends_with("#\n\n"), "{name} ends with a blank line");
    }
}

#[test]
fn hypercube_differs_in_its_redop_alone() {
    let real = fixture::text("hypercube-4ranks-1xh200.txt");
    let ours = render(&fixture::table(&real)).replace("  none  ", "        ");
    assert_eq!(comparable(&ours), comparable(&real));
}

#[test]
fn options_change_the_header_as_in_nccl_tests() {
    let mut preamble = fixture::preamble();
    preamble.config.blocking = 1;
    preamble.config.per_iteration = true;
    preamble.config.skip = 2;
    preamble.config.parallel_init = true;
    preamble.config.step_factor = 1.5;
    let want = [
        "# critrank 0.1.0 backend=nccl nccl-library=22803",
        "# Collective test starting: all_reduce_perf",
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 1.5(factor) warmup iters: 1 iters: 20 agg iters: 1 \
         validation: 1 graph: 0 unalign: 0",
        "# Blocking Enabled: wait and barrier after each inner iteration (-m) ",
        "# Per-Iteration Report: CUDA event timing; i_* uses max over process rows; summary skips first 2 \
         iterations ",
        "# Parallel Init Enabled: threads call into NcclInitRank concurrently ",
        "#",
        "# Using devices",
        "",
    ];
    assert_eq!(opening(&preamble), want.join("\n"));
    preamble.config.blocking = 2;
    assert!(opening(&preamble).contains("(-m), no barrier \n"));
}

#[test]
fn every_header_has_as_many_names_as_rows_have_fields() {
    for bits in 0..8_u8 {
        let mut config = fixture::config();
        config.per_iteration = bits & 1 > 0;
        config.cputime = bits & 2 > 0;
        config.timestamps = bits & 4 > 0;
        let text = header(&config);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        let names = lines[2][1..].split_whitespace().count();
        let fields = 13 + 8 * usize::from(config.per_iteration);
        assert_eq!(names, fields + usize::from(config.timestamps));
        assert_eq!(lines[2].len(), lines[3].len());
    }
}

#[test]
fn other_backends_cannot_pass_for_nccl() {
    let mut preamble = fixture::preamble();
    assert!(opening(&preamble).starts_with("# critrank 0.1.0 backend=nccl nccl-library=22803\n"));
    preamble.backend = Kind::Mpi;
    preamble.library.name = "Open MPI".to_owned();
    preamble.library.version = "4.1.4".to_owned();
    let mpi = "# critrank 0.1.0 backend=mpi NOT NCCL library=Open MPI 4.1.4\n";
    assert!(opening(&preamble).starts_with(mpi));
    preamble.backend = Kind::Sim;
    assert!(opening(&preamble).starts_with("# critrank 0.1.0 backend=sim NOT NCCL, NOT A MEASUREMENT "));
}

#[test]
fn large_and_missing_values_keep_the_columns() {
    let real = fixture::text("all_reduce.txt");
    let mut table = fixture::table(&real);
    let line = &mut table.rows[0];
    line.cells[0].wrong = Wrong::Count(123_456_789);
    line.cells[0].shown_us = 123_456_789.0;
    line.cells[0].algbw_gbps = 99_999.96;
    line.cells[1].wrong = Wrong::Blind("all ranks hold one value".to_owned());
    let text = row(&table.preamble.config, line);
    let want = "           8             2     float     sum      -1  1.2e+08  100000    0.00  1.23457e+08    10.85    0.00    0.00    N/A\n";
    assert_eq!(text, want);
    line.cells.pop();
    let text = row(&table.preamble.config, line);
    assert!(text.ends_with("      N/A     N/A     N/A    N/A\n"), "{text}");
    assert_eq!(text.split_whitespace().count(), 13);
}

#[test]
fn footer_says_what_failed() {
    let preamble = fixture::preamble();
    let mut outcome = fixture::outcome();
    outcome.out_of_bounds = 3;
    outcome.average_busbw_gbps = 90.0;
    outcome.min_busbw_gbps = Some(100.0);
    outcome.library_error = "socket closed".to_owned();
    let text = footer(&preamble, &outcome);
    assert!(
        text.starts_with("# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 90 OK\n"),
        "{text}"
    );
    assert!(text.ends_with("#\n# error: socket closed\n"), "{text}");
    assert_eq!(outcome.exit().code(), 7);
    outcome.min_busbw_gbps = Some(100.1);
    assert!(footer(&preamble, &outcome).contains(": 90 FAILED\n"));
    outcome.out_of_bounds = 0;
    assert_eq!(outcome.exit().code(), 7);
    outcome.average_busbw_gbps = f64::NAN;
    assert_eq!(outcome.reaches_min(), Some(false), "no number is no pass");
    outcome.min_busbw_gbps = None;
    assert_eq!(outcome.exit().code(), 0);
}

#[test]
fn the_critical_rank_in_words() {
    let mut sites = fixture::preamble().sites;
    sites[1].device.compute_capability = 0;
    let named = |rank| Verdict::Named { rank, gap_us: 18.24, spread_us: 1.0, agreeing: 5, cases: 6 };
    let unclear = |distinct| Verdict::NotDistinguishable { gap_us: 0.4, spread_us: 3.06, cases: 4, distinct };
    let cases = [
        (named(0), None, "longest 0 (vm, GPU 0) 18.2 us over the next"),
        (
            named(0),
            Some(named(1)),
            "longest 0 (vm, GPU 0) 18.2 us over the next, last to arrive 1 (vm) 18.2 us under the next",
        ),
        (
            unclear(0),
            Some(named(1)),
            "longest not distinguishable (gap 0.4 us, spread 3.1 us), last to arrive 1 (vm) 18.2 us under the next",
        ),
        (unclear(2), None, "not distinguishable (gap 0.4 us, spread 3.1 us)"),
        (unclear(3), Some(unclear(0)), "not distinguishable (sizes disagree; gap 0.4 us, spread 3.1 us)"),
        (Verdict::TooFewSamples { cycles: 1 }, None, "not distinguishable (1 cycle; run -N 5 or -I 1)"),
        (Verdict::TooFewSamples { cycles: 3 }, None, "not distinguishable (3 cycles; run -N 5 or -I 1)"),
        (Verdict::OneRank, None, "one rank"),
        (Verdict::SeveralGroups, None, "not compared between groups"),
    ];
    for (longest, last_to_arrive, want) in cases {
        assert_eq!(critical(&Critical { longest, last_to_arrive }, &sites), want);
    }
}

/// One tool's reading of a whole output.
type Reader = fn(&str) -> bool;

fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether each row matches.
fn every_row(text: &str, pattern: &str) -> bool {
    let pattern = Regex::new(pattern).unwrap();
    rows(text).count() > 0 && rows(text).all(|line| pattern.is_match(line))
}

/// superbenchmark: names of the last header line, fields counted from the end.
fn superbench(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().rposition(|line| line.contains("out-of-place")).unwrap();
    let end = lines.iter().position(|line| line.contains("Out of bounds values")).unwrap();
    let head = lines[start..end].iter().find(|l| l.contains("time") && l.contains("busbw")).unwrap();
    let names: Vec<&str> = head[1..].split_whitespace().collect();
    let column = |name| names.len() - names.iter().rposition(|known| *known == name).unwrap();
    let field = |line: &str, from_end: usize| -> f64 {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[fields.len() - from_end].parse().unwrap()
    };
    lines[start..end].iter().filter(|l| l.trim_start().starts_with(|c: char| c.is_ascii_digit())).all(
        |line| {
            let (time, algbw) = (field(line, column("time")), field(line, column("algbw")));
            let size: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
            (size / time / 1e3 - algbw).abs() <= 0.006 + algbw * 0.002
        },
    )
}

/// What the tools of docs/FORMAT.md do, each in its own way.
const READERS: &[(&str, Reader)] = &[
    ("superbenchmark", superbench),
    ("cloudai, rows", |text| rows(text).all(|line| line.split_whitespace().count() == 13)),
    ("cloudai, success", |text| {
        text.contains("# Out of bounds values")
            && text.contains("# Avg bus bandwidth")
            && !text.contains("Test failure")
    }),
    ("cloudai, hosts", |text| {
        let devices: Vec<&str> = text
            .lines()
            .filter(|l| ["Rank", "device", "NVIDIA"].iter().all(|word| l.contains(word)))
            .collect();
        devices.len() == 2
            && devices.iter().all(|l| l.split(" on ").nth(1).unwrap().trim_start().starts_with("vm "))
    }),
    ("cluster-health-scanner", |text| {
        rows(text).all(|line| line.split_whitespace().nth(2) == Some("float"))
            && Regex::new(r"# Avg bus bandwidth\s*: (\d+)").unwrap().is_match(text)
    }),
    ("cluster-health-scanner, drain", |text| {
        Regex::new(r" on\s+(\S+)").unwrap().captures_iter(text).all(|found| &found[1] == "vm")
    }),
    ("azurehpc", |text| {
        let first = text.lines().find(|line| line.contains("bandwidth")).unwrap();
        !text.contains("FAILED") && first.split_whitespace().nth(5).unwrap().parse::<f64>().is_ok()
    }),
    ("oci-hpc", |text| {
        text.lines()
            .filter(|line| line.contains("Avg bus bandwidth"))
            .all(|l| l.split_whitespace().nth(5).unwrap().parse::<f64>().is_ok())
    }),
    ("gcm", |text| {
        let line = text.lines().find(|line| line.contains("Avg bus bandwidth")).unwrap();
        Regex::new(r"\d+(\.\d+)?").unwrap().find(line).unwrap().start() == "# Avg bus bandwidth    : ".len()
    }),
    ("awsome, shell", |text| {
        text.lines()
            .filter(|l| Regex::new(r"^\s+[0-9]").unwrap().is_match(l))
            .all(|line| line.split_whitespace().rev().nth(1).unwrap().parse::<f64>().is_ok())
    }),
    ("awsome, csv", |text| {
        every_row(
            text,
            r"^\s*(\d+)\s+(\d+)\s+(float|double|int|half)\s+(sum|prod|max|min|none)\s+(-?\d+)(\s+\d+\.\d+){3}\s+(\d+|N/A)(\s+\d+\.\d+){3}\s+(\d+|N/A)\s*$",
        )
    }),
    ("ramble", |text| {
        every_row(
            text,
            r"^\s+\d+\s+\d+\s+\w+\s+\w+\s+[-0-9]+(\s+[0-9.]{2,}){3}\s+\S+(\s+[0-9.]{2,}){3}\s+\S+$",
        )
    }),
    ("PerfKitBenchmarker", |text| text.matches("Avg bus bandwidth").count() == 1),
    ("sichek", |text| {
        let line = text.lines().find(|line| line.contains("Avg bus bandwidth")).unwrap();
        line.split_once(':').unwrap().1.split_whitespace().next().unwrap().parse::<f64>().is_ok()
    }),
    ("FlagPerf", |text| {
        let line = text.lines().find(|line| line.contains("# Avg bus bandwidth")).unwrap();
        line.split_whitespace().last().unwrap().parse::<f64>().is_ok()
    }),
    ("nccl-tests-cluster", |text| text.matches("# Collective test starting: all_reduce_perf\n").count() == 1),
    ("nccl-benchmark-on-alps", |text| {
        text.contains("\n#       size ") && text.contains("\n# Out of bounds values")
    }),
    ("strict sanity", |text| Regex::new(r"(?m)^# Out of bounds values : 0\s*OK$").unwrap().is_match(text)),
];

#[test]
fn the_tools_that_read_nccl_tests_read_us() {
    let mut table = fixture::table(&fixture::text("all_reduce.txt"));
    let named = |rank| Verdict::Named { rank, gap_us: 18.2, spread_us: 1.0, agreeing: 5, cases: 6 };
    table.outcome.critical = Critical { longest: named(0), last_to_arrive: Some(named(1)) };
    let ours = render(&table);
    for (tool, reader) in READERS {
        assert!(reader(&ours), "{tool} cannot read\n{ours}");
    }
}

#[test]
fn an_injected_run_says_so() {
    let mut preamble = fixture::preamble();
    assert!(!opening(&preamble).contains("injected"));
    preamble.injected = vec!["late:1:200us".to_owned()];
    let text = opening(&preamble);
    assert_eq!(text.lines().nth(1), Some("# NOT A MEASUREMENT: a fault is injected, late:1:200us"));
    let json = super::super::nccl_json::head(&preamble).unwrap() + "]}";
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["injected"], serde_json::json!(["late:1:200us"]));
}
