//! Responses: back by what our Via says (RFC 3261 section 16.11).

use crate::failover::store::What;
use crate::message::{dialog_of, wait};
use crate::sessions::place::TxnPlace;
use crate::token::{Branch, Origin};
use crate::{Answer, Balancer, CallKey, NodeIndex, Seen, Tag};
use core::net::SocketAddr;
use core::time::Duration;
use sip_message::{Message, Method, Name, Via, push_u64};
use sip_proxy::rewrite::{write_response, write_response_as};
use wire::{ConnId, Flow, Outbox, Time, Transport};

/// What of a node's response its caller is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    /// All of it.
    All,
    /// 500: what is wrong is wrong with one node.
    Error,
    /// 503 with our own Retry-After: all nodes are overloaded, and this one has named a longer time.
    Later,
    /// 480: the phone's connection has ended. 430 is for the node alone, which may know another flow.
    Away,
}

impl Balancer {
    /// A response with a Via of ours on top goes to the next one; any other goes nowhere.
    pub(crate) fn relay(&mut self, now: Time, from: Flow, response: &Message<'_>, out: &mut Outbox) {
        // Only of what we asked is the Call-ID hashed, which may be as long as its sender likes.
        let Some(branch) = self.sealer.open_branch(response.via_branch()) else {
            self.counts.stray += 1;
            return;
        };
        let call = self.sealer.call(response.call_id());
        let Some((to, port, place)) = self.way_back(&branch, response, call) else {
            self.counts.stray += 1;
            return;
        };
        if self.feeding {
            // A refusal once more, which whoever has got the first one leaves aside.
            let told = self.passes(now, &branch, response);
            if self.may_go(place, &branch, to, response) {
                self.send_back(now, response, (to, port), told, out);
            }
            return;
        }
        let (tag, status) = (Tag::of(response.method()), response.status());
        let mut told = Told::All;
        if branch.to_caller {
            self.heard_of(now, branch.id, tag, What::ToCaller, status, out);
            self.dispatcher.calls_mut().answered_by_caller(
                now,
                call,
                tag,
                status,
                dialog_of(response.from_tag()),
            );
        } else if let Some(node) = self.cluster.by_id(branch.node) {
            match self.of_node(now, from, (call, &branch, node), response, out) {
                Some(of_node) => told = of_node,
                None => return,
            }
        }
        if !self.may_go(place, &branch, to, response) {
            return;
        }
        self.counts.relayed += 1;
        self.counts.softened += u64::from(told == Told::Error);
        let lossy = from.transport.is_reliable() && !to.transport.is_reliable();
        if lossy && tag == Tag::Invite && status >= 300 {
            self.keep_refusal(now, from, response, branch.id);
        }
        self.send_back(now, response, (to, port), told, out);
    }

    /// A response that is said to be a node's. `None`: nobody else is to have it; else what of it the
    /// caller is told.
    fn of_node(
        &mut self,
        now: Time,
        from: Flow,
        (call, branch, node): (CallKey, &Branch, NodeIndex),
        response: &Message<'_>,
        out: &mut Outbox,
    ) -> Option<Told> {
        let (tag, status) = (Tag::of(response.method()), response.status());
        // Branches are seen by everybody a node forwards to: an answer is the node's if it comes from there.
        let ip = self.cluster.node(node).map(|node| node.address.ip().to_canonical());
        if ip != Some(from.remote.ip().to_canonical()) {
            self.counts.stray += 1;
            return None;
        }
        if self.is_own_affair(call, branch, tag, node, status) {
            return None;
        }
        self.dispatcher.count(node, status);
        if tag == Tag::Invite && status == 503 && self.goes_on(now, (call, branch.id, node), response, out) {
            return None;
        }
        if tag == Tag::Invite && status == 482 && self.rings_on(call, branch.id, node, response, out) {
            return None;
        }
        let answer = Answer {
            status,
            wait: wait(response, tag),
            dialog: if status < 200 { 0 } else { dialog_of(response.to_tag()) },
        };
        let mut seen = self.dispatcher.response(now, call, branch.id, tag, node, &answer);
        // Of what is over, anybody along the way may have a copy.
        if seen == Seen::Counted && self.cluster.speaks(node) {
            self.hear(now, node, response);
        }
        if tag == Tag::Invite && seen != Seen::Counted && self.is_rival(branch.id, node) {
            if !self.rival(now, branch.id, node, response, out) {
                return None;
            }
            // It was the first to say yes, or anything: it has the call.
            seen = self.dispatcher.response(now, call, branch.id, tag, node, &answer);
        }
        // Who has been replaced may still have made a dialog, which the caller must learn of (section 16.7 step
        // 5); whatever else it says would be taken for the answer of the other.
        if seen == Seen::Replaced && !(200..300).contains(&status) {
            self.counts.stray += 1;
            return None;
        }
        if tag == Tag::Cancel && status >= 300 && !self.may_refuse_cancel(now, call, branch, node) {
            return None;
        }
        if seen != Seen::Counted && tag == Tag::Invite && (200..300).contains(&status) {
            self.dispatcher.calls_mut().another_dialog(call, answer.dialog);
            // No token will say where it is.
            if seen == Seen::Stray && !self.settings.record_route {
                self.dispatcher.calls_mut().adopt(now, call, node, answer.dialog);
            }
        }
        let told = self.passes(now, branch, response);
        self.heard_of(now, branch.id, tag, What::ToNode, status, out);
        Some(told)
    }

