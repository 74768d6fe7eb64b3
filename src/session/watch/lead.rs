//! Rank 0's side: the table of ranks, and when to judge it. A process without connections leads itself alone.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Interest, Registry, Token};

use super::failure::{Cause, Failure, Link, Report, Row, Who, judge};
use super::net::Invitation;
use super::progress::Stand;
use super::wire::{Connection, Message};
use crate::error::Exit;

/// The listener's token; peers come behind it.
pub(super) const LISTENER: Token = Token(2);
/// At least so long after a deadline or an error others may say what they know; after a deadline all are then asked again,
/// since only who stands is stuck.
const GRACE: Duration = Duration::from_secs(1);
/// Whoever has not answered by then, or to the second question, is silent.
const SILENCE: Duration = Duration::from_secs(2);
/// From the second question to the judgement, at least.
const APART: Duration = Duration::from_millis(500);
/// After a signal: a launcher that kills because a rank died sends one, and the death is the cause.
const AFTERMATH: Duration = Duration::from_millis(300);
/// Rank 0 reads at most so many states a second.
const STATES_PER_SECOND: u32 = 125;

/// The leader.
#[derive(Debug)]
pub(super) struct Lead {
    listener: Option<(TcpListener, u64)>,
    me: usize,
    rows: Vec<Row>,
    heard: Vec<Instant>,
    peers: BTreeMap<Token, Peer>,
    next: usize,
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Peer {
    connection: Connection,
    row: Option<usize>,
}

#[derive(Debug)]
struct Pending {
    cause: Cause,
    /// When all were last asked where they stand.
    asked: Instant,
    /// No judgement before.
    earliest: Instant,
    /// No waiting after.
    latest: Instant,
    /// After a deadline, where they stood when they were asked first.
    before: Option<Vec<Stand>>,
}

impl Lead {
    /// A process on its own.
    pub(super) fn alone(who: Who) -> Self {
        Self::over(vec![who], None)
    }

    /// Rank 0 of many.
    pub(super) fn of(
        all: Vec<Who>,
        listener: std::net::TcpListener,
        invitation: &Invitation,
        registry: &Registry,
    ) -> io::Result<Self> {
        let mut listener = TcpListener::from_std(listener);
        registry.register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self::over(all, Some((listener, invitation.token))))
    }

    fn over(all: Vec<Who>, listener: Option<(TcpListener, u64)>) -> Self {
        let heard = vec![Instant::now(); all.len()];
        let row = |who| Row { who, stand: Stand::default(), link: Link::Absent, moves: false };
        let mut rows: Vec<Row> = all.into_iter().map(row).collect();
        rows[0].link = Link::Answers;
        Self { listener, me: 0, rows, heard, peers: BTreeMap::new(), next: LISTENER.0 + 1, pending: None }
    }

    /// How often a peer should say where it stands: rank 0's load has a ceiling.
    fn every(&self) -> Duration {
        let ranks = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        super::TICK.max(Duration::from_secs(1) * ranks / STATES_PER_SECOND)
    }

    /// This process's device became known.
    pub(super) fn describe(&mut self, device: &str) {
        device.clone_into(&mut self.rows[self.me].who.device);
    }

    /// Something happened at a socket.
    pub(super) fn event(&mut self, token: Token, registry: &Registry, now: Instant) {
        if token == LISTENER {
            self.welcome(registry);
            return;
        }
        let Some(peer) = self.peers.get_mut(&token) else { return };
        let (messages, mut stands) = peer.connection.receive();
        stands &= peer.connection.flush().is_ok();
        for message in messages {
            stands &= self.message(token, message, now);
        }
        if !stands {
            self.lost(token, registry, now);
        }
    }

