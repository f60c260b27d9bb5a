//! How calls and transactions end: answered, hung up, given up, forgotten.

use crate::sessions::table::{Place, Txn, TxnPlace};
use crate::timers::{GIVE_UP, LATE};
use crate::{Answer, CallKey, Dispatcher, NodeIndex, Phase, Request, Tag, Why};
use core::time::Duration;
use wire::Time;

/// Calls looked at in one [`Dispatcher::timeout`]. Nobody is served meanwhile, and none of them is in a cache: so few that
/// a message that has come waits no longer than for some others. What is left is due at once.
const WORK: usize = 32;
/// The same where there is so much to do that what is due has waited for longer than [`BEHIND`]: or else what is over would take
/// the room of what is new.
const MUCH: usize = 1024;
const BEHIND: Duration = Duration::from_secs(1);

/// How many are looked at in one go, of which the first was due then.
pub(crate) fn work(now: Time, due: Option<Time>) -> usize {
    if due.is_some_and(|due| now.since(due) > BEHIND) { MUCH } else { WORK }
}

impl Dispatcher {
    /// What a final response does to its call.
    pub(crate) fn conclude(&mut self, now: Time, at: Place, txn: &Txn, answer: &Answer) {
        let (tag, sealed) = (txn.tag, txn.sealed);
        let &Answer { status, wait, dialog } = answer;
        let up = now + self.rules.session_timeout;
        // A stranger who knows the Call-ID is refused by the node, and that says nothing of the call.
        let believed = sealed || (200..300).contains(&status);
        match (tag, self.sessions.phase(at), status) {
            (Tag::Invite, Phase::Setup | Phase::Brief, 200..300) => {
                self.sessions.set_phase(at, Phase::Up, up);
                self.sessions.add_dialog(at, dialog);
            }
            // A proxy before us has forked: several INVITEs with one Call-ID.
            (Tag::Invite, Phase::Up, 200..300) if txn.fresh => self.sessions.add_dialog(at, dialog),
            (Tag::Invite, Phase::Setup, _) if !self.sessions.is_inviting(at) => self.end(now, at),
            // The dialog is gone at the other end (RFC 3261 section 12.2.1.2).
            (Tag::Invite | Tag::Other, Phase::Up, 408 | 481) if sealed => self.end_dialog(now, at, dialog),
            // It ends with its time (RFC 6665 section 4.1.2.2), or at once where that is none (4.1.2.3).
            (Tag::Subscribe, Phase::Brief | Phase::Dialog, 200..300) => match wait {
                Some(time) if time.is_zero() => self.end(now, at),
                Some(time) => {
                    let until = now + time.min(self.rules.session_timeout) + LATE;
                    self.sessions.set_phase(at, Phase::Dialog, until);
                }
                None => self.sessions.set_phase(at, Phase::Dialog, up),
            },
            // Asked for credentials, the sender comes again.
            (Tag::Bye, Phase::Setup | Phase::Up, status) if believed && !matches!(status, 401 | 407) => {
                self.end_dialog(now, at, dialog);
            }
            _ => {}
        }
    }

    /// A node says yes to an INVITE of which nothing is known, because the balancer was started anew since: the call is
    /// there. Only for what we sealed, and what comes from that node. Without room it stays unknown.
    pub(crate) fn adopt(&mut self, now: Time, call: CallKey, node: NodeIndex, dialog: u32) {
        if self.sessions.find(call).is_some() {
            return;
        }
        if let Some(at) = self.sessions.create(call, node, Phase::Brief) {
            self.sessions.set_phase(at, Phase::Up, now + self.rules.session_timeout);
            self.sessions.add_dialog(at, dialog);
            self.sessions.arm(now, at);
        }
    }

    /// The caller learns of one more dialog of a call that is up (RFC 3261 section 13.2.2.4).
    pub(crate) fn another_dialog(&mut self, call: CallKey, dialog: u32) {
        let at = self.sessions.find(call).filter(|at| self.sessions.phase(*at) == Phase::Up);
        at.into_iter().for_each(|at| self.sessions.add_dialog(at, dialog));
    }

    /// A dialog of a call is over, and with the last one the call. Whoever was called answers a forked INVITE twice, and
    /// the caller hangs up one of the two (RFC 3261 section 13.2.2.4).
    fn end_dialog(&mut self, now: Time, at: Place, dialog: u32) {
        if self.sessions.end_dialog(at, dialog) {
            self.end(now, at);
        }
    }

