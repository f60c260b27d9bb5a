//! Transactions and dialogs of all back ends of a program.

use crate::engine::wheel::Wheel;
use core::hash::BuildHasher;
use core::time::Duration;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use sip_message::{Message, Method, hex16};
use timing::{Slab, Tenant};
use wire::{Flow, ListenerId, Time};

/// Transactions that may be remembered at a time, and dialogs.
const MOST: usize = 1_000_000;
/// A dialog that had no INVITE for so long, or up to twice that, is forgotten: whoever began it is gone.
const LIFE: Duration = Duration::from_secs(3_600);

/// A transaction: its slot, and which of those that had the slot one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    pub slot: u32,
    generation: u32,
}

/// How far a transaction is (RFC 3261 section 17.2, RFC 6026).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Its request is being worked on; whether a 100 has been sent.
    Working { trying: bool },
    /// An INVITE has its final response, which is repeated until its ACK comes.
    Answered { since: Time, interval: Duration },
    /// It is over, and remembered for late repetitions.
    Over,
}

/// A request and what became of it.
#[derive(Debug)]
pub struct Transaction {
    pub key: u128,
    /// The dialog that it belongs to, or begins.
    pub dialog: u128,
    /// What all copies of it have in common that came another way; 0 of what begins no dialog.
    pub copies: u128,
    pub node: usize,
    pub cseq: u32,
    pub invite: bool,
    pub bye: bool,
    /// How many other requests were at its back end when it came.
    pub found: u32,
    /// Whether it belongs to a dialog that was there before.
    pub inside: bool,
    pub state: State,
    /// Of its final response; 0: none yet.
    pub status: u16,
    /// Where responses go.
    pub flow: Flow,
    pub came: Time,
    /// Header lines that all its responses have, and later its final response.
    pub text: Vec<u8>,
}

impl Default for Transaction {
    fn default() -> Transaction {
        Transaction {
            key: 0,
            dialog: 0,
            copies: 0,
            node: 0,
            cseq: 0,
            invite: false,
            bye: false,
            found: 0,
            inside: false,
            state: State::Over,
            status: 0,
            flow: Flow::udp(ListenerId(0), ([0, 0, 0, 0], 0).into()),
            came: Time::ZERO,
            text: Vec::new(),
        }
    }
}

impl Tenant for Transaction {
    /// Its text goes to another one before.
    fn clear(&mut self) {
        *self = Transaction::default();
    }
}

/// What names transactions and dialogs, keyed so that nobody outside can make two alike.
#[derive(Clone, Debug)]
pub struct Names {
    one: FixedState,
    other: FixedState,
}

impl Names {
    fn of(&self, parts: impl core::hash::Hash) -> u128 {
        u128::from(self.one.hash_one(&parts)) << 64 | u128::from(self.other.hash_one(&parts))
    }

    /// The transaction of a request at a node. A CANCEL and the ACK of a failure have that of their INVITE
    /// (RFC 3261 section 17.2.3).
    pub fn transaction(&self, node: usize, message: &Message<'_>) -> u128 {
        let via = message.via();
        let method = match message.method() {
            Method::Ack | Method::Cancel => Method::Invite.as_bytes(),
            other => other.as_bytes(),
        };
        let sender = (via.host, via.port, via.branch);
        self.of((node, sender, message.call_id(), message.from_tag(), message.cseq(), method))
    }

    /// The dialog that a caller's request belongs to, or would begin, and our tag in it.
    pub fn dialog(&self, node: usize, message: &Message<'_>) -> (u128, [u8; 16]) {
        let name = self.of((node, message.call_id(), message.from_tag()));
        (name, hex16(self.one.hash_one(name)))
    }

    /// What a request that begins a dialog has in common with its copies on other branches (RFC 3261 section
    /// 8.2.2.2).
    pub fn copies(&self, dialog: u128, message: &Message<'_>) -> u128 {
        self.of((dialog, message.cseq())).max(1)
    }
}

/// All of them.
pub struct Transactions {
    pub names: Names,
    slots: Slab<Transaction>,
    /// Memory of texts of those that are over.
    spare: Vec<Vec<u8>>,
    by_key: HashMap<u128, u32, FixedState>,
    /// INVITEs that begin a dialog, by what their copies have in common.
    by_copies: HashMap<u128, u32, FixedState>,
    /// Dialogs, each with the INVITE that began it or came in it last: those of an hour or less, and of the
    /// hour before.
    dialogs: [HashMap<u128, Ticket, FixedState>; 2],
    /// When the first of these hours began.
    hour: Time,
    /// Dialogs forgotten that nobody ended.
    pub forgotten: u64,
    /// How many of each there may be.
    pub most: usize,
    wheel: Wheel,
}

