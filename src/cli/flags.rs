//! Values of flags: integers in C's bases, sizes, factors, and names or `all`.

use std::ffi::OsString;
use std::str::FromStr;

use crate::vocab::{GATE, parse_size};

/// One value, or every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum All<T> {
    /// This one.
    One(T),
    /// `all`.
    Every,
}

impl<T: Copy> All<T> {
    /// The one, or all of `every`.
    pub fn choose(self, every: &[T]) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Every => every.to_vec(),
        }
    }

    /// Whether `all` was asked for.
    pub const fn is_every(self) -> bool {
        matches!(self, Self::Every)
    }
}

impl<T: FromStr> FromStr for All<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "all" { Ok(Self::Every) } else { text.parse().map(Self::One) }
    }
}

/// An integer as C writes it: decimal, or hexadecimal behind `0x`.
pub(super) fn signed(text: &str) -> Result<i64, String> {
    let trimmed = text.trim();
    if trimmed == "all" {
        return Ok(-1);
    }
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16),
        // C reads a leading 0 as octal; nobody who writes 010 means 8, so it is refused.
        None if digits.len() > 1
            && digits.starts_with('0')
            && digits.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            return Err(format!("'{text}' has a leading zero; write a decimal number or 0x and hexadecimal"));
        }
        None => digits.parse(),
    };
    value
        .ok()
        .filter(|value| !digits.starts_with(['+', '-']) && *value >= 0)
        .map(|value| if negative { -value } else { value })
        .ok_or_else(|| {
            let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            let what = if is_number { "out of range" } else { "not a whole number" };
            format!("'{text}' is {what}")
        })
}

/// As [`signed`], 0 or more.
pub(super) fn hex_or_decimal(text: &str) -> Result<u64, String> {
    if text.trim() == "all" {
        return Err("'all' is not a whole number".to_owned());
    }
    u64::try_from(signed(text)?).map_err(|_| format!("'{text}' is negative"))
}

/// `-z`: 0 to 3, or G.
pub(super) fn blocking(text: &str) -> Result<u64, String> {
    if text.trim().eq_ignore_ascii_case("g") {
        return Ok(u64::from(GATE));
    }
    match hex_or_decimal(text)? {
        mode @ 0..=3 => Ok(mode),
        _ => Err("-z must be 3 or less, or G".to_owned()),
    }
}

/// A size in bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

/// A factor between sizes.
pub(super) fn factor(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (0.0..=1e9).contains(&value) => Ok(value),
        Ok(_) | Err(_) => Err(format!("'{text}' is not a factor such as 2 or 1.5")),
    }
}

/// Completes `--warm` to `--warmup_iters` where only one of `names` begins so, as `getopt_long` does.
pub(super) fn expand_prefix(arg: OsString, names: &[String]) -> OsString {
    let Some(text) = arg.to_str().and_then(|text| text.strip_prefix("--")) else {
        return arg;
    };
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let mut candidates = names.iter().filter(|full| full.starts_with(name));
    match (candidates.next(), candidates.next()) {
        (Some(full), None) if !name.is_empty() && full != name => {
            value.map_or_else(|| format!("--{full}"), |value| format!("--{full}={value}")).into()
        }
        _ => arg,
    }
}
