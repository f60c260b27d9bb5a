//! The name of a call in events.

use core::fmt;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use siphasher::sip128::{Hasher128, SipHasher13};

/// Names an attempt to call: a keyed hash of what tells the server transaction of its INVITE from others
/// ([`Invite`]). A repeated INVITE gives the same name, in whichever process or worker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CallName(u128);

impl CallName {
    /// Names no call.
    pub const NONE: CallName = CallName(0);

    /// The name that is this number.
    pub const fn new(number: u128) -> CallName {
        CallName(number)
    }

    /// As a number.
    pub const fn number(self) -> u128 {
        self.0
    }
}

impl fmt::Display for CallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Makes names. The key is kept with the server's data, so that names outlive a process.
#[derive(Clone, Copy, Debug)]
pub struct Namer {
    key: [u8; 16],
}

impl Namer {
    /// With this key.
    pub const fn new(key: [u8; 16]) -> Namer {
        Namer { key }
    }

    /// The name of the call that this INVITE begins.
    pub fn call(&self, invite: &Invite<'_>) -> CallName {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        let Invite { call_id, caller_tag, branch, host, port, sequence } = *invite;
        for text in [call_id, caller_tag, branch, host] {
            hasher.write(text);
            // A space stands in none of them (RFC 3261 section 25.1).
            hasher.write(b" ");
        }
        hasher.write_u32(port.map_or(0, |port| 1 + u32::from(port)));
        hasher.write_u32(sequence);
        CallName(hasher.finish128().as_u128())
    }

    /// The number of the dialog, never 0, of the call with this Call-ID and these tags of caller and callee,
    /// whose INVITE was sent to `callee`. Both ends choose their tags, but not where this server has sent
    /// the INVITE: a BYE in a dialog with another callee ends no other call.
    pub fn dialog(&self, call_id: &[u8], [caller, callee]: [&[u8]; 2], at: SocketAddr) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        for text in [call_id, caller, callee] {
            hasher.write(text);
            hasher.write(b" ");
        }
        match at.ip().to_canonical() {
            IpAddr::V4(v4) => hasher.write(&v4.octets()),
            IpAddr::V6(v6) => hasher.write(&v6.octets()),
        }
        hasher.write_u16(at.port());
        hasher.finish128().h1.max(1)
    }
}

/// What tells the server transaction of an INVITE from others (RFC 3261 section 17.2.3), and is in its
/// responses too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invite<'a> {
    /// Call-ID.
    pub call_id: &'a [u8],
    /// The tag in From.
    pub caller_tag: &'a [u8],
    /// `branch` of the Via of who sent it.
    pub branch: &'a [u8],
    /// `sent-by` of that Via: the host.
    pub host: &'a [u8],
    /// The same: the port.
    pub port: Option<u16>,
    /// The number in CSeq.
    pub sequence: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVITE: Invite<'_> = Invite {
        call_id: b"a@b",
        caller_tag: b"t",
        branch: b"z9hG4bK1",
        host: b"192.0.2.1",
        port: None,
        sequence: 1,
    };

    #[test]
    fn name_depends_on_key_and_transaction() {
        let namer = Namer::new([1; 16]);
        let name = namer.call(&INVITE);
        assert_eq!(name, Namer::new([1; 16]).call(&INVITE));
        assert_ne!(name, Namer::new([2; 16]).call(&INVITE));
        let others = [
            Invite { call_id: b"c@b", ..INVITE },
            Invite { caller_tag: b"u", ..INVITE },
            Invite { branch: b"z9hG4bK2", ..INVITE },
            Invite { host: b"192.0.2.2", ..INVITE },
            Invite { port: Some(5_060), ..INVITE },
            Invite { sequence: 2, ..INVITE },
            Invite { call_id: b"a@bt", caller_tag: b"", ..INVITE },
        ];
        for other in &others {
            assert_ne!(namer.call(other), name, "{other:?}");
        }
    }

    #[test]
    fn dialog_depends_on_tags_and_on_where_the_callee_is() {
        let namer = Namer::new([1; 16]);
        let at = |text: &str| text.parse().expect("an address");
        let dialog = namer.dialog(b"a@b", [b"t", b"u"], at("192.0.2.2:5060"));
        assert_eq!(dialog, namer.dialog(b"a@b", [b"t", b"u"], at("[::ffff:192.0.2.2]:5060")));
        assert_ne!(dialog, namer.dialog(b"a@b", [b"u", b"t"], at("192.0.2.2:5060")));
        assert_ne!(dialog, namer.dialog(b"a@b", [b"t", b"u"], at("192.0.2.2:5062")));
        assert_ne!(dialog, namer.dialog(b"a@b", [b"t", b"u"], at("192.0.2.3:5060")));
    }
}
