//! `NCCL_TESTS_SPLIT` and `NCCL_TESTS_SPLIT_MASK`: which group a process belongs to.

use crate::error::Error;

/// How processes are split into groups that measure side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// `AND n`, `&n`, or the mask: the group is the process's number with only these bits.
    And(u32),
    /// `OR n`, `|n`.
    Or(u32),
    /// `MOD n`, `%n`.
    Mod(u32),
    /// `DIV n`, `/n`.
    Div(u32),
}

impl Split {
    /// Reads `NCCL_TESTS_SPLIT_MASK` (hexadecimal), which wins, or `NCCL_TESTS_SPLIT`: an operator in any case and a
    /// number in base 2 (`0b`), 8 (`0`), 10 or 16 (`0x`); what follows the number is ignored, as in nccl-tests.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Error> {
        if let Some(mask) = get("NCCL_TESTS_SPLIT_MASK") {
            let digits = mask.trim().trim_start_matches("0x").trim_start_matches("0X");
            let bits = u32::from_str_radix(digits, 16);
            let bits = bits.map_err(|_| {
                Error::Usage(format!("NCCL_TESTS_SPLIT_MASK='{mask}' is no hexadecimal mask"))
            })?;
            return Ok(Some(Self::And(bits)));
        }
        let Some(text) = get("NCCL_TESTS_SPLIT") else { return Ok(None) };
        let wrong = || {
            Error::Usage(format!(
                "NCCL_TESTS_SPLIT='{text}' is no split; write AND, OR, MOD or DIV (or &, |, %, /) and a number"
            ))
        };
        let upper = text.trim().to_ascii_uppercase();
        let operators: [(&str, Operator); 8] = [
            ("AND", Self::And),
            ("&", Self::And),
            ("OR", Self::Or),
            ("|", Self::Or),
            ("MOD", Self::Mod),
            ("%", Self::Mod),
            ("DIV", Self::Div),
            ("/", Self::Div),
        ];
        let found = operators.into_iter().find_map(|(name, make)| Some((upper.strip_prefix(name)?, make)));
        let (number, make) = found.ok_or_else(wrong)?;
        let value = c_number(number.trim_start()).ok_or_else(wrong)?;
        match make(value) {
            Self::Mod(0) | Self::Div(0) => {
                Err(Error::Usage(format!("NCCL_TESTS_SPLIT='{text}' divides by 0")))
            }
            split => Ok(Some(split)),
        }
    }

    /// The group of process `process`.
    pub const fn group(self, process: u32) -> u32 {
        match self {
            Self::And(n) => process & n,
            Self::Or(n) => process | n,
            Self::Mod(n) => process % n,
            Self::Div(n) => process / n,
        }
    }
}

/// Makes a split of its number.
type Operator = fn(u32) -> Split;

/// The number that `text` (upper case) begins with, in the bases of C and `0B`.
fn c_number(text: &str) -> Option<u32> {
    let (radix, digits) = match text.as_bytes() {
        [b'0', b'B', ..] => (2, &text[2..]),
        [b'0', b'X', ..] => (16, &text[2..]),
        [b'0', next, ..] if next.is_ascii_digit() => (8, &text[1..]),
        _ => (10, text),
    };
    let end = digits.find(|digit: char| !digit.is_digit(radix)).unwrap_or(digits.len());
    u32::from_str_radix(&digits[..end], radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Option<Split>, Error> {
        Split::read(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn splits_read_as_nccl_tests_reads_them() {
        let cases = [
            ("AND 0x7", Split::And(7)),
            ("and7", Split::And(7)),
            ("& 0b11", Split::And(3)),
            ("OR 1", Split::Or(1)),
            ("|010", Split::Or(8)),
            ("MOD 2 ranks", Split::Mod(2)),
            ("%4", Split::Mod(4)),
            ("div 8", Split::Div(8)),
            ("/8", Split::Div(8)),
        ];
        for (text, split) in cases {
            assert_eq!(read("NCCL_TESTS_SPLIT", text).unwrap(), Some(split), "{text}");
        }
        assert_eq!(read("NCCL_TESTS_SPLIT_MASK", "10").unwrap(), Some(Split::And(16)));
        assert_eq!(read("OTHER", "x").unwrap(), None);
        for text in ["", "XOR 1", "MOD", "MOD 0", "DIV 0", "AND x"] {
            assert!(read("NCCL_TESTS_SPLIT", text).is_err(), "{text}");
        }
    }

    #[test]
    fn groups_are_those_of_nccl_tests() {
        let groups = |split: Split| (0..4).map(|process| split.group(process)).collect::<Vec<_>>();
        assert_eq!(groups(Split::Mod(2)), [0, 1, 0, 1]);
        assert_eq!(groups(Split::Div(2)), [0, 0, 1, 1]);
        assert_eq!(groups(Split::And(2)), [0, 0, 2, 2]);
        assert_eq!(groups(Split::Or(1)), [1, 1, 3, 3]);
    }
}
