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
use crate::vocab::Inject;

/// Directed links by ranks, and a share in %.
type Slow = (Vec<(u32, u32)>, u32);

/// The fault that slows links, if there is one, and what they lose, in %.
fn fault(cli: &Cli) -> Option<(&Inject, u32)> {
    cli.inject.iter().find_map(|fault| Some((fault, fault.lost_pct()?)))
}

/// Directed links that are slow, by ranks, and what they lose, in %; `hosts` are the ranks'.
pub(super) fn slow_links(cli: &Cli, hosts: &[String]) -> Result<Option<Slow>> {
    let Some((fault, lost_pct)) = fault(cli) else { return Ok(None) };
    Ok(Some((fault.slow_links(hosts).map_err(Error::Usage)?, lost_pct)))
}

/// The ways that are loaded, and the share; refused where that cannot be done here, alike on every rank. With `--backend
/// mpi` a process is a rank. Collective.
pub(super) fn plan(cli: &Cli, control: &dyn Control, host: &str) -> Result<Option<Slow>> {
    let Some((fault, _)) = fault(cli).filter(|_| cli.backend == Kind::Mpi) else { return Ok(None) };
    let hosts = control.all_gather(host.as_bytes())?;
    let hosts: Vec<String> = hosts.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    let over = |(links, lost_pct): Slow| {
        let named = |text: String| Error::Unsupported(format!("--inject {fault}: {text}"));
        Ok((ways(&links, &hosts).map_err(named)?, lost_pct))
    };
    let planned = slow_links(cli, &hosts).and_then(|slow| slow.map(over).transpose());
    together(control, host, planned)
}

/// Starts the traffic that the command line asks for. Collective.
pub(super) fn begin(cli: &Cli, control: &dyn Control, host: &str) -> Result<Option<Traffic>> {
    let Some((ways, lost_pct)) = plan(cli, control, host)? else { return Ok(None) };
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
