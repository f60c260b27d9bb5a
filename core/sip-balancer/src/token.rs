//! What the balancer writes into messages so that it need not remember them.
//!
//! The branch of its Via says which node has the request and where the response goes; the parameter `d` of
//! its Record-Route which node has the dialog and where the caller is. Any balancer with the same keys and
//! the same nodes can read both, after a crash, a restart or in the place of another.
//!
//! Both are sealed with a MAC (SipHash-2-4, 64 bits) under a key with an epoch. There may be two
//! keys: what is written is sealed with the current one, what is read may be of the previous one, so that
//! keys change without a dialog lost. What nobody with a key has sealed is refused.
//!
//! ```text
//! branch: z9hG4bKlb epoch(2) node(8) place(8) id(16) seal(16)          hexadecimal digits
//! d:      epoch(2) flags(2) node(8) listener(4) port(4) address(8 or 32) [connection(16) life(8)] seal(16)
//! Path:   p, and as d; with `ob` behind it for a phone that has flows (RFC 5626 section 5.1)
//! ```
//!
//! What stands in a Path (RFC 3327) is no dialog's but a phone's: where it registered from.

use crate::{CallKey, Mark};
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use seal::{Fields, Gathered, Keyed, Seal, hex2};
use sip_message::hex16;
use sip_steering::Ownership;
use siphasher::sip::{SipHasher13, SipHasher24};
use siphasher::sip128;

mod dialog;
pub use dialog::{Dialog, Held};
use dialog::{read_flow, strip};

/// Begins our branches.
const BRANCH: &[u8; 9] = b"z9hG4bKlb";
/// Begins the branches of our probes.
const PROBE: &[u8; 9] = b"z9hG4bKlp";
/// Begins the token of a phone, so that it is never taken for one of a dialog, which is hexadecimal.
const PATH: u8 = b'p';
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
    /// For what this balancer alone has to read again: who owns a call, tags.
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
    /// The Call-ID, and its [`Sealer::call`].
    pub call_id: &'a [u8],
    /// The key of the call.
    pub call: CallKey,
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

/// Who sends a request within a dialog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// Who began the dialog.
    Caller,
    /// The other end.
    Callee,
}

/// One secret, as it is used: with a key for each use, so that nothing that is made for one can stand for
/// another.
///
/// What leaves as proof is sealed with SipHash-2-4, whose authors claim that nobody forges one of its 64 bits
/// sooner than by trying (Aumasson and Bernstein, INDOCRYPT 2012); these texts are short. Names of calls and
/// requests are SipHash-1-3. They must be a function that nobody outside can compute, or find two texts for
/// that meet in it, and no attack is published by which anybody can. Nor is a name believed by itself: it
/// stands in a sealed text, or is compared with one that was made here.
#[derive(Clone, Debug)]
struct Uses {
    epoch: u8,
    call: sip128::SipHasher13,
    id: SipHasher13,
    branch: SipHasher24,
    dialog: SipHasher24,
    path: SipHasher24,
    probe: SipHasher24,
}

/// A key for one use, made from another.
fn key_for(secret: &[u8; 16], which: u8) -> [u8; 16] {
    u128::from(sip128::SipHasher24::new_with_key(secret).hash(&[which])).to_le_bytes()
}

impl Uses {
    fn new(key: &Key) -> Uses {
        let key_for = |which| key_for(&key.secret, which);
        Uses {
            epoch: key.epoch,
            call: sip128::SipHasher13::new_with_key(&key_for(domain::CALL)),
            id: SipHasher13::new_with_key(&key_for(domain::ID)),
            branch: SipHasher24::new_with_key(&key_for(domain::BRANCH)),
            dialog: SipHasher24::new_with_key(&key_for(domain::DIALOG)),
            path: SipHasher24::new_with_key(&key_for(domain::PATH)),
            probe: SipHasher24::new_with_key(&key_for(domain::PROBE)),
        }
    }

    fn call_key(&self, call_id: &[u8]) -> CallKey {
        let hash = self.call.hash(call_id);
        CallKey(hash.h1, hash.h2)
    }

    /// Of two numbers of fixed length; what they are is said by the key.
    fn pair(hash: &SipHasher24, first: u64, second: u64) -> Seal {
        let mut text = [0; 16];
        text[..8].copy_from_slice(&first.to_le_bytes());
        text[8..].copy_from_slice(&second.to_le_bytes());
        Seal::new(hash.with(&text))
    }

