//! Whether rows reach the busbw of an earlier run, said only where the data of both can tell.

use serde::{Deserialize, Serialize};

use super::{Case, Row, Wrong};
use crate::stats::{Shift, State, holm, median, state, units};

/// What an interval must leave free: a busbw within 3 % of the expected one is no other.
const MARGIN: f64 = 1.03;
/// Values of each side that an interval takes.
const NEEDED: usize = 4;
/// Cycles that are kept of a case: the last ones.
const KEPT: usize = 1000;

/// The busbw of every cycle, case by case.
#[derive(Clone, Debug, Default)]
pub struct Speeds(Vec<(Case, Speed)>);

/// One case.
#[derive(Clone, Debug, Default)]
struct Speed {
    /// Epoch and busbw of each cycle, in 10^9 B/s.
    cycles: Vec<(u64, f64)>,
    wrong: bool,
}

impl Speeds {
    /// Counts a row in. Rows of size 0 move nothing and say nothing.
    pub fn push(&mut self, row: &Row) {
        for cell in row.cells.iter().filter(|_| row.size_bytes > 0) {
            let speed = self.of(Case::of(row, cell.placement));
            speed.cycles.push((row.epoch, cell.busbw_gbps));
            speed.wrong |= matches!(cell.wrong, Wrong::Count(wrong) if wrong > 0);
            if speed.cycles.len() > KEPT {
                speed.cycles.remove(0);
            }
        }
    }

    fn of(&mut self, case: Case) -> &mut Speed {
        let at = self.0.iter().position(|(known, _)| *known == case).unwrap_or_else(|| {
            self.0.push((case, Speed::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Every case, in order of first sight.
    #[cfg(test)]
    pub(crate) fn cases(&self) -> impl Iterator<Item = &Case> {
        self.0.iter().map(|(case, _)| case)
    }

    /// One side of a comparison; `None` where there is no such case.
    pub fn side(&self, case: &Case) -> Option<Side> {
        self.0.iter().find(|(known, _)| known == case).and_then(|(_, speed)| side(speed))
    }

    /// Every case beside what is expected of it. P values are adjusted by Holm over all cases that can be compared.
    pub fn beside(&self, expected: impl Fn(&Case) -> Option<Side>) -> Vec<Compared> {
        let beside = |(case, speed): &(Case, Speed)| {
            Some(compared(case.clone(), expected(case), side(speed)?, speed.wrong))
        };
        let mut all: Vec<Compared> = self.0.iter().filter_map(beside).collect();
        judge(&mut all);
        all
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Median over units, in 10^9 B/s.
    pub median_gbps: f64,
    /// Whether cycles and epochs agree; absent with one cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The units' busbw in order, in 10^9 B/s: of cycles, or with several epochs their medians.
    pub units_gbps: Vec<f64>,
}

impl Side {
    /// With its median computed again.
    #[must_use]
    pub fn again(self) -> Self {
        Self { median_gbps: median(&self.units_gbps).unwrap_or(self.median_gbps), ..self }
    }
}

/// Found over expected busbw.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median of all ratios of a found to an expected unit (Hodges and Lehmann, of logarithms).
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Two-sided p value of equal busbw (Mann and Whitney), adjusted by Holm for all cases that are compared.
    pub p: f64,
}

/// What a comparison comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Standing {
    /// Slower than expected by more than the margin, surely.
    Below,
    /// Not slower than expected by more than the margin, surely.
    Reaches,
    /// Neither.
    CannotTell {
        /// Why.
        reason: String,
    },
}

/// One case beside what was expected of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Which.
    #[serde(flatten)]
    pub case: Case,
    /// What it came to.
    #[serde(flatten)]
    pub standing: Standing,
    /// The earlier run; absent where it has no such case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Side>,
    /// This run.
    pub found: Side,
    /// Absent where either side is unstable or has too few units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
}

fn side(speed: &Speed) -> Option<Side> {
    let of = |epoch: &[(u64, f64)]| epoch.iter().map(|(_, gbps)| *gbps).collect();
    let epochs: Vec<Vec<f64>> = speed.cycles.chunk_by(|a, b| a.0 == b.0).map(of).collect();
    let units_gbps = units(&epochs);
    Some(Side { median_gbps: median(&units_gbps)?, state: state(&epochs), units_gbps })
}

/// A case before p values are adjusted: those with a ratio are judged by [`judge`].
fn compared(case: Case, expected: Option<Side>, found: Side, wrong: bool) -> Compared {
    let against = hindrance(expected.as_ref(), &found, wrong);
    let ln = |side: &Side| side.units_gbps.iter().map(|gbps| gbps.ln()).collect::<Vec<_>>();
    let comparable = expected.as_ref().filter(|_| against.is_none());
    let shift = comparable.and_then(|expected| Shift::between(&ln(expected), &ln(&found)));
    let ratio = shift.map(|Shift { estimate, low, high, p }| Ratio {
        ratio: estimate.exp(),
        low: low.exp(),
        high: high.exp(),
        p,
    });
    let reason = against.unwrap_or_default();
    Compared { case, standing: Standing::CannotTell { reason }, expected, found, ratio }
}

/// What stands against a comparison.
fn hindrance(expected: Option<&Side>, found: &Side, wrong: bool) -> Option<String> {
    let Some(expected) = expected else { return Some("the record has no such row".to_owned()) };
    let sides = [("the record", expected), ("this run", found)];
    let which = |bad: &dyn Fn(&Side) -> bool| {
        let names: Vec<&str> = sides.iter().filter(|(_, side)| bad(side)).map(|(name, _)| *name).collect();
        (!names.is_empty()).then(|| names.join(" and "))
    };
    if wrong {
        return Some("this run has wrong data".to_owned());
    }
    if let Some(names) = which(&|side| side.units_gbps.iter().any(|gbps| !gbps.is_finite() || *gbps <= 0.0)) {
        return Some(format!("{names} moved nothing"));
    }
    if let Some(names) = which(&|side| side.state == Some(State::Unstable)) {
        return Some(format!("unstable in {names}"));
    }
    which(&|side| side.units_gbps.len() < NEEDED).map(|names| {
        format!("fewer than {NEEDED} cycles, or of several epochs these, in {names}: use -N 7 or --epochs 7")
    })
}

/// Adjusts p values, and comes to a verdict where there is a ratio.
fn judge(all: &mut [Compared]) {
    let p_values: Vec<f64> = all.iter().filter_map(|of| of.ratio.map(|ratio| ratio.p)).collect();
    let adjusted = holm(&p_values);
    for (of, p) in all.iter_mut().filter(|of| of.ratio.is_some()).zip(adjusted) {
        let Some(ratio) = &mut of.ratio else { continue };
        ratio.p = p;
        of.standing = standing(ratio, p_values.len());
    }
}

fn standing(ratio: &Ratio, cases: usize) -> Standing {
    let reason = if ratio.low > 1.0 / MARGIN {
        return Standing::Reaches;
    } else if ratio.high >= 1.0 / MARGIN {
        "the interval holds both".to_owned()
    } else if ratio.p < 0.05 {
        return Standing::Below;
    } else {
        format!("slower, but with so few cycles chance does as much in one of {cases} rows")
    };
    Standing::CannotTell { reason }
}

#[cfg(test)]
#[path = "expectation_tests.rs"]
mod tests;
