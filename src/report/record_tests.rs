use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::aggregate::{
    Arrivals, Basis, Case, Compared, Critical, Cycle, Gathering, Ladder, Last, MarkTimer, OnGpu, RankSample,
    Ratio, SeenAt, Series, Side as Compare, Spread, Standing, Verdict, Wrong,
};
use crate::backend::transport::Side;
use crate::judge::{self, Blame, Finding, Matrix};
use crate::report::{MemoryUse, fixture};
use crate::stats::{Cycles, Epochs, Fit, Iterations, Reason, Segment, State, Stop};
use crate::verify::Tally;
use crate::vocab::Placement;

fn sample(rank: u32, us: f64) -> RankSample {
    let times = vec![us, us + 0.1];
    RankSample {
        rank,
        total_us: us,
        cpu_us: us / 3.0,
        series: Series {
            enqueue_us: times.clone(),
            event_us: times.clone(),
            completion_us: times.clone(),
            arrival_us: vec![0.0, 20.5],
            gpu_us: vec![[1.0, 15.5]],
            exit_us: vec![41.25],
            interval_us: times.clone(),
            blocks_us: times,
        },
        tally: Some(Tally { wrong_a: u64::from(rank), ..Tally::default() }),
    }
}

fn row() -> Row {
    let mut row = fixture::table(&fixture::text("iter.txt")).rows.remove(0);
    for cell in &mut row.cells {
        cell.ranks = vec![sample(0, 20.1), sample(1, 19.7)];
        cell.wrong_ranks = vec![1];
        cell.coverage = Some(0.5);
        cell.algorithm = Some("RING LL 2 channels".to_owned());
        cell.predicted_us = Some(12.5);
        cell.unpredicted = Some("one rank".to_owned());
        cell.arrivals = Some(some_arrivals());
        cell.stop = statistics().each[0].stop;
        let stats = cell.per_iteration.as_mut().unwrap();
        stats.times_us = vec![20.1, 20.2];
        stats.per_process_us = vec![vec![20.1, 20.2], vec![19.7, 19.8]];
    }
    row
}

/// Of 7 cycles of 400 iterations at two levels behind a warm-up, with every optional field.
fn statistics() -> Statistics {
    let series = |cycle: u32| {
        let level = |at: u32| if at < 3 { 500.5 } else { 100.5 + f64::from(7 * (at % 2)) };
        (0..400).map(|at| level(at) + f64::from(at * 37 % 101) / 1e3 + f64::from(cycle) / 1e2).collect()
    };
    let each: Vec<Cycle> = (0..7)
        .map(|cycle| {
            let series: Vec<f64> = series(cycle);
            let of = Iterations::of(&series).unwrap();
            let stop = Stop {
                reason: Reason::Converged,
                samples: 400,
                median_us: of.median_us,
                interval: of.interval,
            };
            Cycle {
                epoch: 0,
                cycle: u64::from(cycle),
                time_us: of.median_us,
                stop: Some(stop),
                iterations: Some(of),
            }
        })
        .collect();
    let times: Vec<f64> = each.iter().map(|cycle| cycle.time_us).collect();
    let iterations: Vec<Iterations> = each.iter().filter_map(|cycle| cycle.iterations.clone()).collect();
    let halves = [times[..4].to_vec(), times[4..].to_vec()];
    let over = Cycles { epochs: Epochs::of(&halves), ..Cycles::of(&times, &iterations).unwrap() };
    Statistics {
        requested_bytes: 8,
        size_bytes: 8,
        dtype: Dtype::Float,
        redop: "sum".to_owned(),
        root: -1,
        placement: Placement::OutOfPlace,
        basis: Basis::MedianIteration,
        over,
        each,
    }
}

fn matrix() -> Event {
    let link = judge::Link {
        from: 0,
        to: 1,
        latency_us: 5.2,
        messages_per_s: 1.5e6,
        one_way_gbps: 40.5,
        both_ways_gbps: 30.5,
        alone_gbps: Some(41.5),
        link_ratio: 1.01,
        times: Some(judge::PairTimes {
            latency_us: vec![5.2],
            message_us: vec![0.6],
            one_way_us: vec![0.025],
            both_ways_us: vec![0.03],
            alone_us: vec![0.024],
        }),
    };
    Event::Matrix(Matrix {
        small_bytes: 8,
        large_bytes: 1024,
        links: vec![link],
        send_ratio: vec![1.01, 1.02],
        recv_ratio: vec![1.01, 0.99],
        noise_ratio: 1.005,
    })
}

