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
    /// A hash of the Call-ID modulo the number of nodes, with the string hash of OpenSER's dispatcher
    /// (paper III-B.1).
    Hash,
    /// The same with FNV-1a (paper III-B.1).
    FnvHash,
    /// Each in turn (paper III-B.2), by weight.
    RoundRobin,
    /// The lowest weighted moving average of the last 20 response times (paper III-B.3).
    Rwma,
    /// Maglev consistent hashing of the Call-ID: the same choice at every balancer that sees the same
    /// nodes, and few calls change place when a node goes.
    Maglev,
}

impl Algorithm {
    /// Every name with its meaning.
    pub const ALL: [(&'static str, Algorithm); 8] = [
        ("cjsq", Algorithm::Cjsq),
        ("tjsq", Algorithm::Tjsq),
        ("tlwl", Algorithm::Tlwl),
        ("hash", Algorithm::Hash),
        ("fnv-hash", Algorithm::FnvHash),
        ("round-robin", Algorithm::RoundRobin),
        ("rwma", Algorithm::Rwma),
        ("maglev", Algorithm::Maglev),
    ];

    /// The algorithm of this name, in any case.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, a)| *a)
    }

    /// All names, for display.
    pub fn names() -> String {
        Self::ALL.map(|(name, _)| name).join(", ")
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, algorithm)| *algorithm == self);
        invariant::some!(named, "an algorithm has a name").map_or("", |(name, _)| name)
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
}
