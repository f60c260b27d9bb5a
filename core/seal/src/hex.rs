//! Numbers of fixed length in hexadecimal digits.

use crate::Seal;
use sip_message::{hex16, unhex16};

/// A number of two digits.
pub fn hex2(octet: u8) -> [u8; 2] {
    let text = hex16(octet.into());
    [text[14], text[15]]
}

/// Takes numbers off the beginning of a text, in digits of either case.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The fields of a text.
    pub const fn new(text: &'a [u8]) -> Fields<'a> {
        Fields(text)
    }

    /// One of two digits.
    #[inline]
    pub fn octet(&mut self) -> Option<u8> {
        let ([high, low], rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            b'A'..=b'F' => Some(byte - b'A' + 10),
            _ => None,
        };
        Some(digit(*high)? << 4 | digit(*low)?)
    }

    /// One of this number of `digits`, at most 16.
    #[inline]
    pub fn number(&mut self, digits: usize) -> Option<u64> {
        let (text, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        if digits == 16 {
            return unhex16(text);
        }
        let mut wide = [b'0'; 16];
        wide.get_mut(16usize.checked_sub(digits)?..)?.copy_from_slice(text);
        unhex16(&wide)
    }

    /// The seal, which is the last field.
    #[inline]
    pub fn seal(mut self) -> Option<Seal> {
        let seal = self.number(16)?;
        self.0.is_empty().then_some(Seal::new(seal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order_and_the_seal_is_the_last() {
        let text = [&hex2(0x5a)[..], &hex16(7)[8..], &Seal::new(9).to_hex()].concat();
        let read = |text: &[u8]| {
            let mut fields = Fields::new(text);
            let fixed = (fields.octet()?, fields.number(8)?);
            Some((fixed, fields.seal()?.to_bytes()))
        };
        assert_eq!(read(&text), Some(((0x5a, 7), 9u64.to_be_bytes())));
        assert_eq!(read(&text.to_ascii_uppercase()), read(&text));
        assert_eq!(read(&text[..text.len() - 1]), None);
        assert_eq!(read(&[&text[..], b"0"].concat()), None);
        assert_eq!(Fields::new(&[b'0'; 20]).number(17), None);
    }
}
