//! Who has registered in this run: the second REGISTER of an address-of-record is a re-registration, whose
//! rate RFC 7502 (section 6.8) wants apart from that of first ones (section 6.7).

use crate::metrics::Registering;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Addresses-of-record that are remembered at most, by a hash of 8 bytes each. Those beyond count as
/// registered for the first time, always.
const MOST: usize = 4_000_000;

/// The addresses-of-record that have registered.
pub struct Registered {
    seen: HashTable<u64>,
    hasher: FixedState,
}

/// What a REGISTER asks for, and of whose registration it speaks.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub kind: Registering,
    aor: u64,
}

impl Registered {
    /// Nobody has yet.
    pub fn new(hasher: FixedState) -> Registered {
        Registered { seen: HashTable::new(), hasher }
    }

    /// Of which kind a REGISTER is. One whose `Expires` is 0 removes bindings (RFC 3261 section 10.2.2).
    pub fn asked(&self, request: &[u8]) -> Asked {
        let (mut aor, mut removes) = (&b""[..], false);
        let mut from = 0;
        let mut ends = memchr::memchr_iter(b'\n', request);
        while let Some(to) = ends.next().or_else(|| (from < request.len()).then_some(request.len())) {
            let line = request.get(from..to).unwrap_or_default();
            let is_first = from == 0;
            from = to + 1;
            if is_first {
                continue;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                break;
            }
            let Some(colon) = line.iter().take(8).position(|&byte| byte == b':') else { continue };
            let (name, value) =
                (line.get(..colon).unwrap_or_default(), line.get(colon + 1..).unwrap_or_default());
            match name.trim_ascii() {
                name if name.eq_ignore_ascii_case(b"to") || name.eq_ignore_ascii_case(b"t") => {
                    aor = uri(value)
                }
                name if name.eq_ignore_ascii_case(b"expires") => removes = value.trim_ascii() == b"0",
                _ => {}
            }
        }
        let aor = self.hasher.hash_one(aor);
        let kind = match (removes, self.seen.find(aor, |&other| other == aor)) {
            (true, _) => Registering::Remove,
            (false, Some(_)) => Registering::Refresh,
            (false, None) => Registering::First,
        };
        Asked { kind, aor }
    }

    /// It was answered with 2xx.
    pub fn done(&mut self, asked: Asked) {
        let room = self.seen.len() < MOST;
        let entry = self.seen.find_entry(asked.aor, |&other| other == asked.aor);
        match (asked.kind, entry) {
            (Registering::Remove, Ok(entry)) => {
                entry.remove();
            }
            (Registering::First | Registering::Refresh, Err(_)) if room => {
                self.seen.insert_unique(asked.aor, asked.aor, |&hash| hash);
            }
            _ => {}
        }
    }
}

/// The URI of a To value, without name and parameters.
fn uri(value: &[u8]) -> &[u8] {
    let inner = match value.iter().rposition(|&byte| byte == b'<') {
        Some(at) => value.get(at + 1..).unwrap_or_default(),
        None => value,
    };
    inner.split(|byte| matches!(byte, b'>' | b';' | b'?')).next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(to: &str, more: &str) -> Vec<u8> {
        format!("REGISTER sip:x SIP/2.0\r\nFrom: <sip:z@x>;tag=1\r\n{to}\r\n{more}\r\n\r\nExpires: 0\r\n")
            .into_bytes()
    }

    #[test]
    fn an_address_of_record_registers_once_for_the_first_time() {
        let mut all = Registered::new(FixedState::with_seed(1));
        let ann = register("To: \"A <a\" <sip:ann@x>", "Expires: 60");
        let first = all.asked(&ann);
        assert_eq!(first.kind, Registering::First);
        assert_eq!(all.asked(&ann).kind, Registering::First, "the first one has not been answered");
        all.done(first);
        for again in ["To: <sip:ann@x>", "t:sip:ann@x;tag=9", "TO : <sip:ann@x;transport=udp>"] {
            assert_eq!(all.asked(&register(again, "CSeq: 2 REGISTER")).kind, Registering::Refresh, "{again}");
        }
        assert_eq!(all.asked(&register("To: <sip:bob@x>", "")).kind, Registering::First);
        let gone = all.asked(&register("To: <sip:ann@x>", "expires:  0"));
        assert_eq!(gone.kind, Registering::Remove);
        all.done(gone);
        assert_eq!(all.asked(&ann).kind, Registering::First, "it has no binding any more");
        for strange in [&b""[..], b"REGISTER", b"\r\n\r\n", b"x\r\nTo:\r\n\r\n"] {
            assert_eq!(all.asked(strange).kind, Registering::First);
        }
    }
}
