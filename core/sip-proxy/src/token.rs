//! What this server writes into its own Record-Route: the two ends of a dialog, sealed.
//!
//! A proxy that routes by no memory of dialogs must still know, when a BYE comes by, whether it ever let this
//! dialog through and where the other end really is (a phone behind address translation is not where its
//! Contact says). Both travel in the Record-Route URI: each end's transport address, listener and standing,
//! marks of the names that called and was called, and the table of calls that knows the dialog, with a MAC
//! over them, the Call-ID and the caller's tag. A made-up Route opens nothing, a copied one fits no other
//! call, and no worker needs memory to follow a dialog (the flow tokens of RFC 5626 section 5.2, for both
//! ends).
//!
//! Text form: base64url of `version|roles, called, calling, keeper, caller, callee, mac`, 43 characters for
//! two IPv4 ends.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use seal::{Gathered, Packed, Seal};
use siphasher::sip::SipHasher24;
use wire::{Flow, ListenerId, Transport};

/// How far the element at one end of a dialog is trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A registered user of a domain of this server.
    Local,
    /// A configured trunk.
    Trunk,
    /// Anyone else.
    Stranger,
}

/// One end of a dialog as this server saw it when the dialog was set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// The transport in use towards it.
    pub transport: Transport,
    /// The listener in use towards it.
    pub listener: ListenerId,
    /// Its transport address.
    pub remote: SocketAddr,
    /// Its standing.
    pub role: Role,
    /// It is behind address translation, as its Via or Contact shows: what its Contact says of its address is
    /// not to be relied on.
    pub translated: bool,
    /// It opened the connection in use: nobody need listen at its address, so no connection is made to it
    /// (RFC 5626 section 5.3.1).
    pub opened: bool,
}

impl End {
    /// The end at the far side of `flow`.
    pub fn new(flow: Flow, role: Role) -> End {
        let Flow { transport, listener, remote, .. } = flow;
        End { transport, listener, remote, role, translated: false, opened: flow.is_only_way() }
    }

    /// The same, which calls itself by `own`, if that is known.
    pub fn known_as(self, own: Option<SocketAddr>) -> End {
        let same = |own: SocketAddr| {
            own.ip().to_canonical() == self.remote.ip().to_canonical() && own.port() == self.remote.port()
        };
        End { translated: self.transport == Transport::Udp && !own.is_none_or(same), ..self }
    }

    /// The flow to it; a stream is found again by its address.
    pub const fn flow(&self) -> Flow {
        Flow { transport: self.transport, listener: self.listener, remote: self.remote, conn: None }
    }
}

/// Both ends of a dialog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Who sent the request that set the dialog up.
    pub caller: End,
    /// Who it was sent to.
    pub callee: End,
    /// The [mark](Sealer::mark) of the name of ours that was called; 0 if it was none.
    pub called: u16,
    /// The same of the name of ours that called.
    pub calling: u16,
    /// The table of calls that knows this dialog, a random number; 0: none does.
    pub keeper: u16,
    /// An INVITE set it up.
    pub call: bool,
    /// By how much the CSeq of the caller's requests is higher at the callee: 3 at most.
    pub raised: u8,
}

/// A verified token as one request shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialog {
    /// The end that sent this request.
    pub sender: End,
    /// The other end.
    pub peer: End,
    /// Whether the sender is the one who set the dialog up.
    pub by_caller: bool,
    /// The [mark](Sealer::mark) of the name of ours that was called; 0 if it was none.
    pub called: u16,
    /// The same of the name of ours that called.
    pub calling: u16,
    /// The table of calls that knows this dialog; 0: none does.
    pub keeper: u16,
    /// An INVITE set it up. Tokens of older versions do not say so.
    pub call: bool,
    /// By how much the CSeq of the caller's requests is higher at the callee.
    pub raised: u8,
}

impl Dialog {
    /// The end that the request which set the dialog up was sent to.
    pub const fn callee(&self) -> End {
        if self.by_caller { self.peer } else { self.sender }
    }
}

/// Seals and opens dialog tokens. All workers share the key; it outlives restarts, so dialogs do too.
#[derive(Clone)]
pub struct Sealer {
    key: [u8; 16],
}

const VERSION: u8 = 3;
/// Tokens of dialogs from before an upgrade: without the table of calls, and without the name that called.
const VERSION_2: u8 = 2;
const VERSION_1: u8 = 1;
const END_MAX: usize = 20;
const RAW_MAX: usize = 2 + 6 + 2 * END_MAX + Seal::LEN;

