//! Who holds the job up or broke it: a pure function of the table of ranks.

use serde::{Deserialize, Serialize};

use super::progress::{Phase, Stand};
use crate::error::Exit;

/// Culprits and lines that a report lists; the rest is a number.
const LISTED: usize = 16;

/// A process, as a report names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// Its rank; before the launch is known, the launcher's.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
    /// Its GPU or GPUs, or `HOST`; empty while unknown.
    pub device: String,
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} (host {}, pid {}", self.rank, self.host, self.pid)?;
        if !self.device.is_empty() {
            write!(f, ", {}", self.device)?;
        }
        f.write_str(")")
    }
}

/// What is known of a process's watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It answers.
    Answers,
    /// It has not answered for so many ms: stopped, or its host is gone.
    Silent {
        /// Since the last word of it.
        ms: u64,
    },
    /// Its connection broke before its end: it died.
    Broken {
        /// How long before that it last said where it stood, in ms.
        ms: u64,
    },
    /// It never connected, so nothing is known.
    Absent,
    /// It has finished.
    Done,
}

/// One line of the table of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The process.
    pub who: Who,
    /// Where it stands, or stood when last heard of.
    pub stand: Stand,
    /// Whether that can be trusted.
    pub link: Link,
    /// Whether it moved between two questions a second apart: then it is slow, not stuck.
    pub moves: bool,
}

/// What set the end off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A deadline passed in this rank.
    Deadline {
        /// The first to say so.
        rank: u32,
        /// Where it stood.
        stand: Stand,
    },
    /// Connections broke; the rows say whose.
    Broken,
    /// Ranks reported errors of their own, the first first.
    Reported(Vec<Report>),
    /// A signal came.
    Signal {
        /// The rank that said so first.
        rank: u32,
        /// `SIGTERM`, `SIGINT`.
        name: String,
    },
    /// Another rank's watchdog ends the job, because this one, rank 0's, did not answer it.
    Overruled {
        /// Whose.
        by: u32,
        /// Its code.
        exit: Exit,
    },
    /// Rank 0's watchdog is gone or silent, says this other rank.
    LostLead {
        /// Timeout where it is silent, Died where its connection broke.
        exit: Exit,
        /// What was seen of it.
        text: String,
    },
}

/// An error that one rank reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whose.
    pub rank: u32,
    /// Its code.
    pub exit: Exit,
    /// Its words.
    pub text: String,
}

/// A process that is behind, silent, dead or in error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// Its rank.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
    /// Its GPU, or `HOST`.
    pub device: String,
    /// What is wrong with it, and where it stands.
    pub state: String,
}

/// Why the job ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The code that every rank leaves with.
    #[serde(with = "number")]
    pub exit: Exit,
    /// The phase that it happened in.
    pub phase: Phase,
    /// The size that was being measured.
    pub bytes: u64,
    /// Iterations begun there.
    pub iteration: u64,
    /// What happened, in one sentence.
    pub cause: String,
    /// Whom it points at: silent and dead ranks first, then those behind; at most 16.
    pub culprits: Vec<Culprit>,
    /// The whole report for people, the cause first.
    pub lines: Vec<String>,
}

