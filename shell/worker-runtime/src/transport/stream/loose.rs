//! Connections that never mattered: without a registration or an answered call. When room is short they are
//! closed first, the oldest before the others, except those in use (see [`wire::Outbox::uses`]).

use super::conn::Conn;
use super::phase::{Reason, State};
use super::{Streams, caps};
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::{ConnId, Time};

/// Accepted connections, the oldest first. Such as matter or are gone by now stand among them.
#[derive(Default)]
pub struct Loose(VecDeque<ConnId>);

/// How often room is made for one connection: another worker may take the room that was made.
const ATTEMPTS: usize = 8;

/// Counts a connection accepted from `ip`, for which an older one may have to go.
fn finds_room(streams: &mut Streams, ip: IpAddr, now: Time) -> bool {
    let loose = streams.limits.idle_loose.is_some();
    for _ in 0..ATTEMPTS {
        match streams.shared.caps.admit(ip, loose) {
            Err(caps::Full::Process) => streams.shared.caps.note_short(now),
            admitted => return admitted.is_ok(),
        }
        if !streams.drop_oldest() {
            break;
        }
    }
    false
}

impl Streams {
    /// Counts a connection accepted from `ip`, for which an older one may have to go. `false`: it cannot be
    /// taken, which was counted and logged.
    pub(super) fn admit(&mut self, ip: IpAddr, now: Time) -> bool {
        let why = match self.acceptor.is_held_up() {
            true => "another worker of this process does not keep up",
            false if finds_room(self, ip, now) => return true,
            false => "too many connections, of all or of one source",
        };
        self.counters.tcp_refused.one();
        self.acceptor.log(why, now);
        false
    }

    /// Notes an accepted connection that has been admitted.
    pub(super) fn enlist(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id).filter(|_| self.limits.idle_loose.is_some()) else { return };
        conn.standing().begins_loose();
        self.list(id);
    }

    /// Puts a loose connection at the end of those that make room.
    fn list(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if !conn.standing().list() {
            return;
        }
        self.loose.0.push_back(id);
        // Those that are gone are forgotten before they are the larger part.
        if self.loose.0.len() > 2 * self.table.len() + 64 {
            let table = &self.table;
            self.loose.0.retain(|&id| table.get(id).is_some_and(Conn::is_loose));
        }
    }

    /// Closes the oldest connection that never mattered and is not in use; `false` if there is none.
    fn drop_oldest(&mut self) -> bool {
        while let Some(id) = self.loose.0.pop_front() {
            let Some(conn) = self.table.get_mut(id) else { continue };
            if conn.standing().unlist() {
                self.close(id, Reason::Room);
                return true;
            }
        }
        false
    }

    /// A connection is not in use any more for one of the reasons for which it was. After the last it is as
    /// loose as before.
    pub fn release(&mut self, id: ConnId, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if !conn.standing().release(&self.shared.caps) {
            return;
        }
        let Some(short) = self.limits.idle_loose.filter(|_| conn.is_loose()) else { return };
        conn.standing().extend(now + short);
        if conn.state() == State::Open {
            conn.falls_silent(&self.limits, now, false);
        }
        self.arm(id);
        self.list(id);
    }
}
