//! Where every process is, and the thread in each that ends the job when some rank stops moving, dies or fails.
//!
//! The watchdogs talk over TCP of their own: the library under test, MPI included, may be what hangs. Rank 0's
//! keeps the table of ranks, judges it, reports once and aborts. Every other keeps its own deadline and acts alone
//! when rank 0's is silent. A watchdog wakes when something happens at a socket, at its deadline, and a few times before:
//! each waking can take a millisecond from a timed loop.

mod failure;
mod follow;
mod guard;
mod lead;
mod net;
mod progress;
mod signals;
mod wire;

pub use failure::{Cause, Culprit, Failure, Link, Report, Row, Who, judge};
pub use net::ADDRESS_VARIABLE;
pub(super) use net::{nearest, own_addresses};
pub use progress::{Phase, Progress, Stand};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use mio::{Poll, Waker};

use self::guard::{BACKSTOP, Command, Guard, Join, WAKE};
use super::{Abort, Control};
use crate::error::{Error, Exit, Result};

/// How long a watchdog sleeps at most, and how long at least while nothing happens.
const TICK: Duration = Duration::from_secs(5);
const SHORTEST_TICK: Duration = Duration::from_millis(500);

/// Writes the report (stderr, record); called once, from the watchdog's thread, before the job is aborted.
pub type Sink = Arc<dyn Fn(&Failure) + Send + Sync>;

/// The main thread's handle of its watchdog.
#[derive(Debug)]
pub struct Watch {
    commands: Sender<Command>,
    waker: Waker,
    ended: Arc<AtomicBool>,
}

impl Watch {
    /// Starts the thread: deadlines and signals of this process count from now, also during `MPI_Init`.
    /// `who.rank` is the launcher's until [`Watch::connect`].
    pub fn start(who: Who, progress: &Progress, sink: Sink) -> Result<Self> {
        let failed = |error| Error::Setup(format!("cannot start the watchdog thread: {error}"));
        let poll = Poll::new().map_err(failed)?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(failed)?;
        let (commands, receiver) = channel();
        let ended = Arc::new(AtomicBool::new(false));
        let guard =
            Guard::new(who, progress.clone(), sink, poll, receiver, Arc::clone(&ended)).map_err(failed)?;
        thread::Builder::new().name("watchdog".to_owned()).spawn(|| guard.run()).map_err(failed)?;
        Ok(Self { commands, waker, ended })
    }

    /// Brings the job's watchdogs together. Collective. `who` is this process with its final rank; `address` is
    /// the value of [`ADDRESS_VARIABLE`], of which rank 0's counts.
    pub fn connect(&self, control: &dyn Control, who: &Who, address: Option<&str>) -> Result<()> {
        let who = Who { rank: control.rank(), ..who.clone() };
        let failed = |error| {
            let asked = address.map(|text| format!(" at {ADDRESS_VARIABLE}={text}")).unwrap_or_default();
            Error::Setup(format!("rank 0's watchdog cannot listen{asked}: {error}"))
        };
        let invited = if who.rank == 0 { Some(net::invite(&who, address)) } else { None };
        let (listener, text) = match invited {
            Some(Ok((listener, invitation))) => (Some(Ok(listener)), bytes(&invitation)?),
            Some(Err(error)) => (Some(Err(failed(error))), Vec::new()),
            None => (None, Vec::new()),
        };
        // Rank 0 tells the others before it fails, or they would wait for it.
        let text = control.broadcast(text)?;
        let listener = listener.transpose()?;
        if text.is_empty() {
            return Err(Error::Agreed(Exit::Setup));
        }
        let invitation = parse(&text)?;
        let all = control.gather(&bytes(&who)?)?;
        let lead = match (listener, all) {
            (Some(listener), Some(all)) => {
                Some((listener, all.iter().map(|one| parse(one)).collect::<Result<Vec<Who>>>()?))
            }
            _ => None,
        };
        self.tell(Command::Join(Box::new(Join { who, abort: control.abort(), invitation, lead })));
        Ok(())
    }

    /// The device, once it is known.
    pub fn describe(&self, device: &str) {
        self.tell(Command::Device(device.to_owned()));
    }

    /// An error of this rank alone: reported with the rank's name, and the job ends with its code. Returns only
    /// where the abort does.
    pub fn fail(&self, exit: Exit, text: &str, abort: &Abort) {
        self.tell(Command::Fail(exit, text.to_owned()));
        if !self.wait() {
            abort(exit);
        }
    }

    /// Orderly end: this process's connection may close from now on. Call after the last collective call, with the
    /// phase at `Close` or `Done`.
    pub fn finish(self) {
        self.tell(Command::Finish);
        self.wait();
    }

    fn tell(&self, command: Command) {
        // A watchdog that has ended needs no news.
        if self.commands.send(command).is_ok() {
            let _ = self.waker.wake();
        }
    }

    /// Waits for the thread's end; false if that takes too long.
    fn wait(&self) -> bool {
        let start = Instant::now();
        while !self.ended.load(Ordering::Acquire) {
            if start.elapsed() > BACKSTOP + Duration::from_secs(1) {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

fn bytes(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| Error::Setup(format!("cannot write a watchdog message: {error}")))
}

fn parse<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text)
        .map_err(|error| Error::Setup(format!("another rank runs another version of this program: {error}")))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
