//! The calls and transactions of one worker, and the counters that follow from them.
//!
//! A node's counters are not kept beside the records: each record knows whether it counts, and the two
//! functions that change that ([`Sessions::set_phase`] and [`Sessions::close`], with their opposites) are
//! the only ones that touch a counter. So a counter is the number of records that count, always, and
//! cannot drift or fall below zero. [`Sessions::recount`] counts the records themselves; tests compare.

use crate::sessions::connections::Conns;
use crate::sessions::index::Index;
use crate::sessions::load_counters::Counters;
use crate::sessions::place::{NIL, Place, TxnPlace};
use crate::sessions::transaction::Txn;
use crate::timers::GIVE_UP;
use crate::{CallKey, Cluster, Load, MethodClass, NodeIndex};
use std::sync::Arc;
use timing::Wheel;
use wire::Time;

/// Transactions of one call that may be unfinished or remembered at one time.
const MOST_OF_CALL: u8 = 16;
/// Where a call is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Requests outside a dialog. No call.
    Brief,
    /// An INVITE without a final response. A call.
    Setup,
    /// Answered. A call.
    Up,
    /// Another dialog than a call: a subscription. No call.
    Dialog,
    /// Over; remembered for late retransmissions (the paper's expired table). No call.
    Ended,
}

impl Phase {
    const fn is_call(self) -> bool {
        matches!(self, Phase::Setup | Phase::Up)
    }
}

#[derive(Clone, Copy, Debug)]
struct Session {
    key: CallKey,
    node: NodeIndex,
    phase: Phase,
    /// How many transactions it has, and the first of them.
    count: u8,
    first: u32,
    /// When it ends by itself where nothing happens: [`Phase::Up`], [`Phase::Dialog`], [`Phase::Ended`].
    until: Time,
    /// The last final response asked for credentials.
    asked: bool,
    /// The node's side has hung up.
    hung_up: bool,
    used: bool,
    /// Its dialogs, as a forked INVITE may have made several: by the tags of those who were called, as far as
    /// they are known, or zero.
    dialogs: [u32; DIALOGS],
    /// The last of them that is over while others are not: what ended it may be repeated.
    over: u32,
}

/// Dialogs of one call that are told apart.
const DIALOGS: usize = 4;

/// All records of one worker.
#[derive(Debug)]
pub(crate) struct Sessions {
    index: Index,
    sessions: Vec<Session>,
    free: Vec<u32>,
    txns: Vec<Txn>,
    free_txn: u32,
    wheel: Wheel,
    counters: Counters,
    /// Most records, and how many of them may be alive.
    most: usize,
    most_alive: usize,
    alive: usize,
    used: usize,
    used_txns: usize,
    /// Connections of those that are up.
    conns: Conns,
}

impl Sessions {
    /// Room for `most` calls at one time, and as many again that are over and remembered.
    pub fn new(cluster: Arc<Cluster>, worker: u16, most: usize) -> Sessions {
        let alive = most.max(1);
        let all = alive * 2;
        Sessions {
            index: Index::new(all),
            sessions: Vec::with_capacity(all),
            free: Vec::new(),
            txns: Vec::with_capacity(all),
            free_txn: NIL,
            wheel: Wheel::new(Time::ZERO, all),
            counters: Counters::new(cluster, worker),
            most: all,
            most_alive: alive,
            alive: 0,
            used: 0,
            used_txns: 0,
            conns: Conns::default(),
        }
    }

    /// The connections that calls use.
    pub fn conns(&mut self) -> &mut Conns {
        &mut self.conns
    }

    /// Calls and dialogs alive.
    pub fn alive(&self) -> usize {
        self.alive
    }

    /// Records of calls that are over.
    pub fn ended(&self) -> usize {
        self.used - self.alive
    }

    /// Transactions unfinished or remembered.
    pub fn transactions(&self) -> usize {
        self.used_txns
    }

    fn session(&self, at: Place) -> Option<&Session> {
        invariant::some!(self.sessions.get(at.0 as usize), "a call has a place")
    }

    fn session_mut(&mut self, at: Place) -> Option<&mut Session> {
        invariant::some!(self.sessions.get_mut(at.0 as usize), "a call has a place")
    }

    /// The call with this key.
    pub fn find(&self, key: CallKey) -> Option<Place> {
        self.index.find(key, |at| key_of(&self.sessions, at)).map(Place)
    }

