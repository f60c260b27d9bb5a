//! How a connection ends: other workers may have messages of it, and answers to these are still to leave.
//!
//! The worker of the connection reads no more of it and asks the others to say when they have answered
//! what they were given. The question goes the way that the messages went, and the answer the way that
//! their answers go, so each comes behind them. A worker that does not answer in time is not waited for.

use super::Streams;
use super::conn::Conn;
use super::phase::{Reason, State};
use crate::sys::{Interest, Poller};
use websocket::CloseCode;
use wire::{ConnId, Time};

/// Connections that are to end.
pub struct Ending {
    /// Workers besides this one.
    others: u16,
    /// Connections that the other workers have not been asked about yet.
    unasked: Vec<ConnId>,
}

impl Ending {
    /// None, on one of `workers` workers.
    pub fn new(workers: u16) -> Ending {
        Ending { others: workers.saturating_sub(1), unasked: Vec::new() }
    }

    /// Whether other workers may have messages of a connection.
    fn concerns(&self, conn: &Conn) -> bool {
        self.others > 0 && conn.is_useful() && matches!(conn.state(), State::Open | State::HalfClosed)
    }
}

impl Streams {
    /// The connections that the other workers have to be asked about.
    pub fn take_ending(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.ending.unasked)
    }

    /// Closes a connection once what was read on it is answered and what is queued on it has left.
    pub fn close_gently(&mut self, id: ConnId, reason: Reason, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        match conn.state() {
            State::Ending | State::Closing | State::Lingering => {}
            // What was queued leaves first, once it is open.
            State::Connecting | State::Handshake if !conn.has_no_output() => {
                conn.phase_mut().ends_once_open(reason);
            }
            State::Connecting | State::Handshake => self.close(id, Reason::Connect),
            State::Open | State::HalfClosed if self.ending.concerns(conn) => {
                self.end(id, reason, poller, now)
            }
            State::Open | State::HalfClosed => self.begin_close(id, reason, poller, now),
        }
    }

    /// Closes a connection at once, but for what other workers may still have to answer.
    pub fn close_when_answered(&mut self, id: ConnId, reason: Reason, poller: &Poller, now: Time) {
        match self.table.get(id) {
            Some(conn) if reason.waits() && self.ending.concerns(conn) => self.end(id, reason, poller, now),
            // The peer is told by a Close frame.
            Some(conn) if reason == Reason::Idle && conn.link().web().is_some() => {
                self.begin_close(id, reason, poller, now);
            }
            _ => self.close(id, reason),
        }
    }

    /// Reads no more, and has the other workers asked.
    fn end(&mut self, id: ConnId, reason: Reason, poller: &Poller, now: Time) {
        let left = self.take_input(id);
        self.recycle(left);
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.phase_mut().begins_to_end(reason, self.ending.others);
        conn.set_deadline(now + self.limits.half_closed);
        conn.watch_for_room_only(id, poller);
        self.shared.directory.remove(&conn.key(), id);
        self.ending.unasked.push(id);
        self.arm(id);
    }

    /// One of the other workers has answered what it had of a connection.
    pub fn settled(&mut self, id: ConnId, poller: &Poller, now: Time) {
        if self.table.get_mut(id).is_some_and(|conn| conn.phase_mut().settles()) {
            self.finish(id, poller, now);
        }
    }

    /// The other workers have answered, or their time is over.
    pub fn finish(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get(id) else { return };
        let (reason, empty) = (conn.phase().reason(), conn.has_no_output() && conn.link().web().is_none());
        match reason {
            Reason::Idle | Reason::Slow if empty => self.close(id, reason),
            _ => self.begin_close(id, reason, poller, now),
        }
    }

    pub(super) fn begin_close(&mut self, id: ConnId, reason: Reason, poller: &Poller, now: Time) {
        let left = self.take_input(id);
        self.recycle(left);
        self.write_close(id, CloseCode::NORMAL);
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.phase_mut().begins_to_close(reason);
        conn.set_deadline(now + self.limits.write_stall);
        self.shared.directory.remove(&conn.key(), id);
        if conn.has_no_output() {
            self.linger(id, poller, now);
        } else {
            self.send(id, poller, now);
            self.arm(id);
        }
    }

    pub(super) fn linger(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        let held = conn.link().held();
        let finished = conn.link_mut().finish();
        self.buffers.holds_now(held, conn.link().held());
        if finished.is_err() {
            let reason = conn.phase().reason();
            return self.close(id, reason);
        }
        conn.phase_mut().lingers();
        conn.set_deadline(now + self.limits.linger);
        conn.watch(Interest::READ, id, poller);
        self.arm(id);
    }
}
