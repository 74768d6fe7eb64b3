//! What watchdogs say to each other: JSON behind a length, on non-blocking sockets.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;
use serde::{Deserialize, Serialize};

use super::failure::Who;
use super::progress::Stand;

/// No message is longer; whoever sends more is not one of us.
const LONGEST: usize = 64 << 10;
/// A peer that takes nothing for so many bytes is given up.
const BACKLOG: usize = 1 << 20;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message {
    /// The first of a connection: the job's secret and who it is.
    Hello { token: u64, who: Who },
    /// Rank 0 takes the connection, and expects a state every so often.
    Welcome { every_ms: u64 },
    /// The device became known.
    Device(String),
    /// Where the sender stands.
    State(Stand),
    /// Its deadline passed.
    Alarm(Stand),
    /// Rank 0 asks for a state.
    Query,
    /// The sender's main thread has an error of its own.
    Fail { code: u8, text: String },
    /// A signal came.
    Signal(String),
    /// The sender ends in good order.
    Bye,
    /// The job ends with this code, and it has been reported.
    End { code: u8 },
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        // Without it a state would wait for the previous one's acknowledgement; a failure to set it costs 40 ms.
        let _ = stream.set_nodelay(true);
        Self { stream, input: Vec::new(), output: Vec::new() }
    }

    /// Queues a message and sends what the socket takes.
    pub(super) fn send(&mut self, message: &Message) -> io::Result<()> {
        self.output.extend(encode(message)?);
        if self.output.len() > BACKLOG {
            return Err(ErrorKind::OutOfMemory.into());
        }
        self.flush()
    }

    /// Sends what is queued, as far as the socket takes it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Everything that has arrived, and whether the connection still stands.
    pub(super) fn receive(&mut self) -> (Vec<Message>, bool) {
        let mut chunk = [0; 4096];
        let mut messages = Vec::new();
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return (messages, false),
                Ok(got) => {
                    self.input.extend_from_slice(&chunk[..got]);
                    // Before the next read, so that a flood never piles up more than one message.
                    if decode(&mut self.input, &mut messages).is_err() {
                        return (messages, false);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return (messages, true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return (messages, false),
            }
        }
    }
}

/// A message as bytes.
pub(super) fn encode(message: &Message) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length as usize <= LONGEST);
    let length = length.ok_or(ErrorKind::InvalidData)?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// Takes whole messages from the front of `input`.
pub(super) fn decode(input: &mut Vec<u8>, messages: &mut Vec<Message>) -> io::Result<()> {
    while let Some((length, rest)) = input.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        if length > LONGEST {
            return Err(ErrorKind::InvalidData.into());
        }
        let Some(body) = rest.get(..length) else { break };
        messages.push(serde_json::from_slice(body)?);
        input.drain(..4 + length);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_cut() {
        let sent = vec![
            Message::Hello { token: u64::MAX, who: Who { rank: 3, ..Who::default() } },
            Message::State(Stand { thread: 'R', step: 7, ..Stand::default() }),
            Message::Fail { code: 3, text: "naïve\n".to_owned() },
            Message::Bye,
        ];
        let bytes: Vec<u8> = sent.iter().flat_map(|message| encode(message).unwrap()).collect();
        let (mut input, mut got) = (Vec::new(), Vec::new());
        for byte in bytes {
            input.push(byte);
            decode(&mut input, &mut got).unwrap();
        }
        assert_eq!(got, sent);
    }

    #[test]
    fn strangers_are_refused() {
        let mut got = Vec::new();
        assert!(decode(&mut b"GET / HTTP/1.1\r\n".to_vec(), &mut got).is_err());
        assert!(decode(&mut b"\x02\0\0\0{}".to_vec(), &mut got).is_err());
        assert!(encode(&Message::Signal("x".repeat(LONGEST))).is_err());
    }
}
