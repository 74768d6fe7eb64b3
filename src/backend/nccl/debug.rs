//! Where NCCL's own log goes. By default it is stdout, where it would tear the table that other tools parse.

use std::path::{Path, PathBuf};

/// The value for `NCCL_DEBUG_FILE`, where the user wants a log and has not said where to: a file per process in
/// `folder`. NCCL puts the host for `%h` and the process id for `%p`. `VERSION` and `NONE` print at most a line.
pub fn debug_file(env: impl Fn(&str) -> Option<String>, folder: &Path) -> Option<PathBuf> {
    let level = env("NCCL_DEBUG")?.trim().to_ascii_uppercase();
    let quiet = matches!(level.as_str(), "" | "NONE" | "VERSION");
    let chosen = env("NCCL_DEBUG_FILE").is_some_and(|file| !file.is_empty());
    (!quiet && !chosen).then(|| folder.join("critrank-nccl.%h.%p.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_goes_to_a_file_unless_the_user_chose_one() {
        let file = |level: Option<&str>, chosen: Option<&str>| {
            let env = |name: &str| match name {
                "NCCL_DEBUG" => level.map(str::to_owned),
                "NCCL_DEBUG_FILE" => chosen.map(str::to_owned),
                _ => None,
            };
            debug_file(env, Path::new("/logs"))
        };
        let expected = Some(PathBuf::from("/logs/critrank-nccl.%h.%p.log"));
        assert_eq!(file(Some("INFO"), None), expected);
        assert_eq!(file(Some("warn"), Some("")), expected);
        assert_eq!(file(Some("TRACE"), Some("mine.log")), None);
        assert_eq!(file(Some("VERSION"), None), None);
        assert_eq!(file(Some("none"), None), None);
        assert_eq!(file(None, None), None);
    }
}
