//! Decimal numbers with checked arithmetic.

/// Reads a non-empty run of decimal digits, nothing else; `None` on anything else or overflow.
pub fn parse_u64(s: &[u8]) -> Option<u64> {
    if s.is_empty() {
        return None;
    }
    s.iter().try_fold(0u64, |n, &b| {
        if !b.is_ascii_digit() {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(b - b'0'))
    })
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
