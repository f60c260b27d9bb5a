//! Overload: what is not taken on when there is more to do than time, so that what was taken on ends well.
//!
//! | file | what |
//! |---|---|
//! | `admission.rs` | what becomes of one message |
//! | `common.rs` | what workers tell each other, so that neighbours hear the same of all |
//! | `governor.rs` | whether there is an overload, and how much new work is taken on in it |
//! | `backlog.rs` | whether a worker that is behind only catches up |
//! | `shares.rs` | who may bring how much of it |
//! | `recent.rs` | calls taken on of late, and calls passed over |
//! | `screen.rs` | what a message is, from its first line and two header fields |
//!
//! What neighbours tell each other in Via, and which of them asked for less, is `sip_proxy::feedback`.
//!
//! New work is what begins something: an INVITE, a registration and so on. Never refused are responses, ACK,
//! CANCEL, BYE and other requests within a dialog of ours, because refusing them spoils what was paid for
//! already; and what repeats an accepted request, which the transaction layer answers before anybody asks
//! here (on a stream, where nobody but a proxy without transactions repeats, if that is a front). A request
//! that only says that it is within a dialog is new work. Emergency calls are taken on first, as far as they
//! are few. Refusals are stateless (503 with Retry-After) as far as they cost little; what is beyond that
//! gets no answer.

mod admission;
mod backlog;
mod common;
#[cfg(test)]
mod crowd;
mod governor;
#[cfg(test)]
mod model;
#[cfg(test)]
mod obedience;
mod recent;
mod screen;
mod shares;
mod units;

pub use common::Common;
pub(crate) use governor::Change;
pub(crate) use screen::{Kind, screen};
pub(crate) use sip_proxy::feedback::oc::{fill, knows, offer, take_out, wish};
pub(crate) use sip_proxy::feedback::{Algorithm, Category, Neighbours, Wish};
pub use units::Verdict;

use common::Wanted;
use core::time::Duration;
use governor::Governor;
use recent::Recent;
use shares::{Answers, Shares};
use sip_message::Method;
use sip_proxy::feedback::oc::RATE_MAX;
use sip_steering::{memory_bits, part};
use std::sync::Arc;
use units::{CALL, SHED};
use wire::{Load, Sieve, Time};

/// Units of refused requests that are answered, by those that could be taken on if nothing had to be refused.
/// To send a 503 and to take its ACK costs two or three messages, to leave an INVITE unanswered one each time
/// that it is repeated: so refusals are answered as long as they leave anything for calls.
const ANSWERS: f64 = 4.0;
/// The same by what is taken on, of a worker that is behind: what waits is also what was taken on before.
const ANSWERS_BEHIND: f64 = 0.5;
/// The same of datagrams, where the kernel drops what is not answered. That costs nothing here, so answers
/// are what costs.
const ANSWERS_SIEVED: f64 = 0.1;
/// The same on streams, where nothing is repeated and an answer spares nothing: one for five calls that are
/// taken on, so that answers and their ACKs take about a twentieth of the time.
const ANSWERS_STREAM: f64 = 0.2;
/// What that figure loses with each window, if less can be taken on.
const BEST_FADES: f64 = 0.998;
/// How long requests other than INVITE with one Call-ID have the same fate, seconds: a phone keeps its
/// Call-ID for all its registrations (RFC 3261 section 10.2.4), and the same phones should not be refused for
/// as long as an overload lasts.
const LUCK: u64 = 64;
/// What is added to their lots each time: the whole, by the golden ratio, so that luck comes in turn.
const NEXT: u16 = 40_503;
/// How long who was challenged has to come with credentials, and how many bits remember it: of 10,000
/// registrations a second two in a hundred are set.
const PASS: Duration = Duration::from_secs(2);
const PASS_BITS: usize = 1 << 21;
/// Windows of an overload before it is judged whether the kernel drops what it is told to, and over how many.
const JUDGED: u32 = 20;
const OVER: f64 = 16.0;
/// In a window, of what it dropped and what it should have, from which on that is judged.
const EVIDENCE: f64 = 1.0;
/// Calls taken on in a window that the kernel is told of, at most: it may drop what repeats the others.
const KNOWN_MAX: usize = 1 << 20;
/// How long a neighbour goes by what it was told: the default of RFC 7339 section 4.3.
const VALID: Duration = Duration::from_millis(500);

