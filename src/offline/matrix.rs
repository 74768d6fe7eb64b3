//! The matrix of all pairs once more, from each pair's times.

use super::agreement::Account;
use super::recompute::Recomputed;
use crate::judge::{Link, Matrix};
use crate::report::record::Event;
use crate::report::{Preamble, matrix, places_of, table};

/// What a record of `p2p_matrix_perf` comes to.
pub(super) fn recompute(preamble: &Preamble, events: &[Event]) -> Recomputed {
    let mut account = Account::default();
    let mut text = table::opening(preamble) + &table::devices(&preamble.sites);
    let mut ended = false;
    for event in events {
        match event {
            Event::Matrix(recorded) => {
                if recorded.links.iter().any(|link| link.times.is_none()) {
                    account.lacks("times of pairs: their medians are taken as they stand");
                }
                let again = again(preamble, recorded);
                account.compare("matrix".to_owned(), &without_times(recorded), &without_times(&again));
                text += &matrix::table(&again, &preamble.sites);
            }
            Event::Ended { .. } => {
                ended = true;
                text += &matrix::footer(preamble);
            }
            _ => {}
        }
    }
    if !ended {
        account.remarks.push("the run did not come to its end".to_owned());
    }
    Recomputed { account, table: text }
}

fn again(preamble: &Preamble, recorded: &Matrix) -> Matrix {
    let link = |link: &Link| match &link.times {
        Some(times) => Link::of(link.from, link.to, recorded.large_bytes, times.clone()),
        None => Some(link.clone()),
    };
    let links = recorded.links.iter().filter_map(link).collect();
    let mut again = Matrix::of(recorded.small_bytes, recorded.large_bytes, links);
    again.decompose(&places_of(&preamble.sites));
    again
}

/// What is printed or follows from the times.
fn without_times(matrix: &Matrix) -> Matrix {
    let mut matrix = matrix.clone();
    matrix.links.iter_mut().for_each(|link| link.times = None);
    matrix
}
