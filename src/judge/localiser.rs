//! The machine: which tests, in which order, until a name or the end of what can be asked.
//!
//! Halves by the bits of a rank's place narrow a slow or late rank down; rounds of disjoint pairs among the suspects
//! (or all) tell its kind; what nobody explains is looked for in all pairs. Every name is confirmed twice before it
//! counts. Whoever was named is left out, and the search starts again.

mod trial;

use std::collections::VecDeque;

use super::compare;
use super::own;
use super::rounds::{against, pairs, sample, splits, tournament};
use super::suspects::{COMPANY, Limits, MOST, MOST_LINKS, Suspects, candidates, cells, suspects};
use super::verdict::{Blame, Finding, Verdict};
use super::{Places, Shape, Size, Test, Trail};

/// Up to so many ranks, all pairs are fewer tests than a search.
const FEW: usize = 8;
/// Repeats of all pairs among few ranks, and of a split; the shortest counts, since interference only adds time.
const REPEATS: usize = 5;
const SPLIT_REPEATS: usize = 3;
/// Rounds of a few suspects against others, and of all ranks.
const NARROW_ROUNDS: usize = 4;
const BROAD_ROUNDS: usize = 6;
/// The most suspects who meet each other as well.
const CROWD: usize = 16;
/// What the tests in the queue are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing yet, but that somebody may be accused from outside.
    Told,
    /// Each rank by itself.
    Own,
    /// Halves of all ranks.
    Split,
    /// Pairs of the suspects.
    Narrow,
    /// A few pairs of everyone.
    Broad,
    /// All pairs.
    Full,
    /// The candidates alone.
    Alone,
    /// The candidates in rings.
    Ring,
    /// Nothing more is asked.
    Done,
}

/// A candidate on trial.
#[derive(Clone, Debug)]
struct Trial {
    blame: Blame,
    /// Pairs of times with and without it, alone.
    alone: Vec<(f64, f64)>,
}

/// Asks by [`Localiser::ask`], hears by [`Localiser::tell`], and has a [`Localiser::verdict`] when it asks no more.
#[derive(Clone, Debug)]
pub struct Localiser {
    places: Places,
    limits: Limits,
    /// Ranks that are not named.
    left: Vec<u32>,
    /// What it was told so far.
    trail: Trail,
    stage: Stage,
    queue: VecDeque<Test>,
    heard: Vec<(Test, Vec<f64>)>,
    asked: usize,
    /// The stage that the trials came from.
    from: Stage,
    trials: Vec<Trial>,
    findings: Vec<Finding>,
    doubts: Vec<String>,
    /// A split of the last search had a slower half.
    uneven: bool,
}

/// The most tests that are asked among `ranks` ranks: linear, because a slow link can only be seen by its own pair,
/// and n / 2 pairs fit into a test; a rank alone is found after O(log n).
pub fn bound(ranks: u32) -> usize {
    let (n, bits) = (ranks as usize, (u32::BITS - ranks.saturating_sub(1).leading_zeros()) as usize);
    let passes = MOST + 1;
    let trials = 4 * compare::REPEATS * (MOST + MOST_LINKS);
    let own = own::REPEATS + 4 * compare::REPEATS * MOST;
    let pass = 2 * SPLIT_REPEATS * (bits + 1) + 3 * (NARROW_ROUNDS + CROWD + BROAD_ROUNDS) + 2 * trials;
    // Whoever is told to be late is tried first.
    let told = 4 * compare::REPEATS;
    told + own + if n <= FEW { passes * (3 * REPEATS * n + trials) } else { passes * pass + 2 * n + trials }
}

impl Localiser {
    /// For ranks at `places`.
    pub fn new(places: Places, limits: Limits) -> Self {
        let left: Vec<u32> = (0..places.ranks()).collect();
        let stage = if left.len() > 1 { Stage::Told } else { Stage::Done };
        Self {
            places,
            limits,
            left,
            trail: Trail::default(),
            stage,
            queue: VecDeque::new(),
            heard: Vec::new(),
            asked: 0,
            from: Stage::Done,
            trials: Vec::new(),
            findings: Vec::new(),
            doubts: Vec::new(),
            uneven: false,
        }
    }

