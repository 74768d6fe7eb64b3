//! The watchdog's thread.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use super::failure::{Cause, Failure, Link, Report, Row, Who, judge};
use super::follow::{ESCALATION, Follow, turn};
use super::lead::Lead;
use super::net::{Invitation, accept};
use super::progress::{Phase, Progress, Stand, main_thread};
use super::signals::Signals;
use super::wire::{Connection, Message};
use super::{ADDRESS_VARIABLE, SHORTEST_TICK, Sink, TICK};
use crate::error::{Exit, leave};
use crate::session::Abort;

/// The main thread has something to say.
pub(super) const WAKE: Token = Token(0);
const SIGNAL: Token = Token(1);
/// A follower's connection to rank 0.
const LEADER: Token = Token(2);
/// Time for a launcher to forward a report.
const FORWARDED: Duration = Duration::from_millis(300);
/// Reporting and aborting together must not take longer.
pub(super) const BACKSTOP: Duration = Duration::from_secs(15);
/// A thread that wakes up later than this was stopped with its whole process.
const STOPPED: Duration = Duration::from_secs(5);

/// What the main thread tells its watchdog.
pub(super) enum Command {
    /// The job is known.
    Join(Box<Join>),
    /// The device is known.
    Device(String),
    /// An error of this rank's own.
    Fail(Exit, String),
    /// An orderly end.
    Finish,
}

/// How to meet the others.
pub(super) struct Join {
    pub(super) who: Who,
    pub(super) abort: Abort,
    pub(super) invitation: Invitation,
    /// Rank 0 only: its listener and everybody's name.
    pub(super) lead: Option<(TcpListener, Vec<Who>)>,
}

enum Role {
    Lead(Lead),
    Follow(Follow),
}

/// The thread's state.
pub(super) struct Guard {
    who: Who,
    progress: Progress,
    abort: Abort,
    sink: Sink,
    poll: Poll,
    commands: Receiver<Command>,
    signals: Signals,
    role: Role,
    /// The phase (by sequence) whose deadline has been reported.
    alarmed: Option<u64>,
    /// When to abort on rank 0's word, and with what.
    ending: Option<(Instant, Exit)>,
    finishing: bool,
    ended: Arc<AtomicBool>,
}

impl Guard {
    pub(super) fn new(
        who: Who,
        progress: Progress,
        sink: Sink,
        poll: Poll,
        commands: Receiver<Command>,
        ended: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let signals = Signals::new(&poll, SIGNAL)?;
        let role = Role::Lead(Lead::alone(who.clone()));
        let abort: Abort = Arc::new(leave);
        Ok(Self {
            who,
            progress,
            abort,
            sink,
            poll,
            commands,
            signals,
            role,
            alarmed: None,
            ending: None,
            finishing: false,
            ended,
        })
    }

