//! The users of one worker: when each registers, whom it calls, and what becomes of the call.
//!
//! A pure source of events: [`Population::pop`] says what begins now, the engine does it and tells how it
//! ended. What a user does is a function of the seed, its number and the number of its call alone: it
//! chooses the same callees, rings and holds whatever the server does, however the users are divided
//! between workers, and whichever server is tested. Only the times differ, as a call that takes longer
//! delays the next one of the same user.

use super::calendar::{Calendar, HORIZON};
use super::distribution::{Distribution, Impossible, to_micros};
use super::parameters::{Callees, Parameters, USERS_PER_WORKER};
use super::phases::{Phase, Phases};
use super::rng::{Rng, mix};
use super::token::{CallToken, Kind, LONGEST_RING_MS, Side};
use super::zipf::Zipf;
use core::time::Duration;
use wire::Time;

/// What a user begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A registration. Tell its end with [`Population::registered`].
    Register {
        /// Who.
        user: u64,
        /// Whether the user has been registered before (the server knows the binding).
        refresh: bool,
    },
    /// A call. Tell its end with [`Population::call_ended`].
    Call {
        /// Who calls.
        caller: u64,
        /// Whom; never the caller.
        callee: u64,
        /// What becomes of it.
        plan: Plan,
    },
}

/// The course of a call, decided when it begins. Times are compressed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What becomes of it.
    pub kind: Kind,
    /// Completed: from the first ringing to the answer. Voicemail: to the callee's refusal. Cancelled: from
    /// the ringing that the caller hears to its CANCEL. Whole milliseconds.
    pub ring: Duration,
    /// From the answer to the BYE; zero if cancelled.
    pub hold: Duration,
    /// Who sends the BYE.
    pub hang_up: Side,
}

impl Plan {
    /// What the answering side must know.
    pub fn token(&self) -> CallToken {
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        CallToken {
            kind: self.kind,
            ring_ms: ms(self.ring).min(LONGEST_RING_MS),
            callee_hangs_up_ms: (self.hang_up == Side::Callee).then(|| ms(self.hold)),
        }
    }
}

// A user's state is one word: flags above, the number of its calls below.
const IN_CALL: u32 = 1 << 31;
/// The last registration succeeded.
const REGISTERED: u32 = 1 << 30;
/// Some registration succeeded; calls have begun.
const KNOWN: u32 = 1 << 29;
/// Another attempt to register is in the calendar.
const RETRYING: u32 = 1 << 28;
/// Calls made, modulo 2^28.
const CALLS: u32 = RETRYING - 1;

// What an entry of the calendar is for: two bits above the user.
const REGISTER: u32 = 0;
const CALL: u32 = 1;
const RETRY: u32 = 2;
const USER: u32 = (1 << 30) - 1;

/// Purposes of random numbers.
const FOR_REGISTER: u64 = 0;
const FOR_CALL: u64 = 1;
const FOR_THINK: u64 = 2;
const FOR_JITTER: u64 = 3;

/// The users of one worker.
pub struct Population {
    parameters: Parameters,
    phases: Phases,
    seed: u64,
    worker: u64,
    workers: u64,
    users: Vec<u32>,
    calendar: Calendar,
    /// Microseconds from registration to registration, compressed.
    interval: u64,
    retry: u64,
    zipf: Option<Zipf>,
    registered: u64,
    in_call: u64,
}

impl Population {
    /// The users whose number modulo `workers` is `worker`, of the population that `parameters` and `seed`
    /// describe. Nothing is due before `start`.
    pub fn new(
        parameters: &Parameters,
        seed: u64,
        worker: u32,
        workers: u32,
        start: Time,
    ) -> Result<Population, Impossible> {
        parameters.check()?;
        if worker >= workers {
            return Err(Impossible::new(format!("worker {worker} of {workers}: numbers begin at 0")));
        }
        let (worker, workers) = (u64::from(worker), u64::from(workers));
        let own = parameters.users.saturating_sub(worker).div_ceil(workers);
        if own > USERS_PER_WORKER {
            return Err(Impossible::new(format!(
                "users={} are {own} for each of {workers} workers; one can have {USERS_PER_WORKER}",
                parameters.users
            )));
        }
        let own = own as usize;
        let zipf = match parameters.callees {
            Callees::Zipf { exponent } => Some(Zipf::new(parameters.users, exponent)),
            _ => None,
        };
        let mut population = Population {
            phases: Phases::of(parameters, start),
            seed,
            worker,
            workers,
            users: vec![0; own],
            // A registration, a call and another attempt for each.
            calendar: Calendar::new(3 * own),
            interval: to_micros(parameters.register_every * 1e3, parameters.compression).max(1),
            retry: to_micros(parameters.register_retry * 1e3, parameters.compression).max(1),
            zipf,
            registered: 0,
            in_call: 0,
            parameters: parameters.clone(),
        };
        for local in 0..own as u32 {
            let due = population.first_registration(local);
            population.calendar.push(due, REGISTER << 30 | local);
        }
        Ok(population)
    }

