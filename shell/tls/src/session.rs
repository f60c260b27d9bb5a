//! The TLS of one connection.

use crate::names::Identities;
use crate::proven;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, CommonState, Error, HandshakeKind, ProtocolVersion,
    ServerConfig,
};
use std::fmt;
use std::sync::Arc;

/// Bytes of records that may wait for the rest of theirs: the largest handshake message that is read
/// (64 kB, RFC 8446 section 4) with the headers of its records.
pub const MAX_KEPT: usize = 72 << 10;

/// Room for a handshake message, a guess: rustls says how much it wants if this is too little.
const FIRST_ROOM: usize = 4096;

/// The first byte of a record of a handshake, and of an alert (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
/// The alert `unexpected_message` in a record (RFC 8446 section 6).
const UNEXPECTED: [u8; 7] = [ALERT, 3, 3, 0, 2, 2, 10];

/// How far a session has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The handshake goes on. Nothing can be sent.
    Handshake,
    /// Data flow.
    Open,
    /// The peer sends no more (RFC 8446 section 6.1). Data can still be sent.
    PeerClosed,
}

/// Why a session ended.
#[derive(Debug)]
pub enum Fault {
    /// The peer does not follow the protocol, sent an alert, or is not believed.
    Tls(Error),
    /// A handshake message is larger than [`MAX_KEPT`].
    TooLong,
    /// The name that a server has to prove is none that a certificate can have.
    NoName,
    /// The client does not speak TLS.
    NotTls(Spoken),
}

impl Fault {
    /// Whether the peer has refused us in the handshake. It has read no data then, even if some have left:
    /// with TLS 1.3 the handshake is over for us before the server has seen our certificate (RFC 8446
    /// section 2).
    pub fn is_refusal(&self) -> bool {
        use AlertDescription as Alert;
        let Fault::Tls(Error::AlertReceived(alert)) = self else { return false };
        matches!(
            alert,
            Alert::HandshakeFailure
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                // An authority with that name is known, but with another key.
                | Alert::DecryptError
                | Alert::AccessDenied
                | Alert::CertificateRequired
        )
    }
}

/// What a client speaks that does not speak TLS, by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spoken {
    /// SIP without TLS.
    Sip,
    /// HTTP without TLS.
    Http,
    /// Nothing that is known.
    Other,
}

impl Spoken {
    fn of(bytes: &[u8]) -> Spoken {
        let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
        match (has(b"SIP/2.0"), has(b"HTTP/")) {
            (true, _) => Spoken::Sip,
            (_, true) => Spoken::Http,
            _ => Spoken::Other,
        }
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Spoken::Sip => "SIP without TLS",
            Spoken::Http => "HTTP without TLS",
            Spoken::Other => "bytes that are not TLS",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Tls(Error::InvalidCertificate(CertificateError::Other(other))) => write!(f, "{}", other.0),
            Fault::Tls(Error::AlertReceived(alert)) => write!(f, "the peer ended it: {alert:?}"),
            Fault::Tls(error) => write!(f, "{error}"),
            Fault::TooLong => f.write_str("a handshake message is too long"),
            Fault::NoName => f.write_str("no certificate can have this name"),
            Fault::NotTls(spoken) => f.write_str(spoken.text()),
        }
    }
}

impl std::error::Error for Fault {}

/// Which end we are.
enum End {
    /// A server to which nothing has been sent yet. A silent connection costs no more than this.
    Awaited(Arc<ServerConfig>),
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

impl End {
    /// The first bytes have come: begins, if they are of TLS.
    fn begin(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let (End::Awaited(config), Some(first)) = (&*self, bytes.first()) else { return Ok(()) };
        if *first != HANDSHAKE && *first != ALERT {
            out.extend(UNEXPECTED);
            return Err(Fault::NotTls(Spoken::of(bytes)));
        }
        let conn = UnbufferedServerConnection::new(Arc::clone(config)).map_err(Fault::Tls)?;
        *self = End::Server(Box::new(conn));
        Ok(())
    }

    /// Lets rustls do one thing with `bytes`.
    fn step(&mut self, bytes: &mut [u8], plain: &mut dyn FnMut(&[u8]), out: &mut Vec<u8>) -> Round {
        match self {
            End::Awaited(_) => Round { consumed: 0, end: Some(Ok(Standing::Handshake)) },
            End::Server(conn) => step(conn.process_tls_records(bytes), plain, out),
            End::Client(conn) => step(conn.process_tls_records(bytes), plain, out),
        }
    }
}

/// The TLS of one connection, without its socket.
pub struct Session {
    end: End,
    standing: Standing,
    /// Bytes of a record, or of a handshake message, whose rest has not come.
    kept: Vec<u8>,
    /// Whether a fault has ended it. rustls must not be called then: it would read bytes that were
    /// discarded.
    over: bool,
    /// The end of validity of the client's certificate, [for its tickets](proven).
    proven_until: u64,
}

/// What came of some records.
struct Round {
    /// Bytes done with.
    consumed: usize,
    /// What the session says; none: go on with the rest.
    end: Option<Result<Standing, Fault>>,
}

impl Session {
    /// One that a client opened.
    ///
    /// # Errors
    /// None: the session is made when its first byte comes.
    pub fn server(config: &Arc<ServerConfig>) -> Result<Session, Fault> {
        Ok(Session::new(End::Awaited(Arc::clone(config))))
    }

