//! Which algorithm NCCL used, in words.

use super::Nccl;
use super::config::version_text;
use super::ffi::{self, Seen};

/// Offers this program's profiler to NCCL (`--explain`); a remark where it cannot. To be called before
/// [`super::Early::open`], and before any thread is started.
pub fn offer_profiler() -> Option<&'static str> {
    (!ffi::offer_profiler()).then_some("NCCL_PROFILER_PLUGIN is set and stays: --explain learns nothing")
}

/// The first version with `ncclGroupSimulateEnd`.
const PREDICTS: u32 = 22_200;

/// The first version whose profiler interface this program serves, and that can find it here.
const SERVED: u32 = 22_705;

impl Nccl {
    /// What the first local rank's calls since `ffi::watch` used.
    pub(super) fn seen(&self) -> String {
        let seen = ffi::seen_of(self.first_rank);
        let version = self.api.version();
        words(&seen, self.ranks, version, ffi::is_profiler_loaded())
    }

    /// Why NCCL can estimate nothing here. With one rank it would run the operation.
    pub(super) fn no_estimate(&self) -> Option<String> {
        let version = self.api.version();
        if self.ranks == 1 {
            Some("one rank".to_owned())
        } else if !self.api.has_estimate() {
            Some(format!("needs NCCL {}, this is {}", version_text(PREDICTS), version_text(version)))
        } else {
            None
        }
    }
}

fn words(seen: &[Seen], ranks: u32, version: u32, loaded: bool) -> String {
    let mut told: Vec<String> = Vec::new();
    for one in seen {
        if let Seen::Collective { algorithm, protocol, channels } = one {
            let plural = if *channels == 1 { "" } else { "s" };
            let text = format!("{algorithm} {protocol} {channels} channel{plural}");
            if !told.contains(&text) {
                told.push(text);
            }
        }
    }
    if !told.is_empty() {
        return told.join(", ");
    }
    let sends = seen.iter().filter(|one| matches!(one, Seen::PointToPoint)).count();
    let why = if ranks == 1 {
        "one rank".to_owned()
    } else if sends > 0 {
        format!("{sends} sends and receives, which have none")
    } else if version < SERVED {
        format!("needs NCCL {}, this is {}", version_text(SERVED), version_text(version))
    } else if !loaded {
        "NCCL did not take this program's profiler; NCCL_DEBUG=INFO says why".to_owned()
    } else {
        "NCCL told nothing, as with symmetric kernels and copy engines".to_owned()
    };
    format!("unknown ({why})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_is_named_or_the_reason_why_not() {
        let ring =
            |channels| Seen::Collective { algorithm: "RING".to_owned(), protocol: "LL".to_owned(), channels };
        assert_eq!(words(&[ring(2), ring(2)], 2, 22_803, true), "RING LL 2 channels");
        assert_eq!(words(&[ring(1), ring(2)], 2, 22_803, true), "RING LL 1 channel, RING LL 2 channels");
        for (seen, ranks, version, loaded, word) in [
            (&[][..], 1, 22_803, true, "one rank"),
            (&[Seen::PointToPoint], 2, 22_803, true, "1 sends"),
            (&[], 2, 21_806, false, "needs NCCL 2.27.5, this is 2.18.6"),
            (&[], 2, 22_803, false, "did not take"),
            (&[], 2, 22_803, true, "symmetric"),
        ] {
            let text = words(seen, ranks, version, loaded);
            assert!(text.starts_with("unknown (") && text.contains(word) && !text.contains(" on "), "{text}");
        }
    }
}
