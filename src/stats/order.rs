//! In which order two variants are measured.

/// The order of variants 0 and 1 in a pair of measurements, by the pair's place: 0 1 1 0 0 1 …, so that over two pairs a
/// linear drift hits both alike.
pub const fn abba(pair: usize) -> [usize; 2] {
    [pair % 2, 1 - pair % 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_two_pairs_both_stand_at_the_same_mean_place() {
        let order: Vec<usize> = (0..4).flat_map(abba).collect();
        assert_eq!(order, [0, 1, 1, 0, 0, 1, 1, 0]);
    }
}
