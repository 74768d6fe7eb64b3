//! Checked calls, outside the timed region: fill, run once, compare; all ranks agree on what it means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Bench, Target};
use crate::collective::Case;
use crate::error::Result;
use crate::session::watch::Phase;
use crate::verify::{Sight, Tally, diagnose};
use crate::vocab::{Placement, Slot};

/// Wrong elements that are looked at to name the fault.
const EXAMINED: usize = 64;

/// Wrong data at one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The rank whose result is wrong.
    pub rank: u32,
    /// Wrong elements.
    pub wrong: u64,
    /// First wrong element, from the start of the buffer.
    pub first: u64,
    /// Last wrong element.
    pub last: u64,
    /// Bits that the first wrong element must have.
    pub expected: u64,
    /// Bits that it has.
    pub got: u64,
    /// What the pattern of wrong elements says, in words.
    pub cause: String,
}

/// What the checks of a placement say; the same on every rank but for `tallies` and `mismatches`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// Wrong elements over all ranks; `None` where nothing was checked.
    pub wrong: Option<u64>,
    /// Why no check can see anything, if so.
    pub blind: Option<&'static str>,
    /// What the check cannot see, if something.
    pub weak: Option<&'static str>,
    /// Elements of the message over the number from which losing a rank is certain to show; below 1 it may not.
    pub coverage: Option<f64>,
    /// With `--explain`, the algorithm that the library used, or why that is unknown.
    pub algorithm: Option<String>,
    /// With `--explain`, the library's own estimate of one operation, in µs, or why there is none.
    pub predicted: Option<std::result::Result<f64, String>>,
    /// Checked calls.
    pub repetitions: u64,
    /// This process's ranks' counts.
    pub tallies: Vec<Tally>,
    /// This process's ranks with wrong data.
    pub mismatches: Vec<Mismatch>,
}

/// What rank 0 tells all after a checked call.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Decision {
    wrong: u64,
    /// Colours of the groups that follow the second legal pattern.
    follow_b: Vec<u32>,
}

impl Decision {
    /// Of all groups' counts, by colour.
    fn of(groups: &BTreeMap<u32, Tally>) -> Self {
        let follow_b = groups.iter().filter(|(_, tally)| tally.follows_b()).map(|(color, _)| *color);
        Self { wrong: groups.values().map(Tally::wrong).sum(), follow_b: follow_b.collect() }
    }
}

