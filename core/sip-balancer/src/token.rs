//! What the balancer writes into messages so that it need not remember them.
//!
//! The branch of its Via says which node has the request and where the response goes; the parameter `d` of
//! its Record-Route which node has the dialog and where the caller is. Any balancer with the same keys and
//! the same nodes can read both, after a crash, a restart or in the place of another.
//!
//! Both are sealed with a truncated MAC (SipHash-2-4, 64 bits) under a key with an epoch. There may be two
//! keys: what is written is sealed with the current one, what is read may be of the previous one, so that
//! keys change without a dialog lost. What nobody with a key has sealed is refused.
//!
//! ```text
//! branch: z9hG4bKlb epoch(2) node(8) place(8) id(16) seal(16)          hexadecimal digits
//! d:      epoch(2) node(8) flags(2) listener(4) port(4) address(8 or 32) seal(16)
//! ```

use crate::Mark;
use core::hash::Hasher;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use sip_message::hex16;
use sip_proxy::gathered::Gathered;
use sip_steering::Ownership;
use siphasher::sip::{SipHasher13, SipHasher24};

/// Begins our branches.
const BRANCH: &[u8] = b"z9hG4bKlb";
/// Begins the branches of our probes.
const PROBE: &[u8] = b"z9hG4bKlp";
/// The bit of a place that says that the request went to the caller's side.
const TO_CALLER: u32 = 1 << 31;

/// A secret with the epoch that names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Which key it is.
    pub epoch: u8,
    /// The secret.
    pub secret: [u8; 16],
}

/// The secrets of all balancers of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keys {
    /// Seals, and is read.
    pub current: Key,
    /// Is read only.
    pub previous: Option<Key>,
    /// For what this balancer alone has to read again: who owns a call, keys of records, tags.
    pub hash: [u8; 16],
}

impl Keys {
    /// Who owns what, as the balancer's workers have it.
    pub fn ownership(&self) -> Ownership {
        let half = |which: u8| {
            let mut hash = SipHasher13::new_with_key(&self.hash);
            hash.write(&[domain::OWNER, which]);
            hash.finish()
        };
        Ownership::new(&((u128::from(half(1)) << 64) | u128::from(half(0))).to_le_bytes())
    }
}

/// What makes a request the same as another: its own topmost Via, Call-ID and CSeq number.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The branch of the received topmost Via.
    pub branch: &'a [u8],
    /// Its sent-by host.
    pub host: &'a [u8],
    /// Its sent-by port.
    pub port: u16,
    /// Where responses go.
    pub reply: IpAddr,
    /// The Call-ID.
    pub call_id: &'a [u8],
    /// The number in CSeq.
    pub cseq: u32,
}

/// What our branch says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Branch {
    /// The key that seals it and its id.
    pub epoch: u8,
    /// The node, by its id.
    pub node: u32,
    /// The request went to the caller's side, not to the node.
    pub to_caller: bool,
    /// The listener that the response leaves from.
    pub listener: Mark,
    /// The port that it goes to; the address stands in the next Via.
    pub port: u16,
    /// A keyed hash over [`Origin`].
    pub id: u64,
}

/// What our Record-Route says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialog {
    /// The node, by its id.
    pub node: u32,
    /// The listener that the caller is reached from, and so how.
    pub listener: Mark,
    /// Where the caller's requests come from.
    pub caller: SocketAddr,
    /// The caller's own idea of its address is another one.
    pub natted: bool,
}

/// Who sends a request within a dialog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// Who began the dialog.
    Caller,
    /// The other end.
    Callee,
}

/// Seals and opens.
#[derive(Clone, Debug)]
pub struct Sealer {
    keys: Keys,
    ownership: Ownership,
}

impl Sealer {
    /// A sealer with these keys.
    pub fn new(keys: Keys) -> Sealer {
        Sealer { ownership: keys.ownership(), keys }
    }

    /// The epoch of what is sealed now.
    pub fn epoch(&self) -> u8 {
        self.keys.current.epoch
    }

    fn key(&self, epoch: u8) -> Option<&[u8; 16]> {
        let keys = [Some(&self.keys.current), self.keys.previous.as_ref()];
        keys.into_iter().flatten().find(|key| key.epoch == epoch).map(|key| &key.secret)
    }

