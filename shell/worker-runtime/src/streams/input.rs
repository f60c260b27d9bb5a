//! Bytes received and not consumed: their buffers and how long they may wait.

use super::conn::{Input, State};
use super::{KEEP_BUFFERS, KEEP_CAPACITY, Streams};
use std::time::Duration;
use wire::{ConnId, Time};

impl Streams {
    /// An empty buffer for input.
    pub fn take_input(&mut self) -> Box<Input> {
        self.inputs.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, input: Option<Box<Input>>) {
        if let Some(mut input) = input
            && self.inputs.len() < KEEP_BUFFERS
            && input.bytes.capacity() <= KEEP_CAPACITY
        {
            input.bytes.clear();
            input.start = 0;
            input.resume = 0;
            input.begun = false;
            self.inputs.push(input);
        }
    }

    /// Leaves input with its connection. `false` if all buffers together would hold too much: it is the
    /// connection that wants to add to them that goes.
    #[must_use]
    pub fn park(&mut self, id: ConnId, input: Box<Input>) -> bool {
        let Some(conn) = self.table.get_mut(id) else {
            self.recycle(Some(input));
            return true;
        };
        if self.held + input.bytes.len() > self.limits.max_held {
            self.recycle(Some(input));
            return false;
        }
        self.held += input.bytes.len();
        conn.input = Some(input);
        true
    }

    /// Takes the input that waits at a connection.
    pub fn unpark(&mut self, id: ConnId) -> Option<Box<Input>> {
        let input = self.table.get_mut(id)?.input.take()?;
        self.held -= input.bytes.len();
        Some(input)
    }

    /// Sets the deadline that fits what has been read; `message`: a whole one was.
    pub fn set_read_deadline(&mut self, id: ConnId, message: bool, now: Time) {
        let limits = self.limits;
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.state != State::Open {
            return;
        }
        let silence = match conn.useful {
            true => conn.silence(&limits, now, message),
            false => conn.opened + limits.first_message,
        };
        conn.deadline = match &conn.input {
            Some(input) if !conn.waiting && input.begun => {
                let bytes = (input.bytes.len() - input.start) as u64;
                let seconds = bytes / u64::from(limits.min_bytes_per_second.max(1));
                silence.min(input.since + limits.message + Duration::from_secs(seconds))
            }
            _ => silence,
        };
        self.arm(id);
    }
}
