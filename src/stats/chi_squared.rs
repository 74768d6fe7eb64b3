//! The chi-squared distribution with a whole number of degrees of freedom: what bounds of a spread and tails of the
//! normal distribution need.

/// P(X <= x). The series P(a, x/2) = e^-y y^a / Γ(a+1) · (1 + y/(a+1) + y²/((a+1)(a+2)) + …), a = degrees / 2, y = x/2,
/// whose terms are all positive; Γ of a half-integer is a product. (Abramowitz and Stegun, 6.5.29.)
pub(super) fn cdf(x: f64, degrees: usize) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let (a, y) = (degrees as f64 / 2.0, x / 2.0);
    let front = (a * y.ln() - y - ln_gamma_of_half(degrees + 2)).exp();
    let (mut sum, mut term, mut divisor) = (1.0, 1.0, a);
    while term > sum * 1e-17 {
        divisor += 1.0;
        term *= y / divisor;
        sum += term;
    }
    (front * sum).min(1.0)
}

/// ln Γ(halves / 2).
fn ln_gamma_of_half(halves: usize) -> f64 {
    let start = if halves.is_multiple_of(2) { 0.0 } else { std::f64::consts::PI.sqrt().ln() };
    let first = if halves.is_multiple_of(2) { 2 } else { 1 };
    start + (first..halves).step_by(2).map(|half| (half as f64 / 2.0).ln()).sum::<f64>()
}

/// The x with P(X <= x) = `p`, by bisection.
pub(super) fn quantile(p: f64, degrees: usize) -> f64 {
    let (mut low, mut high) = (0.0, degrees as f64 + 10.0);
    while cdf(high, degrees) < p {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if cdf(middle, degrees) < p { low = middle } else { high = middle }
    }
    low
}

/// P(|Z| >= z) of a standard normal Z, whose square is chi-squared with one degree of freedom.
pub(super) fn normal_two_sided(z: f64) -> f64 {
    // Beyond 8 the difference to 1 is lost, and nothing depends on it.
    if z.abs() > 8.0 { 0.0 } else { 1.0 - cdf(z * z, 1) }
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

    use super::*;

    #[test]
    fn agrees_with_statrs() {
        for degrees in [1, 2, 3, 4, 6, 9, 19, 50, 199, 1000] {
            let theirs = ChiSquared::new(degrees as f64).unwrap();
            for p in [0.001, 0.05, 0.3, 0.5, 0.95, 0.999] {
                let x = theirs.inverse_cdf(p);
                assert!((cdf(x, degrees) - p).abs() < 1e-8, "cdf {degrees} {p}: {}", cdf(x, degrees));
                let own = quantile(p, degrees);
                assert!((own - x).abs() < 1e-6 * x.max(1e-3), "quantile {degrees} {p}: {own} {x}");
            }
        }
        let normal = Normal::new(0.0, 1.0).unwrap();
        for z in [0.0, 0.5, 1.0, 1.959_964, 3.0, 5.0] {
            let want = 2.0 * normal.cdf(-z);
            assert!((normal_two_sided(z) - want).abs() < 1e-10, "{z}");
            assert!((normal_two_sided(-z) - want).abs() < 1e-10, "{z}");
        }
        assert!(normal_two_sided(50.0) < 1e-12);
    }
}
