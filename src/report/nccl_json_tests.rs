use serde_json::Value;

use super::*;
use crate::report::Outcome;
use crate::report::fixture;

const FIXTURES: &[&str] = &["all_gather", "all_reduce", "alltoall", "broadcast", "iter", "sendrecv"];

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn read_config(from: &Value) -> Config {
    let mut config = fixture::config();
    config.threads = whole(&from["nthreads"]) as u32;
    config.gpus = whole(&from["ngpus"]) as u32;
    config.min_bytes = whole(&from["minimum_bytes"]);
    config.max_bytes = whole(&from["maximum_bytes"]);
    config.step_factor = whole(&from["step_factor"]) as f64;
    config.warmup = whole(&from["warmup_iters"]);
    config.iterations = whole(&from["iterations"]);
    config.aggregated = whole(&from["aggregated_iterations"]);
    config.checks = whole(&from["validation"]);
    config.graph = whole(&from["graph"]);
    config.blocking = u8::from(from["blocking_collectives"] == "true");
    config.per_iteration = from["per_iter_timing"] == "true";
    config.skip = whole(&from["per_iter_skip"]);
    config.parallel_init = from["parallel_init"] == "true";
    config
}

fn read_preamble(from: &Value) -> Preamble {
    let mut preamble = fixture::preamble();
    preamble.start_time = word(&from["start_time"]);
    preamble.args = from["args"].as_array().unwrap().iter().map(word).collect();
    let pair = |value: &Value| {
        let text = word(value);
        let (name, value) = text.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    preamble.env = from["env"].as_array().unwrap().iter().map(pair).collect();
    preamble.library.code = whole(&from["nccl_version"]) as u32;
    preamble.config = read_config(&from["config"]);
    let site = |value: &Value| {
        let mut site = fixture::site(whole(&value["rank"]) as u32, value["hostname"].as_str().unwrap());
        site.group = whole(&value["group"]) as u32;
        site.pid = whole(&value["pid"]) as u32;
        site.device.index = whole(&value["device"]) as u32;
        site.device.bus_id = word(&value["device_hex"]);
        site.device.name = word(&value["device_info"]);
        site
    };
    preamble.sites = from["config"]["devices"].as_array().unwrap().iter().map(site).collect();
    preamble
}

fn read_stats(from: &Value) -> Option<PerIteration> {
    let real = |name: &str| from[name].as_f64().unwrap();
    let list = |value: &Value| value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    from.is_object().then(|| PerIteration {
        skipped: whole(&from["skipped_iterations"]) as usize,
        min_us: real("min_us"),
        max_us: real("max_us"),
        avg_us: real("avg_us"),
        p50_us: real("p50_us"),
        p95_us: real("p95_us"),
        p99_us: real("p99_us"),
        stdev_us: real("stdev_us"),
        cv_pct: real("cv_pct"),
        times_us: list(&from["times_us"]),
        per_process_us: from["per_process_max_times_us"].as_array().unwrap().iter().map(list).collect(),
    })
}

fn read_row(from: &Value) -> Row {
    let cell = |placement, name: &str| {
        let real = |field: &str| from[name][field].as_f64();
        let wrong = real("nwrong").map_or(Wrong::Undefined, |wrong| Wrong::Count(wrong as u64));
        let gbps = [real("alg_bw").unwrap(), real("bus_bw").unwrap()];
        let mut cell = fixture::cell(placement, real("time").unwrap(), gbps, wrong);
        cell.per_iteration = read_stats(&from[format!("{name}_per_iter")]);
        cell
    };
    Row {
        requested_bytes: whole(&from["size"]),
        size_bytes: whole(&from["size"]),
        count: whole(&from["count"]),
        dtype: from["type"].as_str().unwrap().parse().unwrap(),
        redop: word(&from["redop"]),
        root: word(&from["root"]).trim().parse().unwrap(),
        epoch: 0,
        cycle: 0,
        iterations: whole(&from["actual_iterations"]),
        cadence: None,
        timestamp: String::new(),
        cells: vec![cell(Placement::OutOfPlace, "out_of_place"), cell(Placement::InPlace, "in_place")],
    }
}

fn read_outcome(from: &Value) -> Outcome {
    let mut outcome = fixture::outcome();
    outcome.out_of_bounds = whole(&from["out_of_bounds"]["count"]);
    outcome.average_busbw_gbps = from["average_bus_bandwidth"]["bandwidth"].as_f64().unwrap();
    outcome.end_time = word(&from["end_time"]);
    outcome
}

/// The file as it stands after `rows` rows.
fn file(preamble: &Preamble, rows: &[Row], state: State<'_>) -> String {
    let mut text = head(preamble).unwrap();
    for (index, line) in rows.iter().enumerate() {
        text += &row(&preamble.config, line, index as u64).unwrap();
    }
    text + &tail(state).unwrap()
}

fn read(name: &str) -> (Value, Preamble, Vec<Row>, Outcome) {
    let real: Value = serde_json::from_str(&fixture::text(&format!("{name}.json"))).unwrap();
    let rows: Vec<Row> = real["results"].as_array().unwrap().iter().map(read_row).collect();
    let (preamble, outcome) = (read_preamble(&real), read_outcome(&real));
    (real, preamble, rows, outcome)
}

#[test]
fn equal_to_nccl_tests_after_parsing_with_keys_in_order() {
    for name in FIXTURES {
        let (real, preamble, rows, outcome) = read(name);
        let ours: Value = serde_json::from_str(&file(&preamble, &rows, State::Finished(&outcome))).unwrap();
        // Objects keep their order, so equal texts mean equal values in equal order.
        assert_eq!(ours.to_string(), real.to_string(), "{name}");
    }
}

#[test]
fn complete_after_every_row_and_no_pass_before_the_end() {
    let (_, preamble, rows, _) = read("all_reduce");
    for count in 0..3 {
        let text = file(&preamble, &rows[..count], State::Running);
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["results"].as_array().unwrap().len(), count);
        assert_eq!(parsed["errors"][0], "the run did not finish");
        for key in ["out_of_bounds", "average_bus_bandwidth", "end_time"] {
            assert!(parsed.get(key).is_none(), "{key}");
        }
    }
    let errors = ["rank 3 is silent: \"stuck\"\n".to_owned()];
    let state = State::Failed { errors: &errors, end_time: "2026-11-30 12:02:46" };
    let parsed: Value = serde_json::from_str(&file(&preamble, &rows[..1], state)).unwrap();
    assert_eq!(parsed["errors"][0], errors[0]);
    assert_eq!(parsed["end_time"], "2026-11-30 12:02:46");
    assert!(parsed.get("out_of_bounds").is_none());
}

