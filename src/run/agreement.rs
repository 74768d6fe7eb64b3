//! What all processes must have in common before anything is measured, and how they leave together when not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cli::env::is_a_ranks_own;
use crate::error::{Error, Exit, Result};
use crate::report::say;
use crate::report::table::listed;
use crate::session::Control;

/// What one process brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Card {
    /// Its host.
    pub(super) host: String,
    /// Arguments, without the program's path.
    pub(super) args: Vec<String>,
    /// Version and build of this program.
    pub(super) build: String,
    /// The measured library and its version.
    pub(super) library: String,
    /// Contents of files and variables that shape the plan.
    pub(super) inputs: String,
    /// Variables that shape a measurement and should be alike.
    pub(super) env: Vec<(String, String)>,
}

/// Values of one kind, with the ranks that have each.
type Groups<'a> = BTreeMap<&'a str, Vec<u32>>;

fn group<'a>(cards: &'a [Card], value: impl Fn(&'a Card) -> &'a str) -> Groups<'a> {
    let mut groups = Groups::new();
    for (rank, card) in (0..).zip(cards) {
        groups.entry(value(card)).or_default().push(rank);
    }
    groups
}

/// Ranks as a short list with their hosts.
fn named(ranks: &[u32], cards: &[Card]) -> String {
    let name = |rank: &u32| format!("{rank} (host {})", cards[*rank as usize].host);
    format!("rank {}", listed(&ranks.iter().map(name).collect::<Vec<_>>(), 8))
}

/// The odd ranks: everyone but the largest group (of equals, the one with the lowest rank).
fn odd<'a>(groups: &'a Groups<'a>) -> (&'a str, Vec<(&'a str, &'a [u32])>) {
    let most = groups.iter().max_by_key(|(_, ranks)| (ranks.len(), std::cmp::Reverse(ranks[0])));
    let common = most.map_or("", |(value, _)| *value);
    let others = groups.iter().filter(|(value, _)| **value != common);
    (common, others.map(|(value, ranks)| (*value, ranks.as_slice())).collect())
}

/// What the ranks must have in common and do not, in words that name the odd ones.
pub(super) fn disagreements(cards: &[Card]) -> Vec<String> {
    let joined: Vec<String> = cards.iter().map(|card| card.args.join(" ")).collect();
    let mut args = Groups::new();
    for (rank, text) in (0..).zip(&joined) {
        args.entry(text.as_str()).or_default().push(rank);
    }
    let kinds = [
        ("arguments", args),
        ("build of critrank", group(cards, |card| &card.build)),
        ("library", group(cards, |card| &card.library)),
        ("files or NCCL_TESTS variables", group(cards, |card| &card.inputs)),
    ];
    let mut all = Vec::new();
    for (kind, groups) in &kinds {
        let (common, others) = odd(groups);
        for (value, ranks) in others {
            all.push(format!("{kind} differ: {} has '{value}', the others '{common}'", named(ranks, cards)));
        }
    }
    all
}