/// An exit code is its number in a record.
mod number {
    use super::Exit;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(exit: &Exit, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(exit.code())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Exit, D::Error> {
        u8::deserialize(deserializer).map(Exit::from_code)
    }
}

/// The report for a cause and the table of ranks (in rank order).
pub fn judge(cause: &Cause, rows: &[Row]) -> Failure {
    let verdict = match cause {
        Cause::Deadline { rank, stand } => hang(*rank, *stand, rows),
        Cause::Broken => broken(rows),
        Cause::Reported(reports) => reported(reports, rows),
        Cause::Signal { rank, name } => Verdict {
            exit: Exit::Died,
            cause: format!("ended by signal {name}, which rank {rank} received first"),
            culprits: Vec::new(),
        },
        Cause::Overruled { by, exit } => {
            let me = rows.iter().filter(|row| row.who.rank == 0);
            let culprits = me.map(|row| (row, format!("was silent; {}", standing(row)))).collect();
            let cause = format!("rank 0 was stopped or starved for seconds, and rank {by} ended the job");
            Verdict { exit: *exit, cause, culprits }
        }
        Cause::LostLead { exit, text } => {
            let lead = rows.iter().filter(|row| row.who.rank == 0 && row.link != Link::Answers);
            let culprits = lead.map(|row| (row, "its watchdog does not answer".to_owned())).collect();
            Verdict { exit: *exit, cause: text.clone(), culprits }
        }
    };
    let stand = match cause {
        Cause::Deadline { stand, .. } => *stand,
        _ => verdict.culprits.first().map_or_else(|| median(rows), |(row, _)| row.stand),
    };
    write(verdict, stand, rows)
}

/// A judgement before it is put into words.
struct Verdict<'a> {
    exit: Exit,
    cause: String,
    culprits: Vec<(&'a Row, String)>,
}

fn write(verdict: Verdict<'_>, stand: Stand, rows: &[Row]) -> Failure {
    let mut lines = vec![format!("{} (exit {})", verdict.cause, verdict.exit.code())];
    lines.extend(verdict.culprits.iter().take(LISTED).map(|(row, state)| format!("  {}: {state}", row.who)));
    if verdict.culprits.len() > LISTED {
        lines.push(format!("  and {} more ranks like these", verdict.culprits.len() - LISTED));
    }
    let named: Vec<u32> = verdict.culprits.iter().map(|(row, _)| row.who.rank).collect();
    lines.extend(others(rows, &named));
    let culprits = verdict.culprits.into_iter().take(LISTED).map(|(row, state)| Culprit {
        rank: row.who.rank,
        host: row.who.host.clone(),
        pid: row.who.pid,
        device: row.who.device.clone(),
        state,
    });
    Failure {
        exit: verdict.exit,
        phase: stand.phase,
        bytes: stand.bytes,
        iteration: stand.step,
        cause: verdict.cause,
        culprits: culprits.collect(),
        lines,
    }
}

/// Silent ranks first, then those behind; if all stand alike, those whose main thread does something else.
fn hang(rank: u32, stand: Stand, rows: &[Row]) -> Verdict<'_> {
    let mut culprits = silent(rows);
    let answering: Vec<&Row> = rows.iter().filter(|row| row.link == Link::Answers).collect();
    let moving = answering.iter().filter(|row| row.moves).count();
    let all_move = moving > 0 && moving == answering.len();
    let stuck = || answering.iter().copied().filter(|row| !row.moves);
    let lowest = stuck().map(|row| row.stand.key()).min();
    let behind: Vec<&Row> = stuck().filter(|row| Some(row.stand.key()) == lowest).collect();
    let alike = all_move || behind.len() == answering.len();
    let opening = format!(
        "not finished after {} s: a deadline passed in rank {rank}, in {}",
        stand.limit_ms.div_ceil(1000),
        place(&stand)
    );
    let quiet = culprits.len();
    if !alike {
        let word = if moving == 0 { "behind" } else { "stuck" };
        culprits.extend(behind.iter().map(|row| (*row, format!("{word}: {}", standing(row)))));
    } else if quiet == 0 && !all_move {
        culprits.extend(odd(&answering));
    }
    let ending = match (quiet, alike) {
        (0, _) if all_move => {
            "; all ranks that answer still move: it takes longer than the deadline, which -T SECONDS sets".to_owned()
        }
        (0, true) if rows.len() < 2 && stand.phase == Phase::Setup => {
            ", before the ranks were connected; the rank that says nothing here may be the one that the others wait for".to_owned()
        }
        (0, true) if answering.len() < 2 => String::new(),
        (0, true) if culprits.is_empty() => {
            format!("; all {} ranks that answer stand alike, so nobody is to blame by this", answering.len())
        }
        (0, true) => format!(
            "; all {} ranks that answer stand alike, but the main thread of {} stuck",
            answering.len(),
            are(culprits.len())
        ),
        (0, false) if moving > 0 => format!("; {} stuck while {moving} others move", are(behind.len())),
        (0, false) => format!("; {} behind {} others", are(behind.len()), answering.len() - behind.len()),
        (_, true) => format!("; {} silent", are(quiet)),
        (_, false) => format!("; {} silent, {} behind", are(quiet), are(behind.len())),
    };
    Verdict { exit: Exit::Timeout, cause: opening + &ending, culprits }
}

fn silent(rows: &[Row]) -> Vec<(&Row, String)> {
    let words = |row: &Row| match row.link {
        Link::Silent { ms } => Some(format!(
            "silent for {:.1} s (stopped, or its host is gone); last seen in {}",
            ms as f64 / 1000.0,
            place(&row.stand)
        )),
        Link::Broken { ms } => {
            Some(format!("died; {:.1} s before it was in {}", ms as f64 / 1000.0, place(&row.stand)))
        }
        Link::Answers | Link::Absent | Link::Done => None,
    };
    rows.iter().filter_map(|row| words(row).map(|state| (row, state))).collect()
}

/// Ranks whose main thread is stuck in the kernel, stopped or gone, if they are at most half of all. Running and
/// sleeping tell nothing apart: a rank that waits in a library does either.
fn odd<'a>(answering: &[&'a Row]) -> Vec<(&'a Row, String)> {
    let stuck = |row: &&&Row| matches!(row.stand.thread, 'D' | 'T' | 't' | 'Z' | 'X');
    let different: Vec<_> = answering.iter().filter(stuck).collect();
    if different.len() * 2 > answering.len() {
        return Vec::new();
    }
    different.into_iter().map(|row| (*row, format!("differs: {}", standing(row)))).collect()
}

