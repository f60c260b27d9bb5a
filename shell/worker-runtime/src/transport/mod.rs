//! The transports: what is received from each kind of socket, and how it is sent.
//!
//! - [`udp`]: datagrams. Each is a message.
//! - [`stream`]: connections, each with a stream of bytes in which the machine finds the messages. In
//!   `stream/link.rs` are the socket below, and the layers between its bytes and those of the stream.
//!
//! - [`sctp`]: how associations of SCTP are made. Each has a socket of its own, so that it is a connection in
//!   `stream` like any other; it keeps the boundaries of messages.
//!
//! Datagrams are given to a [`Sink`]. No transport knows the machine or the worker; `worker` puts them
//! together.

pub mod sctp;
pub mod stream;
pub mod udp;

use wire::{Flow, Time};

/// Takes the messages that a transport receives whole.
pub trait Sink {
    /// A message, and when it arrived if the kernel notes that.
    fn message(&mut self, flow: Flow, bytes: &[u8], arrived: Option<Time>);

    /// Many messages came at once, and more will: other workers that were given some need not wait for these.
    fn many(&mut self);
}