    /// Looks at each rank by itself before all else, for where a rank has a GPU of its own.
    #[must_use]
    pub fn own_first(mut self) -> Self {
        self.trail.own_first = true;
        self
    }

    /// The test to run next; `None` when there is a verdict.
    pub fn ask(&mut self) -> Option<Test> {
        while self.queue.is_empty() && self.stage != Stage::Done {
            self.conclude();
        }
        self.queue.pop_front().inspect(|_| self.asked += 1)
    }

    /// The times of `test`, one for each of its groups, in µs per operation.
    pub fn tell(&mut self, test: Test, times_us: Vec<f64>) {
        self.trail.times_us.push(times_us.clone());
        self.heard.push((test, times_us));
    }

    /// Ends the search, for example because time is up.
    pub fn stop(&mut self, reason: &str) {
        if self.stage != Stage::Done {
            self.trail.stopped = Some(reason.to_owned());
            self.doubts.push(reason.to_owned());
            self.enter(Stage::Done, Vec::new());
        }
    }

    /// Tests asked so far.
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// What its verdict follows from.
    pub fn into_trail(self) -> Trail {
        self.trail
    }

    /// What it came to; before the end, what there is so far.
    pub fn verdict(&self) -> Verdict {
        if !self.findings.is_empty() {
            let mut findings = self.findings.clone();
            findings.sort_by(|a, b| a.blame.cmp(&b.blame));
            return Verdict::Named { findings };
        }
        match self.doubts.as_slice() {
            [] if self.uneven => {
                let reason = "one half of the ranks is slower than the other, and no pair shows why";
                Verdict::NotLocalised { reasons: vec![reason.to_owned()] }
            }
            [] => Verdict::Even,
            reasons => Verdict::NotLocalised { reasons: reasons.to_vec() },
        }
    }

    /// Ranks beside those that were named whose traffic is not compared, since they are too few; 0 where that is not so.
    pub fn unasked(&self) -> usize {
        let named = self.left.len() < self.places.ranks() as usize;
        if named && (2..=COMPANY).contains(&self.left.len()) { self.left.len() } else { 0 }
    }

    fn enter(&mut self, stage: Stage, tests: Vec<Test>) {
        self.stage = stage;
        self.queue = tests.into();
        self.heard.clear();
    }

    /// Starts what follows an accusation from outside, or the look at each rank by itself.
    fn search_after(&mut self, stage: Stage) {
        if stage == Stage::Told && self.trail.own_first && self.left.len() > 1 {
            self.enter(Stage::Own, own::tests(&self.left));
        } else {
            self.search();
        }
    }

    /// Starts a search among the ranks that are left, where these are enough for one of them to be the exception.
    fn search(&mut self) {
        match self.left.len() {
            left if left < 2 || self.unasked() > 0 => self.enter(Stage::Done, Vec::new()),
            ..=FEW => self.all_pairs(),
            _ => {
                let halves: Vec<_> = splits(&self.left).into_iter().map(Vec::from).collect();
                let ring = |size| {
                    halves.iter().map(move |halves| Test { shape: Shape::Ring, size, groups: halves.clone() })
                };
                let tests = (0..SPLIT_REPEATS).flat_map(|_| ring(Size::Small).chain(ring(Size::Large)));
                self.enter(Stage::Split, tests.collect());
            }
        }
    }

    fn all_pairs(&mut self) {
        let rounds = tournament(&self.left);
        let few = self.left.len() <= FEW;
        let repeats = if few { REPEATS } else { 1 };
        let tests = (0..repeats).flat_map(|_| rounds.iter().flat_map(|round| pairs(round, few)));
        self.enter(Stage::Full, tests.collect());
    }

    fn conclude(&mut self) {
        match self.stage {
            Stage::Told => self.search_after(Stage::Told),
            Stage::Own => self.accuse_own(),
            Stage::Split => self.narrow(),
            Stage::Narrow | Stage::Broad | Stage::Full => self.accuse(),
            Stage::Alone => self.heard_alone(),
            Stage::Ring => self.heard_rings(),
            Stage::Done => {}
        }
    }