fn trail() -> judge::Trail {
    let times_us = vec![vec![10.5, 11.25], vec![9.5]];
    judge::Trail { own_first: true, told_late: Some(1), times_us, stopped: Some("time is up".to_owned()) }
}

fn named() -> judge::Verdict {
    let finding = Finding {
        blame: Blame::SlowSender { rank: 2 },
        ratio: 2.51,
        ratio_low: 2.4,
        ratio_high: 2.66,
        excess_us: 3120.5,
        repeats: 9,
        confirmations: 2,
    };
    judge::Verdict::Named { findings: vec![finding] }
}

/// One of each, with every optional field.
fn events() -> Vec<Event> {
    let mut outcome = fixture::outcome();
    outcome.min_busbw_gbps = Some(100.0);
    outcome.memory = Some(MemoryUse { init_bytes: 1, user_bytes: 2, collective_bytes: 3 });
    outcome.critical = Critical {
        longest: Verdict::Named { rank: 1, gap_us: 18.2, spread_us: 0.4, agreeing: 5, cases: 6 },
        last_to_arrive: Some(Verdict::NotDistinguishable {
            gap_us: 0.1,
            spread_us: 0.4,
            cases: 6,
            distinct: 0,
        }),
    };
    let culprit = Culprit {
        rank: 1,
        host: "node1".to_owned(),
        pid: 1370,
        device: "GPU 1 [0000:00:07]".to_owned(),
        state: "silent".to_owned(),
    };
    vec![
        Event::start(start()),
        Event::Plan(Plan {
            sizes_bytes: vec![8, 16],
            dtypes: vec![Dtype::Float],
            redops: vec!["sum".to_owned()],
            roots: vec![-1],
            reduced_max_bytes: Some(16),
            order: Some(SizeOrder { name: "permuted".to_owned(), seed: 7 }),
        }),
        Event::Epoch { epoch: 1, renewal_us: 450.5 },
        Event::Row(row()),
        Event::Waived { dtype: Dtype::F8e4m3, redop: "sum".to_owned(), reason: "no fp8 here".to_owned() },
        Event::Note { level: "warning".to_owned(), text: "a remark".to_owned() },
        Event::Finding { kind: "wrong_data".to_owned(), ranks: vec![1], text: "rank 1".to_owned() },
        Event::Transport {
            links: vec![Link {
                rank: 0,
                side: Side::Send,
                peer: Some(8),
                transport: "NET/IB/GDRDMA".to_owned(),
                devices: vec!["0(4)".to_owned()],
                channels: 2,
            }],
            unknown: vec!["one rank".to_owned()],
        },
        Event::Finish { exit_code: 0, outcome },
        Event::Failed {
            exit_code: 4,
            phase: "timed".to_owned(),
            size_bytes: 8,
            iteration: 3,
            cause: "rank 1 is silent".to_owned(),
            culprits: vec![culprit],
            end_time: "2026-11-30 12:02:46".to_owned(),
        },
        matrix(),
        Event::Localised { tests: 180, took_us: 7.2e6, verdict: named(), trail: Some(trail()) },
        Event::Localised {
            tests: 45,
            took_us: 0.9e6,
            verdict: judge::Verdict::NotLocalised { reasons: vec!["time is up".to_owned()] },
            trail: None,
        },
        expected(),
        Event::Ended { exit_code: 0, end_time: "2026-11-30 12:02:46".to_owned() },
    ]
    .into_iter()
    .chain(diagnostic_events())
    .collect()
}

/// A preamble with every optional field.
fn start() -> Preamble {
    let injected = vec!["late:1:200us".to_owned()];
    let mut preamble = Preamble { injected, ..fixture::preamble() };
    preamble.config.epochs = 2;
    preamble
}

fn expected() -> Event {
    let side = |scale: f64| Compare {
        median_gbps: scale,
        state: Some(State::Stable),
        units_gbps: vec![scale, 1.01 * scale, 0.99 * scale, scale],
    };
    let case = |placement| Case {
        requested_bytes: 8,
        dtype: Dtype::Float,
        redop: "sum".to_owned(),
        root: -1,
        placement,
    };
    let below = Compared {
        case: case(Placement::OutOfPlace),
        standing: Standing::Below,
        expected: Some(side(40.5)),
        found: side(20.5),
        ratio: Some(Ratio { ratio: 0.506, low: 0.49, high: 0.52, p: 0.04 }),
    };
    let reason = "the record has no such row".to_owned();
    let standing = Standing::CannotTell { reason };
    let untold =
        Compared { case: case(Placement::InPlace), standing, expected: None, ratio: None, ..below.clone() };
    let (record, start_time) = ("healthy.jsonl".to_owned(), "2026-11-30 12:02:43".to_owned());
    Event::Expected { record, start_time, rows: vec![below, untold] }
}

