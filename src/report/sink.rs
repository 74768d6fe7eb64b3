//! The only file that prints and writes. Rank 0 holds one with outputs; the others a silent one.
//!
//! An output that fails is reported once and then left alone: the other outputs go on, and `finish` says so in the
//! end. Files are written before stdout, which may be a pager that waits.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use super::files::{JsonFile, RecordFile};
use super::nccl_json::{self, State};
use super::record::Event;
use super::{Outcome, Preamble, stats_table, table};
use crate::aggregate::{Drifting, Row, Statistics, models};
use crate::error::{Error, Result};
use crate::vocab::Dtype;

/// How long `emergency` may take.
const EMERGENCY: Duration = Duration::from_secs(2);
/// How often, and how far apart, it tries to get at the outputs that another thread holds.
const TRIES: (u32, Duration) = (20, Duration::from_millis(25));

/// Files that the user asked for.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// `-J`.
    pub json: Option<PathBuf>,
    /// `--record`.
    pub record: Option<PathBuf>,
}

/// How grave a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Worth knowing.
    Info,
    /// Something is not as asked, or not as it should be.
    Warning,
    /// The reason for an exit code.
    Error,
}

impl Level {
    /// In messages and in the record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A handle to all outputs of a process; clones share them.
#[derive(Clone)]
pub struct Sink(Arc<Shared>);

struct Shared {
    pens: Mutex<Pens>,
    /// A second handle to the record, for when the first is stuck in another thread.
    spare: Option<File>,
}

/// stdout or stderr; gone after its first failure.
struct Stream {
    writer: Option<Box<dyn Write + Send>>,
    name: &'static str,
}

impl Stream {
    fn new(writer: impl Write + Send + 'static, name: &'static str) -> Self {
        Self { writer: Some(Box::new(writer)), name }
    }

    /// A reader that went away (`| head`) is no failure of the run.
    fn put(&mut self, text: &str) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let Err(source) = writer.write_all(text.as_bytes()).and_then(|()| writer.flush()) else {
            return Ok(());
        };
        self.writer = None;
        if source.kind() == io::ErrorKind::BrokenPipe {
            return Ok(());
        }
        Err(Error::File { action: "write", path: self.name.into(), source })
    }
}

struct Pens {
    out: Stream,
    err: Stream,
    json: Option<JsonFile>,
    record: Option<RecordFile>,
    preamble: Option<Preamble>,
    failure: Option<Error>,
}

impl Pens {
    fn say(&mut self, level: Level, text: &str) {
        // There is nobody left to tell that stderr is gone.
        let _ = self.err.put(&format!("critrank: {}: {text}\n", level.name()));
    }

    /// Reports a failed output once and keeps the first for `finish`.
    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.say(Level::Error, &format!("{error}; the other outputs continue"));
            self.failure.get_or_insert(error);
        }
    }

    fn print(&mut self, text: &str) {
        let result = self.out.put(text);
        self.note(result);
    }

    fn event(&mut self, event: &Event) {
        let Some(record) = &mut self.record else { return };
        let result = event.line().and_then(|line| record.append(&line));
        if result.is_err() {
            self.record = None;
        }
        self.note(result);
    }

    fn json(&mut self, chunk: Result<String>, state: State<'_>) {
        let Some(json) = &mut self.json else { return };
        let tail = match state {
            State::Failed { errors, .. } if json.is_stub() => nccl_json::stub(errors),
            State::Finished(_) if json.is_stub() => return,
            state => nccl_json::tail(state),
        };
        let result = chunk.and_then(|chunk| json.put(&chunk, tail?));
        if result.is_err() {
            self.json = None;
        }
        self.note(result);
    }

    fn failed(&mut self, text: &str, event: &Event) {
        self.event(event);
        if let Event::Failed { cause, end_time, .. } = event {
            let errors = [cause.clone()];
            self.json(Ok(String::new()), State::Failed { errors: &errors, end_time });
        }
        self.say(Level::Error, text);
        // The main thread may still run for a moment: what has ended in the files stays ended, and the table with it.
        (self.record, self.json, self.preamble) = (None, None, None);
    }
}