    fn hash(&self, domain: u8, parts: &[&[u8]]) -> u64 {
        let mut text = Gathered::<256, _>::new(SipHasher13::new_with_key(&self.keys.hash));
        text.add(&[domain]);
        for part in parts {
            text.add(&(part.len() as u32).to_le_bytes());
            text.add(part);
        }
        text.finish()
    }

    fn seal(&self, epoch: u8, domain: u8, parts: &[&[u8]]) -> Option<u64> {
        let mut text = Gathered::<256, _>::new(SipHasher24::new_with_key(self.key(epoch)?));
        text.add(&[domain]);
        for part in parts {
            text.add(&(part.len() as u32).to_le_bytes());
            text.add(part);
        }
        Some(text.finish())
    }

    /// A Call-ID as calls are known by.
    pub fn call(&self, call_id: &[u8]) -> crate::CallKey {
        crate::CallKey(self.hash(domain::CALL, &[call_id]), self.hash(domain::CALL_TOO, &[call_id]))
    }

    /// Which worker a call belongs to.
    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// The home of an address-of-record, the same at every balancer of the cluster.
    pub fn home(aor: &[u8]) -> u64 {
        // Not keyed: it must outlive every key, and who may register is for the nodes to say.
        crate::maglev::scramble(crate::algorithm::fnv1a(aor))
    }

    /// The tag of our own answers to a request, the same for its retransmissions.
    pub fn tag(&self, origin: &Origin<'_>) -> [u8; 16] {
        hex16(self.id(self.epoch(), origin) ^ self.hash(domain::TAG, &[origin.call_id]))
    }

    /// The id of a request, the same for its retransmissions, its CANCEL, and the ACK of its failure.
    pub fn id(&self, epoch: u8, o: &Origin<'_>) -> u64 {
        let reply = octets(o.reply);
        let parts = [o.branch, o.host, &o.port.to_le_bytes(), &reply, o.call_id, &o.cseq.to_le_bytes()];
        self.seal(epoch, domain::ID, &parts).unwrap_or(0)
    }

    /// Appends a branch.
    pub fn push_branch(&self, b: &Branch, out: &mut Vec<u8>) {
        let way = if b.to_caller { TO_CALLER } else { 0 };
        let place = way | u32::from(b.listener.0 & 0x7fff) << 16 | u32::from(b.port);
        out.extend_from_slice(BRANCH);
        let start = out.len();
        push_hex(b.epoch.into(), 2, out);
        push_hex(b.node.into(), 8, out);
        push_hex(place.into(), 8, out);
        push_hex(b.id, 16, out);
        let seal = self.seal(b.epoch, domain::BRANCH, &[&out[start..]]).unwrap_or(0);
        push_hex(seal, 16, out);
    }

    /// Reads a branch. `None`: none of these keys has sealed it. That the request is the one of the next Via is
    /// for [`Sealer::id`] to say.
    pub fn open_branch(&self, branch: &[u8]) -> Option<Branch> {
        let mut read = Reader(strip(branch, BRANCH)?, 0);
        let epoch = read.number(2)? as u8;
        let node = read.number(8)? as u32;
        let place = read.number(8)? as u32;
        let id = read.number(16)?;
        read.closes_with(self, epoch, domain::BRANCH, &[])?;
        Some(Branch {
            epoch,
            node,
            to_caller: place & TO_CALLER != 0,
            listener: Mark((place >> 16) as u16 & 0x7fff),
            port: place as u16,
            id,
        })
    }

    /// Appends a dialog's token for the call `call_id` that the tag `caller_tag` began.
    pub fn push_dialog(&self, d: &Dialog, call_id: &[u8], caller_tag: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let ip = d.caller.ip().to_canonical();
        push_hex(self.epoch().into(), 2, out);
        push_hex(d.node.into(), 8, out);
        push_hex(u64::from(d.natted) << 1 | u64::from(ip.is_ipv6()), 2, out);
        push_hex(d.listener.0.into(), 4, out);
        push_hex(d.caller.port().into(), 4, out);
        match ip {
            IpAddr::V4(v4) => push_hex(v4.to_bits().into(), 8, out),
            IpAddr::V6(v6) => {
                push_hex((v6.to_bits() >> 64) as u64, 16, out);
                push_hex(v6.to_bits() as u64, 16, out);
            }
        }
        let parts = [&out[start..], call_id, caller_tag];
        let seal = self.seal(self.epoch(), domain::DIALOG, &parts).unwrap_or(0);
        push_hex(seal, 16, out);
    }

