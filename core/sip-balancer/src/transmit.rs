//! How the runtime names a transmit whose failure matters.

use crate::NodeIndex;

/// What a transmit is known by when it cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TransmitToken {
    /// An entry, by place and generation, on its way to this node.
    Kept(u32, u32, NodeIndex),
    /// A response over a stream, by its number.
    Response(u64),
    /// A probe of a node, by its serial.
    Probe(NodeIndex, u32),
}

/// The kind of a token stands in its upper bits.
const KIND: u32 = 62;
pub(crate) const GENERATION: u32 = 0x3f_ffff;

impl TransmitToken {
    /// As the runtime has it; never zero.
    pub fn to_u64(self) -> u64 {
        match self {
            TransmitToken::Kept(at, generation, node) => {
                let low = u64::from(node.0 & 0xff) << 24 | u64::from(at & 0xff_ffff);
                1 << KIND | u64::from(generation & GENERATION) << 32 | low
            }
            TransmitToken::Response(number) => 2 << KIND | number & !(3 << KIND),
            TransmitToken::Probe(at, serial) => 3 << KIND | u64::from(at.0) << 32 | u64::from(serial),
        }
    }

    /// Back from [`TransmitToken::to_u64`].
    pub fn from_u64(token: u64) -> Option<TransmitToken> {
        match token >> KIND {
            1 => {
                let (at, node) = (token as u32 & 0xff_ffff, NodeIndex((token >> 24) as u16 & 0xff));
                Some(TransmitToken::Kept(at, (token >> 32) as u32 & GENERATION, node))
            }
            2 => Some(TransmitToken::Response(token & !(3 << KIND))),
            3 => Some(TransmitToken::Probe(NodeIndex((token >> 32) as u16), token as u32)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_back_and_are_never_zero() {
        let (none, last) = (NodeIndex(0), NodeIndex(255));
        for token in [
            TransmitToken::Kept(0, 0, none),
            TransmitToken::Kept(65_535, 7, last),
            TransmitToken::Response(0),
            TransmitToken::Probe(last, 0),
        ] {
            assert_ne!(token.to_u64(), 0);
            assert_eq!(TransmitToken::from_u64(token.to_u64()), Some(token));
        }
        assert_eq!(TransmitToken::from_u64(0), None);
    }
}
