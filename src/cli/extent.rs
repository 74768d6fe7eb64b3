//! How long and in which order to measure.

use clap::Args;

use super::flags::hex_or_decimal;

/// Order of the sizes within a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// Growing, as in nccl-tests.
    #[default]
    Natural,
    /// Growing, then falling, in turn.
    Mirrored,
    /// Another permutation for each cycle.
    Permuted,
}

impl Order {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Natural => "natural",
            Self::Mirrored => "mirrored",
            Self::Permuted => "permuted",
        }
    }
}

/// Flags of our own that say how long to measure, in which order, and what to tell of it.
#[derive(Clone, Debug, Default, Args)]
pub struct Extent {
    /// Repeat the timed loop at each size and placement until the 95 % interval of the median is within P of it, such
    /// as 1%
    #[arg(long, value_name = "P%", value_parser = share, help_heading = "Of our own")]
    pub precision: Option<f64>,
    /// Repeat the timed loop at each size and placement for TIME, such as 60s or 500ms; with --precision at most so
    /// long (else 10s)
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Of our own")]
    pub budget: Option<f64>,
    /// Repeat the whole sweep N times in one job, each time with new communicators; -w, -N, --precision and --budget hold
    /// for each epoch
    #[arg(long, value_name = "N", default_value = "1", value_parser = hex_or_decimal, help_heading = "Of our own")]
    pub epochs: u64,
    /// Order of the sizes: natural, mirrored (each second cycle falls) or permuted (anew in each cycle)
    #[arg(
        long,
        value_name = "ORDER",
        value_enum,
        default_value = "natural",
        hide_possible_values = true,
        help_heading = "Of our own"
    )]
    pub order: Order,
    /// Seed of --order permuted
    #[arg(long, value_name = "N", default_value = "1", value_parser = hex_or_decimal, help_heading = "Of our own")]
    pub seed: u64,
    /// Show statistics over cycles and iterations at the end, to stderr
    #[arg(long, help_heading = "Of our own")]
    pub stats: bool,
}

/// `1%` as 0.01.
fn share(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    percent
        .filter(|percent| *percent > 0.0 && *percent <= 50.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("'{text}' is no precision such as 1% (above 0%, up to 50%)"))
}

/// `60s`, `500ms` or `2m` in seconds; a bare number is seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = text[..text.len() - unit.len()].parse::<f64>();
    let factor = match unit {
        "ms" => Some(1e-3),
        "" | "s" => Some(1.0),
        "m" => Some(60.0),
        _ => None,
    };
    let seconds = number.ok().zip(factor).map(|(number, factor)| number * factor);
    seconds
        .filter(|seconds| *seconds > 0.0 && *seconds <= 86_400.0)
        .ok_or_else(|| format!("'{text}' is no time such as 60s, 500ms or 2m (up to a day)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_are_percentages() {
        assert_eq!((share("1%"), share(" 0.5 %"), share("50%")), (Ok(0.01), Ok(0.005), Ok(0.5)));
        for text in ["1", "0%", "-1%", "51%", "%", "one%", "nan%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!((seconds("60s"), seconds("500ms"), seconds("2m")), (Ok(60.0), Ok(0.5), Ok(120.0)));
        assert_eq!((seconds("1.5"), seconds("0.25s")), (Ok(1.5), Ok(0.25)));
        for text in ["", "s", "0s", "-1s", "1h", "2d", "1.2.3s", "1000000s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