impl Sealer {
    /// A sealer with a secret key.
    pub const fn new(key: [u8; 16]) -> Sealer {
        Sealer { key }
    }

    /// Appends the token of a dialog with this Call-ID and caller's tag.
    pub fn seal(&self, ends: &Ends, call_id: &[u8], caller_tag: &[u8], out: &mut Vec<u8>) {
        let mut raw = Raw::default();
        let call = if ends.call { CALL } else { 0 };
        let roles = role_bits(ends.caller.role) << 4 | role_bits(ends.callee.role);
        raw.push(&[VERSION, call | roles | (ends.raised & MOST_RAISED) << RAISED]);
        raw.push(&ends.called.to_be_bytes());
        raw.push(&ends.calling.to_be_bytes());
        raw.push(&ends.keeper.to_be_bytes());
        push_end(&mut raw, &ends.caller);
        push_end(&mut raw, &ends.callee);
        let seal = self.seal_of(raw.bytes(), call_id, caller_tag);
        raw.push(&seal.to_bytes());
        raw.write(out);
    }

    /// Opens a token found in the Route of a request. The tag that the seal fits tells which end sent
    /// it: From for the caller, To for the callee. `None`: not sealed here, or not for this dialog.
    pub fn open(&self, token: &[u8], call_id: &[u8], from_tag: &[u8], to_tag: &[u8]) -> Option<Dialog> {
        let raw = Raw::read(token)?;
        let (sealed, &seal) = raw.bytes().split_last_chunk()?;
        let seal = Seal::from_bytes(seal);
        let Ends { caller, callee, called, calling, keeper, call, raised } = read_ends(sealed)?;
        if to_tag.is_empty() || from_tag.is_empty() {
            return None;
        }
        if self.seal_of(sealed, call_id, from_tag).fits(seal) {
            return Some(Dialog {
                sender: caller,
                peer: callee,
                by_caller: true,
                called,
                calling,
                keeper,
                call,
                raised,
            });
        }
        if self.seal_of(sealed, call_id, to_tag).fits(seal) {
            return Some(Dialog {
                sender: callee,
                peer: caller,
                by_caller: false,
                called,
                calling,
                keeper,
                call,
                raised,
            });
        }
        None
    }

    /// What a token keeps of an address-of-record: enough to tell that another one is not the same, and
    /// nothing that anybody else could work out. Never 0.
    pub fn mark(&self, aor: &[u8]) -> u16 {
        let mut text = Gathered::<256, _>::new(SipHasher24::new_with_key(&self.key));
        text.add(b"called");
        text.add(aor);
        (text.finish() as u16).max(1)
    }

    fn seal_of(&self, sealed: &[u8], call_id: &[u8], tag: &[u8]) -> Seal {
        let mut text = Gathered::<256, _>::new(SipHasher24::new_with_key(&self.key));
        text.add(b"dialog");
        text.add(sealed);
        // Lengths keep one field from running into the next.
        text.add(&(call_id.len() as u64).to_le_bytes());
        text.add(call_id);
        text.add(tag);
        text.seal()
    }
}

const fn role_bits(role: Role) -> u8 {
    match role {
        Role::Local => 0,
        Role::Trunk => 1,
        Role::Stranger => 2,
    }
}

const fn role_of(bits: u8) -> Option<Role> {
    match bits {
        0 => Some(Role::Local),
        1 => Some(Role::Trunk),
        2 => Some(Role::Stranger),
        _ => None,
    }
}

const TRANSPORTS: [Transport; 6] =
    [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss, Transport::Sctp];

/// Beside the roles: [`Ends::call`].
const CALL: u8 = 128;
/// Likewise: where [`Ends::raised`] stands.
const RAISED: u8 = 2;
/// The most that [`Ends::raised`] can be.
pub const MOST_RAISED: u8 = 3;
/// Beside the transport and the family: [`End::translated`].
const TRANSLATED: u8 = 16;
/// Likewise: [`End::opened`].
const OPENED: u8 = 32;

/// A token's bytes.
type Raw = Packed<RAW_MAX>;

fn push_end(raw: &mut Raw, end: &End) {
    let transport = TRANSPORTS.iter().position(|t| *t == end.transport).unwrap_or(0) as u8;
    let flag = |set, flag| if set { flag } else { 0 };
    let kind = transport << 1 | flag(end.translated, TRANSLATED) | flag(end.opened, OPENED);
    let listener = end.listener.0 as u8;
    let port = end.remote.port().to_be_bytes();
    match end.remote.ip().to_canonical() {
        IpAddr::V4(ip) => {
            raw.push(&[kind, listener]);
            raw.push(&ip.octets());
        }
        IpAddr::V6(ip) => {
            raw.push(&[kind | 1, listener]);
            raw.push(&ip.octets());
        }
    }
    raw.push(&port);
}

