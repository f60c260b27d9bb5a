//! A CSeq that is higher at the callee than at the caller, because a request had to leave again with
//! credentials (RFC 3261 section 22.2).

use core::ops::Range;
use sip_message::{Message, Name, Splices, parse_u32, push_u64};

/// CSeq numbers stay below this (section 8.1.1.5).
const MOST: u32 = 1 << 31;

/// Adds the edits by which a request has a CSeq that is `by` higher, and names an earlier request of its
/// dialog in RAck (RFC 3262 section 7.2) by one that is `earlier` higher. A number that would be too large
/// stays.
pub fn raise(request: &Message<'_>, by: u8, earlier: u8, splices: &mut Splices) {
    if by > 0
        && let Some(header) = request.header(Name::CSeq)
    {
        raise_number(request, header.value, 0, by, splices);
    }
    if earlier > 0
        && let Some(header) = request.header(Name::RAck)
    {
        raise_number(request, header.value, 1, earlier, splices);
    }
}

/// Adds the edit that gives a response the number in CSeq that its request came with.
pub fn restore(response: &Message<'_>, number: u32, splices: &mut Splices) {
    if response.cseq() == number {
        return;
    }
    if let Some(header) = response.header(Name::CSeq)
        && let Some((range, _)) = word(response, header.value, 0)
    {
        splices.replace_with(range, |text| push_u64(number.into(), text));
    }
}

fn raise_number(request: &Message<'_>, value: &[u8], nth: usize, by: u8, splices: &mut Splices) {
    if let Some((range, number)) = word(request, value, nth)
        && let Some(raised) = number.checked_add(by.into()).filter(|raised| *raised < MOST)
    {
        splices.replace_with(range, |text| push_u64(raised.into(), text));
    }
}

/// The place of the nth word of a value, which is a number.
fn word(message: &Message<'_>, value: &[u8], nth: usize) -> Option<(Range<usize>, u32)> {
    let word = value.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty()).nth(nth)?;
    Some((message.range_of(word), parse_u32(word)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::{Index, Limits, Parsed, parse};

    fn edited(start: &str, lines: &str, edit: impl FnOnce(&Message<'_>, &mut Splices)) -> String {
        let text = format!(
            "{start}\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:a@b>;tag=2\r\n\
             Call-ID: i\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        let mut index = Box::<Index>::default();
        let Parsed::Good(message) = parse(text.as_bytes(), &mut index, &Limits::default()) else {
            panic!("{text}")
        };
        let (mut splices, mut out) = (Splices::new(), Vec::new());
        edit(&message, &mut splices);
        splices.apply(message.bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_of_a_request_rise_and_those_of_its_response_fall() {
        let prack = "CSeq:  7  PRACK\r\nRAck: 1 5 INVITE\r\n";
        let text = edited("PRACK sip:a@b SIP/2.0", prack, |message, splices| raise(message, 2, 1, splices));
        assert!(text.contains("CSeq:  9  PRACK\r\nRAck: 1 6 INVITE\r\n"), "{text}");
        let ok = "SIP/2.0 200 OK";
        let text = edited(ok, "CSeq: 9 PRACK\r\n", |message, splices| restore(message, 7, splices));
        assert!(text.contains("CSeq: 7 PRACK\r\n"), "{text}");
    }

    #[test]
    fn number_that_would_be_too_large_stays() {
        let line = format!("CSeq: {} BYE\r\n", MOST - 1);
        let text = edited("BYE sip:a@b SIP/2.0", &line, |message, splices| raise(message, 1, 1, splices));
        assert!(text.contains(&line), "{text}");
    }
}