    /// Reads a dialog's token, and says by the tags who sends. `None`: none of these keys has sealed it for this
    /// dialog.
    pub fn open_dialog(
        &self,
        token: &[u8],
        call_id: &[u8],
        from_tag: &[u8],
        to_tag: &[u8],
    ) -> Option<(Dialog, Sender)> {
        let mut read = Reader(token, 0);
        let epoch = read.number(2)? as u8;
        let node = read.number(8)? as u32;
        let flags = read.number(2)?;
        let listener = Mark(read.number(4)? as u16);
        let port = read.number(4)? as u16;
        let ip = match flags & 1 {
            0 => IpAddr::V4(Ipv4Addr::from_bits(read.number(8)? as u32)),
            _ => {
                let (high, low) = (read.number(16)?, read.number(16)?);
                IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))
            }
        };
        let mut again = Reader(read.0, read.1);
        let sender = match read.closes_with(self, epoch, domain::DIALOG, &[call_id, from_tag]) {
            Some(()) => Sender::Caller,
            None => {
                again.closes_with(self, epoch, domain::DIALOG, &[call_id, to_tag])?;
                Sender::Callee
            }
        };
        let dialog = Dialog { node, listener, caller: SocketAddr::new(ip, port), natted: flags & 2 != 0 };
        Some((dialog, sender))
    }

    /// Appends the branch of probe number `serial` to a node.
    pub fn push_probe(&self, node: u32, serial: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(PROBE);
        let start = out.len();
        push_hex(self.epoch().into(), 2, out);
        push_hex(node.into(), 8, out);
        push_hex(serial.into(), 8, out);
        let seal = self.seal(self.epoch(), domain::PROBE, &[&out[start..]]).unwrap_or(0);
        push_hex(seal, 16, out);
    }

    /// The node and number of a probe of ours.
    pub fn open_probe(&self, branch: &[u8]) -> Option<(u32, u32)> {
        let mut read = Reader(strip(branch, PROBE)?, 0);
        let epoch = read.number(2)? as u8;
        let node = read.number(8)? as u32;
        let serial = read.number(8)? as u32;
        read.closes_with(self, epoch, domain::PROBE, &[])?;
        Some((node, serial))
    }
}

/// Keeps the uses of a key apart.
mod domain {
    pub const CALL: u8 = 1;
    pub const CALL_TOO: u8 = 2;
    pub const OWNER: u8 = 3;
    pub const TAG: u8 = 5;
    pub const ID: u8 = 6;
    pub const BRANCH: u8 = 7;
    pub const DIALOG: u8 = 8;
    pub const PROBE: u8 = 9;
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// What stands after a prefix. A branch is a token, and some elements change its case.
fn strip<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn push_hex(number: u64, digits: usize, out: &mut Vec<u8>) {
    let text = hex16(number);
    out.extend_from_slice(&text[text.len() - digits..]);
}

/// Takes hexadecimal numbers off a text, and knows how far it got.
struct Reader<'a>(&'a [u8], usize);