    /// The numbers of fixed length come first, and the only text of any length last, so no two dialogs have
    /// one text: the flags say how long the address is, which [`Sealer::open_dialog`] takes in that form
    /// alone.
    fn dialog(&self, d: &Dialog, flags: u8, call: CallKey, tag: &[u8]) -> Seal {
        let mut text = Uses::flow(self.dialog, d, flags);
        text.add(&octets(call));
        text.add(tag);
        text.seal()
    }

    fn path(&self, d: &Dialog, flags: u8) -> Seal {
        Uses::flow(self.path, d, flags).seal()
    }

    fn probe(&self, probe: u64) -> Seal {
        Seal::new(self.probe.with(&probe.to_le_bytes()))
    }

    fn flow(hash: SipHasher24, d: &Dialog, flags: u8) -> Gathered<128, SipHasher24> {
        let mut text = Gathered::new(hash);
        let mut fixed = [0; 12];
        fixed[..4].copy_from_slice(&d.node.to_le_bytes());
        fixed[4..6].copy_from_slice(&d.listener.0.to_le_bytes());
        fixed[6..8].copy_from_slice(&d.caller.port().to_le_bytes());
        fixed[8] = flags;
        text.add(&fixed);
        match d.caller.ip().to_canonical() {
            IpAddr::V4(v4) => text.add(&v4.octets()),
            IpAddr::V6(v6) => text.add(&v6.octets()),
        }
        if let Some(held) = d.conn {
            text.add(&held.conn.as_u64().to_le_bytes());
            text.add(&held.life.to_le_bytes());
        }
        text
    }
}

fn octets(call: CallKey) -> [u8; 16] {
    (u128::from(call.1) << 64 | u128::from(call.0)).to_le_bytes()
}

/// Seals and opens.
#[derive(Clone, Debug)]
pub struct Sealer {
    current: Uses,
    previous: Option<Uses>,
    tag: SipHasher13,
    address: SipHasher13,
    ownership: Ownership,
}

impl Sealer {
    /// A sealer with these keys.
    pub fn new(keys: Keys) -> Sealer {
        Sealer {
            ownership: keys.ownership(),
            tag: SipHasher13::new_with_key(&key_for(&keys.hash, domain::TAG)),
            address: SipHasher13::new_with_key(&key_for(&keys.hash, domain::ADDRESS)),
            current: Uses::new(&keys.current),
            previous: keys.previous.as_ref().map(Uses::new),
        }
    }

    /// The epoch of what is sealed now.
    pub fn epoch(&self) -> u8 {
        self.current.epoch
    }

    /// The epochs of all keys, what seals now first.
    pub(crate) fn epochs(&self) -> impl Iterator<Item = u8> + Clone + use<> {
        [Some(self.current.epoch), self.previous.as_ref().map(|uses| uses.epoch)].into_iter().flatten()
    }

    fn uses(&self, epoch: u8) -> Option<&Uses> {
        match self.current.epoch == epoch {
            true => Some(&self.current),
            false => self.previous.as_ref().filter(|uses| uses.epoch == epoch),
        }
    }

    /// A Call-ID as calls are known by, under the key that seals now.
    pub fn call(&self, call_id: &[u8]) -> CallKey {
        self.current.call_key(call_id)
    }

    /// A call's key under the key of `uses`.
    fn call_of(&self, uses: &Uses, call: CallKey, call_id: &[u8]) -> CallKey {
        if uses.epoch == self.current.epoch { call } else { uses.call_key(call_id) }
    }

    /// Which worker a call belongs to.
    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// The home of an address-of-record, the same at every balancer of the cluster.
    pub fn home(aor: &[u8]) -> u64 {
        // Not keyed: it must outlive every key, and who may register is for the nodes to say.
        crate::hash::scramble(crate::hash::fnv1a(aor))
    }

    /// An address, the same for all workers.
    pub fn address(&self, address: SocketAddr) -> u64 {
        let ip = match address.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut text = [0; 18];
        text[..16].copy_from_slice(&ip.octets());
        text[16..].copy_from_slice(&address.port().to_le_bytes());
        self.address.with(&text)
    }

    /// The tag of our own answers to the request with this id, the same for its retransmissions.
    pub fn tag(&self, id: u64) -> [u8; 16] {
        hex16(self.tag.with(&id.to_le_bytes()))
    }

