//! One stream connection and its buffers, which exist only while something waits in them.

use crate::config::StreamLimits;
use crate::sys::Interest;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use wire::{ConnId, Flow, ListenerId, Time, Transport};

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// We have asked; the peer has not answered.
    Connecting,
    /// Both directions work.
    Open,
    /// The peer has ended its direction; it may still be answered.
    HalfClosed,
    /// To be closed when the other workers have answered what they have of it.
    Ending,
    /// To be closed when the queue is written.
    Closing,
    /// We have ended our direction and wait for the peer to end its own.
    Lingering,
}

/// Why a connection was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The peer ended or reset it.
    Peer,
    /// The machine asked.
    Asked,
    /// Silence.
    Idle,
    /// No message ever came.
    Useless,
    /// A message did not end in time.
    Slow,
    /// The stream could not be followed.
    Broken,
    /// The peer did not read.
    Stalled,
    /// Others needed its room, and it mattered least.
    Room,
    /// The socket failed.
    Error,
    /// It never came about.
    Connect,
}

impl Reason {
    /// Whether the peer deserves a reset: it would otherwise hold kernel memory after the close.
    pub fn resets(self) -> bool {
        matches!(self, Reason::Useless | Reason::Slow | Reason::Stalled | Reason::Room)
    }
}

/// How much a connection matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weight {
    /// Somebody has registered or was called on it, or nobody asks.
    Full,
    /// Never so far.
    Loose,
    /// The same, but it is in use and does not have to make room.
    Spared,
}

/// Who wants to hear if a message cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The machine's token; zero: nobody.
    pub token: u64,
    /// The worker whose machine it is.
    pub origin: u16,
    /// The message is not queued where much is.
    pub yields: bool,
    /// Its connection matters for this number of seconds.
    pub keeps: u32,
    /// Its connection is in use from now on.
    pub uses: bool,
    /// The message has another way to go if the connection is not made soon.
    pub hurries: bool,
}

impl Ticket {
    /// Nobody wants to hear.
    pub fn none(origin: u16) -> Ticket {
        Ticket { token: 0, origin, yields: false, keeps: 0, uses: false, hurries: false }
    }
}

/// How long a connection is taken for congested after it was.
const CONGESTED: Duration = Duration::from_secs(1);
/// Messages remembered after the kernel took them: those that a peer may still have to answer.
const RECENT: usize = 256;

/// Messages that the kernel took and whose arrival nobody has confirmed. If the connection fails they may
/// have been lost with it (RFC 3261 section 18.4), and the machine knows whether that matters.
#[derive(Default)]
pub struct Recent(VecDeque<(Time, Ticket)>);

impl Recent {
    /// Remembers a message that has left.
    pub fn add(&mut self, now: Time, ticket: Ticket) {
        if self.0.len() == RECENT {
            self.0.pop_front();
        }
        self.0.push_back((now, ticket));
    }

    /// Forgets what left longer ago than any client waits; `false` if nothing is left.
    fn keep(&mut self, patience: Duration, now: Time) -> bool {
        while self.0.front().is_some_and(|(at, _)| *at + patience <= now) {
            self.0.pop_front();
        }
        !self.0.is_empty()
    }

    /// All that are remembered, the oldest first.
    pub fn into_tickets(self) -> impl Iterator<Item = Ticket> {
        self.0.into_iter().map(|(_, ticket)| ticket)
    }
}

/// Bytes received and not yet consumed.
#[derive(Default)]
pub struct Input {
    /// The bytes, those before `start` consumed.
    pub bytes: Vec<u8>,
    /// First byte not consumed.
    pub start: usize,
    /// What the machine's framing wants back when it is asked again about the same message.
    pub resume: usize,
    /// Whether a message has begun, rather than a keepalive at most.
    pub begun: bool,
    /// When the first byte of the message came that has begun.
    pub since: Time,
}

