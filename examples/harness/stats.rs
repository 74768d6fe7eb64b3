//! Means and medians with 95 % intervals.

/// A mean and half the width of its 95 % interval.
#[derive(Clone, Copy)]
pub(crate) struct Mean {
    pub(crate) value: f64,
    pub(crate) half: f64,
}

impl Mean {
    /// Of independent values.
    pub(crate) fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let value = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
        let error = (squares / (n - 1.0).max(1.0) / n).sqrt();
        Self { value, half: student(n - 1.0) * error }
    }

    /// Lower end, value and upper end of a mean of logarithms, as ratios.
    pub(crate) fn ratios(self) -> [f64; 3] {
        [self.value - self.half, self.value, self.value + self.half].map(f64::exp)
    }
}

/// A median and its 95 % interval, from the order of the values alone: whatever interrupts a block now and then
/// moves a mean as far as it likes, and this hardly.
#[derive(Clone, Copy)]
pub(crate) struct Middle {
    pub(crate) low: f64,
    pub(crate) value: f64,
    pub(crate) high: f64,
}

impl Middle {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        let value = median(&mut values);
        let n = values.len() as f64;
        let reach = 0.98 * n.sqrt();
        let at = |place: f64| values[place.clamp(0.0, n - 1.0) as usize];
        Self { low: at((n / 2.0 - reach).floor()), value, high: at((n / 2.0 + reach).ceil()) }
    }

    /// The mean of medians that were measured independently.
    pub(crate) fn mean(all: &[Self]) -> Self {
        let n = all.len() as f64;
        let value = all.iter().map(|one| one.value).sum::<f64>() / n;
        let reach = |half: fn(&Self) -> f64| all.iter().map(|one| half(one).powi(2)).sum::<f64>().sqrt() / n;
        Self {
            low: value - reach(|one| one.value - one.low),
            value,
            high: value + reach(|one| one.high - one.value),
        }
    }

    /// Of logarithms, as ratios.
    pub(crate) fn ratios(self) -> [f64; 3] {
        [self.low, self.value, self.high].map(f64::exp)
    }
}

/// The middle value.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// 0.975 quantile of Student's t by the Cornish-Fisher expansion, exact to 1 % from 3 degrees of freedom.
fn student(dof: f64) -> f64 {
    const Z: f64 = 1.959_964;
    let (z3, z5, z7) = (Z.powi(3), Z.powi(5), Z.powi(7));
    Z + (z3 + Z) / (4.0 * dof)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * dof.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / (384.0 * dof.powi(3))
}
