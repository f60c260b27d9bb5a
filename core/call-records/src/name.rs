//! The name of a call in events.

use core::fmt;
use core::hash::Hasher;
use siphasher::sip128::{Hasher128, SipHasher13};

/// Names an attempt to call: a keyed hash of its Call-ID and the tag of its caller. All requests of the call
/// give the same name, in whichever process or worker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CallName(u128);

impl CallName {
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

    /// The name of the call with this Call-ID whose caller has this tag.
    pub fn name(&self, call_id: &[u8], caller_tag: &[u8]) -> CallName {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(call_id);
        // A space stands in neither (RFC 3261 section 25.1).
        hasher.write(b" ");
        hasher.write(caller_tag);
        CallName(hasher.finish128().as_u128())
    }

    /// The number of the dialog, never 0, of the call with this Call-ID whose callee has this tag.
    pub fn dialog(&self, call_id: &[u8], callee_tag: &[u8]) -> u64 {
        (self.name(call_id, callee_tag).number() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_depends_on_key_call_id_and_tag() {
        let namer = Namer::new([1; 16]);
        let name = namer.name(b"a@b", b"t");
        assert_eq!(name, Namer::new([1; 16]).name(b"a@b", b"t"));
        assert_ne!(name, Namer::new([2; 16]).name(b"a@b", b"t"));
        assert_ne!(name, namer.name(b"a@b", b"u"));
        assert_ne!(namer.name(b"a@bt", b""), namer.name(b"a@b", b"t"));
    }
}
