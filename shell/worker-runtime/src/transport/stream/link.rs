//! The socket of a connection, and the layers between its bytes and those of the stream.

use super::listing::Agreed;
use super::secure::{Secure, Took};
use crate::sys::{self, Interest, Poller, Traffic};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tls::Session;
use wire::{ConnId, Transport};

/// Bytes asked for in one system call: about as many messages as one connection has handled in a turn.
const READ: usize = 32 << 10;

/// What stands between the bytes of the socket and the bytes of the stream.
///
/// A layer that changes bytes is a variant with its session. It changes [`Link::read`], [`Link::write`],
/// [`Link::finish`] and [`Link::transport`], and where a connection begins ([`Link::accepted`],
/// [`Link::begun`]). `docs/design/transport-seam.md` has the other files. Where a layer keeps the boundaries
/// of messages ([`Transport::keeps_boundaries`]) it stands for the machine's framing as well.
enum Layer {
    /// They are the same.
    Plain,
    /// They are encrypted.
    Tls(Box<Secure>),
}

/// The lower end of a connection.
pub struct Link {
    socket: OwnedFd,
    /// What epoll watches.
    interest: Interest,
    layer: Layer,
}

impl Link {
    /// Of a connection that a peer opened, with the session that it has to begin, if there is one.
    pub fn accepted(socket: OwnedFd, session: Option<Session>) -> Link {
        let layer = session.map_or(Layer::Plain, |session| Layer::Tls(Box::new(Secure::new(session))));
        Link { socket, interest: Interest::READ, layer }
    }

    /// Of a connection that is being opened, with the layer of TLS that it begins with, if there is one.
    pub fn begun(socket: OwnedFd, secure: Option<Box<Secure>>) -> Link {
        Link { socket, interest: Interest::WRITE, layer: secure.map_or(Layer::Plain, Layer::Tls) }
    }

    /// The transport that its layers make.
    pub fn transport(&self) -> Transport {
        match self.layer {
            Layer::Plain => Transport::Tcp,
            Layer::Tls(_) => Transport::Tls,
        }
    }

    /// The name that the peer has to prove, and has once the link is [ready](Link::is_ready); empty: none.
    pub fn name(&self) -> &str {
        match &self.layer {
            Layer::Plain => "",
            Layer::Tls(secure) => secure.name(),
        }
    }

    /// Whether bytes of the stream can be written, once its socket is open.
    pub fn is_ready(&self) -> bool {
        match &self.layer {
            Layer::Plain => true,
            Layer::Tls(secure) => secure.is_ready(),
        }
    }

    /// Whether a layer has bytes that the socket has not taken.
    #[inline]
    pub fn owes(&self) -> bool {
        match &self.layer {
            Layer::Plain => false,
            Layer::Tls(secure) => secure.owes(),
        }
    }

    /// Whether the peer has ended its direction within a layer.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        match &self.layer {
            Layer::Plain => false,
            Layer::Tls(secure) => secure.peer_closed(),
        }
    }

    /// What the kernel counts of the socket.
    pub fn traffic(&self) -> Traffic {
        sys::traffic(self.socket.as_fd())
    }

    /// What a layer of TLS has agreed on.
    pub fn agreed(&self) -> Option<Agreed> {
        match &self.layer {
            Layer::Plain => None,
            Layer::Tls(secure) => secure.agreed(),
        }
    }

    /// Has the socket watched, as connection `id`.
    pub fn register(&self, id: ConnId, poller: &Poller) -> io::Result<()> {
        poller.add(self.socket.as_fd(), self.interest, super::sequence(id))
    }

    /// Has it watched for this from now on.
    pub fn watch(&mut self, interest: Interest, id: ConnId, poller: &Poller) {
        if self.interest != interest {
            self.interest = interest;
            // The descriptor is open and watched, so this fails only where the kernel lacks memory;
            // the connection's deadline closes it then.
            let _ = poller.modify(self.socket.as_fd(), interest, super::sequence(id));
        }
    }

    /// Has it watched for room as well.
    pub fn watch_for_room(&mut self, id: ConnId, poller: &Poller) {
        self.watch(self.interest.and(Interest::WRITE), id, poller);
    }

    /// The outcome of opening it.
    pub fn opened(&self) -> io::Result<()> {
        sys::take_error(self.socket.as_fd())
    }

    /// Reads bytes of the stream without waiting, to `room` for [`secure::MOST`](super::secure::MOST) bytes;
    /// `scratch`: room for a layer.
    #[inline]
    pub fn read(&mut self, room: &mut [u8], scratch: &mut Vec<u8>) -> io::Result<Took> {
        match &mut self.layer {
            Layer::Plain => {
                Ok(match sys::recv(self.socket.as_fd(), room.get_mut(..READ).unwrap_or_default())? {
                    0 => Took::Ended,
                    n => Took::Bytes(n),
                })
            }
            Layer::Tls(secure) => secure.read(self.socket.as_fd(), room, scratch),
        }
    }

    /// Writes bytes of the stream without waiting, those that a layer still [owes](Link::owes) first. Returns
    /// how many were taken.
    #[inline]
    pub fn write(&mut self, bytes: &[u8], scratch: &mut Vec<u8>) -> io::Result<usize> {
        match &mut self.layer {
            Layer::Plain => sys::send(self.socket.as_fd(), bytes),
            Layer::Tls(secure) if bytes.is_empty() => secure.flush(self.socket.as_fd()).map(|()| 0),
            Layer::Tls(secure) => secure.write(self.socket.as_fd(), bytes, scratch),
        }
    }

    /// Ends our direction.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Layer::Tls(secure) = &mut self.layer {
            secure.finish(self.socket.as_fd());
        }
        sys::shutdown_write(self.socket.as_fd())
    }

    /// Makes its close a reset.
    pub fn reset_on_close(&self) {
        sys::reset_on_close(self.socket.as_fd());
    }
}
