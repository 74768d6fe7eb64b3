//! Rank 0's account of arrivals: a line per placement, and in the end the late rank, if there is one.

use crate::aggregate::{
    Arrivals, Cell, ClockError, LateObserver, LateVerdict, OnGpu, SeenAt, arrivals, late,
};
use crate::measure::Target;
use crate::report::record::Event;
use crate::report::sink::Level;
use crate::report::{Preamble, Sink, Site};
use crate::vocab::Placement;

/// Collects placements.
pub(super) struct LateReporter {
    observer: LateObserver,
    skip: usize,
    aggregated: u64,
    sites: Vec<Site>,
    /// GPUs of a thread.
    gpus: u32,
}

impl LateReporter {
    pub(super) fn new(preamble: &Preamble) -> Self {
        Self {
            observer: LateObserver::default(),
            skip: preamble.config.skip as usize,
            aggregated: preamble.config.aggregated,
            sites: preamble.sites.clone(),
            gpus: preamble.config.gpus,
        }
    }

    /// Judges a placement and says what there was; the figures for its cell.
    pub(super) fn push(
        &mut self,
        target: &Target,
        cell: &Cell,
        clock_error: ClockError,
        sink: &Sink,
    ) -> Option<Arrivals> {
        self.observer.push(late(&cell.ranks, clock_error.host_us, self.skip, self.aggregated));
        let found = arrivals(&cell.ranks, clock_error, self.skip, self.aggregated)?;
        let place = match cell.placement {
            Placement::OutOfPlace => "",
            Placement::InPlace => " in place",
        };
        sink.say(Level::Info, &format!("arrivals at {}{place}: {}", target.bytes, words(&found)));
        Some(found)
    }

    /// The rank that arrivals name so far.
    pub(super) fn named(&self) -> Option<u32> {
        self.observer.late_rank()
    }

    /// The verdict, to stderr and the record.
    pub(super) fn finish(&self, sink: &Sink) {
        let Some(verdict) = self.observer.verdict() else { return };
        sink.event(&Event::LateRank(verdict));
        match verdict {
            LateVerdict::Named {
                rank,
                seen_at,
                share_pct,
                late_us,
                interval_us,
                threshold_us,
                agreeing,
                cases,
            } => {
                let (did, of) = match seen_at {
                    SeenAt::Calls => ("called", "iterations"),
                    SeenAt::Barriers => ("left bare barriers", "cases, though it called in time"),
                };
                let text = format!(
                    "late rank {rank}{}: it {did} {late_us:.1} us{} behind the middle rank in {share_pct:.0} % of the \
                     {of}; late here is more than {threshold_us:.1} us (exits of bare barriers, the clocks' \
                     error, 1 us and 1 % of the operation); {agreeing} of {cases} measurements agree",
                    self.place(rank),
                    interval_us.map_or_else(String::new, |[low, high]| format!(" [{low:.1}, {high:.1}]"))
                );
                sink.finding("late_rank", &[rank], &text);
            }
            LateVerdict::NotDistinguishable { threshold_us, cases, distinct } => {
                let text = format!(
                    "late rank: not distinguishable (late here is more than {threshold_us:.1} us; some rank was so in \
                     {distinct} of {cases} measurements)"
                );
                sink.say(Level::Info, &text);
            }
        }
    }

    fn place(&self, rank: u32) -> String {
        let site = self.sites.iter().find(|site| site.rank == rank);
        let Some(site) = site else { return String::new() };
        // One thread calls for all its GPUs in turn, and the last of them is the one that is named.
        let shared = match self.gpus {
            1 => String::new(),
            gpus => format!(", for the {gpus} GPUs of its thread"),
        };
        match site.device.compute_capability {
            0 => format!(" ({}, pid {})", site.host, site.pid),
            _ => format!(" ({}, GPU {} [{}]{shared})", site.host, site.device.index, site.device.bus_id),
        }
    }
}

fn words(found: &Arrivals) -> String {
    let p95 = |p95_us: Option<f64>| p95_us.map_or_else(String::new, |p95_us| format!(" (P95 {p95_us:.1})"));
    let exit = found.exit_skew.map_or_else(String::new, |exit| {
        format!(", behind bare barriers {:.1}{}", exit.p50_us, p95(exit.p95_us))
    });
    let last = found.last.first().map_or_else(String::new, |last| {
        format!(", last to arrive rank {} in {:.0} % of the iterations", last.rank, last.share_pct)
    });
    let gpu = found.gpu.map_or_else(String::new, |gpu| {
        let OnGpu { clock_error_us, skew, makespan, from_last } = gpu;
        format!(
            "; GPUs: skew {:.1}, makespan {:.1}, from the last start {:.1} us, clock error {clock_error_us:.2} us",
            skew.p50_us, makespan.p50_us, from_last.p50_us
        )
    });
    format!(
        "skew {:.1}{}{exit}, makespan {:.1}, from the last call {:.1} us{last}; clock error {:.2} us{gpu}",
        found.skew.p50_us,
        p95(found.skew.p95_us),
        found.makespan.p50_us,
        found.from_last.p50_us,
        found.clock_error_us
    )
}
