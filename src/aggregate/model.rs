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

/// The standard error of the median is about that of ln(cycle): its spread over sqrt(cycles).
fn point(of: &Statistics) -> Option<Point> {
    let cv = of.over.cycle_cv?;
    Some(Point {
        bytes: of.size_bytes as f64,
        time_us: of.over.median_us,
        relative_error: cv.cv_pct / 100.0 / ((of.over.cycles - 1) as f64).sqrt(),
    })
}
