//! Which stream connections matter: of phones that are registered, of nodes. And which are in use by a call.
//!
//! The runtime closes other connections after a short silence, and first when there is no room for more.

use crate::Balancer;
use crate::forwarding::respond::NODE_KEEPS;
use sip_message::{Message, Method, Name, NameAddr, parse_u32};
use wire::{Flow, Outbox};

/// The connection of a phone whose call is answered matters for this time, seconds.
const CALL_KEEPS: u32 = 7_200;
/// A phone's connection outlasts its registration by this time, seconds.
const KEPT_LONGER: u32 = 60;
/// The longest time that a registration protects a connection for, seconds.
const LONGEST: u32 = 86_400;

impl Balancer {
    /// Marks the connection that a response was queued on last.
    pub(crate) fn mark_conn(&mut self, to: Flow, response: &Message<'_>, out: &mut Outbox) {
        let Some(conn) = to.conn else { return };
        if self.cluster.is_node_ip(to.remote.ip()) {
            return out.keeps(conn, NODE_KEEPS);
        }
        if !(200..300).contains(&response.status()) {
            return;
        }
        match response.method() {
            Method::Register => match granted(response) {
                0 => {}
                seconds => out.keeps(conn, seconds.min(LONGEST).saturating_add(KEPT_LONGER)),
            },
            Method::Invite => {
                let call = self.forwarder.sealer().call(response.call_id());
                if self.dispatcher.calls_mut().uses(call, conn) {
                    out.uses(conn, CALL_KEEPS);
                }
            }
            _ => {}
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
