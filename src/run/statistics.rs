//! What the cycles of a run say, told at its end.

use crate::aggregate::{Statistics, drifting};
use crate::report::Sink;
use crate::vocab::Placement;

/// Statistics to the record, and where `shown` to stderr; a case that drifts is a finding.
pub(super) fn tell(sink: &Sink, all: &[Statistics], shown: bool) {
    let drifting = drifting(all);
    for drift in &drifting {
        let of = &all[drift.case];
        let (Some(first), Some(last)) = (of.each.first(), of.each.last()) else { continue };
        let text = format!(
            "the time of size {} {} {} {} drifts over {} cycles: {:.2} us in the first, {:.2} us in the last",
            of.size_bytes,
            of.dtype,
            of.redop,
            place(of.placement),
            of.over.cycles,
            first.time_us,
            last.time_us
        );
        sink.finding("drift", &[], &text);
    }
    sink.statistics(all, &drifting, shown);
}

/// A placement in messages.
pub(super) fn place(placement: Placement) -> &'static str {
    match placement {
        Placement::OutOfPlace => "out of place",
        Placement::InPlace => "in place",
    }
}
