//! Loop detection (RFC 5393 section 4.2, which replaces RFC 3261 16.3 item 4 and 16.6 item 8).
//!
//! The branch that this server writes into its Via has two parts: the client transaction, and a hash
//! over everything that decides where the request goes. When a request comes by again and one of our
//! own Via values carries the hash that the request has now, nothing has changed since and nothing
//! ever will: a loop. If the Request-URI or the Route changed in between, the hashes differ: a spiral,
//! which is legal.
//!
//! Layout: `z9hG4bK` `s` client `.` hash, where client is any token without a dot (16 characters or
//! so) and hash 16 hexadecimal digits. The hash is keyed, so that nobody outside can write a Via value
//! that makes this server refuse someone else's request.

use seal::Gathered;
use sip_message::{Message, Name, Via, hex16, unhex16};
use siphasher::sip::SipHasher13;

/// The magic cookie (RFC 3261 section 8.1.1.7) and our mark.
const PREFIX: &[u8] = b"z9hG4bKs";
/// Digits of the hash in a branch.
const HASH_DIGITS: usize = 16;

/// Hashes requests with a secret key. All workers of a server share the key; servers do not, or a
/// request that passes two of them unchanged would look like a loop.
#[derive(Clone)]
pub struct LoopGuard {
    key: [u8; 16],
    /// The upper bits of all its hashes.
    mark: u64,
}

/// Bits of a hash that are the same in all of one server, so that it knows the branches it wrote from those
/// of another server that goes by the same name.
const MARK: u64 = !0 << 40;

/// A branch parameter that this server wrote, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnBranch<'a> {
    /// The text of the client transaction.
    pub client: &'a [u8],
    /// The loop hash.
    pub hash: u64,
}

impl LoopGuard {
    /// A guard with a secret key.
    pub fn new(key: [u8; 16]) -> LoopGuard {
        LoopGuard { key, mark: SipHasher13::new_with_key(&key).hash(b"mark") & MARK }
    }

    /// Whether a server with this key wrote a branch. Anybody may write the same, who has seen one.
    pub const fn wrote(&self, branch: &OwnBranch<'_>) -> bool {
        branch.hash & MARK == self.mark
    }

    /// The loop hash of a request as it was received, before any rewriting.
    ///
    /// Over the Request-URI and every Route value, which say the way of a request here (RFC 5393 section
    /// 4.2.1), and over tags, Call-ID and CSeq number, so that a chance collision does not stay (section
    /// 4.2.4). Not over the method: CANCEL and ACK repeat the branch of their INVITE. Not over Via or
    /// Max-Forwards, which change on every round. RFC 3261 section 16.6 also named Proxy-Require and
    /// Proxy-Authorization. No request with a Proxy-Require is forwarded here, and credentials say only
    /// whether one is: ours are taken off, and were they part of it, a request would go round twice.
    pub fn hash(&self, request: &Message<'_>) -> u64 {
        let mut hash = Fields::new(SipHasher13::new_with_key(&self.key));
        let fields = [request.request_uri(), request.call_id(), request.from_tag(), request.to_tag()];
        // Lengths, so that no two lists of fields look alike; none of these four reaches 16 bits.
        let lengths = fields.iter().fold(0, |all, field| all << 16 | field.len() as u64 & 0xffff);
        hash.add(&lengths.to_le_bytes());
        for field in fields {
            hash.add(field);
        }
        hash.add(&request.cseq().to_le_bytes());
        for header in request.headers(Name::Route) {
            hash.add(&(header.value.len() as u32).to_le_bytes());
            hash.add(header.value);
        }
        hash.finish() & !MARK | self.mark
    }

    /// Whether a request with this `hash` was here before: some Via value whose sent-by is ours
    /// (`is_ours` decides) carries it. The answer to a loop is 482.
    ///
    /// Every Via is looked at, since a request may have left in other ways in between. Those of
    /// others, however odd, are passed over.
    pub fn is_loop(&self, request: &Message<'_>, hash: u64, is_ours: impl Fn(&Via<'_>) -> bool) -> bool {
        request.values(Name::Via).any(|value| {
            // Most values are not ours; those cost no parsing.
            contains_prefix(value)
                && Via::parse(value).is_ok_and(|via| {
                    read_branch(via.branch).is_some_and(|branch| branch.hash == hash) && is_ours(&via)
                })
        })
    }
}

