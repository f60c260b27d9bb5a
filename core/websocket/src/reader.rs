//! Parses received bytes into messages and control frames, in place.

use crate::connection::Assembly;
use crate::frame::{FrameHeader, Opcode};
use crate::{CloseCode, Connection, Fault, Kind, Limits, mask};
use core::ops::Range;

/// What was received. Ranges are of the buffer that was given to [`Connection::read`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A whole message, unmasked, its fragments together. Text is valid UTF-8. It may be empty.
    Message {
        /// Its type.
        kind: Kind,
        /// Its bytes.
        payload: Range<usize>,
    },
    /// To be answered by [`crate::ControlFrame::pong`]. Of several that were read together it is enough to
    /// answer the last (RFC 6455 section 5.5.3).
    Ping(Range<usize>),
    /// The answer to a Ping, or an unsolicited sign of life.
    Pong(Range<usize>),
    /// The last event. To be answered by [`Connection::close`], unless that was called before.
    Close {
        /// Why, as far as the peer says.
        code: Option<CloseCode>,
        /// A text for the log, valid UTF-8. It may be empty.
        reason: Range<usize>,
    },
}

impl Connection {
    /// Begins to read `buffer`: the bytes that the last [`Reader::finish`] said to keep, then those received
    /// since.
    ///
    /// Take events by [`Reader::next_event`] and end with [`Reader::finish`]; without it the place in the
    /// stream is lost.
    pub fn read<'a>(&'a mut self, buffer: &'a mut [u8], limits: &Limits) -> Reader<'a> {
        debug_assert!(self.message.len as usize <= buffer.len(), "kept bytes are missing");
        let unread = (self.message.len as usize).min(buffer.len());
        Reader { connection: self, buffer, limits: *limits, start: 0, unread, offered: false }
    }
}

/// One pass over received bytes; see [`Connection::read`].
///
/// The message that has begun is at `start`, as long as the connection says. The bytes not yet looked at
/// begin at `unread`. The bytes between them are finished. Without a message both places are the same.
#[derive(Debug)]
#[must_use = "the place in the stream is lost without `finish`"]
pub struct Reader<'a> {
    connection: &'a mut Connection,
    buffer: &'a mut [u8],
    limits: Limits,
    start: usize,
    unread: usize,
    /// Whether the caller was given the message.
    offered: bool,
}