    /// Whose it is.
    pub fn node(&self, at: Place) -> NodeIndex {
        self.session(at).map_or(NodeIndex(0), |s| s.node)
    }

    /// Where it is in its life.
    pub fn phase(&self, at: Place) -> Phase {
        self.session(at).map_or(Phase::Ended, |s| s.phase)
    }

    /// A new record; `None`: there is no room.
    pub fn create(&mut self, key: CallKey, node: NodeIndex, phase: Phase) -> Option<Place> {
        if self.alive >= self.most_alive || self.used >= self.most {
            return None;
        }
        let fresh = Session {
            key,
            node,
            phase: Phase::Ended,
            count: 0,
            first: NIL,
            until: Time::FAR,
            asked: false,
            hung_up: false,
            used: true,
            dialogs: [0; DIALOGS],
            over: 0,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.sessions[at as usize] = fresh;
                at
            }
            None => {
                self.sessions.push(fresh);
                self.sessions.len() as u32 - 1
            }
        };
        self.index.insert(key, at);
        self.used += 1;
        self.counters.hold(node, true);
        self.set_phase(Place(at), phase, Time::FAR);
        Some(Place(at))
    }

    /// Whether a record that is over may come to life again.
    pub fn has_room(&self) -> bool {
        self.alive < self.most_alive
    }

    /// Moves a call on in its life; `until`: when that ends by itself.
    pub fn set_phase(&mut self, at: Place, phase: Phase, until: Time) {
        let Some(session) = self.session_mut(at) else { return };
        let (before, node) = (session.phase, session.node);
        session.phase = phase;
        session.until = until;
        session.hung_up = false;
        if !phase.is_call() {
            (session.dialogs, session.over) = ([0; DIALOGS], 0);
        }
        match (before == Phase::Ended, phase == Phase::Ended) {
            (true, false) => self.alive += 1,
            (false, true) => self.alive -= 1,
            _ => {}
        }
        if before.is_call() != phase.is_call() {
            self.counters.call(node, phase.is_call());
        }
        if before == Phase::Up && phase != Phase::Up {
            self.conns.end(at);
        }
    }

    /// Gives a call to another node.
    pub fn move_to(&mut self, at: Place, node: NodeIndex) {
        let Some(session) = self.session_mut(at) else { return };
        let (from, counts) = (session.node, session.phase.is_call());
        session.node = node;
        if from != node {
            self.counters.hold(from, false);
            self.counters.hold(node, true);
        }
        if counts && from != node {
            self.counters.call(from, false);
            self.counters.call(node, true);
        }
    }

    /// Whether the last final response of the call asked for credentials.
    pub fn is_asked(&self, at: Place) -> bool {
        self.session(at).is_some_and(|s| s.asked)
    }

    /// Whether a final response of the call asks for credentials.
    pub fn set_asked(&mut self, at: Place, asked: bool) {
        if let Some(session) = self.session_mut(at) {
            session.asked = asked;
        }
    }

    /// The node's side of a call has hung up, and it ends then by itself.
    pub fn hang_up(&mut self, at: Place, until: Time) {
        if let Some(session) = self.session_mut(at) {
            (session.until, session.hung_up) = (until, true);
        }
    }

    /// Whether the node's side of a call has hung up, and nothing has shown since that it goes on.
    pub fn is_hung_up(&self, at: Place) -> bool {
        self.session(at).is_some_and(|s| s.hung_up)
    }

    /// A call has this dialog. Zero is none.
    pub fn add_dialog(&mut self, at: Place, dialog: u32) {
        let Some(session) = self.session_mut(at).filter(|s| dialog != 0 && s.over != dialog) else { return };
        if !session.dialogs.contains(&dialog)
            && let Some(free) = session.dialogs.iter_mut().find(|known| **known == 0)
        {
            *free = dialog;
        }
    }

    /// One dialog of a call is over. Says whether the call is: it has no other one, as far as is known. Of a
    /// dialog that is not known it is said where there are not several, for nothing else may end that call
    /// for hours.
    pub fn end_dialog(&mut self, at: Place, dialog: u32) -> bool {
        let last = self.is_last_dialog(at, dialog);
        if let Some(session) = self.session_mut(at)
            && let Some(over) = session.dialogs.iter_mut().find(|known| dialog != 0 && **known == dialog)
        {
            *over = 0;
            session.over = dialog;
        }
        last
    }

    /// Whether a call ends with this dialog.
    pub fn is_last_dialog(&self, at: Place, dialog: u32) -> bool {
        let Some(session) = self.session(at) else { return true };
        let known = session.dialogs.iter().filter(|known| **known != 0).count();
        known < 2 && (dialog == 0 || dialog != session.over)
    }

    /// Forgets the oldest finished transaction of a call that has as many as it may have.
    fn make_room(&mut self, at: Place) {
        if self.session(at).is_none_or(|s| s.count < MOST_OF_CALL) {
            return;
        }
        let oldest = self.of(at).filter(|(_, txn)| !txn.open).last().map(|(place, _)| place);
        if let Some(place) = oldest {
            self.note(place, |txn| txn.until = Time::ZERO);
            self.forget_done(Time::ZERO, at);
        }
    }

    /// Opens a transaction, in the place of the oldest finished one where the call has too many; `None`:
    /// there is no room for it.
    pub fn open(&mut self, at: Place, txn: Txn) -> Option<TxnPlace> {
        self.make_room(at);
        let session = self.sessions.get_mut(at.0 as usize).filter(|s| s.count < MOST_OF_CALL)?;
        let txn = Txn { open: true, next: session.first, ..txn };
        let place = match self.txns.get(self.free_txn as usize) {
            Some(free) => {
                let place = self.free_txn;
                self.free_txn = free.next;
                self.txns[place as usize] = txn;
                place
            }
            None if self.txns.len() < self.most => {
                self.txns.push(txn);
                self.txns.len() as u32 - 1
            }
            None => return None,
        };
        session.first = place;
        session.count += 1;
        self.used_txns += 1;
        self.counters.hold(txn.node, true);
        self.counters.txn(txn.node, txn.class.kind(), true);
        Some(TxnPlace(place))
    }

    /// A transaction is finished at a node, and remembered for a while.
    pub fn close(&mut self, place: TxnPlace, until: Time) {
        let Some(txn) = self.txns.get_mut(place.0 as usize).filter(|t| t.open) else { return };
        txn.open = false;
        txn.until = until;
        let (node, kind) = (txn.node, txn.class.kind());
        self.counters.txn(node, kind, false);
    }

    /// Gives an unfinished transaction to another node.
    pub fn retarget(&mut self, now: Time, place: TxnPlace, node: NodeIndex) {
        let open = self.txns.get_mut(place.0 as usize).filter(|t| t.open);
        let Some(txn) = invariant::some!(open, "only an unfinished transaction moves to another node") else {
            return;
        };
        let (from, kind) = (txn.node, txn.class.kind());
        (txn.node, txn.began) = (node, now);
        (txn.heard, txn.worked) = (false, false);
        (txn.delivery.missed, txn.delivery.returned) = (false, false);
        // One that has rung has as long as it had.
        txn.until = txn.until.max(now + GIVE_UP);
        self.counters.hold(from, false);
        self.counters.hold(node, true);
        self.counters.txn(from, kind, false);
        self.counters.txn(node, kind, true);
    }

    /// A transaction's record.
    pub fn txn(&self, place: TxnPlace) -> Option<&Txn> {
        invariant::some!(self.txns.get(place.0 as usize), "a transaction has a place")
    }

    /// A transaction's record, for what does not count.
    pub fn note(&mut self, place: TxnPlace, change: impl FnOnce(&mut Txn)) {
        if let Some(txn) = invariant::some!(self.txns.get_mut(place.0 as usize), "a transaction has a place")
        {
            let (open, node, next) = (txn.open, txn.node, txn.next);
            change(txn);
            (txn.open, txn.node, txn.next) = (open, node, next);
        }
    }

    /// The transactions of a call.
    pub fn of(&self, at: Place) -> impl Iterator<Item = (TxnPlace, &Txn)> {
        let mut next = self.session(at).map_or(NIL, |s| s.first);
        core::iter::from_fn(move || {
            let txn = self.txns.get(next as usize)?;
            let place = TxnPlace(next);
            next = txn.next;
            Some((place, txn))
        })
    }

    /// The transaction of a call with this id and method.
    pub fn find_txn(&self, at: Place, id: u64, class: MethodClass) -> Option<TxnPlace> {
        self.of(at).find(|(_, t)| t.id == id && t.class == class).map(|(place, _)| place)
    }

    /// Whether an INVITE of the call is unfinished.
    pub fn is_inviting(&self, at: Place) -> bool {
        self.of(at).any(|(_, t)| t.open && t.class == MethodClass::Invite)
    }

    /// Whether anything of the call is unfinished.
    pub fn is_busy(&self, at: Place) -> bool {
        self.of(at).any(|(_, t)| t.open)
    }

    /// Sets the call's next deadline: the first of its own and its transactions'.
    pub fn arm(&mut self, now: Time, at: Place) {
        let own = self.session(at).map_or(Time::FAR, |s| s.until);
        let due = self.of(at).fold(own, |due, (_, txn)| due.min(txn.until));
        if due < Time::FAR {
            self.wheel.advance(now);
            self.wheel.set(at.0, due);
        } else {
            self.wheel.clear(at.0);
        }
    }

    /// A call whose deadline may have come.
    pub fn due(&mut self, now: Time) -> Option<Place> {
        self.wheel.pop(now).map(Place)
    }

    /// When [`Sessions::due`] wants to be asked next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.wheel.next()
    }

    /// An unfinished transaction of a call whose time is up.
    pub fn overdue(&self, now: Time, at: Place) -> Option<TxnPlace> {
        self.of(at).find(|(_, t)| t.open && t.until <= now).map(|(place, _)| place)
    }

    /// Forgets finished transactions whose time is up.
    pub fn forget_done(&mut self, now: Time, at: Place) {
        let (mut link, mut before) = (self.session(at).map_or(NIL, |s| s.first), NIL);
        while let Some(&txn) = self.txns.get(link as usize) {
            let place = link;
            link = txn.next;
            if txn.open || txn.until > now {
                before = place;
                continue;
            }
            match self.txns.get_mut(before as usize) {
                Some(previous) => previous.next = txn.next,
                None => self.sessions[at.0 as usize].first = txn.next,
            }
            self.sessions[at.0 as usize].count -= 1;
            self.txns[place as usize].next = self.free_txn;
            self.free_txn = place;
            self.used_txns -= 1;
            self.counters.hold(txn.node, false);
        }
    }

    /// When the call ends by itself.
    pub fn until(&self, at: Place) -> Time {
        self.session(at).map_or(Time::FAR, |s| s.until)
    }

    /// Forgets a call that is over and has no transactions left.
    pub fn remove(&mut self, at: Place) {
        let over = self.session(at).filter(|s| s.used && s.first == NIL && s.phase == Phase::Ended);
        let Some(session) = invariant::some!(over, "only an ended call is forgotten") else { return };
        let (key, node) = (session.key, session.node);
        self.counters.hold(node, false);
        let sessions = &self.sessions;
        self.index.remove(key, |at| key_of(sessions, at));
        self.wheel.clear(at.0);
        if let Some(session) = self.session_mut(at) {
            session.used = false;
        }
        self.free.push(at.0);
        self.used -= 1;
    }

    /// The counters, as they are kept.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many records name each node, counted anew.
    pub fn recount_held(&self) -> Vec<u32> {
        let mut held = vec![0; self.counters.held().len()];
        for (at, session) in self.sessions.iter().enumerate().filter(|(_, s)| s.used) {
            let of = self.of(Place(at as u32)).map(|(_, txn)| txn.node);
            for node in of.chain([session.node]) {
                if let Some(held) = held.get_mut(usize::from(node.0)) {
                    *held += 1;
                }
            }
        }
        held
    }

    /// The counters, counted anew from the records.
    pub fn recount(&self) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.counters.loads().len()];
        for (at, session) in self.sessions.iter().enumerate().filter(|(_, s)| s.used) {
            if let Some(load) = loads.get_mut(usize::from(session.node.0)).filter(|_| session.phase.is_call())
            {
                load.calls += 1;
            }
            for (_, txn) in self.of(Place(at as u32)).filter(|(_, txn)| txn.open) {
                let Some(load) = loads.get_mut(usize::from(txn.node.0)) else { continue };
                if let Some(open) = load.open.get_mut(txn.class.kind() as usize) {
                    *open += 1;
                }
            }
        }
        loads
    }
}

fn key_of(sessions: &[Session], at: u32) -> CallKey {
    let session = invariant::some!(sessions.get(at as usize), "an indexed call has a place");
    session.map_or(CallKey(0, 0), |session| session.key)
}