impl Transactions {
    /// None; time begins at `start`.
    pub fn new(seed: u64, start: Time) -> Transactions {
        let state =
            |nth: u64| FixedState::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(nth));
        Transactions {
            names: Names { one: state(1), other: state(2) },
            slots: Slab::default(),
            spare: Vec::new(),
            by_key: HashMap::with_hasher(state(3)),
            by_copies: HashMap::with_hasher(state(5)),
            dialogs: [HashMap::with_hasher(state(4)), HashMap::with_hasher(state(4))],
            hour: start,
            forgotten: 0,
            most: MOST,
            wheel: Wheel::new(start.as_micros()),
        }
    }

    /// Whether one more finds room, with a dialog of its own if it begins one. What ends a dialog makes room.
    pub fn has_room(&self, dialog: bool) -> bool {
        self.by_key.len() < self.most && (!dialog || self.dialogs() < self.most)
    }

    /// Forgets dialogs that nobody will end any more.
    pub fn forget(&mut self, now: Time) {
        let age = now.since(self.hour);
        if age < LIFE {
            return;
        }
        let hours = if age < LIFE * 2 { 1 } else { 2 };
        for _ in 0..hours {
            let [new, old] = &mut self.dialogs;
            self.forgotten += old.len() as u64;
            old.clear();
            core::mem::swap(new, old);
        }
        self.hour = if hours == 1 { self.hour + LIFE } else { now };
    }

    /// Begins one. It has no text, and the memory of one before for it. `None`: there is no room.
    pub fn begin(&mut self, key: u128, dialog: u128, node: usize, flow: Flow, now: Time) -> Option<Ticket> {
        let (slot, generation) = self.slots.take()?;
        let mut text = self.spare.pop().unwrap_or_default();
        text.clear();
        let state = State::Working { trying: false };
        let new = Transaction { key, dialog, node, flow, came: now, text, state, ..Transaction::default() };
        *self.slots.at_mut(slot)? = new;
        self.by_key.insert(key, slot);
        Some(Ticket { slot, generation })
    }

    fn ticket(&self, slot: u32) -> Ticket {
        Ticket { slot, generation: self.slots.generation(slot).unwrap_or(0) }
    }

    /// The transaction of this name.
    pub fn find(&self, key: u128) -> Option<Ticket> {
        self.by_key.get(&key).map(|&slot| self.ticket(slot))
    }

    /// Whether an INVITE like this one, which begins a dialog, has come another way.
    pub fn has_copy(&self, copies: u128) -> bool {
        self.by_copies.contains_key(&copies)
    }

    /// Notes what the copies of an INVITE have in common.
    pub fn set_copies(&mut self, ticket: Ticket, copies: u128) {
        let Some(one) = self.get(ticket) else { return };
        one.copies = copies;
        self.by_copies.insert(copies, ticket.slot);
    }

    /// The transaction of a ticket, unless it has been forgotten.
    pub fn get(&mut self, ticket: Ticket) -> Option<&mut Transaction> {
        self.slots.get_mut(ticket.slot, ticket.generation)
    }

    /// One is over; it is remembered until then, or not at all. Of an INVITE the text is not: its ACK has
    /// come.
    pub fn over(&mut self, ticket: Ticket, until: Option<Time>) {
        let Some(one) = self.get(ticket) else { return };
        one.state = State::Over;
        if one.invite {
            let text = core::mem::take(&mut one.text);
            self.spare.push(text);
        }
        match until {
            Some(until) => self.wake(ticket, until),
            None => self.end(ticket),
        }
    }

    /// Forgets one.
    pub fn end(&mut self, ticket: Ticket) {
        let Some(one) = self.get(ticket) else { return };
        let (key, copies, text) = (one.key, one.copies, core::mem::take(&mut one.text));
        if copies != 0 {
            self.by_copies.remove(&copies);
        }
        if text.capacity() > 0 {
            self.spare.push(text);
        }
        self.by_key.remove(&key);
        self.wheel.cancel(ticket.slot);
        self.slots.give(ticket.slot);
    }

    /// Notes that a dialog is there.
    pub fn dialog_up(&mut self, dialog: u128, invite: Ticket) {
        let [new, old] = &mut self.dialogs;
        old.remove(&dialog);
        new.insert(dialog, invite);
    }

    /// Forgets a dialog.
    pub fn dialog_over(&mut self, dialog: u128) {
        for dialogs in &mut self.dialogs {
            dialogs.remove(&dialog);
        }
    }

    /// The last INVITE of a dialog, if there is such a dialog.
    pub fn dialog(&self, dialog: u128) -> Option<Ticket> {
        self.dialogs.iter().find_map(|dialogs| dialogs.get(&dialog)).copied()
    }

    /// Dialogs that are up.
    pub fn dialogs(&self) -> usize {
        self.dialogs.iter().map(HashMap::len).sum()
    }

    /// Transactions remembered.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Wakes a transaction at this time, in place of another one.
    pub fn wake(&mut self, ticket: Ticket, at: Time) {
        self.wheel.arm(ticket.slot, at.as_micros());
    }

    /// The next transaction whose time has come.
    pub fn due(&mut self, now: Time) -> Option<Ticket> {
        self.wheel.pop(now.as_micros()).map(|slot| self.ticket(slot))
    }

    /// When there may be one.
    pub fn next(&self) -> Option<Time> {
        self.wheel.next().map(Time::from_micros)
    }
}
