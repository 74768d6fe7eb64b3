//! Each rank by itself: what is slow here needs no fabric to be slow.

use super::suspects::OF_RANKS;
use super::{Shape, Size, Test, lower_median, spread};

/// Repeats; the shortest counts, since interference only adds time.
pub(super) const REPEATS: usize = 5;

/// All of `ranks` at the same time, each by itself.
pub(super) fn tests(ranks: &[u32]) -> Vec<Test> {
    let groups: Vec<Vec<u32>> = ranks.iter().map(|rank| vec![*rank]).collect();
    vec![Test { shape: Shape::Own, size: Size::Large, groups }; REPEATS]
}

/// Ranks whose shortest time exceeds the median of all by more than `least`, a logarithm of a ratio, and the spread
/// of all.
pub(super) fn slow(heard: &[(Test, Vec<f64>)], least: f64) -> Vec<u32> {
    let Some((test, _)) = heard.first() else { return Vec::new() };
    let shortest = |group: usize| {
        let times = heard.iter().filter_map(|(_, times_us)| times_us.get(group));
        times.copied().fold(f64::INFINITY, f64::min).max(1e-3).ln()
    };
    let times: Vec<f64> = (0..test.groups.len()).map(shortest).collect();
    let Some(middle) = lower_median(&mut times.clone()) else { return Vec::new() };
    let limit = least.max(OF_RANKS * spread(times.iter().copied(), middle, 0.0));
    let above =
        |(group, time): (&Vec<u32>, f64)| (time - middle > limit).then(|| group.first().copied()).flatten();
    test.groups.iter().zip(times).filter_map(above).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(times_us: &[f64]) -> Vec<(Test, Vec<f64>)> {
        let ranks: Vec<u32> = (10..).take(times_us.len()).collect();
        // A disturbance in one of the repeats, at each rank in turn, counts nothing.
        let disturbed = |(at, test): (usize, Test)| {
            let times =
                times_us.iter().enumerate().map(|(rank, time)| if rank == at { 9.0 * time } else { *time });
            (test, times.collect())
        };
        super::tests(&ranks).into_iter().enumerate().map(disturbed).collect()
    }

    #[test]
    fn who_is_slow_by_itself_is_seen_even_of_two() {
        assert_eq!(slow(&heard(&[30.0, 60.0]), 0.1), [11]);
        assert_eq!(slow(&heard(&[30.0, 31.0]), 0.1), Vec::<u32>::new());
        assert_eq!(slow(&heard(&[30.0, 30.5, 36.0, 30.1, 29.8]), 0.1), [12]);
    }

    #[test]
    fn where_all_differ_nobody_stands_out() {
        assert_eq!(slow(&heard(&[30.0, 38.0, 34.0, 42.0, 26.0]), 0.1), Vec::<u32>::new());
        assert_eq!(slow(&[], 0.1), Vec::<u32>::new());
        assert_eq!(slow(&heard(&[0.0, 0.0]), 0.1), Vec::<u32>::new());
    }
}
