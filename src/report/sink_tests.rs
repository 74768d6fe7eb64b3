use std::fs::{self, OpenOptions};

use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::report::{fixture, record};

/// Bytes that tests can look at while the sink holds the other end.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<u8>>>);

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shown {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// A sink with both files in a new folder.
struct Bench {
    folder: TempDir,
    out: Shown,
    err: Shown,
    sink: Sink,
}

impl Bench {
    fn json(&self) -> Value {
        serde_json::from_slice(&fs::read(self.folder.path().join("a.json")).unwrap()).unwrap()
    }

    fn record(&self) -> record::Record {
        record::read(&fs::read(self.folder.path().join("a.jsonl")).unwrap()).unwrap()
    }
}

fn bench() -> Bench {
    let (out, err) = (Shown::default(), Shown::default());
    bench_with(Stream::new(out.clone(), "standard output"), out, err)
}

fn bench_with(stream: Stream, out: Shown, err: Shown) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let paths =
        Paths { json: Some(folder.path().join("a.json")), record: Some(folder.path().join("a.jsonl")) };
    let sink = Sink::with(stream, Stream::new(err.clone(), "standard error"), &paths).unwrap();
    Bench { folder, out, err, sink }
}

fn failed() -> Event {
    Event::Failed {
        exit_code: 4,
        phase: "timed".to_owned(),
        size_bytes: 8,
        iteration: 3,
        cause: "rank 1 is silent".to_owned(),
        culprits: Vec::new(),
        end_time: "2026-11-30 12:02:46".to_owned(),
    }
}

#[test]
fn all_outputs_of_a_run() {
    let bench = bench();
    assert_eq!(bench.json()["errors"][0], "the run did not start");
    let table = fixture::table(&fixture::text("all_reduce.txt"));
    bench.sink.start(&table.preamble);
    bench.sink.header();
    for (at, row) in table.rows.iter().enumerate() {
        assert_eq!(bench.json()["results"].as_array().unwrap().len(), at);
        assert_eq!(bench.json()["errors"][0], "the run did not finish");
        bench.sink.row(row);
        assert_eq!(bench.record().events.len(), at + 2);
    }
    bench.sink.waived(Dtype::F8e4m3, "sum", "no fp8 here");
    bench.sink.note(Level::Info, "a remark");
    bench.sink.finding("wrong_data", &[1], "rank 1 holds wrong data");
    bench.sink.finish(&table.outcome, 0).unwrap();
    assert_eq!(bench.json()["errors"][0], "");
    assert_eq!(bench.json()["out_of_bounds"]["okay"], "true");
    let record = bench.record();
    assert!(record.unreadable.is_empty());
    assert!(matches!(record.events.last(), Some(Event::Finish { exit_code: 0, .. })));
    let text = bench.out.text();
    assert!(text.starts_with("# Writing JSON output to "), "{text}");
    assert_eq!(
        text.lines().filter(|line| super::super::words::looks_like_row(line)).count(),
        table.rows.len()
    );
    assert!(bench.err.text().contains("critrank: warning: f8e4m3 sum is not run here: no fp8 here\n"));
    for line in bench.err.text().lines() {
        assert!(super::super::words::broken(line).is_none(), "{line}");
    }
}

#[test]
fn a_failure_is_in_every_file() {
    let bench = bench();
    bench.sink.start(&fixture::preamble());
    bench.sink.failed("no answer", &failed());
    assert_eq!(bench.json()["errors"][0], "rank 1 is silent");
    assert_eq!(bench.record().events.last(), Some(&failed()));
    assert!(bench.err.text().contains("critrank: error: no answer\n"));
}

#[test]
fn a_failure_before_the_start_is_json_too() {
    let bench = bench();
    bench.sink.finish(&fixture::outcome(), 0).unwrap();
    assert_eq!(bench.json()["errors"][0], "the run did not start");
    bench.sink.failed("no answer", &failed());
    assert_eq!(bench.json()["errors"][0], "rank 1 is silent");
}

#[test]
fn existing_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (json, record) = (folder.path().join("a.json"), folder.path().join("a.jsonl"));
    for name in ["a.json", "a.json.0", "a.jsonl"] {
        fs::write(folder.path().join(name), "mine").unwrap();
    }
    let (out, err) = (Shown::default(), Shown::default());
    let paths = Paths { json: Some(json.clone()), record: Some(record.clone()) };
    let streams = (Stream::new(out.clone(), "o"), Stream::new(err.clone(), "e"));
    let _sink = Sink::with(streams.0, streams.1, &paths).unwrap();
    assert_eq!(fs::read_to_string(&json).unwrap(), "mine");
    assert_eq!(fs::read_to_string(&record).unwrap(), "mine");
    assert_eq!(out.text(), format!("# Writing JSON output to {}.1\n", json.display()));
    assert!(err.text().ends_with("a.jsonl.0\n"), "{}", err.text());
}

