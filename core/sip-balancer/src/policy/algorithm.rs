//! The algorithms by name.

/// How the node of a new call is chosen. "Paper" is Jiang, Iyengar, Nahum, Segmuller, Tantawi and
/// Wright, "Design, Implementation, and Performance of a Load Balancer for SIP Server Clusters",
/// section III.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Algorithm {
    /// The node with the fewest calls (paper III-A.1).
    Cjsq,
    /// The node with the fewest unfinished transactions (paper III-A.2).
    Tjsq,
    /// The node with the least unfinished work, transactions counted by their cost (paper III-A.3).
    #[default]
    Tlwl,
    /// TLWL whose costs are estimated from response times while it runs.
    TlwlAdaptive,
    /// A hash of the Call-ID modulo the number of nodes, with the string hash of OpenSER's dispatcher
    /// (paper III-B.1).
    Hash,
    /// The same with FNV-1a (paper III-B.1).
    FnvHash,
    /// Each in turn (paper III-B.2), by weight.
    RoundRobin,
    /// The lowest weighted moving average of the last 20 response times (paper III-B.3).
    Rwma,
    /// Of two nodes drawn by weight, the one with less unfinished work.
    TwoChoices,
    /// Maglev consistent hashing of the Call-ID: the same choice at every balancer that sees the same
    /// nodes, and few calls change place when a node goes.
    Maglev,
}

impl Algorithm {
    /// Every name with its meaning.
    pub const ALL: [(&'static str, Algorithm); 10] = [
        ("cjsq", Algorithm::Cjsq),
        ("tjsq", Algorithm::Tjsq),
        ("tlwl", Algorithm::Tlwl),
        ("tlwl-adaptive", Algorithm::TlwlAdaptive),
        ("hash", Algorithm::Hash),
        ("fnv-hash", Algorithm::FnvHash),
        ("round-robin", Algorithm::RoundRobin),
        ("rwma", Algorithm::Rwma),
        ("two-choices", Algorithm::TwoChoices),
        ("maglev", Algorithm::Maglev),
    ];

    /// The algorithm of this name, in any case.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, a)| *a)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, a)| *a == self).map_or("", |(name, _)| name)
    }
}

/// The string hash of OpenSER's dispatcher module: four octets at a time, each word mixed with itself.
pub(crate) fn openser_hash(text: &[u8]) -> u32 {
    let mix = |hash: u32, word: u32| hash.wrapping_add(word ^ (word >> 3));
    let words = text.chunks_exact(4);
    let rest = words.remainder().iter().fold(0u32, |word, &b| (word << 8).wrapping_add(b.into()));
    let whole = words.fold(0, |hash, c| mix(hash, c.iter().fold(0u32, |word, &b| word << 8 | u32::from(b))));
    let hash = mix(whole, rest);
    hash.wrapping_add(hash >> 11).wrapping_add((hash >> 13).wrapping_add(hash >> 23))
}

/// FNV-1a of 64 bits.
pub(crate) fn fnv1a(text: &[u8]) -> u64 {
    text.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// What a transaction costs a node: methods of one cost are one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// INVITE, also within a call.
    Invite = 0,
    /// BYE.
    Bye = 1,
    /// REGISTER.
    Register = 2,
    /// Every other method, CANCEL among them.
    Other = 3,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// All of them, in order.
    pub const ALL: [Kind; Kind::COUNT] = [Kind::Invite, Kind::Bye, Kind::Register, Kind::Other];

    /// Its name in figures shown.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Invite => "invite",
            Kind::Bye => "bye",
            Kind::Register => "register",
            Kind::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for (name, algorithm) in Algorithm::ALL {
            assert_eq!(Algorithm::from_name(&name.to_uppercase()), Some(algorithm));
            assert_eq!(algorithm.name(), name);
        }
        assert_eq!(Algorithm::from_name("least-conn"), None);
    }

    #[test]
    fn fnv_1a_is_the_published_one() {
        // Test vectors of the FNV reference.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn every_octet_counts_in_the_string_hash() {
        let base = openser_hash(b"abcdefg@192.0.2.1");
        for at in 0..17 {
            let mut other = *b"abcdefg@192.0.2.1";
            other[at] ^= 1;
            assert_ne!(openser_hash(&other), base, "{at}");
        }
    }
}
