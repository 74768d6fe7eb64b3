//! Every other rank's side: rank 0 is told, and only where it does nothing is the job ended from here.

use std::time::{Duration, Instant};

use super::ADDRESS_VARIABLE;
use super::failure::{Cause, Who};
use super::wire::{Connection, Message};
use crate::error::Exit;

/// Rank 0 has so long to end the job after it was told why; then the teller does.
pub(super) const ESCALATION: Duration = Duration::from_secs(5);

/// The follower.
pub(super) struct Follow {
    /// None where rank 0's watchdog never answered.
    pub(super) connection: Option<Connection>,
    pub(super) lead: Who,
    pub(super) every: Duration,
    pub(super) next: Instant,
    /// What this process will do itself, and when, unless rank 0 ends the job before.
    pub(super) escalation: Option<(Instant, Cause)>,
}

impl Follow {
    pub(super) fn of(lead: &Who, connection: Option<Connection>, every: Duration) -> Self {
        Self { connection, lead: lead.clone(), every, next: Instant::now(), escalation: None }
    }

    /// A connection that broke is seen by the next read.
    pub(super) fn send(&mut self, message: &Message) {
        if let Some(connection) = &mut self.connection {
            let _ = connection.send(message);
        }
    }

    /// How long rank 0 is given for a judgement of its own, which knows more: on what it was told, or where it cannot be
    /// told, on the deadline that passes there as well.
    fn patience(&self, cause: &Cause) -> Duration {
        let waits = self.connection.is_some() || matches!(cause, Cause::Deadline { .. });
        if waits { ESCALATION } else { Duration::ZERO }
    }

    /// Whether a cause counts: the first does, but that an error of this process explains more than a deadline where nothing
    /// is known of rank 0.
    fn takes(&self, cause: &Cause) -> bool {
        match &self.escalation {
            None => true,
            Some((_, Cause::LostLead { exit: Exit::Timeout, .. })) => {
                self.connection.is_none() && matches!(cause, Cause::Reported(_))
            }
            Some(_) => false,
        }
    }

    /// A reason to end: told to rank 0, and judged here, as `rank`, only if that does nothing.
    pub(super) fn raise(&mut self, cause: Cause, message: &Message, rank: u32, now: Instant) {
        if !self.takes(&cause) {
            return;
        }
        self.send(message);
        let patience = self.patience(&cause);
        let cause = match cause {
            Cause::Deadline { stand, .. } => {
                let silence = match &self.connection {
                    Some(_) => "is silent too (stopped, or its host is gone)".to_owned(),
                    None => {
                        format!("never answered (stopped, or not to be reached: {ADDRESS_VARIABLE})")
                    }
                };
                let seconds = stand.limit_ms.div_ceil(1000);
                let text = format!("not finished after {seconds} s, and rank 0's watchdog {silence}");
                Cause::LostLead { exit: Exit::Timeout, text }
            }
            other => other,
        };
        let at = now + patience + turn(rank);
        let at = self.escalation.as_ref().map_or(at, |(earlier, _)| at.min(*earlier));
        self.escalation = Some((at, cause));
    }
}

/// Ranks that report by themselves do so one after the other, so that the first can end the job before the rest.
pub(super) fn turn(rank: u32) -> Duration {
    Duration::from_millis(20) * rank.min(100)
}
