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
    fn numbers_are_written() {
        for n in [0, 7, 10, 65_535, u64::MAX] {
            let mut out = Vec::new();
            push_u64(n, &mut out);
            assert_eq!(out, n.to_string().as_bytes());
        }
    }
}