impl Sink {
    /// Makes the files and prints the notice about them; a file that cannot be made is an error here, before
    /// anything is measured.
    pub fn open(paths: &Paths) -> Result<Self> {
        Self::with(
            Stream::new(io::stdout(), "standard output"),
            Stream::new(io::stderr(), "standard error"),
            paths,
        )
    }

    /// For every rank but 0: only messages to stderr.
    pub fn silent() -> Self {
        let pens = Pens {
            out: Stream { writer: None, name: "standard output" },
            err: Stream::new(io::stderr(), "standard error"),
            json: None,
            record: None,
            preamble: None,
            failure: None,
        };
        Self(Arc::new(Shared { pens: Mutex::new(pens), spare: None }))
    }

    /// stdout and stderr only.
    pub fn plain() -> Self {
        let sink = Self::silent();
        sink.pens().out = Stream::new(io::stdout(), "standard output");
        sink
    }

    fn with(out: Stream, err: Stream, paths: &Paths) -> Result<Self> {
        let json = paths.json.as_deref().map(JsonFile::create).transpose()?;
        let record = paths.record.as_deref().map(RecordFile::create).transpose()?;
        let spare = record.as_ref().and_then(RecordFile::spare);
        let mut pens = Pens { out, err, json, record, preamble: None, failure: None };
        if let Some(json) = &pens.json {
            let notice = format!("# Writing JSON output to {}\n", json.path().display());
            pens.print(&notice);
        }
        if let (Some(asked), Some(record)) = (&paths.record, &pens.record)
            && asked != record.path()
        {
            let text =
                format!("{} exists and is kept; recording to {}", asked.display(), record.path().display());
            pens.say(Level::Warning, &text);
        }
        Ok(Self(Arc::new(Shared { pens: Mutex::new(pens), spare })))
    }

    fn pens(&self) -> MutexGuard<'_, Pens> {
        self.0.pens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who runs what, where: the table's first lines up to the devices.
    pub fn start(&self, preamble: &Preamble) {
        let mut pens = self.pens();
        pens.event(&Event::start(preamble.clone()));
        pens.json(nccl_json::head(preamble), State::Running);
        pens.print(&(table::opening(preamble) + &table::devices(&preamble.sites)));
        pens.preamble = Some(preamble.clone());
    }

    /// The largest size was cut, to `max_bytes`.
    pub fn reduced(&self, max_bytes: u64) {
        self.pens().print(&table::reduced(max_bytes));
    }

    /// The table's header.
    pub fn header(&self) {
        let mut pens = self.pens();
        if let Some(text) = pens.preamble.as_ref().map(|preamble| table::header(&preamble.config)) {
            pens.print(&text);
        }
    }

    /// A new epoch: a comment in the table, and what its communicators cost.
    pub fn epoch(&self, epoch: u64, renewal_us: f64) {
        let mut pens = self.pens();
        pens.event(&Event::Epoch { epoch, renewal_us });
        if let Some(text) = pens.preamble.as_ref().map(|preamble| table::epoch(&preamble.config, epoch)) {
            pens.print(&text);
        }
    }

    /// A row, to all outputs.
    pub fn row(&self, row: &Row) {
        let mut pens = self.pens();
        let Some(config) = pens.preamble.as_ref().map(|preamble| preamble.config.clone()) else { return };
        pens.event(&Event::Row(row.clone()));
        let index = pens.json.as_ref().map_or(0, JsonFile::rows);
        pens.json(nccl_json::row(&config, row, index), State::Running);
        pens.print(&table::row(&config, row));
    }

    /// A type and reduction that are not run here.
    pub fn waived(&self, dtype: Dtype, redop: &str, reason: &str) {
        let mut pens = self.pens();
        pens.event(&Event::Waived { dtype, redop: redop.to_owned(), reason: reason.to_owned() });
        pens.say(Level::Warning, &format!("{dtype} {redop} is not run here: {reason}"));
    }

    /// A remark, to stderr and the record.
    pub fn note(&self, level: Level, text: &str) {
        let mut pens = self.pens();
        pens.event(&Event::Note { level: level.name().to_owned(), text: text.to_owned() });
        pens.say(level, text);
    }

