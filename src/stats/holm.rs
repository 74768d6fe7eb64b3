//! Several tests at once.

/// P values adjusted by Holm, in the order given: a family of tests that takes those below 0.05 has a false one in at
/// most 5 % of cases, however the tests depend on each other. Sorted p, adj(i) = max over j <= i of min(1, (m-j+1) p(j)).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut highest = 0.0_f64;
    for (before, index) in order.into_iter().enumerate() {
        highest = highest.max(((p_values.len() - before) as f64 * p_values[index]).min(1.0));
        adjusted[index] = highest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_vector_in_any_order() {
        let p = [0.0004, 0.001, 0.0021, 0.012, 0.03, 0.04, 0.2, 0.5];
        let want = [0.0032, 0.007, 0.0126, 0.06, 0.12, 0.12, 0.4, 0.5];
        let close = |found: Vec<f64>, want: &[f64]| {
            assert!(found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        };
        close(holm(&p), &want);
        let reversed: Vec<f64> = p.iter().rev().copied().collect();
        close(holm(&reversed), &want.iter().rev().copied().collect::<Vec<_>>());
        close(holm(&[0.02, 0.01, 0.011]), &[0.03, 0.03, 0.03]);
        assert!(holm(&[]).is_empty());
    }
}
