//! The cycles of one case: the unit that repeats is the cycle, never the iteration; with several epochs the epoch.

use serde::{Deserialize, Serialize};

use super::epochs::{Epochs, state, units, within};
use super::iterations::Iterations;
use super::quantile::{Interval, interval, median, sorted};
use super::spread::{Cv, State};
use super::trend::{Drift, drift};

/// What the cycles of one size and placement say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cycles {
    /// Cycles that the figures are of.
    pub cycles: usize,
    /// Median of the units' times: of the cycles, or with several epochs of the epochs' own medians.
    pub median_us: f64,
    /// Shortest cycle.
    pub min_us: f64,
    /// Longest cycle.
    pub max_us: f64,
    /// 95 % interval of the median, over units; absent below 6 of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Median over cycles of each one's P95; absent where any has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_us: Option<f64>,
    /// Median over cycles of each one's P99; absent where any has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Whether the cycles agree, and with several epochs these, whichever is worse; absent with one cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Cycle CV with its upper bound, with several epochs around each one's own mean; absent with one cycle (an epoch) and
    /// where unstable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle_cv: Option<Cv>,
    /// Median over cycles of the iteration CV; absent without iterations and where unstable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration_cv_pct: Option<f64>,
    /// Drift along the units; absent below 4 of them and where unstable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// What epochs differ by; absent with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<Epochs>,
}

impl Cycles {
    /// Whether percentages may be told: not of unstable cycles.
    pub fn tells_percentages(&self) -> bool {
        self.state != Some(State::Unstable)
    }

    /// Of the times of one epoch's cycles in their order, and what their iterations say where they are known (one for
    /// each cycle, or none). `None` without cycles.
    pub fn of(times_us: &[f64], iterations: &[Iterations]) -> Option<Self> {
        Self::of_epochs(&[times_us.to_vec()], iterations)
    }

    /// The same of several epochs, each with its cycles; none is empty.
    pub fn of_epochs(epochs: &[Vec<f64>], iterations: &[Iterations]) -> Option<Self> {
        let (times_us, units) = (sorted(&epochs.concat()), units(epochs));
        let (spread, between, state) = (within(epochs), Epochs::of(epochs), state(epochs));
        let told = state != Some(State::Unstable);
        let over = |figure: &dyn Fn(&Iterations) -> Option<f64>| {
            let all: Option<Vec<f64>> = iterations.iter().map(figure).collect();
            median(&all?)
        };
        Some(Self {
            cycles: times_us.len(),
            median_us: median(&units)?,
            min_us: *times_us.first()?,
            max_us: *times_us.last()?,
            interval: interval(&sorted(&units), 0.5),
            p95_us: over(&|of| of.p95.map(|tail| tail.value_us)),
            p99_us: over(&|of| of.p99.map(|tail| tail.value_us)),
            state,
            cycle_cv: spread.filter(|_| told),
            iteration_cv_pct: over(&|of| of.cv_pct).filter(|_| told),
            drift: drift(&units).filter(|_| told),
            epochs: between.map(|of| if told { of } else { of.without_percentages() }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(level: f64, n: u32) -> Iterations {
        Iterations::of(&(0..n).map(|at| level + f64::from(at % 5)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn cycles_and_iterations_are_apart() {
        let levels = [100.0, 101.0, 100.5, 99.5, 100.2, 100.8];
        let iterations: Vec<_> = levels.iter().map(|level| cycle(*level, 20)).collect();
        let times: Vec<f64> = iterations.iter().map(|of| of.median_us).collect();
        let found = Cycles::of(&times, &iterations).unwrap();
        assert_eq!((found.cycles, found.min_us, found.max_us), (6, 101.5, 103.0));
        assert_eq!(found.p95_us, Some(104.35));
        assert_eq!(found.p99_us, None, "20 iterations");
        let (between, within) = (found.cycle_cv.unwrap().cv_pct, found.iteration_cv_pct.unwrap());
        assert!(between < 0.6 && within > 1.3, "{between} {within}");
        assert_eq!((found.state, found.interval.unwrap().lower_us), (Some(State::Stable), 101.5));
    }

    #[test]
    fn with_several_epochs_these_are_the_units() {
        // Cycles agree to 0.1 %, epochs to 2 %: six of them, so that there is an interval.
        let levels = [100.0, 102.0, 104.0, 98.0, 101.0, 103.0];
        let epochs: Vec<Vec<f64>> = levels.iter().map(|l| vec![l - 0.1, *l, l + 0.1]).collect();
        let found = Cycles::of_epochs(&epochs, &[]).unwrap();
        assert_eq!((found.cycles, found.median_us, found.min_us), (18, 101.5, 97.9));
        let ends = found.interval.unwrap();
        assert_eq!((ends.lower_us, ends.upper_us), (98.0, 104.0), "all of six epochs");
        let (within, between) = (found.cycle_cv.unwrap().cv_pct, found.epochs.unwrap());
        assert!(within < 0.1 && between.cv.unwrap().cv_pct > 1.9, "{within} {between:?}");
        assert!(between.between_pct.unwrap() > 2.0, "{between:?}");
        assert_eq!(found.state, Some(State::Stable));
        // One cycle each: nothing within, and a drift of six units.
        let single: Vec<Vec<f64>> = levels.iter().map(|l| vec![*l]).collect();
        let found = Cycles::of_epochs(&single, &[]).unwrap();
        assert_eq!((found.cycle_cv, found.epochs.unwrap().between_pct), (None, None));
        assert!(found.drift.is_some() && found.state.is_some());
    }

    #[test]
    fn epochs_that_disagree_tell_no_percentage_though_their_cycles_agree() {
        let epochs = [vec![100.0, 100.1], vec![130.0, 130.1], vec![100.0, 100.1]];
        let found = Cycles::of_epochs(&epochs, &[]).unwrap();
        assert_eq!(found.state, Some(State::Unstable));
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains("_pct") && text.contains("\"epochs\":3"), "{text}");
    }

    #[test]
    fn one_cycle_has_no_state() {
        let found = Cycles::of(&[5.0], &[]).unwrap();
        assert_eq!((found.state, found.cycle_cv, found.interval, found.drift), (None, None, None, None));
        assert_eq!(Cycles::of(&[], &[]), None);
    }

    #[test]
    fn unstable_cycles_get_no_percentage() {
        let times = [100.0, 130.0, 100.0, 125.0, 100.0, 90.0];
        let iterations: Vec<_> = times.iter().map(|level| cycle(*level, 20)).collect();
        let found = Cycles::of(&times, &iterations).unwrap();
        assert_eq!(found.state, Some(State::Unstable));
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains("_pct") && text.contains("\"max_us\":130.0"), "{text}");
    }
}
