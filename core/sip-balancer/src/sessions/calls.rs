//! Calls and their transactions as they are known outside: by the key of a call and the id of a request. How
//! they begin, end, are given up and forgotten.

use crate::sessions::place::{Place, TxnPlace};
use crate::sessions::reply_credit::Reply;
use crate::sessions::table::Sessions;
use crate::sessions::transaction::Txn;
use crate::timers::{GIVE_UP, LATE};
use crate::{Answer, CallKey, Cluster, Load, MethodClass, NodeIndex, Phase};
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;
use wire::{ConnId, Outbox, Time};

/// An unfinished transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Who has it.
    pub node: NodeIndex,
    /// Since when.
    pub since: Time,
    /// Something has come back for it from there.
    pub heard: bool,
    /// An INVITE outside a dialog of which some node has said something provisional.
    pub rang: bool,
    /// Its sender has cancelled it, and waits for its end.
    pub cancelled: bool,
}

/// All calls of one worker.
#[derive(Debug)]
pub struct Calls {
    pub(super) sessions: Sessions,
    /// A call without any message for so long is taken to be over.
    session_timeout: Duration,
}

impl Calls {
    /// Room for `most` calls at one time.
    pub(crate) fn new(cluster: Arc<Cluster>, worker: u16, most: usize, session_timeout: Duration) -> Calls {
        Calls { sessions: Sessions::new(cluster, worker, most), session_timeout }
    }

    /// Changes after how long a call without any message is over.
    pub(crate) fn set_timeout(&mut self, session_timeout: Duration) {
        self.session_timeout = session_timeout;
    }

    /// What this worker has given to each node.
    pub fn loads(&self) -> &[Load] {
        self.sessions.counters().loads()
    }

    /// The same counted anew from the records, all of which it looks at.
    pub fn recount(&self) -> Vec<Load> {
        self.sessions.recount()
    }

    /// Whether all counters are what the records say, of which it looks at all.
    pub fn is_exact(&self) -> bool {
        self.sessions.recount() == self.sessions.counters().loads()
            && self.sessions.recount_held() == self.sessions.counters().held()
    }

    /// Calls and dialogs alive, calls that are over and remembered, and transactions in memory.
    pub fn held(&self) -> (usize, usize, usize) {
        (self.sessions.alive(), self.sessions.ended(), self.sessions.transactions())
    }

    /// Whether something is known of a call, be it over.
    pub fn knows(&self, call: CallKey) -> bool {
        self.sessions.find(call).is_some()
    }

    /// What a final response does to its call.
    pub(super) fn conclude(&mut self, now: Time, at: Place, txn: &Txn, answer: &Answer) {
        let (class, sealed) = (txn.class, txn.sealed);
        let &Answer { status, wait, dialog } = answer;
        let up = now + self.session_timeout;
        // A stranger who knows the Call-ID is refused by the node, and that says nothing of the call.
        let believed = sealed || (200..300).contains(&status);
        match (class, self.sessions.phase(at), status) {
            (MethodClass::Invite, Phase::Setup | Phase::Brief, 200..300) => {
                self.sessions.set_phase(at, Phase::Up, up);
                self.sessions.add_dialog(at, dialog);
            }
            // A proxy before us has forked: several INVITEs with one Call-ID.
            (MethodClass::Invite, Phase::Up, 200..300) if txn.fresh => self.sessions.add_dialog(at, dialog),
            (MethodClass::Invite, Phase::Setup, _) if !self.sessions.is_inviting(at) => self.end(now, at),
            // The dialog is gone at the other end (RFC 3261 section 12.2.1.2).
            (MethodClass::Invite | MethodClass::Other, Phase::Up, 408 | 481) if sealed => {
                self.end_dialog(now, at, dialog)
            }
            // It ends with its time (RFC 6665 section 4.1.2.2), or at once where that is none (4.1.2.3).
            (MethodClass::Subscribe, Phase::Brief | Phase::Dialog, 200..300) => match wait {
                Some(time) if time.is_zero() => self.end(now, at),
                Some(time) => {
                    let until = now + time.min(self.session_timeout) + LATE;
                    self.sessions.set_phase(at, Phase::Dialog, until);
                }
                None => self.sessions.set_phase(at, Phase::Dialog, up),
            },
            // Asked for credentials, the sender comes again.
            (MethodClass::Bye, Phase::Setup | Phase::Up, status)
                if believed && !matches!(status, 401 | 407) =>
            {
                self.end_dialog(now, at, dialog);
            }
            _ => {}
        }
    }