impl Input {
    /// The bytes not consumed.
    pub fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// Bytes to send, and who wants to hear about them.
pub struct Output {
    /// The bytes, those before `sent` taken by the kernel.
    pub bytes: Vec<u8>,
    /// First byte not taken by the kernel.
    pub sent: usize,
    /// Ends of messages in `bytes`, ascending.
    pub tickets: VecDeque<(usize, Ticket)>,
    /// When the peer must have taken something; [`Time::FAR`] while the kernel has room.
    pub stall: Time,
    /// Since when something has been waiting for room in the kernel; [`Time::FAR`] if nothing is.
    pub since: Time,
}

impl Default for Output {
    fn default() -> Output {
        Output { bytes: Vec::new(), sent: 0, tickets: VecDeque::new(), stall: Time::FAR, since: Time::FAR }
    }
}

impl Output {
    /// Bytes still to send.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Takes a message in.
    pub fn push(&mut self, message: &[u8], ticket: Ticket) {
        // Bytes already sent are dropped when they are the larger part, so that each byte moves once.
        if self.sent > 16_384 && self.sent > self.pending() {
            self.bytes.drain(..self.sent);
            for (end, _) in &mut self.tickets {
                *end -= self.sent;
            }
            self.sent = 0;
        }
        self.bytes.extend_from_slice(message);
        if ticket.token != 0 {
            self.tickets.push_back((self.bytes.len(), ticket));
        }
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.tickets.clear();
        self.sent = 0;
        self.stall = Time::FAR;
        self.since = Time::FAR;
    }

    /// Notes that the kernel took `n` more bytes, and shows `left` the messages that have left whole.
    pub fn advance(&mut self, n: usize, mut left: impl FnMut(Ticket)) {
        self.sent += n;
        while self.tickets.front().is_some_and(|(end, _)| *end <= self.sent) {
            self.tickets.pop_front().into_iter().for_each(|(_, ticket)| left(ticket));
        }
    }
}

/// One stream connection.
pub struct Conn {
    /// The socket.
    pub fd: OwnedFd,
    /// The peer.
    pub remote: SocketAddr,
    /// Our end.
    pub listener: ListenerId,
    /// Where it stands.
    pub state: State,
    /// Whether the peer opened it (and is counted for its source).
    pub inbound: bool,
    /// Whether it was ever open in both directions.
    pub was_open: bool,
    /// How much it matters.
    pub weight: Weight,
    /// Whether it is in the list of those that make room for others.
    pub listed: bool,
    /// How often it is in use, see [`wire::Outbox::uses`].
    pub uses: u16,
    /// Whether a whole message has come, or we opened it ourselves.
    pub useful: bool,
    /// Whether it is in the list of connections with input left over.
    pub waiting: bool,
    /// Whether it is in the list of connections with output to send.
    pub dirty: bool,
    /// Workers that have not said yet that they have answered what they have of it.
    pub owed: u16,
    /// It is to be closed once it is open and what is queued has left.
    pub ends: Option<Reason>,
    /// Why it is being closed.
    pub reason: Reason,
    /// What epoll watches.
    pub interest: Interest,
    /// When it was accepted or begun.
    pub opened: Time,
    /// When the present state, or the silence in it, has lasted too long.
    pub deadline: Time,
    /// Until then it counts as congested: it was of late, for longer than a burst lasts.
    pub narrow: Time,
    /// Until then it matters; if it is loose and not in use, until then it may be silent.
    pub lasts: Time,
    /// Before this, no ping is answered.
    pub next_pong: Time,
    /// Bytes received and not consumed.
    pub input: Option<Box<Input>>,
    /// Bytes to send.
    pub output: Option<Box<Output>>,
    /// What was sent lately.
    pub recent: Option<Box<Recent>>,
}

impl Conn {
    /// A new connection, watched for what its state needs.
    pub fn new(fd: OwnedFd, remote: SocketAddr, listener: ListenerId, inbound: bool, now: Time) -> Conn {
        Conn {
            fd,
            remote,
            listener,
            state: if inbound { State::Open } else { State::Connecting },
            owed: 0,
            ends: None,
            inbound,
            was_open: inbound,
            weight: Weight::Full,
            listed: false,
            uses: 0,
            useful: !inbound,
            waiting: false,
            dirty: false,
            reason: Reason::Peer,
            interest: if inbound { Interest::READ } else { Interest::WRITE },
            opened: now,
            deadline: Time::FAR,
            narrow: Time::ZERO,
            lasts: if inbound { Time::ZERO } else { Time::FAR },
            next_pong: Time::ZERO,
            input: None,
            output: None,
            recent: None,
        }
    }

