//! Which stream connections are in use by a call.
use crate::sessions::place::Place;
use std::collections::BTreeMap;
use wire::{ConnId, Outbox};

/// Connections in use by calls. A call has two at most, because either end may answer an INVITE.
#[derive(Debug, Default)]
pub(crate) struct Conns {
    /// The older one first.
    by_call: BTreeMap<u32, [Option<ConnId>; 2]>,
    /// Those of calls that are over.
    released: Vec<ConnId>,
}

impl Conns {
    /// A call uses this connection; false if it does already. A third one takes the place of the oldest: its
    /// end has connected again.
    pub fn take(&mut self, call: Place, conn: ConnId) -> bool {
        let [older, newer] = self.by_call.entry(call.0).or_default();
        if [*older, *newer].contains(&Some(conn)) {
            return false;
        }
        if older.is_none() {
            *older = Some(conn);
        } else if let Some(last) = newer.replace(conn) {
            self.released.extend(older.replace(last));
        }
        true
    }

    /// A call is over.
    pub fn end(&mut self, call: Place) {
        if !self.by_call.is_empty() {
            self.released.extend(self.by_call.remove(&call.0).into_iter().flatten().flatten());
        }
    }

    /// Gives up the connections of calls that are over.
    #[inline]
    pub fn release(&mut self, out: &mut Outbox) {
        self.released.drain(..).for_each(|conn| out.release(conn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_call_keep_their_connections() {
        let (mut conns, call) = (Conns::default(), Place(7));
        let [caller, callee, again] = [1, 2, 3].map(|n| ConnId::new(0, n));
        let taken = [caller, callee, caller, callee].map(|conn| conns.take(call, conn));
        assert_eq!((taken, conns.released.len()), ([true, true, false, false], 0));
        // One of them has connected again.
        assert!(conns.take(call, again));
        assert_eq!(conns.released, [caller]);
        conns.end(call);
        conns.end(call);
        assert_eq!(conns.released, [caller, callee, again]);
    }
}
