//! Responses as they leave: our own, and those of others without our Via.

use crate::forwarding::forwarder::Forwarder;
use crate::message::origin;
use sip_message::{Message, Method, Name, Response, push_u64};
use sip_proxy::rewrite::{write_response, write_response_as};
use sip_proxy::transport::{SIPS_NOT_ALLOWED, always_rport, repays, reply_flow};
use wire::{Flow, Outbox};

/// The connection of a node matters for this time after each answer on it, seconds.
pub(crate) const NODE_KEEPS: u32 = 7_200;

/// How a node's response is forwarded to its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RelayAs {
    /// Without change.
    Unchanged,
    /// 500: the failure concerns one node only.
    ServerError,
    /// 503 with our own Retry-After: all nodes are overloaded, and this one has named a longer time.
    OwnRetryAfter,
    /// 480: the phone's connection has ended. 430 is for the node alone, which may know another flow.
    TemporarilyUnavailable,
}

impl Forwarder {
    /// Refuses a request with a status of our own, which is not counted: it may be a repetition.
    pub fn refuse_again(&mut self, flow: Flow, request: &Message<'_>, status: u16, out: &mut Outbox) {
        let mut line = Vec::new();
        match status {
            503 => {
                line.extend_from_slice(b"Retry-After: ");
                push_u64(self.settings.retry_after.into(), &mut line);
                line.extend_from_slice(b"\r\n");
            }
            // The only reason for which we say so ourselves: see `Checked::bars`.
            480 => line.extend_from_slice(SIPS_NOT_ALLOWED),
            _ => {}
        }
        self.refuse(flow, request, status, b"", &line, out);
    }

    /// Refuses a request with 503.
    pub fn unavailable(&mut self, flow: Flow, request: &Message<'_>, out: &mut Outbox) {
        self.counts.unavailable += 1;
        self.refuse_again(flow, request, 503, out);
    }

    /// Answers without keeping anything (section 8.2.7).
    pub fn refuse(
        &mut self,
        flow: Flow,
        request: &Message<'_>,
        status: u16,
        reason: &[u8],
        extra: &[u8],
        out: &mut Outbox,
    ) {
        if request.method() == Method::Ack {
            return;
        }
        let back = reply_flow(flow, request);
        let call = self.sealer.call(request.call_id());
        let tag =
            self.sealer.tag(self.sealer.id(self.sealer.epoch(), &origin(request, back.remote.ip(), call)));
        let source = Some((flow.remote, always_rport(flow, request)));
        let answer = Response { reason, tag: &tag, source, extra, ..Response::new(status) };
        let sent = out.send_with(back, 0, |buf| answer.write(request, buf));
        if !repays(flow, request, sent.len()) {
            self.counts.withheld += 1;
            return out.take_back();
        }
        self.mark_asking(back, out);
    }

    /// The same of an answer of our own: a node that asks how we are keeps its connection.
    fn mark_asking(&self, to: Flow, out: &mut Outbox) {
        if let Some(conn) = to.conn
            && self.cluster.is_node_ip(to.remote.ip())
        {
            out.keeps(conn, NODE_KEEPS);
        }
    }

    /// A response without our Via, or with another status line and without its Retry-After.
    pub fn write_back(&mut self, response: &Message<'_>, relay_as: RelayAs, buf: &mut Vec<u8>) {
        match relay_as {
            RelayAs::Unchanged => write_response(response, false, &mut self.splices, buf),
            RelayAs::ServerError => {
                let line = b"SIP/2.0 500 Server Internal Error\r\n";
                write_response_as(response, line, Name::RetryAfter, &mut self.splices, buf);
            }
            RelayAs::TemporarilyUnavailable => {
                let line = b"SIP/2.0 480 Temporarily Unavailable\r\n";
                write_response_as(response, line, Name::RetryAfter, &mut self.splices, buf);
            }
            RelayAs::OwnRetryAfter => {
                let mut line = b"SIP/2.0 503 Service Unavailable\r\nRetry-After: ".to_vec();
                push_u64(self.settings.retry_after.into(), &mut line);
                line.extend_from_slice(b"\r\n");
                write_response_as(response, &line, Name::RetryAfter, &mut self.splices, buf);
            }
        }
    }
}
