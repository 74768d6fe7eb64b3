//! What flags around arrivals, and those that tell at the end, need of others.

use super::Cli;
use crate::error::Error;
use crate::vocab::{GATE, Kind};

impl Cli {
    /// What needs a common start of all ranks before every call, or `-I`.
    pub(super) fn validate_arrivals(&self) -> Result<(), Error> {
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        let meets = matches!(self.blocking, 1 | 3) && self.graph == 0;
        if self.late_ranks() > 0 && !meets {
            return usage(
                "--inject late is hidden where ranks do not meet before every call: use -z 1 or -z 3, and no -G",
            );
        }
        self.validate_gate()?;
        if self.overhead && (self.per_iteration != 1 || self.graph > 0) {
            return usage("--overhead measures what -I 1 costs: add -I 1, and leave -G out");
        }
        if self.late_ranks() > 1 {
            return usage("one rank at a time can be injected as late");
        }
        let blocks = self.extent.precision.or(self.extent.budget).is_some();
        if blocks && (self.self_test || self.late_ranks() > 0) {
            return usage("arrivals are known of one timed block: leave --precision and --budget out");
        }
        if self.self_test && (self.iterations < 20 || self.skip != 0) {
            return usage("--self-test judges 20 iterations or more: use -n 20, and leave -K out");
        }
        if self.self_test && (self.per_iteration != 1 || !meets) {
            return usage("--self-test needs -I 1 and -z 1 or -z 3, and no -G");
        }
        Ok(())
    }

    /// What `-z G` needs of others.
    fn validate_gate(&self) -> Result<(), Error> {
        let blocks = self.extent.precision.or(self.extent.budget).is_some();
        let missing = [
            (self.backend != Kind::Nccl, "gates hold GPUs: --backend nccl"),
            (self.per_iteration != 1, "what is measured is -I 1: add it"),
            (self.graph > 0, "leave -G out"),
            (self.stream_null != 0, "leave -y out"),
            (self.overhead, "leave --overhead out"),
            (self.matrix, "a matrix is timed by itself: leave -z out"),
            // Launches behind a closed gate must not fill the queue.
            (self.aggregated > 64, "use -m 64 or less"),
            (blocks, "leave --precision and --budget out"),
        ];
        let missing = missing.iter().find(|(is_so, _)| self.gated() && *is_so);
        missing.map_or(Ok(()), |(_, text)| Err(Error::Usage(format!("-z G: {text}"))))
    }

    /// Whether `-z G` is asked for.
    pub fn gated(&self) -> bool {
        self.blocking == u64::from(GATE)
    }

    /// What `-N 0`, which ends by a signal alone, never comes to.
    pub(super) fn never_told(&self) -> Option<String> {
        let asked = [
            ("--stats", self.extent.stats),
            ("--overhead", self.overhead),
            ("--self-test", self.self_test),
            ("--localize", self.localize),
        ];
        let asked: Vec<&str> = asked.into_iter().filter_map(|(flag, asked)| asked.then_some(flag)).collect();
        (self.cycles == 0 && !asked.is_empty())
            .then(|| format!("-N 0 never comes to its end: nothing will be seen of {}", asked.join(", ")))
    }
}
