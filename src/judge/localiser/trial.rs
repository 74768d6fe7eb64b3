//! Trials: whom the localiser accuses is confirmed twice, or let go with a doubt.

use super::super::compare::{self, Comparison};
use super::super::suspects::{COMPANY, MOST};
use super::super::verdict::{Blame, Finding};
use super::{FEW, Localiser, Stage, Trial};

impl Localiser {
    /// Puts a rank on trial that was seen to come late where nothing was asked, by its arrivals in the sweep. Call it before
    /// the first test. Of two ranks nobody can be compared with another, so nothing is tried there.
    pub fn told_late(&mut self, rank: u32) {
        self.trail.told_late = Some(rank);
        if self.left.len() > 2 && self.left.contains(&rank) {
            self.from = Stage::Told;
            self.trials = vec![Trial { blame: Blame::LateRank { rank }, alone: Vec::new() }];
            self.put_on_trial();
        }
    }

    /// Those whom nobody accuses, to compare `blame` with: the ends of links are fair company for a rank.
    fn good(&self, blame: &Blame) -> Vec<u32> {
        let counted = |trial: &&Trial| blame.is_link() || !trial.blame.is_link();
        let accused: Vec<u32> =
            self.trials.iter().filter(counted).flat_map(|trial| trial.blame.ranks()).collect();
        self.left.iter().copied().filter(|rank| !accused.contains(rank)).collect()
    }

    pub(super) fn put_on_trial(&mut self) {
        let comparisons =
            self.possible(|this, blame| compare::alone(&this.places, blame, &this.good(blame), 0));
        self.enter(Stage::Alone, comparisons.iter().flat_map(Comparison::tests).collect());
    }

    /// The comparisons of the trials; a trial that has none is dropped with a doubt.
    fn possible(&mut self, compare: impl Fn(&Self, &Blame) -> Option<Comparison>) -> Vec<Comparison> {
        let made: Vec<_> = self.trials.iter().map(|trial| compare(self, &trial.blame)).collect();
        let (mut trials, mut comparisons) = (Vec::new(), Vec::new());
        for (trial, comparison) in std::mem::take(&mut self.trials).into_iter().zip(made) {
            if let Some(comparison) = comparison {
                comparisons.push(comparison);
                trials.push(trial);
            } else {
                let (kind, ranks) = (trial.blame.kind(), trial.blame.ranks());
                self.doubts.push(format!("{kind} {ranks:?}: too few others to compare with"));
            }
        }
        self.trials = trials;
        comparisons
    }

    /// Who is slow alone too goes on to a ring.
    pub(super) fn heard_alone(&mut self) {
        let heard = Comparison::heard(&self.heard);
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for (mut trial, pairs) in std::mem::take(&mut self.trials).into_iter().zip(heard) {
            trial.alone = pairs;
            if compare::confirmed(&trial.blame, &trial.alone) {
                kept.push(trial);
            } else {
                dropped.push(trial.blame);
            }
        }
        // A single look at many links has its share of chance; a rank was seen several times.
        let seen = dropped.iter().filter(|blame| !blame.is_link());
        let words = match self.from {
            Stage::Told => "late in the sweep's arrivals, not in tests",
            _ => "seen together with others, not alone (a shared path?)",
        };
        self.doubts.extend(seen.map(|blame| format!("{} {:?}: {words}", blame.kind(), blame.ranks())));
        if kept.len() > MOST {
            self.doubts.push(format!("more than {MOST} links are slow, without a pattern that is known"));
            return self.go_on(self.from);
        }
        if kept.is_empty() {
            return self.go_on(self.from);
        }
        self.trials = kept;
        // Where too few are left for a ring, other partners make the second confirmation.
        let comparisons = self.possible(|this, blame| {
            let good = this.good(blame);
            let ring = compare::in_a_ring(&this.places, blame, &good);
            ring.or_else(|| compare::alone(&this.places, blame, &good, 1))
        });
        self.enter(Stage::Ring, comparisons.iter().flat_map(Comparison::tests).collect());
    }

    /// Who slows a ring down too is named.
    pub(super) fn heard_rings(&mut self) {
        let heard = Comparison::heard(&self.heard);
        let mut confirmed = Vec::new();
        for (trial, pairs) in std::mem::take(&mut self.trials).into_iter().zip(heard) {
            if compare::confirmed(&trial.blame, &pairs) {
                confirmed.extend(compare::finding(trial.blame, &trial.alone));
            } else {
                let (kind, ranks) = (trial.blame.kind(), trial.blame.ranks());
                self.doubts.push(format!("{kind} {ranks:?}: slow alone, not in a ring"));
            }
        }
        let mut named = self.exceptions(confirmed);
        // Arrivals are one more confirmation, of another kind.
        let told = u32::from(self.from == Stage::Told);
        for finding in &mut named {
            finding.confirmations += told;
        }
        let gone = ranks_of(&named);
        self.left.retain(|rank| !gone.contains(rank));
        self.findings.extend(named);
        let enough = self.findings.len() >= MOST || gone.is_empty();
        match self.from {
            Stage::Full if self.places.ranks() as usize > FEW => self.enter(Stage::Done, Vec::new()),
            stage if enough => self.go_on(stage),
            stage => self.search_after(stage),
        }
    }

    /// Of those that are confirmed, the exceptions: all where enough others are left beside their ranks, else of the ranks
    /// the one that stands out most.
    fn exceptions(&self, mut confirmed: Vec<Finding>) -> Vec<Finding> {
        if ranks_of(&confirmed).len() + COMPANY > self.left.len() {
            let ranks = confirmed.iter().filter(|finding| !finding.blame.is_link());
            let most = ranks.max_by(|a, b| a.ratio.total_cmp(&b.ratio)).map(|finding| finding.blame.clone());
            confirmed.retain(|finding| finding.blame.is_link() || Some(&finding.blame) == most.as_ref());
        }
        confirmed
    }
}

/// The ranks that are named as such, not as ends of links.
fn ranks_of(findings: &[Finding]) -> Vec<u32> {
    findings
        .iter()
        .filter(|finding| !finding.blame.is_link())
        .flat_map(|finding| finding.blame.ranks())
        .collect()
}