impl Reader<'_> {
    /// The next event; `None` if there is no whole one. A fault ends the connection: the caller sends
    /// [`Connection::close_for`], and what comes after it is discarded.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event>, Fault> {
        if self.connection.discards() {
            return Ok(None);
        }
        self.release();
        if self.connection.message.whole {
            return Ok(self.offer());
        }
        self.next_frames().inspect_err(|_| self.connection.fail())
    }

    /// The bytes of an event's range.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or_default()
    }

    /// Takes the message of the last event back, because there is no room for it now. It is the first event
    /// of the next call of [`Connection::read`].
    pub fn put_back(&mut self) {
        debug_assert!(self.offered, "there is no message to put back");
        self.offered = false;
    }

    /// Ends the pass. The bytes in the range it returns must come first in the buffer of the next call,
    /// followed by what has come since. If it is empty, the connection needs no buffer until something comes.
    /// An empty message that was put back is no byte of it: [`Connection::has_begun`] tells.
    pub fn finish(mut self) -> Range<usize> {
        self.release();
        let len = self.buffer.len();
        if self.connection.discards() {
            self.connection.message = Assembly::default();
            return len..len;
        }
        // Each byte is moved here at most once for each time that its message gets longer before it.
        let end = self.start + self.connection.message.len as usize;
        if end < self.unread {
            self.buffer.copy_within(self.unread.., end);
        }
        self.start..len - (self.unread - end)
    }

    /// Forgets the message that the caller was given.
    fn release(&mut self) {
        if core::mem::take(&mut self.offered) {
            self.connection.message = Assembly::default();
            self.start = self.unread;
        }
    }

    /// Gives the caller the whole message.
    fn offer(&mut self) -> Option<Event> {
        self.offered = true;
        let Assembly { kind, len, .. } = self.connection.message;
        Some(Event::Message { kind: kind?, payload: self.start..self.start + len as usize })
    }

    /// Reads frames until there is an event.
    fn next_frames(&mut self) -> Result<Option<Event>, Fault> {
        loop {
            let rest = self.buffer.get(self.unread..).unwrap_or_default();
            let Some(header) = FrameHeader::read(rest, self.connection.role())? else { return Ok(None) };
            self.check(&header)?;
            // Within the limit of a message, or 125 bytes.
            let payload = header.payload as usize;
            if rest.len() - header.len < payload {
                return Ok(None);
            }
            let begin = self.unread + header.len;
            self.unread = begin + payload;
            let range = begin..self.unread;
            let event = match header.opcode {
                Opcode::Continuation | Opcode::Begin(_) => self.data(&header, range)?,
                _ => Some(self.control(&header, range)?),
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Refuses a frame for its place among the others, before its payload is there.
    fn check(&self, header: &FrameHeader) -> Result<(), Fault> {
        let message = &self.connection.message;
        match (header.opcode, message.kind) {
            (Opcode::Continuation, None) => return Err(Fault::NothingToContinue),
            (Opcode::Begin(_), Some(_)) => return Err(Fault::MessageNotFinished),
            (Opcode::Continuation | Opcode::Begin(_), _) => {}
            _ => return Ok(()),
        }
        if header.payload > u64::from(self.limits.message.saturating_sub(message.len)) {
            return Err(Fault::TooBig);
        }
        if message.fragments >= self.limits.fragments { Err(Fault::TooManyFragments) } else { Ok(()) }
    }

    /// Adds a frame to the message, and offers the message if that was its last.
    fn data(&mut self, header: &FrameHeader, range: Range<usize>) -> Result<Option<Event>, Fault> {
        let message = &mut self.connection.message;
        let len = range.len();
        let mut at = range.start;
        if let Opcode::Begin(kind) = header.opcode {
            message.kind = Some(kind);
            self.start = at;
        } else {
            at = self.start + message.len as usize;
            self.buffer.copy_within(range, at);
        }
        if let Some(key) = header.key {
            mask(&mut self.buffer[at..at + len], key);
        }
        message.len += len as u32;
        message.fragments += 1;
        message.whole = header.fin;
        if !header.fin {
            return Ok(None);
        }
        // The text as a whole, because a fragment may end within a character (section 5.6).
        let whole = &self.buffer[self.start..self.start + message.len as usize];
        if message.kind == Some(Kind::Text) && core::str::from_utf8(whole).is_err() {
            return Err(Fault::InvalidText);
        }
        Ok(self.offer())
    }

    /// Reads a control frame. The message that has begun stays as it is.
    fn control(&mut self, header: &FrameHeader, range: Range<usize>) -> Result<Event, Fault> {
        let payload = &mut self.buffer[range.clone()];
        if let Some(key) = header.key {
            mask(payload, key);
        }
        let event = match header.opcode {
            Opcode::Ping => {
                self.connection.count_ping();
                Event::Ping(range)
            }
            Opcode::Close => {
                let code = close_code(payload)?;
                self.connection.close_received();
                Event::Close { code, reason: (range.start + 2).min(range.end)..range.end }
            }
            _ => Event::Pong(range),
        };
        if !self.connection.has_begun() {
            self.start = self.unread;
        }
        Ok(event)
    }
}

/// The status code in a Close frame (section 5.5.1).
fn close_code(payload: &[u8]) -> Result<Option<CloseCode>, Fault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok(None) } else { Err(Fault::InvalidCloseCode) };
    };
    let code = CloseCode::new(u16::from_be_bytes(*code)).ok_or(Fault::InvalidCloseCode)?;
    match core::str::from_utf8(reason) {
        Ok(_) => Ok(Some(code)),
        Err(_) => Err(Fault::InvalidCloseReason),
    }
}