    /// A node says yes to an INVITE of which nothing is known, because the balancer was started anew since:
    /// the call is there. Only for what we sealed, and what comes from that node. Without room it stays
    /// unknown.
    pub(crate) fn adopt(&mut self, now: Time, call: CallKey, node: NodeIndex, dialog: u32) {
        if self.sessions.find(call).is_some() {
            return;
        }
        if let Some(at) = self.sessions.create(call, node, Phase::Brief) {
            self.sessions.set_phase(at, Phase::Up, now + self.session_timeout);
            self.sessions.add_dialog(at, dialog);
            self.sessions.arm(now, at);
        }
    }

    /// The caller learns of one more dialog of a call that is up (RFC 3261 section 13.2.2.4).
    pub(crate) fn another_dialog(&mut self, call: CallKey, dialog: u32) {
        let at = self.sessions.find(call).filter(|at| self.sessions.phase(*at) == Phase::Up);
        at.into_iter().for_each(|at| self.sessions.add_dialog(at, dialog));
    }

    /// A dialog of a call is over, and with the last one the call. Whoever was called answers a forked INVITE
    /// twice, and the caller hangs up one of the two (RFC 3261 section 13.2.2.4).
    fn end_dialog(&mut self, now: Time, at: Place, dialog: u32) {
        if self.sessions.end_dialog(at, dialog) {
            self.end(now, at);
        }
    }

    /// A request of the node's side was answered by the caller's: a BYE ends the `dialog`.
    pub fn answered_by_caller(
        &mut self,
        now: Time,
        call: CallKey,
        class: MethodClass,
        status: u16,
        dialog: u32,
    ) {
        let Some(at) = self.sessions.find(call) else { return };
        if class != MethodClass::Bye || status < 200 || self.sessions.phase(at) != Phase::Up {
            return;
        }
        match status {
            // It goes on until the node's side comes again.
            401 | 407 => self.sessions.set_phase(at, Phase::Up, now + self.session_timeout),
            _ if self.sessions.end_dialog(at, dialog) => self.end(now, at),
            _ => self.sessions.set_phase(at, Phase::Up, now + self.session_timeout),
        }
        self.sessions.arm(now, at);
    }

    /// The node's side hangs up: there may be nobody who answers that, and it is given up after 64*T1 (RFC
    /// 3261 section 17.1.2.2). Whatever the caller sends later says that the call is up after all.
    pub fn hung_up_by_node(&mut self, now: Time, call: CallKey, dialog: u32) {
        let Some(at) = self.sessions.find(call) else { return };
        if self.sessions.phase(at) == Phase::Up && self.sessions.is_last_dialog(at, dialog) {
            self.sessions.hang_up(at, now + GIVE_UP);
            self.sessions.arm(now, at);
        }
    }

    /// The node's side sends something within the call: it is up, unless that side has hung up.
    pub fn renewed_by_node(&mut self, now: Time, call: CallKey) {
        let Some(at) = self.sessions.find(call) else { return };
        if self.sessions.phase(at) == Phase::Up && !self.sessions.is_hung_up(at) {
            self.sessions.set_phase(at, Phase::Up, now + self.session_timeout);
            self.sessions.arm(now, at);
        }
    }