    /// A request of the node's side was answered by the caller's: a BYE ends the `dialog`.
    pub fn answered_by_caller(&mut self, now: Time, call: CallKey, tag: Tag, status: u16, dialog: u32) {
        let Some(at) = self.sessions.find(call) else { return };
        if tag != Tag::Bye || status < 200 || self.sessions.phase(at) != Phase::Up {
            return;
        }
        match status {
            // It goes on until the node's side comes again.
            401 | 407 => self.sessions.set_phase(at, Phase::Up, now + self.rules.session_timeout),
            _ if self.sessions.end_dialog(at, dialog) => self.end(now, at),
            _ => self.sessions.set_phase(at, Phase::Up, now + self.rules.session_timeout),
        }
        self.sessions.arm(now, at);
    }

    /// The node's side hangs up: there may be nobody who answers that, and it is given up after 64*T1 (RFC 3261 section
    /// 17.1.2.2). Whatever the caller sends later says that the call is up after all.
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
            self.sessions.set_phase(at, Phase::Up, now + self.rules.session_timeout);
            self.sessions.arm(now, at);
        }
    }

    /// A request leaves without a record, so that nobody will see its answer. If it is a BYE its call ends by it: nothing
    /// else would end that for a long time.
    pub(crate) fn unrecorded(&mut self, now: Time, r: &Request<'_>, found: Option<Place>) {
        self.happened.unrecorded += 1;
        if let Some(at) = found
            && r.tag == Tag::Bye
            && r.sealed
            && matches!(self.sessions.phase(at), Phase::Setup | Phase::Up)
        {
            self.end(now, at);
            self.sessions.arm(now, at);
        }
    }

    pub(crate) fn end(&mut self, now: Time, at: Place) {
        self.sessions.set_phase(at, Phase::Ended, now + LATE);
    }

    /// Ends what has nothing left to wait for.
    pub(crate) fn settle(&mut self, now: Time, at: Place) {
        let idle = !self.sessions.is_busy(at);
        match self.sessions.phase(at) {
            Phase::Brief if idle => self.end(now, at),
            Phase::Setup if !self.sessions.is_inviting(at) => self.end(now, at),
            _ => {}
        }
    }

    /// Gives up what waited too long and forgets what was remembered long enough.
    pub fn timeout(&mut self, now: Time) {
        for _ in 0..work(now, self.next_deadline()) {
            let Some(at) = self.sessions.due(now) else { return };
            while let Some(place) = self.sessions.overdue(now, at) {
                self.give_up(now, at, place);
            }
            self.sessions.forget_done(now, at);
            self.settle(now, at);
            match self.sessions.phase(at) {
                Phase::Up | Phase::Dialog if self.sessions.until(at) <= now && !self.sessions.is_busy(at) => {
                    self.happened.lost_calls += 1;
                    self.end(now, at);
                }
                Phase::Ended if self.sessions.until(at) <= now && self.sessions.of(at).next().is_none() => {
                    self.sessions.remove(at);
                    continue;
                }
                Phase::Up | Phase::Dialog | Phase::Ended if self.sessions.until(at) <= now => {
                    // Something of it is still under way.
                    let phase = self.sessions.phase(at);
                    self.sessions.set_phase(at, phase, now + LATE);
                }
                _ => {}
            }
            self.sessions.arm(now, at);
        }
    }

    fn give_up(&mut self, now: Time, at: Place, place: TxnPlace) {
        let Some(&txn) = self.sessions.txn(place) else { return };
        self.happened.timed_out += 1;
        if !txn.heard && txn.fresh && !txn.missed {
            self.failed(now, txn.node, Why::Silent);
        }
        if !txn.heard {
            self.outliers.failed(txn.node, true);
            self.chooser.answered(txn.node, GIVE_UP.as_micros() as u32);
        }
        // Who has an INVITE may still say something.
        self.sessions.close(place, if txn.fresh { now + LATE } else { now });
        // Whoever hung up is gone, answered or not (RFC 3261 section 15.1.1).
        if txn.tag == Tag::Bye && txn.sealed && matches!(self.sessions.phase(at), Phase::Setup | Phase::Up) {
            self.end(now, at);
        }
    }

    /// When [`Dispatcher::timeout`] wants to be called next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.sessions.next_deadline()
    }
}
