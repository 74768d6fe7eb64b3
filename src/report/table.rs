//! nccl-tests' text table, to the byte: an interface of some twenty tools (docs/FORMAT.md). Pure: values to text.
//!
//! Every function returns whole lines. Formats: nccl-tests 2.19.6, `src/util.cu`.

use std::fmt::Write as _;

use super::{Config, MemoryUse, Outcome, Preamble, Site, printf};
use crate::aggregate::{Cell, Critical, Row, Verdict, Wrong};
use crate::backend::Kind;
use crate::vocab::{GATE, Placement};

/// Formats into a `String`, which cannot fail.
macro_rules! put {
    ($text:expr, $($arguments:tt)*) => { let _ = write!($text, $($arguments)*); };
}

/// The first lines, up to `# Using devices`.
pub fn opening(preamble: &Preamble) -> String {
    let config = &preamble.config;
    let (step, unit) = if config.step_factor > 1.0 {
        (config.step_factor.to_string(), "factor")
    } else {
        (config.step_bytes.to_string(), "bytes")
    };
    let mut text = version(preamble);
    for fault in &preamble.injected {
        put!(text, "# NOT A MEASUREMENT: a fault is injected, {fault}\n");
    }
    put!(text, "# Collective test starting: {}\n", preamble.program);
    put!(
        text,
        "# nThread {} nGpus {} minBytes {} maxBytes {} step: {step}({unit}) warmup iters: {} iters: {} \
         agg iters: {} validation: {} graph: {} unalign: {}\n",
        config.threads,
        config.gpus,
        config.min_bytes,
        config.max_bytes,
        config.warmup,
        config.iterations,
        config.aggregated,
        config.checks,
        config.graph,
        config.unalign,
    );
    conditions(&mut text, config);
    text.push_str("#\n# Using devices\n");
    text
}

/// Our own first line. Whatever is not NCCL says so here.
fn version(preamble: &Preamble) -> String {
    let library = &preamble.library;
    let what = match preamble.backend {
        Kind::Nccl => format!("nccl-library={}", library.code),
        Kind::Mpi => format!("NOT NCCL library={} {}", library.name, library.version),
        Kind::Sim => format!("NOT NCCL, NOT A MEASUREMENT library={} {}", library.name, library.version),
    };
    format!("# critrank {} backend={} {what}\n", preamble.version, preamble.backend)
}

/// Lines that some options add; each ends with a blank.
fn conditions(text: &mut String, config: &Config) {
    text.push_str(match config.blocking {
        1 => "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n",
        2 => "# Blocking Enabled: wait after each inner iteration (-m), no barrier \n",
        3 => "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier \n",
        GATE => "# Gate Enabled: all ranks' GPUs start each outer iteration (-n) at one time; time is on the GPU, behind the gate \n",
        _ => "",
    });
    if config.per_iteration {
        text.push_str("# Per-Iteration Report: CUDA event timing; i_* uses max over process rows");
        if config.skip > 0 {
            put!(text, "; summary skips first {} iterations", config.skip);
        }
        text.push_str(" \n");
    }
    if config.parallel_init {
        text.push_str("# Parallel Init Enabled: threads call into NcclInitRank concurrently \n");
    }
}

/// One line per rank. ` on ` stands here and nowhere else: a script takes what follows it for a host's name.
pub fn devices(sites: &[Site]) -> String {
    let mut text = String::new();
    for site in sites {
        let Site { rank, group, pid, host, device, .. } = site;
        put!(
            text,
            "#  Rank {rank:2} Group {group:2} Pid {pid:6} on {host:>10} device {:2} [{}] {}\n",
            device.index,
            device.bus_id,
            device.name,
        );
    }
    text
}

/// The largest size was cut to what memory holds.
pub fn reduced(max_bytes: u64) -> String {
    format!("#\n# Reducing maxBytes to {max_bytes} due to memory limitation\n")
}

