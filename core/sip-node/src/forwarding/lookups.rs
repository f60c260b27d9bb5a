//! From a target to its addresses (RFC 3263), with questions to the DNS where it is needed.

use super::Forwarder;
use super::logins::GROWTH;
use super::proxied::{Branch, Pending, Proxied, ProxiedId};
use super::resolver::want;
use super::stored::with_request;
use crate::routing::{is_anothers, sources};
use crate::services::{Counter, Question, Services};
use crate::settings::Bounds;
use crate::short::Short;
use crate::step::Step;
use crate::trunk_ref::TrunkRef;
use core::mem;
use core::net::IpAddr;
use core::ops::Range;
use sip_message::{Message, Uri};
use sip_proxy::context::{Action, BranchId};
use sip_proxy::locate::{self, Answer, AskId, Destination, Error, Located, Lookup, locate};
use sip_proxy::token::Role;
use wire::Flow;

impl Forwarder {
    /// From a URI to addresses (RFC 3263); the branch goes on at once if none has to be asked for.
    pub(super) fn look_up<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        branch: Branch,
        uri: &Range<u32>,
        request: &Message<'_>,
        actions: &mut Vec<Action>,
    ) {
        let able = step.site.ability();
        let seed = step.random.next();
        // Of a phone it is not known whether it accepts connections.
        let target = p.target(branch.id);
        let phone = target.is_some_and(|t| t.role == Role::Local);
        let added = target.and_then(|t| t.headers.as_ref()).map_or(0, |rules| rules.growth());
        let trunk = target.and_then(|t| t.trunk.as_ref()).and_then(TrunkRef::get);
        let added = added + trunk.and_then(|t| t.account.as_ref()).map_or(0, |_| GROWTH);
        let size = step.site.grown(p.upstream.source, request) + added;
        let large = !phone && size > step.site.settings().proxy.mtu;
        let located = match Uri::parse(p.text(uri)) {
            Ok(uri) => locate(&want(&uri, large), &able, seed),
            Err(_) => Err(Error::BadHost),
        };
        match located {
            Ok(Located::Now(found)) => {
                self.settle(step, p, branch, Ok(found.as_slice()), Some(request), actions);
            }
            Ok(Located::Ask(locate)) => {
                p.lookups.push(Pending { branch, locate, full: false });
                self.pursue(step, p, branch.id, Some(request), actions);
            }
            Err(error) => self.settle(step, p, branch, Err(error), Some(request), actions),
        }
    }

    /// Puts the questions of a look-up, as far as they can be put now.
    fn pursue<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        branch: BranchId,
        request: Option<&Message<'_>>,
        actions: &mut Vec<Action>,
    ) {
        let Some(at) = p.lookups.iter().position(|l| l.branch.id == branch) else { return };
        loop {
            let id = p.id;
            let Some(pending) = p.lookups.get_mut(at) else { return };
            match pending.locate.poll() {
                locate::Step::Wait => return,
                locate::Step::Done(result) => {
                    let branch = pending.branch;
                    if let Err(error) = result {
                        let error = match error {
                            Error::Unavailable if pending.full => Error::Full,
                            error => error,
                        };
                        step.site.services().unresolved(pending.locate.name(), error);
                    }
                    p.lookups.swap_remove(at);
                    let found = result.as_ref().map(|f| f.as_slice()).map_err(|e| *e);
                    return self.settle(step, p, branch, found, request, actions);
                }
                locate::Step::Ask(ask) => {
                    let Some((kind, name)) = pending.locate.question(ask) else { return };
                    let waiter = waiter(id, branch, ask);
                    let answer = match self.resolver.ask(step.now, kind, name, waiter) {
                        Lookup::Hit(answer) => Some(answer.clone()),
                        Lookup::Full => {
                            pending.full = true;
                            Some(Answer::Failed)
                        }
                        Lookup::Joined => None,
                        Lookup::Ask => {
                            step.site.services().count(Counter::Lookups);
                            step.site.services().ask(Question::Name { kind, name: name.into() });
                            None
                        }
                    };
                    if let Some(answer) = answer {
                        pending.locate.answer(ask, &answer);
                    }
                }
            }
        }
    }

    /// A question that a branch waits for was answered.
    pub(super) fn answered<S: Services>(&mut self, step: &mut Step<'_, S>, waiter: u128, answer: &Answer) {
        let (id, branch, ask) = unwaiter(waiter);
        let Some(mut p) = self.proxied.take(id) else { return };
        let mut actions = mem::take(&mut self.actions);
        if let Some(pending) = p.lookups.iter_mut().find(|l| l.branch.id.as_u16() == branch) {
            let branch = pending.branch.id;
            pending.locate.answer(ask, answer);
            self.pursue(step, &mut p, branch, None, &mut actions);
        }
        self.perform(step, p, actions, None, None);
    }

    /// The addresses of a target are known, or there are none.
    fn settle<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        branch: Branch,
        found: Result<&[Destination], Error>,
        request: Option<&Message<'_>>,
        actions: &mut Vec<Action>,
    ) {
        let near = p.upstream.source.listener;
        let Some(target) = p.target(branch.id) else { return };
        let mut hops = Short::None;
        for d in found.unwrap_or(&[]) {
            let allowed =
                step.site.places().let_through(step.site.settings(), target.bounds, target.role, d.address)
                    && !(is_guarded(target.elsewhere, target.role, p.upstream.role)
                        && is_anothers(step.site.services(), step.now, d.address, sources_of(p)));
            let listener = step.site.settings().listener_for(d.transport, d.address, near);
            if let Some(listener) = listener.filter(|_| allowed) {
                let (transport, remote) = (d.transport, d.address);
                hops.push(Flow { transport, listener, remote, conn: None });
            }
        }
        let Some(target) = p.target_mut(branch.id) else { return };
        match target.bounds {
            Bounds::End(_) if hops.is_empty() => target.hops = Short::None,
            Bounds::End(_) => {}
            // What is known besides counts where nothing is found.
            _ if hops.is_empty() => {}
            _ => (target.hops, target.existing) = (hops, false),
        }
        if target.hops.is_empty() {
            let status = match found {
                Err(error) => status_of(error),
                // Found, but nowhere that a request may go.
                Ok(_) => {
                    step.site.services().count(Counter::Forbidden);
                    403
                }
            };
            return p.branch_useless(step.now, branch.id, status, actions);
        }
        with_request(step, p, request, |step, p, request| {
            self.start_branch(step, p, branch, request, actions);
        });
    }
}

