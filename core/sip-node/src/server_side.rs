//! The server transaction of a new request.

use crate::admitted::Admitted;
use crate::calls::Calls;
use crate::records::Recorded;
use crate::replies::RETRY_AFTER;
use crate::services::Services;
use crate::shortage::Shortage;
use crate::step::Step;
use sip_message::{Message, Method};
use sip_proxy::transport::{always_rport, reply_flow};
use sip_transaction::{Payer, Prepared, ServerId};
use wire::{Flow, Time};

/// A new request that is kept, and on whose account.
#[derive(Clone, Copy)]
pub(crate) struct ServerSide {
    pub id: ServerId,
    pub payer: Payer,
    /// Its sender has not shown that it receives what is sent to it.
    pub bounded: bool,
    /// It is an INVITE outside dialogs.
    pub is_new_call: bool,
    /// Its sender has been sent a 100.
    pub sent_trying: bool,
    /// What it has to do with the record of a call.
    pub recorded: Option<Recorded>,
}

impl<S: Services> Step<'_, S> {
    /// Keeps a request in a server transaction. `None`: there is no room, and it was answered.
    pub(crate) fn accept(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
    ) -> Option<ServerSide> {
        self.accept_if(flow, request, a, Calls::make_room)
    }

    /// The same for a request that waits first. Its call takes no place of another before
    /// [`Step::keep_on`], as it may not come to be.
    #[cold]
    pub(crate) fn accept_to_wait(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
    ) -> Option<ServerSide> {
        self.accept_if(flow, request, a, |calls, _, payer| calls.may_ring(payer))
    }

    #[inline]
    fn accept_if(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
        room: impl FnOnce(&mut Calls, Time, Payer) -> Result<(), Shortage>,
    ) -> Option<ServerSide> {
        // A To tag that no dialog of ours has (made up, or of a client that ignores the Record-Route) is no
        // way round the cap.
        let is_new_call = request.method() == Method::Invite && a.dialog.is_none();
        let (payer, receives) = self.ingress().standing(flow, request, a);
        if is_new_call && let Err(shortage) = room(self.calls, self.now, payer) {
            self.crowded(flow, request, shortage);
            return None;
        }
        match self.layer.accept(self.now, request, reply_flow(flow, request), payer) {
            Ok(id) => {
                if !receives {
                    self.layer.bound_replies(id, request.bytes().len());
                }
                let recorded = self.recorded(flow, request, a.dialog.as_ref());
                if let Some(Recorded::Call(name)) = recorded {
                    self.record_began(flow, request, a, name);
                }
                let (bounded, sent_trying) = (!receives, false);
                Some(ServerSide { id, payer, bounded, is_new_call, sent_trying, recorded })
            }
            Err(short) => {
                self.crowded(flow, request, short.into());
                None
            }
        }
    }

    /// Keeps a request that has waited in its server transaction, now that it goes on. `None`: there is no
    /// room for its call, and it was answered.
    #[cold]
    pub(crate) fn keep_on(
        &mut self,
        flow: Flow,
        request: &Message<'_>,
        server: ServerSide,
    ) -> Option<ServerSide> {
        if server.is_new_call
            && let Err(shortage) = self.calls.make_room(self.now, server.payer)
        {
            self.note_shortage(flow, request, shortage);
            self.answer_in(flow, request, server, 503, RETRY_AFTER);
            return None;
        }
        Some(server)
    }

    /// Answers in the server transaction of a request that has waited.
    pub(crate) fn answer_in(
        &mut self,
        flow: Flow,
        request: &Message<'_>,
        server: ServerSide,
        status: u16,
        extra: &[u8],
    ) {
        self.answer(server.id, request, (flow, always_rport(flow, request)), status, extra);
        if status >= 200 {
            self.record_failed(server.recorded, status, false);
        }
    }
}