    /// Whether a tag is [`Sealer::tag`]. Most are not as long.
    pub fn is_tag(&self, tag: &[u8], id: u64) -> bool {
        tag.len() == 16 && tag == self.tag(id)
    }

    /// The id of a request, the same for its retransmissions, its CANCEL, and the ACK of its failure.
    pub fn id(&self, epoch: u8, o: &Origin<'_>) -> u64 {
        let Some(uses) = self.uses(epoch) else { return 0 };
        let mut text = Gathered::<192, _>::new(uses.id);
        // What has a length of its own comes first and says where the rest ends.
        let mut fixed = [0; 28];
        fixed[..16].copy_from_slice(&octets(self.call_of(uses, o.call, o.call_id)));
        fixed[16..20].copy_from_slice(&o.cseq.to_le_bytes());
        fixed[20..24].copy_from_slice(&(o.branch.len() as u32).to_le_bytes());
        fixed[24..26].copy_from_slice(&o.port.to_le_bytes());
        let ip = o.reply.to_canonical();
        fixed[26] = u8::from(ip.is_ipv6());
        text.add(&fixed);
        match ip {
            IpAddr::V4(v4) => text.add(&v4.octets()),
            IpAddr::V6(v6) => text.add(&v6.octets()),
        }
        text.add(o.branch);
        text.add(o.host);
        text.finish()
    }

    /// Appends a branch.
    pub fn push_branch(&self, b: &Branch, out: &mut Vec<u8>) {
        let way = if b.to_caller { TO_CALLER } else { 0 };
        let place = way | u32::from(b.listener.0 & 0x7fff) << 16 | u32::from(b.port);
        let head = u64::from(b.node) << 32 | u64::from(place);
        let uses = invariant::some!(self.uses(b.epoch), "a branch is sealed with a key that is in use");
        let seal = uses.map_or(Seal::new(0), |uses| Uses::pair(&uses.branch, head, b.id));
        let mut text = [0; BRANCH.len() + 50];
        text[..9].copy_from_slice(BRANCH);
        text[9..11].copy_from_slice(&hex2(b.epoch));
        text[11..27].copy_from_slice(&hex16(head));
        text[27..43].copy_from_slice(&hex16(b.id));
        text[43..59].copy_from_slice(&seal.to_hex());
        out.extend_from_slice(&text);
    }

    /// Reads a branch. `None`: none of these keys has sealed it. That the request is the one of the next Via
    /// is for [`Sealer::id`] to say.
    pub fn open_branch(&self, branch: &[u8]) -> Option<Branch> {
        let mut read = Fields::new(strip(branch, BRANCH)?);
        let (epoch, head, id) = (read.octet()?, read.number(16)?, read.number(16)?);
        let seal = read.seal()?;
        let good = Uses::pair(&self.uses(epoch)?.branch, head, id).fits(seal);
        let place = head as u32;
        good.then_some(Branch {
            epoch,
            node: (head >> 32) as u32,
            to_caller: place & TO_CALLER != 0,
            listener: Mark((place >> 16) as u16 & 0x7fff),
            port: place as u16,
            id,
        })
    }

    /// Appends a dialog's token for the call with this key that the tag `tag` began.
    pub fn push_dialog(&self, d: &Dialog, call: CallKey, tag: &[u8], out: &mut Vec<u8>) {
        let flags = self.push_flow(d, out);
        out.extend_from_slice(&self.current.dialog(d, flags, call, tag).to_hex());
    }

    /// Appends the token of a phone, whose requests come as `d` says.
    pub fn push_path(&self, d: &Dialog, out: &mut Vec<u8>) {
        out.push(PATH);
        let flags = self.push_flow(d, out);
        out.extend_from_slice(&self.current.path(d, flags).to_hex());
    }

    fn push_flow(&self, d: &Dialog, out: &mut Vec<u8>) -> u8 {
        let ip = d.caller.ip().to_canonical();
        let way = u8::from(d.tied) << 4 | u8::from(d.conn.is_some()) << 3 | u8::from(d.by_node) << 2;
        let flags = way | u8::from(d.natted) << 1 | u8::from(ip.is_ipv6());
        let place = u64::from(d.listener.0) << 16 | u64::from(d.caller.port());
        out.extend_from_slice(&hex2(self.epoch()));
        out.extend_from_slice(&hex2(flags));
        out.extend_from_slice(&hex16(u64::from(d.node) << 32 | place));
        match ip {
            IpAddr::V4(v4) => out.extend_from_slice(&hex16(v4.to_bits().into())[8..]),
            IpAddr::V6(v6) => {
                out.extend_from_slice(&hex16((v6.to_bits() >> 64) as u64));
                out.extend_from_slice(&hex16(v6.to_bits() as u64));
            }
        }
        if let Some(held) = d.conn {
            out.extend_from_slice(&hex16(held.conn.as_u64()));
            out.extend_from_slice(&hex16(held.life.into())[8..]);
        }
        flags
    }

