//! Requests that cannot be challenged: ACK, and CANCEL where there are no transactions.

use crate::admitted::{Addressing, Admitted, Caller, carried, is_beside};
use crate::services::{Counter, Services};
use crate::step::Step;
use sip_message::Method;
use sip_proxy::token::{Dialog, Role};
use sip_transaction::Prepared;
use wire::Flow;

/// Admits an ACK, or a CANCEL in stateless mode. Neither can be challenged, so what stands in From proves
/// nothing here: it goes to the other end of a dialog of ours, to our own users, or where a phone
/// that is registered at the sender's address may send. `None`: it goes nowhere.
pub(crate) fn admit_unproven<'a, S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    Addressing { read, dialog }: Addressing<'a>,
) -> Option<Admitted<'a>> {
    let (routing, uri) = match read {
        Ok((routing, Ok(uri))) => (routing, uri),
        Ok((routing, uri)) if dialog.is_some() => (routing, carried(uri, &routing)),
        _ => {
            step.site.services().count(Counter::Garbage);
            return None;
        }
    };
    let trunk = step.site.trunk_of(flow);
    let ourselves = step.site.is_from_ourselves(request);
    let trunk = trunk.filter(|_| !ourselves);
    let phone = || step.site.is_at_phone(flow, request);
    let known = || !step.site.settings().auth.enabled || phone();
    // A token can be read by the other end, too; where the request came from cannot be both.
    let home = |d: &Dialog| !ourselves && d.sender.remote.ip() == flow.remote.ip().to_canonical();
    // A phone may send from another port than it listens at; one that is registered there is ours.
    let beside = |d: &Dialog| is_beside(d, flow) && !(d.sender.role == Role::Local && phone());
    let (role, borrowed) = match (&dialog, trunk) {
        (Some(dialog), _) if home(dialog) => (dialog.sender.role, beside(dialog)),
        (dialog, Some(trunk)) => (Role::Trunk, step.site.is_borrowed_by(trunk, flow, dialog.as_ref())),
        (dialog, None) if step.site.claims_local(request) && known() => (Role::Local, dialog.is_some()),
        (dialog, None) => (Role::Stranger, dialog.is_some()),
    };
    let caller = Caller { trunk, borrowed, ..Caller::unproven(role) };
    let admitted = Admitted { uri, routing, dialog, caller };
    if step.ingress().bars(flow, request, &admitted).is_some() {
        match request.method() {
            Method::Ack => step.site.services().count(Counter::Stray),
            _ => step.refuse(flow, request, 403, b"", b""),
        }
        return None;
    }
    Some(admitted)
}