/// Whether a binding of another device is followed for a caller who may not call every gateway.
pub(super) const fn is_guarded(elsewhere: bool, role: Role, caller: Role) -> bool {
    elsewhere && matches!(role, Role::Local) && !matches!(caller, Role::Local)
}

/// Where the phones of the called user have registered from.
fn sources_of(p: &Proxied) -> impl Iterator<Item = IpAddr> {
    p.targets().iter().flat_map(|t| sources(&t.hops, t.elsewhere, t.registered_from))
}

/// What a look-up that led nowhere means to the caller (RFC 3263 section 4.3, RFC 3261 16.7).
fn status_of(error: Error) -> u16 {
    match error {
        Error::BadHost => 400,
        Error::NoTransport => 503,
        Error::NotFound | Error::NoService => 404,
        Error::Unavailable | Error::Full => 503,
    }
}

/// Names what waits for an answer: 32 bits of slot, 16 of generation, 16 of branch, 8 of question.
fn waiter(id: ProxiedId, branch: BranchId, ask: AskId) -> u128 {
    u128::from(id.slot) << 40
        | u128::from(id.generation) << 24
        | u128::from(branch.as_u16()) << 8
        | u128::from(ask.0)
}

fn unwaiter(waiter: u128) -> (ProxiedId, u16, AskId) {
    let id = ProxiedId { slot: (waiter >> 40) as u32, generation: (waiter >> 24) as u16 };
    (id, (waiter >> 8) as u16, AskId(waiter as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiter_keeps_every_bit_of_what_it_names() {
        for slot in [0, 1, (1 << 24) - 1, 1 << 24, (1 << 30) - 1, u32::MAX] {
            for (generation, branch, ask) in [(1, 0, 0), (u16::MAX, u16::MAX, u8::MAX), (0x1234, 0x5678, 7)] {
                let id = ProxiedId { slot, generation };
                let named = waiter(id, BranchId::from_u16(branch), AskId(ask));
                assert_eq!(unwaiter(named), (id, branch, AskId(ask)));
            }
        }
    }
}
