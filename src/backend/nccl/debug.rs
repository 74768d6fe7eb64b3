//! Where NCCL's own log goes, and where it is read. By default it is stdout, where it would tear the table that other
//! tools parse.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::ffi;

/// NCCL's log of this process, for what `--explain` reads in it.
#[derive(Debug)]
pub enum Log {
    /// A file without a name, which nothing has to remove.
    Own(File),
    /// The file of a log that the user wanted.
    Named(PathBuf),
    /// Why there is none.
    Absent(String),
}

/// The lines that name transports are NCCL's INIT lines: a few dozen per connection, none per call.
const SUBSYSTEM: &str = "INIT";

impl Log {
    /// The log that the environment leaves, and the variables that have NCCL write it.
    pub(super) fn choose(env: impl Fn(&str) -> Option<String>) -> (Self, Vec<(&'static str, String)>) {
        let level = env("NCCL_DEBUG").unwrap_or_default().trim().to_ascii_uppercase();
        match level.as_str() {
            "" => match tempfile::tempfile() {
                Ok(file) => {
                    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                    let variables = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", SUBSYSTEM)];
                    let mut variables = variables.map(|(name, value)| (name, value.to_owned())).to_vec();
                    variables.push(("NCCL_DEBUG_FILE", path));
                    (Self::Own(file), variables)
                }
                Err(error) => {
                    (Self::Absent(format!("no temporary file for NCCL's log: {error}")), Vec::new())
                }
            },
            "INFO" | "TRACE" => {
                let file = env("NCCL_DEBUG_FILE").filter(|file| !file.is_empty());
                let stdout = || Self::Absent("NCCL's log is not in a file".to_owned());
                (file.map_or_else(stdout, |file| Self::Named(PathBuf::from(expanded(&file)))), Vec::new())
            }
            _ => (Self::Absent(format!("NCCL_DEBUG={level} is set, which logs none")), Vec::new()),
        }
    }

    /// All that NCCL has written so far, or why that cannot be told.
    pub fn read(&self) -> Result<String, String> {
        let mut bytes = Vec::new();
        let (done, name) = match self {
            Self::Own(file) => {
                let mut file: &File = file;
                (file.rewind().and_then(|()| file.read_to_end(&mut bytes)), String::new())
            }
            // A terminal or a pipe would never end.
            Self::Named(path) if path.is_file() => {
                let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
                (read, format!(" {}", path.display()))
            }
            Self::Named(path) => return Err(format!("NCCL's log {} is no file", path.display())),
            Self::Absent(reason) => return Err(reason.clone()),
        };
        done.map_err(|error| format!("NCCL's log{name} cannot be read: {error}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A value of `NCCL_DEBUG_FILE` as NCCL makes a name of it.
fn expanded(pattern: &str) -> String {
    let host = hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut name = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match (letter, if letter == '%' { letters.next() } else { None }) {
            ('%', Some('%')) => name.push('%'),
            ('%', Some('h')) => name.push_str(host.split('.').next().unwrap_or_default()),
            ('%', Some('p')) => name.push_str(&std::process::id().to_string()),
            (other, next) => name.extend([other].into_iter().chain(next)),
        }
    }
    name
}

/// Sets `NCCL_DEBUG_FILE` where NCCL's log would otherwise tear the table, and says to which file name. To be called
/// before [`super::Early::open`], and before any thread is started.
pub fn redirect_debug(folder: &Path) -> Option<PathBuf> {
    let file = debug_file(|name| std::env::var(name).ok(), folder)?;
    ffi::set("NCCL_DEBUG_FILE", file.as_os_str());
    Some(file)
}

/// Finds NCCL's log for what `--explain` reads in it; where the user wants none, NCCL writes one that only this program
/// sees. To be called after [`redirect_debug`], before [`super::Early::open`], and before any thread is started.
pub fn listen() -> Log {
    let (log, variables) = Log::choose(|name| std::env::var(name).ok());
    for (name, value) in variables {
        ffi::set(name, OsStr::new(&value));
    }
    log
}

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

    fn chosen(variables: &[(&str, &str)]) -> (Log, Vec<(&'static str, String)>) {
        Log::choose(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_log_of_its_own_is_what_nccl_writes_to_the_name() {
        let (log, variables) = chosen(&[("NCCL_DEBUG_FILE", "old.log")]);
        assert_eq!(variables.len(), 3);
        assert_eq!(
            variables[..2],
            [("NCCL_DEBUG", "INFO".to_owned()), ("NCCL_DEBUG_SUBSYS", "INIT".to_owned())]
        );
        assert_eq!(log.read(), Ok(String::new()));
        // As NCCL: opened for writing once, line by line.
        let mut nccl = File::create(&variables[2].1).unwrap();
        for text in ["one\n", "two\n"] {
            std::io::Write::write_all(&mut nccl, text.as_bytes()).unwrap();
        }
        assert_eq!(log.read(), Ok("one\ntwo\n".to_owned()));
        assert_eq!(log.read(), Ok("one\ntwo\n".to_owned()), "a second look sees the same");
    }

    #[test]
    fn the_users_log_is_read_and_never_turned_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(format!("50%.{}.log", std::process::id()));
        let pattern = folder.path().join("50%%.%p.log").display().to_string();
        std::fs::write(&file, "line\n").unwrap();
        let (log, variables) = chosen(&[("NCCL_DEBUG", "info"), ("NCCL_DEBUG_FILE", &pattern)]);
        assert_eq!((log.read(), variables.len()), (Ok("line\n".to_owned()), 0));
        std::fs::remove_file(&file).unwrap();
        assert!(log.read().is_err_and(|why| why.contains("is no file")));
        for (level, file, why) in [
            ("WARN", "x", "NCCL_DEBUG=WARN"),
            ("INFO", "", "not in a file"),
            ("INFO", "/dev/null", "no file"),
        ] {
            let (log, variables) = chosen(&[("NCCL_DEBUG", level), ("NCCL_DEBUG_FILE", file)]);
            assert!(
                variables.is_empty() && log.read().is_err_and(|text| text.contains(why)),
                "{level} {file}"
            );
        }
        assert_eq!(expanded("a%xb%"), "a%xb%");
        assert!(!expanded("%h").is_empty() && !expanded("%h").contains(['%', '.']));
    }
}