    /// From the splits to pairs of those who were in the slower half whenever one was slower.
    fn narrow(&mut self) {
        let mut suspected = self.left.clone();
        self.uneven = false;
        let splits = self.heard.len() / SPLIT_REPEATS;
        for split in 0..splits {
            let (test, _) = &self.heard[split];
            let limit = if test.size == Size::Small { self.limits.late } else { self.limits.slow };
            let best = |half: usize| {
                let repeats = (0..SPLIT_REPEATS).filter_map(|at| self.heard[split + at * splits].1.get(half));
                repeats.copied().fold(f64::INFINITY, f64::min)
            };
            let ratio = (best(1) / best(0)).ln();
            if ratio.abs() > limit {
                let slower = &test.groups[usize::from(ratio > 0.0)];
                suspected.retain(|rank| slower.contains(rank));
                self.uneven = true;
            }
        }
        if suspected.is_empty() || suspected.len() * 2 > self.left.len() {
            return self.broaden();
        }
        let others: Vec<u32> = self.left.iter().copied().filter(|rank| !suspected.contains(rank)).collect();
        let mut rounds = against(&suspected, &others, NARROW_ROUNDS);
        if suspected.len() <= CROWD {
            rounds.extend(tournament(&suspected));
        }
        self.enter(Stage::Narrow, rounds.iter().flat_map(|round| pairs(round, true)).collect());
    }

    fn broaden(&mut self) {
        let rounds = sample(&self.left, BROAD_ROUNDS);
        self.enter(Stage::Broad, rounds.iter().flat_map(|round| pairs(round, true)).collect());
    }

    /// The next stage when nothing was found in `stage`.
    fn go_on(&mut self, stage: Stage) {
        match stage {
            Stage::Told | Stage::Own => self.search_after(stage),
            Stage::Narrow => self.broaden(),
            Stage::Broad => self.all_pairs(),
            _ => self.enter(Stage::Done, Vec::new()),
        }
    }

    /// From ranks by themselves to candidates on trial.
    fn accuse_own(&mut self) {
        let slow = own::slow(&self.heard, self.limits.slow);
        if slow.len() > MOST {
            self.doubts
                .push(format!("{} ranks are slow by themselves, too many to be the exceptions", slow.len()));
            return self.search();
        }
        self.from = Stage::Own;
        self.trials = slow
            .into_iter()
            .map(|rank| Trial { blame: Blame::SlowGpu { rank }, alone: Vec::new() })
            .collect();
        if self.trials.is_empty() { self.search() } else { self.put_on_trial() }
    }

    /// From times of pairs to candidates on trial.
    fn accuse(&mut self) {
        let look = |size, least| {
            let (cells, noise) = cells(&self.heard, size, self.left.len() <= FEW);
            suspects(&self.places, &cells, noise, least)
        };
        let (small, large) = (look(Size::Small, self.limits.late), look(Size::Large, self.limits.slow));
        let stage = self.stage;
        match self.names(&small, &large) {
            Ok(names) if names.is_empty() => self.go_on(stage),
            Ok(names) => {
                self.from = stage;
                self.trials = names.into_iter().map(|blame| Trial { blame, alone: Vec::new() }).collect();
                self.put_on_trial();
            }
            Err(doubt) => {
                self.doubts.push(doubt);
                self.go_on(stage);
            }
        }
    }

    /// The candidates that this stage can tell.
    fn names(&self, small: &Suspects, large: &Suspects) -> Result<Vec<Blame>, String> {
        let mut names = candidates(&self.places, &self.left, small, large)?;
        let ranks = names.iter().any(|blame| !blame.is_link());
        // Until all pairs have been seen, one bad link may be one of many; and where few ranks are left, a bad rank
        // hides them: they have their turn when it is gone, where enough ranks are left.
        let early = self.stage != Stage::Full || (self.left.len() <= FEW && ranks);
        names.retain(|blame| !(early && blame.is_link()));
        Ok(names)
    }
}

#[cfg(test)]
#[path = "localiser_tests.rs"]
mod tests;
