//! Bytes to send, and what is remembered of those that left.

use super::link::Link;
use crate::config::StreamLimits;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use wire::Time;

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
struct Recent(VecDeque<(Time, Ticket)>);

impl Recent {
    /// Remembers a message that has left.
    fn add(&mut self, now: Time, ticket: Ticket) {
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
}

/// Bytes to send, and who wants to hear about them. A buffer of a pool.
pub struct Output {
    /// The bytes, those before `sent` taken by the kernel.
    bytes: Vec<u8>,
    /// First byte not taken by the kernel.
    sent: usize,
    /// Ends of messages in `bytes`, ascending: of those with a token, or of all if each is
    /// written by itself.
    tickets: VecDeque<(usize, Ticket)>,
    /// When the peer must have taken something; [`Time::FAR`] while the kernel has room.
    stall: Time,
    /// Since when something has been waiting for room in the kernel; [`Time::FAR`] if nothing is.
    since: Time,
}

impl Default for Output {
    fn default() -> Output {
        Output { bytes: Vec::new(), sent: 0, tickets: VecDeque::new(), stall: Time::FAR, since: Time::FAR }
    }
}

impl Output {
    /// Bytes still to send.
    fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Bytes that it has room for.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Takes a message in; `apart`: it is written by itself.
    fn push(&mut self, message: &[u8], ticket: Ticket, apart: bool) {
        // Bytes already sent are dropped when they are the larger part, so that each byte moves once.
        if self.sent > 16_384 && self.sent > self.pending() {
            self.bytes.drain(..self.sent);
            for (end, _) in &mut self.tickets {
                *end -= self.sent;
            }
            self.sent = 0;
        }
        self.bytes.extend_from_slice(message);
        if ticket.token != 0 || apart {
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

    /// What is to be written next: all, or one message.
    fn next(&self, apart: bool) -> &[u8] {
        let end = self.tickets.front().filter(|_| apart).map_or(self.bytes.len(), |(end, _)| *end);
        self.bytes.get(self.sent..end).unwrap_or_default()
    }

    /// Notes that the kernel took `n` more bytes, and shows `left` the messages that have left whole.
    fn advance(&mut self, n: usize, mut left: impl FnMut(Ticket)) {
        self.sent += n;
        while self.tickets.front().is_some_and(|(end, _)| *end <= self.sent) {
            self.tickets.pop_front().into_iter().for_each(|(_, ticket)| left(ticket));
        }
    }
}

/// What a connection sends. Its buffers exist only while something is in them.
pub struct Outgoing {
    output: Option<Box<Output>>,
    recent: Option<Box<Recent>>,
    /// Until then it counts as congested: it was lately, for longer than a burst lasts.
    narrow: Time,
}

impl Outgoing {
    /// Nothing to send.
    pub fn new() -> Outgoing {
        Outgoing { output: None, recent: None, narrow: Time::ZERO }
    }

    /// Bytes still to send.
    #[inline]
    pub fn pending(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.pending())
    }

    /// Whether nothing is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.output.is_none()
    }

    /// When the peer must have taken something; [`Time::FAR`] if it need not.
    pub fn stall(&self) -> Time {
        self.output.as_ref().map_or(Time::FAR, |output| output.stall)
    }

    /// Whether the kernel has no room for more.
    pub fn is_blocked(&self) -> bool {
        self.stall() != Time::FAR
    }

    /// Queues a message, in the buffer that `fresh` gives if there is none; `apart`: it is written by itself.
    /// Bytes that are queued then.
    pub fn push(
        &mut self,
        message: &[u8],
        ticket: Ticket,
        apart: bool,
        fresh: impl FnOnce() -> Box<Output>,
    ) -> usize {
        let output = self.output.get_or_insert_with(fresh);
        output.push(message, ticket, apart);
        output.pending()
    }

    /// Masks the last `len` queued bytes (RFC 6455 section 5.3).
    pub fn mask(&mut self, len: usize, key: [u8; 4]) {
        let Some(output) = &mut self.output else { return };
        let start = output.bytes.len().saturating_sub(len);
        websocket::mask(output.bytes.get_mut(start..).unwrap_or_default(), key);
    }

