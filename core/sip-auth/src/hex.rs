//! Hexadecimal without formatting machinery, and the comparison of what it stands for.

use subtle::ConstantTimeEq;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes `bytes`, whole words of four, in lower case to the front of `out` (64 bytes, enough for any
/// digest here) and returns the written part.
pub(crate) fn encode<'a>(bytes: &[u8], out: &'a mut [u8; 64]) -> &'a [u8] {
    let (places, _) = out.as_chunks_mut::<8>();
    for (place, four) in places.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *place = eight_digits(u32::from_be_bytes(*four)).to_be_bytes();
    }
    // Digests are whole words.
    out.get(..(bytes.len() & !3) * 2).unwrap_or_default()
}

/// The same of an MD5.
pub(crate) fn encode_md5(sum: &[u8; 16]) -> [u8; 32] {
    let mut digits = [0; 32];
    for (place, four) in digits.as_chunks_mut::<8>().0.iter_mut().zip(sum.as_chunks::<4>().0) {
        *place = eight_digits(u32::from_be_bytes(*four)).to_be_bytes();
    }
    digits
}

/// The eight digits of a number, the first one highest.
fn eight_digits(number: u32) -> u64 {
    // Spread the nibbles over the bytes.
    let mut n = u64::from(number);
    n = (n | n << 16) & 0x0000_ffff_0000_ffff;
    n = (n | n << 8) & 0x00ff_00ff_00ff_00ff;
    n = (n | n << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in each byte above 9, which needs the distance from '9' + 1 to 'a' as well.
    let letters = ((n + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    n + 0x3030_3030_3030_3030 + letters * 0x27
}

/// Reads exactly `out.len()` bytes, whole words of four, in either case; false if `text` is anything else.
pub(crate) fn decode(text: &[u8], out: &mut [u8]) -> bool {
    let ((places, rest), (eights, _)) = (out.as_chunks_mut::<4>(), text.as_chunks::<8>());
    if !rest.is_empty() || text.len() != places.len() * 8 {
        return false;
    }
    // Marks of foreign characters are gathered and looked at once, at the end.
    let mut good = u64::MAX;
    for (place, eight) in places.iter_mut().zip(eights) {
        let (number, digits) = eight_values(u64::from_be_bytes(*eight));
        good &= digits;
        *place = number.to_be_bytes();
    }
    good & HIGH == HIGH
}

const HIGH: u64 = 0x8080_8080_8080_8080;

/// The number that eight digits stand for, the first one highest, and the high bit of each that is a digit.
fn eight_values(text: u64) -> (u32, u64) {
    const fn all(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    // Sums that reach the high bit of their own byte and no other one, for bytes without a high bit.
    let at_least = |text: u64, byte: u8| (text & !HIGH) + all(0x80 - byte);
    let small = text | all(0x20);
    let number = at_least(text, b'0') & !at_least(text, b'9' + 1);
    let letter = at_least(small, b'a') & !at_least(small, b'f' + 1) & HIGH;
    let values = (text & all(0x0f)) + (letter >> 7) * 9;
    let pairs = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    ((fours | fours >> 16) as u32, (number | letter) & !text)
}

/// Whether two digests are the same, in a time that does not depend on where they differ. By words:
/// lengths are multiples of eight here, and anything else is not the same.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let differ = a.iter().zip(b).fold(0, |d, (a, b)| d | (u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b)));
    a.len() == b.len() && a_rest.is_empty() && b_rest.is_empty() && bool::from(differ.ct_eq(&0))
}

/// The value of one hexadecimal digit.
pub(crate) fn digit(byte: u8) -> Option<u8> {
    Some(VALUES[usize::from(byte)]).filter(|&v| v < 16)
}

/// The value of each digit, 255 for other characters.
const VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut i = 0;
    while i < 16 {
        values[DIGITS[i] as usize] = i as u8;
        values[DIGITS[i].to_ascii_uppercase() as usize] = i as u8;
        i += 1;
    }
    values
};

/// Reads a nonce count: one to eight hexadecimal digits (RFC 7616 says eight; some devices pad less).
pub(crate) fn count(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 8 {
        return None;
    }
    text.iter().try_fold(0u32, |n, &b| Some((n << 4) | u32::from(digit(b)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        let mut text = [0; 64];
        assert_eq!(encode(&[0, 0x1f, 0xa0, 0xff], &mut text), b"001fa0ff");
        let mut bytes = [0; 4];
        assert!(decode(b"001FA0ff", &mut bytes));
        assert_eq!(bytes, [0, 0x1f, 0xa0, 0xff]);
        assert!(!decode(b"001FA0f", &mut bytes));
        assert!(!decode(b"001FA0fg", &mut bytes));
        assert!(!decode(b"001FA0ff00", &mut bytes));
        assert!(!decode(b"001FA0", &mut bytes[..3]), "no whole word");
    }

    /// Every byte in every place.
    #[test]
    fn digits_are_told_from_all_others() {
        for byte in 0..=255u8 {
            for at in 0..16 {
                let (mut text, mut bytes) = (*b"0123456789abcdef", [0; 8]);
                text[at] = byte;
                let value = char::from(byte).to_digit(16);
                assert_eq!(decode(&text, &mut bytes), value.is_some(), "{byte} {at}");
                if let Some(value) = value {
                    let right =
                        0x0123_4567_89ab_cdef & !(0xf << (60 - 4 * at)) | u64::from(value) << (60 - 4 * at);
                    assert_eq!(u64::from_be_bytes(bytes), right, "{byte} {at}");
                }
            }
        }
    }

    #[test]
    fn equal_is_equal_in_every_byte_and_length() {
        let a = [7; 16];
        assert!(same(&a, &[7; 16]) && !same(&a, &[7; 8]) && !same(&a[..15], &a[..15]));
        for at in 0..16 {
            let mut b = a;
            b[at] ^= 0x80;
            assert!(!same(&a, &b), "{at}");
        }
    }

    #[test]
    fn counts_have_one_to_eight_digits() {
        assert_eq!(count(b"00000001"), Some(1));
        assert_eq!(count(b"fFfFffff"), Some(u32::MAX));
        assert_eq!(count(b"1"), Some(1));
        for bad in [&b""[..], b"000000001", b"0x1", b"-1", b" 1"] {
            assert_eq!(count(bad), None);
        }
    }
}
