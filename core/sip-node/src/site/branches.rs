//! Branches of requests that are forwarded without memory (RFC 3261 section 16.11).

use super::{Site, domain};
use crate::services::Services;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use sip_message::{Message, Name, hex16, unhex16};
use sip_proxy::transport::reply_flow;
use wire::{Flow, ListenerId};

/// Begins a branch that was made without memory. The whole of it is this, what tells requests apart, where
/// the response goes, and the seal.
const PREFIX: &[u8; 8] = b"z9hG4bKt";

/// The same where the address of whoever gets the response is in it, which it is if that is IPv4's.
const PREFIX_V4: &[u8; 8] = b"z9hG4bKu";

/// Letters and digits between that and the seal.
const FACTS: usize = 32;

impl<S: Services> Site<S> {
    /// A branch that is a function of the request (16.11), so that retransmissions, and the CANCEL and
    /// ACK of an INVITE, get the same. It carries the listener and port that the response goes to, and a
    /// seal over these and the address, so that the response can be passed on without memory and nobody
    /// can use this server as a reflector.
    pub(crate) fn push_stateless_branch(&self, from: Flow, request: &Message<'_>, out: &mut Vec<u8>) {
        let via = request.via();
        let mut text = self.gathered::<256>(domain::STATELESS);
        text.add(via.branch);
        text.add(via.host);
        text.add(&via.port_or_default().to_le_bytes());
        text.add(request.call_id());
        text.add(&request.cseq().to_le_bytes());
        let id = text.finish();
        let back = reply_flow(from, request);
        let (listener, port) = (back.listener.0, back.remote.port());
        let (prefix, place, address) = match back.remote.ip().to_canonical() {
            IpAddr::V4(v4) => (PREFIX_V4, u64::from(v4.to_bits()), None),
            IpAddr::V6(v6) => (PREFIX, 0, Some(v6)),
        };
        let place = place << 32 | u64::from(listener) << 16 | u64::from(port);
        let mut branch = [0; 56];
        let (begin, rest) = branch.split_at_mut(8);
        begin.copy_from_slice(prefix);
        let (facts, seal) = rest.split_at_mut(FACTS);
        let (first, second) = facts.split_at_mut(FACTS / 2);
        first.copy_from_slice(&hex16(id));
        second.copy_from_slice(&hex16(place));
        seal.copy_from_slice(&self.stateless_seal(facts, address, request.call_id()));
        out.extend_from_slice(&branch);
    }

    /// The seal over what stands before it in small letters, as text. `address`: of IPv6, where it is not in
    /// that.
    fn stateless_seal(&self, facts: &[u8], address: Option<Ipv6Addr>, call_id: &[u8]) -> [u8; 16] {
        let domain = if address.is_some() { domain::SEAL_V6 } else { domain::SEAL };
        let mut text = self.gathered::<256>(domain);
        text.add(facts);
        if let Some(v6) = address {
            text.add(&v6.octets());
        }
        text.add(call_id);
        hex16(text.finish())
    }

    /// Where a message with a branch on top that we sealed came from; `None` if we did not.
    pub(crate) fn stateless_return(&self, response: &Message<'_>) -> Option<Flow> {
        if response.via_count() < 2 {
            return None;
        }
        // A branch is a token, and some elements change its case. All of this one is letters and digits, if
        // it is ours.
        let mut branch: [u8; 56] = response.via_branch().try_into().ok()?;
        branch.iter_mut().skip(PREFIX.len()).for_each(|byte| *byte |= 0x20);
        let (prefix, rest) = branch.split_first_chunk()?;
        let (facts, seal) = rest.split_at_checked(FACTS)?;
        let place = unhex16(facts.get(FACTS / 2..)?)?;
        let call_id = response.call_id();
        let ip = if prefix == PREFIX_V4 || prefix.eq_ignore_ascii_case(PREFIX_V4) {
            (seal == self.stateless_seal(facts, None, call_id)).then_some(())?;
            IpAddr::V4(Ipv4Addr::from_bits((place >> 32) as u32))
        } else if prefix.eq_ignore_ascii_case(PREFIX) {
            let via = sip_message::Via::parse(response.values(Name::Via).nth(1)?).ok()?;
            let IpAddr::V6(v6) = via.source_ip()? else { return None };
            (seal == self.stateless_seal(facts, Some(v6), call_id)).then_some(())?;
            IpAddr::V6(v6)
        } else {
            return None;
        };
        let listener = ListenerId((place >> 16) as u16);
        let transport = self.settings.listener(listener)?.transport;
        Some(Flow { transport, listener, remote: SocketAddr::new(ip, place as u16), conn: None })
    }
}
