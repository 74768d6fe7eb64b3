//! What is put aside with a word instead of refused.

use super::Cli;
use crate::vocab::Kind;

impl Cli {
    /// Puts aside what nccl-tests puts aside with a word on stderr: odd values of `-I` and `-K`, and what
    /// cannot be captured under `-G`. Returns the words.
    pub fn settle(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        if self.per_iteration > 1 {
            words.push("per-iteration timing (-I) only supports 0=off or 1=on. Disabling.".to_owned());
            self.per_iteration = 0;
        }
        if self.graph > 0 && self.per_iteration == 1 {
            words.push(
                "per-iteration timing (-I) is incompatible with CUDA graph mode (-G). Disabling.".to_owned(),
            );
            self.per_iteration = 0;
        }
        if self.graph > 0 && self.blocking == 3 {
            words.push(
                "blocking mode (-z 3) is incompatible with CUDA graph mode (-G). Disabling.".to_owned(),
            );
            self.blocking = 0;
        }
        if self.late_ranks() > 0 && self.per_iteration == 0 {
            words.push("--inject late is seen in arrivals, which need -I 1".to_owned());
        }
        if self.backend != Kind::Nccl {
            words.extend(self.put_aside_without_nccl());
        }
        if self.skip < 0 || self.skip >= self.iterations.cast_signed() {
            words.push(format!(
                "per-iteration skip (-K) must be between 0 and {}. Disabling.",
                self.iterations - 1
            ));
            self.skip = 0;
        }
        if self.skip > 0 && self.per_iteration == 0 {
            words.push("per-iteration skip (-K) requires per-iteration timing (-I 1). Disabling.".to_owned());
            self.skip = 0;
        }
        if self.matrix {
            words.extend(self.put_aside_in_a_matrix());
        }
        words.extend(self.never_told());
        words.extend(self.first_epoch_only());
        words
    }

    /// What belongs to a sweep, put aside: a matrix has sizes and repeats of its own, and checks nothing.
    fn put_aside_in_a_matrix(&mut self) -> Vec<String> {
        let given = [
            ("-n", self.iterations != 20),
            ("-m", self.aggregated != 1),
            ("-c", self.checks > 1),
            ("-N", self.cycles != 1),
            ("-G", self.graph != 0),
            ("-C", self.cputime != 0),
            ("--stats", self.extent.stats),
        ];
        (self.checks, self.graph) = (0, 0);
        let given: Vec<&str> = given.iter().filter_map(|(flag, given)| given.then_some(*flag)).collect();
        let word = format!("p2p_matrix_perf has no sweep: {} changes nothing", given.join(", "));
        if given.is_empty() { Vec::new() } else { vec![word] }
    }

    /// What only NCCL has, put aside.
    fn put_aside_without_nccl(&mut self) -> Vec<String> {
        let asked = [
            ("-R", std::mem::take(&mut self.register) != 0),
            ("-x", self.cta_policy.take().is_some()),
            ("-y", std::mem::take(&mut self.stream_null) != 0),
            ("-M", std::mem::take(&mut self.memory) != 0),
            ("--explain", std::mem::take(&mut self.explain)),
        ];
        let asked = asked.into_iter().filter(|(_, asked)| *asked);
        asked.map(|(flag, _)| format!("{flag} is ignored: only --backend nccl has it")).collect()
    }
}
