//! How a watchdog finds rank 0's: the addresses that rank 0 offers, tried one after the other.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::failure::Who;
use super::wire::{Message, decode, encode};

/// The variable by which a user names the address of rank 0 (`ADDRESS` or `ADDRESS:PORT`).
pub const ADDRESS_VARIABLE: &str = "CRITRANK_WATCH_ADDRESS";
/// For one address; a thousand processes may come at once, and a full queue costs a second's retry.
const PATIENCE: Duration = Duration::from_secs(3);

/// What rank 0 tells all: where its watchdog listens, and the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Invitation {
    pub(super) who: Who,
    pub(super) port: u16,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) token: u64,
}

/// Rank 0's side: a listener and what to tell the others.
pub(super) fn invite(who: &Who, asked: Option<&str>) -> io::Result<(TcpListener, Invitation)> {
    let (addresses, port) = match asked {
        Some(text) => named(text)?,
        None => (own_addresses(), 0),
    };
    // IPv6's "any" takes IPv4 too, where the kernel has IPv6 at all.
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    // The standard hasher's keys come from the system's random numbers.
    let token = RandomState::new().build_hasher().finish();
    Ok((listener, Invitation { who: who.clone(), port, addresses, token }))
}

/// An address from the environment.
fn named(text: &str) -> io::Result<(Vec<IpAddr>, u16)> {
    let with_port = text.to_socket_addrs().or_else(|_| (text, 0).to_socket_addrs())?;
    let all: Vec<SocketAddr> = with_port.collect();
    let port = all.first().map_or(0, SocketAddr::port);
    Ok((all.iter().map(SocketAddr::ip).collect(), port))
}

/// This host's addresses that another host might reach: IPv4 first.
pub(in super::super) fn own_addresses() -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = if_addrs::get_if_addrs()
        .unwrap_or_default()
        .into_iter()
        .filter(|interface| !interface.is_loopback() && !interface.is_link_local())
        .map(|interface| interface.ip())
        .collect();
    all.sort_by_key(IpAddr::is_ipv6);
    all.dedup();
    all
}

/// The other side: every address of the invitation until one answers as rank 0 does.
pub(super) fn accept(invitation: &Invitation, who: &Who) -> io::Result<(TcpStream, u64)> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in nearest(&invitation.addresses, &invitation.who.host, &who.host) {
        match greet(SocketAddr::new(address, invitation.port), invitation.token, who) {
            Ok(found) => return Ok(found),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Addresses and prefix lengths of this host's interfaces.
fn own_networks() -> Vec<(IpAddr, u8)> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    all.into_iter().filter(|one| !one.is_loopback()).map(|one| (one.ip(), prefix(&one.addr))).collect()
}

fn prefix(address: &if_addrs::IfAddr) -> u8 {
    match address {
        if_addrs::IfAddr::V4(v4) => v4.prefixlen,
        if_addrs::IfAddr::V6(v6) => v6.prefixlen,
    }
}

/// Addresses of host `theirs` as `host` should try them.
pub(in super::super) fn nearest(addresses: &[IpAddr], theirs: &str, host: &str) -> Vec<IpAddr> {
    order(addresses, theirs == host, &own_networks())
}

/// The same host by its loopback address, then networks that both hosts are in, then the rest.
fn order(addresses: &[IpAddr], same_host: bool, networks: &[(IpAddr, u8)]) -> Vec<IpAddr> {
    let mut all = addresses.to_vec();
    all.sort_by_key(|address| !networks.iter().any(|(own, length)| same_network(*own, *address, *length)));
    if same_host {
        all.insert(0, IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    all
}

fn same_network(a: IpAddr, b: IpAddr, length: u8) -> bool {
    let different_bits = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
        (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
        _ => return false,
    };
    different_bits.leading_zeros() >= u32::from(length)
}

/// Connects, says hello, and waits for the welcome: the same port of another host may belong to anybody.
fn greet(address: SocketAddr, token: u64, who: &Who) -> io::Result<(TcpStream, u64)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&encode(&Message::Hello { token, who: who.clone() })?)?;
    let (mut input, mut messages, mut byte) = (Vec::new(), Vec::new(), [0]);
    let start = Instant::now();
    // Byte by byte: what follows the welcome belongs to the non-blocking reader.
    while messages.is_empty() {
        if start.elapsed() > PATIENCE {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.read_exact(&mut byte)?;
        input.push(byte[0]);
        decode(&mut input, &mut messages)?;
    }
    let Some(Message::Welcome { every_ms }) = messages.pop() else {
        return Err(ErrorKind::InvalidData.into());
    };
    stream.set_nonblocking(true)?;
    Ok((stream, every_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_address_comes_first() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let addresses = vec![ip("172.17.0.1"), ip("10.1.2.3"), ip("fd00::1")];
        let networks = [(ip("10.1.200.1"), 16)];
        assert_eq!(order(&addresses, false, &networks)[0], ip("10.1.2.3"));
        assert_eq!(order(&addresses, true, &networks)[0], ip("127.0.0.1"));
        assert_eq!(order(&addresses, false, &[]), addresses);
        assert!(
            same_network(ip("fd00::1"), ip("fd00::ffff"), 64) && !same_network(ip("::1"), ip("1.1.1.1"), 0)
        );
    }

    #[test]
    fn an_address_from_the_environment_may_have_a_port() {
        assert_eq!(named("127.0.0.1:7000").unwrap(), (vec!["127.0.0.1".parse().unwrap()], 7000));
        assert_eq!(named("127.0.0.1").unwrap().1, 0);
        assert!(named("no such host").is_err());
    }

    #[test]
    fn tokens_differ() {
        let token = || invite(&Who::default(), None).unwrap().1.token;
        assert_ne!(token(), token());
    }
}