    /// One that we open to the server of this name. `out` gets what is to be sent first.
    ///
    /// # Errors
    /// `config` cannot be used.
    pub fn client(
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
        out: &mut Vec<u8>,
    ) -> Result<Session, Fault> {
        let end = UnbufferedClientConnection::new(Arc::clone(config), name).map_err(Fault::Tls)?;
        let mut session = Session::new(End::Client(Box::new(end)));
        session.receive(&mut [], &mut |_| {}, out)?;
        Ok(session)
    }

    fn new(end: End) -> Session {
        Session {
            end,
            standing: Standing::Handshake,
            kept: Vec::new(),
            over: false,
            proven_until: proven::UNBOUNDED,
        }
    }

    /// How far it has come.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Bytes that wait for the rest of their record.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Takes what waits for the rest of its record, to be received again with it.
    pub fn take_kept(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }

    /// Takes bytes that came: those of [`Session::take_kept`], then the new ones. They are
    /// decrypted in place. Data are shown to `plain`; what is to be sent is appended to `out`. Bytes of an
    /// unfinished record are kept.
    ///
    /// # Errors
    /// The session is over. `out` has the alert that says so to the peer, if one is owed.
    pub fn receive(
        &mut self,
        bytes: &mut [u8],
        plain: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<Standing, Fault> {
        debug_assert!(self.kept.is_empty(), "what was kept is received with what is new");
        if self.standing != Standing::Handshake {
            return self.advance(bytes, plain, out);
        }
        let (until, received) = proven::within(self.proven_until, || self.advance(bytes, plain, out));
        self.proven_until = until;
        received
    }

    fn advance(
        &mut self,
        bytes: &mut [u8],
        plain: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<Standing, Fault> {
        if self.over {
            return Err(Fault::Tls(Error::HandshakeNotComplete));
        }
        self.end.begin(bytes, out).inspect_err(|_| self.over = true)?;
        let mut done = 0;
        loop {
            let rest = bytes.get_mut(done..).unwrap_or_default();
            let round = self.end.step(rest, plain, out);
            done += round.consumed;
            match round.end {
                None => {}
                Some(Ok(Standing::PeerClosed)) => self.standing = Standing::PeerClosed,
                Some(Ok(standing)) => {
                    if self.standing != Standing::PeerClosed {
                        self.standing = standing;
                    }
                    return self.keep(bytes.get(done..).unwrap_or_default());
                }
                Some(Err(fault)) => {
                    // The end of the handshake, and data, may have come directly before the fault.
                    let over = self.common().is_some_and(|common| !common.is_handshaking());
                    if over && self.standing == Standing::Handshake {
                        self.standing = Standing::Open;
                    }
                    self.alert(bytes.get_mut(done..).unwrap_or_default(), out);
                    self.over = true;
                    return Err(fault);
                }
            }
        }
    }

    /// Keeps the beginning of a record.
    fn keep(&mut self, rest: &[u8]) -> Result<Standing, Fault> {
        if rest.len() > MAX_KEPT {
            self.over = true;
            return Err(Fault::TooLong);
        }
        if self.standing != Standing::PeerClosed {
            self.kept.extend_from_slice(rest);
        }
        Ok(self.standing)
    }

    /// Appends what a failed session still owes its peer: the alert that says why. `rest`: bytes that are not
    /// processed yet. rustls ignores them while it has something to send.
    fn alert(&mut self, rest: &mut [u8], out: &mut Vec<u8>) {
        while self.common().is_some_and(|common| common.wants_write()) {
            self.end.step(rest, &mut |_| {}, out);
        }
    }

    /// Encrypts data to the end of `out`.
    ///
    /// # Errors
    /// The session is over, or its handshake is not.
    pub fn send(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        self.write(Some(data), out)
    }

    /// Says to the peer that we send no more (`close_notify`, RFC 8446 section 6.1), at the end of `out`.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        // A session that cannot say it any more has nobody to say it to.
        let _ = self.write(None, out);
    }

    /// What is kept goes with each call: rustls remembers where in it the fragments of a message are.
    fn write(&mut self, data: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), Fault> {
        match &mut self.end {
            _ if self.over => Err(Fault::Tls(Error::HandshakeNotComplete)),
            End::Awaited(_) => Err(Fault::Tls(Error::HandshakeNotComplete)),
            End::Server(conn) => write(conn.process_tls_records(&mut self.kept), data, out),
            End::Client(conn) => write(conn.process_tls_records(&mut self.kept), data, out),
        }
    }

    fn common(&self) -> Option<&CommonState> {
        match &self.end {
            End::Awaited(_) => None,
            End::Server(conn) => Some(conn),
            End::Client(conn) => Some(conn),
        }
    }

    /// The version that was agreed on: `"1.3"`, `"1.2"`.
    pub fn version(&self) -> Option<&'static str> {
        match self.common()?.protocol_version()? {
            ProtocolVersion::TLSv1_3 => Some("1.3"),
            ProtocolVersion::TLSv1_2 => Some("1.2"),
            _ => None,
        }
    }

