//! What is left to say when the watchdog ends a run.

use std::sync::Arc;

use super::SharedSink;
use super::reporter::local_time;
use crate::error::Exit;
use crate::report::record::Event;
use crate::report::{Sink, table};
use crate::session::watch::{Failure, Sink as OnFailure};

/// What the watchdog does with a failure: the report goes to stderr and the record, and every finished row stays.
pub(super) fn emergency(sink: &SharedSink) -> OnFailure {
    let sink = Arc::clone(sink);
    Arc::new(move |failure: &Failure| {
        let text = failure.lines.join("\n");
        let event = Event::Failed {
            exit_code: failure.exit.code(),
            phase: failure.phase.words().to_owned(),
            size_bytes: failure.bytes,
            iteration: failure.iteration,
            cause: failure.cause.clone(),
            culprits: failure.culprits.clone(),
            end_time: local_time(),
        };
        let Some(sink) = sink.get() else {
            Sink::silent().emergency(&text, &event);
            return;
        };
        sink.emergency(&text, &event);
        // The lines of nccl-tests by which tools know a failure.
        let phase = failure.phase.words();
        for culprit in failure.culprits.iter().take(1) {
            let library = match failure.exit {
                Exit::Cuda => Some("CUDA"),
                Exit::Library => Some("NCCL"),
                _ => None,
            };
            if let Some(library) = library {
                sink.print(&table::library_failure(&culprit.host, library, phase, &failure.cause));
            }
            sink.print(&table::test_failure(&culprit.host, culprit.pid, phase));
        }
    })
}
