use super::*;
use crate::aggregate::{Critical, Verdict};
use crate::backend::Kind;
use crate::report::{fixture, table};

/// Every line that a good run can print, in all its forms.
fn good_lines() -> Vec<String> {
    let mut lines = Vec::new();
    let mut preamble = fixture::preamble();
    for backend in Kind::ALL {
        for blocking in 0..4 {
            preamble.backend = backend;
            preamble.config.blocking = blocking;
            preamble.config.per_iteration = blocking == 3;
            preamble.config.timestamps = blocking == 2;
            preamble.config.skip = 1;
            preamble.config.parallel_init = true;
            lines.push(table::opening(&preamble));
            lines.push(table::devices(&preamble.sites));
            lines.push(table::header(&preamble.config));
        }
    }
    lines.push(table::reduced(1 << 30));
    let named = Verdict::Named { rank: 0, gap_us: 1.0, spread_us: 0.1, agreeing: 1, cases: 1 };
    let unclear = |distinct| Verdict::NotDistinguishable { gap_us: 1.0, spread_us: 2.0, cases: 1, distinct };
    let verdicts = [
        named.clone(),
        unclear(0),
        unclear(1),
        Verdict::TooFewSamples { cycles: 1 },
        Verdict::OneRank,
        Verdict::SeveralGroups,
    ];
    for longest in verdicts {
        let mut outcome = fixture::outcome();
        outcome.critical = Critical { longest, last_to_arrive: Some(named.clone()) };
        outcome.memory =
            Some(crate::report::MemoryUse { init_bytes: 1, user_bytes: 1 << 21, collective_bytes: 1 << 31 });
        outcome.min_busbw_gbps = Some(1.0);
        lines.push(table::footer(&preamble, &outcome));
    }
    lines.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

#[test]
fn a_good_run_breaks_no_rule() {
    for line in good_lines() {
        if let Some(rule) = broken(&line) {
            panic!("'{line}' holds '{}': {}", rule.phrase, rule.reader);
        }
        assert!(!looks_like_row(&line), "'{line}'");
    }
}

#[test]
fn real_output_breaks_no_rule() {
    for name in ["all_reduce", "iter", "stamps", "z3"] {
        for line in fixture::text(&format!("{name}.txt")).lines() {
            assert!(broken(line).is_none(), "{line}");
        }
    }
}

#[test]
fn each_rule_catches() {
    for rule in RULES {
        let line = format!("critrank: warning: x{}y", rule.phrase);
        assert_eq!(broken(&line).map(|found| found.phrase), Some(rule.phrase), "{line}");
    }
    let bad = [
        "low bandwidth",
        "a slow rank on node2",
        "# rank 3 FAILED",
        "the Avg Bus figure",
        " .. vm pid 1: Test failure x",
        "vm: Test NCCL failure x",
        "2 out of bounds",
        "NCCL WARN x",
        "Invalid number of GPUs: 2",
        "invalid device ordinal",
        "in the out-of-place half",
        " # Collective test starting: x",
    ];
    for line in bad {
        assert!(broken(line).is_some(), "{line}");
    }
    assert!(broken("rank 3 failed").is_none(), "only capitals count");
    assert!(looks_like_row("  12 GPUs") && !looks_like_row("# 12"));
}