    /// The cipher suite that was agreed on, by its name in the standards.
    pub fn suite(&self) -> Option<&'static str> {
        self.common()?.negotiated_cipher_suite()?.suite().as_str()
    }

    /// Whether an earlier session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.common().and_then(|common| common.handshake_kind()) == Some(HandshakeKind::Resumed)
    }

    /// The certificate chain of the peer, its own certificate first.
    pub fn chain(&self) -> Option<&[CertificateDer<'static>]> {
        self.common()?.peer_certificates()
    }

    /// The domains that the peer has proven to be (RFC 5922 section 7.1), if it showed a certificate.
    pub fn peer(&self) -> Option<Identities> {
        let certificate = self.common()?.peer_certificates()?.first()?;
        Some(Identities::of(certificate))
    }
}

/// Handles one state of a session.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &mut dyn FnMut(&[u8]),
    out: &mut Vec<u8>,
) -> Round {
    let UnbufferedStatus { mut discard, state } = status;
    let end = match state {
        Err(error) => Some(Err(Fault::Tls(error))),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    plain(record.payload);
                }
                Some(Err(error)) => break Some(Err(Fault::Tls(error))),
                None => break None,
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut message)) => {
            append(out, FIRST_ROOM, |room| match message.encode(room) {
                Ok(n) => Ok(n),
                Err(EncodeError::InsufficientSize(more)) => Err(Some(more.required_size)),
                Err(EncodeError::AlreadyEncoded) => Err(None),
            });
            None
        }
        Ok(ConnectionState::TransmitTlsData(sent)) => {
            sent.done();
            None
        }
        Ok(ConnectionState::BlockedHandshake) => Some(Ok(Standing::Handshake)),
        Ok(ConnectionState::WriteTraffic(_)) => Some(Ok(Standing::Open)),
        // It is told once; the next state says whether data can still be sent.
        Ok(ConnectionState::PeerClosed) => Some(Ok(Standing::PeerClosed)),
        // Nothing can be sent any more, which asks for no state of its own.
        Ok(ConnectionState::Closed) => Some(Ok(Standing::Open)),
        // Early data are never accepted (RFC 8446 section 8: they can be replayed).
        Ok(_) => Some(Err(Fault::Tls(Error::General("early data".into())))),
    };
    Round { consumed: discard, end }
}

/// Writes data, or without any the end of them.
fn write<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    data: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    debug_assert_eq!(status.discard, 0, "all whole records were taken when they came");
    match status.state.map_err(Fault::Tls)? {
        ConnectionState::WriteTraffic(mut traffic) => {
            let room = data.map_or(64, |data| data.len() + 64);
            let mut exhausted = false;
            append(out, room, |room| {
                let written = match data {
                    Some(data) => traffic.encrypt(data, room),
                    None => traffic.queue_close_notify(room),
                };
                written.map_err(|error| match error {
                    EncryptError::InsufficientSize(more) => Some(more.required_size),
                    EncryptError::EncryptExhausted => {
                        exhausted = true;
                        None
                    }
                })
            });
            match exhausted {
                false => Ok(()),
                true => Err(Fault::Tls(Error::EncryptError)),
            }
        }
        _ => Err(Fault::Tls(Error::HandshakeNotComplete)),
    }
}

/// Appends to `out` what `write` writes into the room that it gets. `write` says how much it needs if that is
/// too little, or nothing if it has nothing to write.
fn append(out: &mut Vec<u8>, guess: usize, mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>) {
    let start = out.len();
    let mut room = guess;
    for _ in 0..2 {
        out.resize(start + room, 0);
        match write(out.get_mut(start..).unwrap_or_default()) {
            Ok(written) => {
                out.truncate(start + written);
                return;
            }
            Err(Some(wanted)) => room = wanted,
            Err(None) => break,
        }
    }
    out.truncate(start);
}
