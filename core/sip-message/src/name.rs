//! Header field names: every registered name the server may meet, long and compact.

use crate::words::{begins, word};

/// A header field name (RFC 3261 section 20 and its extensions). Names are read in any case and in
/// their compact form (section 7.3.3); [`Name::Other`] is any other token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // the names are the header fields'
pub enum Name {
    Via,
    From,
    To,
    CallId,
    CSeq,
    MaxForwards,
    Contact,
    Route,
    RecordRoute,
    ContentLength,
    ContentType,
    Path,
    ServiceRoute,
    Expires,
    MinExpires,
    Authorization,
    ProxyAuthorization,
    WwwAuthenticate,
    ProxyAuthenticate,
    AuthenticationInfo,
    Require,
    ProxyRequire,
    Supported,
    Unsupported,
    Allow,
    AllowEvents,
    RetryAfter,
    MaxBreadth,
    PAssertedIdentity,
    PPreferredIdentity,
    RemotePartyId,
    Privacy,
    Diversion,
    HistoryInfo,
    UserAgent,
    Server,
    Event,
    SubscriptionState,
    Reason,
    Date,
    Timestamp,
    Subject,
    ReferTo,
    ReferredBy,
    Replaces,
    SessionExpires,
    MinSe,
    ContentEncoding,
    ContentDisposition,
    Accept,
    AcceptContact,
    RejectContact,
    RequestDisposition,
    Warning,
    RAck,
    RSeq,
    SipEtag,
    SipIfMatch,
    Identity,
    Geolocation,
    Organization,
    Priority,
    InReplyTo,
    ReplyTo,
    MimeVersion,
    ErrorInfo,
    AlertInfo,
    CallInfo,
    FlowTimer,
    Join,
    /// A name not listed here.
    Other,
}

/// How many names there are, [`Name::Other`] included.
pub(crate) const COUNT: usize = Name::Other as usize + 1;

/// Name, canonical long form, compact form (empty: none).
const NAMES: [(Name, &str, &str); COUNT - 1] = [
    (Name::Via, "Via", "v"),
    (Name::From, "From", "f"),
    (Name::To, "To", "t"),
    (Name::CallId, "Call-ID", "i"),
    (Name::CSeq, "CSeq", ""),
    (Name::MaxForwards, "Max-Forwards", ""),
    (Name::Contact, "Contact", "m"),
    (Name::Route, "Route", ""),
    (Name::RecordRoute, "Record-Route", ""),
    (Name::ContentLength, "Content-Length", "l"),
    (Name::ContentType, "Content-Type", "c"),
    (Name::Path, "Path", ""),
    (Name::ServiceRoute, "Service-Route", ""),
    (Name::Expires, "Expires", ""),
    (Name::MinExpires, "Min-Expires", ""),
    (Name::Authorization, "Authorization", ""),
    (Name::ProxyAuthorization, "Proxy-Authorization", ""),
    (Name::WwwAuthenticate, "WWW-Authenticate", ""),
    (Name::ProxyAuthenticate, "Proxy-Authenticate", ""),
    (Name::AuthenticationInfo, "Authentication-Info", ""),
    (Name::Require, "Require", ""),
    (Name::ProxyRequire, "Proxy-Require", ""),
    (Name::Supported, "Supported", "k"),
    (Name::Unsupported, "Unsupported", ""),
    (Name::Allow, "Allow", ""),
    (Name::AllowEvents, "Allow-Events", "u"),
    (Name::RetryAfter, "Retry-After", ""),
    (Name::MaxBreadth, "Max-Breadth", ""),
    (Name::PAssertedIdentity, "P-Asserted-Identity", ""),
    (Name::PPreferredIdentity, "P-Preferred-Identity", ""),
    (Name::RemotePartyId, "Remote-Party-ID", ""),
    (Name::Privacy, "Privacy", ""),
    (Name::Diversion, "Diversion", ""),
    (Name::HistoryInfo, "History-Info", ""),
    (Name::UserAgent, "User-Agent", ""),
    (Name::Server, "Server", ""),
    (Name::Event, "Event", "o"),
    (Name::SubscriptionState, "Subscription-State", ""),
    (Name::Reason, "Reason", ""),
    (Name::Date, "Date", ""),
    (Name::Timestamp, "Timestamp", ""),
    (Name::Subject, "Subject", "s"),
    (Name::ReferTo, "Refer-To", "r"),
    (Name::ReferredBy, "Referred-By", "b"),
    (Name::Replaces, "Replaces", ""),
    (Name::SessionExpires, "Session-Expires", "x"),
    (Name::MinSe, "Min-SE", ""),
    (Name::ContentEncoding, "Content-Encoding", "e"),
    (Name::ContentDisposition, "Content-Disposition", ""),
    (Name::Accept, "Accept", ""),
    (Name::AcceptContact, "Accept-Contact", "a"),
    (Name::RejectContact, "Reject-Contact", "j"),
    (Name::RequestDisposition, "Request-Disposition", "d"),
    (Name::Warning, "Warning", ""),
    (Name::RAck, "RAck", ""),
    (Name::RSeq, "RSeq", ""),
    (Name::SipEtag, "SIP-ETag", ""),
    (Name::SipIfMatch, "SIP-If-Match", ""),
    (Name::Identity, "Identity", "y"),
    (Name::Geolocation, "Geolocation", ""),
    (Name::Organization, "Organization", ""),
    (Name::Priority, "Priority", ""),
    (Name::InReplyTo, "In-Reply-To", ""),
    (Name::ReplyTo, "Reply-To", ""),
    (Name::MimeVersion, "MIME-Version", ""),
    (Name::ErrorInfo, "Error-Info", ""),
    (Name::AlertInfo, "Alert-Info", ""),
    (Name::CallInfo, "Call-Info", ""),
    (Name::FlowTimer, "Flow-Timer", ""),
    (Name::Join, "Join", ""),
];

