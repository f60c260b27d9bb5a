//! Responses: back by what our Via says (RFC 3261 section 16.11).

use crate::machine::Balancer;
use crate::requests::tag_of;
use crate::token::{Branch, Origin};
use core::net::SocketAddr;
use core::time::Duration;
use sip_message::{Message, Name, Via, parse_u32};
use sip_proxy::rewrite::write_response;
use wire::{Flow, Outbox, Time};

impl Balancer {
    /// A response with a Via of ours on top goes to the next one; any other goes nowhere.
    pub(crate) fn relay(&mut self, now: Time, _from: Flow, response: &Message<'_>, out: &mut Outbox) {
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
            let rest = retry_after(response);
            self.dispatcher.response(now, call, branch.id, tag, node, status, rest);
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
        let mut first = core::mem::take(&mut self.scratch);
        first.clear();
        write_response(response, false, &mut self.splices, &mut first);
        let body = first.iter().position(|&b| b == b'\n').map_or(first.len(), |end| end + 1);
        out.send_with(to, 0, |buf| {
            buf.extend_from_slice(b"SIP/2.0 500 Server Internal Error\r\n");
            push_without(&first[body..], b"retry-after", buf);
        });
        self.scratch = first;
    }
}

/// Appends a head and body without the header fields of this name, which is lower case. Nothing is folded in what
/// this server writes.
fn push_without(rest: &[u8], name: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(line) = rest.get(at..).and_then(|r| r.split_inclusive(|&b| b == b'\n').next()) {
        if line == b"\r\n" {
            break;
        }
        let named = line.split(|&b| b == b':').next().unwrap_or(b"").trim_ascii_end();
        if !named.eq_ignore_ascii_case(name) {
            out.extend_from_slice(line);
        }
        at += line.len();
    }
    out.extend_from_slice(rest.get(at..).unwrap_or(b""));
}

/// The time of a 503's Retry-After (section 20.33).
fn retry_after(response: &Message<'_>) -> Option<Duration> {
    if response.status() != 503 {
        return None;
    }
    let value = response.header(Name::RetryAfter)?.value;
    let digits = value.split(|b| !b.is_ascii_digit()).next()?;
    parse_u32(digits).map(|seconds| Duration::from_secs(seconds.into()))
}
