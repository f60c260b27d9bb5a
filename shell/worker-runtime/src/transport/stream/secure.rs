//! The layer of TLS between the bytes of a socket and those of the stream.

use super::listing::Agreed;
use crate::sys::{self, Record, is_transient};
use std::io;
use std::os::fd::BorrowedFd;
use tls::{Client, Fault, Session, Standing};

/// Bytes asked for in one system call: two records of the largest size.
const READ: usize = 32 << 10;
/// Bytes of the stream that one read brings at most: what was asked for, and a record begun before.
pub const MOST: usize = READ + (17 << 10);
/// The longest record of an alert alone, without padding (RFC 8446 section 5.2, RFC 5246 section 6.2.3).
const ALERT: usize = 48;
/// Bytes of the stream that are encrypted at a time.
const WRITE: usize = 64 << 10;

/// What a read brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Took {
    /// The end of the stream.
    Ended,
    /// This number of bytes of the stream.
    Bytes(usize),
    /// This number of bytes, with which a message ends. Only of sockets that keep the boundaries of messages.
    Last(usize),
    /// The beginning of a message that has come is to be forgotten.
    Abandoned,
    /// A path to the peer does not work any more. The others do.
    PathLost,
    /// The peer has restarted the association and has lost its earlier state.
    Restarted,
    /// Bytes that are none of the stream: of a handshake, or the beginning of a record.
    Nothing,
}

impl Took {
    /// The result of a read of an association that has not ended.
    pub fn of(record: Record) -> Took {
        match record {
            Record::Ended => Took::Ended,
            Record::Part(n) => Took::Bytes(n),
            Record::Last(n) => Took::Last(n),
            Record::Abandoned => Took::Abandoned,
            Record::PathLost => Took::PathLost,
            Record::Restarted => Took::Restarted,
            Record::Up | Record::Gone | Record::Nothing => Took::Nothing,
        }
    }
}

/// The progress of a handshake that a client began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nothing was received.
    Silent,
    /// The beginning of a ClientHello was received. The handshake has a [place](super::places).
    Begun,
    /// We have answered.
    Answered,
}

/// The TLS of a connection. An idle one holds no buffer.
pub struct Secure {
    session: Session,
    /// Encrypted bytes that the socket has not taken.
    owed: Vec<u8>,
    /// The name that the peer has to prove, where we open the connection.
    name: Box<str>,
    /// Whether the end of the handshake was [noted](Secure::completes).
    complete: bool,
    progress: Progress,
    /// Whether the peer has shown that it accepts our part of the handshake.
    accepted: bool,
    /// Why the session is over, while the data before the fault is handed on.
    fault: Option<io::Error>,
}

impl Secure {
    /// Of a connection that a client opened.
    pub fn new(session: Session) -> Secure {
        Secure::with(session, Vec::new(), "")
    }

    /// Of a connection that we open to a server of this name. It owes the beginning of the handshake.
    ///
    /// # Errors
    /// It is no name that a certificate can have.
    pub fn begun(client: &Client, name: &str) -> Result<Secure, Fault> {
        let mut owed = Vec::new();
        let session = client.session(name, &mut owed)?;
        Ok(Secure::with(session, owed, name))
    }

    fn with(session: Session, owed: Vec<u8>, name: &str) -> Secure {
        Secure {
            session,
            owed,
            name: name.into(),
            complete: false,
            progress: Progress::Silent,
            accepted: false,
            fault: None,
        }
    }

    /// The progress of the handshake.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The first bytes were received, and the handshake has a place.
    pub fn begins(&mut self) {
        self.progress = Progress::Begun;
    }

    /// The name that the peer has to prove; empty: none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether bytes of the stream can be written.
    pub fn is_ready(&self) -> bool {
        self.session.standing() != Standing::Handshake
    }

    /// Whether the handshake has come to its end since this was asked last.
    pub fn completes(&mut self) -> bool {
        let now = !self.complete && self.is_ready();
        self.complete |= now;
        now
    }

    /// Whether the peer has said that it sends no more.
    pub fn peer_closed(&self) -> bool {
        self.session.standing() == Standing::PeerClosed
    }

    /// Whether the peer has shown that it accepts our part of the handshake. With TLS 1.3 the handshake is
    /// finished for a client before the server has seen its certificate (RFC 8446 section 2). Anything that
    /// the server sends after the handshake shows that it has accepted. If it refuses before that, it has
    /// read nothing of the stream.
    pub fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// Whether the session is over, although bytes of the stream came before the fault.
    pub fn is_broken(&self) -> bool {
        self.fault.is_some()
    }

