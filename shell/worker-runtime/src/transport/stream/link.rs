//! The socket of a connection, and the layers between its bytes and those of the stream.

use super::listing::Agreed;
use super::secure::{Secure, Took};
use super::web::Web;
use crate::sys::{self, Association, Interest, Poller, Record, Traffic};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tls::Session;
use websocket::Key;
use wire::{ConnId, Transport};

/// Bytes asked for in one system call: about as many messages as one connection has handled in a turn.
const READ: usize = 32 << 10;

/// What stands between the bytes of the socket and the messages. A connection without any is plain TCP.
///
/// TLS changes bytes: [`Link::read`], [`Link::write`], [`Link::finish`]. WebSocket keeps the boundaries of
/// messages ([`Transport::keeps_boundaries`]), so it stands for the machine's framing ([`Link::web_mut`]).
/// Both say when the stream is [ready](Link::is_ready), and what the [transport](Link::transport) is.
/// `docs/design/transport-seam.md` has the other files.
///
/// This is also used for an association that shares its socket with others. It has no layers.
struct Layers {
    secure: Option<Box<Secure>>,
    web: Option<Web>,
    association: Option<Association>,
}

/// Whether a socket keeps the boundaries of messages, as those of SCTP do. It has no layers then.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Records {
    No,
    /// It has one association.
    One,
    /// It has one association, which shared another socket before. Notifications report events that reads
    /// report on other sockets.
    PeeledOff,
    /// Other associations have it as well.
    Shared,
}

/// The lower end of a connection.
pub struct Link {
    /// `None`: of an association that shares its socket.
    socket: Option<OwnedFd>,
    /// What epoll watches.
    interest: Interest,
    records: Records,
    layers: Option<Box<Layers>>,
}

impl Link {
    /// Of a connection that a peer opened, with the session that it has to begin, if there is one, and with
    /// WebSocket, if it is or may be one.
    pub fn accepted(socket: OwnedFd, session: Option<Session>, web: Option<Web>) -> Link {
        Link {
            socket: Some(socket),
            interest: Interest::READ,
            records: Records::No,
            layers: Layers::of(session.map(Secure::new), web),
        }
    }

    /// Of a connection that is being opened, with its first layers, if there are any.
    pub fn begun(socket: OwnedFd, secure: Option<Secure>, web: Option<Web>) -> Link {
        let (socket, layers) = (Some(socket), Layers::of(secure, web));
        Link { socket, interest: Interest::WRITE, records: Records::No, layers }
    }

    /// Of an association that shares its socket, which is read by
    /// [`read_shared`](super::sharing::read_shared).
    pub fn shared(association: Association) -> Link {
        let layers = Box::new(Layers { secure: None, web: None, association: Some(association) });
        Link { socket: None, interest: Interest::READ, records: Records::Shared, layers: Some(layers) }
    }

    /// The same over this socket of SCTP.
    #[must_use]
    pub fn with_records(self) -> Link {
        Link { records: Records::One, ..self }
    }

    /// Whether its socket keeps the boundaries of messages, so that each is written by itself.
    #[inline]
    pub fn has_records(&self) -> bool {
        self.records != Records::No
    }

    /// The association, if it shares its socket.
    #[inline]
    pub fn association(&mut self) -> Option<&mut Association> {
        self.layers.as_mut()?.association.as_mut()
    }

    /// Moves an association from its shared socket to its own socket, which is watched as connection `id`.
    ///
    /// # Errors
    /// There are no descriptors, or the association has ended.
    pub fn peel_off(&mut self, id: ConnId, poller: &Poller) -> io::Result<()> {
        let Some(association) = self.association() else { return Ok(()) };
        self.socket = Some(association.peel_off()?);
        (self.records, self.layers, self.interest) = (Records::PeeledOff, None, Interest::READ);
        self.register(id, poller)
    }

    /// The same association for another connection, which must be registered.
    #[must_use]
    pub fn begun_anew(mut self, poller: &Poller) -> Link {
        if let Some(socket) = &self.socket {
            poller.forget(socket.as_fd());
        }
        self.interest = Interest::READ;
        self
    }

