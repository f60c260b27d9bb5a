//! Decimal numbers with checked arithmetic.

/// Reads a non-empty run of decimal digits, nothing else; `None` on anything else or overflow.
pub fn parse_u64(s: &[u8]) -> Option<u64> {
    if s.is_empty() {
        return None;
    }
    let mut number = 0u64;
    for (i, &b) in s.iter().enumerate() {
        let digit = u64::from(b.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        // Nineteen digits always fit.
        number = match i {
            0..19 => number * 10 + digit,
            _ => number.checked_mul(10)?.checked_add(digit)?,
        };
    }
    Some(number)
}

/// A port and how many digits it is written with; `None` if it is no number of 1 to 65535.
#[inline]
pub(crate) fn leading_port(s: &[u8]) -> Option<(u16, usize)> {
    let (mut port, mut len) = (0u32, 0);
    while let Some(digit) = s.get(len).map(|b| b.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        port = port * 10 + u32::from(digit);
        if port > 65_535 {
            return None;
        }
        len += 1;
    }
    u16::try_from(port).ok().filter(|&port| port != 0).map(|port| (port, len))
}

/// Same as [`parse_u64`] for 32 bits.
pub fn parse_u32(s: &[u8]) -> Option<u32> {
    parse_u64(s).and_then(|n| u32::try_from(n).ok())
}

/// Appends `n` in decimal.
pub fn push_u64(mut n: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// `number` as 16 lower-case hexadecimal digits, eight at a time by arithmetic on the bytes of a word.
pub fn hex16(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    text[..8].copy_from_slice(&hex8((number >> 32) as u32).to_be_bytes());
    text[8..].copy_from_slice(&hex8(number as u32).to_be_bytes());
    text
}

fn hex8(number: u32) -> u64 {
    // Spread the eight nibbles over eight bytes.
    let mut n = u64::from(number);
    n = (n | n << 16) & 0x0000_ffff_0000_ffff;
    n = (n | n << 8) & 0x00ff_00ff_00ff_00ff;
    n = (n | n << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    digits_of(n)
}

/// The digits of eight nibbles in eight bytes.
#[inline(always)]
fn digits_of(nibbles: u64) -> u64 {
    // 1 in each byte that is above 9: those need the distance from '9' + 1 to 'a' as well.
    let letters = (nibbles + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    nibbles + 0x3030_3030_3030_3030 + letters * 0x27
}

/// Back from [`hex16`]: the number of 16 hexadecimal digits, small or capital. `None` on anything else.
pub fn unhex16(text: &[u8]) -> Option<u64> {
    let (high, low) = text.split_first_chunk::<8>()?;
    let low = <&[u8; 8]>::try_from(low).ok()?;
    let number = |digits: &[u8; 8]| unhex8(u64::from_be_bytes(*digits));
    Some(u64::from(number(high)?) << 32 | u64::from(number(low)?))
}

fn unhex8(text: u64) -> Option<u32> {
    // 1 in each byte that can only be a letter; made small.
    let letters = text >> 6 & 0x0101_0101_0101_0101;
    let text = text | letters << 5;
    let nibbles = (text & 0x0f0f_0f0f_0f0f_0f0f) + letters * 9;
    // A digit is written as it was read, and nothing else is; letters after `f` are more than a nibble.
    if nibbles & 0xf0f0_f0f0_f0f0_f0f0 != 0 || digits_of(nibbles) != text {
        return None;
    }
    let mut n = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
    n = (n | n >> 8) & 0x0000_ffff_0000_ffff;
    Some((n | n >> 16) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked() {
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u32(b"4294967296"), None);
        for bad in [&b""[..], b"-1", b"+5", b"0x10", b"5 5", b"1 "] {
            assert_eq!(parse_u64(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn hexadecimal_is_written() {
        for n in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 0x90a0_9a0a_9f0f_0000] {
            assert_eq!(hex16(n).as_slice(), format!("{n:016x}").as_bytes());
        }
    }

    #[test]
    fn hexadecimal_is_read() {
        for n in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 0x90a0_9a0a_9f0f_0000] {
            assert_eq!(unhex16(format!("{n:016x}").as_bytes()), Some(n));
            assert_eq!(unhex16(format!("{n:016X}").as_bytes()), Some(n));
        }
        // Every byte at every place.
        for at in 0..16 {
            for byte in 0..=255u8 {
                let mut text = *b"0123456789abcdef";
                text[at] = byte;
                let want = std::str::from_utf8(&text).ok().filter(|_| byte.is_ascii_hexdigit());
                let want = want.and_then(|text| u64::from_str_radix(text, 16).ok());
                assert_eq!(unhex16(&text), want, "{byte} at {at}");
            }
        }
        for bad in [&b""[..], b"0", b"0123456789abcde", b"0123456789abcdef0"] {
            assert_eq!(unhex16(bad), None);
        }
    }

    #[test]
    fn numbers_are_written() {
        for n in [0, 7, 10, 65_535, u64::MAX] {
            let mut out = Vec::new();
            push_u64(n, &mut out);
            assert_eq!(out, n.to_string().as_bytes());
        }
    }
}