    /// Why it is over.
    pub fn take_fault(&mut self) -> Option<io::Error> {
        self.fault.take()
    }

    /// What the handshake has agreed on.
    pub fn agreed(&self) -> Option<Agreed> {
        let (version, suite) = (self.session.version()?, self.session.suite()?);
        Some(Agreed { version, suite, peer: self.session.peer() })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Whether an earlier session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.session.is_resumed()
    }

    /// Bytes of records whose rest has not come, and of those that the socket has not taken.
    pub fn held(&self) -> usize {
        self.session.kept().len() + self.owed.len()
    }

    /// Whether encrypted bytes wait for room in the socket.
    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Reads once from the socket and decrypts what came, to `room`, which has [`MOST`] bytes. `scratch`
    /// is for encrypted ones.
    ///
    /// # Errors
    /// Errors of the socket. Of kind `InvalidData`: a fault of the peer, which was sent an alert. Bytes of
    /// the stream before the fault are returned first, and the session [is broken](Secure::is_broken) then.
    pub fn read(
        &mut self,
        socket: BorrowedFd<'_>,
        room: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> io::Result<Took> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let (was_ready, kept) = (self.is_ready(), self.session.kept().len());
        // It is not truncated: to fill it with zeros for each read would cost more than the read.
        if scratch.len() < kept + READ {
            scratch.resize(kept + READ, 0);
        }
        scratch.get_mut(..kept).unwrap_or_default().copy_from_slice(self.session.kept());
        let n = sys::recv(socket, scratch.get_mut(kept..kept + READ).unwrap_or_default())?;
        if n == 0 {
            return Ok(Took::Ended);
        }
        drop(self.session.take_kept());
        let (mut len, mut fits) = (0, true);
        let mut data = |data: &[u8]| match room.get_mut(len..len + data.len()) {
            Some(place) => {
                place.copy_from_slice(data);
                len += data.len();
            }
            None => fits = false,
        };
        let came = scratch.get_mut(..kept + n).unwrap_or_default();
        let received = self.session.receive(came, &mut data, &mut self.owed);
        if self.owes() && self.progress == Progress::Begun {
            self.progress = Progress::Answered;
        }
        // What came counts, even if the peer takes nothing any more. The next write reports that.
        let _ = self.flush(socket);
        let whole = if received.is_ok() { self.session.kept().is_empty() } else { kept + n > ALERT };
        self.accepted |= len > 0 || (was_ready && whole) || self.session.version() == Some("1.2");
        let fault = match received {
            Err(fault) => Some(io::Error::new(io::ErrorKind::InvalidData, fault)),
            Ok(_) if !fits => {
                Some(io::Error::new(io::ErrorKind::InvalidData, "records between the parts of a message"))
            }
            Ok(_) => None,
        };
        match (fault, len) {
            (Some(fault), 0) => Err(fault),
            (None, 0) => Ok(Took::Nothing),
            (fault, len) => {
                self.fault = fault;
                Ok(Took::Bytes(len))
            }
        }
    }

    /// Encrypts bytes of the stream and writes them. Returns how many it took. Those are sent before others,
    /// now or with the next call.
    ///
    /// # Errors
    /// Those of the socket, if it takes nothing because it has no room among them.
    pub fn write(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> io::Result<usize> {
        self.flush(socket)?;
        // Nothing is sent after our alert. Queued messages fail when the fault is taken.
        if self.owes() || self.is_broken() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = bytes.get(..WRITE).unwrap_or(bytes);
        scratch.clear();
        self.session
            .send(taken, scratch)
            .map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault))?;
        let sent = match sys::send(socket, scratch) {
            Err(error) if is_transient(&error) => 0,
            sent => sent?,
        };
        self.owed.extend_from_slice(scratch.get(sent..).unwrap_or_default());
        Ok(taken.len())
    }

    /// Sends what is owed, as far as the socket takes it.
    ///
    /// # Errors
    /// Those of the socket, but for a lack of room.
    pub fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.owed.is_empty() {
            return Ok(());
        }
        let sent = match sys::send(socket, &self.owed) {
            Err(error) if is_transient(&error) => 0,
            sent => sent?,
        };
        self.owed.drain(..sent);
        if self.owed.is_empty() {
            self.owed = Vec::new();
        }
        Ok(())
    }

    /// Says that we send no more, if the socket has room for that.
    pub fn finish(&mut self, socket: BorrowedFd<'_>) {
        if !self.owes() {
            self.session.finish(&mut self.owed);
            // The end of the socket's own direction says it as well.
            let _ = self.flush(socket);
        }
    }
}