/// The three lines above the rows, and the `#` before them.
pub fn header(config: &Config) -> String {
    let columns = |five: [&str; 5], cell: &[&str], last: &str| {
        let [size, count, dtype, redop, root] = five;
        let mut text = format!("# {size:>10}  {count:>12}  {dtype:>8}  {redop:>6}  {root:>6}");
        for _ in Placement::BOTH {
            for (at, name) in cell.iter().enumerate() {
                let width = if matches!(at, 1..=3) { 6 } else { 7 };
                put!(text, "  {name:>width$}");
            }
        }
        let width = if config.timestamps { 19 } else { 0 };
        put!(text, " {last:>width$}\n");
        text
    };
    let per_iteration = if config.per_iteration { 8 } else { 4 };
    let time = if config.cputime { "cputime" } else { "time" };
    let names = [time, "algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%"];
    let units = ["(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(%)"];
    let (stamp, stamp_format) = if config.timestamps { ("timestamp", "%Y-%m-%d %H:%M:%S") } else { ("", "") };
    let above = if config.per_iteration {
        "              out-of-place (+ per-iteration)                                in-place (+ per-iteration)"
    } else {
        "           out-of-place                       in-place          "
    };
    let blank = " ".repeat(10 + 2 + 12 + 2 + 8 + 2 + 6 + 2 + 6);
    format!(
        "#\n# {blank}{above}\n{}{}",
        columns(["size", "count", "type", "redop", "root"], &names[..per_iteration], stamp),
        columns(["(B)", "(elements)", "", "", ""], &units[..per_iteration], stamp_format),
    )
}

/// Between two epochs, counted from 0: the rows that follow have new communicators.
pub fn epoch(config: &Config, epoch: u64) -> String {
    format!("# Epoch {} of {}: new communicators\n", epoch + 1, config.epochs)
}

/// One row.
pub fn row(config: &Config, row: &Row) -> String {
    let Row { size_bytes, count, dtype, redop, root, .. } = row;
    let mut text = format!("{size_bytes:12}  {count:12}  {dtype:>8}  {redop:>6}  {root:6}");
    for placement in Placement::BOTH {
        let cell = row.cells.iter().find(|cell| cell.placement == placement);
        body(&mut text, cell);
        if config.per_iteration {
            iterations(&mut text, cell);
        }
    }
    if config.timestamps {
        put!(text, "{:>21}", row.timestamp);
    }
    text.push('\n');
    text
}

/// In nccl-tests one column narrower than the number that it stands for.
const UNCHECKED: &str = "    N/A";

/// Time, bandwidths and check of one placement; `N/A` where there was none.
fn body(text: &mut String, cell: Option<&Cell>) {
    let Some(cell) = cell else {
        put!(text, "  {:>7}  {:>6}  {:>6}{UNCHECKED}", "N/A", "N/A", "N/A");
        return;
    };
    put!(
        text,
        "  {}  {}  {}",
        printf::fitted(cell.shown_us, 7),
        printf::fitted(cell.algbw_gbps, 6),
        printf::fitted(cell.busbw_gbps, 6),
    );
    match cell.wrong {
        Wrong::Count(wrong) => {
            put!(text, "  {:>6}", printf::general(wrong as f64));
        }
        Wrong::NotChecked | Wrong::Undefined | Wrong::Blind(_) => text.push_str(UNCHECKED),
    }
}

/// The four columns of `-I`.
fn iterations(text: &mut String, cell: Option<&Cell>) {
    let columns = match cell.and_then(|cell| cell.per_iteration.as_ref()) {
        Some(stats) => [stats.min_us, stats.max_us, stats.p99_us, stats.cv_pct].map(|v| printf::fitted(v, 7)),
        None => ["N/A"; 4].map(|text| format!("{text:>7}")),
    };
    for column in columns {
        put!(text, "  {column}");
    }
}

