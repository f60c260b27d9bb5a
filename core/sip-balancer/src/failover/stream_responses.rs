//! Responses to streams of callers that may have to go to another port of theirs (RFC 3261 section 18.2.2).

use crate::CallKey;
use crate::transmit::TransmitToken;
use core::time::Duration;
use sip_message::{Index, Limits, Parsed, parse};
use wire::{Delivery, Flow, Outbox, Time, Transport};

/// That a connection is gone already is known so soon, also from another worker.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Responses that are remembered.
const MOST: usize = 256;

/// A buffer that grew beyond this is freed after use.
const KEEP_CAPACITY: usize = 4 << 10;

#[derive(Debug)]
struct StreamResponse {
    number: u64,
    to: Flow,
    bytes: Vec<u8>,
    at: Time,
    call: Option<CallKey>,
    /// The node that it goes to, by its id; none: to a caller.
    node: Option<u32>,
}

/// The last of them.
#[derive(Debug, Default)]
pub(crate) struct StreamResponses {
    kept: Vec<StreamResponse>,
    written: u64,
}

impl StreamResponses {
    /// Sends a response over a stream to `to`. If that is dead, it goes to `otherwise` (RFC 3261 section
    /// 18.2.2), if there is such a place. That is known at once of a connection that is closed already. If it
    /// is closed later, most callers have read what was sent before: only the answer to an INVITE of this
    /// `call` may still be wanted, until [`StreamResponses::acknowledged`]. `node`: the node that is there.
    pub fn write(
        &mut self,
        (now, call, node): (Time, Option<CallKey>, Option<u32>),
        to: Flow,
        otherwise: Option<Flow>,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        // A peer cannot prove a name at its source port, and a WebSocket client can be reached only over its
        // own connection.
        let existing = to.conn.is_none() && !matches!(to.transport, Transport::Tcp | Transport::Sctp);
        let delivery = Delivery { existing, ..Delivery::default() };
        let other = otherwise.filter(|other| existing || other.remote != to.remote || to.conn.is_some());
        let Some(otherwise) = other else {
            out.deliver(to, 0, delivery, write);
            return;
        };
        self.written += 1;
        let number = self.written;
        let range = out.deliver(to, TransmitToken::Response(number).to_u64(), delivery, write);
        let bytes = invariant::some!(out.bytes().get(range), "the written bytes are in the outbox");
        let bytes = bytes.unwrap_or_default();
        let at = number as usize % MOST;
        if self.kept.len() <= at {
            let empty = || StreamResponse { number: 0, to, bytes: Vec::new(), at: now, call: None, node };
            self.kept.resize_with(at + 1, empty);
        }
        if let Some(response) = self.kept.get_mut(at) {
            (response.number, response.to, response.at) = (number, otherwise, now);
            (response.call, response.node) = (call, node);
            response.bytes.clear();
            response.bytes.shrink_to(KEEP_CAPACITY);
            response.bytes.extend_from_slice(bytes);
        }
    }

    /// The caller has got what was written to it.
    pub fn acknowledged(&mut self, call: CallKey) {
        for response in self.kept.iter_mut().filter(|response| response.call == Some(call)) {
            response.number = 0;
        }
    }

    /// The node that a message goes to.
    pub fn node_of(&self, number: u64) -> Option<u32> {
        self.kept.get(number as usize % MOST).filter(|response| response.number == number)?.node
    }

