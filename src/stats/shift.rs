//! How far two samples lie apart: the shift of Hodges and Lehmann with the interval that the exact test of Mann and
//! Whitney leaves. No distribution is assumed, and of logarithms the shift is a ratio.

use super::chi_squared::normal_two_sided;
use super::quantile::{median, sorted};

/// Probability that the interval leaves out on either side, at most.
const TAIL: f64 = 0.025;
/// Values of each sample up to which the distribution of U is counted out.
const EXACT: usize = 40;
/// The quantile of the standard normal distribution that leaves out [`TAIL`].
const Z: f64 = 1.959_963_984_540_054;

/// From one sample to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Median of all differences.
    pub estimate: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Two-sided p value of no shift; with ties, or beyond 40 values, by the normal distribution.
    pub p: f64,
}

impl Shift {
    /// From `from` to `to`; `None` where they are too few for an interval, which takes four of each, or five and three.
    ///
    /// D sorted are the N differences; c is the smallest U with P(U <= c) > 0.025 where nothing differs; the interval is
    /// D(c) to D(N + 1 - c), counted from 1.
    pub fn between(from: &[f64], to: &[f64]) -> Option<Self> {
        let differences: Vec<f64> = to.iter().flat_map(|y| from.iter().map(move |x| y - x)).collect();
        let differences = sorted(&differences);
        let exact = from.len().max(to.len()) <= EXACT;
        let counts = exact.then(|| distribution(from.len(), to.len()));
        let cut = match &counts {
            Some(share) => {
                let mut below = 0.0;
                share.iter().position(|share| {
                    below += share;
                    below > TAIL
                })?
            }
            None => normal_cut(from.len(), to.len()),
        };
        Some(Self {
            estimate: median(&differences)?,
            low: *differences.get(cut.checked_sub(1)?)?,
            high: *differences.get(differences.len() - cut)?,
            p: p_value(from, to, counts.as_deref()),
        })
    }
}

/// The share of each U where nothing differs: w(i, j)[u] = w(i-1, j)[u-j] + w(i, j-1)[u], as shares of all orders.
fn distribution(n: usize, m: usize) -> Vec<f64> {
    let room = n * m + 1;
    let mut row: Vec<Vec<f64>> = Vec::with_capacity(m + 1);
    for i in 0..=n {
        for j in 0..=m {
            let mut share = vec![0.0; room];
            if i == 0 || j == 0 {
                share[0] = 1.0;
            } else {
                let (last_is_first, all) = (i as f64, (i + j) as f64);
                for u in 0..=i * j {
                    let above = if u >= j { row[j][u - j] } else { 0.0 };
                    share[u] = (last_is_first * above + j as f64 * row[j - 1][u]) / all;
                }
            }
            if j < row.len() { row[j] = share } else { row.push(share) }
        }
    }
    row.pop().unwrap_or_default()
}

/// The cut by the normal distribution, for long samples.
fn normal_cut(n: usize, m: usize) -> usize {
    let (n, m) = (n as f64, m as f64);
    (n * m / 2.0 - Z * (n * m * (n + m + 1.0) / 12.0).sqrt()).floor().max(0.0) as usize
}