fn statistics_events() -> [Event; 2] {
    [
        Event::Stats(statistics()),
        Event::Model(Model {
            dtype: Dtype::Float,
            redop: "sum".to_owned(),
            root: -1,
            placement: Placement::OutOfPlace,
            fit: Fit {
                segments: vec![Segment {
                    from_bytes: 8,
                    to_bytes: 64,
                    alpha_us: 9.5,
                    us_per_byte: 0.01,
                    worst_residual: 0.02,
                }],
            },
        }),
    ]
}

fn diagnostic_events() -> impl Iterator<Item = Event> {
    arrival_events().into_iter().chain(self_test_events()).chain(statistics_events())
}

fn self_test_events() -> [Event; 4] {
    fn ladder<T: Copy + PartialEq>(fault: T) -> Ladder<T> {
        let mut ladder = Ladder::new(1);
        ladder.push(None, false);
        ladder.push(Some(fault), true);
        ladder
    }
    let placements = vec![Gathering { clock_error_us: 0.25, ranks: vec![sample(0, 9.5), sample(1, 9.75)] }];
    [
        Event::LateTrial(LateTrial { late_by_us: Some(0.5), placements }),
        Event::SlowTrial { lost_pct: Some(20), pairs_us: vec![(12.5, 10.5)] },
        Event::SelfTest(SelfTest::new(8, 1, &ladder(0.5))),
        Event::SelfTestSlow(SelfTestSlow::new((0, 1), 4096, &ladder(20))),
    ]
}

fn arrival_events() -> [Event; 5] {
    let clock =
        ClockState { process: 1, offset_us: -2.5, error_us: 6.4, round_trip_us: 12.8, drift_ppm: 0.1 };
    let timer = Timer { resolution_ns: 20, cost_ns: 21.5 };
    let overhead = Overhead { without_us: 10.5, added_us: 0.25, low_us: 0.125, high_us: 0.5 };
    let named = LateVerdict::Named {
        rank: 1,
        seen_at: SeenAt::Calls,
        share_pct: 99.5,
        late_us: 200.5,
        interval_us: Some([199.5, 201.5]),
        threshold_us: 8.5,
        agreeing: 2,
        cases: 2,
    };
    [
        Event::Clocks { timer, others: vec![clock] },
        Event::LateRank(named),
        Event::LateRank(LateVerdict::NotDistinguishable { threshold_us: 8.5, cases: 2, distinct: 1 }),
        Event::Marks {
            timer: MarkTimer { p50_us: 1.5, p95_us: 1.75, step_us: Some(0.032) },
            pairs_us: vec![1.5, 1.75],
        },
        Event::Overhead { size_bytes: 8, overhead, pairs_us: vec![[10.5, 10.75]] },
    ]
}

fn some_arrivals() -> Arrivals {
    let spread = Spread { p50_us: 2.5, p95_us: Some(3.5), max_us: 9.5 };
    Arrivals {
        clock_error_us: 6.5,
        skew: spread,
        exit_skew: Some(spread),
        makespan: spread,
        from_last: spread,
        last: vec![Last { rank: 1, share_pct: 52.5, behind_us: 0.5 }],
        gpu: Some(OnGpu { clock_error_us: 8.5, skew: spread, makespan: spread, from_last: spread }),
    }
}

fn written(events: &[Event]) -> String {
    events.iter().map(|event| event.line().unwrap()).collect()
}

/// Every path to a value, and the value's type.
fn paths(value: &Value, path: &str, into: &mut BTreeMap<String, &'static str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                paths(value, &format!("{path}.{name}"), into);
            }
        }
        Value::Array(values) => {
            for value in values {
                paths(value, &format!("{path}[]"), into);
            }
        }
        Value::String(_) => drop(into.insert(path.to_owned(), "string")),
        Value::Number(number) if number.is_f64() => drop(into.insert(path.to_owned(), "real")),
        Value::Number(_) => drop(into.insert(path.to_owned(), "integer")),
        Value::Bool(_) => drop(into.insert(path.to_owned(), "bool")),
        Value::Null => drop(into.insert(path.to_owned(), "null")),
    }
}

fn schema() -> BTreeMap<String, &'static str> {
    let mut schema = BTreeMap::new();
    for event in events() {
        let value = serde_json::to_value(&event).unwrap();
        let name = value["event"].as_str().unwrap().to_owned();
        paths(&value, &name, &mut schema);
    }
    schema
}