    /// Reads a dialog's token, and says by the tags who sends. `None`: none of these keys has sealed it for
    /// this dialog. `call`: the key of `call_id`.
    pub fn open_dialog(
        &self,
        token: &[u8],
        (call, call_id): (CallKey, &[u8]),
        from_tag: &[u8],
        to_tag: &[u8],
    ) -> Option<(Dialog, Sender)> {
        let (epoch, flags, dialog, seal) = read_flow(token)?;
        let uses = self.uses(epoch)?;
        let call = self.call_of(uses, call, call_id);
        let sealed_with = |tag: &[u8]| uses.dialog(&dialog, flags, call, tag).fits(seal);
        let (first, other) = match dialog.by_node {
            false => (Sender::Caller, Sender::Callee),
            true => (Sender::Callee, Sender::Caller),
        };
        match sealed_with(from_tag) {
            true => Some((dialog, first)),
            false => sealed_with(to_tag).then_some((dialog, other)),
        }
    }

    /// Whether a token is to be read by [`Sealer::open_path`], if by any.
    pub fn is_path(token: &[u8]) -> bool {
        token.first().is_some_and(|first| first.eq_ignore_ascii_case(&PATH))
    }

    /// Reads the token of a phone. `None`: none of these keys has sealed it.
    pub fn open_path(&self, token: &[u8]) -> Option<Dialog> {
        let (epoch, flags, dialog, seal) = read_flow(token.get(1..).filter(|_| Sealer::is_path(token))?)?;
        self.uses(epoch)?.path(&dialog, flags).fits(seal).then_some(dialog)
    }

    /// Appends the branch of probe number `serial` to a node.
    pub fn push_probe(&self, node: u32, serial: u32, out: &mut Vec<u8>) {
        let probe = u64::from(node) << 32 | u64::from(serial);
        out.extend_from_slice(PROBE);
        out.extend_from_slice(&hex2(self.epoch()));
        out.extend_from_slice(&hex16(probe));
        out.extend_from_slice(&self.current.probe(probe).to_hex());
    }

    /// The node and number of a probe of ours.
    pub fn open_probe(&self, branch: &[u8]) -> Option<(u32, u32)> {
        let mut read = Fields::new(strip(branch, PROBE)?);
        let (epoch, probe) = (read.octet()?, read.number(16)?);
        let good = self.uses(epoch)?.probe(probe).fits(read.seal()?);
        good.then_some(((probe >> 32) as u32, probe as u32))
    }
}