    /// Runs until the end of the job.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        loop {
            let pause = self.pause();
            let before = Instant::now();
            // An interrupted wait is a short one.
            let _ = self.poll.poll(&mut events, Some(pause));
            let now = Instant::now();
            let late = now.saturating_duration_since(before).saturating_sub(pause);
            if late > STOPPED {
                self.progress.extend(late);
            }
            for event in &events {
                self.event(event.token(), now);
            }
            self.obey(now);
            self.look(now);
            if let Some(failure) = self.verdict(now) {
                self.report(&failure);
                break;
            }
            if let Some((at, exit)) = self.ending
                && now >= at
            {
                backstop(exit, &self.ended);
                (self.abort)(exit);
                break;
            }
            if self.finishing && !self.judging() {
                self.say(&Message::Bye);
                break;
            }
        }
        self.signals.close();
        self.ended.store(true, Ordering::Release);
    }

    fn pause(&self) -> Duration {
        let now = Instant::now();
        let role = match &self.role {
            Role::Lead(lead) => lead.idle(now),
            Role::Follow(follow) => {
                let escalation = follow.escalation.as_ref().map_or(follow.next, |(at, _)| *at);
                follow.next.min(escalation).saturating_duration_since(now)
            }
        };
        let ending = self.ending.map_or(TICK, |(at, _)| at.saturating_duration_since(now));
        let deadline = match self.progress.left() {
            Some(left) if !left.is_zero() => left + Duration::from_millis(1),
            // The deadline has passed, and is being looked into.
            Some(_) => SHORTEST_TICK,
            None => TICK,
        };
        role.min(ending).min(deadline).min(self.progress.tick())
    }

    fn event(&mut self, token: Token, now: Instant) {
        match (token, &mut self.role) {
            (WAKE, _) => {}
            (SIGNAL, _) => self.signals.drain(),
            (token, Role::Lead(lead)) => lead.event(token, self.poll.registry(), now),
            (_, Role::Follow(follow)) => {
                let Some(connection) = &mut follow.connection else { return };
                let (messages, mut stands) = connection.receive();
                stands &= connection.flush().is_ok();
                self.hear(messages, stands, now);
            }
        }
    }

    /// What rank 0 says.
    fn hear(&mut self, messages: Vec<Message>, stands: bool, now: Instant) {
        for message in messages {
            match message {
                Message::Query => {
                    let stand = self.stand();
                    self.say(&Message::State(stand));
                }
                Message::End { code } => self.ending = Some((now + ESCALATION, Exit::from_code(code))),
                Message::Bye => {
                    self.role = Role::Lead(Lead::alone(self.who.clone()));
                    return;
                }
                _ => {}
            }
        }
        if let Role::Follow(follow) = &mut self.role
            && !stands
        {
            if let Some(connection) = &mut follow.connection {
                let _ = self.poll.registry().deregister(&mut connection.stream);
            }
            if self.ending.is_none() && self.progress.phase() != Phase::Done {
                let text = "rank 0 died: the connection to its watchdog broke".to_owned();
                let cause = Cause::LostLead { exit: Exit::Died, text };
                follow.escalation = Some((now + turn(self.who.rank), cause));
            }
        }
    }

    /// What the main thread says.
    fn obey(&mut self, now: Instant) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Join(join) => self.join(*join),
                Command::Device(device) => {
                    self.who.device.clone_from(&device);
                    match &mut self.role {
                        Role::Lead(lead) => lead.describe(&device),
                        Role::Follow(_) => self.say(&Message::Device(device)),
                    }
                }
                // The main thread's own wait has ended at its deadline: whose fault that is, the table of all ranks says.
                Command::Fail(Exit::Timeout, _) => {
                    let stand = self.stand();
                    self.raise(Cause::Deadline { rank: self.who.rank, stand }, &Message::Alarm(stand), now);
                }
                Command::Fail(exit, text) => {
                    let report = Report { rank: self.who.rank, exit, text: text.clone() };
                    let stand = self.stand();
                    self.say(&Message::State(stand));
                    self.raise(
                        Cause::Reported(vec![report]),
                        &Message::Fail { code: exit.code(), text },
                        now,
                    );
                }
                Command::Finish => self.finishing = true,
            }
        }
    }

    fn join(&mut self, join: Join) {
        let Join { who, abort, invitation, lead } = join;
        (self.who, self.abort) = (who, abort);
        let role = match lead {
            Some((listener, all)) => {
                Lead::of(all, listener, &invitation, self.poll.registry()).map(Role::Lead)
            }
            None => self.follow(&invitation).map(Role::Follow),
        };
        self.role = role.unwrap_or_else(|error| {
            // Not worth a warning by itself: rank 0 may just have refused the run.
            tracing::info!(
                rank = self.who.rank,
                host = %self.who.host,
                "no connection to rank 0's watchdog ({error}): a hang is reported by this rank alone; \
                 set {ADDRESS_VARIABLE} to an address of rank 0's host that this host can reach",
            );
            match self.who.rank {
                0 => Role::Lead(Lead::alone(self.who.clone())),
                _ => Role::Follow(Follow::of(&invitation.who, None, TICK)),
            }
        });
    }

    fn follow(&self, invitation: &Invitation) -> io::Result<Follow> {
        let (stream, every_ms) = accept(invitation, &self.who)?;
        let mut connection = Connection::new(mio::net::TcpStream::from_std(stream));
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut connection.stream, LEADER, interest)?;
        Ok(Follow::of(&invitation.who, Some(connection), Duration::from_millis(every_ms)))
    }

    /// Signals, the deadline, and the regular state.
    fn look(&mut self, now: Instant) {
        if let Some(name) = self.signals.take()
            && !matches!(self.progress.phase(), Phase::Close | Phase::Done)
        {
            let cause = Cause::Signal { rank: self.who.rank, name: name.to_owned() };
            self.raise(cause, &Message::Signal(name.to_owned()), now);
        }
        let sequence = self.progress.stand().sequence;
        if self.progress.left().is_some_and(|left| left.is_zero()) && self.alarmed != Some(sequence) {
            self.alarmed = Some(sequence);
            let stand = self.stand();
            self.raise(Cause::Deadline { rank: self.who.rank, stand }, &Message::Alarm(stand), now);
        }
        if let Role::Follow(follow) = &mut self.role
            && now >= follow.next
        {
            follow.next = now + follow.every;
            follow.send(&Message::State(self.progress.stand()));
        }
    }

    /// A reason to end: judged here, or told to rank 0 and judged here only if that does nothing.
    fn raise(&mut self, cause: Cause, message: &Message, now: Instant) {
        match &mut self.role {
            Role::Lead(lead) => lead.raise(cause, now),
            Role::Follow(follow) if self.ending.is_none() => follow.raise(cause, message, self.who.rank, now),
            Role::Follow(_) => {}
        }
    }

    fn verdict(&mut self, now: Instant) -> Option<Failure> {
        let progress = self.progress.clone();
        let own = || Stand { thread: main_thread(), ..progress.stand() };
        match &mut self.role {
            Role::Lead(lead) => lead.verdict(own, now),
            Role::Follow(follow) if self.ending.is_none() => {
                let (_, cause) = follow.escalation.take_if(|(at, _)| now >= *at)?;
                let is_lost = matches!(cause, Cause::LostLead { .. }) && follow.connection.is_some();
                let link = if is_lost { Link::Broken { ms: 0 } } else { Link::Absent };
                let lead = Row { who: follow.lead.clone(), stand: Stand::default(), link, moves: false };
                let me = Row { who: self.who.clone(), stand: own(), link: Link::Answers, moves: false };
                Some(judge(&cause, &[lead, me]))
            }
            Role::Follow(_) => None,
        }
    }

    /// The end: told to people, to the other watchdogs, and done.
    fn report(&mut self, failure: &Failure) {
        backstop(failure.exit, &self.ended);
        (self.sink)(failure);
        // A launcher that kills at once (Hydra) also drops what it has not forwarded yet: the report itself.
        thread::sleep(FORWARDED);
        self.say(&Message::End { code: failure.exit.code() });
        (self.abort)(failure.exit);
    }

    fn judging(&self) -> bool {
        match &self.role {
            Role::Lead(lead) => lead.judging(),
            Role::Follow(follow) => follow.escalation.is_some() || self.ending.is_some(),
        }
    }

    /// To rank 0, or as rank 0 to everybody.
    fn say(&mut self, message: &Message) {
        match &mut self.role {
            Role::Lead(lead) if !matches!(message, Message::State(_)) => lead.tell(message),
            Role::Lead(_) => {}
            Role::Follow(follow) => follow.send(message),
        }
    }

    fn stand(&self) -> Stand {
        Stand { thread: main_thread(), ..self.progress.stand() }
    }
}

/// Whatever the report or the abort hangs in, the process ends.
fn backstop(exit: Exit, ended: &Arc<AtomicBool>) {
    let ended = Arc::clone(ended);
    let wait = move || {
        thread::sleep(BACKSTOP);
        if !ended.load(Ordering::Acquire) {
            leave(exit);
        }
    };
    // Without the thread, the report and the abort are still tried.
    drop(thread::Builder::new().name("backstop".to_owned()).spawn(wait));
}
