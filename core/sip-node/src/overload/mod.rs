//! Overload: what is not taken on when there is more to do than time, so that what was taken on ends well.
//!
//! | file | what |
//! |---|---|
//! | `common.rs` | what workers tell each other, so that neighbours hear the same of all |
//! | `governor.rs` | whether there is an overload, and how much new work is taken on in it |
//! | `backlog.rs` | whether a worker that is behind only catches up |
//! | `shares.rs` | who may bring how much of it |
//! | `recent.rs` | calls taken on of late, and calls passed over |
//! | `screen.rs` | what a message is, from its first line and two header fields |
//!
//! What neighbours tell each other in Via, and which of them asked for less, is `sip_proxy::feedback`.
//!
//! New work is what begins something: an INVITE, a registration and so on. Never refused are responses, ACK, CANCEL,
//! BYE and other requests within a dialog of ours, because refusing them spoils what was paid for already; and what
//! repeats an accepted request, which the transaction layer answers before anybody asks here. A request that only says
//! that it is within a dialog is new work. Calls for help are taken on first, as far as they are few. Refusals are stateless
//! (503 with Retry-After) as far as they cost little; what is beyond that gets no answer.

mod backlog;
mod common;
mod governor;
#[cfg(test)]
mod model;
mod recent;
mod screen;
mod shares;

pub use common::Common;
pub(crate) use governor::Change;
pub(crate) use screen::{Kind, screen};
pub(crate) use sip_proxy::feedback::oc::{fill, knows, offer, take_out, wish};
pub(crate) use sip_proxy::feedback::{Algorithm, Category, Neighbours, Wish};

use common::Wanted;
use core::time::Duration;
use governor::Governor;
use recent::Recent;
use shares::{Answers, Shares};
use sip_message::Method;
use sip_proxy::feedback::oc::RATE_MAX;
use sip_steering::memory_bits;
use std::sync::Arc;
use wire::{Load, Sieve, Time};

/// Units of an INVITE. Any other new request is one: it is followed by less.
const CALL: u32 = 4;
/// Units of refused requests that are answered, by those that could be taken on if nothing had to be refused. To send a
/// 503 and to take its ACK costs two or three messages, to leave an INVITE unanswered one each time that it is
/// repeated: so refusals are answered as long as they leave anything for calls.
const ANSWERS: f64 = 4.0;
/// The same by what is taken on, of a worker that is behind: what waits is also what was taken on before.
const ANSWERS_BEHIND: f64 = 0.5;
/// The same of datagrams, where the kernel drops what is not answered. That costs nothing here, so answers are what costs.
const ANSWERS_SIEVED: f64 = 0.1;
/// The same on streams, where nothing is repeated and an answer spares nothing: one for five calls that are taken on, so that
/// answers and their ACKs take about a twentieth of the time.
const ANSWERS_STREAM: f64 = 0.2;
/// What that figure loses with each window, if less can be taken on.
const BEST_FADES: f64 = 0.998;
/// Requests of a call: INVITE, ACK and BYE. A rate that is told is one of all requests (RFC 7415 section 3.4).
const REQUESTS: f32 = 3.0;
/// How long requests other than INVITE with one Call-ID have the same fate, seconds: a phone keeps its Call-ID for all its
/// registrations (RFC 3261 section 10.2.4), and the same phones should not be refused for as long as an overload lasts.
const LUCK: u64 = 64;
/// What is added to their lots each time: the whole, by the golden ratio, so that luck comes in turn.
const NEXT: u16 = 40_503;
/// How long who was challenged has to come with credentials, and how many bits remember it: of 10,000 registrations a second
/// two in a hundred are set.
const PASS: Duration = Duration::from_secs(2);
const PASS_BITS: usize = 1 << 21;
/// Windows of an overload before it is judged whether the kernel drops what it is told to, and over how many.
const JUDGED: u32 = 20;
const OVER: f64 = 16.0;
/// Calls taken on in a window that the kernel is told of, at most: it may drop what repeats the others.
const KNOWN_MAX: usize = 1 << 20;
/// What is not taken on is noticed from this part on.
const SHED: f32 = 0.005;
/// How long a neighbour goes by what it was told: the default of RFC 7339 section 4.3.
const VALID: Duration = Duration::from_millis(500);

