//! nccl-tests' JSON (`-J`, version 3), equal to its own after parsing, keys in the same order.
//!
//! The file is `head` + rows + `tail`, and complete after every row: the sink writes row and tail over the old
//! tail. Source: nccl-tests 2.19.6, `src/util.cu`. Differences stand in docs/FORMAT.md.

use serde::{Serialize, Serializer};

use super::{Config, Outcome, Preamble, Site};
use crate::aggregate::{Cell, PerIteration, Row, Wrong};
use crate::backend::Kind;
use crate::error::{Error, Result};
use crate::vocab::Placement;

/// nccl-tests' `JSON_FILE_VERSION`.
const VERSION: u32 = 3;

/// Where a run stands.
#[derive(Clone, Copy, Debug)]
pub enum State<'a> {
    /// Rows may follow. If nothing follows, nothing in the file says that it passed.
    Running,
    /// It came to its end.
    Finished(&'a Outcome),
    /// It did not; the reasons, and the local time.
    Failed {
        /// One text per failure.
        errors: &'a [String],
        /// `%Y-%m-%d %H:%M:%S`.
        end_time: &'a str,
    },
}

/// A number as `%lf` prints it, six decimals, so that both files parse to one value.
#[derive(Clone, Copy)]
struct Lf(f64);

impl Serialize for Lf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match format!("{:.6}", self.0).parse::<f64>() {
            Ok(rounded) if rounded.is_finite() => serializer.serialize_f64(rounded),
            _ => serializer.serialize_str("nan"),
        }
    }
}

/// `"true"` or `"false"`, as strings.
struct Bool(bool);

impl Serialize for Bool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.0 { "true" } else { "false" })
    }
}

#[derive(Serialize)]
struct Head<'a> {
    version: u32,
    start_time: &'a str,
    args: &'a [String],
    env: Vec<String>,
    nccl_version: u32,
    /// Ours alone, and only where the numbers are not NCCL's.
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    /// Ours alone, and only where a fault was put in on purpose.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    injected: &'a [String],
    config: Settings<'a>,
}

#[derive(Serialize)]
struct Settings<'a> {
    nthreads: u32,
    ngpus: u32,
    minimum_bytes: u64,
    maximum_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_factor: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_bytes: Option<u64>,
    warmup_iters: u64,
    iterations: u64,
    aggregated_iterations: u64,
    validation: u64,
    graph: u64,
    blocking_collectives: Bool,
    per_iter_timing: Bool,
    per_iter_skip: u64,
    parallel_init: Bool,
    devices: Vec<DeviceLine<'a>>,
}

#[derive(Serialize)]
struct DeviceLine<'a> {
    rank: u32,
    group: u32,
    pid: u32,
    hostname: &'a str,
    device: u32,
    device_hex: &'a str,
    device_info: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    size: u64,
    count: u64,
    r#type: &'static str,
    redop: &'a str,
    root: String,
    out_of_place: Option<Body>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_place_per_iter: Option<Statistics>,
    in_place: Option<Body>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_place_per_iter: Option<Statistics>,
    actual_iterations: u64,
    experiment_name: &'static str,
}

#[derive(Serialize)]
struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_time: Option<Lf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Lf>,
    alg_bw: Lf,
    bus_bw: Lf,
    nwrong: Option<Lf>,
}

#[derive(Serialize)]
struct Statistics {
    skipped_iterations: usize,
    min_us: Lf,
    max_us: Lf,
    avg_us: Lf,
    p50_us: Lf,
    p95_us: Lf,
    p99_us: Lf,
    stdev_us: Lf,
    cv_pct: Lf,
    times_us: Vec<Lf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_process_max_times_us: Option<Vec<Vec<Lf>>>,
}

#[derive(Serialize)]
struct Tail<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_bounds: Option<Bounds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    average_bus_bandwidth: Option<Mean>,
    errors: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<&'a str>,
}

#[derive(Serialize)]
struct Stub<'a> {
    version: u32,
    errors: &'a [String],
}

#[derive(Serialize)]
struct Bounds {
    count: u64,
    okay: Bool,
}

#[derive(Serialize)]
struct Mean {
    bandwidth: Lf,
    okay: &'static str,
}

/// What the file holds before the first row: an object that is still open, and its list of results.
pub fn head(preamble: &Preamble) -> Result<String> {
    let mut text = encode(&Head {
        version: VERSION,
        start_time: &preamble.start_time,
        args: &preamble.args,
        env: preamble.env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        nccl_version: preamble.library.code,
        injected: &preamble.injected,
        backend: (preamble.backend != Kind::Nccl).then(|| format!("{} (NOT NCCL)", preamble.backend)),
        config: settings(&preamble.config, &preamble.sites),
    })?;
    text.truncate(text.len() - 1);
    text.push_str(",\"results\":[");
    Ok(text)
}

