//! Frames to send.

use crate::frame::Opcode;
use crate::{CloseCode, Kind, mask};

/// Bytes of the longest header of a frame. Those of servers have at most ten.
pub const MAX_HEADER: usize = 14;
/// Bytes that a control frame may carry (RFC 6455 section 5.5).
pub(crate) const MAX_CONTROL_PAYLOAD: usize = 125;
/// Bytes of the longest control frame: two, the key, the payload.
const MAX_CONTROL_FRAME: usize = 2 + 4 + MAX_CONTROL_PAYLOAD;

/// The header of a message that is sent in one frame. It is written before the message, with one call for
/// both.
///
/// A client masks the message with the same key ([`mask`]).
#[derive(Clone, Copy, Debug)]
pub struct MessageHeader {
    bytes: [u8; MAX_HEADER],
    len: u8,
}

impl MessageHeader {
    /// Of a message of `len` bytes. Clients give a `key` that nobody can predict and that is new for each
    /// frame (RFC 6455 section 5.3); servers give none.
    pub fn new(kind: Kind, len: usize, key: Option<[u8; 4]>) -> MessageHeader {
        let mut header = MessageHeader { bytes: [0; MAX_HEADER], len: 0 };
        let masked = if key.is_some() { 0x80 } else { 0 };
        header.push(&[0x80 | Opcode::Begin(kind).bits()]);
        match len {
            0..=125 => header.push(&[masked | len as u8]),
            126..=0xffff => {
                header.push(&[masked | 126]);
                header.push(&(len as u16).to_be_bytes());
            }
            _ => {
                header.push(&[masked | 127]);
                header.push(&(len as u64).to_be_bytes());
            }
        }
        header.push(key.as_ref().map_or(&[], |key| key));
        header
    }

    /// What is written.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    fn push(&mut self, more: &[u8]) {
        let at = usize::from(self.len);
        if let Some(room) = self.bytes.get_mut(at..at + more.len()) {
            room.copy_from_slice(more);
            self.len += more.len() as u8;
        }
    }
}

/// A whole control frame.
#[derive(Clone, Copy, Debug)]
pub struct ControlFrame {
    bytes: [u8; MAX_CONTROL_FRAME],
    len: u8,
}

impl ControlFrame {
    /// A Ping with up to 125 bytes.
    pub fn ping(payload: &[u8], key: Option<[u8; 4]>) -> ControlFrame {
        ControlFrame::new(Opcode::Ping, payload, key)
    }

    /// The answer to a Ping with this payload.
    pub fn pong(payload: &[u8], key: Option<[u8; 4]>) -> ControlFrame {
        ControlFrame::new(Opcode::Pong, payload, key)
    }

    /// A Close. Without a code there is no reason either. A reason of more than 123 bytes is cut.
    pub(crate) fn close(code: Option<CloseCode>, reason: &str, key: Option<[u8; 4]>) -> ControlFrame {
        let mut payload = [0; MAX_CONTROL_PAYLOAD];
        let Some(code) = code else { return ControlFrame::new(Opcode::Close, &[], key) };
        let reason = &reason.as_bytes()[..reason.floor_char_boundary(MAX_CONTROL_PAYLOAD - 2)];
        payload[..2].copy_from_slice(&code.get().to_be_bytes());
        payload[2..2 + reason.len()].copy_from_slice(reason);
        ControlFrame::new(Opcode::Close, &payload[..2 + reason.len()], key)
    }

    /// What is written.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    fn new(opcode: Opcode, payload: &[u8], key: Option<[u8; 4]>) -> ControlFrame {
        debug_assert!(payload.len() <= MAX_CONTROL_PAYLOAD, "{} bytes in a control frame", payload.len());
        let payload = &payload[..payload.len().min(MAX_CONTROL_PAYLOAD)];
        let mut bytes = [0; MAX_CONTROL_FRAME];
        bytes[0] = 0x80 | opcode.bits();
        bytes[1] = payload.len() as u8;
        let mut start = 2;
        if let Some(key) = key {
            bytes[1] |= 0x80;
            bytes[2..6].copy_from_slice(&key);
            start = 6;
        }
        let end = start + payload.len();
        bytes[start..end].copy_from_slice(payload);
        mask(&mut bytes[start..end], key.unwrap_or_default());
        ControlFrame { bytes, len: end as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Option<[u8; 4]> = Some([0x37, 0xfa, 0x21, 0x3d]);

    /// The headers of the examples in RFC 6455 section 5.7.
    #[test]
    fn headers_are_those_of_the_rfc() {
        assert_eq!(MessageHeader::new(Kind::Text, 5, None).as_bytes(), [0x81, 0x05]);
        assert_eq!(MessageHeader::new(Kind::Text, 5, KEY).as_bytes(), [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d]);
        assert_eq!(MessageHeader::new(Kind::Binary, 256, None).as_bytes(), [0x82, 0x7e, 0x01, 0x00]);
        assert_eq!(
            MessageHeader::new(Kind::Binary, 65_536, None).as_bytes(),
            [0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]
        );
        assert_eq!(ControlFrame::ping(b"Hello", None).as_bytes(), b"\x89\x05Hello");
        assert_eq!(
            ControlFrame::pong(b"Hello", KEY).as_bytes(),
            [0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]
        );
    }

    #[test]
    fn lengths_are_in_their_shortest_form() {
        for (len, bytes) in [(125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            assert_eq!(MessageHeader::new(Kind::Text, len, None).as_bytes().len(), bytes, "{len}");
            assert_eq!(MessageHeader::new(Kind::Text, len, KEY).as_bytes().len(), bytes + 4, "{len}");
        }
    }

    #[test]
    fn long_reason_is_cut_between_characters() {
        let long = "é".repeat(100);
        let frame = ControlFrame::close(Some(CloseCode::NORMAL), &long, None);
        assert_eq!(frame.as_bytes().len(), 2 + 2 + 122);
        assert!(core::str::from_utf8(&frame.as_bytes()[4..]).is_ok());
        assert_eq!(ControlFrame::close(None, "unsaid", None).as_bytes(), [0x88, 0]);
    }
}
