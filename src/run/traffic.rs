//! Injected slow links and nodes: which they are here, and the traffic that makes them slow.

use super::agreement::together;
use super::reporter::Reporter;
use crate::backend::Kind;
use crate::cli::Cli;
use crate::error::{Error, Result};
use crate::report::record::Event;
use crate::report::sink::Level;
use crate::session::Control;
use crate::session::traffic::{Flow, Traffic, ways};

/// Directed links by ranks, and a share in %.
type Slow = (Vec<(u32, u32)>, u32);

/// Directed links that are slow, by ranks, and what they lose, in %; `hosts` are the ranks'.
pub(super) fn slow_links(cli: &Cli, hosts: &[String]) -> Result<Option<Slow>> {
    let slow = cli.inject.iter().find_map(|fault| Some((fault, fault.lost_pct()?)));
    let Some((fault, lost_pct)) = slow else { return Ok(None) };
    Ok(Some((fault.slow_links(hosts).map_err(Error::Usage)?, lost_pct)))
}

/// Refuses a slow link or node that cannot be made here. Collective, and alike on every rank.
pub(super) fn refuse(cli: &Cli, control: &dyn Control, host: &str) -> Result<()> {
    if cli.backend == Kind::Mpi && cli.inject.iter().any(|fault| fault.lost_pct().is_some()) {
        let refused = plan(cli, &hosts(control, host)?).map(drop);
        together(control, host, refused)?;
    }
    Ok(())
}

/// Every process's host.
fn hosts(control: &dyn Control, host: &str) -> Result<Vec<String>> {
    let all = control.all_gather(host.as_bytes())?;
    Ok(all.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// The ways that are loaded, and the share.
fn plan(cli: &Cli, hosts: &[String]) -> Result<Option<Slow>> {
    let Some((links, lost_pct)) = slow_links(cli, hosts)? else { return Ok(None) };
    let fault = cli.inject.iter().find(|fault| fault.lost_pct().is_some());
    let named = |text: String| {
        Error::Unsupported(format!(
            "--inject {}: {text}",
            fault.map_or_else(String::new, ToString::to_string)
        ))
    };
    Ok(Some((ways(&links, hosts).map_err(named)?, lost_pct)))
}

/// Starts the traffic that the command line asks for; with `--backend mpi` a process is a rank. Collective.
pub(super) fn begin(cli: &Cli, control: &dyn Control, host: &str) -> Result<Option<Traffic>> {
    if cli.backend != Kind::Mpi || !cli.inject.iter().any(|fault| fault.lost_pct().is_some()) {
        return Ok(None);
    }
    let Some((ways, lost_pct)) = plan(cli, &hosts(control, host)?)? else { return Ok(None) };
    let mut traffic = together(control, host, Traffic::open(control, host, &ways, lost_pct))?;
    control.barrier()?;
    together(control, host, traffic.learn())?;
    together(control, host, traffic.begin())?;
    Ok(Some(traffic))
}

/// Ends it, and says what it came to; traffic that broke off is said, and loses nothing that was measured. Collective.
pub(super) fn end(
    traffic: Option<Traffic>,
    control: &dyn Control,
    host: &str,
    reporter: Option<&Reporter>,
) -> Result<()> {
    let Some(traffic) = traffic else { return Ok(()) };
    let mine: std::result::Result<Vec<Flow>, String> =
        traffic.end().map_err(|error| format!("{error} (rank {}, host {host})", control.rank()));
    let all = control.gather(&serde_json::to_vec(&mine).unwrap_or_default())?;
    if let (Some(all), Some(reporter)) = (all, reporter) {
        let mut flows: Vec<Flow> = Vec::new();
        for bytes in &all {
            match serde_json::from_slice(bytes).unwrap_or_else(|error| Err(error.to_string())) {
                Ok(theirs) => flows.extend::<Vec<Flow>>(theirs),
                Err(broken) => reporter.sink.note(Level::Warning, &broken),
            }
        }
        for flow in &flows {
            reporter.sink.say(Level::Info, &words(flow));
        }
        reporter.sink.event(&Event::Traffic { flows });
    }
    Ok(())
}

fn words(flow: &Flow) -> String {
    let Flow { from, to, address, alone_gbps, target_gbps, received_gbps, seconds, .. } = flow;
    format!(
        "injected traffic, rank {from} to rank {to} ({address}): {received_gbps:.4} GB/s arrived over {seconds:.1} s; \
         {target_gbps:.4} was meant, of {alone_gbps:.4} that it carries alone"
    )
}