/// One row; `index` counts from 0 and decides about the comma.
pub fn row(config: &Config, row: &Row, index: u64) -> Result<String> {
    let cell = |placement| row.cells.iter().find(move |cell| cell.placement == placement);
    let (out, within) = (cell(Placement::OutOfPlace), cell(Placement::InPlace));
    let stats = |cell: Option<&Cell>| cell.and_then(|cell| cell.per_iteration.as_ref()).map(iterations);
    let line = encode(&Line {
        size: row.size_bytes,
        count: row.count,
        r#type: row.dtype.name(),
        redop: &row.redop,
        root: format!("{:6}", row.root),
        out_of_place: out.map(|cell| body(config, cell)),
        out_of_place_per_iter: stats(out),
        in_place: within.map(|cell| body(config, cell)),
        in_place_per_iter: stats(within),
        actual_iterations: row.iterations,
        experiment_name: "",
    })?;
    Ok(if index == 0 { line } else { format!(",{line}") })
}

/// What closes the file after any row.
pub fn tail(state: State<'_>) -> Result<String> {
    let unfinished = ["the run did not finish".to_owned()];
    let tail = match state {
        State::Running => {
            Tail { out_of_bounds: None, average_bus_bandwidth: None, errors: &unfinished, end_time: None }
        }
        State::Failed { errors, end_time } => {
            Tail { out_of_bounds: None, average_bus_bandwidth: None, errors, end_time: Some(end_time) }
        }
        State::Finished(outcome) => Tail {
            out_of_bounds: Some(Bounds {
                count: outcome.out_of_bounds,
                okay: Bool(outcome.out_of_bounds == 0),
            }),
            average_bus_bandwidth: Some(Mean {
                bandwidth: Lf(outcome.average_busbw_gbps),
                okay: match outcome.reaches_min() {
                    None => "unchecked",
                    Some(true) => "true",
                    Some(false) => "false",
                },
            }),
            errors: std::slice::from_ref(&outcome.library_error),
            end_time: Some(&outcome.end_time),
        },
    };
    Ok(format!("],{}\n", &encode(&tail)?[1..]))
}

/// A whole file of a run that never started.
pub fn stub(errors: &[String]) -> Result<String> {
    Ok(encode(&Stub { version: VERSION, errors })? + "\n")
}

fn encode(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Setup(format!("cannot write JSON: {error}")))
}

fn settings<'a>(config: &Config, sites: &'a [Site]) -> Settings<'a> {
    Settings {
        nthreads: config.threads,
        ngpus: config.gpus,
        minimum_bytes: config.min_bytes,
        maximum_bytes: config.max_bytes,
        step_factor: (config.step_factor > 1.0).then(|| whole_or_not(config.step_factor)).flatten(),
        step_bytes: (config.step_factor <= 1.0).then_some(config.step_bytes),
        warmup_iters: config.warmup,
        iterations: config.iterations,
        aggregated_iterations: config.aggregated,
        validation: config.checks,
        graph: config.graph,
        blocking_collectives: Bool(config.blocking > 0),
        per_iter_timing: Bool(config.per_iteration),
        per_iter_skip: config.skip,
        parallel_init: Bool(config.parallel_init),
        devices: sites.iter().map(device).collect(),
    }
}

/// nccl-tests has whole factors only; ours may have a fraction.
fn whole_or_not(factor: f64) -> Option<serde_json::Number> {
    if factor.fract() == 0.0 { Some((factor as u64).into()) } else { serde_json::Number::from_f64(factor) }
}

fn device(site: &Site) -> DeviceLine<'_> {
    DeviceLine {
        rank: site.rank,
        group: site.group,
        pid: site.pid,
        hostname: &site.host,
        device: site.device.index,
        device_hex: &site.device.bus_id,
        device_info: &site.device.name,
    }
}

fn body(config: &Config, cell: &Cell) -> Body {
    Body {
        cpu_time: config.cputime.then_some(Lf(cell.shown_us)),
        time: (!config.cputime).then_some(Lf(cell.shown_us)),
        alg_bw: Lf(cell.algbw_gbps),
        bus_bw: Lf(cell.busbw_gbps),
        nwrong: match cell.wrong {
            Wrong::Count(wrong) => Some(Lf(wrong as f64)),
            Wrong::NotChecked | Wrong::Undefined | Wrong::Blind(_) => None,
        },
    }
}

fn iterations(stats: &PerIteration) -> Statistics {
    let list = |times: &[f64]| times.iter().copied().map(Lf).collect::<Vec<_>>();
    Statistics {
        skipped_iterations: stats.skipped,
        min_us: Lf(stats.min_us),
        max_us: Lf(stats.max_us),
        avg_us: Lf(stats.avg_us),
        p50_us: Lf(stats.p50_us),
        p95_us: Lf(stats.p95_us),
        p99_us: Lf(stats.p99_us),
        stdev_us: Lf(stats.stdev_us),
        cv_pct: Lf(stats.cv_pct),
        times_us: list(&stats.times_us),
        per_process_max_times_us: (stats.per_process_us.len() > 1)
            .then(|| stats.per_process_us.iter().map(|times| list(times)).collect()),
    }
}

#[cfg(test)]
#[path = "nccl_json_tests.rs"]
mod tests;