/// The limits that an operator sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Whether anything is refused at all.
    pub enabled: bool,
    /// Being behind for so long is overload.
    pub patience: Duration,
    /// What refusals ask for, seconds.
    pub retry_after: u32,
    /// Whether trunks are told how much they may bring, and do the same for us (RFC 7339).
    pub feedback: bool,
    /// Whether the kernel, if it can, drops what would be left unanswered.
    pub kernel: bool,
    /// How many workers there are: each knows its own part only.
    pub workers: u16,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            enabled: true,
            patience: Duration::from_millis(200),
            retry_after: 5,
            feedback: true,
            kernel: true,
            workers: 1,
        }
    }
}

/// How a worker stands, for people.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Standing {
    /// New work is being refused.
    pub overloaded: bool,
    /// What part of what is offered is not taken on, 0 to 1.
    pub loss: f32,
}

/// The overload control of one worker.
pub(crate) struct Overload {
    rules: Rules,
    governor: Governor,
    shares: Shares,
    recent: Recent,
    /// Calls that got no answer of late: their INVITEs get none when they are repeated either.
    passed_over: Recent,
    /// Requests other than INVITE that were taken on and challenged: they are taken on when they bring
    /// credentials.
    challenged: Recent,
    /// What was judged last was taken on for that.
    by_pass: bool,
    /// Bits of the calls taken on in this window and in the last one, for the kernel.
    noted: Vec<u32>,
    known: Vec<u32>,
    /// Units taken on in this window.
    taken: u32,
    /// Requests refused or not answered in this window.
    refused: u32,
    /// Datagrams of this window left unanswered here, though the kernel was told to drop them.
    silent: u32,
    /// Windows of this overload, and the means of what the kernel dropped in them and of what it did not.
    windows: u32,
    sieved_mean: f64,
    silent_mean: f64,
    /// Whether the kernel drops most of what it is told to, by the last that it was told.
    kernel_helps: bool,
    /// As the governor has it: asked with every message.
    sheds: bool,
    /// When the last window ended.
    paced: Time,
    /// The most units a second that could be taken on of late.
    best: f64,
    /// What the other workers want, and which one this is.
    common: Option<(Arc<Common>, usize)>,
}

impl Overload {
    /// In calm. The seed is random and secret.
    pub fn new(rules: Rules, seed: u64) -> Overload {
        let governor = Governor::new(rules.patience);
        Overload {
            rules,
            governor,
            shares: Shares::new(seed),
            recent: Recent::default(),
            passed_over: Recent::default(),
            challenged: Recent::new(PASS_BITS, PASS),
            by_pass: false,
            noted: Vec::new(),
            known: Vec::new(),
            taken: 0,
            refused: 0,
            silent: 0,
            windows: 0,
            sieved_mean: 0.0,
            silent_mean: 0.0,
            kernel_helps: true,
            sheds: false,
            paced: Time::ZERO,
            best: 0.0,
            common: None,
        }
    }

    /// Other rules from now on. What changed by that.
    pub fn set_rules(&mut self, rules: Rules) -> Option<Change> {
        self.rules = rules;
        self.governor.set_patience(rules.patience);
        if rules.enabled || !self.sheds {
            return None;
        }
        self.governor = Governor::new(rules.patience);
        self.sheds = false;
        self.forget();
        Some(Change::Left)
    }

    /// The overload is over.
    fn forget(&mut self) {
        self.recent.clear();
        self.passed_over.clear();
        self.challenged.clear();
        (self.windows, self.sieved_mean, self.silent_mean, self.kernel_helps) = (0, 0.0, 0.0, true);
    }

    /// What refusals ask for, seconds.
    pub fn retry_after(&self) -> u32 {
        self.rules.retry_after
    }

    /// What the kernel lets pass as emergency calls.
    pub fn set_numbers(&mut self, emergency: Option<&crate::Emergency>) {
        self.shares.set_numbers(emergency.map_or(&[], |emergency| &emergency.numbers));
    }

    /// Whether neighbours are listened to.
    pub fn speaks(&self) -> bool {
        self.rules.feedback && self.rules.enabled
    }

