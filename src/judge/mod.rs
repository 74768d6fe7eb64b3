//! Who is to blame: asks for tests, hears their times, and ends with a name, or with the words that it cannot tell.
//!
//! Pure: it runs nothing and reads no clock. [`Localiser`] is the machine; whoever holds one runs the tests that it
//! asks for, over a real fabric or a simulated one. Method and bounds: docs/METHODOLOGY.md, "Who is to blame".

mod compare;
mod localiser;
mod matrix;
mod own;
mod polish;
mod rounds;
mod suspects;
mod trail;
mod verdict;

pub use compare::{REPEATS, is_slow};
pub use localiser::{Localiser, bound};
pub use matrix::{Link, Matrix, PairTimes};
pub use polish::{Cell, Polished, polish};
pub use rounds::tournament;
pub use suspects::{Limits, Suspects, suspects};
pub use trail::Trail;
pub use verdict::{Blame, Finding, Verdict};

use serde::{Deserialize, Serialize};

/// How the ranks of a group act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Everyone sends to the next of the group and receives from the one before, round the ring.
    Ring,
    /// The first sends, the second receives.
    OneWay,
    /// Each is by itself, and copies within its own memory.
    Own,
}

/// How much a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Next to nothing: what counts is when ranks start.
    Small,
    /// So much that only the rate counts.
    Large,
}

/// Groups of ranks that act at the same time; no rank is in two of them. The answer is one time a group, in µs per
/// operation: the longest of its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    /// How each group acts.
    pub shape: Shape,
    /// What its messages carry.
    pub size: Size,
    /// The groups, each in the order of its ring.
    pub groups: Vec<Vec<u32>>,
}

/// Where ranks sit, by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Number of the host.
    pub node: Vec<u32>,
    /// Number within the host: ranks with the same one share a rail.
    pub rail: Vec<u32>,
}

impl Places {
    /// From each rank's host, in rank order.
    pub fn of<T: PartialEq>(hosts: &[T]) -> Self {
        let mut places = Self::default();
        let mut known: Vec<(&T, u32)> = Vec::new();
        for host in hosts {
            let at = known.iter().position(|(name, _)| *name == host).unwrap_or_else(|| {
                known.push((host, 0));
                known.len() - 1
            });
            places.node.push(at as u32);
            places.rail.push(known[at].1);
            known[at].1 += 1;
        }
        places
    }

    /// Ranks.
    pub fn ranks(&self) -> u32 {
        self.node.len() as u32
    }

    /// Whether both sit in one host.
    pub fn together(&self, a: u32, b: u32) -> bool {
        self.node.get(a as usize) == self.node.get(b as usize)
    }
}

/// The middle value; of an even number the lower one, so that half of the values cannot raise it. Reorders; `None`
/// of nothing.
fn lower_median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// A standard deviation from the median distance to `center`, which a few outliers do not move; at least
/// `least`.
fn spread(values: impl Iterator<Item = f64>, center: f64, least: f64) -> f64 {
    let mut distances: Vec<f64> = values.map(|value| (value - center).abs()).collect();
    // The factor makes it the standard deviation of normal values.
    lower_median(&mut distances).map_or(least, |mad| (1.4826 * mad).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_host_are_numbered_in_it() {
        let places = Places::of(&["a", "b", "a", "b", "c"]);
        assert_eq!(
            (places.node.as_slice(), places.rail.as_slice()),
            (&[0, 1, 0, 1, 2][..], &[0, 0, 1, 1, 0][..])
        );
        assert!(places.together(0, 2) && !places.together(0, 1));
    }

    #[test]
    fn half_of_the_values_do_not_raise_the_median() {
        assert_eq!(lower_median(&mut [9.0, 1.0]), Some(1.0));
        assert_eq!(lower_median(&mut [9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(lower_median(&mut []), None);
        assert!((spread([-1.0, 0.0, 1.0, 50.0].into_iter(), 0.0, 0.0) - 1.4826).abs() < 1e-9);
    }
}
