//! Whether a series begins slow: leading samples that summaries leave out.

use super::quantile::{median, middle, sorted};

/// Robust z from which the head stands out (Iglewicz and Hoaglin).
const STANDS_OUT: f64 = 3.5;
/// And its distance over the median of the rest.
const SHARE_OF_MEDIAN: f64 = 0.03;

/// Leading samples that belong to a warm-up; 0 where none stand out. The cut is the j up to n/4 with the least
/// `var(x_j…) / (n - j)` (MSER). Noise alone cuts somewhere as well, so only those count that lead in one go and lie
/// above the median behind the cut by 3.5 robust standard deviations and 3 %.
pub fn warm_up(values: &[f64]) -> usize {
    let (head, rest) = values.split_at(mser(values));
    let Some(typical) = median(rest) else { return 0 };
    let slow =
        |value: f64| value - typical > SHARE_OF_MEDIAN * typical && modified_z(rest, value) > STANDS_OUT;
    head.iter().take_while(|value| slow(**value)).count()
}

/// The cut with the least marginal standard error; the earliest of equals.
fn mser(values: &[f64]) -> usize {
    let n = values.len();
    let (mut sum, mut squares) = (0.0, 0.0);
    let center = values.last().copied().unwrap_or(0.0);
    let mut best = (f64::INFINITY, 0);
    for j in (0..n).rev() {
        let value = values[j] - center;
        sum += value;
        squares += value * value;
        let left = (n - j) as f64;
        let error = (squares / left - (sum / left).powi(2)).max(0.0) / left;
        if j <= n / 4 && error <= best.0 {
            best = (error, j);
        }
    }
    best.1
}

/// 0.6745 (x - median) / MAD; infinite where all of `values` are equal and x is not.
fn modified_z(values: &[f64], x: f64) -> f64 {
    let Some(center) = median(values) else { return 0.0 };
    let off = sorted(&values.iter().map(|value| (value - center).abs()).collect::<Vec<_>>());
    let Some(mad) = middle(&off) else { return 0.0 };
    let distance = x - center;
    if distance.abs() > 0.0 { 0.6745 * distance / mad } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Noise;

    #[test]
    fn modified_z_follows_the_vector() {
        let x = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 13.0, 10.0];
        let want = [-0.135, 1.214, -1.484, 0.54, -0.809, 0.135, 40.335, -0.135];
        for (value, want) in x.iter().zip(want) {
            assert!((modified_z(&x, *value) - want).abs() < 0.0006, "{value}: {}", modified_z(&x, *value));
        }
        assert!(modified_z(&[5.0; 4], 6.0).is_infinite());
    }

    #[test]
    fn a_slow_head_is_cut_whole() {
        let mut noise = Noise::new(2);
        for slow in [1, 3, 5] {
            let level = |at: usize| if at < slow { 150.0 } else { 100.0 };
            let series: Vec<f64> = (0..20).map(|at| level(at) + noise.normal()).collect();
            assert_eq!(warm_up(&series), slow);
        }
        let fast: Vec<f64> = (0..20).map(|at| if at < 3 { 50.0 } else { 100.0 }).collect();
        assert_eq!(warm_up(&fast), 0, "a fast head is no warm-up");
        assert_eq!((warm_up(&[]), warm_up(&[1.0]), warm_up(&[7.0; 30])), (0, 0, 0));
    }

    #[test]
    fn noise_is_rarely_cut() {
        let mut noise = Noise::new(4);
        let mut series = || (0..20).map(|_| 100.0 + 2.0 * noise.normal()).collect::<Vec<_>>();
        let cut = (0..5000).filter(|_| warm_up(&series()) > 0).count();
        assert!(cut <= 50, "{cut} of 5000");
    }

    #[test]
    fn the_cut_has_the_least_error() {
        let series = [9.0, 4.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0];
        let error = |j: usize| {
            let part = &series[j..];
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            part.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (part.len() * part.len()) as f64
        };
        let best = (0..=2).min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap();
        assert_eq!((mser(&series), best), (2, 2));
    }
}