    /// What of a node's response the caller is told.
    fn passes(&self, now: Time, branch: &Branch, response: &Message<'_>) -> Told {
        match response.status() {
            _ if branch.to_caller => Told::All,
            // Whoever is before us would send nothing at all to us for that time (section 21.5.4), where only one
            // node wants to be left alone (16.7 step 6).
            503 if self.cluster.willing(now).next().is_some() => Told::Error,
            // All do. A probe may end that sooner than the node said, so it is for no longer than we say ourselves.
            503 => match wait(response, Tag::Other) {
                Some(time) if time > Duration::from_secs(self.settings.retry_after.into()) => Told::Later,
                _ => Told::All,
            },
            482 if Tag::of(response.method()) == Tag::Invite && self.is_merged(branch.id) => Told::Error,
            // RFC 5626 section 5.3.1 defines 430 between edge and home; callers know 480 (RFC 3261 section 21.4.18).
            430 => Told::Away,
            _ => Told::All,
        }
    }

    /// The response without our Via, or with another status line and without its Retry-After.
    fn send_back(
        &mut self,
        now: Time,
        response: &Message<'_>,
        (to, port): (Flow, u16),
        told: Told,
        out: &mut Outbox,
    ) {
        let (splices, retry_after) = (&mut self.splices, self.settings.retry_after);
        let write = |buf: &mut Vec<u8>| match told {
            Told::All => write_response(response, false, splices, buf),
            Told::Error => {
                let line = b"SIP/2.0 500 Server Internal Error\r\n";
                write_response_as(response, line, Name::RetryAfter, splices, buf);
            }
            Told::Away => {
                let line = b"SIP/2.0 480 Temporarily Unavailable\r\n";
                write_response_as(response, line, Name::RetryAfter, splices, buf);
            }
            Told::Later => {
                let mut line = b"SIP/2.0 503 Service Unavailable\r\nRetry-After: ".to_vec();
                push_u64(retry_after.into(), &mut line);
                line.extend_from_slice(b"\r\n");
                write_response_as(response, &line, Name::RetryAfter, splices, buf);
            }
        };
        if to.transport == Transport::Udp {
            out.send_with(to, 0, write);
            return;
        }
        let call = (response.method() == Method::Invite).then(|| self.sealer.call(response.call_id()));
        self.kept.write((now, call), to, otherwise(to, port), out, write);
        self.mark_conn(to, response, out);
    }

    /// What our Via says, if we sealed it for the request whose Via is the next, and the port that this names. A stream
    /// is the one that the request came on, if it is known or there is one to that port. Of datagrams also the record, if
    /// there is one.
    fn way_back(
        &self,
        branch: &Branch,
        response: &Message<'_>,
        call: CallKey,
    ) -> Option<(Flow, u16, Option<TxnPlace>)> {
        if let Some((to, place)) = self.way_known(branch, response, call) {
            return Some((to, 0, Some(place)));
        }
        let via = Via::parse(response.values(Name::Via).nth(1)?).ok()?;
        let ip = via.source_ip()?;
        let origin = Origin {
            branch: via.branch,
            host: via.host,
            port: via.port_or_default(),
            reply: ip,
            call_id: response.call_id(),
            call,
            cseq: response.cseq(),
        };
        if self.sealer.id(branch.epoch, &origin) != branch.id {
            return None;
        }
        let mut remote = SocketAddr::new(ip, branch.port);
        let listener = self.settings.marked(branch.listener, remote)?;
        let transport = self.settings.listener(listener)?.transport;
        let mut conn = None;
        if transport.is_reliable() {
            let tag = Tag::of(response.method());
            conn = self.conn_of(branch, tag);
            remote.set_port(self.peer_port(branch, &via, call, tag));
        }
        Some((Flow { transport, listener, remote, conn }, via.port_or_default(), None))
    }

    /// The port that the connection of a request has at its other end, as far as it is known; else the one in our branch.
    fn peer_port(&self, branch: &Branch, via: &Via<'_>, call: CallKey, tag: Tag) -> u16 {
        if branch.to_caller {
            return branch.port;
        }
        let known = self.dispatcher.calls().back(call, branch.id, tag);
        // Whoever answers a CANCEL is the node itself, and has this from us.
        let written = || via.rport.flatten().filter(|_| tag == Tag::Cancel);
        known.map(|back| back.port()).or_else(written).unwrap_or(branch.port)
    }

    /// The same of a request whose record is there, which knows as much as its Via: that was hashed into the id that we
    /// sealed. Of datagrams only, for streams need the port in that Via.
    fn way_known(&self, branch: &Branch, response: &Message<'_>, call: CallKey) -> Option<(Flow, TxnPlace)> {
        let transport = branch.listener.transport();
        if branch.to_caller || transport != Transport::Udp || response.via_count() < 2 {
            return None;
        }
        let (remote, place) =
            self.dispatcher.calls().way_back(call, branch.id, Tag::of(response.method()))?;
        let listener = self.settings.marked(branch.listener, remote)?;
        Some((Flow { transport, listener, remote, conn: None }, place))
    }

    /// The connection that a request came on, if it is still kept.
    fn conn_of(&self, branch: &Branch, tag: Tag) -> Option<ConnId> {
        let what = if branch.to_caller { What::ToCaller } else { What::ToNode };
        self.kept.get(self.kept.find(branch.id, tag, what)?)?.from.conn
    }
}

/// Where a response goes whose connection is gone: to the port in `sent-by`, over a new one (section 18.2.2).
pub(crate) fn otherwise(back: Flow, port: u16) -> Flow {
    Flow { conn: None, remote: SocketAddr::new(back.remote.ip(), port), ..back }
}
