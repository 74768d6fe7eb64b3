//! What the cycles of a run say, told at its end.

use crate::aggregate::{Statistics, drifting};
use crate::report::sink::Level;
use crate::report::{Sink, drift_words};

/// Statistics to the record, and where `shown` to stderr; a case that drifts is a finding.
pub(super) fn tell(sink: &Sink, all: &[Statistics], shown: bool) {
    if shown && all.is_empty() {
        sink.say(Level::Info, "one cycle without -I has no statistics; use -N 7 or -I 1");
    }
    let drifting = drifting(all);
    for drift in &drifting {
        sink.finding("drift", &[], &drift_words(&all[drift.case]));
    }
    sink.statistics(all, &drifting, shown);
}