/// Appends a branch parameter value.
pub fn write_branch(client: &[u8], hash: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(PREFIX);
    out.extend_from_slice(client);
    out.push(b'.');
    out.extend_from_slice(&hex16(hash));
}

/// Takes apart a branch parameter value. `None`: it does not have our form. Whether we wrote it is for
/// the transaction layer, or the hash, to say. Capitals and small letters are the same: a branch is a
/// token, and some elements change its case.
pub fn read_branch(branch: &[u8]) -> Option<OwnBranch<'_>> {
    let (prefix, rest) = branch.split_at_checked(PREFIX.len())?;
    let (client, digits) = rest.split_at_checked(rest.len().checked_sub(HASH_DIGITS)?)?;
    let client = client.strip_suffix(b".")?;
    let ours = prefix == PREFIX || prefix.eq_ignore_ascii_case(PREFIX);
    // Clients are short, and many bytes at a time are cheaper than a search made for long texts.
    let dotted = client.iter().fold(false, |found, &b| found | (b == b'.'));
    if !ours || client.is_empty() || dotted {
        return None;
    }
    Some(OwnBranch { client, hash: unhex16(digits)? })
}

type Fields = Gathered<320, SipHasher13>;

fn contains_prefix(value: &[u8]) -> bool {
    value.windows(PREFIX.len()).any(|window| window.eq_ignore_ascii_case(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sip_message::{Index, Limits, Parsed, parse};
    use std::sync::LazyLock;

    static GUARD: LazyLock<LoopGuard> = LazyLock::new(|| LoopGuard::new([7; 16]));
    const CLIENT: &[u8] = b"0123456789abcdef";

    fn with<T>(text: &str, see: impl FnOnce(&Message<'_>) -> T) -> T {
        let bytes = text.replace('\n', "\r\n").into_bytes();
        let mut index = Index::new();
        match parse(&bytes, &mut index, &Limits::default()) {
            Parsed::Good(message) => see(&message),
            Parsed::Bad(_, flaw) => panic!("{flaw:?}"),
            Parsed::Garbage(why) => panic!("{why}"),
        }
    }

    /// A request with these Via values (top first), Request-URI, and further header lines.
    fn request(vias: &[&str], uri: &str, more: &str) -> String {
        let vias: String = vias.iter().map(|via| format!("Via: {via}\n")).collect();
        format!(
            "INVITE {uri} SIP/2.0\n{vias}From: <sip:a@x.example>;tag=1\nTo: <sip:b@x.example>\n\
             Call-ID: c1\nCSeq: 5 INVITE\nMax-Forwards: 60\n{more}Content-Length: 0\n\n"
        )
    }

    const CALLER: &str = "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKcaller";
    const URI: &str = "sip:b@x.example";

    fn hash_of(text: &str) -> u64 {
        with(text, |m| GUARD.hash(m))
    }

    /// The Via that we put on a request with this hash.
    fn our_via(hash: u64) -> String {
        let mut branch = Vec::new();
        write_branch(CLIENT, hash, &mut branch);
        format!("SIP/2.0/UDP proxy.example:5060;rport;branch={}", String::from_utf8(branch).unwrap())
    }

    fn loops(text: &str) -> bool {
        with(text, |m| GUARD.is_loop(m, GUARD.hash(m), |via| via.host == b"proxy.example"))
    }

    #[test]
    fn a_request_that_comes_back_unchanged_is_a_loop() {
        let first = request(&[CALLER], URI, "");
        assert!(!loops(&first));
        let ours = our_via(hash_of(&first));
        assert!(loops(&request(&[&ours, CALLER], URI, "")));
        // Over other elements, among them one with an odd Via, and in one header line.
        let odd = "SIP/2.0/TLS other.example;x;y=\"a,b\";branch=z9hG4bK;z=1";
        assert!(loops(&request(&[odd, &ours, CALLER], URI, "")));
        assert!(loops(&request(&[&format!("{odd}, {ours}"), CALLER], URI, "")));
        assert!(loops(&request(&[&ours.to_ascii_lowercase(), CALLER], URI, "")));
    }

    #[test]
    fn a_spiral_is_not_a_loop() {
        let ours = our_via(hash_of(&request(&[CALLER], URI, "")));
        assert!(!loops(&request(&[&ours, CALLER], "sip:c@x.example", "")));
        assert!(!loops(&request(&[&ours, CALLER], URI, "Route: <sip:p.example;lr>\n")));
    }

    /// The proxy takes its own credentials off, and those of others change nothing here.
    #[test]
    fn a_request_that_comes_back_without_its_credentials_is_a_loop() {
        let credentials = "Proxy-Authorization: Digest realm=\"x\"\n";
        let ours = our_via(hash_of(&request(&[CALLER], URI, credentials)));
        assert!(loops(&request(&[&ours, CALLER], URI, "")));
        assert!(loops(&request(&[&ours, CALLER], URI, credentials)));
    }

    #[test]
    fn a_via_of_someone_else_proves_nothing() {
        let hash = hash_of(&request(&[CALLER], URI, ""));
        let theirs = our_via(hash).replace("proxy.example", "rival.example");
        assert!(!loops(&request(&[&theirs, CALLER], URI, "")));
        let other_key = with(&request(&[CALLER], URI, ""), |m| LoopGuard::new([8; 16]).hash(m));
        assert_ne!(hash, other_key);
        let wrote = |guard: &LoopGuard| guard.wrote(&OwnBranch { client: CLIENT, hash });
        assert!(wrote(&GUARD) && !wrote(&LoopGuard::new([8; 16])));
    }

    #[test]
    fn the_hash_knows_neither_method_nor_hops_nor_the_bounds_of_fields() {
        let invite = request(&[CALLER], URI, "Route: <sip:p.example;lr>\n");
        let cancel = invite.replace("INVITE", "CANCEL");
        assert_eq!(hash_of(&invite), hash_of(&cancel));
        let later = request(
            &["SIP/2.0/UDP other.example;branch=z9hG4bKz", CALLER],
            URI,
            "Route: <sip:p.example;lr>\n",
        );
        assert_eq!(hash_of(&invite), hash_of(&later.replace("Forwards: 60", "Forwards: 12")));
        let split = request(&[CALLER], URI, "Route: <sip:p.example;lr>\nRoute: <sip:q.example;lr>\n");
        let joined = request(&[CALLER], URI, "Route: <sip:p.example;lr><sip:q.example;lr>\n");
        assert_ne!(hash_of(&split), hash_of(&joined));
    }

    #[test]
    fn branches_of_other_forms_are_not_ours() {
        let mut ours = Vec::new();
        write_branch(CLIENT, 0xfedc_ba98_7654_3210, &mut ours);
        assert_eq!(ours, b"z9hG4bKs0123456789abcdef.fedcba9876543210");
        let mut damaged: Vec<Vec<u8>> = (0..ours.len()).map(|len| ours[..len].to_vec()).collect();
        damaged.push(b"z9hG4bKs.fedcba9876543210".to_vec());
        for wrong in [b'g', b'G', b'/', b':', b'@', b'`', b' ', 0, 255] {
            let mut branch = ours.clone();
            branch[30] = wrong;
            damaged.push(branch);
        }
        damaged.push(b"z9hG4bKsa.b.fedcba9876543210".to_vec());
        damaged.push(b"z9hG4bKsab.fedcba987654321g".to_vec());
        damaged.push(b"z9hG4bKxab.fedcba9876543210".to_vec());
        damaged.push(b"+z9hG4bKsab.+edcba987654321".to_vec());
        for branch in damaged {
            assert_eq!(read_branch(&branch), None, "{}", String::from_utf8_lossy(&branch));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(client in "[a-z0-9]{1,20}", hash: u64, upper: bool) {
            let mut branch = Vec::new();
            write_branch(client.as_bytes(), hash, &mut branch);
            let read = read_branch(&branch).expect("our form");
            prop_assert_eq!((read.client, read.hash), (client.as_bytes(), hash));
            if upper {
                branch.make_ascii_uppercase();
                prop_assert_eq!(read_branch(&branch).map(|b| b.hash), Some(hash));
            }
        }

        #[test]
        fn no_bytes_harm_the_reader(branch in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(own) = read_branch(&branch) {
                prop_assert!(!own.client.is_empty());
            }
        }
    }
}
