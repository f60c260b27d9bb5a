//! Sockets of the other side: one UDP socket or one TCP connection on a loopback address of its own,
//! and a listener for what must (or must not) arrive.

use crate::{Credentials, Msg, PATIENCE, Req, Via, fresh_ip};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Tcp { stream: TcpStream, buffer: Vec<u8>, eof: bool },
}

/// A phone's or attacker's side of the wire.
#[derive(Debug)]
pub struct Link {
    server: SocketAddr,
    local: SocketAddr,
    socket: Socket,
}

/// Any error of a read that only means that nothing is there yet.
fn nothing_yet(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Link {
    /// UDP from port 5060 of a fresh address, or a TCP connection.
    pub fn open(via: Via, server: SocketAddr) -> Self {
        match via {
            Via::Udp => Self::udp_at((fresh_ip(), 5060).into(), server),
            Via::Tcp => Self::tcp(server),
        }
    }

    /// UDP from this very address.
    pub fn udp_at(local: SocketAddr, server: SocketAddr) -> Self {
        let socket = UdpSocket::bind(local).unwrap();
        let local = socket.local_addr().unwrap();
        Self { server, local, socket: Socket::Udp(socket) }
    }

    /// A new TCP connection.
    pub fn tcp(server: SocketAddr) -> Self {
        Self::try_tcp(server).unwrap()
    }

    /// A new TCP connection, or what became of it. A server that refuses by reset may do so before
    /// the connection is seen here as made.
    pub fn try_tcp(server: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        Ok(Self::from_stream(stream, server))
    }

    fn from_stream(stream: TcpStream, server: SocketAddr) -> Self {
        stream.set_nodelay(true).unwrap();
        let local = stream.local_addr().unwrap();
        Self { server, local, socket: Socket::Tcp { stream, buffer: Vec::new(), eof: false } }
    }

    /// Send to this server from now on.
    pub fn set_server(&mut self, server: SocketAddr) {
        self.server = server;
    }

    /// Its transport.
    pub fn via(&self) -> Via {
        match self.socket {
            Socket::Udp(_) => Via::Udp,
            Socket::Tcp { .. } => Via::Tcp,
        }
    }

    /// Its own address and port.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Send these bytes as they are. A connection that the server closed meanwhile is no error here:
    /// what the test expects shows in what it reads.
    pub fn send(&mut self, bytes: &[u8]) {
        match &mut self.socket {
            Socket::Udp(socket) => {
                socket.send_to(bytes, self.server).unwrap();
            }
            Socket::Tcp { stream, .. } => {
                stream.set_write_timeout(Some(PATIENCE)).unwrap();
                let _ = stream.write_all(bytes);
            }
        }
    }

    /// End this side's direction of a connection.
    pub fn end_sending(&mut self) {
        if let Socket::Tcp { stream, .. } = &mut self.socket {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
    }

    /// The bytes of the next message or datagram, if one comes in time.
    pub fn recv_raw(&mut self, within: Duration) -> Option<Vec<u8>> {
        let end = Instant::now() + within;
        loop {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            match &mut self.socket {
                Socket::Udp(socket) => {
                    let mut datagram = vec![0; 65_536];
                    socket.set_read_timeout(Some(left)).unwrap();
                    if let Ok(n) = socket.recv(&mut datagram) {
                        datagram.truncate(n);
                        return Some(datagram);
                    }
                }
                Socket::Tcp { stream, buffer, eof } => {
                    if let Some(message) = take_message(buffer) {
                        return Some(message);
                    }
                    if *eof {
                        return None;
                    }
                    read_some(stream, buffer, eof, left);
                    if let Some(message) = take_message(buffer) {
                        return Some(message);
                    }
                }
            }
            if Instant::now() >= end {
                return None;
            }
        }
    }

    /// The next SIP message, if one comes in time. One that cannot be parsed fails the test: the
    /// server must not write such.
    pub fn recv_within(&mut self, within: Duration) -> Option<Msg> {
        let raw = self.recv_raw(within)?;
        Some(Msg::parse(&raw).unwrap_or_else(|| panic!("malformed: {:?}", String::from_utf8_lossy(&raw))))
    }

    /// The first message for which `wanted` holds; others are passed over.
    pub fn find_within(&mut self, within: Duration, wanted: impl Fn(&Msg) -> bool) -> Option<Msg> {
        let end = Instant::now() + within;
        loop {
            let message = self.recv_within(end.saturating_duration_since(Instant::now()))?;
            if wanted(&message) {
                return Some(message);
            }
        }
    }

    /// The final response to `req`, if it comes in time.
    pub fn response_within(&mut self, req: &Req, within: Duration) -> Option<Msg> {
        self.find_within(within, |m| m.answers(req) && m.status().is_some_and(|s| s >= 200))
    }

    /// The final response to `req`. Its absence fails the test.
    pub fn response(&mut self, req: &Req) -> Msg {
        self.response_within(req, PATIENCE)
            .unwrap_or_else(|| panic!("no final response to {} {}", req.method, req.uri))
    }

    /// Send and wait for the final response; a non-2xx to INVITE is acknowledged.
    pub fn ask(&mut self, req: &Req) -> Msg {
        self.send(&req.bytes());
        let answer = self.response(req);
        if req.method == "INVITE" && answer.status().is_some_and(|s| s >= 300) {
            self.send(&req.ack(&answer).bytes());
        }
        answer
    }

    /// Status of the final response to `req`.
    pub fn status(&mut self, req: &Req) -> u16 {
        self.ask(req).status().unwrap()
    }

    /// As [`Link::ask`], and once more with credentials when challenged (MD5).
    pub fn ask_as(&mut self, req: &Req, who: &Credentials<'_>) -> Msg {
        let challenged = self.ask(req);
        if !matches!(challenged.status(), Some(401 | 407)) {
            return challenged;
        }
        let line = crate::answer(&challenged, who, &req.method, &req.uri);
        self.ask(&req.again(self, &line))
    }

    /// The next request of this method. Its absence fails the test.
    pub fn request(&mut self, method: &str) -> Msg {
        self.find_within(PATIENCE, |m| m.status().is_none() && m.method() == method)
            .unwrap_or_else(|| panic!("no {method} arrived"))
    }

    /// The provisional or final response with this status to `req`.
    pub fn expect(&mut self, req: &Req, status: u16) -> Msg {
        self.find_within(PATIENCE, |m| m.answers(req) && m.status() == Some(status))
            .unwrap_or_else(|| panic!("no {status} to {} {}", req.method, req.uri))
    }

    /// Register `user@example.com` here, without credentials.
    pub fn register(&mut self, user: &str) {
        let req = Req::register(user, self);
        let answer = self.ask(&req);
        assert_eq!(answer.status(), Some(200), "registration of {user}: {}", answer.start);
    }

    /// Whatever already lies in the socket; waits only as long as the wire of the loopback takes.
    pub fn drain(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.recv_raw(Duration::from_millis(100))).collect()
    }

    /// Wait until the server closes this connection; says whether it did. Bytes read are kept.
    pub fn closed_within(&mut self, within: Duration) -> bool {
        let end = Instant::now() + within;
        let Socket::Tcp { stream, buffer, eof } = &mut self.socket else { return false };
        while !*eof && Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            read_some(stream, buffer, eof, left);
        }
        *eof
    }

    /// Ends a connection by a reset, which is what a close is with something unread: waits for that.
    pub fn reset(self) {
        if let Socket::Tcp { stream, .. } = self.socket {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
        }
    }

    /// Bytes read but not taken as a message.
    pub fn rest(&self) -> &[u8] {
        match &self.socket {
            Socket::Udp(_) => b"",
            Socket::Tcp { buffer, .. } => buffer,
        }
    }

    /// Read until some bytes, messages or not, are there; the bytes are taken.
    pub fn bytes_within(&mut self, within: Duration) -> Vec<u8> {
        let end = Instant::now() + within;
        let Socket::Tcp { stream, buffer, eof } = &mut self.socket else { return Vec::new() };
        while buffer.is_empty() && !*eof && Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            read_some(stream, buffer, eof, left);
        }
        std::mem::take(buffer)
    }
}

