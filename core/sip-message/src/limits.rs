//! Caps on what one message may hold.

/// Caps on every size and count of a message. What exceeds one is refused with the status that
/// RFC 3261 section 21 has for it, never truncated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a whole message; more is 513 (Message Too Large). At most 65,535.
    pub message: usize,
    /// Bytes of start line and headers; more is 513.
    pub head: usize,
    /// Bytes of a body on a stream; more is 413 (Request Entity Too Large).
    pub body: usize,
    /// Header fields; more is 513.
    pub headers: usize,
    /// Via header fields of a request; more is 513. A response may have one more, which its next hop
    /// added. RFC 3261 has no limit, but Max-Forwards bounds an honest path.
    pub vias: usize,
    /// Bytes of a header name; more is 400.
    pub name: usize,
    /// Bytes of one header field; more is 513.
    pub header: usize,
    /// Bytes of a method; more is 400.
    pub method: usize,
    /// Bytes of a Request-URI; more is 414 (Request-URI Too Long).
    pub uri: usize,
    /// Bytes of a Call-ID, tag or branch; more is 400.
    pub token: usize,
}

impl Limits {
    /// What is allowed unless something else is asked for.
    pub const DEFAULT: Limits = Limits {
        message: 65_535,
        head: 32_768,
        body: 65_535,
        headers: 256,
        vias: 70,
        name: 128,
        header: 8_192,
        method: 64,
        uri: 2_048,
        token: 1_024,
    };

    /// For messages that were read before, within narrower caps, and have grown by what this server adds:
    /// nothing in them is refused, or left out, the second time.
    pub const READ_BEFORE: Limits = Limits {
        message: 1 << 24,
        head: 1 << 24,
        body: 1 << 24,
        headers: 60_000,
        vias: 60_000,
        name: 60_000,
        header: 1 << 24,
        method: 1 << 24,
        uri: 1 << 24,
        token: 1 << 24,
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}
