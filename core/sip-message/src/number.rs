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
    // 1 in each byte that is above 9: those need the distance from '9' + 1 to 'a' as well.
    let letters = (n + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    n + 0x3030_3030_3030_3030 + letters * 0x27
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
    fn numbers_are_written() {
        for n in [0, 7, 10, 65_535, u64::MAX] {
            let mut out = Vec::new();
            push_u64(n, &mut out);
            assert_eq!(out, n.to_string().as_bytes());
        }
    }
}
