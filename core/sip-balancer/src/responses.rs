//! Responses: back by what our Via says (RFC 3261 section 16.11).

use crate::machine::Balancer;
use crate::requests::tag_of;
use crate::token::{Branch, Origin};
use crate::{Seen, Tag};
use core::net::SocketAddr;
use core::time::Duration;
use sip_message::{Message, Name, Via, parse_u32};
use sip_proxy::rewrite::{write_response, write_response_as};
use wire::{Flow, Outbox, Time};

impl Balancer {
    /// A response with a Via of ours on top goes to the next one; any other goes nowhere.
    pub(crate) fn relay(&mut self, now: Time, from: Flow, response: &Message<'_>, out: &mut Outbox) {
        let Some((branch, to)) = self.way_back(response) else {
            self.counts.stray += 1;
            return;
        };
        let call = self.sealer.call(response.call_id());
        let (tag, status) = (tag_of(response.method()), response.status());
        let mut soften = false;
        if branch.to_caller {
            self.dispatcher.answered_by_caller(now, call, tag, status);
        } else if let Some(node) = self.cluster.by_id(branch.node) {
            // Branches are seen by everybody a node forwards to: an answer is the node's if it comes from there.
            let ip = self.cluster.node(node).map(|node| node.address.ip().to_canonical());
            if ip != Some(from.remote.ip().to_canonical()) {
                self.counts.stray += 1;
                return;
            }
            let wait = wait(response, tag);
            let seen = self.dispatcher.response(now, call, branch.id, tag, node, status, wait);
            // Who has been replaced may still have made a dialog, which the caller must learn of (section 16.7 step
            // 5); whatever else it says would be taken for the answer of the other.
            if seen == Seen::Replaced && !(200..300).contains(&status) {
                self.counts.stray += 1;
                return;
            }
            // Whoever is before us would send nothing at all to us for that time (section 21.5.4), where only one
            // node wants to be left alone (16.7 step 6).
            soften = status == 503 && self.cluster.indexes().any(|at| self.cluster.takes_calls(now, at));
        }
        self.counts.relayed += 1;
        if soften {
            self.counts.softened += 1;
            return self.relay_as_500(response, to, out);
        }
        let splices = &mut self.splices;
        out.send_with(to, 0, |buf| write_response(response, false, splices, buf));
    }

    /// What our Via says, if we sealed it for the request whose Via is the next.
    fn way_back(&self, response: &Message<'_>) -> Option<(Branch, Flow)> {
        let branch = self.sealer.open_branch(response.via_branch())?;
        let via = Via::parse(response.values(Name::Via).nth(1)?).ok()?;
        let ip = via.received_ip().or(via.host_ip)?;
        let origin = Origin {
            branch: via.branch,
            host: via.host,
            port: via.port_or_default(),
            reply: ip,
            call_id: response.call_id(),
            cseq: response.cseq(),
        };
        if self.sealer.id(branch.epoch, &origin) != branch.id {
            return None;
        }
        self.settings.listener(branch.listener)?;
        Some((branch, Flow::udp(branch.listener, SocketAddr::new(ip, branch.port))))
    }

    /// The same response with another status line, without Retry-After and our Via.
    fn relay_as_500(&mut self, response: &Message<'_>, to: Flow, out: &mut Outbox) {
        let (line, splices) = (b"SIP/2.0 500 Server Internal Error\r\n", &mut self.splices);
        out.send_with(to, 0, |buf| write_response_as(response, line, Name::RetryAfter, splices, buf));
    }
}

/// How long something lasts by a response: a 503's Retry-After (section 20.33), Expires of a 2xx to a SUBSCRIBE.
fn wait(response: &Message<'_>, tag: Tag) -> Option<Duration> {
    let name = match (response.status(), tag) {
        (503, _) => Name::RetryAfter,
        (200..300, Tag::Subscribe) => Name::Expires,
        _ => return None,
    };
    let value = response.header(name)?.value;
    let digits = value.split(|b| !b.is_ascii_digit()).next()?;
    parse_u32(digits).map(|seconds| Duration::from_secs(seconds.into()))
}
