//! What is no baseline is refused with the reason.

use super::*;
use crate::aggregate::Row;
use crate::report::fixture;
use crate::report::record::Plan;
use crate::vocab::RedOp;

fn float_sum() -> Series {
    Series { dtype: crate::vocab::Dtype::Float, op: Some(RedOp::Sum), root: None, from_all: false }
}

/// A row of a real table.
fn row() -> Row {
    fixture::table(&fixture::text("iter.txt")).rows.remove(0)
}

/// A record of one row, changed by `change`.
fn record(change: impl Fn(&mut Vec<Event>)) -> Vec<u8> {
    let mut events = vec![
        Event::start(fixture::preamble()),
        Event::Plan(Plan::default()),
        Event::Row(row()),
        Event::Finish { exit_code: 0, outcome: fixture::outcome() },
    ];
    change(&mut events);
    events.iter().flat_map(|event| event.line().unwrap().into_bytes()).collect()
}

fn preamble_of(events: &mut [Event]) -> &mut Preamble {
    match &mut events[0] {
        Event::Start { preamble, .. } => preamble,
        other => panic!("{other:?}"),
    }
}

fn read(bytes: &[u8], sizes: &[u64]) -> std::result::Result<Baseline, String> {
    Baseline::read(bytes, &fixture::preamble(), &[float_sum()], sizes).map_err(|error| error.to_string())
}

#[test]
fn a_run_of_the_same_thing_is_a_baseline() {
    let bytes = row().requested_bytes;
    let found = read(&record(|_| ()), &[bytes]).unwrap();
    assert_eq!(found.expected.cases().count(), 2, "both placements");
    assert_eq!((found.differs.as_slice(), found.start_time.as_str()), (&[][..], "2026-11-30 12:02:43"));
    // Another library is what is compared, and is said.
    let other = record(|events| preamble_of(events).library.version = "2.29.1".to_owned());
    assert_eq!(read(&other, &[bytes]).unwrap().differs, ["library: NCCL 2.29.1 there, NCCL 2.28.3 here"]);
}

#[test]
fn another_environment_is_said_and_no_reason_to_refuse() {
    let set = |name: &'static str| {
        let with = record(move |events| preamble_of(events).env.push((name.to_owned(), "Tree".to_owned())));
        read(&with, &[row().requested_bytes]).unwrap().differs
    };
    assert_eq!(set("NCCL_ALGO"), ["NCCL_ALGO: Tree there, not set here"]);
    // These differ from launch to launch.
    assert_eq!(set("SLURM_JOB_ID"), [""; 0]);
}

#[test]
fn an_injected_run_is_never_a_baseline() {
    let injected = record(|events| preamble_of(events).injected = vec!["late:1:200us".to_owned()]);
    let text = read(&injected, &[row().requested_bytes]).unwrap_err();
    assert!(text.contains("a fault was injected into that run (late:1:200us)"), "{text}");
}

/// Makes a record's first line another one.
type Change = fn(&mut Preamble);

#[test]
fn what_is_another_thing_is_refused_with_every_reason() {
    let changes: [(&str, Change); 11] = [
        ("program: all_gather_perf there", |p| p.program = "all_gather_perf".to_owned()),
        ("backend: mpi there", |p| p.backend = crate::backend::Kind::Mpi),
        ("ranks: 1 there, 2 here", |p| drop(p.sites.pop())),
        ("ranks by host: 2 x 1 there, 1 x 2 here", |p| p.sites[1].host = "other".to_owned()),
        ("ranks by process: 1 x 2 there", |p| p.sites[1].process = 0),
        ("groups: 2 x 1 there", |p| p.sites[1].group = 1),
        ("devices: NVIDIA H200, HOST there", |p| p.sites[1].device.name = "HOST".to_owned()),
        ("-z: 3 there, 0 here", |p| p.config.blocking = 3),
        ("-m: 4 there", |p| p.config.aggregated = 4),
        ("-a: Max there, Avg here", |p| p.config.average = crate::aggregate::Average::Max),
        ("-R, -x, -y, --native: 2 None 0 Auto there", |p| p.args.extend(["-R".to_owned(), "2".to_owned()])),
    ];
    let bytes = row().requested_bytes;
    for (words, change) in changes {
        let text = read(&record(|events| change(preamble_of(events))), &[bytes]).unwrap_err();
        assert!(text.contains(words), "{words}: {text}");
    }
    let two = read(
        &record(|events| {
            preamble_of(events).config.graph = 2;
            preamble_of(events).config.unalign = 1;
        }),
        &[bytes],
    );
    assert_eq!(two.unwrap_err(), "-G: 2 there, 0 here; -u: 1 there, 0 here");
}

#[test]
fn rows_that_are_not_there_are_listed() {
    let bytes = row().requested_bytes;
    let text = read(&record(|_| ()), &[bytes, 3, 5, 7, 9, 11]).unwrap_err();
    assert_eq!(text, "it has no row of float sum at 3, 5, 7, 9 and 1 more bytes");
    let other = Series { op: Some(RedOp::Prod), ..float_sum() };
    let read =
        |series: Series, record: &[u8]| Baseline::read(record, &fixture::preamble(), &[series], &[bytes]);
    assert!(read(other, &record(|_| ())).is_err());
    // What could not be run there, and is one of all here, is left out.
    let waived = record(|events| {
        let reason = "not here".to_owned();
        events.push(Event::Waived { dtype: other.dtype, redop: "prod".to_owned(), reason });
    });
    assert!(read(Series { from_all: true, ..other }, &waived).is_ok());
    assert!(read(other, &waived).is_err(), "asked for by name");
    // What memory cut off there may be cut off here.
    let cut = record(|events| {
        events[1] = Event::Plan(Plan { reduced_max_bytes: Some(bytes), ..Plan::default() });
    });
    assert!(Baseline::read(&cut, &fixture::preamble(), &[float_sum()], &[bytes, 2 * bytes]).is_ok());
}

#[test]
fn a_run_that_did_not_finish_or_was_wrong_is_refused() {
    let bytes = row().requested_bytes;
    let cut = record(|events| drop(events.pop()));
    assert_eq!(read(&cut, &[bytes]).unwrap_err(), "that run did not finish");
    let wrong = record(|events| {
        let outcome = crate::report::Outcome { wrong_elements: 1, ..fixture::outcome() };
        events[3] = Event::Finish { exit_code: 7, outcome };
    });
    assert_eq!(read(&wrong, &[bytes]).unwrap_err(), "that run had wrong data");
    let cut = [record(|_| ()), b"{\"event\":\"row\",\"coun\n".to_vec()].concat();
    assert_eq!(read(&cut, &[bytes]).unwrap_err(), "1 of its lines cannot be read");
    assert!(read(b"{\"n_ranks\": 2}\n", &[bytes]).unwrap_err().contains("no critrank record"));
}