    /// Whether it has never mattered.
    pub fn is_loose(&self) -> bool {
        self.weight != Weight::Full
    }

    /// Forgets what was sent long ago.
    pub fn forget(&mut self, patience: Duration, now: Time) {
        if self.recent.as_mut().is_some_and(|recent| !recent.keep(patience, now)) {
            self.recent = None;
        }
    }

    /// When its silence has lasted too long, if it is silent from now on; `message`: one has just come.
    pub fn silence(&mut self, limits: &StreamLimits, now: Time, message: bool) -> Time {
        match limits.idle_loose {
            Some(short) if self.uses == 0 && (self.is_loose() || self.lasts <= now) => {
                if message {
                    self.lasts = self.lasts.max(now + short);
                }
                self.lasts.max(now)
            }
            _ => now + limits.idle,
        }
    }

    /// The flow of messages that come in on it.
    pub fn flow(&self, id: ConnId) -> Flow {
        Flow { transport: Transport::Tcp, listener: self.listener, remote: self.remote, conn: Some(id) }
    }

    /// When it has to be looked at.
    pub fn due(&self) -> Time {
        self.output.as_ref().map_or(self.deadline, |output| self.deadline.min(output.stall))
    }

    /// Whether so many bytes more are too many for what could be left unsent.
    pub fn is_congested(&mut self, more: usize, limits: &StreamLimits, now: Time) -> bool {
        let blocked = self.blocked();
        let Some(output) = self.output.as_ref().filter(|_| blocked) else { return false };
        if output.since + limits.queue_patience <= now {
            self.narrow = now + CONGESTED;
        }
        let room = match now < self.narrow {
            true => limits.max_queued_yielding,
            false => 8 * limits.max_queued_yielding,
        };
        output.pending() + more > room
    }

    /// Whether the kernel has no room for more output.
    pub fn blocked(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.stall != Time::FAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_leave_with_their_last_byte() {
        let mut output = Output::default();
        output.push(b"abc", Ticket { token: 1, ..Ticket::none(0) });
        output.push(b"de", Ticket::none(0));
        output.push(b"f", Ticket { token: 2, ..Ticket::none(0) });
        output.advance(2, |_| {});
        assert_eq!(output.tickets.len(), 2);
        output.advance(3, |_| {});
        assert_eq!(output.tickets.iter().map(|(_, t)| t.token).collect::<Vec<_>>(), [2]);
        assert_eq!(output.pending(), 1);
    }

    #[test]
    fn what_is_sent_makes_room_and_keeps_the_ends_right() {
        let mut output = Output::default();
        output.push(&[1; 40_000], Ticket { token: 1, ..Ticket::none(0) });
        output.advance(39_999, |_| {});
        output.push(&[2; 10], Ticket { token: 2, ..Ticket::none(0) });
        assert_eq!((output.sent, output.pending()), (0, 11));
        output.advance(1, |_| {});
        assert_eq!(output.tickets.front(), Some(&(11, Ticket { token: 2, ..Ticket::none(0) })));
    }

    #[test]
    fn what_left_is_remembered_as_long_as_senders_have_patience() {
        for seconds in [16, 32, 64] {
            let mut recent = Recent::default();
            recent.add(Time::from_secs(1), Ticket { token: 1, ..Ticket::none(0) });
            let (patience, end) = (Duration::from_secs(seconds), Time::from_secs(seconds + 1));
            assert!(recent.keep(patience, Time::from_secs(seconds)), "{seconds}");
            assert!(!recent.keep(patience, end), "{seconds}");
        }
    }

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Conn>() <= 120, "{} bytes", size_of::<Conn>());
    }
}