/// Slots of the hash table: a power of two, several times the number of names.
const SLOTS: usize = 512;
const EMPTY: u8 = u8::MAX;

/// One step of the hash that the parser computes while it scans a name. Case is folded by setting
/// bit 5, which confuses no two letters; what it does confuse is settled by the comparison.
#[inline]
pub(crate) const fn hash_step(hash: u32, byte: u8) -> u32 {
    (hash.wrapping_mul(31)).wrapping_add((byte | 0x20) as u32)
}

const fn hash(name: &[u8]) -> u32 {
    let mut h = 0;
    let mut i = 0;
    while i < name.len() {
        h = hash_step(h, name[i]);
        i += 1;
    }
    h
}

#[inline]
const fn slot(hash: u32) -> usize {
    ((hash ^ (hash >> 9)) as usize) & (SLOTS - 1)
}

/// Open addressing: each used slot holds a row of `NAMES`.
static TABLE: [u8; SLOTS] = {
    let mut table = [EMPTY; SLOTS];
    let mut row = 0;
    while row < NAMES.len() {
        let mut at = slot(hash(NAMES[row].1.as_bytes()));
        while table[at] != EMPTY {
            at = (at + 1) & (SLOTS - 1);
        }
        table[at] = row as u8;
        row += 1;
    }
    table
};

/// Compact forms by letter.
static COMPACT: [Name; 26] = {
    let mut table = [Name::Other; 26];
    let mut row = 0;
    while row < NAMES.len() {
        let compact = NAMES[row].2.as_bytes();
        if compact.len() == 1 {
            table[(compact[0] - b'a') as usize] = NAMES[row].0;
        }
        row += 1;
    }
    table
};

/// The length of the longest name that [`usual`] knows.
pub(crate) const LONGEST_USUAL: usize = 19;

