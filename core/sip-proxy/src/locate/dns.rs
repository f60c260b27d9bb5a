//! Questions to the DNS and their answers, as plain values.

use core::net::{Ipv4Addr, Ipv6Addr};

/// What kind of record is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Naming authority pointers (RFC 3403).
    Naptr,
    /// Server locations (RFC 2782).
    Srv,
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

/// A NAPTR record. Those with a regular expression are of no use to SIP and may be left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Naptr {
    /// Lower first, and a client does not go on to a higher one.
    pub order: u16,
    /// Lower first, among equal orders.
    pub preference: u16,
    /// `s` for SIP, in any case.
    pub flags: Box<[u8]>,
    /// For example `SIP+D2U`, in any case.
    pub service: Box<[u8]>,
    /// The name to go on with.
    pub replacement: Box<[u8]>,
}

/// An SRV record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Srv {
    /// Lower first.
    pub priority: u16,
    /// Share of the load among equal priorities.
    pub weight: u16,
    /// Port of the service.
    pub port: u16,
    /// Host; `.` (or empty) says that the service is not there.
    pub target: Box<[u8]>,
}

/// What came back for a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// NAPTR records.
    Naptr(Box<[Naptr]>),
    /// SRV records.
    Srv(Box<[Srv]>),
    /// IPv4 addresses.
    A(Box<[Ipv4Addr]>),
    /// IPv6 addresses.
    Aaaa(Box<[Ipv6Addr]>),
    /// The name, or the kind of record, does not exist.
    Nothing,
    /// No answer to be had: time-out, server failure, too many questions.
    Failed,
}

/// Longest name in text form (RFC 1035: 255 octets on the wire).
const MAX_NAME: usize = 253;
/// Longest label.
const MAX_LABEL: usize = 63;

/// Whether this may be asked at all: labels of letters, digits, hyphens and underscores (seen in the
/// field) within the lengths of RFC 1035. The last label has a letter, or it would be a bad address.
pub(super) fn is_host_name(name: &[u8]) -> bool {
    let label_is_good = |label: &[u8]| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
    };
    let last = name.rsplit(|c| *c == b'.').next().unwrap_or_default();
    name.len() <= MAX_NAME
        && name.split(|c| *c == b'.').all(label_is_good)
        && last.iter().any(u8::is_ascii_alphabetic)
}

/// A name as it is compared and asked: lower case, no dot at the end.
pub(super) fn canonical(name: &[u8]) -> Box<[u8]> {
    name.strip_suffix(b".").unwrap_or(name).to_ascii_lowercase().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be_asked() {
        for good in [&b"example.com"[..], b"sip", b"_sip._udp.example.com", b"x--y.Example", b"1.2.3.4x"] {
            assert!(is_host_name(good), "{}", String::from_utf8_lossy(good));
        }
        let long_label = [b'a'; 64];
        let long_name = [b"a.".repeat(126), b"com".to_vec()].concat();
        let bad: [&[u8]; 11] = [
            b"",
            b".",
            b"a..b",
            b"a.",
            b"1.2.3.256",
            b"a b",
            b"a\r\n",
            b"[::1",
            b"caf\xc3\xa9",
            &long_label,
            &long_name,
        ];
        for bad in bad {
            assert!(!is_host_name(bad), "{}", String::from_utf8_lossy(bad));
        }
    }
}