fn read_ends(sealed: &[u8]) -> Option<Ends> {
    let (roles, marks, rest) = match sealed {
        [VERSION, roles, a, b, c, d, e, f, rest @ ..] => (roles, [[*a, *b], [*c, *d], [*e, *f]], rest),
        [VERSION_2, roles, a, b, c, d, rest @ ..] => (roles, [[*a, *b], [*c, *d], [0, 0]], rest),
        [VERSION_1, roles, a, b, rest @ ..] => (roles, [[*a, *b], [0, 0], [0, 0]], rest),
        _ => return None,
    };
    let [called, calling, keeper] = marks.map(u16::from_be_bytes);
    let (call, roles) = (roles & CALL != 0, roles & !CALL);
    let (caller, rest) = read_end(rest, role_of(roles >> 4)?)?;
    let raised = roles >> RAISED & MOST_RAISED;
    let (callee, rest) = read_end(rest, role_of(roles & 3)?)?;
    rest.is_empty().then_some(Ends { caller, callee, called, calling, keeper, call, raised })
}

fn read_end(bytes: &[u8], role: Role) -> Option<(End, &[u8])> {
    let (&[kind, listener], rest) = bytes.split_first_chunk::<2>()?;
    let (translated, opened) = (kind & TRANSLATED != 0, kind & OPENED != 0);
    let transport = *TRANSPORTS.get(usize::from((kind & !TRANSLATED & !OPENED) >> 1))?;
    let (ip, rest) = if kind & 1 == 0 {
        let (octets, rest) = rest.split_first_chunk::<4>()?;
        (IpAddr::V4(Ipv4Addr::from(*octets)), rest)
    } else {
        let (octets, rest) = rest.split_first_chunk::<16>()?;
        (IpAddr::V6(Ipv6Addr::from(*octets)), rest)
    };
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let remote = SocketAddr::new(ip, u16::from_be_bytes(*port));
    let listener = ListenerId(u16::from(listener));
    Some((End { transport, listener, remote, role, translated, opened }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn end(addr: &str, transport: Transport, role: Role) -> End {
        let (listener, remote) = (ListenerId(3), addr.parse().unwrap());
        End { transport, listener, remote, role, translated: false, opened: false }
    }

    fn ends() -> Ends {
        Ends {
            caller: end("192.0.2.1:5060", Transport::Udp, Role::Local),
            callee: end("[2001:db8::1]:5070", Transport::Tcp, Role::Trunk),
            called: 0x1234,
            calling: 0x5678,
            keeper: 0x9abc,
            call: true,
            raised: 0,
        }
    }

    fn sealed(key: u8) -> Vec<u8> {
        let mut out = Vec::new();
        Sealer::new([key; 16]).seal(&ends(), b"call@x", b"ctag", &mut out);
        out
    }

    #[test]
    fn text_of_a_token_is_that_of_earlier_builds() {
        let text = "A4ESNFZ4mrwAA8AAAgETxAMDIAENuAAAAAAAAAAAAAAAARPOF1cclNoJtvE";
        assert_eq!(String::from_utf8(sealed(1)).unwrap(), text);
    }

    #[test]
    fn each_direction_is_told_by_its_tags() {
        let s = Sealer::new([1; 16]);
        let token = sealed(1);
        let Ends { caller, callee, called, calling, keeper, call, raised } = ends();
        assert_eq!(
            s.open(&token, b"call@x", b"ctag", b"other"),
            Some(Dialog {
                sender: caller,
                peer: callee,
                by_caller: true,
                called,
                calling,
                keeper,
                call,
                raised
            })
        );
        assert_eq!(
            s.open(&token, b"call@x", b"other", b"ctag"),
            Some(Dialog {
                sender: callee,
                peer: caller,
                by_caller: false,
                called,
                calling,
                keeper,
                call,
                raised
            })
        );
    }

    #[test]
    fn two_ipv4_ends_take_43_characters() {
        let e = end("10.0.0.1:5060", Transport::Udp, Role::Local);
        let mut out = Vec::new();
        Sealer::new([0; 16]).seal(
            &Ends { caller: e, callee: e, called: 0, calling: 0, keeper: 0, call: false, raised: 0 },
            b"c",
            b"t",
            &mut out,
        );
        assert_eq!(out.len(), 43);
    }

    #[test]
    fn a_token_fits_no_other_call_and_no_other_key() {
        let s = Sealer::new([1; 16]);
        let token = sealed(1);
        assert_eq!(s.open(&token, b"call@y", b"ctag", b"x"), None);
        assert_eq!(s.open(&token, b"call@x", b"a", b"b"), None);
        assert_eq!(s.open(&token, b"call@x", b"ctag", b""), None, "no To tag, no dialog");
        assert_eq!(s.open(&sealed(2), b"call@x", b"ctag", b"x"), None);
    }

    #[test]
    fn tokens_of_older_versions_are_read_without_what_they_lack() {
        let s = Sealer::new([1; 16]);
        let Ends { caller, callee, called, calling, .. } = ends();
        for (version, named) in [(VERSION_1, 0), (VERSION_2, calling)] {
            let mut raw = Raw::default();
            raw.push(&[version, role_bits(caller.role) << 4 | role_bits(callee.role)]);
            raw.push(&called.to_be_bytes());
            if version == VERSION_2 {
                raw.push(&calling.to_be_bytes());
            }
            push_end(&mut raw, &caller);
            push_end(&mut raw, &callee);
            let seal = s.seal_of(raw.bytes(), b"call@x", b"ctag");
            raw.push(&seal.to_bytes());
            let mut token = Vec::new();
            raw.write(&mut token);
            let dialog = s.open(&token, b"call@x", b"ctag", b"x").expect("a dialog");
            assert_eq!((dialog.sender, dialog.callee(), dialog.called), (caller, callee, called));
            assert_eq!((dialog.calling, dialog.keeper, dialog.call), (named, 0, false), "{version}");
        }
    }

    #[test]
    fn names_have_marks_that_depend_on_the_key() {
        let marks: std::collections::BTreeSet<u16> =
            (0..100).map(|n| Sealer::new([1; 16]).mark(format!("user{n}@x").as_bytes())).collect();
        assert!(marks.len() > 95 && !marks.contains(&0));
        assert_ne!(Sealer::new([1; 16]).mark(b"a@x"), Sealer::new([2; 16]).mark(b"a@x"));
    }

    fn any_end() -> impl Strategy<Value = End> {
        let address = prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_map(|ip| IpAddr::from(ip).to_canonical()),
        ];
        let role = proptest::sample::select(&[Role::Local, Role::Trunk, Role::Stranger][..]);
        let flags = any::<(bool, bool)>();
        let rest = (proptest::sample::select(&TRANSPORTS[..]), any::<u8>(), any::<u16>(), role, flags);
        (address, rest).prop_map(|(ip, (transport, listener, port, role, (translated, opened)))| {
            let (listener, remote) = (ListenerId(listener.into()), SocketAddr::new(ip, port));
            End { transport, listener, remote, role, translated, opened }
        })
    }

    proptest! {
        #[test]
        fn tokens_come_back_as_they_were_sealed(
            ends in (any_end(), any_end(), any::<[u16; 3]>(), any::<bool>(), 0u8..=MOST_RAISED),
            (call_id, tag, key) in ("[!-~]{1,80}", "[a-z0-9]{1,40}", any::<[u8; 16]>()),
        ) {
            let (caller, callee, [called, calling, keeper], call, raised) = ends;
            let (sealer, mut token) = (Sealer::new(key), Vec::new());
            let ends = Ends { caller, callee, called, calling, keeper, call, raised };
            sealer.seal(&ends, call_id.as_bytes(), tag.as_bytes(), &mut token);
            let open = |from: &str, to: &str| {
                sealer.open(&token, call_id.as_bytes(), from.as_bytes(), to.as_bytes())
            };
            let there =
                Dialog { sender: caller, peer: callee, by_caller: true, called, calling, keeper, call, raised };
            let back = Dialog { sender: callee, peer: caller, by_caller: false, ..there };
            prop_assert_eq!(open(&tag, "another"), Some(there));
            prop_assert_eq!(open("another", &tag), Some(back));
            prop_assert_eq!(open("another", "third"), None);
        }

        #[test]
        fn damage_is_noticed(at in 0usize..60, with in any::<u8>()) {
            let mut token = sealed(1);
            let at = at % token.len();
            // The last character carries spare bits that decode to nothing.
            prop_assume!(at + 1 < token.len() && token[at] != with);
            token[at] = with;
            prop_assert_eq!(Sealer::new([1; 16]).open(&token, b"call@x", b"ctag", b"x"), None);
        }

        #[test]
        fn any_bytes_are_read_safely(token in proptest::collection::vec(any::<u8>(), 0..120)) {
            prop_assert_eq!(Sealer::new([1; 16]).open(&token, b"c", b"f", b"t"), None);
        }
    }
}
