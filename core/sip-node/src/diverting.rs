//! A call to users who have rules for it: its present callee, and how it came there.

use crate::aor::Aor;
use call_forwarding::{Chain, Hop, Reason, Rules};
use sip_proxy::context::Reroute;
use std::sync::Arc;

/// The forwardings that led to a target.
pub(crate) type Trail = Arc<[Hop]>;

/// A call to a user who has rules for it, and where it went from there.
#[derive(Debug)]
pub(crate) struct Diverting {
    /// The address-of-record of the present callee; empty: no user of ours.
    user: Box<[u8]>,
    rules: Arc<Rules>,
    chain: Chain,
    /// The forwardings that led to each of the targets found last; `None`: to the callee's own.
    trails: Vec<Option<Trail>>,
    /// How long a group of targets may ring that no rule is set for, milliseconds; 0: until timer C.
    usual_ms: u32,
    /// The call goes to the mailbox and nowhere else.
    at_mailbox: bool,
}

impl Diverting {
    /// A call to this user. It was forwarded so often before.
    pub fn new(user: &Aor<'_>, rules: Arc<Rules>, earlier: u32) -> Diverting {
        let (user, chain) = (user.text().into(), Chain::new(earlier));
        Diverting { user, rules, chain, trails: Vec::new(), usual_ms: 0, at_mailbox: false }
    }

    /// The present callee, `user@domain`.
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// The domain of the present callee.
    pub fn domain(&self) -> &[u8] {
        self.user.rsplit(|byte| *byte == b'@').next().unwrap_or(b"")
    }

    /// The rules of the present callee.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// How the call came here.
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// What led to each of the targets found last, in their order.
    pub fn set_trails(&mut self, trails: Vec<Option<Trail>>) {
        self.trails = trails;
    }

    /// The same, which is then forgotten.
    pub fn take_trails(&mut self) -> Vec<Option<Trail>> {
        core::mem::take(&mut self.trails)
    }

    /// The call is forwarded, to a user of ours if it is to one.
    pub fn go(&mut self, hop: Hop, user: Option<&Aor<'_>>, rules: Option<Arc<Rules>>) {
        self.chain.push(hop);
        self.user = user.map_or(&b""[..], |user| user.text()).into();
        self.rules = rules.unwrap_or_default();
    }

    /// The call goes to the mailbox and nowhere else.
    pub fn go_to_mailbox(&mut self) {
        (self.rules, self.usual_ms, self.at_mailbox) = (Arc::default(), 0, true);
    }

    /// Whether it does.
    pub const fn is_at_mailbox(&self) -> bool {
        self.at_mailbox
    }

    /// Sets how long targets ring for which no user has set it, milliseconds; 0: until timer C.
    pub fn set_usual(&mut self, millis: u32) {
        if !self.at_mailbox {
            self.usual_ms = millis;
        }
    }

    /// For which reasons the present callee forwards the call.
    pub fn reasons(&self) -> Reroute {
        let all = [
            (Reason::Busy, Reroute::BUSY),
            (Reason::NoAnswer, Reroute::NO_ANSWER),
            (Reason::Unreachable, Reroute::UNREACHABLE),
        ];
        let set = all.into_iter().filter(|(reason, _)| self.rules.forwards(*reason).is_some());
        set.fold(Reroute::NEVER, |all, (_, reroute)| all.and(reroute))
    }

    /// How long the targets of the present callee ring, milliseconds; 0: until timer C. `default`: if the
    /// call is forwarded when nobody answers, and nothing else says when.
    pub fn ring_ms(&self, default: u32) -> u32 {
        match self.rules.ring_time() {
            Some(seconds) => u32::from(seconds) * 1_000,
            None if self.usual_ms == 0 && self.reasons().has(Reroute::NO_ANSWER) => default,
            None => self.usual_ms,
        }
    }
}

/// The reason of a forwarding that a response context asks for.
pub(crate) fn reason_of(reroute: Reroute) -> Reason {
    match reroute {
        Reroute::BUSY => Reason::Busy,
        Reroute::NO_ANSWER => Reason::NoAnswer,
        _ => Reason::Unreachable,
    }
}