impl Bench<'_> {
    /// `-c` checked calls, up to the first wrong one.
    pub(super) fn check(&mut self, target: &Target, placement: Placement, cases: &[Case]) -> Result<Checked> {
        let mut checked = Checked::default();
        if self.settings.checks == 0
            || (placement == Placement::InPlace && !self.collective.traits().checks_in_place)
        {
            return Ok(checked);
        }
        let (blind, weak, cover_elems) = match self.pattern(target).sight() {
            Sight::Blind { reason } | Sight::Refused { reason } => (Some(reason), None, None),
            Sight::Weak { cover_elems, reason } => (None, Some(reason), Some(cover_elems)),
            Sight::Full { cover_elems } => (None, None, Some(cover_elems)),
        };
        // How much a check sees depends on the group's size, and all ranks check or none.
        if self.control.vote(u64::from(blind.is_some()))? > 0 {
            checked.blind = blind.or(Some("a group of another size has no check that could see an error"));
            return Ok(checked);
        }
        checked.weak = weak;
        checked.coverage = cover_elems.and_then(|cover| self.coverage(cases, cover));
        self.progress.enter(Phase::Check, self.settings.deadlines.later(std::time::Duration::from_secs(30)));
        checked.wrong = Some(0);
        for index in 0..self.settings.checks {
            checked.repetitions = index + 1;
            let decision = self.checked_call(target, placement, cases, index, &mut checked.tallies)?;
            if decision.wrong > 0 {
                checked.wrong = Some(decision.wrong);
                let follows_b = decision.follow_b.contains(&self.group);
                self.examine(target, cases, index, follows_b, &mut checked)?;
                break;
            }
        }
        Ok(checked)
    }

    /// Elements of the reduced message over `cover`; copies show everything from one element on.
    fn coverage(&self, cases: &[Case], cover: u64) -> Option<f64> {
        let layout = cases[0].layout;
        self.collective.traits().reduces.then(|| layout.span() as f64 / cover.max(1) as f64)
    }

    fn checked_call(
        &mut self,
        target: &Target,
        placement: Placement,
        cases: &[Case],
        index: u64,
        tallies: &mut Vec<Tally>,
    ) -> Result<Decision> {
        self.repetition += 1;
        self.prepare(target, placement)?;
        let pattern = self.pattern(target);
        self.fill(cases, &pattern, index)?;
        self.call_once(cases, index)?;
        self.flip(cases, index)?;
        tallies.clear();
        for (local, case) in (0..).zip(cases) {
            self.backend.select(local)?;
            self.backend.shift(self.settings.shift(case, index));
            tallies.push(self.backend.check(&self.collective.after(case), &pattern)?);
        }
        self.decide(tallies)
    }

    /// Flips a bit in the middle of the result that a fault is injected into, if there is one.
    fn flip(&mut self, cases: &[Case], index: u64) -> Result<()> {
        let Some((local, case)) = self.corrupt.and_then(|local| Some((local, cases.get(local as usize)?)))
        else {
            return Ok(());
        };
        // Of a rank that gets no result, such as one that is not the root, nothing is looked at.
        let content = self.collective.after(case);
        let Some(run) = content.iter().rfind(|run| run.count > 0) else { return Ok(()) };
        self.backend.select(local)?;
        self.backend.shift(self.settings.shift(case, index));
        self.backend.flip(Slot { offset: run.at.offset + run.count / 2, ..run.at })
    }

    /// One operation, complete on return; with `-G` as a recording, since that is what was timed.
    fn call_once(&mut self, cases: &[Case], index: u64) -> Result<()> {
        let deadline = self.settings.deadlines.later(self.expected(1));
        if self.settings.graph == 0 {
            self.operation(cases, index)?;
            return self.backend.wait(deadline);
        }
        self.backend.capture()?;
        self.operation(cases, index)?;
        self.backend.captured()?;
        self.backend.replay()?;
        self.backend.wait(deadline)?;
        self.backend.forget()
    }

    /// One call follows one legal pattern on all ranks of a communicator, so only the sum over them says how many are
    /// wrong.
    fn decide(&self, tallies: &[Tally]) -> Result<Decision> {
        let mut total = Tally::default();
        for tally in tallies {
            total.merge(tally);
        }
        let mine = serde_json::to_vec(&(self.group, total)).unwrap_or_default();
        let mut decision = Vec::new();
        if let Some(all) = self.control.gather(&mine)? {
            let mut groups = BTreeMap::<u32, Tally>::new();
            for (color, tally) in all.iter().filter_map(|bytes| serde_json::from_slice(bytes).ok()) {
                groups.entry(color).or_default().merge(&tally);
            }
            decision = serde_json::to_vec(&Decision::of(&groups)).unwrap_or_default();
        }
        let told = self.control.broadcast(decision)?;
        Ok(serde_json::from_slice(&told).unwrap_or(Decision { wrong: u64::MAX, follow_b: Vec::new() }))
    }

    /// Looks at the first wrong elements of each local rank and names what they have in common.
    fn examine(
        &mut self,
        target: &Target,
        cases: &[Case],
        index: u64,
        b: bool,
        checked: &mut Checked,
    ) -> Result<()> {
        let pattern = self.pattern(target);
        for (local, case) in (0..).zip(cases) {
            let tally = checked.tallies[local as usize];
            let (wrong, first, last) = if b {
                (tally.wrong_b, tally.first_b, tally.last_b)
            } else {
                (tally.wrong_a, tally.first_a, tally.last_a)
            };
            if wrong == 0 {
                continue;
            }
            self.backend.select(local)?;
            self.backend.shift(self.settings.shift(case, index));
            let bad = self.backend.bad(&self.collective.after(case), &pattern, b, EXAMINED)?;
            let spec = pattern.spec();
            let expected = bad.first().map_or(0, |bad| bad.expected(&spec, b));
            let got = bad.first().map_or(0, |bad| bad.got);
            let cause = diagnose(&pattern, &bad, b).to_string();
            checked.mismatches.push(Mismatch {
                rank: self.first_rank + local,
                wrong,
                first,
                last,
                expected,
                got,
                cause,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_follows_a_legal_result_of_its_own() {
        let tally = |wrong_a, wrong_b| Tally { wrong_a, wrong_b, ..Tally::default() };
        let told = |groups: [(u32, Tally); 2]| Decision::of(&BTreeMap::from(groups));
        let told_apart = told([(0, tally(0, 5)), (3, tally(7, 0))]);
        assert_eq!((told_apart.wrong, told_apart.follow_b), (0, vec![3]));
        assert_eq!(told([(0, tally(2, 5)), (3, tally(7, 1))]).wrong, 3);
    }
}