/// U = [y > x] + 1/2 [y = x]; p = 2 P(U <= min(U, N - U)), or with ties the normal distribution with
/// σ² = n m / 12 · ((n + m + 1) - Σ(t³ - t) / ((n + m)(n + m - 1))) and continuity 1/2.
fn p_value(from: &[f64], to: &[f64], counts: Option<&[f64]>) -> f64 {
    let (n, m) = (from.len() as f64, to.len() as f64);
    let mut above = 0.0;
    for y in to {
        for x in from {
            above += if y > x {
                1.0
            } else if y < x {
                0.0
            } else {
                0.5
            };
        }
    }
    let all = sorted(&[from, to].concat());
    let ties: f64 = all
        .chunk_by(|a, b| a.total_cmp(b).is_eq())
        .map(|tied| tied.len() as f64)
        .map(|t| t.powi(3) - t)
        .sum();
    let least = f64::min(above, n * m - above);
    if let Some(share) = counts.filter(|_| ties == 0.0) {
        return (2.0 * share[..=least as usize].iter().sum::<f64>()).min(1.0);
    }
    let sigma = (n * m / 12.0 * (n + m + 1.0 - ties / ((n + m) * (n + m - 1.0)))).sqrt();
    if sigma > 0.0 { normal_two_sided(((n * m / 2.0 - least - 0.5) / sigma).max(0.0)) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::testing::Noise;

    const A: [f64; 7] = [100.0, 101.2, 99.4, 100.6, 102.1, 98.9, 100.3];
    const B: [f64; 7] = [104.9, 106.0, 103.8, 105.5, 107.2, 104.1, 105.1];
    const C: [f64; 7] = [100.4, 101.9, 99.0, 101.1, 100.2, 102.5, 99.7];

    fn ln(values: &[f64]) -> Vec<f64> {
        values.iter().map(|value| value.ln()).collect()
    }

    #[test]
    fn follows_the_vectors() {
        let found = Shift::between(&ln(&A), &ln(&B)).unwrap();
        assert!((found.estimate - 0.047_558_695_25).abs() < 1e-10, "{found:?}");
        assert!((found.low.exp() - 1.034_791_25).abs() < 1e-8, "{found:?}");
        assert!((found.high.exp() - 1.062_689_59).abs() < 1e-8, "{found:?}");
        assert!((found.p - 0.000_582_750_58).abs() < 1e-11, "{found:?}");
        assert!((Shift::between(&A, &C).unwrap().p - 0.710_372_96).abs() < 1e-8);
        // Without counting: the approximation with continuity.
        assert!((p_value(&A, &B, None) - 0.002_165_03).abs() < 1e-8);
        assert!((p_value(&A, &C, None) - 0.701_478_11).abs() < 1e-8);
    }

    #[test]
    fn too_few_values_have_no_interval() {
        let values: Vec<f64> = (0..9).map(f64::from).collect();
        for (n, m, exists) in
            [(4, 4, true), (3, 4, false), (3, 5, true), (2, 8, true), (2, 7, false), (1, 9, false)]
        {
            let higher: Vec<f64> = values[..m].iter().map(|value| value + 100.5).collect();
            assert_eq!(Shift::between(&values[..n], &higher).is_some(), exists, "{n} {m}");
        }
        assert_eq!(Shift::between(&[], &values), None);
    }

    #[test]
    fn the_smallest_p_values_are_the_known_ones() {
        for (k, want) in [(4, 0.029), (5, 0.0079), (6, 0.0022), (7, 0.00058)] {
            let low: Vec<f64> = (0..k).map(f64::from).collect();
            let high: Vec<f64> = low.iter().map(|value| value + 50.0).collect();
            let found = Shift::between(&low, &high).unwrap().p;
            assert!((found / want - 1.0).abs() < 0.02, "{k}: {found}");
        }
    }

    #[test]
    fn ties_and_long_samples_go_over_to_the_normal_distribution() {
        let same = [1.0; 6];
        let found = Shift::between(&same, &same).unwrap();
        assert_eq!((found.estimate, found.low, found.high, found.p), (0.0, 0.0, 0.0, 1.0));
        let mut noise = Noise::new(3);
        let mut draw = |n: usize, by: f64| (0..n).map(|_| noise.normal() + by).collect::<Vec<f64>>();
        let (short, long) = ((draw(40, 0.0), draw(40, 0.0)), (draw(41, 0.0), draw(41, 0.0)));
        let width = |(x, y): &(Vec<f64>, Vec<f64>)| {
            let found = Shift::between(x, y).unwrap();
            found.high - found.low
        };
        assert!((width(&short) / width(&long) - 1.0).abs() < 0.3, "{} {}", width(&short), width(&long));
    }

    #[test]
    fn the_interval_covers_the_shift() {
        let mut noise = Noise::new(11);
        let mut covered = [0; 3];
        for _ in 0..1000 {
            for (at, k) in [4, 7, 12].into_iter().enumerate() {
                let x: Vec<f64> = (0..k).map(|_| noise.normal()).collect();
                let y: Vec<f64> = (0..k).map(|_| noise.normal() + 0.7).collect();
                covered[at] +=
                    u32::from(Shift::between(&x, &y).is_some_and(|s| s.low <= 0.7 && 0.7 <= s.high));
            }
        }
        assert!(covered.iter().all(|of| *of >= 940), "{covered:?} of 1000");
    }

    proptest! {
        #[test]
        fn the_way_back_is_the_same(
            x in prop::collection::vec(1.0_f64..100.0, 4..12),
            y in prop::collection::vec(1.0_f64..100.0, 4..12),
        ) {
            let (one, back) = (Shift::between(&x, &y).unwrap(), Shift::between(&y, &x).unwrap());
            prop_assert!((one.estimate + back.estimate).abs() < 1e-9);
            prop_assert!((one.low + back.high).abs() < 1e-9 && (one.high + back.low).abs() < 1e-9);
            prop_assert!((one.p - back.p).abs() < 1e-9 && (0.0..=1.0).contains(&one.p));
            prop_assert!(one.low <= one.estimate && one.estimate <= one.high);
        }

        #[test]
        fn shares_are_shares_of_all(n in 1_usize..12, m in 1_usize..12) {
            let share = distribution(n, m);
            prop_assert!((share.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            // As likely below the middle as above it.
            prop_assert!(share.iter().zip(share.iter().rev()).all(|(a, b)| (a - b).abs() < 1e-12));
        }
    }
}
