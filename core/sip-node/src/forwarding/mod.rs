//! Forwarding (RFC 3261 section 16): with a response context for each request, and without memory.
//!
//! | file | what |
//! |---|---|
//! | `begin.rs` | from an admitted request to a response context |
//! | `actions.rs` | carries out what the response context asks for |
//! | `sending.rs`, `lookups.rs` | a branch: its address, its request, its client transaction |
//! | `responses.rs`, `redirection.rs` | what comes back on a branch |
//! | `upstream.rs` | what the caller is answered |
//! | `endings.rs` | timeouts, the transport, CANCEL |
//! | `diverted.rs`, `stages.rs` | calls that users forward; the targets of one callee after the other |
//! | `security.rs` | what `sips:` asks for |
//! | `silence.rs`, `prober.rs` | targets that do not answer |
//! | `challenged.rs`, `logins.rs`, `registering.rs` | accounts at trunks: credentials, registrations |
//! | `stateless.rs` | ACK of a 2xx, and stateless mode |
//! | `proxied.rs`, `slab.rs`, `accounts.rs`, `stored.rs` | the state of forwarded requests |
//! | `resolver.rs` | what is known of the DNS |

mod accounts;
mod actions;
mod begin;
mod challenged;
mod channels;
mod diverted;
mod endings;
mod logins;
mod lookups;
mod prober;
mod proxied;
mod redirection;
mod registering;
mod resolver;
mod responses;
mod security;
mod sending;
mod silence;
mod slab;
mod stages;
mod stateless;
mod stored;
mod upstream;

use crate::overload::{Algorithm, Neighbours};
use crate::services::Services;
use crate::settings::Settings;
use crate::step::Step;
use core::net::SocketAddr;
use core::time::Duration;
use logins::Logins;
use prober::Prober;
use proxied::ProxiedId;
use registering::Registering;
use resolver::{Resolver, Woken};
use sip_proxy::context::Action;
use sip_proxy::locate::{Answer, Kind};
use slab::ProxiedSlab;
use wire::Time;

/// Forwards requests, and passes back what is answered.
pub(crate) struct Forwarder {
    proxied: ProxiedSlab,
    resolver: Resolver,
    /// Next hops that asked for less.
    neighbours: Neighbours,
    prober: Prober,
    logins: Logins,
    registering: Registering,
    /// After this a request other than INVITE that has no answer yet gets a 100 (RFC 4320 section 4.1).
    early_trying: Duration,
    /// Memory for the actions of a response context.
    actions: Vec<Action>,
}

impl Forwarder {
    /// With nothing going on. `names`: kept by its DNS cache.
    pub fn new(worker: u16, names: usize, seed: [u64; 2], early_trying: Duration) -> Forwarder {
        let [a, b] = seed;
        Forwarder {
            proxied: ProxiedSlab::default(),
            resolver: Resolver::new(names, [b, a]),
            neighbours: Neighbours::default(),
            prober: Prober::new(worker),
            logins: Logins::default(),
            registering: Registering::new(worker),
            early_trying,
            actions: Vec::new(),
        }
    }

    /// The forwarded requests.
    pub const fn proxied(&self) -> &ProxiedSlab {
        &self.proxied
    }

    /// Next hops that ask for less.
    pub fn asking(&self, now: Time) -> impl Iterator<Item = (SocketAddr, Algorithm, u32)> {
        self.neighbours.asking(now)
    }

    /// Applies new settings: the number of workers, the targets, and the registrations.
    pub fn settings_changed(&mut self, settings: &Settings) {
        self.neighbours.set_workers(settings.overload.workers);
        self.prober.look();
        self.registering.look(settings);
    }

    /// Ends the registrations at trunks.
    pub fn leave<S: Services>(&mut self, step: &mut Step<'_, S>) {
        self.registering.leave(step);
        self.registering.run(step, &mut self.resolver);
    }

    /// Registrations whose end is waited for.
    pub fn leaving(&self) -> usize {
        self.registering.leaving()
    }

    /// Forgets neighbours that ask for nothing any more.
    pub fn tidy(&mut self, now: Time) {
        self.neighbours.tidy(now);
    }

    /// Lets [`Forwarder::walk_pending`] begin.
    pub fn begin_walk(&mut self) {
        self.proxied.begin_walk();
    }

    /// Shows some of the requests that have no final answer yet, in as many calls as it takes.
    pub fn walk_pending(&mut self, mut show: impl FnMut(&[u8])) {
        self.proxied.walk(|p| show(p.request()));
    }

    /// Asks the processor for what the user of a server transaction names.
    #[inline]
    pub fn prefetch(&self, user: u64) {
        self.proxied.prefetch(ProxiedId::split(user).0);
    }

    /// An answer of the DNS.
    pub fn located<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        (kind, name): (Kind, &[u8]),
        answer: Answer,
        ttl: u32,
    ) {
        let Woken { answer, mut waiters, others } = self.resolver.answered(step.now, kind, name, answer, ttl);
        if let Some(answer) = answer {
            for waiter in waiters.drain(..) {
                self.answered(step, waiter, &answer);
            }
        }
        self.resolver.recycle(waiters);
        if others {
            self.resolver.find_further(step);
            self.registering.name_found(step.now);
        }
    }

    /// Probes and look-ups whose time has come.
    pub fn timeout<S: Services>(&mut self, step: &mut Step<'_, S>) {
        self.prober.run(step);
        self.registering.run(step, &mut self.resolver);
        self.resolver.find_targets(step);
    }

    /// When [`Forwarder::timeout`] wants to be called for a probe or a registration.
    pub fn wakes(&self) -> Option<Time> {
        let wakes = self.prober.wakes().min(self.registering.wakes());
        Some(wakes).filter(|wakes| *wakes != Time::FAR)
    }
}
