//! `--expect`: whether the sweep came below what was expected, which rank 0 decides for all.

use std::collections::BTreeMap;
use std::path::Path;

use super::Job;
use super::agreement::together;
use super::reporter::Reporter;
use crate::aggregate::{Compared, Standing};
use crate::cli::{Cli, Expect};
use crate::error::{Error, Result};
use crate::offline::Baseline;
use crate::plan::{Series, Sizes};
use crate::report::record::Event;
use crate::report::sink::Level;
use crate::report::table::listed;
use crate::report::{Preamble, place};
use crate::session::Control;

/// Rows that are told one by one.
const LISTED: usize = 16;

impl Job<'_> {
    /// With `--expect RECORD`, what rank 0 reads there; what cannot be compared ends the run before anything starts.
    /// Collective.
    pub(super) fn baseline(
        &self,
        control: &dyn Control,
        preamble: &Preamble,
        series: &[Series],
    ) -> Result<Option<Baseline>> {
        let Some(Expect::Record(path)) = &self.cli.expect else { return Ok(None) };
        let read =
            if control.rank() == 0 { read(path, self.cli, preamble, series).map(Some) } else { Ok(None) };
        together(control, &self.who.host, read)
    }
}

fn read(path: &Path, cli: &Cli, preamble: &Preamble, series: &[Series]) -> Result<Baseline> {
    let bytes = std::fs::read(path).map_err(|source| Error::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let sizes: Vec<u64> = Sizes::new(cli.min_bytes, cli.max_bytes, cli.step_factor, cli.step_bytes).collect();
    let named = |text: String| format!("--expect {}: {text}", path.display());
    Baseline::read(&bytes, preamble, series, &sizes).map_err(|error| match error {
        Error::Setup(text) => Error::Setup(named(text)),
        other => Error::Usage(named(other.to_string())),
    })
}

/// Whether whoever is to blame is to be looked for: always, or where the sweep came below what was expected. At rank 0.
pub(super) fn is_wanted(reporter: &Reporter, cli: &Cli) -> bool {
    match &cli.expect {
        None => true,
        Some(Expect::Gbps(expected)) => {
            let peak = reporter.peak_busbw_gbps();
            let text = format!("the highest busbw is {peak:.2} GB/s, {expected} were expected");
            reporter.sink.note(Level::Info, &text);
            peak < *expected
        }
        Some(Expect::Record(path)) => {
            reporter.baseline.as_ref().is_some_and(|baseline| is_below(reporter, path, baseline))
        }
    }
}

/// Says how every row stands beside the record; whether some is surely below it.
fn is_below(reporter: &Reporter, path: &Path, baseline: &Baseline) -> bool {
    let sink = &reporter.sink;
    for differs in &baseline.differs {
        sink.note(Level::Info, &format!("expected by another run: {differs}"));
    }
    let rows = baseline.found.beside(|case| baseline.expected.side(case));
    let below: Vec<&Compared> = rows.iter().filter(|row| row.standing == Standing::Below).collect();
    for row in below.iter().take(LISTED) {
        sink.finding("below_expected", &[], &below_words(row));
    }
    for text in untold(&rows) {
        sink.note(Level::Info, &text);
    }
    let reaching = rows.iter().filter(|row| row.standing == Standing::Reaches).count();
    let (all, untold) = (rows.len(), rows.len() - reaching - below.len());
    let answer = match (below.len(), untold) {
        (0, 0) => "all reach it".to_owned(),
        (0, _) if reaching == 0 => "cannot tell of any".to_owned(),
        (0, _) => format!("{reaching} reach it, of {untold} cannot tell; none is surely below"),
        (some, _) => format!("{some} are below, {reaching} reach it, of {untold} cannot tell"),
    };
    let level = if reaching == all { Level::Info } else { Level::Warning };
    sink.note(level, &format!("beside the record of {}: of {all} rows {answer}", baseline.start_time));
    let is_below = !below.is_empty();
    let record = path.display().to_string();
    sink.event(&Event::Expected { record, start_time: baseline.start_time.clone(), rows });
    is_below
}

/// By how much a row is below, with the interval.
fn below_words(row: &Compared) -> String {
    let ratio = row.ratio.map_or_else(String::new, |ratio| {
        format!("{:.3} of its busbw [{:.3}, {:.3}], p {:.4}", ratio.ratio, ratio.low, ratio.high, ratio.p)
    });
    let expected = row.expected.as_ref().map_or(0.0, |side| side.median_gbps);
    format!(
        "below the record at {}: {ratio}; {expected:.3} GB/s there, {:.3} here",
        name(row),
        row.found.median_gbps
    )
}

fn name(row: &Compared) -> String {
    let case = &row.case;
    let root = if case.root < 0 { String::new() } else { format!(" root {}", case.root) };
    format!("{} {} {}{root} {}", case.requested_bytes, case.dtype, case.redop, place(case.placement))
}

/// Rows of which nothing can be told, by reason.
fn untold(rows: &[Compared]) -> Vec<String> {
    let mut reasons = BTreeMap::<&str, Vec<String>>::new();
    for row in rows {
        if let Standing::CannotTell { reason } = &row.standing {
            reasons.entry(reason).or_default().push(name(row));
        }
    }
    let words =
        |(reason, names): (&str, Vec<String>)| format!("cannot tell at {}: {reason}", listed(&names, 4));
    reasons.into_iter().map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{Case, Ratio, Side};
    use crate::report::words::broken;
    use crate::vocab::{Dtype, Placement};

    fn row(bytes: u64, standing: Standing) -> Compared {
        let side = |gbps| Side { median_gbps: gbps, state: None, units_gbps: vec![gbps; 7] };
        let ratio = (standing == Standing::Below).then_some(Ratio {
            ratio: 0.8,
            low: 0.7812,
            high: 0.8199,
            p: 0.0012,
        });
        Compared {
            case: Case {
                requested_bytes: bytes,
                dtype: Dtype::Float,
                redop: "sum".to_owned(),
                root: 3,
                placement: Placement::InPlace,
            },
            standing,
            expected: Some(side(40.0)),
            found: side(32.0),
            ratio,
        }
    }

    #[test]
    fn rows_are_told_in_the_words_of_a_good_run() {
        let below = below_words(&row(8, Standing::Below));
        assert_eq!(
            below,
            "below the record at 8 float sum root 3 in: 0.800 of its busbw [0.781, 0.820], p 0.0012; \
             40.000 GB/s there, 32.000 here"
        );
        let untold_at =
            |bytes: u64, reason: &str| row(bytes, Standing::CannotTell { reason: reason.to_owned() });
        let mut rows: Vec<Compared> =
            (0..6).map(|size| untold_at(8 << size, "unstable in this run")).collect();
        rows.push(untold_at(8, "the interval holds both"));
        rows.push(row(8, Standing::Reaches));
        let texts = untold(&rows);
        assert_eq!(texts[0], "cannot tell at 8 float sum root 3 in: the interval holds both");
        assert!(texts[1].ends_with("64 float sum root 3 in and 2 more: unstable in this run"), "{texts:?}");
        assert!(texts.iter().chain([&below]).all(|text| broken(text).is_none()));
    }
}
