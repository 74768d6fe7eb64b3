//! What a localiser was told, so that a record of it can be asked again.

use serde::{Deserialize, Serialize};

use super::{Limits, Localiser, Places};

/// All that a verdict follows from, beside where ranks sit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trail {
    /// Each rank was looked at by itself first.
    pub own_first: bool,
    /// The rank that arrivals had named as late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_late: Option<u32>,
    /// Of each test, in order, the times of its groups, in µs per operation.
    pub times_us: Vec<Vec<f64>>,
    /// Why it was stopped before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

impl Trail {
    /// The localiser at its end, which asked the same tests and heard the same times.
    pub fn replay(&self, places: Places) -> Localiser {
        let mut localiser = Localiser::new(places, Limits::default());
        if self.own_first {
            localiser = localiser.own_first();
        }
        if let Some(rank) = self.told_late {
            localiser.told_late(rank);
        }
        for times_us in &self.times_us {
            let Some(test) = localiser.ask() else { break };
            localiser.tell(test, times_us.clone());
        }
        match &self.stopped {
            Some(reason) => localiser.stop(reason),
            // The last times are judged when the next test is asked for, of which there is none.
            None => drop(localiser.ask()),
        }
        localiser
    }
}
