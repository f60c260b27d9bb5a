//! The contract between a protocol machine and whatever drives it.

use crate::{ConnId, Flow, Identity, Load, Outbox, Sieve, Time, Transport};
use core::net::SocketAddr;
use std::sync::Arc;

/// What the first bytes of a stream buffer hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Not a whole message yet: read more, then ask again.
    Partial {
        /// To be given to [`Machine::frame`] when it is asked again about the same message; opaque.
        resume: usize,
    },
    /// Nothing has begun: at most a part of a keepalive is here. Keep the bytes and wait, as on a
    /// connection that is idle (no deadline for an unfinished message applies).
    Idle,
    /// `skip` bytes of nothing (leading line ends), then a whole message of `len` bytes.
    Message {
        /// Bytes to pass over first.
        skip: usize,
        /// Length of the message.
        len: usize,
    },
    /// `len` bytes that carry nothing (a single keepalive line end): pass over them.
    Skip {
        /// Bytes to pass over.
        len: usize,
    },
    /// A keepalive ping of `len` bytes, to be answered unless other output says that we are alive.
    Ping {
        /// Bytes of the ping.
        len: usize,
        /// The answer.
        pong: &'static [u8],
    },
    /// The stream cannot be followed any further. The first `len` bytes, if any, are the head of the
    /// message that broke it; [`Machine::refuse`] may answer it, and the connection is closed.
    Broken {
        /// Bytes that may be shown to [`Machine::refuse`].
        len: usize,
        /// Why.
        error: FrameError,
    },
}

/// Why a byte stream cannot be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The head (start line and headers) is longer than allowed.
    HeadTooLong,
    /// The body is longer than allowed.
    BodyTooLong,
    /// No length, two lengths, or a length that is not a number.
    BadLength,
    /// The bytes are not a message at all.
    NotAMessage,
}

/// A whole message, with what the driver knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The time now.
    pub now: Time,
    /// When the message came, if the driver noted it; the message has waited since. Only a
    /// [`Generator`](crate::Generator) gets it, and measures from this time.
    pub at: Option<Time>,
    /// Where it came from.
    pub flow: Flow,
    /// The message.
    pub message: &'a [u8],
    /// The worker that the kernel chose for it, and the number of workers. It most probably owns the message,
    /// but [`Machine::owner`] was not asked. `None`: this worker owns the message.
    pub steered: Option<(u16, u16)>,
}

impl<'a> Arrival<'a> {
    /// A message of this worker's own.
    #[inline]
    pub fn new(now: Time, flow: Flow, message: &'a [u8]) -> Arrival<'a> {
        Arrival { now, at: None, flow, message, steered: None }
    }

    /// The other worker that owns it, if one does. For a machine that does not find the owner while reading
    /// the message.
    #[inline]
    pub fn other_owner(&self, machine: &impl Machine) -> Option<u16> {
        let (me, workers) = self.steered?;
        machine.owner(self.message, workers).filter(|owner| *owner != me)
    }
}

/// One worker's protocol machine, as the shell (or the simulator) drives it.
///
/// A machine owns no socket, thread, clock or source of entropy. Every call is given the time; what
/// it wants sent goes to the outbox. Calls never block.
pub trait Machine {
    /// What other threads post to a worker (an answer to a question, a changed configuration).
    type Notice: Send + 'static;

    /// Looks at the start of a buffer with bytes of a stream, which is not empty. A pure function of its
    /// arguments. Asked of transports that do not keep the boundaries of messages; others hand whole messages
    /// to [`Machine::receive`] ([`Transport::keeps_boundaries`]). `resume` is 0 for a new message and
    /// otherwise what the last [`Frame::Partial`] for the same message said, so that a byte-at-a-time sender
    /// costs no quadratic work.
    fn frame(&self, transport: Transport, buffer: &[u8], resume: usize) -> Frame;

    /// Which of `workers` workers owns this whole message; `None` where it does not matter, so that whoever
    /// gets it keeps it. Below `workers`. A pure function of its arguments, the same on every worker; total.
    fn owner(&self, message: &[u8], workers: u16) -> Option<u16>;

    /// One whole message. If [`Arrival::steered`] says that its owner is not yet determined, and another
    /// worker owns it, returns that worker and does nothing.
    fn receive(&mut self, arrival: Arrival<'_>, out: &mut Outbox) -> Option<u16>;

    /// A stream broke at `head` (possibly empty). May answer once; the shell then closes the
    /// connection. Called on the worker that owns the connection.
    fn refuse(&mut self, now: Time, flow: Flow, head: &[u8], error: FrameError, out: &mut Outbox);

    /// The peer of a connection has proven who it is, by a certificate. Called on every worker, before the
    /// first message of the connection and before [`Machine::disconnected`].
    fn identified(&mut self, now: Time, conn: ConnId, identity: &Arc<Identity>) {
        let _ = (now, conn, identity);
    }

    /// A stream connection is gone. Called on every worker.
    fn disconnected(&mut self, now: Time, conn: ConnId, out: &mut Outbox);

    /// A transmit with this non-zero token could not be sent: connection refused, timed out, reset
    /// or gone, or the socket said the destination cannot be reached.
    fn undeliverable(&mut self, now: Time, token: u64, out: &mut Outbox);

    /// As [`Machine::undeliverable`], of a transmit that had left whole before its connection ended: the peer
    /// may have read it.
    fn cut_off(&mut self, now: Time, token: u64, out: &mut Outbox) {
        self.undeliverable(now, token, out);
    }

    /// The network says that a datagram to `to` was not delivered (ICMP, RFC 3261 section 18.4) and
    /// repeats its beginning, as much as it likes. Called on every worker, because the kernel cannot
    /// tell which of them sent it.
    ///
    /// Anyone who can guess two addresses can forge such a report, so only one that repeats something
    /// secret of the machine's, such as the identifier of a transaction, may be believed.
    fn returned(&mut self, _now: Time, _to: SocketAddr, _quoted: &[u8], _out: &mut Outbox) {}

    /// Something another thread posted to this worker.
    fn notice(&mut self, now: Time, notice: Self::Notice, out: &mut Outbox);

    /// How the worker has kept up since the last call, about every [`Load::WINDOW`] while messages come. A
    /// machine that limits what it takes on goes by it.
    fn pace(&mut self, now: Time, load: &Load) {
        let _ = (now, load);
    }

    /// What the program in the kernel is to drop before it reaches this worker; `None`: nothing. The answer
    /// holds until the runtime asks again, after each [`Machine::pace`]. It expires soon, so that nothing is
    /// dropped for a worker that stands still.
    fn sieve(&self) -> Option<Sieve<'_>> {
        None
    }

    /// The deadline has come (or it may have: calling early is harmless).
    fn timeout(&mut self, now: Time, out: &mut Outbox);

    /// The end of a round: all that came was handed over, and what the outbox holds after this leaves. A
    /// machine that has many changes written with one call answers them here. To be called after every other
    /// call that was given an outbox, at the latest before the driver sleeps; calling when there is nothing
    /// to end is harmless.
    fn round_ends(&mut self, now: Time, out: &mut Outbox) {
        let _ = (now, out);
    }

    /// When [`Machine::timeout`] wants to be called next; `None`: never.
    fn next_deadline(&self) -> Option<Time>;
}
