//! Answers to the questions of servers: those of the name service, and those of the location service for
//! bindings that others hold.

use super::{Event, World, address};
use crate::attack::{self, ATTACKER};
use crate::mutation::Mutation;
use crate::rng::Rng;
use crate::scenario::{Location, Weather};
use crate::text::string;
use sip_node::{BindingSet, Located, Notice, Question, StoreDown};
use sip_proxy::locate::{Answer, Kind, Srv};
use std::net::IpAddr;
use wire::{Machine, Time};

/// The state of the name and location services.
pub(super) struct Answers {
    names_down_until: Time,
    /// Decides whether and when the location service answers.
    rng: Rng,
    /// The number of its answers.
    told: u64,
}

impl Answers {
    /// The name service works.
    pub fn new(seed: u64) -> Answers {
        Answers { names_down_until: Time::ZERO, rng: Rng::new(seed), told: 0 }
    }

    /// The name service fails until then.
    pub fn fail_names(&mut self, until: Time) {
        self.names_down_until = until;
    }
}

impl World {
    /// The number of answers of the location service.
    pub fn told_count(&self) -> u64 {
        self.answers.told
    }

    pub(super) fn take_questions(&mut self, site: usize) {
        let asked = core::mem::take(&mut *self.sites[site].shared.asked.borrow_mut());
        let life = self.sites[site].life;
        for (worker, question) in asked {
            let worker = usize::from(worker);
            let (kind, name) = match question {
                Question::Name { kind, name } => (kind, name),
                Question::Bindings { aor } => {
                    self.ask_location(site, life, worker, &aor);
                    continue;
                }
            };
            let slow = self.scenario.weather == Weather::Stormy && self.rng.chance(100);
            let delay = if slow { self.rng.millis(1_000, 6_000) } else { self.rng.millis(1, 80) };
            self.at(self.now + delay, Event::Name { site, life, worker, kind, name });
        }
    }

    pub(super) fn named(&mut self, site: usize, life: u32, worker: usize, kind: Kind, name: Box<[u8]>) {
        if !self.is_alive(site, life) {
            return;
        }
        let down = self.now < self.answers.names_down_until;
        let stormy = self.scenario.weather == Weather::Stormy;
        let answer = match down || stormy && self.rng.chance(30) {
            true => Answer::Failed,
            false => self.record(kind, &name),
        };
        let ttl = self.rng.pick(&[0, 1, 30, 3_600], 30);
        let notice = Notice::Located(Located::Name { kind, name, answer, ttl });
        self.drive(site, worker, |node, now, out| node.notice(now, notice, out));
    }

    /// The name service.
    fn record(&self, kind: Kind, name: &[u8]) -> Answer {
        let name = string(name);
        let home = |domain: &str| self.sites.iter().find(|s| s.spec.domain == domain).map(|s| s.spec.address);
        match kind {
            Kind::Srv => {
                let domain = name.strip_prefix("_sip._udp.").or(name.strip_prefix("_sip._tcp."));
                let Some(domain) = domain.filter(|d| home(d).is_some()) else { return Answer::Nothing };
                let target = format!("sip.{domain}").into_bytes().into();
                Answer::Srv([Srv { priority: 1, weight: 1, port: 5060, target }].into())
            }
            Kind::A => {
                let host = name.strip_prefix("sip.").unwrap_or(&name);
                let found = match host {
                    "victim.test" => attack::VICTIM.parse().ok(),
                    "evil.test" => Some(address(ATTACKER).ip()),
                    _ => home(host).map(|a| a.ip()),
                };
                match found {
                    Some(IpAddr::V4(ip)) => Answer::A([ip].into()),
                    _ => Answer::Nothing,
                }
            }
            Kind::Naptr | Kind::Aaaa => Answer::Nothing,
        }
    }

    /// A question for bindings goes to the location service.
    fn ask_location(&mut self, site: usize, life: u32, worker: usize, aor: &[u8]) {
        let (answers, down, most_ms) = match self.scenario.location {
            Location::Here => return,
            Location::Punctual => (self.answers.rng.pick(&[1, 1, 1, 2], 1), false, 150),
            Location::Late { .. } => {
                let answers = self.answers.rng.pick(&[0, 1, 1, 1, 1, 2], 1);
                (answers, self.answers.rng.chance(100), 100)
            }
        };
        for _ in 0..answers {
            let (delay, aor) = (self.answers.rng.millis(1, most_ms), aor.into());
            self.at(self.now + delay, Event::Bindings { site, life, worker, aor, down });
        }
    }

    /// The location service answers.
    pub(super) fn told(&mut self, site: usize, life: u32, worker: usize, aor: Box<[u8]>, down: bool) {
        if !self.is_alive(site, life) {
            return;
        }
        self.answers.told += 1;
        let mut records = Vec::new();
        let location = &self.sites[site].shared.location;
        location.lookup(&aor, self.now, |binding| records.push(binding.to_record(&aor)));
        if self.mutates(Mutation::NoBindings) {
            records.clear();
        }
        let found =
            if down { Err(StoreDown { retry_after: 5 }) } else { Ok(BindingSet::new(records, Vec::new())) };
        let notice = Notice::Located(Located::Bindings { aor, found });
        self.drive(site, worker, |node, now, out| node.notice(now, notice, out));
    }
}