impl Reader<'_> {
    fn number(&mut self, digits: usize) -> Option<u64> {
        let text = self.0.get(self.1..self.1 + digits)?;
        self.1 += digits;
        text.iter().try_fold(0, |n, &b| Some(n << 4 | u64::from(char::from(b).to_digit(16)?)))
    }

    /// Whether what was read, with `more`, is sealed by what is left, and nothing comes after that.
    fn closes_with(&mut self, sealer: &Sealer, epoch: u8, domain: u8, more: &[&[u8]]) -> Option<()> {
        let (read, end) = (self.0.get(..self.1)?, self.1 + 16);
        let seal = self.number(16).filter(|_| self.0.len() == end)?;
        // As it was written, whatever the case is now.
        let mut text = [0u8; 64];
        let lower = text.get_mut(..read.len())?;
        lower.copy_from_slice(read);
        lower.make_ascii_lowercase();
        let mut parts: [&[u8]; 3] = [lower, b"", b""];
        for (part, more) in parts.iter_mut().skip(1).zip(more) {
            *part = more;
        }
        let parts = parts.get(..1 + more.len())?;
        (sealer.seal(epoch, domain, parts)? == seal).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(epoch: u8, previous: Option<u8>) -> Keys {
        let key = |epoch: u8| Key { epoch, secret: [epoch ^ 0x5a; 16] };
        Keys { current: key(epoch), previous: previous.map(key), hash: [9; 16] }
    }

    const BRANCH_OF: Branch = Branch {
        epoch: 1,
        node: 0xdead_beef,
        to_caller: false,
        listener: Mark(3),
        port: 5062,
        id: 0x0123_4567_89ab_cdef,
    };

    fn dialog(caller: &str) -> Dialog {
        Dialog { node: 7, listener: Mark(1), caller: caller.parse().unwrap(), natted: true }
    }

    #[test]
    fn what_is_sealed_is_read_again_under_both_keys_and_no_other() {
        let (old, new, later) =
            (Sealer::new(keys(1, None)), Sealer::new(keys(2, Some(1))), Sealer::new(keys(3, Some(2))));
        let mut text = Vec::new();
        old.push_branch(&BRANCH_OF, &mut text);
        assert_eq!(text.len(), 59);
        assert_eq!(old.open_branch(&text), Some(BRANCH_OF));
        assert_eq!(new.open_branch(&text), Some(BRANCH_OF));
        assert_eq!(new.open_branch(&text.to_ascii_uppercase()), Some(BRANCH_OF));
        assert_eq!(later.open_branch(&text), None);
        for (caller, length) in [("192.0.2.9:5060", 44), ("[2001:db8::1]:6000", 68)] {
            let mut token = Vec::new();
            old.push_dialog(&dialog(caller), b"call", b"a", &mut token);
            assert_eq!(token.len(), length);
            let open =
                |s: &Sealer, call: &[u8], from: &[u8], to: &[u8]| s.open_dialog(&token, call, from, to);
            assert_eq!(open(&new, b"call", b"a", b"b"), Some((dialog(caller), Sender::Caller)));
            assert_eq!(open(&new, b"call", b"b", b"a"), Some((dialog(caller), Sender::Callee)));
            assert_eq!(open(&new, b"other", b"a", b"b"), None, "of another call");
            assert_eq!(open(&new, b"call", b"c", b"b"), None, "of other ends");
            assert_eq!(open(&later, b"call", b"a", b"b"), None);
        }
        let mut probe = Vec::new();
        old.push_probe(7, 99, &mut probe);
        assert_eq!(new.open_probe(&probe), Some((7, 99)));
        assert_eq!(new.open_branch(&probe), None);
    }

    proptest! {
        #[test]
        fn no_octet_can_be_changed(at in 0usize..68, by in 1u8..255, branch: bool) {
            let sealer = Sealer::new(keys(1, None));
            let mut text = Vec::new();
            if branch {
                sealer.push_branch(&BRANCH_OF, &mut text);
            } else {
                sealer.push_dialog(&dialog("[2001:db8::1]:6000"), b"call", b"a", &mut text);
            }
            let at = at % text.len();
            let before = text[at];
            text[at] = before.wrapping_add(by);
            // Capitals are the same.
            prop_assume!(!text[at].eq_ignore_ascii_case(&before));
            prop_assert_eq!(sealer.open_branch(&text), None);
            prop_assert_eq!(sealer.open_dialog(&text, b"call", b"a", b"b"), None);
        }

        #[test]
        fn nothing_at_random_is_read(text in "z9hG4bKlb[0-9a-f]{0,60}|[0-9a-f]{40,70}|.{0,70}") {
            let sealer = Sealer::new(keys(1, None));
            prop_assert_eq!(sealer.open_branch(text.as_bytes()), None);
            prop_assert_eq!(sealer.open_dialog(text.as_bytes(), b"call", b"a", b"b"), None);
            prop_assert_eq!(sealer.open_probe(text.as_bytes()), None);
        }
    }

    #[test]
    fn owners_are_spread_evenly() {
        let sealer = Sealer::new(keys(1, None));
        let mut counts = [0; 3];
        for call in 0..3_000u32 {
            let owner = sealer.ownership().owner_of(format!("{call}@h").as_bytes(), 3);
            counts[usize::from(owner.unwrap())] += 1;
        }
        assert!(counts.iter().all(|n| (880..1_120).contains(n)), "{counts:?}");
    }
}
