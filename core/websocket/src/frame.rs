//! Headers of received frames.

use crate::Fault;

/// Which side of a connection this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It opened the connection and masks what it sends.
    Client,
    /// It accepted the connection.
    Server,
}

/// The type of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

impl Kind {
    /// The kind that a SIP message is sent in: text, unless it is not UTF-8 as a whole (RFC 7118 section
    /// 4.2).
    pub fn of(message: &[u8]) -> Kind {
        if core::str::from_utf8(message).is_ok() { Kind::Text } else { Kind::Binary }
    }
}

/// What a frame is for (RFC 6455 section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opcode {
    Continuation,
    Begin(Kind),
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn new(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0 => Opcode::Continuation,
            1 => Opcode::Begin(Kind::Text),
            2 => Opcode::Begin(Kind::Binary),
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    pub const fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0,
            Opcode::Begin(Kind::Text) => 1,
            Opcode::Begin(Kind::Binary) => 2,
            Opcode::Close => 8,
            Opcode::Ping => 9,
            Opcode::Pong => 10,
        }
    }

    pub const fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

/// The header of a received frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameHeader {
    pub fin: bool,
    pub opcode: Opcode,
    pub key: Option<[u8; 4]>,
    /// Bytes of the header.
    pub len: usize,
    /// Bytes of the payload, below 2^63.
    pub payload: u64,
}

impl FrameHeader {
    /// Reads the header of a frame that `role` receives. `None` if it is not all there. What the first two
    /// bytes show is refused without the others.
    pub fn read(bytes: &[u8], role: Role) -> Result<Option<FrameHeader>, Fault> {
        let &[first, second, ref rest @ ..] = bytes else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(Fault::ReservedBits);
        }
        let fin = first & 0x80 != 0;
        let opcode = Opcode::new(first & 0x0f).ok_or(Fault::ReservedOpcode)?;
        let masked = second & 0x80 != 0;
        match role {
            Role::Server if !masked => return Err(Fault::NotMasked),
            Role::Client if masked => return Err(Fault::Masked),
            _ => {}
        }
        let short = second & 0x7f;
        if opcode.is_control() && !fin {
            return Err(Fault::FragmentedControl);
        }
        if opcode.is_control() && short > 125 {
            return Err(Fault::ControlTooLong);
        }
        let Some((payload, rest)) = length(short, rest)? else { return Ok(None) };
        let (key, rest) = match rest.split_first_chunk::<4>() {
            Some((key, rest)) if masked => (Some(*key), rest),
            None if masked => return Ok(None),
            _ => (None, rest),
        };
        Ok(Some(FrameHeader { fin, opcode, key, len: bytes.len() - rest.len(), payload }))
    }
}

/// The length of a payload, and what follows it.
fn length(short: u8, rest: &[u8]) -> Result<Option<(u64, &[u8])>, Fault> {
    let (len, rest, least) = match short {
        126 => {
            let Some((len, rest)) = rest.split_first_chunk() else { return Ok(None) };
            (u64::from(u16::from_be_bytes(*len)), rest, 126)
        }
        127 => {
            let Some((len, rest)) = rest.split_first_chunk() else { return Ok(None) };
            (u64::from_be_bytes(*len), rest, 0x1_0000)
        }
        _ => (u64::from(short), rest, 0),
    };
    if len >> 63 != 0 {
        return Err(Fault::LengthTooLarge);
    }
    if len < least { Err(Fault::LengthNotMinimal) } else { Ok(Some((len, rest))) }
}
