//! Status codes of Close frames.

/// A status code that a Close frame may carry (RFC 6455 section 7.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: CloseCode = CloseCode(1000);
    /// The endpoint is ending, such as a server that stops.
    pub const GOING_AWAY: CloseCode = CloseCode(1001);
    /// The peer broke the rules of the protocol.
    pub const PROTOCOL_ERROR: CloseCode = CloseCode(1002);
    /// The peer sent a type of data that is not accepted.
    pub const UNSUPPORTED_DATA: CloseCode = CloseCode(1003);
    /// The peer sent data that is not of the type of its message, such as text that is not UTF-8.
    pub const INVALID_DATA: CloseCode = CloseCode(1007);
    /// The peer broke a rule of this endpoint.
    pub const POLICY_VIOLATION: CloseCode = CloseCode(1008);
    /// The peer sent a message that is too long.
    pub const TOO_BIG: CloseCode = CloseCode(1009);
    /// The server did not accept an extension that the client needs. Clients only.
    pub const MISSING_EXTENSION: CloseCode = CloseCode(1010);
    /// The server met a condition that it did not expect.
    pub const INTERNAL_ERROR: CloseCode = CloseCode(1011);

    /// `None` for codes that no Close frame may carry: codes below 1000 and from 5000 on, those that stand
    /// for the absence of a Close frame (1005, 1006, 1015), and undefined ones. 1012 to 1014 are IANA's.
    pub const fn new(code: u16) -> Option<CloseCode> {
        match code {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(CloseCode(code)),
            _ => None,
        }
    }

    /// Its number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_may_not_be_sent_are_refused() {
        for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
            assert_eq!(CloseCode::new(code), None, "{code}");
        }
        for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
            assert_eq!(CloseCode::new(code).map(CloseCode::get), Some(code));
        }
    }
}