/// What becomes of new work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is taken on.
    Take,
    /// It is refused.
    Refuse,
    /// It is not answered.
    Drop,
}

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
    /// Requests other than INVITE that were taken on and challenged: they are taken on when they bring credentials.
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
    /// Datagrams of this window left unanswered here, though the kernel drops such.
    silent: u32,
    /// Windows of this overload, and the means of what the kernel dropped in them and of what it did not.
    windows: u32,
    sieved_mean: f64,
    silent_mean: f64,
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
        (self.windows, self.sieved_mean, self.silent_mean) = (0, 0.0, 0.0);
    }

    /// What refusals ask for, seconds.
    pub fn retry_after(&self) -> u32 {
        self.rules.retry_after
    }

    /// What the kernel lets pass as calls for help.
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

    /// Whether neighbours are told. Only a worker that is alone or knows what the others want knows how the server is: else
    /// they would contradict each other, with numbers that interleave, and one that is well would take back what another said.
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
                let (wanted, number) = common.wanted(at, self.paced);
                (loss, left, sequence) = (wanted.loss, wanted.left, number);
            }
        } else if self.sheds {
            (loss, left) = self.shares.tell(source);
        }
        let well = Wish { algorithm, value: 0, valid: Duration::ZERO, sequence: Some(sequence) };
        let value = match algorithm {
            _ if loss < SHED => return well,
            Algorithm::Loss => nearest(loss * 100.0).min(100),
            Algorithm::Rate => nearest(left / CALL as f32 * REQUESTS).clamp(1, RATE_MAX),
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
            let verdict = self.shares.judge(source, 0, units(false), stream);
            return self.judged(verdict, call, units(false), stream);
        }
        let known = invite && self.recent.knows(call);
        if invite && !stream && !known {
            return self.judge_first(source, call);
        }
        let lot = (call as u16).wrapping_add(if invite { 0 } else { self.shares.table().shift() });
        let units = units(invite);
        let verdict = match known {
            // What was challenged comes through with its credentials, though the threshold has moved.
            true => self.shares.judge_known(source, lot, units, stream),
            false => self.shares.judge(source, lot, units, stream),
        };
        self.judged(verdict, call, units, stream)
    }

    /// A request other than INVITE that was taken on is asked for its credentials. It comes with them under the same Call-ID,
    /// which all registrations of a phone have: so it is known for a moment only, and not for another one for having come so.
    pub fn challenges(&mut self, source: u64, call: u64) {
        if self.sheds && !self.by_pass {
            self.challenged.note(self.paced, pass(source, call));
        }
    }

    /// The same of an INVITE by datagram of a call that was not taken on yet. One that got no answer gets none when it is
    /// repeated, unless its source has been served in full all the time: then chance was against it, as an overload began.
    fn judge_first(&mut self, source: u64, call: u64) -> Verdict {
        let lot = call as u16;
        let repeats = self.passed_over.knows(call) && !self.shares.serves(source);
        let verdict = if repeats { Verdict::Drop } else { self.shares.judge(source, lot, CALL, false) };
        if verdict == Verdict::Drop && !repeats && self.shares.is_near(source, lot) {
            self.passed_over.note(self.paced, call);
        }
        self.judged(verdict, call, CALL, false)
    }

    /// The same of a request that asks whether we are there (OPTIONS), of which a few are answered in any case: whoever gets no
    /// answer to them takes us for dead and sends nothing at all any more, not even what goes first. `known`: the operator has
    /// named its sender.
    pub fn judge_probe(&mut self, source: u64, call: u64, stream: bool, known: bool) -> Verdict {
        let lot = (call as u16).wrapping_add(self.shares.table().shift());
        let verdict = self.shares.judge_probe(source, lot, stream, known);
        // The kernel drops none of these, nor of those below.
        self.judged(verdict, call, units(false), true)
    }

    /// The same of a call for help.
    pub fn judge_emergency(&mut self, source: u64, call: u64, invite: bool, stream: bool) -> Verdict {
        self.by_pass = !invite && self.challenged.knows(pass(source, call));
        let lot = match invite {
            true => call as u16,
            false if self.by_pass => 0,
            false => (call as u16).wrapping_add(self.shares.table().shift()),
        };
        let (units, known) = (units(invite), self.by_pass || invite && self.recent.knows(call));
        let verdict = self.shares.judge_emergency(source, lot, units, (stream, known));
        self.judged(verdict, call, units, true)
    }

    /// Counts what was judged. `passes`: the kernel would not have dropped it.
    fn judged(&mut self, verdict: Verdict, call: u64, units: u32, passes: bool) -> Verdict {
        if verdict == Verdict::Drop && !passes {
            self.silent += 1;
        }
        match verdict {
            Verdict::Take => {
                self.taken = self.taken.saturating_add(units);
                self.recent.note(self.paced, call);
                if self.rules.kernel && self.noted.len() < KNOWN_MAX {
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
        }
        // What the kernel dropped was refused, and so was what a neighbour left away because it was told to.
        let sieved = u32::try_from(load.sieved.unwrap_or(0)).unwrap_or(u32::MAX);
        let limits = self.sheds && self.shares.loss() >= SHED;
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
        for (at, source) in common.told(now).filter(|_| rules.workers > 1) {
            shares.set_common(source, common.wanted(at, now).0.loss);
        }
    }

    /// What this worker wants of neighbours that ask.
    fn tell_others(&mut self, now: Time) {
        let Overload { common: Some((common, worker)), shares, rules, sheds, .. } = self else { return };
        if rules.workers <= 1 {
            return;
        }
        for (at, source) in common.told(now) {
            let (loss, left) = if *sheds { shares.tell(source) } else { (0.0, 0.0) };
            common.want(*worker, at, Wanted { loss, left });
        }
        common.written(*worker, now);
    }

    /// Units of refused requests whose refusal is said in a second: less, the further the worker is behind, for what waits
    /// is also what was taken on.
    fn answers(&self, budget: f64, load: &Load) -> Answers {
        let all = match load.behind {
            behind if behind >= self.rules.patience => budget * ANSWERS_BEHIND,
            behind if behind >= self.rules.patience / 2 => self.best,
            _ => self.best * ANSWERS,
        };
        let sieved = load.sieved.is_some() && self.rules.kernel && self.kernel_helps();
        let datagrams = if sieved { all.min(budget * ANSWERS_SIEVED) } else { all };
        let streams = all.min(self.best * ANSWERS_STREAM);
        Answers { all: all as f32, datagrams: datagrams as f32, streams: streams as f32 }
    }

    /// Whether the kernel drops most of what may be dropped. Its program lets pass what it does not understand, and all of it
    /// where its clock is another one; whoever gets no answer then repeats what he sent, which is read each time.
    fn kernel_helps(&self) -> bool {
        self.windows < JUDGED || self.sieved_mean >= self.silent_mean
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
mod tests {
    use super::*;

    /// A trunk that leaves away what it is told to: nothing has to be refused then, and there is an overload all the same.
    #[test]
    fn a_trunk_that_does_as_it_is_told_is_told_so_as_long_as_it_has_more() {
        let mut overload = Overload::new(Rules::default(), 7);
        let mut now = Time::from_secs(1);
        // It has 200 calls in a window, of which the worker can do 100: what is more makes it fall behind.
        let (mut waits, mut lot, mut begun) = (0u32, 0u64, Vec::new());
        let mut taken = 0;
        for window in 0..1_200 {
            now = now + Load::WINDOW;
            let loss = overload.wish(7, Algorithm::Loss).value;
            for n in 0..200u32 {
                lot = lot.wrapping_add(0x9e37_79b9_7f4a_7c15);
                if n * 100 / 200 < loss {
                    continue;
                }
                let call = lot ^ lot >> 29;
                if !overload.sheds() {
                    overload.note(Method::Invite);
                } else if overload.judge(7, call, true, true) != Verdict::Take {
                    continue;
                }
                waits += 1;
                taken += u32::from(window >= 600);
            }
            waits = waits.saturating_sub(100);
            let behind = Duration::from_micros(u64::from(waits) * 500);
            let load = Load { window: Load::WINDOW, behind, kept_up: waits == 0, ..Load::default() };
            begun.extend(overload.pace(now, &load));
        }
        assert_eq!(begun, [Change::Entered]);
        let taken = f64::from(taken) / 600.0;
        assert!((90.0..=101.0).contains(&taken), "{taken} in a window");
    }

    /// A phone registers again and again with one Call-ID, and asks again when it was refused.
    #[test]
    fn nobody_is_refused_for_as_long_as_an_overload_lasts() {
        let mut overload = Overload::new(Rules::default(), 7);
        let mut now = Time::from_secs(1);
        let mut served = vec![0u32; 1_000];
        let mut calls = vec![0u32; 1_000];
        for window in 0..40_000u32 {
            now = now + Load::WINDOW;
            if window % 16 == 0 {
                for phone in 0..1_000u64 {
                    let call = phone.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                    let was = overload.sheds() && overload.judge(7, call, false, false) == Verdict::Take;
                    served[phone as usize] += u32::from(was);
                }
            }
            for n in 0..200u64 {
                let call = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                let was = overload.sheds() && overload.judge(7, call, true, false) == Verdict::Take;
                calls[n as usize] += u32::from(was);
            }
            let behind = Duration::from_millis(if overload.taken > 400 { 400 } else { 0 });
            overload.pace(
                now,
                &Load { window: Load::WINDOW, behind, kept_up: behind.is_zero(), ..Load::default() },
            );
            if window == 0 {
                overload.pace(now, &Load { behind: Duration::from_secs(1), ..Load::default() });
            }
        }
        assert!(overload.sheds() && served.iter().all(|served| *served > 0), "{served:?}");
        // Of calls the fate is the same, for a call is over when it is not repeated any more.
        assert!(calls[..200].contains(&0));
    }

    /// A phone that was asked for its credentials, and comes with them while less and less is taken on.
    #[test]
    fn what_was_challenged_is_taken_on_with_its_credentials() {
        let mut flooded = Flooded::new();
        flooded.run(400, 100);
        let ask = |flooded: &mut Flooded, call: u64| flooded.overload.judge(7, call, false, false);
        let phones: Vec<u64> =
            Flooded::spread(3).filter(|c| ask(&mut flooded, *c) == Verdict::Take).collect();
        phones.iter().for_each(|call| flooded.overload.challenges(7, *call));
        assert!(phones.len() > 50, "{}", phones.len());
        flooded.run(15, 1_000);
        assert!(phones.iter().all(|call| ask(&mut flooded, *call) == Verdict::Take));
        // Nobody comes in for ever by having come in once.
        for _ in 0..5 {
            flooded.run(20, 1_000);
            for call in &phones {
                if ask(&mut flooded, *call) == Verdict::Take {
                    flooded.overload.challenges(7, *call);
                }
            }
        }
        let taken = phones.iter().filter(|call| ask(&mut flooded, **call) == Verdict::Take).count();
        assert!(taken < phones.len() / 2, "{taken} of {}", phones.len());
    }

    /// Its program does not know what comes, or reads another clock.
    #[test]
    fn a_kernel_that_drops_nothing_is_not_counted_on() {
        let refused = |drops: fn(u32) -> Option<u64>| {
            let mut overload = Overload::new(Rules::default(), 7);
            let (mut now, mut call, mut refused) = (Time::from_secs(1), 0u64, 0);
            for window in 0..400 {
                let (mut taken, mut silent) = (0, 0);
                for _ in 0..100 {
                    call = call.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let verdict = match overload.sheds() {
                        true => overload.judge(7, call ^ call >> 29, true, false),
                        false => Verdict::Take,
                    };
                    taken += u32::from(verdict == Verdict::Take);
                    silent += u32::from(verdict == Verdict::Drop);
                    refused += u32::from(window >= 200 && verdict == Verdict::Refuse);
                }
                now = now + Load::WINDOW;
                let behind = Duration::from_millis(if window == 0 { 1_000 } else { 0 });
                let sieved = drops(silent);
                overload.pace(
                    now,
                    &Load { window: Load::WINDOW, behind, kept_up: taken <= 50, sieved, waiting: None },
                );
            }
            refused
        };
        let (without, helps, does_not) = (refused(|_| None), refused(|_| Some(1_000)), refused(|_| Some(0)));
        assert!(does_not * 10 > without * 8 && helps * 4 < without, "{without} {helps} {does_not}");
    }

    /// The kernel drops no byte of a stream, and nothing is repeated there: an answer, and the ACK that it brings, spare nothing.
    /// So few refusals are all said, and of many one for five calls that are taken on.
    #[test]
    fn on_streams_a_refusal_is_said_for_five_calls_taken_on() {
        for (sieved, offered) in [(None, 100), (Some(0), 100), (None, 54)] {
            let mut overload = Overload::new(Rules::default(), 7);
            let mut now = Time::from_secs(1);
            let (mut call, mut refused, mut dropped) = (0u64, 0, 0);
            for window in 0..400 {
                let mut taken = 0;
                for _ in 0..offered {
                    call = call.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let verdict = match overload.sheds() {
                        true => overload.judge(7, call ^ call >> 29, true, true),
                        false => Verdict::Take,
                    };
                    taken += u32::from(verdict == Verdict::Take);
                    refused += u32::from(window >= 200 && verdict == Verdict::Refuse);
                    dropped += u32::from(window >= 200 && verdict == Verdict::Drop);
                }
                now = now + Load::WINDOW;
                // It can do 50 in a window.
                let behind = Duration::from_millis(if window == 0 { 1_000 } else { 0 });
                overload.pace(
                    now,
                    &Load { window: Load::WINDOW, behind, kept_up: taken <= 50, sieved, waiting: None },
                );
            }
            match offered {
                100 => assert!(
                    (1_500..=2_500).contains(&refused) && dropped > 5_000,
                    "{refused}, {dropped} not said"
                ),
                _ => assert!(refused > 3 * dropped, "{refused}, {dropped} not said"),
            }
        }
    }

    /// A worker that can do 50 calls in a window, and one source.
    struct Flooded {
        overload: Overload,
        now: Time,
        next: u64,
    }

    impl Flooded {
        fn new() -> Flooded {
            let mut flooded =
                Flooded { overload: Overload::new(Rules::default(), 7), now: Time::from_secs(1), next: 0 };
            flooded.overload.pace(flooded.now, &Load { behind: Duration::from_secs(1), ..Load::default() });
            flooded
        }

        fn judge(&mut self, call: u64) -> Verdict {
            self.overload.judge(7, call, true, false)
        }

        /// So many windows with so many new calls in each.
        fn run(&mut self, windows: u32, calls: u32) {
            for _ in 0..windows {
                let before = self.overload.taken;
                for _ in 0..calls {
                    self.next = self.next.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    self.judge((self.next ^ self.next >> 29) & 0xf_ffff_ffff);
                }
                self.now = self.now + Load::WINDOW;
                let kept_up = (self.overload.taken - before) / CALL <= 50;
                let load = Load {
                    window: Load::WINDOW,
                    behind: Duration::ZERO,
                    kept_up,
                    sieved: Some(10_000),
                    waiting: None,
                };
                self.overload.pace(self.now, &load);
            }
        }

        /// Calls of this kind, with lots that are spread evenly.
        fn spread(kind: u64) -> impl Iterator<Item = u64> {
            (0..200).map(move |n| ((kind * 1_000 + n) << 16) | (n * 300))
        }

        fn told(&self) -> usize {
            self.overload.sieve().map_or(0, |sieve| sieve.known.len())
        }
    }

    /// Nobody is connected late because a threshold has risen meanwhile.
    #[test]
    fn what_got_no_answer_gets_none_when_it_is_repeated() {
        let mut flooded = Flooded::new();
        flooded.run(400, 200);
        let dropped: Vec<u64> =
            Flooded::spread(1).filter(|call| flooded.judge(*call) == Verdict::Drop).collect();
        // Twice as much of it is taken on now.
        flooded.run(100, 100);
        let below = |call: &&u64| (**call as u16) < 26_000;
        let again: Vec<&u64> = dropped.iter().filter(below).collect();
        assert!(again.len() > 20, "{}", again.len());
        assert!(again.iter().all(|call| flooded.judge(**call) == Verdict::Drop));
        let others: Vec<u64> = again.iter().map(|call| **call + (1 << 30)).collect();
        assert!(
            others.iter().filter(|call| flooded.judge(**call) == Verdict::Take).count() > others.len() / 2
        );
        // Nor because all that the source brings is taken on again.
        flooded.run(30, 10);
        let again = again.into_iter().copied().take(20).collect::<Vec<u64>>();
        assert!(flooded.overload.sheds() && again.iter().all(|call| flooded.judge(*call) == Verdict::Drop));
        // Where that has been so for as long as they may come again, nobody is passed over.
        flooded.run(640, 10);
        assert!(flooded.overload.sheds() && again.iter().all(|call| flooded.judge(*call) == Verdict::Take));
    }

    /// It brings its credentials, or its answer was lost; and the kernel is told of it.
    #[test]
    fn what_was_taken_on_is_taken_on_when_it_comes_again() {
        let mut flooded = Flooded::new();
        flooded.run(400, 100);
        let taken: Vec<u64> =
            Flooded::spread(1).filter(|call| flooded.judge(*call) == Verdict::Take).take(40).collect();
        flooded.run(1, 0);
        assert!(taken.len() >= 20 && flooded.told() == 2 * taken.len(), "{} {}", taken.len(), flooded.told());
        // So long a challenge takes at most.
        flooded.run(15, 1_000);
        assert!(taken.iter().filter(|call| (**call as u16) > 6_000).count() > 10);
        assert!(taken.iter().all(|call| flooded.judge(*call) == Verdict::Take));
        // After that it is new work of its lot, but is answered at least.
        flooded.run(60, 1_000);
        assert!(taken.iter().any(|call| flooded.judge(*call) != Verdict::Take));
        let told = flooded.told();
        flooded.overload.remember(1 << 33 | 65_000);
        assert_eq!(flooded.told(), told + 2);
    }
}
