//! A request on its way through the server: what was read of it, and who sent it.

use crate::aor::Aor;
use sip_message::{Malformed, Uri, UriError};
use sip_proxy::routes::Routing;
use sip_proxy::token::{Dialog, Role};
use std::borrow::Cow;
use wire::Flow;

/// Who sent a request, as far as that was proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Caller<'a> {
    /// Standing.
    pub role: Role,
    /// The realm whose credentials proved it.
    pub realm: Option<Cow<'a, [u8]>>,
    /// The user of ours whose credentials these are. From may name another one, or nobody.
    pub account: Option<Aor<'a>>,
    /// The trunk, for [`Role::Trunk`].
    pub trunk: Option<usize>,
    /// It speaks within a dialog on the strength of the token alone: under a name that its credentials
    /// are not of, or from beside the address that the token names, where anyone behind the same address
    /// translation may be. Such a request may reach the other end (a phone whose port has changed, or
    /// that took a call meant for another, still hangs up), but choose no way to it.
    pub borrowed: bool,
}

impl<'a> Caller<'a> {
    /// One without credentials that speaks for itself and is no trunk.
    pub const fn unproven(role: Role) -> Caller<'a> {
        Caller { role, realm: None, account: None, trunk: None, borrowed: false }
    }
}

/// A new request that passed the checks, with what was found out on the way.
pub(crate) struct Admitted<'a> {
    pub uri: Uri<'a>,
    pub routing: Routing<'a>,
    pub dialog: Option<Dialog>,
    pub caller: Caller<'a>,
}

/// How a request is addressed. It is read before it is known whether the request is new, while the processor
/// fetches what tells that.
pub(crate) struct Addressing<'a> {
    /// What the Route set means here, and the Request-URI that is meant.
    pub read: Result<(Routing<'a>, Result<Uri<'a>, UriError>), Malformed>,
    /// The dialog that a token of ours says it belongs to.
    pub dialog: Option<Dialog>,
}

/// The Request-URI of a request in a dialog of ours.
pub(crate) fn carried<'a>(read: Result<Uri<'a>, UriError>, routing: &Routing<'a>) -> Uri<'a> {
    read.unwrap_or_else(|_| Uri::opaque(routing.request_uri))
}

/// Whether a request of a dialog with a stranger comes from beside the end that it says it is of. The
/// stranger has seen the token, and may be behind the same address translation as that end. Users of ours
/// at the other end gain nothing by it, for they may send anywhere themselves; see `is_borrowed_by` for
/// trunks.
pub(crate) fn is_beside(dialog: &Dialog, flow: Flow) -> bool {
    let (end, seen) = (dialog.sender.remote, flow.remote);
    let same = end.port() == seen.port() && end.ip().to_canonical() == seen.ip().to_canonical();
    dialog.peer.role == Role::Stranger && !same
}