/// All that follows the rows, up to the blank line or the library's error.
pub fn footer(preamble: &Preamble, outcome: &Outcome) -> String {
    let word = |good: bool| if good { "OK" } else { "FAILED" };
    let gate = outcome.reaches_min().map_or("", word);
    let mut text = format!(
        "# Out of bounds values : {} {}\n# Avg bus bandwidth    : {} {gate}\n",
        outcome.out_of_bounds,
        word(outcome.out_of_bounds == 0),
        printf::general(outcome.average_busbw_gbps),
    );
    put!(text, "# Critical rank        : {}\n#\n", critical(&outcome.critical, &preamble.sites));
    put!(text, "# Collective test concluded: {}\n", preamble.program);
    if let Some(memory) = outcome.memory {
        put!(text, "# GPU memory usage     : {}\n", memory_use(memory));
    }
    text.push_str("#\n");
    match outcome.library_error.as_str() {
        "" => text.push('\n'),
        error => {
            put!(text, "# error: {error}\n");
        }
    }
    text
}

fn memory_use(memory: MemoryUse) -> String {
    let parts = [
        ("Initialization", memory.init_bytes),
        ("User-Allocated", memory.user_bytes),
        ("Collective", memory.collective_bytes),
    ];
    let mut text = String::new();
    for (name, bytes) in parts {
        put!(text, "{name} {} | ", printf::memory(bytes));
    }
    let total = parts.iter().map(|(_, bytes)| bytes).sum();
    put!(text, "Total  {}", printf::memory(total));
    text
}

/// The critical rank in words; no unit but µs, so that no tool takes it for the average.
pub fn critical(critical: &Critical, sites: &[Site]) -> String {
    let longest = verdict(&critical.longest, "over", sites);
    let Some(last) = &critical.last_to_arrive else {
        return match critical.longest {
            Verdict::Named { .. } => format!("longest {longest}"),
            _ => longest,
        };
    };
    match (&critical.longest, last) {
        (Verdict::Named { .. }, _) | (_, Verdict::Named { .. }) => {
            format!("longest {longest}, last to arrive {}", verdict(last, "under", sites))
        }
        _ => longest,
    }
}

fn verdict(verdict: &Verdict, side: &str, sites: &[Site]) -> String {
    match verdict {
        Verdict::Named { rank, gap_us, .. } => {
            format!("{} {gap_us:.1} us {side} the next", ranked(*rank, sites))
        }
        Verdict::NotDistinguishable { gap_us, spread_us, cases, distinct } if distinct * 2 > *cases => {
            format!("not distinguishable (sizes disagree; gap {gap_us:.1} us, spread {spread_us:.1} us)")
        }
        Verdict::NotDistinguishable { gap_us, spread_us, .. } => {
            format!("not distinguishable (gap {gap_us:.1} us, spread {spread_us:.1} us)")
        }
        Verdict::TooFewSamples { cycles } => {
            let plural = if *cycles == 1 { "" } else { "s" };
            format!("not distinguishable ({cycles} cycle{plural}; run -N 5 or -I 1)")
        }
        Verdict::OneRank => "one rank".to_owned(),
        Verdict::SeveralGroups => "not compared between groups".to_owned(),
    }
}

/// The first `most` of several things, and how many more there are.
pub fn listed(all: &[String], most: usize) -> String {
    let shown = all.iter().take(most).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `3 (node2, GPU 1)`, or the bare number where the site is not known.
pub fn ranked(rank: u32, sites: &[Site]) -> String {
    format!("{rank}{}", sites.iter().find(|site| site.rank == rank).map(place).unwrap_or_default())
}

/// ` (node2, GPU 1)`: never `on node2`, which a script would drain.
pub fn place(site: &Site) -> String {
    if site.device.compute_capability > 0 {
        format!(" ({}, GPU {})", site.host, site.device.index)
    } else {
        format!(" ({})", site.host)
    }
}

/// What tools look for when a library call failed; `library` is NCCL, CUDA or MPI, `place` where in the run.
pub fn library_failure(host: &str, library: &str, place: &str, text: &str) -> String {
    format!("{host}: Test {library} failure {place} '{text}'\n")
}

/// What tools look for when a process ends a run.
pub fn test_failure(host: &str, pid: u32, place: &str) -> String {
    format!(" .. {host} pid {pid}: Test failure {place}\n")
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