    /// The transport that its socket and its layers make.
    pub fn transport(&self) -> Transport {
        if self.has_records() {
            return Transport::Sctp;
        }
        let Some(layers) = &self.layers else { return Transport::Tcp };
        let is_web = layers.web.as_ref().is_some_and(|web| !web.is_undecided());
        match (&layers.secure, is_web) {
            (None, false) => Transport::Tcp,
            (None, true) => Transport::Ws,
            (Some(_), false) => Transport::Tls,
            (Some(_), true) => Transport::Wss,
        }
    }

    /// The name that the peer has to prove, and has once the link is [ready](Link::is_ready); empty: none.
    pub fn name(&self) -> &str {
        self.secure().map_or("", Secure::name)
    }

    /// Whether messages can be written, once its socket is open.
    pub fn is_ready(&self) -> bool {
        self.layers.as_ref().is_none_or(|layers| layers.is_secure() && layers.is_open())
    }

    /// Whether the stream works, and what comes on it belongs to a handshake of WebSocket or may do so.
    #[inline]
    pub fn awaits_request(&self) -> bool {
        self.layers.as_ref().is_some_and(|layers| layers.is_secure() && !layers.is_open())
    }

    /// The layer of WebSocket.
    #[inline]
    pub fn web(&self) -> Option<&Web> {
        self.layers.as_ref()?.web.as_ref()
    }

    /// The layer of WebSocket.
    #[inline]
    pub fn web_mut(&mut self) -> Option<&mut Web> {
        self.layers.as_mut()?.web.as_mut()
    }

    /// The key of the WebSocket request to be sent now. It counts as sent then.
    #[inline]
    pub fn asks(&mut self) -> Option<Key> {
        let layers = self.layers.as_mut().filter(|layers| layers.is_secure())?;
        layers.web.as_mut()?.asks()
    }

    /// It is not WebSocket after all.
    pub fn is_no_web(&mut self) {
        if let Some(layers) = &mut self.layers {
            layers.web = None;
        }
    }

    /// The layer of TLS.
    #[inline]
    pub fn secure(&self) -> Option<&Secure> {
        self.layers.as_ref()?.secure.as_deref()
    }

    /// The layer of TLS.
    #[inline]
    pub fn secure_mut(&mut self) -> Option<&mut Secure> {
        self.layers.as_mut()?.secure.as_deref_mut()
    }

