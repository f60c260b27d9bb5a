//! Request methods.

/// A request method. Methods are case-sensitive (RFC 3261 section 7.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the names are the methods'
pub enum Method<'a> {
    Invite,
    Ack,
    Bye,
    Cancel,
    Register,
    Options,
    Prack,
    Subscribe,
    Notify,
    Publish,
    Info,
    Refer,
    Message,
    Update,
    /// A method this server has no special knowledge of.
    Other(&'a [u8]),
}

impl<'a> Method<'a> {
    /// Reads a method; anything unknown is [`Method::Other`]. The caller checks that it is a token.
    pub fn from_bytes(s: &'a [u8]) -> Method<'a> {
        Method::known(s).unwrap_or(Method::Other(s))
    }

    /// Reads a method that has a name here.
    pub(crate) fn known(s: &[u8]) -> Option<Method<'static>> {
        Some(match s {
            b"INVITE" => Method::Invite,
            b"ACK" => Method::Ack,
            b"BYE" => Method::Bye,
            b"CANCEL" => Method::Cancel,
            b"REGISTER" => Method::Register,
            b"OPTIONS" => Method::Options,
            b"PRACK" => Method::Prack,
            b"SUBSCRIBE" => Method::Subscribe,
            b"NOTIFY" => Method::Notify,
            b"PUBLISH" => Method::Publish,
            b"INFO" => Method::Info,
            b"REFER" => Method::Refer,
            b"MESSAGE" => Method::Message,
            b"UPDATE" => Method::Update,
            _ => return None,
        })
    }

    /// The number of a method that has a name here, from 0 on in the order of their names above: for tables
    /// of counts, and for keys that hold a method in a byte.
    #[inline]
    pub const fn number(self) -> Option<u8> {
        Some(match self {
            Method::Invite => 0,
            Method::Ack => 1,
            Method::Bye => 2,
            Method::Cancel => 3,
            Method::Register => 4,
            Method::Options => 5,
            Method::Prack => 6,
            Method::Subscribe => 7,
            Method::Notify => 8,
            Method::Publish => 9,
            Method::Info => 10,
            Method::Refer => 11,
            Method::Message => 12,
            Method::Update => 13,
            Method::Other(_) => return None,
        })
    }

    /// The method as it stands in a start line.
    pub const fn as_bytes(self) -> &'a [u8] {
        match self {
            Method::Invite => b"INVITE",
            Method::Ack => b"ACK",
            Method::Bye => b"BYE",
            Method::Cancel => b"CANCEL",
            Method::Register => b"REGISTER",
            Method::Options => b"OPTIONS",
            Method::Prack => b"PRACK",
            Method::Subscribe => b"SUBSCRIBE",
            Method::Notify => b"NOTIFY",
            Method::Publish => b"PUBLISH",
            Method::Info => b"INFO",
            Method::Refer => b"REFER",
            Method::Message => b"MESSAGE",
            Method::Update => b"UPDATE",
            Method::Other(s) => s,
        }
    }

    /// Whether a request of this method can create a dialog (RFC 3261 12.1, RFC 6665, RFC 3515).
    pub const fn creates_dialog(self) -> bool {
        matches!(self, Method::Invite | Method::Subscribe | Method::Refer)
    }
}
