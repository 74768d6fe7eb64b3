//! The few conversions of C's `printf` that nccl-tests' table is made of, to the byte.

/// `%.{precision}e`: an exponent of at least two digits with its sign.
fn exponential(value: f64, precision: usize) -> String {
    let rust = format!("{value:.precision$e}");
    match rust.split_once('e') {
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        None => not_finite(value),
    }
}

/// C's words for what is no number.
fn not_finite(value: f64) -> String {
    let word = if value.is_nan() { "nan" } else { "inf" };
    format!("{}{word}", if value.is_sign_negative() { "-" } else { "" })
}

/// `%g`: six significant digits, without trailing zeros, exponential below 1e-4 and from 1e6 on.
pub(super) fn general(value: f64) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    let scientific = exponential(value, 5);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match usize::try_from(5 - exponent) {
        Ok(decimals) if exponent >= -4 => trim(&format!("{value:.decimals$}")).to_owned(),
        _ => format!("{}e{}", trim(digits), &scientific[digits.len() + 1..]),
    }
}

/// Without zeros behind the point, and without a bare point.
fn trim(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// A number in `width` columns with as many decimals as fit: two, one, none, then an exponent. nccl-tests'
/// `getFloatStr`, its cut to `width` included.
pub(super) fn fitted(value: f64, width: usize) -> String {
    for decimals in [2, 1, 0] {
        let text = if value.is_finite() { format!("{value:width$.decimals$}") } else { not_finite(value) };
        if text.len() <= width {
            return format!("{text:>width$}");
        }
    }
    let text = exponential(value, usize::from(width >= 7));
    format!("{:>width$}", &text[..text.len().min(width)])
}

/// An amount of memory as `-M` prints it: two decimals below 10, one below 100, none above, in binary units.
/// nccl-tests' `getMemString`.
pub(super) fn memory(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1, "B"));
    let amount = bytes as f64 / unit as f64;
    let decimals = match amount {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{amount:.decimals$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by glibc 2.36: value, `%g`, then `getFloatStr` at width 7 and 6.
    const GOLDEN: &str = include_str!("printf_golden.txt");

    #[test]
    fn every_conversion_is_glibcs() {
        let mut seen = 0;
        for line in GOLDEN.lines() {
            let fields: Vec<&str> = line.split('|').collect();
            let value = f64::from_bits(u64::from_str_radix(fields[0], 16).unwrap());
            assert_eq!(general(value), fields[1], "%g of {value:e}");
            assert_eq!(fitted(value, 7), fields[2], "width 7 of {value:e}");
            assert_eq!(fitted(value, 6), fields[3], "width 6 of {value:e}");
            seen += 1;
        }
        assert!(seen > 500, "{seen} golden lines");
    }

    #[test]
    fn memory_has_three_digits() {
        let cases = [
            (0, "0.00 B"),
            (1023, "1023 B"),
            (1536, "1.50 KB"),
            (386 << 20, "386 MB"),
            (12 << 20, "12.0 MB"),
            (5 << 30, "5.00 GB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(memory(bytes), text);
        }
    }
}
