//! Competing traffic on purpose (`--inject slow-link:…`, `slow-node:…`): plain TCP between hosts, beside what is measured.
//!
//! Each way is flooded once, before anything is measured, to learn what it carries; then threads send the asked share of
//! that, in chunks, for as long as the run measures. The share is a target: what arrived is counted where it arrives.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Control;
use super::watch::{nearest, own_addresses};
use crate::error::{Error, Result};

/// For one address, one answer, one chunk.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long receivers wait for all their senders.
const GATHERING: Duration = Duration::from_secs(30);
/// How long a way is flooded, to learn what it carries.
const FLOOD: Duration = Duration::from_millis(400);
/// Bytes that are written at once; the first one says whether an answer is wanted.
const CHUNK: usize = 32 << 10;
static DATA: [u8; CHUNK] = [0; CHUNK];
static QUESTION: [u8; CHUNK] = [1; CHUNK];
/// What could not be sent for so long is given up, or a stall would end in a flood.
const BEHIND_S: f64 = 0.05;

/// What went one way between two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The rank whose process sent.
    pub from: u32,
    /// The rank whose process received.
    pub to: u32,
    /// The receiver's address.
    pub address: IpAddr,
    /// Connections.
    pub streams: u32,
    /// What arrived while nothing but this traffic was sent, in 10^9 B/s.
    pub alone_gbps: f64,
    /// What was to be sent, in 10^9 B/s.
    pub target_gbps: f64,
    /// What arrived, in 10^9 B/s, the mean over the run.
    pub received_gbps: f64,
    /// How long it was sent, in s.
    pub seconds: f64,
}

/// Of each pair of hosts that `links` (by ranks) join, the first link, in order.
///
/// # Errors
/// A link within a host: TCP would load its processors and not the link.
pub fn ways(links: &[(u32, u32)], hosts: &[String]) -> std::result::Result<Vec<(u32, u32)>, String> {
    let ends = |(from, to): (u32, u32)| (&hosts[from as usize], &hosts[to as usize]);
    let mut ways: Vec<(u32, u32)> = Vec::new();
    for link in links {
        let (here, there) = ends(*link);
        if here == there {
            let (from, to) = link;
            return Err(format!(
                "ranks {from} and {to} are both at {here}: competing traffic is TCP between hosts, and slows no memory that \
                 is shared; start them at two hosts, or use --backend sim"
            ));
        }
        if !ways.iter().any(|way| ends(*way) == (here, there)) {
            ways.push(*link);
        }
    }
    Ok(ways)
}

/// Connections of a way: one gets half at most of what it shares with one other, so more are needed for more.
fn streams(lost_pct: u32) -> u32 {
    (2 * lost_pct).div_ceil(100 - lost_pct).max(1)
}

/// Where a receiver listens, and the secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Door {
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
    token: u64,
}

/// One connection that this process sends over.
struct Stream {
    from: u32,
    to: u32,
    socket: TcpStream,
    /// What arrived while it was flooded, in B/s.
    alone: f64,
}

/// What one connection did.
struct Done {
    from: u32,
    to: u32,
    address: IpAddr,
    alone: f64,
    bytes: u64,
    seconds: f64,
}

/// This process's part of the traffic.
pub struct Traffic {
    lost_pct: u32,
    idle: Vec<Stream>,
    running: Vec<JoinHandle<io::Result<Done>>>,
    stop: Arc<AtomicBool>,
}

impl Traffic {
    /// Connects all ways that begin here, each by as many streams as the share needs. Collective; the error is this
    /// process's own.
    pub fn open(control: &dyn Control, host: &str, ways: &[(u32, u32)], lost_pct: u32) -> Result<Self> {
        let (me, streams) = (control.rank(), streams(lost_pct));
        let expected = streams * ways.iter().filter(|(_, to)| *to == me).count() as u32;
        let opened = (expected > 0).then(|| listen(host, expected));
        // Whoever cannot listen tells so before it fails: the others would wait for it.
        let door = opened.as_ref().and_then(|door| door.as_ref().ok());
        let doors = control.all_gather(&serde_json::to_vec(&door).unwrap_or_default())?;
        opened
            .transpose()
            .map_err(|error| Error::Setup(format!("cannot listen for injected traffic: {error}")))?;
        let mut idle = Vec::new();
        for (from, to) in ways.iter().copied().filter(|(from, _)| *from == me) {
            let door =
                doors.get(to as usize).and_then(|text| serde_json::from_slice::<Option<Door>>(text).ok());
            let door =
                door.flatten().ok_or_else(|| Error::Setup(format!("rank {to} takes no injected traffic")))?;
            for _ in 0..streams {
                let socket = connect(&door, host).map_err(|error| {
                    Error::Setup(format!(
                        "cannot send injected traffic to rank {to} at {}: {error}",
                        door.host
                    ))
                })?;
                idle.push(Stream { from, to, socket, alone: 0.0 });
            }
        }
        Ok(Self { lost_pct, idle, running: Vec::new(), stop: Arc::default() })
    }

