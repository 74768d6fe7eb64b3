//! `--stats`: lines for people, each behind the prefix of stderr, so that no tool takes one for a row of the table.

use crate::aggregate::{Cycle, Drifting, Model, Statistics, by_epoch};
use crate::stats::{Epochs, Interval, Iterations, Segment, median};
use crate::vocab::Placement;

/// Statistics and models as lines; no percentage stands in the line of an unstable case.
pub(super) fn lines(all: &[Statistics], drifting: &[Drifting], models: &[Model]) -> Vec<String> {
    let mut lines = Vec::with_capacity(all.len() + models.len() + 1);
    if !all.is_empty() {
        lines.push(format!(
            "stats: {:>12} {:>8} {:>6} {:>5} {:>5} {:>6} {:>10} {:>23} {:>10} {:>10} {:>6} {:>6} {:>6} {:>8}  flags",
            "size", "type", "redop", "root", "place", "cycles", "median_us", "interval_us", "p95_us", "p99_us",
            "cv%", "cv%<=", "it_cv%", "state"
        ));
    }
    for (at, of) in all.iter().enumerate() {
        lines.push(line(of, drifting.iter().any(|drift| drift.case == at)));
    }
    if all.iter().any(|of| of.over.epochs.is_some()) {
        lines.push(
            "epochs: with several communicators these are the units: median_us, interval_us, drift and state are of the \
             epochs' own medians, cv% is of cycles around their epoch's mean"
                .to_owned(),
        );
        lines.extend(all.iter().filter_map(epochs));
    }
    lines.extend(models.iter().flat_map(model));
    lines
}

/// What the epochs of a case differ by.
fn epochs(of: &Statistics) -> Option<String> {
    let Epochs { epochs, min_us, max_us, cv, between_pct } = of.over.epochs?;
    let spread = match cv {
        Some(cv) => format!(
            "cv% {:.2} (<= {:.2}), between epochs {} %, within {} %",
            cv.cv_pct,
            cv.upper_pct,
            shown(between_pct, 2),
            shown(of.over.cycle_cv.map(|cv| cv.cv_pct), 2)
        ),
        None => "no percentage: unstable".to_owned(),
    };
    Some(format!(
        "epochs: {:>12} {:>8} {:>6} {:>5} {:>5} {epochs:>6} of {} cycles, {min_us:.2} to {max_us:.2} us, {spread}",
        of.size_bytes,
        of.dtype,
        of.redop,
        of.root,
        place(of.placement),
        of.over.cycles / epochs,
    ))
}

/// A case that drifts, in words; times and no percentage.
pub fn drift_words(of: &Statistics) -> String {
    let epochs = by_epoch(&of.each, |cycle| cycle.time_us);
    let (units, first, last) = if let Some(over) = of.over.epochs {
        let time = |epoch: Option<&Vec<f64>>| epoch.and_then(|cycles| median(cycles));
        (format!("{} epochs", over.epochs), time(epochs.first()), time(epochs.last()))
    } else {
        let time = |cycle: Option<&Cycle>| cycle.map(|cycle| cycle.time_us);
        (format!("{} cycles", of.over.cycles), time(of.each.first()), time(of.each.last()))
    };
    format!(
        "the time of size {} {} {} {} drifts over {units}: {} us in the first, {} us in the last",
        of.size_bytes,
        of.dtype,
        of.redop,
        place(of.placement),
        shown(first, 2),
        shown(last, 2),
    )
}

/// A placement in short.
pub fn place(placement: Placement) -> &'static str {
    match placement {
        Placement::OutOfPlace => "out",
        Placement::InPlace => "in",
    }
}

/// A figure, or `-` where there is none.
fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn line(of: &Statistics, drifts: bool) -> String {
    let over = &of.over;
    let cv = over.cycle_cv;
    format!(
        "stats: {:>12} {:>8} {:>6} {:>5} {:>5} {:>6} {:>10.2} {:>23} {:>10} {:>10} {:>6} {:>6} {:>6} {:>8}  {}",
        of.size_bytes,
        of.dtype,
        of.redop,
        of.root,
        place(of.placement),
        over.cycles,
        over.median_us,
        interval(of),
        shown(over.p95_us, 2),
        shown(over.p99_us, 2),
        shown(cv.map(|cv| cv.cv_pct), 2),
        shown(cv.map(|cv| cv.upper_pct), 2),
        shown(over.iteration_cv_pct, 2),
        over.state.map_or("-", |state| state.name()),
        flags(of, drifts),
    )
    .trim_end()
    .to_owned()
}

/// The median's interval: over cycles, else, over the iterations or blocks of the one cycle (`i`).
fn interval(of: &Statistics) -> String {
    let ends = |Interval { lower_us, upper_us, .. }: Interval| format!("[{lower_us:.2}, {upper_us:.2}]");
    let inside = |iterations: &Iterations| iterations.interval.map(|interval| format!("i{}", ends(interval)));
    match (of.over.interval, of.each.as_slice()) {
        (Some(interval), _) => ends(interval),
        (None, [only]) => only.iterations.as_ref().and_then(inside).unwrap_or_else(|| "-".to_owned()),
        (None, _) => "-".to_owned(),
    }
}

