//! Command lines and what they print, one file each in `tests/cmd/`.
#![allow(missing_docs)]

#[test]
fn command_lines() {
    trycmd::TestCases::new().case("tests/cmd/*.toml");
}