    /// A BYE leaves without a record, so that nobody will see its answer: its call ends by it. Nothing else
    /// would end that for a long time.
    pub(super) fn ends_unrecorded(&mut self, now: Time, at: Place) {
        if matches!(self.sessions.phase(at), Phase::Setup | Phase::Up) {
            self.end(now, at);
            self.sessions.arm(now, at);
        }
    }

    /// Something has come for a call, which goes on.
    pub(super) fn renew(&mut self, now: Time, at: Place) {
        self.sessions.set_phase(at, Phase::Up, now + self.session_timeout);
    }

    /// Gives a call to a node because of a request outside its dialog. One that is up stays where it is.
    pub(super) fn keep_at(&mut self, at: Place, node: NodeIndex) {
        if !matches!(self.sessions.phase(at), Phase::Up | Phase::Dialog) {
            self.sessions.move_to(at, node);
        }
    }

    pub(super) fn end(&mut self, now: Time, at: Place) {
        self.sessions.set_phase(at, Phase::Ended, now + LATE);
    }

    /// Ends what has nothing left to wait for.
    pub(super) fn settle(&mut self, now: Time, at: Place) {
        let idle = !self.sessions.is_busy(at);
        match self.sessions.phase(at) {
            Phase::Brief if idle => self.end(now, at),
            Phase::Setup if !self.sessions.is_inviting(at) => self.end(now, at),
            _ => {}
        }
    }

    /// A request was refused here because there is no node for it. The sender of a BYE has left the call all
    /// the same (RFC 3261 section 15.1.1), if it shows, now or when it came, that it belongs to the dialog
    /// (`sealed`). The record is remembered for a while from then on: a BYE that comes again goes where the
    /// call was, and without tokens nothing else says where that is.
    pub fn abandon(&mut self, now: Time, call: CallKey, id: u64, class: MethodClass, sealed: bool) {
        let Some(at) = self.sessions.find(call) else { return };
        let txn = self.sessions.find_txn(at, id, class).and_then(|place| self.sessions.txn(place));
        let sealed = sealed || txn.is_some_and(|txn| txn.sealed);
        let phase = self.sessions.phase(at);
        if class == MethodClass::Bye && sealed && matches!(phase, Phase::Setup | Phase::Up | Phase::Ended) {
            self.end(now, at);
        }
        self.refused_here(now, call, id, class);
    }

    /// A request was refused here, and its call continues.
    pub fn refused_here(&mut self, now: Time, call: CallKey, id: u64, class: MethodClass) {
        let Some(at) = self.sessions.find(call) else { return };
        if let Some(place) = self.sessions.find_txn(at, id, class) {
            self.sessions.close(place, now + LATE);
        }
        self.settle(now, at);
        self.sessions.arm(now, at);
    }

    /// The transaction of a request, if it is unfinished.
    pub fn waiting(&self, call: CallKey, id: u64, class: MethodClass) -> Option<Waiting> {
        let place = self.sessions.find_txn(self.sessions.find(call)?, id, class)?;
        let txn = self.sessions.txn(place).filter(|txn| txn.open)?;
        let (node, since, cancelled) = (txn.node, txn.began, txn.cancelled);
        Some(Waiting { node, since, heard: txn.heard, rang: txn.rang, cancelled })
    }

    /// The place of the record of an INVITE.
    pub(crate) fn invite_of(&self, call: CallKey, id: u64) -> Option<TxnPlace> {
        self.sessions.find_txn(self.sessions.find(call)?, id, MethodClass::Invite)
    }

    /// The record of an INVITE.
    pub(super) fn invite(&self, call: CallKey, id: u64) -> Option<&Txn> {
        self.sessions.txn(self.invite_of(call, id)?)
    }

    /// An INVITE was taken from a node with a CANCEL, or refused by it: it never goes there again.
    pub(crate) fn bar(&mut self, call: CallKey, id: u64, node: NodeIndex) {
        if let Some(place) = self.invite_of(call, id) {
            self.sessions.note(place, |txn| txn.trail.bar(node));
        }
    }