    /// A message that was written could not be sent: it is sent to the other place, unless it was long ago.
    /// Over TLS its peer must prove `name`, or if that is empty the name in its Via. Without a name it is not
    /// sent.
    pub fn resend(&mut self, now: Time, number: u64, (name, index): (&[u8], &mut Index), out: &mut Outbox) {
        let wanted =
            |l: &&mut StreamResponse| l.number == number && (l.call.is_some() || now.since(l.at) <= AT_ONCE);
        let response = self.kept.get_mut(number as usize % MOST).filter(wanted);
        let Some(response) = response else { return };
        response.number = 0;
        if !response.to.transport.is_secure() {
            out.send(response.to, 0, &response.bytes);
            return;
        }
        let name = match parse(&response.bytes, index, &Limits::READ_BEFORE) {
            _ if !name.is_empty() => name,
            Parsed::Good(message) => message.via().host,
            _ => b"",
        };
        if !name.is_empty() {
            out.send(response.to, 0, &response.bytes);
            out.verifies(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::T1;
    use wire::ListenerId;

    fn flow(port: u16) -> Flow {
        let udp = Flow::udp(ListenerId(0), ([192, 0, 2, 1], port).into());
        Flow { transport: Transport::Tcp, ..udp }
    }

    #[test]
    fn response_goes_to_the_other_place_once_and_not_after_its_ack() {
        let mut responses = StreamResponses::default();
        let (mut out, mut index) = (Outbox::new(), Index::new());
        let (now, call) = (Time::from_secs(1), CallKey(1, 2));
        let sent = |responses: &mut StreamResponses, out: &mut Outbox, call| {
            responses.write((now, call, None), flow(1), Some(flow(2)), out, |buf| {
                buf.extend_from_slice(b"answer")
            });
            let Some(TransmitToken::Response(number)) = TransmitToken::from_u64(out.transmits()[0].token)
            else {
                panic!("its token")
            };
            out.clear();
            number
        };
        let number = sent(&mut responses, &mut out, Some(call));
        (0..2).for_each(|_| responses.resend(now + T1, number, (b"", &mut index), &mut out));
        assert_eq!(out.transmits().len(), 1);
        assert_eq!((out.transmits()[0].flow, out.bytes()), (flow(2), &b"answer"[..]));
        out.clear();
        let number = sent(&mut responses, &mut out, Some(call));
        responses.acknowledged(call);
        responses.resend(now + T1, number, (b"", &mut index), &mut out);
        // Whatever is no answer to an INVITE: only where the connection was gone already.
        let number = sent(&mut responses, &mut out, None);
        responses.resend(now + 3 * T1, number, (b"", &mut index), &mut out);
        assert!(out.is_empty());
        responses.resend(now + T1, number, (b"", &mut index), &mut out);
        assert_eq!(out.transmits().len(), 1);
        let number = sent(&mut responses, &mut Outbox::new(), Some(call));
        for _ in 0..MOST {
            sent(&mut responses, &mut Outbox::new(), None);
        }
        out.clear();
        responses.resend(now, number, (b"", &mut index), &mut out);
        assert!(out.is_empty(), "too long ago");
    }
    #[test]
    fn response_over_tls_without_a_name_to_prove_is_not_sent() {
        for (via, name, proven) in [
            ("SIP/2.0/TLS 192.0.2.1:5061;branch=z9hG4bKx", "", Some("192.0.2.1")),
            ("SIP/2.0/TLS 192.0.2.1:5061;branch=z9hG4bKx", "node.example", Some("node.example")),
            ("SIP/2.0/TLS ;branch=z9hG4bKx", "", None),
            ("SIP/2.0/TLS ;branch=z9hG4bKx", "node.example", Some("node.example")),
        ] {
            let text = format!(
                "SIP/2.0 486 Busy Here\r\nVia: {via}\r\nFrom: <sip:a@b>;tag=a\r\nTo: <sip:b@b>;tag=b\r\n\
                 Call-ID: x\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
            );
            let [to, otherwise] = [1, 2].map(|port| Flow { transport: Transport::Tls, ..flow(port) });
            let mut responses = StreamResponses::default();
            let mut out = Outbox::new();
            let now = Time::from_secs(1);
            responses.write((now, None, None), to, Some(otherwise), &mut out, |buf| {
                buf.extend_from_slice(text.as_bytes());
            });
            out.clear();
            responses.resend(now, 1, (name.as_bytes(), &mut Index::new()), &mut out);
            let names: Vec<_> = out.transmits().iter().map(|sent| out.name(sent).to_vec()).collect();
            assert_eq!(names, proven.map(|name| name.as_bytes().to_vec()).into_iter().collect::<Vec<_>>());
        }
    }
}
