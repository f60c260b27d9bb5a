//! What a request says and shows before anything is kept of it.

use crate::calls::Calls;
use crate::services::Services;
use crate::site::Site;
mod dialogs;
mod emergency;
mod payer;
mod reading;
mod strangers;

pub(crate) use reading::may_prove;
pub(crate) use strangers::status_of;

/// Reads requests as they come in. It reads the server and its calls.
pub(crate) struct Ingress<'a, S> {
    site: &'a Site<S>,
    calls: &'a Calls,
}

impl<'a, S: Services> Ingress<'a, S> {
    /// The checks of a server with these calls.
    pub const fn new(site: &'a Site<S>, calls: &'a Calls) -> Ingress<'a, S> {
        Ingress { site, calls }
    }
}
