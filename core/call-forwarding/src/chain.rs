//! The forwardings of one call.

use crate::reason::Reason;
use sip_message::{Message, Name, NameAddr, Uri, parse_u32};

/// Values of Diversion and of History-Info that are counted. A call with more has been forwarded too often
/// in any case.
const MOST: usize = 64;

/// One forwarding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The address-of-record of the user who forwards, `user@domain`.
    pub by: Box<[u8]>,
    /// The Request-URI that the call gets.
    pub to: Box<[u8]>,
    /// Why.
    pub reason: Reason,
    /// The `cause` of RFC 4458.
    pub cause: u16,
}

/// The forwardings of one call, those by earlier servers included.
#[derive(Clone, Default, Debug)]
pub struct Chain {
    earlier: u32,
    hops: Vec<Hop>,
}

impl Chain {
    /// Of a call that was forwarded so often before ([`received`]).
    pub fn new(earlier: u32) -> Chain {
        Chain { earlier, hops: Vec::new() }
    }

    /// The forwardings at this server, in their order.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// The address-of-record or Request-URI that the call goes to now, if it was forwarded here.
    pub fn to(&self) -> Option<&[u8]> {
        self.hops.last().map(|hop| &*hop.to)
    }

    /// Whether this user may forward the call once more: there are fewer than `limit` forwardings, and none
    /// is by this user.
    pub fn may_forward(&self, by: &[u8], limit: u32) -> bool {
        let made = u32::try_from(self.hops.len()).unwrap_or(u32::MAX).saturating_add(self.earlier);
        made < limit && self.hops.iter().all(|hop| *hop.by != *by)
    }

    /// Notes a forwarding.
    pub fn push(&mut self, hop: Hop) {
        self.hops.push(hop);
    }
}

/// How often a call was forwarded before it came here: what Diversion says (RFC 5806 section 4, `counter`),
/// or History-Info (entries with `mp` or with a `cause`, RFC 7044 section 5.1 and RFC 7544), whichever is
/// more.
pub fn received(request: &Message<'_>) -> u32 {
    let counter = |value| {
        let counter = NameAddr::parse(value).ok().and_then(|diversion| diversion.param(b"counter"));
        counter.and_then(parse_u32).unwrap_or(1).max(1)
    };
    let diversions = request.values(Name::Diversion).take(MOST).map(counter);
    let diversions = diversions.fold(0_u32, u32::saturating_add);
    let entries = request.values(Name::HistoryInfo).take(MOST).filter(|value| is_forwarding(value));
    diversions.max(u32::try_from(entries.count()).unwrap_or(u32::MAX))
}

/// Whether an entry of History-Info says that the call was forwarded to another user.
fn is_forwarding(value: &[u8]) -> bool {
    let Ok(entry) = NameAddr::parse(value) else { return false };
    let has_cause = || Uri::parse(entry.uri).is_ok_and(|uri| uri.param(b"cause").is_some());
    entry.param(b"mp").is_some() || has_cause()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::with_message;

    fn hop(by: &[u8]) -> Hop {
        Hop { by: by.into(), to: b"sip:x@y".as_slice().into(), reason: Reason::Busy, cause: 486 }
    }

    #[test]
    fn chain_ends_at_its_limit_and_at_a_user_seen_before() {
        let mut chain = Chain::new(2);
        assert!(chain.may_forward(b"a@x", 3) && !chain.may_forward(b"a@x", 2));
        chain.push(hop(b"a@x"));
        assert!(!chain.may_forward(b"a@x", 9));
        assert!(chain.may_forward(b"b@x", 4) && !chain.may_forward(b"b@x", 3));
        assert_eq!(
            (chain.to(), Chain::new(u32::MAX).may_forward(b"a@x", u32::MAX)),
            (Some(&b"sip:x@y"[..]), false)
        );
    }

    #[test]
    fn earlier_forwardings_are_counted_by_both_headers() {
        for (lines, count) in [
            ("", 0),
            ("Diversion: <sip:a@x>;reason=user-busy, <sip:b@x>;counter=3\r\n", 4),
            ("Diversion: <sip:a@x>;counter=0\r\nDiversion: nonsense <\r\n", 2),
            ("Diversion: <sip:a@x>;counter=4294967295, <sip:b@x>\r\n", u32::MAX),
            (
                "History-Info: <sip:a@x>;index=1, <sip:b@x>;index=1.1;mp=1, <sip:c@x;cause=302>;index=1.1.1\r\n",
                2,
            ),
            (
                "History-Info: <sip:b@x?Reason=SIP%3Bcause%3D486>;index=1, <sip:10.0.0.1>;index=1.1;rc=1\r\n",
                0,
            ),
            (
                "Diversion: <sip:a@x>\r\nHistory-Info: <sip:b@x>;index=1.1;mp=1, <sip:c@x>;index=1.2;mp=1\r\n",
                2,
            ),
        ] {
            with_message(lines, |message| assert_eq!(received(message), count, "{lines}"));
        }
    }
}
