//! The stream connections that calls have for themselves (`-t tn`).

use super::call::Calls;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use wire::{ConnId, Outbox};

/// Which call has which connection.
pub struct Connections {
    /// Slot and generation of the call.
    calls: HashMap<ConnId, (u32, u32), FixedState>,
    /// Those of calls that have ended.
    closing: Vec<ConnId>,
}

/// The slot and generation of the call that a message's token names.
pub(super) fn named(token: u64) -> Option<(u32, u32)> {
    let name = token.checked_sub(1)?;
    Some((name as u32, (name >> 32) as u32))
}

impl Connections {
    /// None.
    pub fn new(hasher: FixedState) -> Connections {
        Connections { calls: HashMap::with_hasher(hasher), closing: Vec::new() }
    }

    /// The call of a token has got its connection.
    pub fn opened(&mut self, token: u64, conn: ConnId, calls: &mut Calls) {
        let Some((slot, generation)) = named(token) else { return };
        let Some(call) = calls.find_mut(slot, generation) else { return self.closing.push(conn) };
        let earlier = call.flow.conn.replace(conn).filter(|_| call.connected);
        call.connected = true;
        if let Some(earlier) = earlier {
            self.release(earlier);
        }
        self.calls.insert(conn, (slot, generation));
    }

    /// A connection is gone, or is not needed any more. Answers whose it was.
    pub fn closed(&mut self, conn: ConnId) -> Option<(u32, u32)> {
        self.calls.remove(&conn)
    }

    /// A call with a connection of its own has ended.
    pub fn release(&mut self, conn: ConnId) {
        self.closed(conn);
        self.closing.push(conn);
    }

    /// Closes those of calls that have ended.
    pub fn close(&mut self, out: &mut Outbox) {
        if !self.closing.is_empty() {
            self.closing.drain(..).for_each(|conn| out.close(conn));
        }
    }
}