    /// Floods all ways of this process at once, to learn what each stream carries. All processes do it at the same time,
    /// while nothing else is sent.
    pub fn learn(&mut self) -> Result<()> {
        let flooded = thread::scope(|scope| {
            let all: Vec<_> = self.idle.iter_mut().map(|stream| scope.spawn(|| flood(stream))).collect();
            all.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(ErrorKind::Other.into()))).collect()
        });
        let flooded: io::Result<Vec<()>> = flooded;
        flooded.map(|_| ()).map_err(broken)
    }

    /// Sends from now on.
    pub fn begin(&mut self) -> Result<()> {
        for stream in std::mem::take(&mut self.idle) {
            let (stop, share) = (Arc::clone(&self.stop), f64::from(self.lost_pct) / 100.0);
            let sender = thread::Builder::new().name("traffic out".to_owned());
            self.running.push(sender.spawn(move || paced(stream, share, &stop)).map_err(broken)?);
        }
        Ok(())
    }

    /// Ends it; what went each way from here.
    pub fn end(self) -> Result<Vec<Flow>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut flows: Vec<Flow> = Vec::new();
        for one in self.running {
            let done = one.join().unwrap_or_else(|_| Err(ErrorKind::Other.into())).map_err(broken)?;
            let known = flows.iter_mut().find(|flow| (flow.from, flow.to) == (done.from, done.to));
            let share = f64::from(self.lost_pct) / 100.0;
            let (alone, received) = (done.alone / 1e9, done.bytes as f64 / done.seconds / 1e9);
            if let Some(flow) = known {
                flow.streams += 1;
                flow.alone_gbps += alone;
                flow.target_gbps += alone * share;
                flow.received_gbps += received;
            } else {
                flows.push(Flow {
                    from: done.from,
                    to: done.to,
                    address: done.address,
                    streams: 1,
                    alone_gbps: alone,
                    target_gbps: alone * share,
                    received_gbps: received,
                    seconds: done.seconds,
                });
            }
        }
        Ok(flows)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn broken(error: io::Error) -> Error {
    Error::Setup(format!("injected traffic broke off: {error}"))
}

/// A door with a thread behind it, which ends when everyone has come; so do those behind the connections, with their
/// senders.
fn listen(host: &str, expected: u32) -> io::Result<Door> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let token = RandomState::new().build_hasher().finish();
    thread::Builder::new().name("traffic door".to_owned()).spawn(move || {
        let (begin, mut come) = (Instant::now(), 0);
        while come < expected && begin.elapsed() < GATHERING {
            match listener.accept() {
                Ok((socket, _)) => come += u32::from(admit(socket, token).is_ok()),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    })?;
    Ok(Door { host: host.to_owned(), port, addresses: own_addresses(), token })
}

/// Who knows the secret is answered, and then heard by a thread.
fn admit(mut socket: TcpStream, token: u64) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut told = [0; 8];
    socket.read_exact(&mut told)?;
    if u64::from_le_bytes(told) != token {
        return Err(ErrorKind::PermissionDenied.into());
    }
    socket.set_read_timeout(None)?;
    socket.write_all(&told)?;
    thread::Builder::new().name("traffic in".to_owned()).spawn(move || hear(socket))?;
    Ok(())
}

/// Counts what comes, and tells it when asked.
fn hear(mut socket: TcpStream) -> io::Result<()> {
    let (mut chunk, mut bytes) = (vec![0; CHUNK], 0_u64);
    loop {
        socket.read_exact(&mut chunk)?;
        bytes += CHUNK as u64;
        if chunk[0] == QUESTION[0] {
            socket.write_all(&std::mem::take(&mut bytes).to_le_bytes())?;
        }
    }
}