    fn welcome(&mut self, registry: &Registry) {
        let Some((listener, _)) = &self.listener else { return };
        while let Ok((mut stream, _)) = listener.accept() {
            let token = Token(self.next);
            self.next += 1;
            if registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE).is_ok() {
                self.peers.insert(token, Peer { connection: Connection::new(stream), row: None });
            }
        }
    }

    /// Takes a message in; false where the connection is to be closed.
    fn message(&mut self, token: Token, message: Message, now: Instant) -> bool {
        let every_ms = self.every().as_millis() as u64;
        let Some(peer) = self.peers.get_mut(&token) else { return false };
        let Some(at) = peer.row else {
            let Message::Hello { token: secret, who } = message else { return false };
            let at = who.rank as usize;
            let known = self.listener.as_ref().is_some_and(|(_, token)| *token == secret);
            if !known || self.rows.get(at).is_none_or(|row| row.link != Link::Absent) {
                return false;
            }
            peer.row = Some(at);
            self.rows[at].link = Link::Answers;
            self.rows[at].who = who;
            self.heard[at] = now;
            return peer.connection.send(&Message::Welcome { every_ms }).is_ok();
        };
        self.heard[at] = now;
        let rank = self.rows[at].who.rank;
        match message {
            Message::State(stand) => self.rows[at].stand = stand,
            Message::Device(device) => self.rows[at].who.device = device,
            Message::Alarm(stand) => {
                self.rows[at].stand = stand;
                self.raise(Cause::Deadline { rank, stand }, now);
            }
            Message::Fail { code, text } => {
                self.raise(Cause::Reported(vec![Report { rank, exit: Exit::from_code(code), text }]), now);
            }
            Message::Signal(name) => self.raise(Cause::Signal { rank, name }, now),
            Message::Bye => self.rows[at].link = Link::Done,
            Message::End { code } => {
                self.rows[at].link = Link::Done;
                self.raise(Cause::Overruled { by: rank, exit: Exit::from_code(code) }, now);
            }
            Message::Hello { .. } | Message::Welcome { .. } | Message::Query => return false,
        }
        true
    }

    fn lost(&mut self, token: Token, registry: &Registry, now: Instant) {
        let Some(mut peer) = self.peers.remove(&token) else { return };
        let _ = registry.deregister(&mut peer.connection.stream);
        if let Some(at) = peer.row
            && self.rows[at].link == Link::Answers
        {
            let ms = now.saturating_duration_since(self.heard[at]).as_millis() as u64;
            self.rows[at].link = Link::Broken { ms };
            self.heard[at] = now;
            self.raise(Cause::Broken, now);
        }
    }

    /// A reason to end. The first counts, except that a death explains deadlines and signals, an error explains
    /// deadlines, and another rank's end of the job explains everything that is seen after it.
    pub(super) fn raise(&mut self, cause: Cause, now: Instant) {
        let stronger = match (&mut self.pending, &cause) {
            (None, _) | (_, Cause::Overruled { .. }) => true,
            (Some(Pending { cause: Cause::Reported(all), .. }), Cause::Reported(new)) => {
                all.extend(
                    new.iter()
                        .filter(|one| all.iter().all(|old| old.rank != one.rank))
                        .cloned()
                        .collect::<Vec<_>>(),
                );
                false
            }
            (Some(pending), Cause::Broken) => {
                matches!(pending.cause, Cause::Deadline { .. } | Cause::Signal { .. })
            }
            (Some(pending), Cause::Reported(_)) => matches!(pending.cause, Cause::Deadline { .. }),
            (Some(_), _) => false,
        };
        if !stronger {
            return;
        }
        let (earliest, latest) = match &cause {
            _ if self.peers.is_empty() && self.listener.is_none() => (Duration::ZERO, Duration::ZERO),
            Cause::LostLead { .. } | Cause::Overruled { .. } => (Duration::ZERO, Duration::ZERO),
            Cause::Broken => (Duration::ZERO, AFTERMATH),
            Cause::Deadline { .. } => (GRACE, SILENCE),
            Cause::Reported(_) => (GRACE, GRACE),
            Cause::Signal { .. } => (AFTERMATH, AFTERMATH),
        };
        // What is known of others may be as old as their last word.
        self.tell(&Message::Query);
        let (earliest, latest, before) = (now + earliest, now + latest, None);
        self.pending = Some(Pending { cause, asked: now, earliest, latest, before });
    }

    /// Whether something is being judged.
    pub(super) fn judging(&self) -> bool {
        self.pending.is_some()
    }

    /// How long nothing needs to be done.
    pub(super) fn idle(&self, now: Instant) -> Duration {
        match &self.pending {
            None => super::TICK,
            Some(pending) if now < pending.earliest => pending.earliest - now,
            Some(_) => Duration::from_millis(20),
        }
    }

    /// The judgement, once everybody has answered or had the time to; of a deadline, twice.
    pub(super) fn verdict(&mut self, own: impl Fn() -> Stand, now: Instant) -> Option<Failure> {
        let pending = self.pending.as_ref()?;
        let is_deadline = matches!(pending.cause, Cause::Deadline { .. });
        let (me, asked) = (self.me, pending.asked);
        let owes = |(at, row): (usize, &Row)| at != me && row.link == Link::Answers && self.heard[at] < asked;
        let waiting = self.rows.iter().enumerate().any(owes);
        if now < pending.earliest || (waiting && now < pending.latest) {
            return None;
        }
        let late: Vec<usize> =
            self.rows.iter().enumerate().filter(|row| is_deadline && owes(*row)).map(|(at, _)| at).collect();
        for at in late {
            let ms = now.saturating_duration_since(self.heard[at]).as_millis() as u64;
            self.rows[at].link = Link::Silent { ms };
        }
        self.rows[me].stand = own();
        if is_deadline && !self.has_compared(now) {
            return None;
        }
        self.pending.take().map(|pending| judge(&pending.cause, &self.rows))
    }

    /// Asks all once more where they stand, and after that knows who moved meanwhile; false while it asks.
    fn has_compared(&mut self, now: Instant) -> bool {
        let Some(pending) = &mut self.pending else { return true };
        let Some(before) = &pending.before else {
            pending.before = Some(self.rows.iter().map(|row| row.stand).collect());
            (pending.asked, pending.earliest, pending.latest) = (now, now + APART, now + GRACE);
            self.tell(&Message::Query);
            return false;
        };
        for (row, before) in self.rows.iter_mut().zip(before) {
            row.moves = row.link == Link::Answers && row.stand.key() != before.key();
        }
        true
    }

    /// Says something to everybody; who cannot hear is found out elsewhere.
    pub(super) fn tell(&mut self, message: &Message) {
        for peer in self.peers.values_mut().filter(|peer| peer.row.is_some()) {
            let _ = peer.connection.send(message);
        }
    }
}
