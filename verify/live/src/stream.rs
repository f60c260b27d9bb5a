//! One stream to the server under test: plain, over TLS, and with or without frames of WebSocket. Written
//! apart from the code under test, so that a test can also send what no honest client would.

use crate::PATIENCE;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::collections::VecDeque;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The handshake of a browser that speaks SIP, for `/`.
pub const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: sip\r\n\r\n";

/// Opcodes of frames.
pub mod opcode {
    /// Goes on with a message.
    pub const CONTINUATION: u8 = 0;
    /// Begins a message of text.
    pub const TEXT: u8 = 1;
    /// Ends the connection.
    pub const CLOSE: u8 = 8;
    /// Asks for a Pong.
    pub const PING: u8 = 9;
    /// Answers a Ping.
    pub const PONG: u8 = 10;
}

enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(session) => &session.sock,
        }
    }

    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(session) => session.read(into),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(session) => session.write_all(bytes).and_then(|()| session.flush()),
        }
    }
}

/// What came in frames and is no message of SIP: opcode and payload.
type Control = (u8, Vec<u8>);

/// A stream and what was read from it.
pub struct Stream {
    wire: Wire,
    buffer: Vec<u8>,
    eof: bool,
    /// Messages and control frames, where there are frames.
    frames: Option<(VecDeque<Vec<u8>>, VecDeque<Control>)>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.wire.socket())
    }
}

/// Any error of a read that only means that nothing is there yet.
fn nothing_yet(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// A frame as a client sends it: with the bits before the opcode (8: the last of its message) and a mask.
pub fn frame(bits: u8, opcode: u8, payload: &[u8]) -> Vec<u8> {
    const KEY: [u8; 4] = [0x5a, 0x01, 0xc3, 0x77];
    let mut bytes = vec![bits << 4 | opcode];
    match payload.len() {
        len @ 0..126 => bytes.push(0x80 | len as u8),
        len @ 126..0x1_0000 => {
            bytes.push(0x80 | 126);
            bytes.extend((len as u16).to_be_bytes());
        }
        len => {
            bytes.push(0x80 | 127);
            bytes.extend((len as u64).to_be_bytes());
        }
    }
    bytes.extend(KEY);
    bytes.extend(payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

impl Stream {
    /// Over this socket.
    pub fn plain(socket: TcpStream) -> Self {
        socket.set_nodelay(true).unwrap();
        Self { wire: Wire::Plain(socket), buffer: Vec::new(), eof: false, frames: None }
    }

    /// TLS over this socket, to a server that shows this certificate for `example.com`.
    pub fn tls(socket: TcpStream, certificate: &CertificateDer<'static>) -> Self {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("example.com").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut session = StreamOwned::new(session, socket);
        while session.conn.is_handshaking() {
            session.conn.complete_io(&mut session.sock).unwrap();
        }
        Self { wire: Wire::Tls(Box::new(session)), buffer: Vec::new(), eof: false, frames: None }
    }

    /// Asks for WebSocket by this request; the head of the answer.
    pub fn ask_upgrade(&mut self, request: &str) -> String {
        let _ = self.wire.write(request.as_bytes());
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..at + 4).collect();
                let head = String::from_utf8(head).unwrap();
                if head.starts_with("HTTP/1.1 101 ") {
                    self.frames = Some(Default::default());
                }
                return head;
            }
            assert!(!self.eof && Instant::now() < end, "no answer to {request:?}");
            self.read_some(Duration::from_secs(1));
        }
    }

    /// Whether messages are in frames.
    pub const fn is_web(&self) -> bool {
        self.frames.is_some()
    }

    /// Sends a message, in a frame if there are frames. A connection that the server closed meanwhile is no
    /// error here.
    pub fn send(&mut self, bytes: &[u8]) {
        match self.is_web() {
            true => self.send_raw(&frame(8, opcode::TEXT, bytes)),
            false => self.send_raw(bytes),
        }
    }

    /// Sends these bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.wire.socket().set_write_timeout(Some(PATIENCE)).unwrap();
        let _ = self.wire.write(bytes);
    }

    /// Ends this side's direction.
    pub fn end_sending(&mut self) {
        self.wire.socket().shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Its socket.
    pub fn socket(&self) -> &TcpStream {
        self.wire.socket()
    }

    /// Whether the server has closed it.
    pub const fn has_ended(&self) -> bool {
        self.eof
    }

    /// Bytes read but not taken as a message.
    pub fn rest(&self) -> &[u8] {
        &self.buffer
    }

    /// Takes them.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Takes one message off the front, after any keepalives.
    pub fn take_message(&mut self) -> Option<Vec<u8>> {
        match &mut self.frames {
            Some((messages, _)) => messages.pop_front(),
            None => take_message(&mut self.buffer),
        }
    }

    /// Takes the first control frame.
    pub fn take_control(&mut self) -> Option<(u8, Vec<u8>)> {
        self.frames.as_mut()?.1.pop_front()
    }

    /// Waits for bytes once.
    pub fn read_some(&mut self, within: Duration) {
        let mut chunk = [0; 65_536];
        self.wire.socket().set_read_timeout(Some(within)).unwrap();
        match self.wire.read(&mut chunk) {
            Ok(0) => self.eof = true,
            Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
            Err(error) if nothing_yet(error.kind()) => {}
            // A reset is the other way to close.
            Err(_) => self.eof = true,
        }
        if let Some((messages, controls)) = &mut self.frames {
            while let Some((first, payload)) = take_frame(&mut self.buffer) {
                assert_eq!(first & 0xf0, 0x80, "the server sends whole messages, without extensions");
                match first & 0x0f {
                    1 | 2 if payload.iter().all(|byte| b"\r\n".contains(byte)) => {}
                    1 | 2 => messages.push_back(payload),
                    opcode => controls.push_back((opcode, payload)),
                }
            }
        }
    }
}

/// Takes a frame of the server off the front: its first byte and its payload.
fn take_frame(buffer: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let (&first, &second) = (buffer.first()?, buffer.get(1)?);
    assert_eq!(second & 0x80, 0, "a server masks nothing (RFC 6455 section 5.1)");
    let (start, len) = match second {
        126 => (4, usize::from(u16::from_be_bytes(buffer.get(2..4)?.try_into().unwrap()))),
        127 => (10, u64::from_be_bytes(buffer.get(2..10)?.try_into().unwrap()) as usize),
        len => (2, usize::from(len)),
    };
    let payload = buffer.get(start..start + len)?.to_vec();
    buffer.drain(..start + len);
    Some((first, payload))
}

/// Takes one message off the front of a stream's bytes, after any keepalives.
fn take_message(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    while buffer.starts_with(b"\r\n") {
        buffer.drain(..2);
    }
    let end = buffer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let length = crate::Msg::parse(&buffer[..end])
        .and_then(|m| m.header("Content-Length").and_then(|v| v.parse::<usize>().ok()))
        .expect("the server wrote a message without Content-Length to a stream");
    if buffer.len() < end + length {
        return None;
    }
    Some(buffer.drain(..end + length).collect())
}