fn connect(door: &Door, host: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in nearest(&door.addresses, &door.host, host) {
        match greet(SocketAddr::new(address, door.port), door.token) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The same port of another host may belong to anybody.
fn greet(address: SocketAddr, token: u64) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.write_all(&token.to_le_bytes())?;
    let mut answer = [0; 8];
    socket.read_exact(&mut answer)?;
    if u64::from_le_bytes(answer) == token { Ok(socket) } else { Err(ErrorKind::InvalidData.into()) }
}

/// Bytes that have arrived since the last question, this one's included.
fn arrived(socket: &mut TcpStream) -> io::Result<u64> {
    let mut answer = [0; 8];
    // Behind all that lies in buffers still, over a way that is loaded.
    socket.set_read_timeout(Some(GATHERING))?;
    socket.set_write_timeout(Some(GATHERING))?;
    socket.write_all(&QUESTION)?;
    socket.read_exact(&mut answer)?;
    Ok(u64::from_le_bytes(answer))
}

fn flood(stream: &mut Stream) -> io::Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < FLOOD {
        stream.socket.write_all(&DATA)?;
    }
    // Up to the answer, so that what lies in buffers does not count as sent.
    let bytes = arrived(&mut stream.socket)?;
    stream.alone = bytes as f64 / begin.elapsed().as_secs_f64();
    Ok(())
}

/// Sends `share` of what the stream carries alone until `stop`.
fn paced(mut stream: Stream, share: f64, stop: &AtomicBool) -> io::Result<Done> {
    let rate = share * stream.alone;
    let begin = Instant::now();
    let (mut last, mut owed) = (begin, 0.0_f64);
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        owed = (owed + rate * (now - last).as_secs_f64()).min((rate * BEHIND_S).max(CHUNK as f64));
        last = now;
        if owed >= CHUNK as f64 {
            stream.socket.write_all(&DATA)?;
            owed -= CHUNK as f64;
        } else {
            let wait_s = (CHUNK as f64 - owed) / rate.max(1.0);
            thread::sleep(Duration::from_secs_f64(wait_s.clamp(1e-4, 1e-2)));
        }
    }
    let bytes = arrived(&mut stream.socket)?;
    let (address, seconds) = (stream.socket.peer_addr()?.ip().to_canonical(), begin.elapsed().as_secs_f64());
    Ok(Done { from: stream.from, to: stream.to, address, alone: stream.alone, bytes, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_pair_of_hosts_is_loaded_once_and_shared_memory_never() {
        let hosts = hosts(&["a", "a", "b", "b", "c"]);
        let links = [(0, 2), (0, 3), (1, 2), (2, 0), (4, 0)];
        assert_eq!(ways(&links, &hosts), Ok(vec![(0, 2), (2, 0), (4, 0)]));
        assert!(
            ways(&[(0, 2), (2, 3)], &hosts).is_err_and(|text| text.contains("ranks 2 and 3 are both at b"))
        );
    }

    #[test]
    fn so_many_streams_hold_their_share_against_one_other() {
        for lost_pct in 1..=90 {
            let fair = f64::from(streams(lost_pct)) / f64::from(streams(lost_pct) + 1);
            assert!(fair >= f64::from(lost_pct) / 100.0, "{lost_pct}");
        }
        assert_eq!((streams(10), streams(50), streams(90)), (1, 2, 18));
    }

    #[test]
    fn a_paced_stream_sends_its_share_and_counts_what_arrives() {
        let door = listen("here", 1).unwrap();
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, door.port));
        assert!(greet(at, door.token.wrapping_add(1)).is_err(), "a stranger");
        let socket = greet(at, door.token).unwrap();
        let mut stream = Stream { from: 0, to: 1, socket, alone: 0.0 };
        flood(&mut stream).unwrap();
        assert!(stream.alone > 1e6, "{}", stream.alone);
        // A rate that any machine holds.
        stream.alone = 4e7;
        let (stop, share) = (AtomicBool::new(false), 0.5);
        let done = thread::scope(|scope| {
            let running = scope.spawn(|| paced(stream, share, &stop));
            thread::sleep(Duration::from_millis(500));
            stop.store(true, Ordering::Relaxed);
            running.join().unwrap().unwrap()
        });
        let rate = done.bytes as f64 / done.seconds;
        assert!((0.7..1.1).contains(&(rate / 2e7)), "{rate} of 2e7 B/s");
    }
}