    /// It is this one of the workers that share this.
    pub fn join(&mut self, common: Arc<Common>, worker: usize) {
        self.common = Some((common, worker));
    }

    /// Whether neighbours are told. Only a worker that is alone or knows what the others want knows how the
    /// server is: else they would contradict each other, with numbers that interleave, and one that is well
    /// would take back what another said.
    pub fn tells(&self) -> bool {
        self.speaks() && (self.rules.workers <= 1 || self.common.is_some())
    }

    /// Whether this neighbour is one of those that can be told.
    pub fn has_room_for(&self, source: u64) -> bool {
        self.rules.workers <= 1
            || self.common.as_ref().is_some_and(|(c, _)| c.place(source, self.paced).is_some())
    }

    /// What to tell a neighbour that can be told in this way.
    pub fn wish(&mut self, source: u64, algorithm: Algorithm) -> Wish {
        let (mut sequence, mut loss, mut left) = (self.paced.as_micros() / 10, 0.0, 0.0);
        if self.rules.workers > 1 {
            if let Some((common, _)) = &self.common
                && let Some(at) = common.place(source, self.paced)
            {
                common.goes_by(at, algorithm);
                let (wanted, number) = common.wanted(at, self.paced);
                (loss, left, sequence) = (wanted.loss, wanted.left, number);
                if common.is_new(at, self.paced) && self.sheds {
                    // The others will say so in a moment: most probably the same.
                    (loss, left) = self.shares.tell(source, algorithm);
                    left *= common.workers() as f32;
                }
            }
        } else if self.sheds {
            (loss, left) = self.shares.tell(source, algorithm);
        }
        let well = Wish { algorithm, value: 0, valid: Duration::ZERO, sequence: Some(sequence) };
        let value = match algorithm {
            Algorithm::Loss if loss >= SHED => nearest(loss * 100.0).min(100),
            // As long as the overload lasts: who brings what he may cannot be told from who would bring no
            // more.
            Algorithm::Rate if loss >= SHED || left > 0.0 => nearest(left).clamp(1, RATE_MAX),
            _ => return well,
        };
        Wish { value, valid: VALID, ..well }
    }

    /// Whether some new work is not taken on.
    #[inline]
    pub fn sheds(&self) -> bool {
        self.sheds
    }

    /// New work is taken on without a question, in calm times.
    #[inline]
    pub fn note(&mut self, method: Method<'_>) {
        self.taken = self.taken.wrapping_add(units(method == Method::Invite));
    }

