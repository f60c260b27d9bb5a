//! Connections that never mattered: without a registration or an answered call. When room is short they are
//! closed first, the oldest before the others, except those in use (see [`wire::Outbox::uses`]).

use super::conn::{Conn, Reason, State, Ticket, Weight};
use super::{Caps, Streams, caps};
use std::collections::VecDeque;
use std::mem;
use std::net::IpAddr;
use std::time::Duration;
use wire::{ConnId, Time};

/// Accepted connections, the oldest first. Such as matter or are gone by now stand among them.
#[derive(Default)]
pub struct Loose(VecDeque<ConnId>);

/// How often room is made for one connection: another worker may take the room that was made.
const ATTEMPTS: usize = 8;

impl Streams {
    /// Counts a connection accepted from `ip`, for which an older one may have to go. `false`: it cannot be
    /// taken.
    pub(super) fn admit(&mut self, ip: IpAddr, now: Time) -> bool {
        let loose = self.limits.idle_loose.is_some();
        for _ in 0..ATTEMPTS {
            match self.shared.caps.admit(ip, loose) {
                Err(caps::Full::Process) => self.shared.caps.note_short(now),
                admitted => return admitted.is_ok(),
            }
            if !self.drop_oldest() {
                break;
            }
        }
        false
    }

    /// Notes an accepted connection that has been admitted.
    pub(super) fn enlist(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id).filter(|_| self.limits.idle_loose.is_some()) else { return };
        conn.weight = Weight::Loose;
        self.list(id);
    }

    /// Puts a loose connection at the end of those that make room.
    fn list(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if mem::replace(&mut conn.listed, true) {
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
            conn.listed = false;
            if conn.weight == Weight::Loose {
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
        conn.uses = conn.uses.saturating_sub(1);
        if conn.uses > 0 {
            return;
        }
        conn.bare(&self.shared.caps);
        let Some(short) = self.limits.idle_loose.filter(|_| conn.is_loose()) else { return };
        conn.lasts = conn.lasts.max(now + short);
        let silent = conn.state == State::Open && conn.useful && conn.input.is_none();
        if silent {
            conn.deadline = conn.silence(&self.limits, now, false);
        }
        self.arm(id);
        self.list(id);
    }
}

impl Conn {
    /// Notes what a message that it carries means for it.
    pub(super) fn mark(&mut self, ticket: &Ticket, caps: &Caps, now: Time) {
        self.uses = self.uses.saturating_add(u16::from(ticket.uses));
        if self.is_loose() && ticket.uses {
            if self.uses == 1 && caps.spare() {
                self.weight = Weight::Spared;
            }
            return;
        }
        self.lasts = self.lasts.max(now + Duration::from_secs(ticket.keeps.into()));
        if self.is_loose() {
            caps.tie();
            self.bare(caps);
            self.weight = Weight::Full;
        }
    }

    /// It has to make room again if it did not have to.
    pub(super) fn bare(&mut self, caps: &Caps) {
        if self.weight == Weight::Spared {
            self.weight = Weight::Loose;
            caps.bare();
        }
    }
}
