//! What a self-test's ladder of faults comes to.

/// The smallest fault that was found in all of its `each` trials, as all larger ones were; the largest comes first.
pub fn smallest_found<'a, T: Copy + 'a>(
    largest_first: impl Iterator<Item = &'a (T, usize)>,
    each: usize,
) -> Option<T> {
    largest_first.take_while(|(_, found)| *found == each).last().map(|(fault, _)| *fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_is_the_last_before_one_was_missed() {
        let found = |ladder: &[(u32, usize)]| smallest_found(ladder.iter(), 5);
        assert_eq!(found(&[(40, 5), (20, 5), (10, 2), (5, 5)]), Some(20));
        assert_eq!(found(&[(40, 4), (20, 5)]), None);
        assert_eq!(found(&[(40, 5), (20, 5), (10, 5), (5, 5)]), Some(5));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn the_smallest_is_the_first_from_which_nothing_is_missed() {
        let found = |counts: &[usize]| {
            let ladder: Vec<(f64, usize)> = (1..).map(f64::from).zip(counts.iter().copied()).collect();
            smallest_found(ladder.iter().rev(), 5)
        };
        assert_eq!(found(&[0, 2, 5, 5]), Some(3.0));
        assert_eq!(found(&[5, 2, 5, 5]), Some(3.0));
        assert_eq!(found(&[5, 5]), Some(1.0));
        assert_eq!(found(&[0, 0, 4]), None);
        assert_eq!(found(&[0, 0, 5]), Some(3.0));
        assert_eq!(found(&[]), None);
    }
}