#[test]
fn a_file_that_cannot_be_made_ends_the_run_before_it_starts() {
    for paths in [
        Paths { json: Some("/nowhere/a.json".into()), record: None },
        Paths { json: None, record: Some("/nowhere/a.jsonl".into()) },
        Paths { json: Some("/dev/full".into()), record: None },
    ] {
        let streams = (Stream::new(io::sink(), "o"), Stream::new(io::sink(), "e"));
        let error = Sink::with(streams.0, streams.1, &paths).err().unwrap();
        assert_eq!(error.exit().code(), 6, "{error}");
    }
}

#[test]
fn a_full_disk_is_reported_once_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (Shown::default(), Shown::default());
    let paths = Paths { json: Some(folder.path().join("a.json")), record: Some("/dev/full".into()) };
    let streams = (Stream::new(out.clone(), "o"), Stream::new(err.clone(), "e"));
    let sink = Sink::with(streams.0, streams.1, &paths).unwrap();
    let table = fixture::table(&fixture::text("all_reduce.txt"));
    sink.start(&table.preamble);
    sink.row(&table.rows[0]);
    sink.row(&table.rows[1]);
    let error = sink.finish(&table.outcome, 0).unwrap_err();
    assert_eq!(error.exit().code(), 6);
    assert_eq!(err.text().matches("/dev/full").count(), 1, "{}", err.text());
    let json: Value = serde_json::from_slice(&fs::read(folder.path().join("a.json")).unwrap()).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), 2);
    assert!(out.text().contains("# Collective test concluded"));
}

#[test]
fn a_full_stdout_is_an_error_and_a_closed_one_is_not() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let bench = bench_with(Stream::new(full, "standard output"), Shown::default(), Shown::default());
    bench.sink.start(&fixture::preamble());
    let error = bench.sink.finish(&fixture::outcome(), 0).unwrap_err();
    assert!(error.to_string().contains("standard output"), "{error}");
    assert_eq!(bench.err.text().matches("standard output").count(), 1);

    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let bench = bench_with(Stream::new(writer, "standard output"), Shown::default(), Shown::default());
    bench.sink.start(&fixture::preamble());
    bench.sink.finish(&fixture::outcome(), 0).unwrap();
    assert_eq!(bench.json()["errors"][0], "");
    assert_eq!(bench.err.text(), "");
}

/// A pager that nobody scrolls.
struct Stuck;

impl Write for Stuck {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        thread::sleep(Duration::from_hours(1));
        Ok(0)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_watchdog_gets_through_while_the_main_thread_is_stuck_in_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let paths = Paths { json: None, record: Some(path.clone()) };
    let streams = (Stream::new(Stuck, "o"), Stream::new(io::sink(), "e"));
    let sink = Sink::with(streams.0, streams.1, &paths).unwrap();
    let main = sink.clone();
    thread::spawn(move || main.start(&fixture::preamble()));
    while fs::read(&path).unwrap().is_empty() {
        thread::yield_now();
    }
    let half = "{\"event\":\"ro";
    OpenOptions::new().append(true).open(&path).unwrap().write_all(half.as_bytes()).unwrap();
    assert!(!sink.emergency("stuck", &failed()), "not everything can be written");
    let record = record::read(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(record.unreadable, [half]);
    assert_eq!(record.events.last(), Some(&failed()));
}

#[test]
fn the_watchdog_writes_everything_where_it_can() {
    let bench = bench();
    bench.sink.start(&fixture::preamble());
    assert!(bench.sink.emergency("no answer", &failed()));
    assert_eq!(bench.json()["errors"][0], "rank 1 is silent");
    assert_eq!(bench.record().events.last(), Some(&failed()));
}

#[test]
fn nothing_follows_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r.jsonl");
    let sink = Sink::open(&Paths { json: None, record: Some(record.clone()) }).unwrap();
    sink.start(&fixture::preamble());
    let event = Event::Failed {
        exit_code: 8,
        phase: "timed".to_owned(),
        size_bytes: 8,
        iteration: 1,
        cause: "ended by signal".to_owned(),
        culprits: Vec::new(),
        end_time: "2026-11-30 12:02:46".to_owned(),
    };
    assert!(sink.emergency("ended by signal", &event));
    sink.note(Level::Info, "too late");
    let text = std::fs::read_to_string(record).unwrap();
    assert!(text.lines().last().unwrap().contains("\"event\":\"failed\""), "{text}");
}
