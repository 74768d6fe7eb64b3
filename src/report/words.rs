//! Words that a good run may not print, because a tool that reads nccl-tests' output acts on them.
//!
//! stderr counts too: many scripts join it with `2>&1`. On a failure other words are wanted: see
//! [`super::table::library_failure`].

/// A word or phrase, the lines that may hold it, and the tool that acts on it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What is looked for.
    pub phrase: &'static str,
    /// Whether case matters to the tool.
    pub exact_case: bool,
    /// Beginnings of the lines that may hold it.
    pub allowed: &'static [&'static str],
    /// Who acts on it, and how.
    pub reader: &'static str,
}

const fn rule(phrase: &'static str, allowed: &'static [&'static str], reader: &'static str) -> Rule {
    Rule { phrase, exact_case: false, allowed, reader }
}

const DEVICE: &[&str] = &["#  Rank "];
const AVERAGE: &[&str] = &["# Avg bus bandwidth    : "];
const BOUNDS: &[&str] = &["# Out of bounds values : "];
const FOOTER: &[&str] = &["# Avg bus bandwidth    : ", "# Out of bounds values : "];
const ABOVE: &[&str] = &["#        "];
const START: &[&str] = &["# Collective test starting: "];
const END: &[&str] = &["# Collective test concluded: "];

/// Every rule.
pub const RULES: &[Rule] = &[
    rule(" on ", DEVICE, "cluster-health-scanner drains the node that follows it"),
    rule("bandwidth", AVERAGE, "azurehpc-health-checks takes field 6 of the first such line"),
    rule("avg bus", AVERAGE, "every gate on the average; one such line"),
    Rule { exact_case: true, ..rule("FAILED", FOOTER, "azurehpc-health-checks, DCGM: corruption") },
    rule("test failure", &[], "cloudai: the run did not succeed"),
    rule("test nccl failure", &[], "cloudai: the run did not succeed"),
    rule("out of bound", BOUNDS, "awsome-distributed-ai, DCGM, superbench: the count of wrong values"),
    rule("nccl warn", &[], "awsome-distributed-ai: text of a failure"),
    rule("invalid number of gpus", &[], "oci-hpc starts the run again"),
    rule("invalid device ordinal", &[], "oci-hpc starts the run again"),
    rule("out-of-place", ABOVE, "superbench finds the table by the last such line"),
    rule("collective test starting", START, "nccl-tests-cluster splits a log there"),
    rule("collective test concluded", END, "the end of one collective"),
    rule("using devices", &["# Using devices"], "the start of the device lines"),
    rule("#       size", &["#       size"], "nccl-benchmark-on-alps finds the table by it"),
];

/// The first rule that a line of a good run breaks, if it breaks one.
pub fn broken(line: &str) -> Option<&'static Rule> {
    let lower = line.to_lowercase();
    RULES.iter().find(|rule| {
        let found = if rule.exact_case { line.contains(rule.phrase) } else { lower.contains(rule.phrase) };
        found && !rule.allowed.iter().any(|start| line.starts_with(start))
    })
}

/// Whether a line that is no row could be taken for one: rows are what begins with blanks and a digit.
pub fn looks_like_row(line: &str) -> bool {
    line.trim_start().starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