/// The header names that make up nearly all of the traffic, in their usual spelling, with their colon:
/// a few comparisons of words instead of a walk over the letters. `start` is the start of `line`.
/// Answers the kind and the length of the name.
#[inline(always)]
pub(crate) fn usual(start: &[u8; 16], line: &[u8]) -> Option<(Name, usize)> {
    let (head, more) = start.split_at(8);
    let (head, more) = (word(head), word(more));
    match head as u8 {
        b'V' if begins!(head, b"Via:") => Some((Name::Via, 3)),
        b'F' if begins!(head, b"From:") => Some((Name::From, 4)),
        b'T' if begins!(head, b"To:") => Some((Name::To, 2)),
        b'C' if begins!(head, b"CSeq:") => Some((Name::CSeq, 4)),
        b'C' if begins!(head, b"Call-ID:") => Some((Name::CallId, 7)),
        b'C' if begins!(head, b"Contact:") => Some((Name::Contact, 7)),
        b'C' if begins!(head, b"Content-") => match more {
            rest if begins!(rest, b"Length:") => Some((Name::ContentLength, 14)),
            rest if begins!(rest, b"Type:") => Some((Name::ContentType, 12)),
            _ => None,
        },
        b'M' if begins!(head, b"Max-Forw") && begins!(more, b"ards:") => Some((Name::MaxForwards, 12)),
        b'R' if begins!(head, b"Route:") => Some((Name::Route, 5)),
        b'R' if begins!(head, b"Record-R") && begins!(more, b"oute:") => Some((Name::RecordRoute, 12)),
        b'U' if begins!(head, b"User-Age") && begins!(more, b"nt:") => Some((Name::UserAgent, 10)),
        b'E' if begins!(head, b"Expires:") => Some((Name::Expires, 7)),
        b'A' if begins!(head, b"Authoriz") && begins!(more, b"ation:") => Some((Name::Authorization, 13)),
        b'P' if begins!(head, b"Proxy-Au")
            && begins!(more, b"thorizat")
            && line[16..].starts_with(b"ion:") =>
        {
            Some((Name::ProxyAuthorization, 19))
        }
        _ => None,
    }
}

impl Name {
    /// Reads a name in any case or form.
    pub fn from_bytes(name: &[u8]) -> Name {
        Name::from_hashed(name, hash(name))
    }

    /// Same, with the hash already computed by [`hash_step`] over all bytes.
    #[inline]
    pub(crate) fn from_hashed(name: &[u8], hash: u32) -> Name {
        if let [letter] = name {
            let letter = letter.to_ascii_lowercase();
            return if letter.is_ascii_lowercase() { COMPACT[(letter - b'a') as usize] } else { Name::Other };
        }
        let mut at = slot(hash);
        loop {
            match TABLE[at] {
                EMPTY => return Name::Other,
                row => {
                    let (known, long, _) = NAMES[row as usize];
                    if long.as_bytes().eq_ignore_ascii_case(name) {
                        return known;
                    }
                }
            }
            at = (at + 1) & (SLOTS - 1);
        }
    }

    /// The canonical long form; empty for [`Name::Other`].
    pub const fn as_str(self) -> &'static str {
        if (self as usize) < NAMES.len() { NAMES[self as usize].1 } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3261 section 20 (table 2 and the sections that follow it), without looking at our own table.
    #[test]
    fn compact_forms_are_those_of_the_rfc() {
        for (compact, name) in [
            ("i", Name::CallId),
            ("m", Name::Contact),
            ("e", Name::ContentEncoding),
            ("l", Name::ContentLength),
            ("c", Name::ContentType),
            ("f", Name::From),
            ("s", Name::Subject),
            ("k", Name::Supported),
            ("t", Name::To),
            ("v", Name::Via),
        ] {
            assert_eq!(Name::from_bytes(compact.as_bytes()), name, "{compact}");
        }
    }

    #[test]
    fn every_name_is_found_in_every_spelling() {
        for (row, (name, long, compact)) in NAMES.iter().enumerate() {
            assert_eq!(*name as usize, row, "rows stand in the order of the enum");
            assert_eq!(Name::from_bytes(long.as_bytes()), *name);
            assert_eq!(Name::from_bytes(long.to_ascii_uppercase().as_bytes()), *name);
            assert_eq!(Name::from_bytes(long.to_ascii_lowercase().as_bytes()), *name);
            if !compact.is_empty() {
                assert_eq!(Name::from_bytes(compact.as_bytes()), *name);
                assert_eq!(Name::from_bytes(compact.to_ascii_uppercase().as_bytes()), *name);
            }
            assert_eq!(name.as_str(), *long);
        }
    }

    #[test]
    fn other_names_are_other() {
        for name in ["", "X-Custom", "Vi", "Viaa", "z", "1", "Call_ID"] {
            assert_eq!(Name::from_bytes(name.as_bytes()), Name::Other, "{name}");
        }
    }
}
