//! Statistics to a model of time over size, one for each series of sizes.

use serde::{Deserialize, Serialize};

use super::Statistics;
use crate::stats::{Fit, Point, fit};
use crate::vocab::{Dtype, Placement};

/// Time over size of one type, reduction, root and placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Element type.
    pub dtype: Dtype,
    /// The redop column.
    pub redop: String,
    /// The root column.
    pub root: i64,
    /// Out-of-place or in-place.
    pub placement: Placement,
    /// Segments of alpha + bytes / beta.
    #[serde(flatten)]
    pub fit: Fit,
}

/// A model for each series that has at least three sizes with several cycles that agree.
pub fn models(all: &[Statistics]) -> Vec<Model> {
    let mut models: Vec<Model> = Vec::new();
    for first in all {
        let same = |of: &&Statistics| {
            (of.dtype, &of.redop, of.root, of.placement)
                == (first.dtype, &first.redop, first.root, first.placement)
        };
        let known = |model: &Model| {
            (model.dtype, &model.redop, model.root, model.placement)
                == (first.dtype, &first.redop, first.root, first.placement)
        };
        if models.iter().any(known) {
            continue;
        }
        let mut points: Vec<Point> = all.iter().filter(same).filter_map(point).collect();
        points.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
        points.dedup_by(|a, b| a.bytes.total_cmp(&b.bytes).is_eq());
        if let Some(fit) = fit(&points) {
            let Statistics { dtype, redop, root, placement, .. } = first.clone();
            models.push(Model { dtype, redop, root, placement, fit });
        }
    }
    models
}

/// The standard error of the median is about that of ln(unit): the units' spread over the root of their number. Units are
/// cycles, or with several epochs these.
fn point(of: &Statistics) -> Option<Point> {
    let over = &of.over;
    let (cv, units) = match over.epochs {
        Some(epochs) => (epochs.cv?, epochs.epochs),
        None => (over.cycle_cv?, over.cycles),
    };
    Some(Point {
        bytes: of.size_bytes as f64,
        time_us: over.median_us,
        relative_error: cv.cv_pct / 100.0 / ((units - 1) as f64).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{Basis, Cycle};
    use crate::stats::Cycles;

    /// Two cycles, 2 % apart at `size_bytes`.
    fn case(size_bytes: u64, placement: Placement, time_us: f64, spread: f64) -> Statistics {
        let times = [time_us * (1.0 - spread), time_us * (1.0 + spread)];
        let each = (0..).zip(times).map(|(cycle, time_us)| Cycle {
            epoch: 0,
            cycle,
            time_us,
            stop: None,
            iterations: None,
        });
        Statistics {
            requested_bytes: size_bytes,
            size_bytes,
            dtype: Dtype::Float,
            redop: "sum".to_owned(),
            root: -1,
            placement,
            basis: Basis::MeanOperation,
            over: Cycles::of(&times, &[]).unwrap(),
            each: each.collect(),
        }
    }

    #[test]
    fn each_series_of_sizes_has_its_own_line_whatever_their_order() {
        let mut all = Vec::new();
        for bytes in [4096, 8, 65536, 512, 32768] {
            all.push(case(bytes, Placement::OutOfPlace, 10.0 + bytes as f64 / 1e4, 0.01));
            all.push(case(bytes, Placement::InPlace, 20.0 + bytes as f64 / 2e4, 0.01));
        }
        all.push(case(1024, Placement::InPlace, 500.0, 0.2));
        let found = models(&all);
        let lines: Vec<_> = found.iter().map(|model| (model.placement, model.fit.segments.len())).collect();
        assert_eq!(lines, [(Placement::OutOfPlace, 1), (Placement::InPlace, 1)], "unstable 1024 is no point");
        for (model, alpha) in found.iter().zip([10.0, 20.0]) {
            assert!((model.fit.segments[0].alpha_us - alpha).abs() < 1e-9, "{model:?}");
        }
        assert!(models(&all[..4]).is_empty(), "two sizes are no line");
    }

    #[test]
    fn the_error_of_a_point_is_its_cycles_spread_over_their_number() {
        let point = point(&case(8, Placement::OutOfPlace, 100.0, 0.02)).unwrap();
        assert!((point.relative_error - 0.02).abs() < 1e-12, "{point:?}");
        assert_eq!(super::point(&case(8, Placement::OutOfPlace, 100.0, 0.2)), None);
        // Two epochs of two cycles that agree: the error is that of two, not of four.
        let mut epochs = case(8, Placement::OutOfPlace, 100.0, 0.02);
        epochs.over = Cycles::of_epochs(&[vec![98.0, 98.0], vec![102.0, 102.0]], &[]).unwrap();
        assert!((super::point(&epochs).unwrap().relative_error - 0.02).abs() < 1e-12);
    }
}
