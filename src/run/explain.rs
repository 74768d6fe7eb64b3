//! `--explain`: rank 0 tells each row's algorithm and prediction, and after the sweep over what each rank reaches its
//! peers, which each process reads in its own log of NCCL.

use std::collections::BTreeSet;

use super::Job;
use super::reporter::Reporter;
use super::seat::{Group, Seat};
use crate::aggregate::Row;
use crate::backend::transport::{Link, links, summary};
use crate::cli::Cli;
use crate::error::Result;
use crate::report::record::Event;
use crate::report::sink::Level;

/// What one process knows, or why it knows nothing.
type Known = std::result::Result<Vec<Link>, String>;

/// Has NCCL tell its algorithms to this program; a remark where the user has it told to another. Before any thread
/// is started.
pub(super) fn offer_profiler() -> Option<&'static str> {
    #[cfg(feature = "nccl")]
    return crate::backend::nccl::offer_profiler();
    #[cfg(not(feature = "nccl"))]
    None
}

/// NCCL's log; without the `nccl` feature there is none.
#[cfg(feature = "nccl")]
pub(super) type Log = crate::backend::nccl::Log;
#[cfg(not(feature = "nccl"))]
pub(super) type Log = std::convert::Infallible;

/// With `--explain`, finds NCCL's log. Before any thread is started.
pub(super) fn listen(cli: &Cli) -> Option<Log> {
    #[cfg(feature = "nccl")]
    if cli.explain && cli.backend == crate::backend::Kind::Nccl {
        return Some(crate::backend::nccl::listen());
    }
    let _ = cli;
    None
}

/// What NCCL's log says so far, or why that cannot be told.
fn read(log: Option<&Log>) -> std::result::Result<String, String> {
    #[cfg(feature = "nccl")]
    if let Some(log) = log {
        return log.read();
    }
    let _ = log;
    Err("there is no log".to_owned())
}

impl Job<'_> {
    /// Brings all links to rank 0, after the sweep: NCCL connects at first use. Nothing without `--explain`.
    pub(super) fn transport(
        &self,
        seat: &Seat<'_>,
        (group, locals): (&Group, u32),
        reporter: Option<&Reporter>,
    ) -> Result<()> {
        if !self.cli.explain {
            return Ok(());
        }
        // The log is the process's: its first thread stands for all.
        let mine = if seat.thread.0 == 0 { self.known(group, locals) } else { Ok(Vec::new()) };
        let Some(all) = seat.control.gather(&serde_json::to_vec(&mine).unwrap_or_default())? else {
            return Ok(());
        };
        let unread = |_| Err("a rank's links cannot be read".to_owned());
        let (links, unknown) =
            joined(all.iter().map(|bytes| serde_json::from_slice(bytes).unwrap_or_else(unread)));
        if let Some(reporter) = reporter {
            reporter.transport(links, unknown);
        }
        Ok(())
    }

    fn known(&self, group: &Group, locals: u32) -> Known {
        if group.ranks(locals) == 1 {
            return Err("one rank".to_owned());
        }
        let mut links = links(&read(self.log.as_ref())?);
        to_job(&mut links, |rank| group.world_rank(rank, locals));
        if links.is_empty() {
            return Err(
                "NCCL's log names none: NCCL_DEBUG_SUBSYS leaves out INIT, or no channel was used".to_owned()
            );
        }
        Ok(links)
    }
}

/// The communicator's ranks become the job's.
fn to_job(links: &mut [Link], rank: impl Fn(u32) -> u32) {
    for link in links {
        link.rank = rank(link.rank);
        link.peer = link.peer.map(&rank);
    }
}

impl Reporter {
    /// The algorithm of each placement that differs from the one before, and what the library predicted; the record
    /// has both in the row.
    pub(super) fn explain(&mut self, row: &Row) {
        let mut said = None;
        for cell in &row.cells {
            let Some(algorithm) = cell.algorithm.as_deref().filter(|algorithm| said != Some(*algorithm))
            else {
                continue;
            };
            let place = if said.is_some() { " in place" } else { "" };
            let beside = cell.predicted_us.map_or_else(String::new, |us| {
                format!("; predicted {us:.1} us, measured {:.1} us", cell.shown_us)
            });
            let text = format!("algorithm at {}{place}: {algorithm}{beside}", row.size_bytes);
            self.sink.say(Level::Info, &text);
            said = Some(algorithm);
        }
        let reason = row.cells.iter().find_map(|cell| cell.unpredicted.as_deref());
        if let Some(text) = reason.map(|reason| format!("no prediction: {reason}"))
            && self.told.insert(text.clone())
        {
            self.sink.say(Level::Info, &text);
        }
    }

    /// Over what ranks reach their peers, in short to stderr, whole to the record.
    pub(super) fn transport(&self, links: Vec<Link>, unknown: Vec<String>) {
        for text in summary(&links).into_iter().chain(unknown.iter().map(|why| format!("unknown ({why})"))) {
            self.sink.say(Level::Info, &format!("transport: {text}"));
        }
        self.sink.event(&Event::Transport { links, unknown });
    }
}

/// The links of all processes, each once where several wrote one log; and each reason for which some know none.
fn joined(all: impl Iterator<Item = Known>) -> (Vec<Link>, Vec<String>) {
    let (mut links, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    for known in all {
        match known {
            Ok(theirs) => links.extend(theirs),
            Err(reason) => _ = unknown.insert(reason),
        }
    }
    (links.into_iter().collect(), unknown.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::transport::Side;

    fn link(rank: u32) -> Link {
        Link {
            rank,
            side: Side::Send,
            peer: Some(0),
            transport: "P2P/IPC".to_owned(),
            devices: Vec::new(),
            channels: 2,
        }
    }

    #[test]
    fn a_link_is_kept_once_and_so_is_a_reason() {
        let all = [Ok(vec![link(2), link(1)]), Err("b".to_owned()), Ok(vec![link(1)]), Err("b".to_owned())];
        assert_eq!(joined(all.into_iter()), (vec![link(1), link(2)], vec!["b".to_owned()]));
    }

    #[test]
    fn ranks_of_a_group_are_told_as_ranks_of_the_job() {
        let group = Group { color: 1, workers: vec![1, 3], place: 0 };
        assert_eq!([0, 1, 2, 3].map(|rank| group.world_rank(rank, 2)), [2, 3, 6, 7]);
        let mut all = [link(1)];
        to_job(&mut all, |rank| group.world_rank(rank, 2));
        assert_eq!((all[0].rank, all[0].peer), (3, Some(2)));
    }
}
