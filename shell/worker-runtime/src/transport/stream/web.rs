//! The layer of WebSocket (RFC 6455, RFC 7118): how far its handshake is, and the frames of its messages.

use std::time::Duration;
use websocket::{CloseCode, Connection, ControlFrame, Fault, Key, Kind, MessageHeader, Role};
use wire::Time;

/// The span in which Pings are counted.
const PING_SPAN: Duration = Duration::from_secs(1);
/// Pings that a peer may send in it. Browsers send none, other clients one in some seconds.
const MOST_PINGS: u32 = 50;

/// How far it is.
enum Stage {
    /// The first bytes of the stream say whether it is WebSocket.
    Undecided,
    /// The client's request is not there as a whole.
    Request,
    /// The request was refused, or asked for something else. Its answer is the last thing that is sent.
    Answered,
    /// We are the client, and the request is not sent yet. Its key is made from these bytes.
    Due([u8; 16]),
    /// We are the client, and the response of the server is not complete.
    Asked([u8; 16]),
    /// Messages flow, in frames.
    Frames(Connection),
}

/// Why the closing handshake begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The peer began it, with this code.
    Asked(Option<CloseCode>),
    /// The peer broke a rule of WebSocket.
    Broken(Fault),
    /// The peer sends too many Pings.
    Pings,
}

/// The WebSocket of a connection. It holds no bytes of the stream.
pub struct Web {
    stage: Stage,
    /// Why it ends, if the frames said so.
    end: Option<End>,
    /// Whether the Close frame of this side was sent.
    closed: bool,
    /// When the present span began.
    span: Time,
    /// Pings that had come before it.
    before: u32,
}

impl Web {
    fn at(stage: Stage) -> Web {
        Web { stage, end: None, closed: false, span: Time::ZERO, before: 0 }
    }

    /// Of a connection on which a client sends its request.
    pub fn expected() -> Web {
        Web::at(Stage::Request)
    }

    /// Of a connection on which a client may send such a request.
    pub fn possible() -> Web {
        Web::at(Stage::Undecided)
    }

    /// Of a connection on which we are the client; `nonce` is random for each.
    pub fn due(nonce: [u8; 16]) -> Web {
        Web::at(Stage::Due(nonce))
    }

    /// Whether we are the client. A client masks what it sends.
    pub fn is_client(&self) -> bool {
        match &self.stage {
            Stage::Due(_) | Stage::Asked(_) => true,
            Stage::Frames(frames) => frames.role() == Role::Client,
            _ => false,
        }
    }

    /// The key of the request to be sent now. It counts as sent then.
    pub fn asks(&mut self) -> Option<Key> {
        let Stage::Due(nonce) = self.stage else { return None };
        self.stage = Stage::Asked(nonce);
        Some(Key::new(nonce))
    }

    /// The key of the request whose response is awaited.
    pub fn asked(&self) -> Option<Key> {
        match self.stage {
            Stage::Asked(nonce) => Some(Key::new(nonce)),
            _ => None,
        }
    }

    /// Whether nobody knows yet whether it is WebSocket.
    pub fn is_undecided(&self) -> bool {
        matches!(self.stage, Stage::Undecided)
    }

    /// Whether bytes may be written.
    pub fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Answered | Stage::Frames(_))
    }

    /// The request was not accepted.
    pub fn is_answered(&mut self) {
        self.stage = Stage::Answered;
    }

    /// The request was accepted.
    pub fn opens(&mut self) {
        let role = if self.is_client() { Role::Client } else { Role::Server };
        self.stage = Stage::Frames(Connection::new(role));
    }

    /// Whether messages may be sent: until our Close frame, which also answers that of the peer.
    pub fn may_send(&self) -> bool {
        matches!(self.stage, Stage::Frames(_)) && !self.closed
    }

    /// The frame header before a message. A client masks the message with this key.
    pub fn header(&self, message: &[u8], key: Option<[u8; 4]>) -> MessageHeader {
        MessageHeader::new(Kind::of(message), message.len(), key)
    }

    /// Takes the state of the frames for one pass over bytes, to be given [back](Web::give_back).
    pub fn take(&mut self) -> Option<Connection> {
        match std::mem::replace(&mut self.stage, Stage::Answered) {
            Stage::Frames(frames) => Some(frames),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Takes the state of the frames back.
    pub fn give_back(&mut self, frames: Connection) {
        self.stage = Stage::Frames(frames);
    }

    /// Whether more Pings have come than a peer may send.
    pub fn has_many_pings(&mut self, now: Time) -> bool {
        let Stage::Frames(frames) = &self.stage else { return false };
        if now >= self.span + PING_SPAN {
            (self.span, self.before) = (now, frames.pings());
        }
        frames.pings().wrapping_sub(self.before) > MOST_PINGS
    }

    /// The frames say that the connection ends.
    pub fn ends(&mut self, end: End) {
        self.end = Some(end);
    }

    /// The Close frame of this side, with `code` if nothing else was the reason. `None` if it was sent. A
    /// client masks it with this key.
    pub fn close(&mut self, code: CloseCode, key: Option<[u8; 4]>) -> Option<ControlFrame> {
        let Stage::Frames(frames) = &mut self.stage else { return None };
        self.closed = true;
        match self.end {
            None => frames.close(Some(code), "", key),
            Some(End::Asked(code)) => frames.close(code, "", key),
            Some(End::Broken(fault)) => frames.close_for(fault, key),
            Some(End::Pings) => frames.close(Some(CloseCode::POLICY_VIOLATION), "too many Pings", key),
        }
    }
}

/// What the first bytes of a stream begin with, on which SIP and WebSocket are both possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begins {
    /// Neither is certain.
    Unclear,
    /// A request of HTTP.
    Http,
    /// SIP, or nothing that anybody knows.
    Sip,
}

