//! What this worker knows of the DNS, and the look-ups that are not those of a branch.

use crate::services::{Counter, Question, Services};
use crate::site::domain;
use crate::step::Step;
use core::hash::Hasher;
use core::mem;
use sip_message::Uri;
use sip_proxy::locate::{self, Answer, Cache, Destinations, Kind, Located, Lookup, Want, locate};
use wire::Time;

/// What waits for an answer of the DNS and is no branch.
const NOBODY: u128 = u128::MAX;

/// The names that this worker has asked about, and who waits for an answer.
pub(super) struct Resolver {
    cache: Cache,
    /// Memory for those that an answer wakes.
    woken: Vec<u128>,
}

/// An answer, and the branches that wait for it.
pub(super) struct Woken {
    pub answer: Option<Answer>,
    pub waiters: Vec<u128>,
    /// Something that is no branch waits for it.
    pub others: bool,
}

impl Resolver {
    /// Knows nothing yet; keeps up to this number of names.
    pub fn new(names: usize, seed: [u64; 2]) -> Resolver {
        Resolver { cache: Cache::new(names, seed), woken: Vec::new() }
    }

    /// Looks a name up for `waiter`.
    pub fn ask(&mut self, now: Time, kind: Kind, name: &[u8], waiter: u128) -> Lookup<'_> {
        self.cache.ask(now, kind, name, waiter)
    }

    /// An answer of the DNS. The memory of the waiters comes back with [`Resolver::recycle`].
    pub fn answered(&mut self, now: Time, kind: Kind, name: &[u8], answer: Answer, ttl: u32) -> Woken {
        let mut waiters = mem::take(&mut self.woken);
        let answer = self.cache.fill(now, kind, name, answer, ttl, &mut waiters).cloned();
        let others = waiters.contains(&NOBODY);
        Woken { answer, waiters, others }
    }

    /// Keeps the memory of waiters.
    pub fn recycle(&mut self, mut waiters: Vec<u128>) {
        waiters.clear();
        self.woken = waiters;
    }

    /// The destinations of a URI, if all DNS answers are cached. Otherwise asks for the missing ones and
    /// returns `None`.
    pub fn locate_now<S: Services>(
        &mut self,
        step: &Step<'_, S>,
        uri: &Uri<'_>,
        large: bool,
        seed: u64,
    ) -> Option<Destinations> {
        let able = step.site.ability();
        let mut locate = match locate(&want(uri, large), &able, seed) {
            Ok(Located::Now(found)) => return Some(found),
            Ok(Located::Ask(locate)) => locate,
            Err(_) => return Some(Destinations::new()),
        };
        loop {
            match locate.poll() {
                locate::Step::Done(Ok(found)) => return Some(found),
                locate::Step::Done(Err(error)) => {
                    step.site.services().unresolved(locate.name(), error);
                    return Some(Destinations::new());
                }
                locate::Step::Wait => return None,
                locate::Step::Ask(ask) => {
                    let (kind, name) = locate.question(ask)?;
                    match self.cache.ask(step.now, kind, name, NOBODY) {
                        Lookup::Hit(answer) => {
                            let answer = answer.clone();
                            locate.answer(ask, &answer);
                        }
                        Lookup::Ask => {
                            step.site.services().count(Counter::Lookups);
                            step.site.services().ask(Question::Name { kind, name: name.into() });
                        }
                        Lookup::Joined => {}
                        Lookup::Full => return None,
                    }
                }
            }
        }
    }

    /// Looks up the operator's targets whose time has come, with or without calls.
    pub fn find_targets<S: Services>(&mut self, step: &mut Step<'_, S>) {
        while let Some((at, uri)) = step.site.places_mut().by_name.due(step.now) {
            let mut seed = step.site.keyed(domain::TARGETS);
            seed.write_u64(step.now.as_micros());
            let found = match Uri::parse(&uri) {
                Ok(uri) => self.locate_now(step, &uri, false, seed.finish()),
                Err(_) => Some(Default::default()),
            };
            if let Some(found) = found {
                step.site.places_mut().by_name.note(step.now, at, found.as_slice());
            }
        }
    }

    /// The DNS has answered something that the operator's targets may wait for.
    pub fn find_further<S: Services>(&mut self, step: &mut Step<'_, S>) {
        step.site.places_mut().by_name.look();
        self.find_targets(step);
    }
}

/// The parts of a URI that say where it leads.
pub(super) fn want<'a>(uri: &Uri<'a>, large: bool) -> Want<'a> {
    let maddr = uri.param(b"maddr").filter(|m| !m.is_empty());
    Want {
        secure: uri.scheme == sip_message::Scheme::Sips,
        host: maddr.unwrap_or(uri.host),
        port: uri.port,
        transport: uri.param(b"transport"),
        large,
    }
}
