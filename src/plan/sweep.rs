//! The sizes of a sweep.

/// Sizes from `min` to `max`, by a factor or a step; overflow-checked and always growing.
#[derive(Clone, Debug)]
pub struct Sizes {
    next: Option<u64>,
    max: u64,
    factor: f64,
    step: u64,
}

impl Sizes {
    /// Sizes in bytes; `factor` is used where it is above 1, else `step`.
    pub fn new(min: u64, max: u64, factor: f64, step: u64) -> Self {
        Self { next: (min <= max).then_some(min), max, factor, step }
    }

    fn after(&self, size: u64) -> Option<u64> {
        let next = if self.factor > 1.0 {
            // A whole factor is exact; a fraction is rounded to 8 bytes, so that sizes stay multiples of each type.
            if self.factor.fract() == 0.0 {
                size.checked_mul(self.factor as u64)?
            } else {
                let scaled = size as f64 * self.factor;
                let grown = ((scaled / 8.0).round() * 8.0) as u64;
                grown.max(size.checked_add(8)? & !7)
            }
        } else {
            size.checked_add(self.step)?
        };
        (next > size && next <= self.max).then_some(next)
    }
}

impl Iterator for Sizes {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let size = self.next?;
        self.next = self.after(size);
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sweeps_as_nccl_tests_does() {
        let sizes = |min, max, factor, step| Sizes::new(min, max, factor, step).collect::<Vec<_>>();
        assert_eq!(sizes(8, 64, 2.0, 0), [8, 16, 32, 64]);
        assert_eq!(sizes(8, 100, 2.0, 0), [8, 16, 32, 64]);
        assert_eq!(sizes(1 << 20, 4 << 20, 1.0, 1 << 20).len(), 4);
        assert_eq!(sizes(8, 8, 1.0, 0), [8]);
        assert_eq!(sizes(64, 200, 1.5, 0), [64, 96, 144]);
        assert_eq!(sizes(1, 40, 1.2, 0), [1, 8, 16, 24, 32, 40]);
    }

    proptest! {
        #[test]
        fn sizes_grow_stay_in_range_and_end(min in 1_u64..1 << 40, span in 0_u64..1 << 20, factor in 1.01_f64..10.0) {
            let sizes: Vec<u64> = Sizes::new(min, min + span, factor, 1).collect();
            prop_assert_eq!(sizes[0], min);
            prop_assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(sizes.iter().all(|size| *size <= min + span));
        }
    }
}