#[test]
fn options_change_keys_as_in_nccl_tests() {
    let (_, mut preamble, mut rows, mut outcome) = read("iter");
    preamble.config.cputime = true;
    preamble.config.step_factor = 1.0;
    preamble.config.blocking = 3;
    rows[0].cells[0].per_iteration.as_mut().unwrap().per_process_us.truncate(1);
    rows[0].cells[1].wrong = Wrong::Count(5);
    rows[0].root = 0;
    outcome.out_of_bounds = 2;
    outcome.min_busbw_gbps = Some(1000.0);
    let parsed: Value =
        serde_json::from_str(&file(&preamble, &rows[..1], State::Finished(&outcome))).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let line = &parsed["results"][0];
    assert_eq!(keys(&line["in_place"]), ["cpu_time", "alg_bw", "bus_bw", "nwrong"]);
    assert_eq!(line["in_place"]["nwrong"].to_string(), "5.0");
    assert!(!keys(&line["out_of_place_per_iter"]).contains(&"per_process_max_times_us".to_owned()));
    assert!(keys(&line["in_place_per_iter"]).contains(&"per_process_max_times_us".to_owned()));
    assert_eq!(line["root"], "     0");
    assert_eq!(parsed["config"]["step_bytes"], 1 << 20);
    assert!(parsed["config"].get("step_factor").is_none());
    assert_eq!(parsed["config"]["blocking_collectives"], "true");
    assert_eq!(parsed["out_of_bounds"]["okay"], "false");
    assert_eq!(parsed["average_bus_bandwidth"]["okay"], "false");
    assert!(parsed.get("backend").is_none());
}

#[test]
fn other_backends_say_so() {
    let (_, mut preamble, ..) = read("all_reduce");
    preamble.backend = Kind::Sim;
    preamble.library.code = 0;
    preamble.config.step_factor = 1.5;
    let parsed: Value = serde_json::from_str(&file(&preamble, &[], State::Running)).unwrap();
    assert_eq!(parsed["backend"], "sim (NOT NCCL)");
    assert_eq!(parsed["nccl_version"], 0);
    assert_eq!(parsed["config"]["step_factor"], 1.5);
}

#[test]
fn what_is_no_number_is_still_json() {
    assert_eq!(
        serde_json::to_string(&[Lf(f64::NAN), Lf(f64::INFINITY), Lf(1e-9)]).unwrap(),
        r#"["nan","nan",0.0]"#
    );
}