    /// When something is due, so that [`Population::pop`] must be called; possibly too early, never too
    /// late. None if nothing will be without being told more.
    pub fn next_due(&self) -> Option<Time> {
        let at = self.time(self.calendar.next()?);
        (at < self.phases.start_of(Phase::CoolDown)).then_some(at)
    }

    /// What was to begin at `now` or before, and the time when it was to: the earliest first; call until
    /// there is nothing. After the measured window nothing begins.
    pub fn pop(&mut self, now: Time) -> Option<(Time, Deed)> {
        // Nothing is due at the window's end itself.
        let last = Time::from_micros(self.phases.start_of(Phase::CoolDown).as_micros().saturating_sub(1));
        let limit = self.micros(now.min(last))?;
        while let Some((due, entry)) = self.calendar.pop(limit) {
            let local = entry & USER;
            let deed = match entry >> 30 {
                REGISTER => {
                    let next = due + self.registration_gap(local, due);
                    self.calendar.push(next, REGISTER << 30 | local);
                    Some(self.registration(local))
                }
                RETRY => self.retry(local),
                _ => Some(self.call(local)),
            };
            if let Some(deed) = deed {
                return Some((self.time(due), deed));
            }
        }
        None
    }

    /// The registration of `user` ended. After the first success the user begins to think; after a
    /// failure it tries again in `register_retry` seconds.
    pub fn registered(&mut self, user: u64, ok: bool, now: Time) {
        let Some(local) = self.local(user) else { return };
        let Some(state) = self.users.get_mut(local as usize) else { return };
        let before = *state;
        if ok {
            *state |= REGISTERED | KNOWN;
            self.registered += u64::from(before & REGISTERED == 0);
            if before & KNOWN == 0 {
                // Calls begin when all have had the time to register.
                let from = self.micros(now.max(self.phases.start_of(Phase::WarmUp))).unwrap_or(0);
                self.think(local, from);
            }
        } else {
            *state = (*state & !REGISTERED) | RETRYING;
            self.registered -= u64::from(before & REGISTERED != 0);
            if before & RETRYING == 0 {
                let at = self.micros(now).unwrap_or(0) + self.retry;
                self.calendar.push(at, RETRY << 30 | local);
            }
        }
    }

    /// The call that `user` made has ended, in whatever way; it begins to think.
    pub fn call_ended(&mut self, user: u64, now: Time) {
        let Some(local) = self.local(user) else { return };
        let Some(state) = self.users.get_mut(local as usize) else { return };
        if *state & IN_CALL != 0 {
            *state &= !IN_CALL;
            self.in_call -= 1;
            let from = self.micros(now).unwrap_or(0);
            self.think(local, from);
        }
    }

    /// Whether the last registration of `user`, one of this worker's, succeeded.
    pub fn is_registered(&self, user: u64) -> bool {
        let state = self.local(user).and_then(|local| self.users.get(local as usize));
        state.is_some_and(|state| state & REGISTERED != 0)
    }

    /// Users of this worker.
    pub fn users(&self) -> u64 {
        self.users.len() as u64
    }

    /// Those of them whose last registration succeeded.
    pub fn users_registered(&self) -> u64 {
        self.registered
    }

    /// Those of them who are in a call that they made.
    pub fn users_in_call(&self) -> u64 {
        self.in_call
    }

    /// The worker that owns `user`.
    pub fn worker_of(&self, user: u64) -> u32 {
        (user % self.workers) as u32
    }

    /// The phases of the run.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// Bytes allocated for the users and their calendar.
    pub fn bytes(&self) -> usize {
        self.users.capacity() * size_of::<u32>() + self.calendar.bytes()
    }

    fn local(&self, user: u64) -> Option<u32> {
        let local = user / self.workers;
        (user % self.workers == self.worker && local < self.users()).then_some(local as u32)
    }

    fn user(&self, local: u32) -> u64 {
        u64::from(local) * self.workers + self.worker
    }

    /// Microseconds of the calendar; none before the start.
    fn micros(&self, at: Time) -> Option<u64> {
        at.as_micros().checked_sub(self.phases.start_of(Phase::Ramp).as_micros())
    }

    fn time(&self, micros: u64) -> Time {
        self.phases.start_of(Phase::Ramp) + Duration::from_micros(micros)
    }

    /// Random numbers of a user for a purpose; `n` tells occasions apart.
    fn rng(&self, local: u32, purpose: u64, n: u64) -> Rng {
        Rng::new(self.seed ^ mix(self.user(local) << 2 | purpose), n)
    }

