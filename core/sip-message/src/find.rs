//! Cheap looks at a message before it is indexed.

use crate::block::line_feeds;
use crate::chars::{is_space, trim};

/// The value of the first Call-ID header field, found by line starts alone: what the choice of an
/// owner needs. Any case, long or compact form, white space before the colon, folds after it
/// (RFC 3261 sections 7.3.1 and 7.3.3). The same bytes always give the same answer; where the indexed
/// message has a Call-ID, this is it.
pub fn find_call_id(bytes: &[u8]) -> Option<&[u8]> {
    find_value(bytes, after_call_id)
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

/// The values of the first To and Call-ID header fields, found the same way in one pass that ends with the
/// second of them, To with what it is folded into: what tells in an overload whether a message belongs to a
/// dialog, and which call it is of.
pub fn find_to_and_call_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut to, mut call_id) = (None, None);
    let start = bytes.iter().take_while(|&&b| b == b'\r' || b == b'\n').count();
    let mut feeds = line_feeds(bytes, start);
    loop {
        let line = &bytes[feeds.next()? + 1..];
        match line.first()? {
            b'\r' => return None,
            b'T' | b't' if to.is_none() => to = after_to(line).map(whole_value_of),
            b'C' | b'c' | b'I' | b'i' if call_id.is_none() => call_id = after_call_id(line).map(value_of),
            _ => continue,
        }
        if let (Some(to), Some(call_id)) = (to, call_id) {
            return Some((to, call_id));
        }
    }
}

fn after_call_id(line: &[u8]) -> Option<&[u8]> {
    let rest = match line {
        [b'C' | b'c', rest @ ..] if rest.len() > 6 && rest[..6].eq_ignore_ascii_case(b"all-id") => &rest[6..],
        [b'i' | b'I', rest @ ..] => rest,
        _ => return None,
    };
    after_colon(rest)
}

fn after_to(line: &[u8]) -> Option<&[u8]> {
    match line {
        [b'T' | b't', b'O' | b'o', rest @ ..] | [b'T' | b't', rest @ ..] => after_colon(rest),
        _ => None,
    }
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
        if let Some(value) = matches(line) {
            return Some(value_of(value));
        }
    }
}

/// What follows a colon, with all lines that it is folded into.
fn whole_value_of(value: &[u8]) -> &[u8] {
    let folds = |&at: &usize| !matches!(value.get(at + 1), Some(b' ' | b'\t'));
    let end = memchr::memchr_iter(b'\n', value).find(folds).unwrap_or(value.len());
    trim(value.get(..end).unwrap_or(value).trim_ascii())
}

/// What follows a colon, without leading folds, up to the end of its line.
fn value_of(mut value: &[u8]) -> &[u8] {
    while let [b'\r', b'\n', b' ' | b'\t', ..] | [b' ' | b'\t', ..] = value {
        value = if value[0] == b'\r' { &value[2..] } else { &value[1..] };
    }
    let end = memchr::memchr2(b'\r', b'\n', value).unwrap_or(value.len());
    trim(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_and_call_id_are_found_in_every_spelling_and_order() {
        for to in ["To: <sip:a@b>", "t:<sip:a@b>", "TO \t:  <sip:a@b> ", "tO:\r\n <sip:a@b>"] {
            for id in ["Call-ID: x@y", "i : x@y", "CALL-id:\r\n\tx@y"] {
                for (first, second) in [(to, id), (id, to)] {
                    let text = format!(
                        "INVITE sip:a@b SIP/2.0\r\nTopic: none\r\n{first}\r\nCSeq: 1\r\n{second}\r\n"
                    );
                    let both = find_to_and_call_id(text.as_bytes());
                    assert_eq!(both, Some((&b"<sip:a@b>"[..], &b"x@y"[..])), "{text}");
                    assert_eq!(find_call_id(text.as_bytes()), Some(&b"x@y"[..]));
                }
            }
        }
        let folded = b"INVITE sip:a SIP/2.0\r\nTo: <sip:a>\r\n ;tag=x\r\ni: y\r\n";
        assert_eq!(find_to_and_call_id(folded), Some((&b"<sip:a>\r\n ;tag=x"[..], &b"y"[..])));
        for text in ["", "\r\n", "INVITE sip:a@b SIP/2.0\r\nTo: x\r\n\r\ni: body\r\n", "I sip:a\r\ni: x\r\n"]
        {
            assert_eq!(find_to_and_call_id(text.as_bytes()), None, "{text:?}");
        }
    }

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
