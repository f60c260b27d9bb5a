//! The socket of a connection, and the layers between its bytes and those of the stream.

use crate::sys::{self, Interest, Poller};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use wire::{ConnId, Transport};

/// What stands between the bytes of the socket and the bytes of the stream.
///
/// A layer that changes bytes (TLS, the frames of WebSocket, one on top of the other for WSS) is a variant
/// with its session. It changes [`Link::read`], [`Link::write`], [`Link::finish`] and [`Link::transport`],
/// and where a connection begins ([`Link::accepted`], [`Link::begun`]). `docs/design/transport-seam.md` has
/// the other files. Where a layer keeps the boundaries of messages ([`Transport::keeps_boundaries`]) it
/// stands for the machine's framing as well.
enum Layer {
    /// They are the same.
    Plain,
}

/// The lower end of a connection.
pub struct Link {
    socket: OwnedFd,
    /// What epoll watches.
    interest: Interest,
    layer: Layer,
}

impl Link {
    /// Of a connection that a peer opened.
    pub fn accepted(socket: OwnedFd) -> Link {
        Link { socket, interest: Interest::READ, layer: Layer::Plain }
    }

    /// Of a connection that is being opened.
    pub fn begun(socket: OwnedFd) -> Link {
        Link { socket, interest: Interest::WRITE, layer: Layer::Plain }
    }

    /// The transport that its layers make.
    pub fn transport(&self) -> Transport {
        match self.layer {
            Layer::Plain => Transport::Tcp,
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

    /// Reads bytes of the stream without waiting. Zero is the end of it.
    #[inline]
    pub fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        match self.layer {
            Layer::Plain => sys::recv(self.socket.as_fd(), room),
        }
    }

    /// Writes bytes of the stream without waiting. How many were taken.
    #[inline]
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.layer {
            Layer::Plain => sys::send(self.socket.as_fd(), bytes),
        }
    }

    /// Ends our direction.
    pub fn finish(&self) -> io::Result<()> {
        match self.layer {
            Layer::Plain => sys::shutdown_write(self.socket.as_fd()),
        }
    }

    /// Makes its close a reset.
    pub fn reset_on_close(&self) {
        sys::reset_on_close(self.socket.as_fd());
    }
}
