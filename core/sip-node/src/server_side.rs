//! The server transaction of a new request.

use crate::admitted::Admitted;
use crate::services::Services;
use crate::step::Step;
use sip_message::Method;
use sip_proxy::transport::reply_flow;
use sip_transaction::{Payer, Prepared, ServerId};
use wire::Flow;

/// A new request that is kept, and on whose account.
#[derive(Clone, Copy)]
pub(crate) struct ServerSide {
    pub id: ServerId,
    pub payer: Payer,
    /// Its sender has not shown that it receives what is sent to it.
    pub bounded: bool,
    /// It is an INVITE outside dialogs.
    pub is_new_call: bool,
}

impl<S: Services> Step<'_, S> {
    /// Keeps a request in a server transaction. `None`: there is no room, and it was answered.
    pub(crate) fn accept(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
    ) -> Option<ServerSide> {
        // A To tag that no dialog of ours has (made up, or of a client that ignores the Record-Route) is no
        // way round the cap.
        let is_new_call = request.method() == Method::Invite && a.dialog.is_none();
        let (payer, receives) = self.ingress().standing(flow, request, a);
        if is_new_call && let Err(shortage) = self.calls.make_room(self.now, payer) {
            self.crowded(flow, request, shortage);
            return None;
        }
        match self.layer.accept(self.now, request, reply_flow(flow, request), payer) {
            Ok(id) => {
                if !receives {
                    self.layer.bound_replies(id, request.bytes().len());
                }
                Some(ServerSide { id, payer, bounded: !receives, is_new_call })
            }
            Err(short) => {
                self.crowded(flow, request, short.into());
                None
            }
        }
    }
}
