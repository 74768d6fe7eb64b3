//! What can be said of a series of times, and what cannot: pure numbers in, numbers out. Definitions and sources stand
//! in docs/METHODOLOGY.md, "Statistics". Series are in µs and in the order of measuring.

mod chi_squared;
mod cycles;
mod dependence;
mod epochs;
mod fit;
mod holm;
mod iterations;
mod modes;
mod order;
mod quantile;
mod shift;
mod spread;
mod stop;
#[cfg(test)]
pub(crate) mod testing;
mod trend;
mod warm_up;

pub use cycles::Cycles;
pub use dependence::{Dependence, median_interval};
pub use epochs::{Epochs, state, units};
pub use fit::{Fit, Point, Segment, fit};
pub use holm::holm;
pub use iterations::{Iterations, Tail};
pub use modes::{Mode, modes};
pub use order::abba;
pub use quantile::{Interval, interval, median, median_bounds, nearest_rank, sorted};
pub use shift::Shift;
pub use spread::{Cv, State, cv_pct};
pub use stop::{Reason, Rule, Stop, Stopping};
pub use trend::{Drift, drift};
pub use warm_up::warm_up;
