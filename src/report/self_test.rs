//! What a self-test found.

use serde::{Deserialize, Serialize};

use crate::aggregate::{Ladder, smallest_found};

/// Which lateness is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// The size, in bytes.
    pub size_bytes: u64,
    /// The rank that was made late.
    pub rank: u32,
    /// The smallest lateness that was found every time, as all larger ones were, in µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_us: Option<f64>,
    /// Trials of each lateness.
    pub trials: usize,
    /// Lateness in µs, and in how many trials it was found.
    pub ladder: Vec<(f64, usize)>,
    /// Trials without a fault.
    pub healthy_trials: usize,
    /// In how many of them some rank was named.
    pub false_alarms: usize,
}

impl SelfTest {
    /// Lateness grew from trial to trial.
    pub fn new(size_bytes: u64, rank: u32, found: &Ladder<f64>) -> Self {
        let &Ladder { each: trials, healthy_trials, false_alarms, .. } = found;
        let ladder = found.complete();
        let smallest_us = smallest_found(ladder.iter().rev(), trials);
        Self { size_bytes, rank, smallest_us, trials, ladder, healthy_trials, false_alarms }
    }
}

/// Which slow-down of a link is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfTestSlow {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// Bytes of a message that is not made longer.
    pub bytes: u64,
    /// The smallest slow-down that was found every time, as all larger ones were, in % of the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_pct: Option<u32>,
    /// Trials of each slow-down.
    pub trials: usize,
    /// Slow-downs in %, and in how many trials each was found.
    pub ladder: Vec<(u32, usize)>,
    /// Trials without a slow-down.
    pub healthy_trials: usize,
    /// In how many of them the link was called slow.
    pub false_alarms: usize,
}

impl SelfTestSlow {
    /// Slow-downs fell from trial to trial.
    pub fn new((from, to): (u32, u32), bytes: u64, found: &Ladder<u32>) -> Self {
        let &Ladder { each: trials, healthy_trials, false_alarms, .. } = found;
        let ladder = found.complete();
        let smallest_pct = smallest_found(ladder.iter(), trials);
        Self { from, to, bytes, smallest_pct, trials, ladder, healthy_trials, false_alarms }
    }
}