    /// Writes as much as the socket takes, what a layer owes first. Returns the number of bytes; `None` if
    /// there is nothing to write.
    pub fn send(&mut self, link: &mut Link, scratch: &mut Vec<u8>, now: Time) -> Option<io::Result<usize>> {
        let apart = link.has_records();
        let mut taken = 0;
        loop {
            let output = self.output.as_mut()?;
            let bytes = if link.is_ready() { output.next(apart) } else { &[] };
            match link.write(bytes, scratch) {
                Ok(n) => {
                    let recent = &mut self.recent;
                    output.advance(n, |ticket| {
                        if ticket.token != 0 {
                            recent.get_or_insert_default().add(now, ticket);
                        }
                    });
                    taken += n;
                    if !apart || output.pending() == 0 {
                        return Some(Ok(taken));
                    }
                }
                // The next write says it again.
                Err(_) if taken > 0 => return Some(Ok(taken)),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The kernel has no room for the rest. It must have some by `until`.
    pub fn block(&mut self, until: Time, now: Time) {
        if let Some(output) = &mut self.output {
            output.stall = until;
            output.since = output.since.min(now);
        }
    }

    /// The kernel has room again; `true` if something is queued.
    pub fn unblock(&mut self) -> bool {
        self.output.as_mut().map(|output| output.stall = Time::FAR).is_some()
    }

    /// The buffer, which is empty.
    pub fn take_buffer(&mut self) -> Option<Box<Output>> {
        debug_assert!(self.pending() == 0, "everything has left");
        self.output.take()
    }

    /// Whether `more` bytes are too many for what could be left unsent.
    pub fn is_congested(&mut self, more: usize, limits: &StreamLimits, now: Time) -> bool {
        let Some(output) = self.output.as_ref().filter(|output| output.stall != Time::FAR) else {
            return false;
        };
        if output.since + limits.queue_patience <= now {
            self.narrow = now + CONGESTED;
        }
        let room = match now < self.narrow {
            true => limits.max_queued_yielding,
            false => 8 * limits.max_queued_yielding,
        };
        output.pending() + more > room
    }

    /// Forgets what was sent long ago.
    pub fn forget(&mut self, patience: Duration, now: Time) {
        if self.recent.as_mut().is_some_and(|recent| !recent.keep(patience, now)) {
            self.recent = None;
        }
    }

    /// Who wants to hear of what was queued still, and of what had left lately.
    pub fn into_tickets(self) -> (impl Iterator<Item = Ticket>, impl Iterator<Item = Ticket>) {
        let queued = self.output.map(|output| output.tickets).unwrap_or_default();
        let left = self.recent.map(|recent| recent.0).unwrap_or_default();
        (queued.into_iter().map(|(_, ticket)| ticket), left.into_iter().map(|(_, ticket)| ticket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_leave_with_their_last_byte() {
        let mut output = Output::default();
        output.push(b"abc", Ticket { token: 1, ..Ticket::none(0) }, false);
        output.push(b"de", Ticket::none(0), false);
        output.push(b"f", Ticket { token: 2, ..Ticket::none(0) }, false);
        output.advance(2, |_| {});
        assert_eq!(output.tickets.len(), 2);
        output.advance(3, |_| {});
        assert_eq!(output.tickets.iter().map(|(_, t)| t.token).collect::<Vec<_>>(), [2]);
        assert_eq!(output.pending(), 1);
    }

    #[test]
    fn what_is_sent_makes_room_and_keeps_the_ends_right() {
        let mut output = Output::default();
        output.push(&[1; 40_000], Ticket { token: 1, ..Ticket::none(0) }, false);
        output.advance(39_999, |_| {});
        output.push(&[2; 10], Ticket { token: 2, ..Ticket::none(0) }, false);
        assert_eq!((output.sent, output.pending()), (0, 11));
        output.advance(1, |_| {});
        assert_eq!(output.tickets.front(), Some(&(11, Ticket { token: 2, ..Ticket::none(0) })));
    }

    #[test]
    fn messages_that_are_written_apart_keep_their_ends() {
        let mut output = Output::default();
        for (message, token) in [(&b"abc"[..], 0), (b"de", 5), (b"f", 0)] {
            output.push(message, Ticket { token, ..Ticket::none(0) }, true);
        }
        let (mut written, mut left) = (Vec::new(), Vec::new());
        while output.pending() > 0 {
            written.push(output.next(true).to_vec());
            output.advance(output.next(true).len(), |ticket| left.push(ticket.token));
        }
        assert_eq!(written, [&b"abc"[..], b"de", b"f"]);
        assert_eq!(left, [0, 5, 0]);
        output.push(b"gh", Ticket::none(0), false);
        output.push(b"ij", Ticket::none(0), false);
        assert_eq!(output.next(false), b"ghij");
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
}
