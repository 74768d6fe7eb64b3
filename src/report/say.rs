//! Messages of a process that has no outputs of its own yet, or never will.

use super::sink::{Level, Sink};
use crate::error::Result;

/// Why this process leaves.
pub fn error(text: &str) {
    Sink::silent().say(Level::Error, text);
}

/// What is not as it should be.
pub fn warning(text: &str) {
    Sink::silent().say(Level::Warning, text);
}

/// What somebody may want to know.
pub fn note(text: &str) {
    Sink::silent().say(Level::Info, text);
}

/// What was asked for (`--help`), to stdout, which is the only output: without it there is nothing.
pub fn show(text: &str) -> Result<()> {
    Sink::plain().print_alone(text)
}