/// What more than half of the cycles show, and how the last one's blocks ended.
fn flags(of: &Statistics, drifts: bool) -> String {
    let most = |shows: &dyn Fn(&Iterations) -> bool| {
        let shown = of.each.iter().filter(|cycle| cycle.iterations.as_ref().is_some_and(shows)).count();
        2 * shown > of.each.len()
    };
    let mut flags = Vec::new();
    let mut flag = |raised: bool, name: &str| {
        if raised {
            flags.push(name.to_owned());
        }
    };
    flag(drifts, "drift");
    flag(most(&|of| of.modes.is_some()), "two-levels");
    flag(most(&|of| of.warm_up > 0), "warm-up");
    flag(most(&|of| of.effective <= of.samples as f64 / 2.0), "dependent");
    if let Some(stop) = of.each.last().and_then(|cycle| cycle.stop) {
        flags.push(format!("{} at {}", stop.reason.words(), stop.samples));
    }
    flags.join(", ")
}

fn model(model: &Model) -> impl Iterator<Item = String> + '_ {
    model.fit.segments.iter().map(move |segment: &Segment| {
        let rate = segment.beta_gbps().map_or_else(
            || "no more for more bytes".to_owned(),
            |beta| format!("+ bytes / ({beta:.3} GB/s)"),
        );
        format!(
            "model: {} {} {} {}: {} to {} bytes: {:.2} us {rate}",
            model.dtype,
            model.redop,
            model.root,
            place(model.placement),
            segment.from_bytes,
            segment.to_bytes,
            segment.alpha_us
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Basis;
    use crate::report::words;
    use crate::stats::{Cycles, Fit};
    use crate::vocab::Dtype;

    fn statistics(levels: &[f64], each: u32) -> Statistics {
        let series = |level: f64| (0..each).map(|at| level + f64::from(at % 7)).collect::<Vec<_>>();
        let cycles: Vec<Cycle> = (0..)
            .zip(levels)
            .map(|(cycle, level)| Cycle {
                epoch: 0,
                cycle,
                time_us: *level,
                stop: None,
                iterations: Iterations::of(&series(*level)),
            })
            .collect();
        let iterations: Vec<_> = cycles.iter().filter_map(|cycle| cycle.iterations.clone()).collect();
        Statistics {
            requested_bytes: 8,
            size_bytes: 8,
            dtype: Dtype::Float,
            redop: "sum".to_owned(),
            root: -1,
            placement: Placement::OutOfPlace,
            basis: Basis::MedianIteration,
            over: Cycles::of(levels, &iterations).unwrap(),
            each: cycles,
        }
    }

    /// Cycles of several epochs, as many in each.
    fn of_epochs(epochs: &[Vec<f64>]) -> Statistics {
        let mut of = statistics(&epochs.concat(), 0);
        for (at, cycle) in of.each.iter_mut().enumerate() {
            cycle.epoch = (at / epochs[0].len()) as u64;
        }
        of.over = Cycles::of_epochs(epochs, &[]).unwrap();
        of
    }

    #[test]
    fn epochs_are_told_apart_from_their_cycles() {
        let levels = [100.0, 102.0, 104.0, 98.0, 101.0, 103.0];
        let steady = of_epochs(&levels.map(|level| vec![level - 0.25, level + 0.25]));
        let unstable = of_epochs(&[vec![100.0, 100.0], vec![150.0, 150.0]]);
        let single = of_epochs(&[vec![100.0], vec![101.0]]);
        insta::assert_snapshot!(lines(&[steady.clone(), unstable, single], &[], &[]).join("\n"));
        assert!(
            drift_words(&steady).ends_with("over 6 epochs: 100.00 us in the first, 103.00 us in the last")
        );
    }

    fn fit() -> Model {
        let flat =
            Segment { from_bytes: 8, to_bytes: 64, alpha_us: 9.0, us_per_byte: 0.0, worst_residual: 0.0 };
        let steep = Segment { from_bytes: 128, to_bytes: 1024, us_per_byte: 0.01, ..flat };
        Model {
            dtype: Dtype::Float,
            redop: "sum".to_owned(),
            root: -1,
            placement: Placement::InPlace,
            fit: Fit { segments: vec![flat, steep] },
        }
    }

    #[test]
    fn lines_are_as_documented() {
        let stable = statistics(&[100.0, 101.0, 100.5, 99.5, 100.2, 100.8], 20);
        let one = statistics(&[100.0], 8);
        let unstable = statistics(&[100.0, 150.0, 100.0], 0);
        let drift = [Drifting { case: 0, p: 0.01 }];
        insta::assert_snapshot!(lines(&[stable, one, unstable], &drift, &[fit()]).join("\n"));
    }

    #[test]
    fn no_line_can_be_taken_for_one_of_the_table() {
        let steady = statistics(&[100.0, 100.0], 20);
        let mut all = vec![drift_words(&steady)];
        all.extend(lines(&[of_epochs(&[vec![100.0, 101.0], vec![99.0, 100.0]])], &[], &[]));
        all.extend(lines(&[steady, statistics(&[1.0], 5)], &[], &[fit()]));
        for line in &all {
            assert!(words::broken(&format!("critrank: info: {line}")).is_none(), "{line}");
            assert!(!words::looks_like_row(line), "{line}");
        }
    }

    #[test]
    fn an_unstable_case_has_no_percentage() {
        let line = line(&statistics(&[100.0, 150.0, 100.0], 20), false);
        let fields: Vec<&str> = line.split_whitespace().collect();
        let state = fields.iter().position(|field| *field == "unstable").unwrap();
        assert_eq!(&fields[state - 3..state], ["-", "-", "-"], "{line}");
    }
}
