//! Which handshakes of TLS have a place, and which one makes room where none is left.
//!
//! A handshake has its place from the first byte that its client sends, so silent connections take none. If
//! all places are taken, a handshake that has made no progress for the longest time is closed. Of the
//! oldest, it is one from the source that has most. None is closed for a source that has more itself. So a
//! few sources cannot displace the others.

use super::caps::{Caps, Full, source};
use super::conn::Conn;
use super::secure::Progress;
use super::table::Table;
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::ConnId;

/// How many of the oldest are compared.
const WINDOW: usize = 32;

/// A handshake as it was when it began, or when we answered.
type Entry = (ConnId, Progress);

/// The handshakes of one worker that have a place.
pub struct Places {
    /// Those longest without progress first. Some entries are outdated: their handshake is over or has made
    /// progress.
    order: VecDeque<Entry>,
    /// How many there are.
    taken: usize,
    /// A buffer for those that are compared.
    window: Vec<Entry>,
}

fn is_current(table: &Table, (id, progress): Entry) -> bool {
    table.get(id).and_then(Conn::half_made) == Some(progress)
}

impl Places {
    /// All free.
    pub fn new() -> Places {
        Places { order: VecDeque::new(), taken: 0, window: Vec::with_capacity(WINDOW) }
    }

    /// Whether this worker has none.
    pub fn are_free(&self) -> bool {
        self.taken == 0
    }

    /// A handshake gets its place.
    pub fn take(&mut self, id: ConnId, table: &Table) {
        self.taken += 1;
        self.list((id, Progress::Begun), table);
    }

    /// A handshake has been answered.
    pub fn progress(&mut self, id: ConnId, table: &Table) {
        self.list((id, Progress::Answered), table);
    }

    /// A handshake with a place is over.
    pub fn give_back(&mut self) {
        invariant::holds!(self.taken > 0, "a place was taken before it is given back");
        self.taken = self.taken.saturating_sub(1);
    }

    fn list(&mut self, entry: Entry, table: &Table) {
        self.order.push_back(entry);
        // Outdated entries are removed before they are the larger part.
        if self.order.len() > 2 * self.taken + 64 {
            self.order.retain(|entry| is_current(table, *entry));
        }
    }

    /// The handshake to close for one from `ip`, because the cap `full` is reached. A handshake whose bytes
    /// wait for us cannot make progress, so it stays.
    pub fn make_room(&mut self, full: Full, ip: IpAddr, table: &Table, caps: &Caps) -> Option<ConnId> {
        let least = match full {
            Full::Process => caps.half_made_of(ip).max(1),
            Full::Source => 1,
        };
        let mut found: Option<(u32, ConnId)> = None;
        while self.window.len() < WINDOW
            && let Some(entry) = self.order.pop_front()
        {
            let Some(conn) = table.get(entry.0).filter(|_| is_current(table, entry)) else { continue };
            self.window.push(entry);
            let weight = match full {
                _ if conn.is_waiting() => continue,
                Full::Process => caps.half_made_of(conn.remote().ip()),
                Full::Source => u32::from(source(conn.remote().ip()) == source(ip)),
            };
            if weight >= found.map_or(least, |(most, _)| most + 1) {
                found = Some((weight, entry.0));
            }
        }
        self.window.drain(..).rev().for_each(|entry| self.order.push_front(entry));
        found.map(|(_, id)| id)
    }
}
