//! What the peer of a connection has proven by its certificate.

/// The names in the certificate of a peer (RFC 5922 section 7.1), and the authorities that vouch for them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// Domains in lower case, and addresses.
    names: Vec<Box<str>>,
    /// The configured sets of roots under which the certificate is valid.
    authorities: Vec<Box<str>>,
}

impl Identity {
    /// These names, and the sets of roots that vouch for them. The empty name means the roots of the whole
    /// server.
    pub fn new(names: Vec<Box<str>>, authorities: Vec<Box<str>>) -> Identity {
        Identity { names, authorities }
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// Whether the peer has proven this name to this authority. A wildcard in a certificate proves no name
    /// (RFC 5922 section 7.2).
    pub fn proves(&self, name: &[u8], authority: &[u8]) -> bool {
        self.authorities.iter().any(|known| known.as_bytes() == authority)
            && self.names().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_counts_for_the_authority_that_vouches_for_it() {
        let all = |list: &[&str]| list.iter().map(|text| (*text).into()).collect();
        let identity = Identity::new(all(&["sip.example.org", "*.example.net"]), all(&["", "carrier.pem"]));
        assert!(
            identity.proves(b"SIP.example.org", b"") && identity.proves(b"sip.example.org", b"carrier.pem")
        );
        assert!(!identity.proves(b"sip.example.org", b"other.pem"), "another authority");
        assert!(!identity.proves(b"example.org", b"") && !identity.proves(b"a.example.net", b""));
        assert!(!Identity::new(all(&["a"]), Vec::new()).proves(b"a", b""), "nobody vouches for it");
    }
}
