//! Breaks are found where they are, outliers move nothing, and noise alone makes no segment.
#![expect(clippy::print_stdout, reason = "docs/METHODOLOGY.md quotes it")]

use proptest::prelude::*;

use super::*;
use crate::stats::testing::Noise;

/// The three regimes of the methodology: alpha in µs, µs a byte.
const REGIMES: [(f64, f64); 3] = [(20.0, 1.0 / 25e3), (26.0, 1.0 / 90e3), (45.0, 1.0 / 270e3)];

fn regime(bytes: f64) -> usize {
    usize::from(bytes > 65536.0) + usize::from(bytes > 4_194_304.0)
}

/// 8 B to 1 GiB, so many sizes an octave.
fn sizes(per_octave: u32) -> Vec<f64> {
    let size = |step| ((3.0 + f64::from(step) / f64::from(per_octave)).exp2() / 8.0).round() * 8.0;
    let mut sizes: Vec<f64> = (0..=27 * per_octave).map(size).collect();
    sizes.dedup_by(|a, b| (*a - *b).abs() < 1.0);
    sizes
}

fn measured(per_octave: u32, noise_share: f64, outliers: f64, error: f64, noise: &mut Noise) -> Vec<Point> {
    let time = |bytes: f64, noise: &mut Noise| {
        let (alpha, slope) = REGIMES[regime(bytes)];
        let outlier = if noise.uniform() < outliers { 1.3 } else { 1.0 };
        (alpha + slope * bytes) * (noise_share * noise.normal()).exp() * outlier
    };
    let point = |bytes| Point { bytes, time_us: time(bytes, noise), relative_error: error / 2.0 };
    sizes(per_octave).into_iter().map(point).collect()
}

/// Whether the breaks are the true ones, within one size.
fn right(points: &[Point]) -> bool {
    let found = fit(points).unwrap();
    let place = |bytes: f64| points.iter().position(|point| point.bytes >= bytes).unwrap();
    let breaks: Vec<usize> =
        found.segments[1..].iter().map(|segment| place(segment.from_bytes as f64)).collect();
    let truth: Vec<usize> =
        (1..points.len()).filter(|at| regime(points[*at].bytes) != regime(points[at - 1].bytes)).collect();
    breaks.len() == truth.len() && breaks.iter().zip(truth).all(|(a, b)| a.abs_diff(b) <= 1)
}

fn share_right(per_octave: u32, noise_share: f64, outliers: f64, error: f64) -> f64 {
    let mut noise = Noise::new(u64::from(per_octave) + 17);
    let runs = 60;
    let good = (0..runs).filter(|_| right(&measured(per_octave, noise_share, outliers, error, &mut noise)));
    let share = good.count() as f64 / f64::from(runs);
    println!("{per_octave} an octave, noise {noise_share}, outliers {outliers}, error {error}: {share}");
    share
}

#[test]
fn exact_times_give_the_exact_parameters() {
    let points = measured(1, 0.0, 0.0, 0.01, &mut Noise::new(1));
    let found = fit(&points).unwrap();
    assert_eq!(found.segments.len(), 3);
    for (segment, (alpha, slope)) in found.segments.iter().zip(REGIMES) {
        assert!((segment.alpha_us / alpha - 1.0).abs() < 1e-9, "{segment:?}");
        assert!((segment.us_per_byte / slope - 1.0).abs() < 1e-9, "{segment:?}");
        assert!(segment.worst_residual < 1e-9);
        assert!((segment.beta_gbps().unwrap() * slope * 1e3 - 1.0).abs() < 1e-9);
        assert!((segment.half_bytes().unwrap() - alpha / slope).abs() < 1e-3);
    }
    let jumps = found.jumps();
    let at = 131_072.0;
    assert!((jumps[0] - (26.0 + at / 90e3) / (20.0 + at / 25e3)).abs() < 1e-9, "{jumps:?}");
    assert!((found.time_us(4096.0).unwrap() - (20.0 + 4096.0 / 25e3)).abs() < 1e-9);
    assert!((found.time_us(2e9).unwrap() - (45.0 + 2e9 / 270e3)).abs() < 1e-4);
}

#[test]
fn breaks_are_found_in_noise() {
    for noise in [0.005, 0.01, 0.02] {
        assert!(share_right(1, noise, 0.0, noise.max(0.01)) >= 0.9, "{noise}");
    }
    assert!(share_right(2, 0.01, 0.0, 0.01) >= 0.9);
}

#[test]
fn outliers_do_not_make_breaks() {
    assert!(share_right(1, 0.01, 0.05, 0.01) >= 0.85);
    assert!(share_right(2, 0.01, 0.05, 0.01) >= 0.9);
}

#[test]
fn one_line_stays_one_segment() {
    let mut noise = Noise::new(23);
    let one = |noise: &mut Noise| {
        let time = |bytes: f64, noise: &mut Noise| (10.0 + bytes / 50e3) * (0.01 * noise.normal()).exp();
        let point = |bytes| Point { bytes, time_us: time(bytes, noise), relative_error: 0.01 };
        fit(&sizes(1).into_iter().map(point).collect::<Vec<_>>()).unwrap().segments.len()
    };
    let alone = (0..100).filter(|_| one(&mut noise) == 1).count();
    println!("{alone} of 100 lines are one segment");
    assert!(alone >= 98, "{alone} of 100");
}

#[test]
fn too_little_is_no_model() {
    let point = |bytes, time_us| Point { bytes, time_us, relative_error: 0.0 };
    assert_eq!(fit(&[]), None);
    assert_eq!(fit(&[point(8.0, 1.0), point(16.0, 1.0)]), None);
    assert_eq!(fit(&[point(8.0, 1.0), point(16.0, 0.0), point(32.0, 1.0)]), None);
    let flat = fit(&[point(8.0, 5.0), point(16.0, 4.9), point(32.0, 4.8)]).unwrap();
    assert_eq!((flat.segments[0].beta_gbps(), flat.segments[0].half_bytes()), (None, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn segments_cover_all_sizes_and_never_fall(times in prop::collection::vec(1.0_f64..1e4, 3..30)) {
        let points: Vec<Point> = (1..).zip(&times)
            .map(|(step, time_us)| Point { bytes: f64::from(step).exp2(), time_us: *time_us, relative_error: 0.01 })
            .collect();
        let found = fit(&points).unwrap();
        prop_assert_eq!(found.segments[0].from_bytes, 2);
        prop_assert_eq!(found.segments.last().unwrap().to_bytes, 1 << times.len());
        for pair in found.segments.windows(2) {
            prop_assert_eq!(pair[0].to_bytes * 2, pair[1].from_bytes);
        }
        prop_assert!(found.segments.iter().all(|s| s.alpha_us >= 0.0 && s.us_per_byte >= 0.0));
    }
}