/// Variables that some ranks have and others do not, or otherwise: worth a warning, since a launcher that forwards
/// the environment to the first node only is a common cause of slow runs.
pub(super) fn uneven_environment(cards: &[Card]) -> Vec<String> {
    let mut names: Vec<&str> =
        cards.iter().flat_map(|card| card.env.iter().map(|(name, _)| name.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| !is_a_ranks_own(name));
    let mut all = Vec::new();
    for name in names {
        let value = |card: &Card| {
            let found = card.env.iter().find(|(key, _)| key == name);
            found.map_or("unset".to_owned(), |(_, value)| format!("'{value}'"))
        };
        let values: Vec<String> = cards.iter().map(value).collect();
        let mut groups = Groups::new();
        for (rank, value) in (0..).zip(&values) {
            groups.entry(value.as_str()).or_default().push(rank);
        }
        let (common, others) = odd(&groups);
        for (value, ranks) in others {
            all.push(format!("{name} differs: {} has it {value}, the others {common}", named(ranks, cards)));
        }
    }
    all
}

/// All processes show their cards; they go on together, or leave together with the odd ranks named.
pub(super) fn agree(control: &dyn Control, card: &Card) -> Result<()> {
    let mine = serde_json::to_vec(card).unwrap_or_default();
    let mut failed = 0;
    if let Some(all) = control.gather(&mine)? {
        let cards: Vec<Card> = all.iter().filter_map(|bytes| serde_json::from_slice(bytes).ok()).collect();
        let mut troubles = if cards.len() == all.len() { disagreements(&cards) } else { Vec::new() };
        if cards.len() < all.len() {
            troubles.push(
                "some ranks run another version of critrank; install one version everywhere".to_owned(),
            );
        }
        for trouble in &troubles {
            say::error(trouble);
        }
        if troubles.is_empty() {
            for remark in uneven_environment(&cards) {
                say::warning(&remark);
            }
        }
        failed = u64::from(!troubles.is_empty());
    }
    if control.vote(failed)? > 0 { Err(Error::Agreed(Exit::Setup)) } else { Ok(()) }
}

/// Shows which hosts have too few GPUs for their ranks, if any has, with what to change; ends nothing.
#[cfg(feature = "nccl")]
pub(super) fn fits<T>(control: &dyn Control, host: &str, opened: &Result<T>) -> Result<()> {
    let missing = match opened {
        Err(Error::TooFewGpus { requested, found }) => Some((*requested, *found)),
        Ok(_) | Err(_) => None,
    };
    if control.vote(u64::from(missing.is_some()))? == 0 {
        return Ok(());
    }
    if let Some(all) = control.gather(&serde_json::to_vec(&(host, missing)).unwrap_or_default())? {
        let all: Vec<_> = all.iter().filter_map(|bytes| serde_json::from_slice(bytes).ok()).collect();
        say::error(&gpu_table(&all));
    }
    Ok(())
}

/// GPUs that a process needs to be there and GPUs that it finds, where these are too few.
#[cfg(any(feature = "nccl", test))]
type Missing = Option<(u32, u32)>;

/// A line per host: its ranks, the GPUs that they need, the GPUs that it shows.
#[cfg(any(feature = "nccl", test))]
fn gpu_table(all: &[(String, Missing)]) -> String {
    let mut hosts: BTreeMap<&str, (Vec<u32>, Missing)> = BTreeMap::new();
    for (rank, (host, missing)) in (0..).zip(all) {
        let entry = hosts.entry(host).or_default();
        entry.0.push(rank);
        entry.1 = entry.1.max(*missing);
    }
    let mut text = format!("{:<20} {:>6} {:>12} {:>11}  ranks", "host", "ranks", "GPUs needed", "GPUs found");
    for (host, (ranks, missing)) in &hosts {
        let (needed, found) = missing.map_or_else(
            || (ranks.len().to_string(), "enough".to_owned()),
            |(needed, found)| (needed.to_string(), found.to_string()),
        );
        let shown: Vec<String> = ranks.iter().take(16).map(u32::to_string).collect();
        let more = if ranks.len() > 16 { ", …" } else { "" };
        let line =
            format!("\n{host:<20} {:>6} {needed:>12} {found:>11}  {}{more}", ranks.len(), shown.join(", "));
        text.push_str(&line);
    }
    text.push_str(
        "\nstart as many ranks per host as it has GPUs (mpirun: -N or slots=; srun: --ntasks-per-node), or let ranks \
         share one with NCCL_TESTS_DEVICE=0 and an NCCL_HOSTID of its own for each rank",
    );
    text
}

/// A step that each process does alone: all succeed, or all leave with the worst code, every failure named once.
pub(super) fn together<T>(control: &dyn Control, host: &str, step: Result<T>) -> Result<T> {
    let (code, text) = match &step {
        Ok(_) => (0, String::new()),
        Err(error) => (error.exit().code(), error.to_string()),
    };
    let worst = control.vote(u64::from(code))?;
    if worst == 0 {
        return step;
    }
    let mine = serde_json::to_vec(&(code, host, &text)).unwrap_or_default();
    if let Some(all) = control.gather(&mine)? {
        report_failures(&all);
    }
    Err(Error::Agreed(Exit::from_code(worst as u8)))
}

/// A reason that a process may have against something, told by all together: what one cannot do, none does. Rank 0 gets the
/// reason of the first that has one, and with it the rank where it is not rank 0 itself.
pub(super) fn objection(control: &dyn Control, mine: Option<String>) -> Result<Option<String>> {
    if control.vote(u64::from(mine.is_some()))? == 0 {
        return Ok(None);
    }
    let all = control.gather(&serde_json::to_vec(&mine).unwrap_or_default())?.unwrap_or_default();
    let first = all.iter().enumerate().find_map(|(rank, bytes)| {
        let reason = serde_json::from_slice::<Option<String>>(bytes).ok().flatten()?;
        Some(if rank == 0 { reason } else { format!("{reason} (rank {rank})") })
    });
    Ok(first.or(mine).or_else(|| Some(String::new())))
}

/// Each distinct text once, with the ranks that it happened to.
fn report_failures(all: &[Vec<u8>]) {
    let mut texts: Vec<(String, Vec<String>)> = Vec::new();
    for (rank, bytes) in all.iter().enumerate() {
        let Ok((code, host, text)) = serde_json::from_slice::<(u8, String, String)>(bytes) else { continue };
        if code == 0 {
            continue;
        }
        let place = format!("{rank} (host {host})");
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, places)) => places.push(place),
            None => texts.push((text, vec![place])),
        }
    }
    for (text, places) in texts {
        say::error(&text);
        // What all ranks alike have met is nobody's in particular.
        if places.len() < all.len() {
            say::error(&format!("at rank {}", listed(&places, 16)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::solo::Solo;
    use crate::session::team::Team;

    fn card(host: &str, args: &str) -> Card {
        Card {
            host: host.to_owned(),
            args: args.split(' ').map(str::to_owned).collect(),
            build: "0.1".to_owned(),
            library: "NCCL 2.28.3".to_owned(),
            inputs: String::new(),
            env: vec![("NCCL_IB_HCA".to_owned(), "mlx5".to_owned())],
        }
    }

    #[test]
    fn too_few_gpus_are_shown_by_host() {
        let all = [("a", None), ("a", None), ("b", Some((1, 0))), ("b", Some((2, 0)))];
        let all = all.map(|(host, missing)| (host.to_owned(), missing));
        let text = gpu_table(&all);
        assert!(text.contains("\na                         2            2      enough  0, 1\n"), "{text}");
        assert!(text.contains("\nb                         2            2           0  2, 3\n"), "{text}");
    }

    #[test]
    fn what_one_rank_cannot_do_is_done_by_none() {
        // Two threads of a process stand for two ranks.
        let told = |theirs: Option<&str>, mine: Option<&str>| {
            let team = Team::new(&Solo, 2);
            let say = |thread, reason: Option<&str>| {
                objection(&team.member(thread), reason.map(str::to_owned)).unwrap()
            };
            std::thread::scope(|scope| {
                let other = scope.spawn(|| say(1, theirs));
                let first = say(0, mine);
                assert_eq!(other.join().unwrap().is_some(), first.is_some(), "both do the same");
                first
            })
        };
        assert_eq!(told(None, None), None);
        assert_eq!(told(None, Some("too old")).as_deref(), Some("too old"));
        assert_eq!(told(Some("no"), Some("too old")).as_deref(), Some("too old"));
        assert_eq!(told(Some("one rank"), None).as_deref(), Some("one rank (rank 1)"));
    }

    #[test]
    fn equal_cards_agree() {
        let cards = [card("a", "-b 8"), card("b", "-b 8")];
        assert!(disagreements(&cards).is_empty() && uneven_environment(&cards).is_empty());
    }

    #[test]
    fn the_odd_rank_is_named() {
        let cards = [card("a", "-b 8"), card("b", "-b 8"), card("c", "-b 4")];
        let words = disagreements(&cards).join("\n");
        assert_eq!(words, "arguments differ: rank 2 (host c) has '-b 4', the others '-b 8'");
    }

    #[test]
    fn a_variable_that_reached_the_first_node_only_is_told() {
        let mut cards = [card("a", ""), card("b", ""), card("c", "")];
        cards[1].env.clear();
        cards[2].env.clear();
        let words = uneven_environment(&cards).join("\n");
        assert_eq!(words, "NCCL_IB_HCA differs: rank 0 (host a) has it 'mlx5', the others unset");
    }
}
