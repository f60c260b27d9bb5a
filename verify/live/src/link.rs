//! Sockets of the other side: one UDP socket or one connection on a loopback address of its own, and a
//! listener for what must (or must not) arrive.

use crate::stream::{Stream, UPGRADE};
use crate::{Credentials, Msg, PATIENCE, Req, Via, fresh_ip, unique};
use rustls::pki_types::CertificateDer;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Stream(Stream),
}

/// A phone's or attacker's side of the wire.
#[derive(Debug)]
pub struct Link {
    via: Via,
    server: SocketAddr,
    local: SocketAddr,
    /// As it calls itself in Via and Contact.
    name: String,
    socket: Socket,
}

impl Link {
    /// UDP from port 5060 of a fresh address, or a TCP connection.
    pub fn open(via: Via, server: SocketAddr) -> Self {
        match via {
            Via::Udp => Self::udp_at((fresh_ip(), 5060).into(), server),
            Via::Tcp => Self::tcp(server),
            _ => panic!("`Server::link` knows the certificate that {via:?} needs"),
        }
    }

    /// UDP from this very address.
    pub fn udp_at(local: SocketAddr, server: SocketAddr) -> Self {
        let socket = UdpSocket::bind(local).unwrap();
        let local = socket.local_addr().unwrap();
        Self { via: Via::Udp, server, local, name: local.to_string(), socket: Socket::Udp(socket) }
    }

    /// A connection over TLS, WebSocket or both, to a server that shows this certificate.
    pub fn secure(via: Via, server: SocketAddr, certificate: &CertificateDer<'static>) -> Self {
        let mut link = Self::bare(via, server, certificate);
        if matches!(via, Via::Ws | Via::Wss) {
            let head = link.ask_upgrade(UPGRADE);
            assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        }
        link
    }

    /// The same before it asks for WebSocket.
    pub fn bare(via: Via, server: SocketAddr, certificate: &CertificateDer<'static>) -> Self {
        let socket = TcpStream::connect_timeout(&server, PATIENCE).unwrap();
        let local = socket.local_addr().unwrap();
        let stream = match via {
            Via::Tls | Via::Wss => Stream::tls(socket, certificate),
            _ => Stream::plain(socket),
        };
        // RFC 7118 section 5: a browser knows no address of its own.
        let name = match via {
            Via::Ws | Via::Wss => format!("{}.invalid", unique("web")),
            _ => local.to_string(),
        };
        Self { via, server, local, name, socket: Socket::Stream(stream) }
    }

    /// Asks for WebSocket by this request; the head of the answer.
    pub fn ask_upgrade(&mut self, request: &str) -> String {
        self.stream().ask_upgrade(request)
    }

    /// Its stream. Of UDP there is none.
    pub fn stream(&mut self) -> &mut Stream {
        match &mut self.socket {
            Socket::Stream(stream) => stream,
            Socket::Udp(_) => panic!("no stream"),
        }
    }

    /// Its own name, as it stands in Via and Contact.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls itself by the name of another one, as a phone does that connects anew.
    pub fn named_as(mut self, other: &str) -> Self {
        other.clone_into(&mut self.name);
        self
    }

    /// The URI of a phone here.
    pub fn contact(&self, user: &str) -> String {
        let transport = match self.via {
            Via::Udp => "",
            Via::Tcp => ";transport=tcp",
            Via::Tls => ";transport=tls",
            Via::Ws | Via::Wss => ";transport=ws",
        };
        format!("sip:{user}@{}{transport}", self.name)
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
        let local = stream.local_addr().unwrap();
        let socket = Socket::Stream(Stream::plain(stream));
        Self { via: Via::Tcp, server, local, name: local.to_string(), socket }
    }

    /// Send to this server from now on.
    pub fn set_server(&mut self, server: SocketAddr) {
        self.server = server;
    }

    /// Its transport.
    pub fn via(&self) -> Via {
        self.via
    }

    /// Its own address and port.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Send these bytes as they are, over WebSocket as one message. A connection that the server closed
    /// meanwhile is no error here: what the test expects shows in what it reads.
    pub fn send(&mut self, bytes: &[u8]) {
        match &mut self.socket {
            Socket::Udp(socket) => {
                socket.send_to(bytes, self.server).unwrap();
            }
            Socket::Stream(stream) => stream.send(bytes),
        }
    }

    /// End this side's direction of a connection.
    pub fn end_sending(&mut self) {
        if let Socket::Stream(stream) = &mut self.socket {
            stream.end_sending();
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
                Socket::Stream(stream) => {
                    if let Some(message) = stream.take_message() {
                        return Some(message);
                    }
                    if stream.has_ended() {
                        return None;
                    }
                    stream.read_some(left);
                    if let Some(message) = stream.take_message() {
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
        let Socket::Stream(stream) = &mut self.socket else { return false };
        while !stream.has_ended() && Instant::now() < end {
            stream.read_some(end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        }
        stream.has_ended()
    }

    /// Ends a connection by a reset, which is what a close is with something unread: waits for that.
    pub fn reset(self) {
        if let Socket::Stream(stream) = self.socket {
            stream.socket().set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(stream.socket().peek(&mut [0]).unwrap(), 1);
        }
    }

    /// Bytes read but not taken as a message.
    pub fn rest(&self) -> &[u8] {
        match &self.socket {
            Socket::Udp(_) => b"",
            Socket::Stream(stream) => stream.rest(),
        }
    }

    /// Read until some bytes, messages or not, are there; the bytes are taken.
    pub fn bytes_within(&mut self, within: Duration) -> Vec<u8> {
        let end = Instant::now() + within;
        let Socket::Stream(stream) = &mut self.socket else { return Vec::new() };
        while stream.rest().is_empty() && !stream.has_ended() && Instant::now() < end {
            stream.read_some(end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        }
        stream.take_rest()
    }

    /// The next control frame of WebSocket, if one comes in time: opcode and payload.
    pub fn control_within(&mut self, within: Duration) -> Option<(u8, Vec<u8>)> {
        let end = Instant::now() + within;
        let stream = self.stream();
        loop {
            if let Some(control) = stream.take_control() {
                return Some(control);
            }
            if stream.has_ended() || Instant::now() >= end {
                return None;
            }
            stream.read_some(end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        }
    }
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
