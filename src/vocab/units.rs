//! Sizes as nccl-tests reads them: binary K, M, G, and T.

use thiserror::Error;

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseSizeError {
    /// Not a number with an optional unit.
    #[error(
        "'{0}' is not a size; write a number of bytes, or one with K, M, G or T (1024 based), such as 8, 1.5G or 64M"
    )]
    Malformed(String),
    /// Negative, infinite, or beyond 2^63.
    #[error("'{0}' is outside the sizes that can be measured (0 to 8 EiB)")]
    OutOfRange(String),
}

/// Reads a size in bytes: `8`, `1.5G`, `1e6`, `64M`, `1GB`; K, M, G and T are powers of 1024.
/// Letters behind the unit are ignored, as nccl-tests' `sscanf("%lf %1s")` does (`1GB` is `1G`).
pub fn parse_size(text: &str) -> Result<u64, ParseSizeError> {
    let malformed = || ParseSizeError::Malformed(text.to_owned());
    let trimmed = text.trim();
    let digits = number_prefix(trimmed);
    let value: f64 = trimmed[..digits].parse().map_err(|_| malformed())?;
    let mut unit = trimmed[digits..].trim_start().chars();
    let scale = match unit.next().map(|letter| letter.to_ascii_uppercase()) {
        None => 1.0,
        Some('K') => 1024.0,
        Some('M') => 1024.0 * 1024.0,
        Some('G') => 1024.0 * 1024.0 * 1024.0,
        Some('T') => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        Some(_) => return Err(malformed()),
    };
    if !matches!(unit.as_str().to_ascii_lowercase().as_str(), "" | "b" | "ib") {
        return Err(malformed());
    }
    let bytes = value * scale;
    if !(0.0..9.2e18).contains(&bytes) {
        return Err(ParseSizeError::OutOfRange(text.to_owned()));
    }
    Ok(bytes as u64)
}

/// Length of the longest prefix that is a decimal number with an optional exponent.
fn number_prefix(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits_from = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let start = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let mut end = digits_from(start);
    if bytes.get(end) == Some(&b'.') {
        end = digits_from(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits_from(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_nccl_tests_reads_them() {
        let cases = [
            ("8", 8),
            ("0", 0),
            ("1K", 1024),
            ("1k", 1024),
            ("1.5G", 1_610_612_736),
            ("1e6", 1_000_000),
            ("1GB", 1 << 30),
            ("64MiB", 64 << 20),
            ("2T", 2 << 40),
            (" 4 M ", 4 << 20),
            ("+3", 3),
            (".5K", 512),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "12x", "1Mx", "1e", "abc", "0x10"] {
            assert!(matches!(parse_size(text), Err(ParseSizeError::Malformed(_))), "{text}");
        }
        for text in ["-1", "1e30", "9000000T"] {
            assert!(matches!(parse_size(text), Err(ParseSizeError::OutOfRange(_))), "{text}");
        }
    }
}
