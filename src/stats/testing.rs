//! Tests only: noise that is the same on every machine.

/// `SplitMix64`, and what simulations draw from it.
#[derive(Clone, Debug)]
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring states would give the same numbers, one later: seeds are mixed before.
        Self(mixed(seed))
    }

    /// In 0..1.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mixed(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// A stationary process of unit variance whose neighbours correlate by `rho`.
    pub(crate) fn autoregressive(&mut self, n: usize, rho: f64) -> Vec<f64> {
        let mut last = self.normal();
        (0..n)
            .map(|_| {
                last = rho * last + (1.0 - rho * rho).sqrt() * self.normal();
                last
            })
            .collect()
    }

    /// Times around 100 µs as the stop rule meets them: 5 % of noise, and 3 % of samples with a tail.
    pub(crate) fn times_us(&mut self, n: usize, last: &mut f64, rho: f64) -> Vec<f64> {
        (0..n)
            .map(|_| {
                *last = rho * *last + (1.0 - rho * rho).sqrt() * self.normal();
                let tail = if self.uniform() < 0.03 { -0.3 * (1.0 - self.uniform()).ln() } else { 0.0 };
                100.0 * (0.05 * *last).exp() * (1.0 + tail)
            })
            .collect()
    }
}

fn mixed(state: u64) -> u64 {
    let once = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}
