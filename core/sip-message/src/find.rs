//! Cheap looks at a message before it is indexed.

use crate::chars::{is_space, trim};

/// The value of the first Call-ID header field, found by line starts alone: what the choice of an
/// owner needs. Any case, long or compact form, white space before the colon, folds after it
/// (RFC 3261 sections 7.3.1 and 7.3.3). The same bytes always give the same answer; where the indexed
/// message has a Call-ID, this is it.
pub fn find_call_id(bytes: &[u8]) -> Option<&[u8]> {
    find_value(bytes, |line| {
        let rest = match line {
            [b'C' | b'c', rest @ ..] if rest.len() > 6 && rest[..6].eq_ignore_ascii_case(b"all-id") => {
                &rest[6..]
            }
            [b'i' | b'I', rest @ ..] => rest,
            _ => return None,
        };
        after_colon(rest)
    })
}

/// The value of the first Via header field, found the same way; used to answer a message that
/// cannot be read as a whole.
pub fn find_vias(bytes: &[u8]) -> Option<&[u8]> {
    find_value(bytes, |line| {
        let rest = match line {
            [b'V' | b'v', rest @ ..] if rest.len() > 2 && rest[..2].eq_ignore_ascii_case(b"ia") => &rest[2..],
            [b'V' | b'v', rest @ ..] => rest,
            _ => return None,
        };
        after_colon(rest)
    })
}

fn after_colon(rest: &[u8]) -> Option<&[u8]> {
    let spaces = rest.iter().take_while(|&&b| is_space(b)).count();
    rest[spaces..].strip_prefix(b":")
}

/// Goes through the lines of the head; `matches` gives what follows the colon of the wanted header.
fn find_value(bytes: &[u8], matches: impl Fn(&[u8]) -> Option<&[u8]>) -> Option<&[u8]> {
    let mut at = bytes.iter().take_while(|&&b| b == b'\r' || b == b'\n').count();
    loop {
        at += memchr::memchr(b'\n', &bytes[at..])? + 1;
        let line = &bytes[at..];
        if line.first() == Some(&b'\r') {
            return None;
        }
        let Some(mut value) = matches(line) else { continue };
        // Leading folds.
        while let [b'\r', b'\n', b' ' | b'\t', ..] | [b' ' | b'\t', ..] = value {
            value = if value[0] == b'\r' { &value[2..] } else { &value[1..] };
        }
        let end = memchr::memchr2(b'\r', b'\n', value).unwrap_or(value.len());
        return Some(trim(&value[..end]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_id_is_found_in_every_spelling() {
        for line in [
            "Call-ID: x@y",
            "CALL-id:x@y",
            "i: x@y",
            "I \t:  x@y ",
            "Call-ID\t:\r\n  x@y",
            "Call-ID: \r\n\tx@y",
        ] {
            let message =
                format!("INVITE sip:a SIP/2.0\r\nVia: i: no\r\nCall-Info: no\r\n{line}\r\nTo: b\r\n\r\n");
            assert_eq!(find_call_id(message.as_bytes()), Some(&b"x@y"[..]), "{line}");
        }
    }

    #[test]
    fn the_body_is_not_searched() {
        assert_eq!(find_call_id(b"OPTIONS sip:a SIP/2.0\r\nTo: b\r\n\r\nCall-ID: x\r\n"), None);
        assert_eq!(find_call_id(b""), None);
        assert_eq!(find_call_id(b"\r\n\r\n"), None);
    }
}