#[test]
fn the_schema_does_not_change_unnoticed() {
    let lines: Vec<String> = schema().iter().map(|(path, kind)| format!("{path}: {kind}")).collect();
    insta::assert_snapshot!("record_schema", lines.join("\n"));
}

#[test]
fn the_documentation_names_every_field() {
    let text = include_str!("../../docs/FORMAT.md");
    for path in schema().keys() {
        let name = path.rsplit('.').next().unwrap().trim_end_matches("[]");
        assert!(text.contains(&format!("`{name}`")), "docs/FORMAT.md says nothing about `{name}` ({path})");
    }
}

#[test]
fn every_event_comes_back() {
    let record = read(written(&events()).as_bytes()).unwrap();
    assert_eq!(record, Record { events: events(), unreadable: vec![] });
}

#[test]
fn a_killed_run_leaves_a_readable_record() {
    let text = written(&events());
    let whole = text.match_indices('\n').map(|(at, _)| at + 1);
    let first = text.find('\n').unwrap() + 1;
    let ends: Vec<usize> = whole.collect();
    for cut in first..text.len() {
        let record = read(&text.as_bytes()[..cut]).unwrap();
        let lines = ends.iter().filter(|end| **end <= cut + 1).count();
        assert_eq!(record.events.len(), lines, "cut at {cut}");
        assert_eq!(!record.unreadable.is_empty(), !ends.contains(&cut) && !ends.contains(&(cut + 1)));
    }
}

#[test]
fn half_a_line_in_the_middle_hides_only_itself() {
    let text = written(&events()[..1]) + "{\"event\":\"row\",\"coun\n" + &written(&events()[7..8]);
    let record = read(text.as_bytes()).unwrap();
    assert_eq!(record.events, [events().remove(0), events().remove(7)]);
    assert_eq!(record.unreadable, ["{\"event\":\"row\",\"coun"]);
}

#[test]
fn newer_records_of_the_same_schema_can_be_read() {
    let mut text = written(&events()[..1]).replace("\"pid\":", "\"new_field\":[1],\"pid\":");
    text += "\n{\"event\":\"invented_later\",\"x\":1}\n";
    let record = read(text.as_bytes()).unwrap();
    assert_eq!(record.events, [events().remove(0), Event::Unknown]);
}

#[test]
fn what_is_no_record_is_refused() {
    let newer = written(&events()[..1]).replace("\"schema_version\":1", "\"schema_version\":2");
    for (text, word) in
        [("", "no critrank record"), ("{\"a\":1}\n", "no critrank record"), (&newer, "newer critrank")]
    {
        assert!(read(text.as_bytes()).unwrap_err().to_string().contains(word), "{text}");
    }
}

fn time() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..1e9, Just(0.0), Just(f64::MIN_POSITIVE), Just(1e300)]
}

prop_compose! {
    fn any_sample()(
        rank in any::<u32>(), total_us in time(), cpu_us in time(), event_us in vec(time(), 0..4),
        interval_us in vec(time(), 0..4), tally in any::<Option<(u64, u64)>>(),
    ) -> RankSample {
        let series = Series { event_us, interval_us, ..Series::default() };
        let tally = tally.map(|(wrong_a, wrong_b)| Tally { wrong_a, wrong_b, ..Tally::default() });
        RankSample { rank, total_us, cpu_us, series, tally }
    }
}

prop_compose! {
    fn any_row()(
        samples in vec(any_sample(), 0..4), bytes in any::<u64>(), root in any::<i64>(), redop in ".*",
        wrong in prop_oneof![
            any::<u64>().prop_map(Wrong::Count), Just(Wrong::NotChecked), Just(Wrong::Undefined),
            ".*".prop_map(Wrong::Blind),
        ],
        shown_us in time(),
    ) -> Row {
        let mut row = row();
        row.size_bytes = bytes;
        row.root = root;
        row.redop = redop;
        row.cells[0].ranks = samples;
        row.cells[0].wrong = wrong;
        row.cells[0].shown_us = shown_us;
        row.cells[1].per_iteration = None;
        row
    }
}

proptest! {
    #[test]
    fn rows_come_back_bit_for_bit(rows in vec(any_row(), 0..3), text in ".*") {
        let mut events = vec![Event::start(fixture::preamble())];
        events.extend(rows.into_iter().map(Event::Row));
        events.push(Event::Note { level: text.clone(), text });
        let record = read(written(&events).as_bytes()).unwrap();
        prop_assert_eq!(record, Record { events, unreadable: vec![] });
    }
}