    /// Whether its peer has ended its direction and everything before that was read from the socket.
    ///
    /// # Errors
    /// Those of the socket; that nothing has come is one. One of an association that shares its socket.
    pub fn is_at_end(&self) -> io::Result<bool> {
        match &self.socket {
            Some(socket) => sys::is_at_end(socket.as_fd()),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Whether a handshake of TLS has come to its end since this was asked last.
    #[inline]
    pub fn completes_tls(&mut self) -> bool {
        self.secure_mut().is_some_and(Secure::completes)
    }

    /// Whether a layer has bytes that the socket has not taken.
    #[inline]
    pub fn owes(&self) -> bool {
        self.secure().is_some_and(Secure::owes)
    }

    /// Whether an earlier session of TLS was resumed.
    pub fn is_resumed(&self) -> bool {
        self.secure().is_some_and(Secure::is_resumed)
    }

    /// Bytes that a layer holds, received or to be sent.
    #[inline]
    pub fn held(&self) -> usize {
        self.secure().map_or(0, Secure::held)
    }

    /// Whether the socket is watched for bytes that come.
    pub fn is_watched(&self) -> bool {
        self.interest.and(Interest::READ) == self.interest
    }

    /// Whether the peer has ended its direction within a layer.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        self.secure().is_some_and(Secure::peer_closed)
    }

    /// What the kernel counts of the socket.
    pub fn traffic(&self) -> Traffic {
        self.socket.as_ref().map_or_else(Traffic::default, |socket| sys::traffic(socket.as_fd()))
    }

    /// What a layer of TLS has agreed on.
    pub fn agreed(&self) -> Option<Agreed> {
        self.secure()?.agreed()
    }

    /// Has the socket watched, as connection `id`.
    pub fn register(&self, id: ConnId, poller: &Poller) -> io::Result<()> {
        match &self.socket {
            Some(socket) => poller.add(socket.as_fd(), self.interest, super::sequence(id)),
            None => Ok(()),
        }
    }

    /// Has it watched for this from now on.
    pub fn watch(&mut self, interest: Interest, id: ConnId, poller: &Poller) {
        if self.interest != interest {
            self.interest = interest;
            // The descriptor is open and watched, so this fails only where the kernel lacks memory;
            // the connection's deadline closes it then.
            if let Some(socket) = &self.socket {
                let _ = poller.modify(socket.as_fd(), interest, super::sequence(id));
            }
        }
    }

    /// Has it watched for room as well.
    pub fn watch_for_room(&mut self, id: ConnId, poller: &Poller) {
        self.watch(self.interest.and(Interest::WRITE), id, poller);
    }

    /// The outcome of opening it.
    pub fn opened(&self) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(()), |socket| sys::take_error(socket.as_fd()))
    }

    /// Reads bytes of the stream without waiting, to `room` for [`secure::MOST`](super::secure::MOST) bytes;
    /// `scratch`: room for a layer. What comes on a shared socket is read elsewhere.
    #[inline]
    pub fn read(&mut self, room: &mut [u8], scratch: &mut Vec<u8>) -> io::Result<Took> {
        let Some(socket) = &self.socket else { return Ok(Took::Nothing) };
        match self.layers.as_mut().and_then(|layers| layers.secure.as_deref_mut()) {
            None if self.records != Records::No => read_record(socket.as_fd(), self.records, room),
            None => Ok(match sys::recv(socket.as_fd(), room.get_mut(..READ).unwrap_or_default())? {
                0 => Took::Ended,
                n => Took::Bytes(n),
            }),
            Some(secure) => secure.read(socket.as_fd(), room, scratch),
        }
    }

    /// Writes bytes of the stream without waiting, those that a layer still [owes](Link::owes) first. Returns
    /// how many were taken.
    #[inline]
    pub fn write(&mut self, bytes: &[u8], scratch: &mut Vec<u8>) -> io::Result<usize> {
        let Some(socket) = &self.socket else { return self.write_shared(bytes) };
        match self.layers.as_mut().and_then(|layers| layers.secure.as_deref_mut()) {
            None => sys::send(socket.as_fd(), bytes),
            Some(secure) if bytes.is_empty() => secure.flush(socket.as_fd()).map(|()| 0),
            Some(secure) => secure.write(socket.as_fd(), bytes, scratch),
        }
    }

    #[cold]
    #[inline(never)]
    fn write_shared(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.association().map_or(Ok(0), |association| association.send(bytes))
    }

    /// Ends our direction.
    pub fn finish(&mut self) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return self.association().map_or(Ok(()), Association::finish);
        };
        if let Some(secure) = self.layers.as_mut().and_then(|layers| layers.secure.as_deref_mut()) {
            secure.finish(socket.as_fd());
        }
        match self.records {
            Records::PeeledOff => sys::finish_peeled(socket.as_fd()),
            _ => sys::shutdown_write(socket.as_fd()),
        }
    }

    /// Makes its close a reset.
    pub fn reset_on_close(&mut self) {
        match &self.socket {
            Some(socket) => sys::reset_on_close(socket.as_fd()),
            None => self.association().into_iter().for_each(Association::abort_on_drop),
        }
    }
}

#[cold]
#[inline(never)]
fn read_record(socket: BorrowedFd<'_>, records: Records, room: &mut [u8]) -> io::Result<Took> {
    match sys::recv_record(socket, room)? {
        // The next read reports it, with the reason.
        Record::Gone if records == Records::One => Ok(Took::Nothing),
        Record::Gone => Err(io::ErrorKind::ConnectionReset.into()),
        record => Ok(Took::of(record)),
    }
}

impl Layers {
    fn of(secure: Option<Secure>, web: Option<Web>) -> Option<Box<Layers>> {
        let any = secure.is_some() || web.is_some();
        any.then(|| Box::new(Layers { secure: secure.map(Box::new), web, association: None }))
    }

    /// Whether a handshake of TLS is over, if there is one.
    fn is_secure(&self) -> bool {
        self.secure.as_ref().is_none_or(|secure| secure.is_ready())
    }

    /// Whether a handshake of WebSocket is over, if there is one.
    fn is_open(&self) -> bool {
        self.web.as_ref().is_none_or(Web::is_ready)
    }
}
