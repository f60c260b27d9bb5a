//! What becomes of a message in an overload, and which feedback its sender gets (RFC 7339).

use super::{Algorithm, Kind, Verdict, Wish, offer, screen};
use crate::emergency::is_urgent;
use crate::services::{Counter, Services};
use crate::settings::Mode;
use crate::step::Step;
use core::net::SocketAddr;
use sip_message::{Message, Method};
use wire::Flow;

impl<S: Services> Step<'_, S> {
    /// Looks at a message that comes in an overload, before it is read. `false`: it gets no answer.
    #[cold]
    pub(crate) fn passes(&mut self, flow: Flow, bytes: &[u8]) -> bool {
        let mut unread = false;
        self.verdict = match screen(bytes, self.site.settings().emergency.as_ref()) {
            Kind::First => Some(Verdict::Take),
            Kind::Unsure => None,
            // What this server sent itself was taken on before.
            Kind::New(..) | Kind::Probe(_) | Kind::Emergency(..)
                if self.site.settings().listeners.iter().any(|l| l.address == flow.remote) =>
            {
                Some(Verdict::Take)
            }
            kind @ (Kind::New(call_id, _) | Kind::Emergency(call_id, _) | Kind::Probe(call_id)) => {
                let invite = matches!(kind, Kind::New(_, true) | Kind::Emergency(_, true));
                let (source, call) = (self.site.source(flow.remote), self.site.ownership().lot(call_id));
                let stream = flow.transport.is_reliable();
                let verdict = match kind {
                    Kind::Probe(_) => {
                        let known = self.site.is_neighbour(flow);
                        self.overload.judge_probe(source, call, stream, known)
                    }
                    Kind::Emergency(..) => self.overload.judge_emergency(source, call, invite, stream),
                    _ => self.overload.judge(source, call, invite, stream),
                };
                // What repeats an accepted request is found out by its transaction; without transactions it
                // goes the way that it went before, for to refuse it now would end a call that rings. On a
                // stream nothing is repeated but by a hop in front that keeps no transactions.
                let stateless = self.site.settings().proxy.mode == Mode::Stateless;
                let repeats = !stream || self.site.settings().auth.is_front(flow.remote.ip());
                let asks = verdict != Verdict::Take && (stateless || verdict == Verdict::Drop && repeats);
                let known = asks && self.overload.knows(call);
                unread = verdict == Verdict::Drop && !known;
                if known && stateless {
                    self.overload.goes_on(invite);
                    Some(Verdict::Take)
                } else {
                    Some(verdict)
                }
            }
        };
        if unread {
            self.site.services().count(Counter::Unanswered);
        }
        !unread
    }

    /// What becomes of new work in an overload.
    pub(crate) fn judge(&mut self, flow: Flow, request: &Message<'_>) -> Verdict {
        let (source, call) = (self.site.source(flow.remote), self.site.ownership().lot(request.call_id()));
        let (invite, stream) = (request.method() == Method::Invite, flow.transport.is_reliable());
        match is_urgent(self.site.settings().emergency.as_ref(), request) {
            true => self.overload.judge_emergency(source, call, invite, stream),
            false => self.overload.judge(source, call, invite, stream),
        }
    }

    /// A request of this call is asked for its credentials in an overload.
    #[cold]
    pub(crate) fn challenges(&mut self, flow: Flow, call_id: &[u8]) {
        self.overload.challenges(self.site.source(flow.remote), self.site.ownership().lot(call_id));
    }

    /// The feedback about our load for the sender of a request, with each response, if it asks for it (RFC
    /// 7339 section 5.1) and is a trunk or a trusted proxy: nobody else learns our load.
    pub(crate) fn oc_of(&mut self, flow: Flow, request: &Message<'_>) -> Option<Wish> {
        let nobody = self.site.settings().trunks.is_empty() && self.site.settings().auth.fronts.is_empty();
        if nobody || !self.overload.tells() {
            return None;
        }
        let algorithm = offer(request.via().raw)?;
        if !self.site.is_neighbour(flow) {
            return None;
        }
        let room = self.overload.has_room_for(self.site.source(flow.remote));
        room.then(|| self.oc_for(flow.remote, algorithm))
    }

    /// The same of one that asked before.
    pub(crate) fn oc_for(&mut self, remote: SocketAddr, algorithm: Algorithm) -> Wish {
        let source = self.site.source(remote);
        self.overload.wish(source, algorithm)
    }
}