/// Which use a key is for.
mod domain {
    pub const CALL: u8 = 1;
    pub const OWNER: u8 = 3;
    pub const TAG: u8 = 5;
    pub const ID: u8 = 6;
    pub const BRANCH: u8 = 7;
    pub const DIALOG: u8 = 8;
    pub const PROBE: u8 = 9;
    pub const PATH: u8 = 10;
    pub const ADDRESS: u8 = 11;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sip_message::unhex16;
    use wire::ConnId;

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
        Dialog {
            node: 7,
            listener: Mark(1),
            caller: caller.parse().unwrap(),
            natted: true,
            by_node: false,
            tied: false,
            conn: None,
        }
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
            old.push_dialog(&dialog(caller), old.call(b"call"), b"a", &mut token);
            assert_eq!(token.len(), length);
            let open = |s: &Sealer, call: &[u8], from: &[u8], to: &[u8]| {
                s.open_dialog(&token, (s.call(call), call), from, to)
            };
            assert_eq!(open(&new, b"call", b"a", b"b"), Some((dialog(caller), Sender::Caller)));
            assert_eq!(open(&new, b"call", b"b", b"a"), Some((dialog(caller), Sender::Callee)));
            assert_eq!(open(&new, b"other", b"a", b"b"), None, "of another call");
            assert_eq!(open(&new, b"call", b"c", b"b"), None, "of other ends");
            assert_eq!(open(&later, b"call", b"a", b"b"), None);
        }
        let held = Some(Held { conn: ConnId::new(3, 77), life: 9 });
        for (caller, conn, length) in [("192.0.2.9:5060", None, 45), ("[2001:db8::1]:6000", held, 93)] {
            let path = Dialog { conn, ..dialog(caller) };
            let mut token = Vec::new();
            old.push_path(&path, &mut token);
            assert_eq!((token.len(), Sealer::is_path(&token)), (length, true));
            assert_eq!((new.open_path(&token), later.open_path(&token)), (Some(path), None));
            // It is no dialog's, nor the other way round.
            let dialog_of = |token: &[u8]| new.open_dialog(token, (new.call(b""), b""), b"", b"");
            assert!(dialog_of(&token).is_none() && dialog_of(&token[1..]).is_none());
            let mut other = vec![PATH];
            old.push_dialog(&path, old.call(b""), b"", &mut other);
            assert!(dialog_of(&other[1..]).is_some() && new.open_path(&other).is_none());
            for at in 1..token.len() {
                let mut changed = token.clone();
                changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
                assert_eq!(new.open_path(&changed), None, "{at}");
            }
        }
        // Of a dialog that the node's side began the ends change places.
        let (begun, mut token) = (Dialog { by_node: true, ..dialog("192.0.2.9:5060") }, Vec::new());
        old.push_dialog(&begun, old.call(b"call"), b"a", &mut token);
        let by = |from: &[u8], to: &[u8]| new.open_dialog(&token, (new.call(b"call"), b"call"), from, to);
        assert_eq!(by(b"a", b"b"), Some((begun, Sender::Callee)));
        assert_eq!(by(b"b", b"a"), Some((begun, Sender::Caller)));
        let mut probe = Vec::new();
        old.push_probe(7, 99, &mut probe);
        assert_eq!(new.open_probe(&probe), Some((7, 99)));
        assert_eq!(new.open_branch(&probe), None);
    }

    #[test]
    fn texts_are_those_of_earlier_builds() {
        let sealer = Sealer::new(keys(1, None));
        let text = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut text = Vec::new();
            write(&mut text);
            String::from_utf8(text).unwrap()
        };
        let branch = text(&|out| sealer.push_branch(&BRANCH_OF, out));
        assert_eq!(branch, "z9hG4bKlb01deadbeef000313c60123456789abcdef8ddbd519eb931253");
        let call = sealer.call(b"call");
        let token = text(&|out| sealer.push_dialog(&dialog("192.0.2.9:5060"), call, b"a", out));
        assert_eq!(token, "010200000007000113c4c0000209033a8d9b015bd7ec");
        let conn = Some(Held { conn: ConnId::new(3, 77), life: 9 });
        let path = text(&|out| sealer.push_path(&Dialog { conn, ..dialog("[2001:db8::1]:6000") }, out));
        let flow = "p010b000000070001177020010db8000000000000000000000001";
        assert_eq!(path, [flow, "000300000000004d", "00000009", "5fb9d170e4da3620"].concat());
        let probe = text(&|out| sealer.push_probe(7, 99, out));
        assert_eq!(probe, "z9hG4bKlp010000000700000063b76080d48720196b");
    }

    proptest! {
        #[test]
        fn no_octet_can_be_changed(at in 0usize..68, by in 1u8..255, branch: bool) {
            let sealer = Sealer::new(keys(1, None));
            let mut text = Vec::new();
            if branch {
                sealer.push_branch(&BRANCH_OF, &mut text);
            } else {
                sealer.push_dialog(&dialog("[2001:db8::1]:6000"), sealer.call(b"call"), b"a", &mut text);
            }
            let at = at % text.len();
            let before = text[at];
            text[at] = before.wrapping_add(by);
            // Capitals are the same.
            prop_assume!(!text[at].eq_ignore_ascii_case(&before));
            prop_assert_eq!(sealer.open_branch(&text), None);
            prop_assert_eq!(sealer.open_dialog(&text, (sealer.call(b"call"), b"call"), b"a", b"b"), None);
        }

        #[test]
        fn nothing_at_random_is_read(text in "z9hG4bKlb[0-9a-f]{0,60}|[0-9a-f]{40,70}|.{0,70}") {
            let sealer = Sealer::new(keys(1, None));
            prop_assert_eq!(sealer.open_branch(text.as_bytes()), None);
            prop_assert_eq!(sealer.open_dialog(text.as_bytes(), (sealer.call(b"call"), b"call"), b"a", b"b"), None);
            prop_assert_eq!(sealer.open_probe(text.as_bytes()), None);
        }
    }

    proptest! {
        /// Whatever makes two requests differ makes their ids differ, under both keys; and the old one is
        /// found again.
        #[test]
        fn an_id_is_of_one_origin(which in 0usize..6, long in 0usize..300) {
            let (old, new) = (Sealer::new(keys(1, None)), Sealer::new(keys(2, Some(1))));
            let branch = vec![b'b'; long + 1];
            let ip = |last| IpAddr::from([192, 0, 2, last]);
            let one = |sealer: &Sealer| Origin {
                branch: &branch,
                host: b"host",
                port: 5060,
                reply: ip(1),
                call_id: b"call",
                call: sealer.call(b"call"),
                cseq: 7,
            };
            // The same octets where one field ends and the next begins.
            let shifted = [&branch[..], b"h"].concat();
            let other = match which {
                0 => Origin { branch: &shifted, host: b"ost", ..one(&new) },
                1 => Origin { port: 5061, ..one(&new) },
                2 => Origin { reply: ip(2), ..one(&new) },
                3 => Origin { call_id: b"other", call: new.call(b"other"), ..one(&new) },
                4 => Origin { cseq: 8, ..one(&new) },
                _ => Origin { reply: "::c000:201".parse().unwrap(), ..one(&new) },
            };
            for epoch in [1, 2] {
                prop_assert_ne!(new.id(epoch, &one(&new)), new.id(epoch, &other));
            }
            prop_assert_ne!(new.id(1, &one(&new)), new.id(2, &one(&new)));
            prop_assert_eq!(new.id(1, &one(&new)), old.id(1, &one(&old)));
            let mapped = Origin { reply: "::ffff:192.0.2.1".parse().unwrap(), ..one(&new) };
            prop_assert_eq!(new.id(2, &one(&new)), new.id(2, &mapped));
        }
    }

    #[test]
    fn an_address_is_read_in_one_form_only() {
        let sealer = Sealer::new(keys(1, None));
        let call = sealer.call(b"call");
        // What each of these says is sealed rightly, but for the form.
        let token = |caller: &str, flags: u8| {
            let dialog = Dialog { natted: flags & 2 != 0, ..dialog(caller) };
            let mut text = Vec::new();
            text.extend_from_slice(&hex2(1));
            text.extend_from_slice(&hex2(flags));
            let place = u64::from(dialog.listener.0) << 16 | u64::from(dialog.caller.port());
            text.extend_from_slice(&hex16(u64::from(dialog.node) << 32 | place));
            match dialog.caller.ip() {
                IpAddr::V4(v4) => text.extend_from_slice(&hex16(v4.to_bits().into())[8..]),
                IpAddr::V6(v6) => {
                    text.extend_from_slice(&hex16((v6.to_bits() >> 64) as u64));
                    text.extend_from_slice(&hex16(v6.to_bits() as u64));
                }
            }
            text.extend_from_slice(&sealer.current.dialog(&dialog, flags, call, b"a").to_hex());
            sealer.open_dialog(&text, (call, b"call"), b"a", b"b").map(|(dialog, _)| dialog.caller)
        };
        assert_eq!(token("192.0.2.9:5060", 2), Some("192.0.2.9:5060".parse().unwrap()));
        assert_eq!(token("[2001:db8::1]:5060", 1), Some("[2001:db8::1]:5060".parse().unwrap()));
        assert_eq!(token("[::ffff:192.0.2.9]:5060", 1), None);
        assert_eq!(token("192.0.2.9:5060", 32), None);
    }

    #[test]
    fn what_is_sealed_for_one_use_is_good_for_no_other() {
        let sealer = Sealer::new(keys(1, None));
        let mut probe = Vec::new();
        sealer.push_probe(7, 99, &mut probe);
        let number = 7u64 << 32 | 99;
        assert_eq!(unhex16(&probe[27..]), Some(sealer.current.probe.with(&number.to_le_bytes())));
        assert_ne!(sealer.current.probe.with(&[1; 16]), sealer.current.branch.with(&[1; 16]));
        assert_ne!(sealer.current.dialog.with(&[1; 16]), sealer.current.branch.with(&[1; 16]));
        assert_ne!(sealer.current.id.with(&[1; 16]), sealer.tag.with(&[1; 16]));
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
