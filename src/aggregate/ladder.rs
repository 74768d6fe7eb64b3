//! A self-test: its trials, and what they come to.

use serde::{Deserialize, Serialize};

use super::{LateObserver, RankSample, late};

/// One trial of lateness, as rank 0 gathered it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LateTrial {
    /// How late one rank was made, in µs; absent in a healthy trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_by_us: Option<f64>,
    /// Out of place and in place.
    pub placements: Vec<Gathering>,
}

/// All ranks' series of one placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gathering {
    /// No two ranks' times are further off each other than this, in µs.
    pub clock_error_us: f64,
    /// By rank.
    pub ranks: Vec<RankSample>,
}

impl LateTrial {
    /// Who is named, judged as a run would be, with `aggregated` operations an iteration.
    pub fn named(&self, aggregated: u64) -> Option<u32> {
        let mut observer = LateObserver::default();
        for Gathering { clock_error_us, ranks } in &self.placements {
            observer.push(late(ranks, *clock_error_us, 0, aggregated));
        }
        observer.late_rank()
    }
}

/// What trials of faults of growing or falling size come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Ladder<T> {
    /// Trials of each fault.
    pub each: usize,
    /// Trials without a fault, and in how many of them something was named.
    pub healthy_trials: usize,
    /// See above.
    pub false_alarms: usize,
    /// Faults in order, their trials, and in how many the fault was found.
    steps: Vec<(T, usize, usize)>,
}

impl Ladder<f64> {
    /// One trial of lateness, and who was named: `guilty` is the one that was made late.
    pub fn push_named(&mut self, late_by_us: Option<f64>, named: Option<u32>, guilty: u32) {
        let wanted = late_by_us.map(|_| guilty);
        self.push(late_by_us, named.is_some() && (wanted.is_none() || wanted == named));
    }
}

impl<T: Copy + PartialEq> Ladder<T> {
    /// No trial yet; there will be `each` of a fault.
    pub const fn new(each: usize) -> Self {
        Self { each, healthy_trials: 0, false_alarms: 0, steps: Vec::new() }
    }

    /// One trial, without a fault or with this one, and whether something was found.
    pub fn push(&mut self, fault: Option<T>, found: bool) {
        let Some(fault) = fault else {
            self.healthy_trials += 1;
            self.false_alarms += usize::from(found);
            return;
        };
        if self.steps.last().is_none_or(|(last, ..)| *last != fault) {
            self.steps.push((fault, 0, 0));
        }
        if let Some((_, trials, of_them)) = self.steps.last_mut() {
            *trials += 1;
            *of_them += usize::from(found);
        }
    }

    /// The faults that had all their trials, and in how many each was found.
    pub fn complete(&self) -> Vec<(T, usize)> {
        let complete = self.steps.iter().filter(|(_, trials, _)| *trials == self.each);
        complete.map(|(fault, _, found)| (*fault, *found)).collect()
    }

    /// How many of the last faults were found every time.
    pub fn sure(&self) -> usize {
        self.steps.iter().rev().take_while(|(_, _, found)| *found == self.each).count()
    }
}

/// The smallest fault that was found in all of its `each` trials, as all larger ones were; the largest comes first.
pub fn smallest_found<'a, T: Copy + 'a>(
    largest_first: impl Iterator<Item = &'a (T, usize)>,
    each: usize,
) -> Option<T> {
    largest_first.take_while(|(_, found)| *found == each).last().map(|(fault, _)| *fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_is_the_last_before_one_was_missed() {
        let found = |ladder: &[(u32, usize)]| smallest_found(ladder.iter(), 5);
        assert_eq!(found(&[(40, 5), (20, 5), (10, 2), (5, 5)]), Some(20));
        assert_eq!(found(&[(40, 4), (20, 5)]), None);
        assert_eq!(found(&[(40, 5), (20, 5), (10, 5), (5, 5)]), Some(5));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn the_smallest_is_the_first_from_which_nothing_is_missed() {
        let found = |counts: &[usize]| {
            let ladder: Vec<(f64, usize)> = (1..).map(f64::from).zip(counts.iter().copied()).collect();
            smallest_found(ladder.iter().rev(), 5)
        };
        assert_eq!(found(&[0, 2, 5, 5]), Some(3.0));
        assert_eq!(found(&[5, 2, 5, 5]), Some(3.0));
        assert_eq!(found(&[5, 5]), Some(1.0));
        assert_eq!(found(&[0, 0, 4]), None);
        assert_eq!(found(&[0, 0, 5]), Some(3.0));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn only_the_guilty_one_is_found_and_any_name_is_a_false_alarm() {
        let mut ladder = Ladder::new(3);
        for late_by_us in [None, Some(0.5)] {
            for named in [None, Some(1), Some(2)] {
                ladder.push_named(late_by_us, named, 2);
            }
        }
        assert_eq!((ladder.false_alarms, ladder.complete()), (2, vec![(0.5, 1)]));
    }

    #[test]
    fn trials_are_counted_by_their_fault() {
        let mut ladder = Ladder::new(2);
        for (fault, found) in [(None, false), (None, true), (None, false), (Some(40), true), (Some(40), true)]
        {
            ladder.push(fault, found);
        }
        assert_eq!((ladder.healthy_trials, ladder.false_alarms, ladder.sure()), (3, 1, 1));
        ladder.push(Some(20), true);
        // A fault whose trials ended early says nothing.
        assert_eq!((ladder.complete(), ladder.sure()), (vec![(40, 2)], 0));
        ladder.push(Some(20), false);
        ladder.push(Some(10), true);
        ladder.push(Some(10), true);
        assert_eq!((ladder.complete(), ladder.sure()), (vec![(40, 2), (20, 1), (10, 2)], 1));
    }
}
