//! The parts of tokens: texts that only holders of a key can make, such as those in our Via and
//! Record-Route.
//!
//! Short fields go into a keyed hash ([`Gathered`]), which is the [`Seal`] of the text. It is written as
//! base64url ([`Packed`]) or in hexadecimal digits ([`Fields`]). The owner of a text decides
//! its content and its keys.
#![forbid(unsafe_code)]

mod gathered;
mod hex;
mod packed;

pub use gathered::{Gathered, Keyed};
pub use hex::{Fields, hex2};
pub use packed::Packed;

/// A MAC of 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Seal(u64);

impl Seal {
    /// Bytes of a seal.
    pub const LEN: usize = 8;

    /// The seal that is this hash.
    pub const fn new(hash: u64) -> Seal {
        Seal(hash)
    }

    /// Whether `other` is the same. It is one comparison of two registers, so its duration does not show
    /// where they differ.
    #[inline]
    pub const fn fits(self, other: Seal) -> bool {
        self.0 == other.0
    }

    /// As bytes, the highest first.
    pub const fn to_bytes(self) -> [u8; Seal::LEN] {
        self.0.to_be_bytes()
    }

    /// The inverse of [`Seal::to_bytes`].
    pub const fn from_bytes(bytes: [u8; Seal::LEN]) -> Seal {
        Seal(u64::from_be_bytes(bytes))
    }

    /// As 16 hexadecimal digits.
    pub fn to_hex(self) -> [u8; 16] {
        sip_message::hex16(self.0)
    }
}
