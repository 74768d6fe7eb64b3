//! What a run is expected to reach.

use std::path::PathBuf;
use std::str::FromStr;

/// `--expect`.
#[derive(Clone, Debug, PartialEq)]
pub enum Expect {
    /// The highest busbw, in 10^9 B/s.
    Gbps(f64),
    /// The busbw of each row of an earlier run.
    Record(PathBuf),
}

impl FromStr for Expect {
    type Err = String;

    /// What is a number is a busbw; a file of such a name is written `./5`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(gbps) if gbps.is_finite() && gbps > 0.0 => Ok(Self::Gbps(gbps)),
            Ok(_) => Err(format!("'{text}' is no busbw; a file of this name is ./{text}")),
            Err(_) if text.is_empty() => Err("give a busbw in GB/s or the path of a record".to_owned()),
            Err(_) => Ok(Self::Record(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_busbw_and_all_else_is_a_path() {
        assert_eq!("400".parse(), Ok(Expect::Gbps(400.0)));
        assert_eq!("1e-6".parse(), Ok(Expect::Gbps(1e-6)));
        for path in ["./5", "healthy.jsonl", "400GB"] {
            assert_eq!(path.parse(), Ok(Expect::Record(path.into())));
        }
        for text in ["", "0", "-1", "nan", "inf"] {
            assert!(text.parse::<Expect>().is_err(), "{text}");
        }
    }
}