    /// What the kernel is to drop; `None`: nothing.
    pub fn sieve(&self) -> Option<Sieve<'_>> {
        let Overload { shares, known, .. } = self;
        (self.sheds && self.rules.kernel).then(|| Sieve { words: shares.table().words(), known })
    }

    /// What becomes of new work. `call` is a hash of its Call-ID.
    pub fn judge(&mut self, source: u64, call: u64, invite: bool, stream: bool) -> Verdict {
        self.by_pass = !invite && self.challenged.knows(pass(source, call));
        if self.by_pass {
            // Below any threshold: it has moved meanwhile, and so may have the lots.
            let source = part(source, false);
            let verdict = self.shares.judge(source, 0, units(false), stream);
            return self.judged(verdict, call, false, (!stream).then_some((source, 0)));
        }
        let lot = (call as u16).wrapping_add(if invite { 0 } else { self.shares.table().shift() });
        // To look whether it is known misses the processor's cache. What a stream brings beyond any threshold
        // of late has the same fate either way, and of an overload of ten times that is nearly all.
        let may_matter = invite && (!stream || self.shares.may_take_known(part(source, true), lot));
        let known = may_matter && self.recent.knows(call);
        if invite && !stream && !known {
            return self.judge_first(source, call);
        }
        let (source, units) = (part(source, invite), units(invite));
        let verdict = match known {
            // What was challenged comes through with its credentials, though the threshold has moved.
            true => self.shares.judge_known(source, lot, units, stream),
            false => self.shares.judge(source, lot, units, stream),
        };
        self.judged(verdict, call, invite, (!stream).then_some((source, lot)))
    }

    /// A request other than INVITE that was taken on is asked for its credentials. It comes with them under
    /// the same Call-ID, which all registrations of a phone have: so it is known for a moment only, and not
    /// for another one for having come so.
    pub fn challenges(&mut self, source: u64, call: u64) {
        if self.sheds && !self.by_pass {
            self.challenged.note(self.paced, pass(source, call));
        }
    }

    /// The same of an INVITE by datagram of a call that was not taken on yet. One that got no answer gets
    /// none when it is repeated, unless its source has been served in full all the time: then chance was
    /// against it, as an overload began.
    fn judge_first(&mut self, source: u64, call: u64) -> Verdict {
        let lot = call as u16;
        let repeats = self.passed_over.knows(call) && !self.shares.serves(source);
        let verdict = if repeats { Verdict::Drop } else { self.shares.judge(source, lot, CALL, false) };
        if verdict == Verdict::Drop && !repeats && self.shares.is_near(source, lot) {
            self.passed_over.note(self.paced, call);
        }
        self.judged(verdict, call, true, Some((source, lot)))
    }

    /// The same of a request that asks whether we are there (OPTIONS), of which a few are answered in any
    /// case: whoever gets no answer to them takes us for dead and sends nothing at all any more, not even
    /// what goes first. `known`: the operator has named its sender.
    pub fn judge_probe(&mut self, source: u64, call: u64, stream: bool, known: bool) -> Verdict {
        let lot = (call as u16).wrapping_add(self.shares.table().shift());
        let verdict = self.shares.judge_probe(source, lot, stream, known);
        // The kernel drops none of these, nor of those below.
        self.judged(verdict, call, false, None)
    }

    /// The same of an emergency call.
    pub fn judge_emergency(&mut self, source: u64, call: u64, invite: bool, stream: bool) -> Verdict {
        self.by_pass = !invite && self.challenged.knows(pass(source, call));
        let lot = match invite {
            true => call as u16,
            false if self.by_pass => 0,
            false => (call as u16).wrapping_add(self.shares.table().shift()),
        };
        let (units, known) = (units(invite), self.by_pass || invite && self.recent.knows(call));
        let verdict = self.shares.judge_emergency(source, lot, units, (stream, known));
        self.judged(verdict, call, invite, None)
    }

    /// Counts what was judged. `by`: what the kernel knew it by, if it could have dropped it.
    fn judged(&mut self, verdict: Verdict, call: u64, invite: bool, by: Option<(u64, u16)>) -> Verdict {
        // What it was told to let pass says nothing of it. To hold that against it would be a trap: it is
        // told to let all pass once it is believed to drop nothing.
        if verdict == Verdict::Drop && by.is_some_and(|(source, lot)| !self.shares.passes(source, lot)) {
            self.silent += 1;
        }
        match verdict {
            Verdict::Take => {
                self.taken = self.taken.saturating_add(units(invite));
                self.recent.note(self.paced, call);
                // It remembers for half a minute and more. A phone has one Call-ID for all its registrations,
                // and comes with credentials within moments, when its lot is most probably still below the
                // threshold.
                if self.rules.kernel && invite && self.noted.len() < KNOWN_MAX {
                    self.noted.extend(memory_bits(call));
                }
            }
            Verdict::Refuse | Verdict::Drop => self.refused = self.refused.saturating_add(1),
        }
        verdict
    }

    /// A call that was taken on before this overload began.
    pub fn remember(&mut self, call: u64) {
        self.recent.note(self.paced, call);
        // The kernel is asked to drop right behind this.
        if self.rules.kernel && self.known.len() < KNOWN_MAX {
            self.known.extend(memory_bits(call));
        }
    }

    /// Something goes on that is known, without a question.
    pub fn goes_on(&mut self, invite: bool) {
        self.taken = self.taken.saturating_add(units(invite));
    }

    /// Whether this may repeat a request that was taken on in this overload.
    pub fn knows(&self, call: u64) -> bool {
        self.recent.knows(call)
    }

    /// A window is over. What changed.
    pub fn pace(&mut self, now: Time, load: &Load) -> Option<Change> {
        self.paced = now;
        self.challenged.turn(now);
        core::mem::swap(&mut self.noted, &mut self.known);
        self.noted.clear();
        let (taken, refused) = (core::mem::take(&mut self.taken), core::mem::take(&mut self.refused));
        let silent = core::mem::take(&mut self.silent);
        if !self.rules.enabled {
            return None;
        }
        if self.sheds {
            self.windows = self.windows.saturating_add(1);
            self.sieved_mean += (load.sieved.unwrap_or(0) as f64 - self.sieved_mean) / OVER;
            self.silent_mean += (f64::from(silent) - self.silent_mean) / OVER;
            if self.windows >= JUDGED && self.sieved_mean + self.silent_mean >= EVIDENCE {
                self.kernel_helps = self.sieved_mean >= self.silent_mean;
            }
        }
        // What the kernel dropped was refused, and so was what a neighbour left away because it was told to.
        let sieved = u32::try_from(load.sieved.unwrap_or(0)).unwrap_or(u32::MAX);
        let limits = self.sheds && self.shares.limits();
        let refused = refused.saturating_add(sieved).max(u32::from(limits));
        let change = self.governor.pace(now, load, taken, refused, limits);
        self.shares.set_shift(((now.as_micros() / 1_000_000 / LUCK) as u16).wrapping_mul(NEXT));
        let seconds = load.window.as_secs_f32();
        if let Some(budget) = self.governor.budget() {
            let fades = if change.is_some() { 0.0 } else { self.best * BEST_FADES };
            self.best = budget.max(fades);
            let (budget, answers) = (budget as f32, self.answers(budget, load));
            self.hear_others(now);
            match change {
                Some(_) => self.shares.begin(budget, answers, Load::WINDOW.as_secs_f32()),
                None => self.shares.turn(budget, answers, seconds),
            }
        } else if change.is_some() {
            self.forget();
        }
        self.sheds = self.governor.budget().is_some();
        self.tell_others(now);
        change
    }

    /// What neighbours are told by all workers from now on is what they leave away.
    fn hear_others(&mut self, now: Time) {
        let Overload { common: Some((common, _)), shares, rules, .. } = self else { return };
        for (at, source, _) in common.told(now).filter(|_| rules.workers > 1) {
            shares.set_common(source, common.wanted(at, now).0.loss);
        }
    }

    /// What this worker wants of neighbours that ask.
    fn tell_others(&mut self, now: Time) {
        let Overload { common: Some((common, worker)), shares, rules, sheds, .. } = self else { return };
        if rules.workers <= 1 {
            return;
        }
        for (at, source, algorithm) in common.told(now) {
            let (loss, left) = if *sheds { shares.tell(source, algorithm) } else { (0.0, 0.0) };
            common.want(*worker, at, Wanted { loss, left });
        }
        common.written(*worker, now);
    }

    /// Units of refused requests whose refusal is said in a second: less, the further the worker is behind,
    /// for what waits is also what was taken on.
    fn answers(&self, budget: f64, load: &Load) -> Answers {
        let all = match load.behind {
            behind if behind >= self.rules.patience => budget * ANSWERS_BEHIND,
            behind if behind >= self.rules.patience / 2 => self.best,
            _ => self.best * ANSWERS,
        };
        // Its program lets pass what it does not understand, and all of it where its clock is another one;
        // whoever gets no answer then repeats what he sent, which is read each time.
        let sieved = load.sieved.is_some() && self.rules.kernel && self.kernel_helps;
        let datagrams = if sieved { all.min(budget * ANSWERS_SIEVED) } else { all };
        let streams = all.min(self.best * ANSWERS_STREAM);
        Answers { all: all as f32, datagrams: datagrams as f32, streams: streams as f32 }
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        Standing { overloaded: self.sheds, loss: if self.sheds { self.shares.loss() } else { 0.0 } }
    }
}

/// What a pass of this source for this call is known by: nobody else has it.
fn pass(source: u64, call: u64) -> u64 {
    call ^ source.rotate_left(23)
}

/// The nearest whole number of one that is not negative.
fn nearest(number: f32) -> u32 {
    (number + 0.5) as u32
}

/// What new work counts for.
const fn units(invite: bool) -> u32 {
    if invite { CALL } else { 1 }
}

#[cfg(test)]
mod tests;
