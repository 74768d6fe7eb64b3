//! How much memory this host has for a rank: what is available, under a control group's limit.

use std::fs;

use crate::backend::Memory;
use crate::error::{Error, Result};

/// Free and total memory for one of `local_ranks` processes.
pub(super) fn share(local_ranks: u32) -> Result<Memory> {
    let path = "/proc/meminfo";
    let text = fs::read_to_string(path).map_err(|source| Error::File {
        action: "read",
        path: path.into(),
        source,
    })?;
    let field = |name| {
        field(&text, name)
            .ok_or_else(|| Error::Setup(format!("{path} has no line {name}; cannot size the buffers")))
    };
    let host = Memory { free_bytes: field("MemAvailable:")?, total_bytes: field("MemTotal:")? };
    let all = group_limit().map_or(host, |group| Memory {
        free_bytes: host.free_bytes.min(group.free_bytes),
        total_bytes: host.total_bytes.min(group.total_bytes),
    });
    let ranks = u64::from(local_ranks.max(1));
    Ok(Memory { free_bytes: all.free_bytes / ranks, total_bytes: all.total_bytes / ranks })
}

/// A line of /proc/meminfo, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The tightest limit of this process's control group and its parents, of either version.
fn group_limit() -> Option<Memory> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let found = groups.lines().filter_map(controller).flat_map(|(root, group, files)| {
        let mut at = group;
        let mut limits = Vec::new();
        loop {
            limits.extend(limit(&format!("{root}{at}"), files));
            match at.rsplit_once('/') {
                Some((parent, _)) => at = parent,
                None => break limits,
            }
        }
    });
    found.min_by_key(|memory| memory.free_bytes)
}

/// Where a line of /proc/self/cgroup says that memory is controlled, and the names of limit and usage there.
fn controller(line: &str) -> Option<(&'static str, &str, [&'static str; 2])> {
    let mut parts = line.splitn(3, ':');
    let (number, names, group) = (parts.next()?, parts.next()?, parts.next()?);
    let group = group.trim_end_matches('/');
    if number == "0" && names.is_empty() {
        Some(("/sys/fs/cgroup", group, ["memory.max", "memory.current"]))
    } else if names.split(',').any(|name| name == "memory") {
        Some(("/sys/fs/cgroup/memory", group, ["memory.limit_in_bytes", "memory.usage_in_bytes"]))
    } else {
        None
    }
}

/// The limit in one folder; "max", and version 1's word for no limit (nearly 2^63), are none.
fn limit(folder: &str, files: [&str; 2]) -> Option<Memory> {
    let number = |file: &str| fs::read_to_string(format!("{folder}/{file}")).ok()?.trim().parse::<u64>().ok();
    let total_bytes = number(files[0]).filter(|bytes| *bytes < 1 << 62)?;
    Some(Memory { free_bytes: total_bytes.saturating_sub(number(files[1]).unwrap_or(0)), total_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text = "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:    8192 kB\n";
        assert_eq!(field(text, "MemAvailable:"), Some(8 << 20));
        assert_eq!(field(text, "SwapTotal:"), None);
        let v2 = ["memory.max", "memory.current"];
        let v1 = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
        assert_eq!(controller("0::/user/job"), Some(("/sys/fs/cgroup", "/user/job", v2)));
        assert_eq!(controller("5:cpu,memory:/"), Some(("/sys/fs/cgroup/memory", "", v1)));
        assert_eq!(controller("3:cpuset:/x"), None);
    }

    #[test]
    fn ranks_share_the_host() {
        let (one, four) = (share(1).unwrap(), share(4).unwrap());
        assert!(one.free_bytes > 0 && one.free_bytes <= one.total_bytes);
        assert_eq!(one.total_bytes / 4, four.total_bytes);
    }
}