    /// Whether an INVITE was taken from this node with a CANCEL, or refused by it.
    pub(crate) fn is_barred(&self, call: CallKey, id: u64, node: NodeIndex) -> bool {
        self.invite(call, id).is_some_and(|txn| txn.trail.is_barred(node))
    }

    /// Whether its sender has cancelled an INVITE.
    pub fn is_cancelled(&self, call: CallKey, id: u64) -> bool {
        self.invite(call, id).is_some_and(|txn| txn.cancelled)
    }

    /// Whether its sender has cancelled an INVITE at this node.
    pub fn is_cancelled_at(&self, call: CallKey, id: u64, node: NodeIndex) -> bool {
        let place =
            self.sessions.find(call).and_then(|at| self.sessions.find_txn(at, id, MethodClass::Cancel));
        place.and_then(|place| self.sessions.txn(place)).is_some_and(|txn| txn.node == node)
    }

    /// The INVITE that a CANCEL is for. Its sender waits 64*T1 for its end, and no longer (RFC 3261 section
    /// 9.1).
    pub(super) fn cancel(&mut self, now: Time, id: u64, found: Option<Place>) -> Option<Txn> {
        let place = self.sessions.find_txn(found?, id, MethodClass::Invite)?;
        self.sessions.note(place, |txn| (txn.cancelled, txn.until) = (true, txn.until.min(now + LATE)));
        self.sessions.txn(place).copied()
    }

    /// A request that went over a stream because it is long, and did not arrive, goes in a datagram all the
    /// same (RFC 3261 section 18.1.1). Says whether it was such a one.
    pub fn shrink(&mut self, call: CallKey, id: u64, class: MethodClass) -> bool {
        let place = self.sessions.find(call).and_then(|at| self.sessions.find_txn(at, id, class));
        let large = |place: &TxnPlace| self.sessions.txn(*place).is_some_and(|txn| txn.large && txn.open);
        let Some(place) = place.filter(large) else { return false };
        self.sessions.note(place, |txn| txn.large = false);
        true
    }

    /// Where the responses to a request go, as its record has it.
    pub(crate) fn back(&self, call: CallKey, id: u64, class: MethodClass) -> Option<SocketAddr> {
        Some(self.way_back(call, id, class)?.0)
    }

    /// The same, and the place of the record.
    pub(crate) fn way_back(
        &self,
        call: CallKey,
        id: u64,
        class: MethodClass,
    ) -> Option<(SocketAddr, TxnPlace)> {
        let place = self.sessions.find_txn(self.sessions.find(call)?, id, class)?;
        Some((self.sessions.txn(place)?.back?, place))
    }

    /// Whether the last response to some request of a call went to this address and had this secret.
    pub(crate) fn has_got(&self, call: CallKey, address: SocketAddr, secret: u32) -> bool {
        let got = |at: Place| {
            let mut txns = self.sessions.of(at);
            txns.any(|(_, txn)| txn.back == Some(address) && txn.replies.secret() == secret)
        };
        secret != 0 && self.sessions.find(call).is_some_and(got)
    }

    /// The record at a place.
    pub(crate) fn txn(&self, place: TxnPlace) -> Option<&Txn> {
        self.sessions.txn(place)
    }

    /// Whether a reply is paid for by what came for its transaction, or the first final one. It is noted
    /// then.
    pub(crate) fn pays(&mut self, place: TxnPlace, reply: &Reply) -> bool {
        let mut goes = false;
        self.sessions.note(place, |txn| goes = txn.replies.pays(reply));
        goes
    }

    /// The caller of a call that is up uses this connection. Says whether that is new.
    pub(crate) fn uses(&mut self, call: CallKey, conn: ConnId) -> bool {
        let up = self.sessions.find(call).filter(|at| self.sessions.phase(*at) == Phase::Up);
        up.is_some_and(|at| self.sessions.conns().take(at, conn))
    }

    /// Gives up the connections of calls that are over.
    #[inline]
    pub(crate) fn release(&mut self, out: &mut Outbox) {
        self.sessions.conns().release(out);
    }
}