    /// What a diagnosis found, to stderr and the record.
    pub fn finding(&self, kind: &str, ranks: &[u32], text: &str) {
        let mut pens = self.pens();
        let event = Event::Finding { kind: kind.to_owned(), ranks: ranks.to_vec(), text: text.to_owned() };
        pens.event(&event);
        pens.say(Level::Warning, text);
    }

    /// What cycles and iterations say, to the record, and where `shown` to stderr as well.
    pub fn statistics(&self, all: &[Statistics], drifting: &[Drifting], shown: bool) {
        let models = models(all);
        let mut pens = self.pens();
        for of in all {
            pens.event(&Event::Stats(of.clone()));
        }
        for model in &models {
            pens.event(&Event::Model(model.clone()));
        }
        for line in stats_table::lines(all, drifting, &models).iter().filter(|_| shown) {
            pens.say(Level::Info, line);
        }
    }

    /// A whole file of its own, over one that is there.
    pub fn write_file(&self, path: &Path, text: &str) -> Result<()> {
        std::fs::write(path, text).map_err(|source| Error::File {
            action: "write",
            path: path.to_owned(),
            source,
        })
    }

    /// Something for the record alone.
    pub fn event(&self, event: &Event) {
        self.pens().event(event);
    }

    /// A message to stderr alone.
    pub fn say(&self, level: Level, text: &str) {
        self.pens().say(level, text);
    }

    /// Lines to stdout that belong to the table's contract: [`table::library_failure`], [`table::test_failure`].
    pub fn print(&self, lines: &str) {
        self.pens().print(lines);
    }

    /// Lines to stdout where there is no other output; the error is not reported yet.
    pub fn print_alone(&self, lines: &str) -> Result<()> {
        self.pens().out.put(lines)
    }

    /// The record's last event where there is no footer. The error is the first output that failed, already reported.
    pub fn end(&self, event: &Event) -> Result<()> {
        let mut pens = self.pens();
        pens.event(event);
        pens.failure.take().map_or(Ok(()), Err)
    }

    /// The footer, and the end of both files. The error is the first output that failed, already reported.
    pub fn finish(&self, outcome: &Outcome, exit_code: u8) -> Result<()> {
        let mut pens = self.pens();
        pens.event(&Event::Finish { exit_code, outcome: outcome.clone() });
        pens.json(Ok(String::new()), State::Finished(outcome));
        if let Some(text) = pens.preamble.as_ref().map(|preamble| table::footer(preamble, outcome)) {
            pens.print(&text);
        }
        pens.failure.take().map_or(Ok(()), Err)
    }

    /// A run that ends early: the text to stderr, `event` (an [`Event::Failed`]) to the record, its cause to the
    /// JSON.
    pub fn failed(&self, text: &str, event: &Event) {
        self.pens().failed(text, event);
    }

    /// The same from a watchdog, whose main thread may be stuck for ever, even in one of these outputs: takes at
    /// most two seconds. Returns whether everything was written.
    pub fn emergency(&self, text: &str, event: &Event) -> bool {
        let (done, waiting) = mpsc::channel();
        let (sink, text, event) = (self.clone(), text.to_owned(), event.clone());
        let helper = thread::Builder::new()
            .name("emergency".to_owned())
            .spawn(move || done.send(sink.emergency_now(&text, &event)));
        helper.is_ok() && waiting.recv_timeout(EMERGENCY).unwrap_or(false)
    }

    fn emergency_now(&self, text: &str, event: &Event) -> bool {
        let (tries, pause) = TRIES;
        for _ in 0..tries {
            let mut pens = match self.0.pens.try_lock() {
                Ok(pens) => pens,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    thread::sleep(pause);
                    continue;
                }
            };
            pens.failed(text, event);
            return true;
        }
        self.without_lock(text, event)
    }

    /// The main thread holds the outputs. The record is appended to in one call; the newline in front ends a line
    /// that may be half written. The JSON already says that the run did not finish.
    fn without_lock(&self, text: &str, event: &Event) -> bool {
        if let (Some(mut spare), Ok(line)) = (self.0.spare.as_ref(), event.line()) {
            let _ = spare.write_all(format!("\n{line}").as_bytes());
        }
        let _ = io::stderr().write_all(format!("critrank: {}: {text}\n", Level::Error.name()).as_bytes());
        false
    }
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