    fn first_registration(&self, local: u32) -> u64 {
        let ramp = to_micros(self.parameters.ramp * 1e3, self.parameters.compression);
        self.rng(local, FOR_REGISTER, 0).below(ramp.max(1))
    }

    /// From the registration that was due at `due` to the next one.
    fn registration_gap(&self, local: u32, due: u64) -> u64 {
        let state = self.users.get(local as usize).copied().unwrap_or(0);
        let ramp = to_micros(self.parameters.ramp * 1e3, self.parameters.compression);
        if state & (KNOWN | RETRYING) == 0 && ramp != self.interval {
            // Registered over another time than the interval, users would come in waves for ever. One
            // shorter gap at the beginning spreads them evenly.
            return 1 + self.rng(local, FOR_REGISTER, 1).below(self.interval);
        }
        let jitter = self.parameters.register_jitter;
        if jitter == 0.0 {
            return self.interval;
        }
        let around = 1.0 + jitter * (2.0 * self.rng(local, FOR_JITTER, due).unit() - 1.0);
        ((self.interval as f64 * around) as u64).max(1)
    }

    fn registration(&self, local: u32) -> Deed {
        let state = self.users.get(local as usize).copied().unwrap_or(0);
        Deed::Register { user: self.user(local), refresh: state & KNOWN != 0 }
    }

    /// Another attempt to register, unless the ordinary one has succeeded since.
    fn retry(&mut self, local: u32) -> Option<Deed> {
        let state = self.users.get_mut(local as usize)?;
        *state &= !RETRYING;
        (*state & REGISTERED == 0).then(|| self.registration(local))
    }

    fn think(&mut self, local: u32, from: u64) {
        let state = self.users.get(local as usize).copied().unwrap_or(0);
        let mut rng = self.rng(local, FOR_THINK, u64::from(state & CALLS));
        let think = to_micros(self.parameters.think.sample(&mut rng), self.parameters.compression);
        // The run is over before the horizon.
        self.calendar.push(from.saturating_add(think).min(HORIZON), CALL << 30 | local);
    }

    fn call(&mut self, local: u32) -> Deed {
        let mut calls = 0;
        if let Some(state) = self.users.get_mut(local as usize) {
            calls = *state & CALLS;
            *state = (*state & !CALLS) | ((calls + 1) & CALLS) | IN_CALL;
            self.in_call += 1;
        }
        let caller = self.user(local);
        let mut rng = self.rng(local, FOR_CALL, u64::from(calls));
        let callee = self.callee(caller, &mut rng);
        Deed::Call { caller, callee, plan: self.plan(&mut rng) }
    }

    fn plan(&self, rng: &mut Rng) -> Plan {
        let p = &self.parameters;
        let time = |law: &Distribution, rng: &mut Rng| law.pause(rng, p.compression);
        let which = rng.unit();
        let (kind, ring, hold) = if which < p.completed {
            (Kind::Completed, time(&p.ring, rng), time(&p.hold, rng))
        } else if which < p.completed + p.voicemail || p.cancelled == 0.0 {
            (Kind::Voicemail, time(&p.voicemail_ring, rng), time(&p.voicemail_hold, rng))
        } else {
            (Kind::Cancelled, time(&p.patience, rng), Duration::ZERO)
        };
        // Drawn for every call, so that the share does not shift what follows.
        let callee_first = rng.chance(p.callee_hangs_up);
        let hang_up = if callee_first && kind == Kind::Completed { Side::Callee } else { Side::Caller };
        // Both sides must mean the same time, and a token carries milliseconds.
        let ring = (ring.as_micros() + 500) / 1_000;
        let ring = Duration::from_millis(ring.min(u128::from(LONGEST_RING_MS)) as u64);
        Plan { kind, ring, hold, hang_up }
    }

    fn callee(&self, caller: u64, rng: &mut Rng) -> u64 {
        let users = self.parameters.users;
        // One of `count` numbers from `first` on, without the caller's, which is among them.
        let other = |rng: &mut Rng, first: u64, count: u64| {
            let pick = first + rng.below(count - 1);
            if pick >= caller { pick + 1 } else { pick }
        };
        match (self.parameters.callees, &self.zipf) {
            (Callees::Neighbours { size, share }, _) if rng.chance(share) => {
                let first = caller - caller % size;
                let count = size.min(users - first);
                // The last group may consist of the caller alone.
                if count < 2 { other(rng, 0, users) } else { other(rng, first, count) }
            }
            (Callees::Zipf { .. }, Some(zipf)) => {
                let pick = zipf.sample(rng);
                if pick == caller { (pick + 1) % users } else { pick }
            }
            _ => other(rng, 0, users),
        }
    }
}
