//! On whose account a request is kept.

use super::Ingress;
use crate::admitted::Admitted;
use crate::emergency::is_urgent;
use crate::services::Services;
use sip_message::Message;
use sip_proxy::token::Role;
use sip_transaction::Payer;
use wire::Flow;

impl<S: Services> Ingress<'_, S> {
    /// On whose account a new request is kept, and whether its sender has shown that it receives what is sent
    /// to it.
    pub(crate) fn standing(&self, flow: Flow, request: &Message<'_>, a: &Admitted<'_>) -> (Payer, bool) {
        if !self.site.settings().auth.enabled || a.caller.role != Role::Stranger {
            return (Payer::PROVEN, true);
        }
        let source = self.site.account_of(self.site.settings().auth.source(flow.remote.ip(), request));
        let reliable = flow.transport.is_reliable();
        match &a.dialog {
            // The token shows nothing here: the other end knows it, too, and may write this one's address.
            Some(_) => (Payer::known(source), reliable),
            None if is_urgent(self.site.settings().emergency.as_ref(), request) => {
                (Payer::known(source), reliable)
            }
            None => (Payer::unproven(source), reliable),
        }
    }
}
