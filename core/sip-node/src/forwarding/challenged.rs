//! Credentials for trunks that ask for them (RFC 3261 section 22.3). A trunk's 401 or 407 is answered here:
//! its caller has no account there.
//!
//! The request leaves again on the same branch of the response context, in a client transaction of its own,
//! with the same CSeq unless the operator wants a higher one: see `docs/design/trunk-accounts.md`.

use super::Forwarder;
use super::logins::Logins;
use super::proxied::{Branch, Proxied};
use super::stored::with_request;
use crate::account::Account;
use crate::random::Random;
use crate::services::{Counter, Services};
use crate::site::{Site, account_at};
use crate::step::Step;
use crate::trunk_ref::TrunkRef;
use core::net::SocketAddr;
use sip_auth::client::is_stale;
use sip_auth::{Held, Tries, Unanswerable};
use sip_message::{Message, Splices};
use sip_proxy::context::{Action, BranchId};
use sip_proxy::cseq;
use sip_proxy::token::Role;
use std::sync::Arc;
use wire::Flow;

/// Of a call that a trunk does not take because of our account (RFC 3261 section 20.43).
pub(super) const NOT_ACCEPTED: &[u8] =
    b"Warning: 399 proxy \"The trunk does not accept the account of this server\"\r\n";

/// Why a challenge is not answered, and whether it is the caller's to answer.
enum Refused {
    Ours(&'static str),
    Callers,
}

impl Forwarder {
    /// Answers a 401 or 407 of a trunk at which this server has an account: the request leaves again with
    /// credentials. If that is no use, the next target is tried, or the caller gets 403. `false`: the
    /// response is passed on like any other.
    pub(super) fn challenged<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        branch: BranchId,
        response: &Message<'_>,
        actions: &mut Vec<Action>,
    ) -> bool {
        if !matches!(response.status(), 401 | 407) {
            return false;
        }
        let Some((account, hop)) = account_of(step.site, p, branch) else { return false };
        if !p.context.is_running(branch) {
            // The caller has hung up meanwhile.
            p.context.branch_failed(step.now, branch, 487, actions);
            return true;
        }
        match self.take_challenge((&account, hop.remote), p.tries(branch), response) {
            Ok(()) => {
                step.site.services().count(Counter::TrunkAnswered);
                self.send_again(step, p, (branch, hop, account.raise_cseq), actions);
                true
            }
            Err(Refused::Callers) => false,
            Err(Refused::Ours(why)) => {
                self.logins.forget(&account, hop.remote);
                step.site.services().count(Counter::TrunkRefused);
                step.site.services().account_refused(&account.trunk, &hop, response.status(), why);
                p.withheld.not_accepted = true;
                p.branch_useless(step.now, branch, 403, actions);
                true
            }
        }
    }

    fn take_challenge(
        &mut self,
        (account, remote): (&Arc<Account>, SocketAddr),
        tries: &mut Tries,
        response: &Message<'_>,
    ) -> Result<(), Refused> {
        let held = match Held::of(response, &account.login()) {
            Ok(held) => held,
            // An element behind the trunk may ask the caller.
            Err(Unanswerable::Realm) => return Err(Refused::Callers),
            Err(why) => return Err(Refused::Ours(why.text())),
        };
        let may = tries.take(response);
        match may && self.logins.keep(account, remote, held, is_stale(response)) {
            true => Ok(()),
            false => Err(Refused::Ours("`user` or the password is wrong")),
        }
    }

    fn send_again<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        (branch, hop, raises): (BranchId, Flow, bool),
        actions: &mut Vec<Action>,
    ) {
        let Some(breadth) = p.context.branch_again(step.now, branch, actions) else { return };
        // The transaction that was refused lives on by itself, for the ACK.
        p.clients.retain(|(other, _)| *other != branch);
        let again = Branch { id: branch, breadth };
        with_request(step, p, None, |step, p, request| {
            // The ACK of an INVITE within a dialog could not know of another number.
            let may_rise = !p.invite || request.to_tag().is_empty();
            if raises && may_rise {
                p.raise(branch, request.cseq());
            }
            self.send_branch(step, p, again, hop, request, actions);
        });
    }
}

/// Adds to the edits of a branch what proves this server to its trunk, and the CSeq that it has there. `uri`
/// is its new Request-URI.
pub(super) fn prove<S: Services>(
    logins: &mut Logins,
    (site, random): (&Site<S>, &Random),
    (p, branch): (&Proxied, BranchId),
    (request, uri): (&Message<'_>, &[u8]),
    splices: &mut Splices,
) {
    if let Some((account, hop)) = account_of(site, p, branch) {
        logins.add((&account, hop.remote), (request, uri), random.next(), splices);
    }
    cseq::raise(request, p.raised(branch), p.edits.raised, splices);
}

/// The account at the trunk that a branch goes to, and its address.
fn account_of<S: Services>(site: &Site<S>, p: &Proxied, branch: BranchId) -> Option<(Arc<Account>, Flow)> {
    let target = p.target(branch).filter(|target| target.role == Role::Trunk)?;
    let hop = *target.hop(branch)?;
    let account = match target.trunk.as_ref().and_then(TrunkRef::get) {
        Some(trunk) => trunk.account.clone()?,
        // Within a dialog.
        None => account_at(site, hop)?,
    };
    Some((account, hop))
}