fn read_some(stream: &mut TcpStream, buffer: &mut Vec<u8>, eof: &mut bool, within: Duration) {
    let mut chunk = [0; 65_536];
    stream.set_read_timeout(Some(within)).unwrap();
    match stream.read(&mut chunk) {
        Ok(0) => *eof = true,
        Ok(n) => buffer.extend_from_slice(&chunk[..n]),
        Err(error) if nothing_yet(error.kind()) => {}
        // A reset is the other way to close.
        Err(_) => *eof = true,
    }
}

/// Take one message off the front of a stream's bytes, after any keepalive CRLFs.
fn take_message(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    while buffer.starts_with(b"\r\n") {
        buffer.drain(..2);
    }
    let end = buffer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let length = Msg::parse(&buffer[..end])
        .and_then(|m| m.header("Content-Length").and_then(|v| v.parse::<usize>().ok()))
        .expect("the server wrote a message without Content-Length to a stream");
    if buffer.len() < end + length {
        return None;
    }
    Some(buffer.drain(..end + length).collect())
}

/// A callee that takes both UDP datagrams and TCP connections at one address, and remembers all.
#[derive(Debug)]
pub struct Listener {
    /// Its UDP side, with which it also registers.
    pub udp: Link,
    tcp: TcpListener,
    streams: Vec<Link>,
}

impl Listener {
    /// On port 5060 of a fresh address.
    pub fn open(server: SocketAddr) -> Self {
        Self::open_at((fresh_ip(), 5060).into(), server)
    }

    /// At this very address.
    pub fn open_at(local: SocketAddr, server: SocketAddr) -> Self {
        let tcp = TcpListener::bind(local).unwrap();
        tcp.set_nonblocking(true).unwrap();
        Self { udp: Link::udp_at(local, server), tcp, streams: Vec::new() }
    }

    /// The next request over either transport, and a link to answer it on.
    pub fn request_within(&mut self, within: Duration) -> Option<(Msg, &mut Link)> {
        let end = Instant::now() + within;
        loop {
            if let Ok((stream, peer)) = self.tcp.accept() {
                stream.set_nonblocking(false).unwrap();
                self.streams.push(Link::from_stream(stream, peer));
            }
            let tick = Duration::from_millis(10);
            if let Some(message) = self.udp.recv_within(tick) {
                return Some((message, &mut self.udp));
            }
            let found =
                self.streams.iter_mut().enumerate().find_map(|(i, s)| Some((i, s.recv_within(tick)?)));
            if let Some((i, message)) = found {
                return Some((message, self.streams.get_mut(i).unwrap()));
            }
            if Instant::now() >= end {
                return None;
            }
        }
    }
}