/// Bytes of a first line, beyond which it is left to the reader of HTTP to refuse it.
const LONGEST_LINE: usize = 8 << 10;

impl Begins {
    /// What these bytes begin with. A method of SIP may be named GET as well, so the version at the end of
    /// the line says which of the two it is.
    pub fn of(bytes: &[u8]) -> Begins {
        const GET: &[u8] = b"GET ";
        let Some(line) = bytes.strip_prefix(GET) else {
            return if GET.starts_with(bytes) { Begins::Unclear } else { Begins::Sip };
        };
        match line.iter().position(|&byte| byte == b'\n') {
            None if bytes.len() < LONGEST_LINE => Begins::Unclear,
            None => Begins::Http,
            Some(end) => {
                let line = line.get(..end).unwrap_or_default();
                let version = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
                let is_sip = version.get(..4).is_some_and(|name| name.eq_ignore_ascii_case(b"SIP/"));
                if is_sip { Begins::Sip } else { Begins::Http }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_on_the_first_line_tells_http_from_sip() {
        for (bytes, wanted) in [
            ("", Begins::Unclear),
            ("GE", Begins::Unclear),
            ("GET ", Begins::Unclear),
            ("GET / HTTP/1.1", Begins::Unclear),
            ("GET / HTTP/1.1\r\n", Begins::Http),
            ("GET sip:example.org SIP/2.0\r\n", Begins::Sip),
            ("GET sip:example.org sip/2.0\n", Begins::Sip),
            ("GET nonsense\r\n", Begins::Http),
            ("GETS sip:a SIP/2.0\r\n", Begins::Sip),
            ("POST / HTTP/1.1\r\n", Begins::Sip),
            ("\r\n\r\n", Begins::Sip),
            ("INVITE ", Begins::Sip),
        ] {
            assert_eq!(Begins::of(bytes.as_bytes()), wanted, "{bytes:?}");
        }
        let endless = format!("GET /{}", "a".repeat(LONGEST_LINE));
        assert_eq!(Begins::of(endless.as_bytes()), Begins::Http);
    }

    #[test]
    fn state_of_a_connection_is_small() {
        assert!(size_of::<Web>() <= 48, "{}", size_of::<Web>());
    }

    #[test]
    fn own_close_is_sent_once_with_the_code_of_the_end() {
        let mut web = Web::expected();
        assert!(web.close(CloseCode::NORMAL, None).is_none(), "no frames before the handshake");
        web.opens();
        assert!(web.may_send());
        web.ends(End::Pings);
        let frame = web.close(CloseCode::NORMAL, None).expect("the first");
        assert_eq!(frame.as_bytes().get(2..4), Some(&1008_u16.to_be_bytes()[..]));
        assert!(web.close(CloseCode::NORMAL, None).is_none() && !web.may_send());
    }

    #[test]
    fn client_asks_once_and_masks_what_it_sends() {
        let mut web = Web::due(*b"the sample nonce");
        assert!(web.is_client() && !web.is_ready() && web.asked().is_none());
        let key = web.asks().expect("it is due");
        assert!(web.asks().is_none() && web.asked() == Some(key) && !web.may_send());
        web.opens();
        assert!(web.is_client() && web.may_send());
        let mask = [1, 2, 3, 4];
        let header = web.header(b"BYE", Some(mask));
        assert_eq!(header.as_bytes(), [0x81, 0x83, 1, 2, 3, 4]);
        let frame = web.close(CloseCode::NORMAL, Some(mask)).expect("the first");
        assert_eq!(frame.as_bytes(), [0x88, 0x82, 1, 2, 3, 4, 3 ^ 1, 0xe8 ^ 2]);
        assert!(!Web::expected().is_client() && !Web::possible().is_client());
    }
}