fn broken(rows: &[Row]) -> Verdict<'_> {
    let dead: Vec<_> =
        silent(rows).into_iter().filter(|(row, _)| matches!(row.link, Link::Broken { .. })).collect();
    let cause = match dead.as_slice() {
        [(row, _)] => format!("rank {} died: the connection to its watchdog broke", row.who.rank),
        _ => format!("{} ranks died: the connections to their watchdogs broke", dead.len()),
    };
    Verdict { exit: Exit::Died, cause, culprits: dead }
}

fn reported<'a>(reports: &[Report], rows: &'a [Row]) -> Verdict<'a> {
    let named = |report: &Report| {
        let row = rows.iter().find(|row| row.who.rank == report.rank)?;
        Some((row, format!("{}; in {}", report.text, place(&row.stand))))
    };
    let culprits = reports.iter().filter_map(named).collect();
    let first = reports.first();
    let exit = first.map_or(Exit::Died, |report| report.exit);
    let (rank, text) = first.map_or((0, ""), |report| (report.rank, report.text.as_str()));
    let more = match reports.len() {
        0 | 1 => String::new(),
        n => format!("; {} reported errors within a second", count(n - 1) + " more"),
    };
    Verdict { exit, cause: format!("error in rank {rank}: {text}{more}"), culprits }
}

/// How the ranks stand that nobody points at, one line for each place.
fn others(rows: &[Row], named: &[u32]) -> Vec<String> {
    if let ([row], []) = (rows, named) {
        return vec![format!("  {}: {}", row.who, standing(row))];
    }
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for row in rows.iter().filter(|row| !named.contains(&row.who.rank)) {
        let text = match row.link {
            Link::Absent => "no connection to the watchdog, state unknown".to_owned(),
            Link::Done => "finished".to_owned(),
            Link::Broken { .. } => format!("connection broke; last seen in {}", place(&row.stand)),
            _ => format!("in {}", place(&row.stand)),
        };
        match groups.iter_mut().find(|(other, _)| *other == text) {
            Some((_, ranks)) => ranks.push(row.who.rank),
            None => groups.push((text, vec![row.who.rank])),
        }
    }
    groups.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
    let left = groups.len().saturating_sub(LISTED);
    let mut lines: Vec<_> =
        groups.iter().take(LISTED).map(|(text, ranks)| format!("  {}: {text}", spans(ranks))).collect();
    if left > 0 {
        lines.push(format!("  and {left} more places"));
    }
    lines
}

fn place(stand: &Stand) -> String {
    let phase = stand.phase.words();
    let (bytes, step) = (stand.bytes, stand.step);
    match stand.phase {
        Phase::WarmUp | Phase::Timed => format!("{phase}, size {bytes} B, iteration {step}"),
        Phase::FirstUse | Phase::Check | Phase::Collect | Phase::Localise => {
            format!("{phase}, size {bytes} B")
        }
        Phase::Setup | Phase::Init | Phase::Allocate | Phase::Close | Phase::Done | Phase::Renew => {
            phase.to_owned()
        }
    }
}

fn standing(row: &Row) -> String {
    let thread = match row.stand.thread {
        'R' => "; main thread runs",
        'S' => "; main thread sleeps",
        'D' => "; main thread waits inside the kernel (driver or file system)",
        'T' | 't' => "; main thread is stopped",
        'Z' | 'X' => "; main thread has ended",
        _ => "",
    };
    format!("in {} for {:.1} s{thread}", place(&row.stand), row.stand.in_phase_ms as f64 / 1000.0)
}

/// Where the middle rank stands: what a row of the table was about when nobody stands out.
fn median(rows: &[Row]) -> Stand {
    let mut stands: Vec<Stand> = rows.iter().map(|row| row.stand).collect();
    stands.sort_by_key(Stand::key);
    stands.get(stands.len() / 2).copied().unwrap_or_default()
}

fn count(ranks: usize) -> String {
    if ranks == 1 { "1 rank".to_owned() } else { format!("{ranks} ranks") }
}

fn are(ranks: usize) -> String {
    count(ranks) + if ranks == 1 { " is" } else { " are" }
}

/// `rank 3`, `ranks 0-2,5`; cut after 16 spans.
fn spans(ranks: &[u32]) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => spans.push((rank, rank)),
        }
    }
    let words: Vec<_> = spans
        .iter()
        .take(LISTED)
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    let more = if spans.len() > LISTED { ",…" } else { "" };
    format!("rank{} {}{more}", if ranks.len() == 1 { "" } else { "s" }, words.join(","))
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
