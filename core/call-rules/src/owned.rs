//! Header fields that are not the operator's to change.

use sip_message::Name;

/// What servers and the ends of a call rest on: changed in a request, it would not be understood, would not
/// find its way, or would belong to no transaction or dialog.
const OWNED: [Name; 41] = [
    Name::Via,
    Name::From,
    Name::To,
    Name::CallId,
    Name::CSeq,
    Name::MaxForwards,
    Name::Contact,
    Name::Route,
    Name::RecordRoute,
    Name::ContentLength,
    Name::ContentType,
    Name::ContentEncoding,
    Name::ContentDisposition,
    Name::MimeVersion,
    Name::Path,
    Name::ServiceRoute,
    Name::Expires,
    Name::MinExpires,
    Name::Authorization,
    Name::ProxyAuthorization,
    Name::WwwAuthenticate,
    Name::ProxyAuthenticate,
    Name::AuthenticationInfo,
    Name::Require,
    Name::ProxyRequire,
    Name::Unsupported,
    Name::MaxBreadth,
    Name::Event,
    Name::SubscriptionState,
    Name::Timestamp,
    Name::ReferTo,
    Name::Replaces,
    Name::Join,
    Name::SessionExpires,
    Name::MinSe,
    Name::RAck,
    Name::RSeq,
    Name::SipEtag,
    Name::SipIfMatch,
    Name::FlowTimer,
    Name::RetryAfter,
];

/// The same, of names without a number of their own (RFC 3261 section 20, RFC 3329, RFC 4538, RFC 6809).
const OTHERS: [&[u8]; 7] = [
    b"Proxy-Authentication-Info",
    b"Target-Dialog",
    b"Security-Client",
    b"Security-Server",
    b"Security-Verify",
    b"Feature-Caps",
    b"Encryption",
];

/// Whether a header field may be neither removed nor written. `raw`: its name as written.
pub(crate) fn is_owned(name: Name, raw: &[u8]) -> bool {
    match name {
        Name::Other => OTHERS.iter().any(|other| other.eq_ignore_ascii_case(raw)),
        known => OWNED.contains(&known),
    }
}

/// Whether a header field may not be written, because it says what an end of the call can do.
pub(crate) const fn is_of_the_ends(name: Name) -> bool {
    matches!(name, Name::Supported | Name::Allow | Name::AllowEvents | Name::Accept)
}

/// Whether a header field says who calls, on the word of this server (RFC 3325 section 9).
pub(crate) const fn says_who_calls(name: Name) -> bool {
    matches!(name, Name::PAssertedIdentity | Name::PPreferredIdentity | Name::RemotePartyId)
}
