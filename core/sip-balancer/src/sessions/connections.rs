//! Which stream connections matter: of phones that are registered, of nodes. And which are in use by a call.
//!
//! The runtime closes other connections after a short silence, and first when there is no room for more.

use crate::sessions::table::Place;
use crate::{Balancer, Phase};
use sip_message::{Message, Method, Name, NameAddr, parse_u32};
use std::collections::BTreeMap;
use wire::{ConnId, Flow, Outbox};

/// The connection of a node matters for this time after each answer on it, seconds.
const NODE_KEEPS: u32 = 7_200;
/// The same for a phone whose call is answered.
const CALL_KEEPS: u32 = 7_200;
/// A phone's connection outlasts its registration by this time, seconds.
const KEPT_LONGER: u32 = 60;
/// The longest time that a registration protects a connection for, seconds.
const LONGEST: u32 = 86_400;

/// Connections in use by calls. A call has two at most, because either end may answer an INVITE.
#[derive(Debug, Default)]
pub(crate) struct Conns {
    /// The older one first.
    by_call: BTreeMap<u32, [Option<ConnId>; 2]>,
    /// Those of calls that are over.
    released: Vec<ConnId>,
}

impl Conns {
    /// A call uses this connection; false if it does already. A third one takes the place of the oldest: its end has
    /// connected again.
    fn take(&mut self, call: Place, conn: ConnId) -> bool {
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

impl Balancer {
    /// Marks the connection that a response was queued on last.
    pub(crate) fn mark_conn(&mut self, to: Flow, response: &Message<'_>, out: &mut Outbox) {
        if self.cluster.is_node_ip(to.remote.ip()) {
            return out.keeps(NODE_KEEPS);
        }
        if !(200..300).contains(&response.status()) {
            return;
        }
        match response.method() {
            Method::Register => match granted(response) {
                0 => {}
                seconds => out.keeps(seconds.min(LONGEST).saturating_add(KEPT_LONGER)),
            },
            Method::Invite => {
                let sessions = &mut self.dispatcher.sessions;
                if let Some(conn) = to.conn
                    && let Some(call) = sessions.find(self.sealer.call(response.call_id()))
                    && sessions.phase(call) == Phase::Up
                    && sessions.conns.take(call, conn)
                {
                    out.uses(CALL_KEEPS);
                }
            }
            _ => {}
        }
    }

    /// The same of an answer of our own: a node that asks how we are keeps its connection.
    pub(crate) fn mark_asking(&self, to: Flow, out: &mut Outbox) {
        if to.conn.is_some() && self.cluster.is_node_ip(to.remote.ip()) {
            out.keeps(NODE_KEEPS);
        }
    }
}

/// How long the longest of the bindings in a response lasts, seconds (RFC 3261 section 10.2.1.1).
fn granted(response: &Message<'_>) -> u32 {
    let common = response.header(Name::Expires).and_then(|header| parse_u32(header.value));
    let of = |value| {
        let own = NameAddr::parse(value).ok().and_then(|contact| contact.param(b"expires"));
        own.map_or(common, parse_u32).unwrap_or(0)
    };
    response.values(Name::Contact).map(of).max().unwrap_or(0)
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
