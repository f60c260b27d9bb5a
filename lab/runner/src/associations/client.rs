//! Opens associations one after the other, with one request on each, and says how long it took.

use std::io;
use std::iter;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use lab::experiment::Sockets;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, connect, ipproto, recv, send, sendto, socket_with};

/// Associations from one address: each has a port of its own.
pub const OF_AN_ADDRESS: u64 = 50_000;
/// The first of these ports.
const FIRST_PORT: u64 = 10_000;
/// A set-up or an answer that takes longer is a failure.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer.
const ANSWER: usize = 64 << 10;

/// Opens associations to one server.
#[derive(Debug)]
pub struct Client {
    server: SocketAddr,
    sockets: Sockets,
    piggyback: bool,
    /// Whether the server sends back what it gets.
    echo: bool,
    /// Octets of a request.
    length: usize,
    sources: Vec<IpAddr>,
    buffer: Vec<u8>,
}

/// How long one association took.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Its set-up; nothing where it has none, or where it carries the request.
    pub connect: Option<Duration>,
    /// From the request to its answer; nothing where the set-up carries the request.
    pub exchange: Option<Duration>,
    /// From the beginning to the answer.
    pub first_answer: Duration,
}

impl Client {
    /// A client that calls from these addresses.
    pub fn new(
        server: SocketAddr,
        sockets: Sockets,
        (piggyback, echo): (bool, bool),
        length: usize,
        sources: Vec<IpAddr>,
    ) -> Client {
        Client { server, sockets, piggyback, echo, length, sources, buffer: vec![0; ANSWER] }
    }

    /// Opens association `nth`, and has one request answered on it. Dropping the socket resets it.
    ///
    /// # Errors
    /// If it is refused, or the answer is not the expected one or does not come.
    pub fn open(&mut self, nth: u64) -> io::Result<(OwnedFd, Times)> {
        let (socket, source) = self.socket(self.source(nth)?)?;
        let request = request(source, self.server, self.sockets, nth, self.length);
        let begun = Instant::now();
        let connected = if self.piggyback {
            sendto(&socket, &request, SendFlags::NOSIGNAL, &self.server)?;
            begun
        } else {
            connect(&socket, &self.server)?;
            let connected = Instant::now();
            send_all(&socket, &request)?;
            connected
        };
        self.answer(&socket, &request)?;
        let answered = Instant::now();
        let has_setup = !self.piggyback && self.sockets != Sockets::Udp;
        let times = Times {
            connect: has_setup.then(|| connected - begun),
            exchange: (!self.piggyback).then(|| answered - connected),
            first_answer: answered - begun,
        };
        Ok((socket, times))
    }

    fn source(&self, nth: u64) -> io::Result<SocketAddr> {
        let ip = usize::try_from(nth / OF_AN_ADDRESS).ok().and_then(|at| self.sources.get(at));
        let port = u16::try_from(FIRST_PORT + nth % OF_AN_ADDRESS).ok();
        let place = ip.zip(port).map(|(ip, port)| SocketAddr::new(*ip, port));
        place.ok_or_else(|| io::Error::other(format!("there is no address for association {nth}")))
    }

    /// A socket at this place; where another program has the port on all addresses, at a spare one.
    fn socket(&self, source: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
        let (kind, protocol) = match (self.sockets, self.piggyback) {
            (Sockets::Udp, _) => (SocketType::DGRAM, None),
            (Sockets::Tcp, _) => (SocketType::STREAM, None),
            // One-to-many at the client: only so a message may begin an association (RFC 6458 section 3.1.3).
            (Sockets::OneToOne | Sockets::OneToMany, true) => (SocketType::SEQPACKET, Some(ipproto::SCTP)),
            (Sockets::OneToOne | Sockets::OneToMany, false) => (SocketType::STREAM, Some(ipproto::SCTP)),
        };
        let socket = socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, protocol)?;
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        if self.sockets != Sockets::Udp {
            // It ends with a reset, and leaves nothing behind.
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        }
        if self.sockets == Sockets::Tcp {
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        let spare = (FIRST_PORT + OF_AN_ADDRESS..).map_while(|port| u16::try_from(port).ok());
        let places = iter::once(source).chain(spare.map(|port| SocketAddr::new(source.ip(), port)));
        for place in places {
            match bind(&socket, &place) {
                Ok(()) => return Ok((socket, place)),
                Err(Errno::ADDRINUSE) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::ADDRINUSE.into())
    }

    /// Waits for the whole answer.
    fn answer(&mut self, socket: &OwnedFd, request: &[u8]) -> io::Result<()> {
        let mut filled = 0;
        loop {
            let room = self.buffer.get_mut(filled..).unwrap_or_default();
            let (received, _) = recv(socket, room, RecvFlags::empty())?;
            if received == 0 {
                return Err(io::Error::other("the server closed it before its answer"));
            }
            filled += received;
            let answer = self.buffer.get(..filled).unwrap_or_default();
            let is_whole = if self.echo { filled >= request.len() } else { answer.ends_with(b"\r\n\r\n") };
            if !is_whole && filled < self.buffer.len() {
                continue;
            }
            let is_right = if self.echo { answer == request } else { answer.starts_with(b"SIP/2.0 200 ") };
            return if is_right { Ok(()) } else { Err(io::Error::other("another answer than expected")) };
        }
    }
}

/// Whether the kernel makes sockets of SCTP.
pub fn kernel_has_sctp() -> bool {
    let made =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::SCTP));
    made.is_ok()
}

fn send_all(socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = send(socket, bytes, SendFlags::NOSIGNAL)?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// An INVITE of `length` octets, if that is room enough for its head.
fn request(from: SocketAddr, to: SocketAddr, sockets: Sockets, nth: u64, length: usize) -> Vec<u8> {
    let transport = match sockets {
        Sockets::Udp => "UDP",
        Sockets::Tcp => "TCP",
        Sockets::OneToOne | Sockets::OneToMany => "SCTP",
    };
    let head = |body: usize| {
        format!(
            "INVITE sip:callee@{to} SIP/2.0\r\nVia: SIP/2.0/{transport} {from};branch=z9hG4bK{nth:08};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:caller@{from}>;tag={nth:08}\r\nTo: <sip:callee@{to}>\r\n\
             Call-ID: {nth:08}@{from}\r\nCSeq: 1 INVITE\r\nContact: <sip:caller@{from}>\r\n\
             Content-Type: text/plain\r\nContent-Length: {body:05}\r\n\r\n"
        )
    };
    let body = length.saturating_sub(head(0).len());
    let mut request = head(body).into_bytes();
    request.resize(request.len() + body, b'x');
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_wanted_length() {
        let place = |port| SocketAddr::from(([127, 255, 255, 255], port));
        for length in [400, 1_550, 60_000] {
            let request = request(place(59_999), place(5060), Sockets::OneToMany, 1_999_999, length);
            assert_eq!(request.len(), length);
            let text = String::from_utf8(request).expect("text");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            assert!(head.contains(&format!("Content-Length: {:05}", body.len())), "{head}");
        }
    }
}
