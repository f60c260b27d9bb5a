//! What neighbours say of their overload in Via: RFC 7339 section 4 and 9, RFC 7415.

use core::time::Duration;
use sip_message::{find_vias, has_pair};

/// The longest that a neighbour is believed without saying it again: it does with each response. RFC 7339 has
/// no limit; so long a wish made up by somebody else can last.
const VALID_MAX: Duration = Duration::from_secs(5);
/// How long it is valid if that is not said (RFC 7339 section 4.3).
const VALID: Duration = Duration::from_millis(500);
/// The highest rate that is told or believed, requests a second.
pub const RATE_MAX: u32 = 10_000_000;
/// Steps of a sequence number in a second (RFC 7339 section 9: five digits behind the point).
const FRACTION: u64 = 100_000;

/// How the traffic is to be reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// By so many per cent.
    Loss,
    /// To so many requests a second (RFC 7415).
    Rate,
}

/// What a server asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// How it is counted.
    pub algorithm: Algorithm,
    /// Per cent, or requests a second.
    pub value: u32,
    /// For how long; zero: for nothing at all.
    pub valid: Duration,
    /// Grows from one to the next, in steps of 10 us; `None`: not said.
    pub sequence: Option<u64>,
}

/// The algorithm that a client which can be told of overload is told of it by: rate if it offers that.
/// `None`: it cannot be told.
pub fn offer(via: &[u8]) -> Option<Algorithm> {
    let (mut offered, mut algorithm) = (false, Algorithm::Loss);
    for (name, value) in params(via) {
        if name.eq_ignore_ascii_case(b"oc") {
            // A client gives no value.
            offered = value.is_none();
        } else if name.eq_ignore_ascii_case(b"oc-algo") && names(value?, b"rate") {
            algorithm = Algorithm::Rate;
        }
    }
    offered.then_some(algorithm)
}

/// What a server says in the Via that was ours; `None` if it says nothing that can be believed.
pub fn wish(via: &[u8]) -> Option<Wish> {
    let (mut value, mut algorithm, mut valid, mut sequence) = (None, Algorithm::Loss, VALID, None);
    for (name, text) in params(via) {
        match text {
            Some(text) if name.eq_ignore_ascii_case(b"oc") => value = Some(number(text)?),
            Some(text) if name.eq_ignore_ascii_case(b"oc-validity") => {
                valid = Duration::from_millis(number(text)?.into());
            }
            Some(text) if name.eq_ignore_ascii_case(b"oc-seq") => sequence = Some(sequence_of(text)?),
            Some(text) if name.eq_ignore_ascii_case(b"oc-algo") => {
                algorithm = match unquoted(text) {
                    loss if loss.eq_ignore_ascii_case(b"loss") => Algorithm::Loss,
                    rate if rate.eq_ignore_ascii_case(b"rate") => Algorithm::Rate,
                    // What we did not offer, or still the list that we did.
                    _ => return None,
                };
            }
            _ => {}
        }
    }
    let value = match value {
        Some(value) => value,
        // An end needs no value (section 4.3).
        None if valid.is_zero() => 0,
        None => return None,
    };
    let highest = if algorithm == Algorithm::Loss { 100 } else { RATE_MAX };
    (value <= highest).then_some(Wish { algorithm, value, valid: valid.min(VALID_MAX), sequence })
}

/// Whether a client wrote `oc` into its Via, so that it would believe a value. It may say so where none did.
#[inline]
pub fn knows(via: &[u8]) -> bool {
    // In most the letters do not even stand.
    has_pair(via, b"oc") && has_parameter(via)
}

fn has_parameter(via: &[u8]) -> bool {
    let mut params = via.split(|&byte| byte == b';').skip(1);
    params.any(|param| param.trim_ascii_start().get(..2).is_some_and(|name| name.eq_ignore_ascii_case(b"oc")))
}

/// Takes the parameters of overload control out of the topmost Via of a response that begins at `start`:
/// whoever answered has nothing to say there (RFC 7339 section 5.4).
pub fn take_out(message: &mut Vec<u8>, start: usize) {
    if may_be_named(message.get(start..).unwrap_or(b"")) {
        let _ = empty(message, start);
    }
}

/// Whether the letters `oc` stand in the topmost Via of a response, or it is folded into several lines. In
/// most they do not, and to see that is far cheaper than to read the parameters.
fn may_be_named(message: &[u8]) -> bool {
    let Some(value) = find_vias(message) else { return false };
    // The slice is part of the message.
    let end = value.as_ptr().addr() - message.as_ptr().addr() + value.len();
    let mut after = message.get(end..).unwrap_or(b"").iter().skip_while(|&&byte| byte != b'\n').skip(1);
    if matches!(after.next(), Some(b' ' | b'\t')) {
        return true;
    }
    has_pair(value, b"oc")
}

/// The same; where the Via value ends then. `None`: there is none. One pass, whatever is in it.
fn empty(message: &mut Vec<u8>, start: usize) -> Option<usize> {
    let value = find_vias(message.get(start..)?)?;
    // The slice is part of the message.
    let begin = value.as_ptr().addr() - message.as_ptr().addr();
    let values = unfolded(message.get(begin..)?);
    let length = values.get(..first_len(values))?.trim_ascii_end().len();
    // What is kept goes to `end`, which is never behind what is looked at.
    let mut from = separator(values, 0, b';').unwrap_or(length).min(length);
    let mut end = begin + from;
    while from < length {
        let value = message.get(begin..begin + length)?;
        let to = separator(value, from + 1, b';').unwrap_or(length);
        if !is_ours(split(value.get(from + 1..to)?).0) {
            message.copy_within(begin + from..begin + to, end);
            end += to - from;
        }
        from = to;
    }
    // No line of white space alone is left.
    while end > begin && message.get(end - 1).is_some_and(u8::is_ascii_whitespace) {
        end -= 1;
    }
    message.drain(end..begin + length);
    Some(end)
}

/// The value of a header field that begins here, with all lines that it is folded into.
fn unfolded(text: &[u8]) -> &[u8] {
    let folds =
        |&(at, &byte): &(usize, &u8)| byte == b'\n' && !matches!(text.get(at + 1), Some(b' ' | b'\t'));
    let end = text.iter().enumerate().find(folds).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or(text)
}

/// Puts a wish into the topmost Via of a response that begins at `start`, in place of what its client wrote
/// there.
pub fn fill(message: &mut Vec<u8>, start: usize, wish: &Wish) {
    let Some(end) = empty(message, start) else { return };
    let mut text = Text::default();
    text.push(b";oc=");
    text.push_number(wish.value.into());
    text.push(if wish.algorithm == Algorithm::Loss { b";oc-algo=\"loss\"" } else { b";oc-algo=\"rate\"" });
    text.push(b";oc-validity=");
    text.push_number(u64::try_from(wish.valid.as_millis()).unwrap_or(0));
    text.push(b";oc-seq=");
    let sequence = wish.sequence.unwrap_or(0);
    text.push_number(sequence / FRACTION % 1_000_000_000_000);
    text.push(b".");
    // A part of a second, so with the zeros before it: others compare the two as one decimal number.
    text.push_padded(sequence % FRACTION);
    message.splice(end..end, text.bytes().iter().copied());
}

/// Whether a parameter of this name is one of overload control.
fn is_ours(name: &[u8]) -> bool {
    [&b"oc"[..], b"oc-algo", b"oc-validity", b"oc-seq"].iter().any(|our| our.eq_ignore_ascii_case(name))
}

/// How long the first value of a header field with several is.
fn first_len(values: &[u8]) -> usize {
    separator(values, 0, b',').unwrap_or(values.len())
}

/// The next place of a separator from `at` on that is not quoted.
fn separator(text: &[u8], at: usize, separator: u8) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (place, &byte) in text.iter().enumerate().skip(at) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            byte if byte == separator && !quoted => return Some(place),
            _ => {}
        }
    }
    None
}

/// The parameters of a Via value, names and values.
fn params(value: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    let mut at = separator(value, 0, b';');
    core::iter::from_fn(move || {
        let from = at?;
        at = separator(value, from + 1, b';');
        Some(split(value.get(from + 1..at.unwrap_or(value.len()))?))
    })
}

fn split(param: &[u8]) -> (&[u8], Option<&[u8]>) {
    match param.iter().position(|&byte| byte == b'=') {
        Some(at) => (param[..at].trim_ascii(), Some(param[at + 1..].trim_ascii())),
        None => (param.trim_ascii(), None),
    }
}

/// Whether a quoted list names an algorithm.
fn names(list: &[u8], algorithm: &[u8]) -> bool {
    unquoted(list).split(|&byte| byte == b',').any(|name| name.trim_ascii().eq_ignore_ascii_case(algorithm))
}

/// Without quotes around it.
fn unquoted(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text)
}

/// A number of nine digits at most.
fn number(text: &[u8]) -> Option<u32> {
    let digits = (1..=9).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    digits.then(|| text.iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0')))
}

/// `1*12DIGIT "." 1*5DIGIT`, a decimal number, as in the examples of the RFC (a time in seconds).
fn sequence_of(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|&byte| byte == b'.')?;
    let (whole, rest) = (&text[..point], &text[point + 1..]);
    let digits = |text: &[u8], most: usize| {
        let good = (1..=most).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
        good.then(|| text.iter().fold(0u64, |n, digit| n * 10 + u64::from(digit - b'0')))
    };
    let fraction = digits(rest, 5)? * 10u64.pow(5 - rest.len() as u32);
    Some(digits(whole, 12)? * FRACTION + fraction)
}

/// A short text without memory of its own.
struct Text {
    bytes: [u8; 96],
    len: usize,
}

impl Default for Text {
    fn default() -> Text {
        Text { bytes: [0; 96], len: 0 }
    }
}

impl Text {
    fn push(&mut self, text: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + text.len()) {
            room.copy_from_slice(text);
            self.len += text.len();
        }
    }

    fn push_number(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            if let Some(digit) = digits.get_mut(at) {
                *digit = b'0' + (number % 10) as u8;
            }
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(digits.get(at..).unwrap_or(b""));
    }

    /// Five digits.
    fn push_padded(&mut self, number: u64) {
        let mut place = FRACTION / 10;
        while place > 0 {
            self.push(&[b'0' + (number / place % 10) as u8]);
            place /= 10;
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(b"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VIA: &str = "SIP/2.0/UDP a.example;branch=z9hG4bKx";

    fn said(params: &str) -> Option<Wish> {
        wish(format!("{VIA}{params}").as_bytes())
    }

    #[test]
    fn a_client_is_told_by_what_it_offers() {
        let offered = |params: &str| offer(format!("{VIA}{params}").as_bytes());
        assert_eq!(offered(";oc;oc-algo=\"loss\""), Some(Algorithm::Loss));
        assert_eq!(offered(";OC ; oc-algo = \"loss, Rate\""), Some(Algorithm::Rate));
        assert_eq!(offered(";oc"), Some(Algorithm::Loss), "the default (section 4.2)");
        assert_eq!(offered(";oc-algo=\"loss\""), None);
        assert_eq!(offered(";oc=20;oc-algo=\"loss\""), None, "that is an answer");
        assert_eq!(offered(";note=\";oc;\""), None, "quoted");
        assert_eq!(offered(";ocean"), None);
    }

    #[test]
    fn what_a_server_says_is_read_and_checked() {
        let ms = Duration::from_millis;
        let all = said(";oc=20;oc-algo=\"loss\";oc-validity=1000;oc-seq=1282321615.782").unwrap();
        let sequence = Some(1_282_321_615 * FRACTION + 78_200);
        assert_eq!(all, Wish { algorithm: Algorithm::Loss, value: 20, valid: ms(1_000), sequence });
        let rate = said(";oc=150;oc-algo=\"rate\"").unwrap();
        assert_eq!((rate.algorithm, rate.value, rate.valid), (Algorithm::Rate, 150, ms(500)));
        assert_eq!(said(";oc-validity=0").unwrap().valid, Duration::ZERO);
        assert_eq!(said(";oc=5;oc-validity=999999999").unwrap().valid, VALID_MAX);
        for bad in [
            "",
            ";oc",
            ";oc;oc-algo=\"loss,rate\"",
            ";oc=101",
            ";oc=-1",
            ";oc=1e9",
            ";oc=",
            ";oc=4294967296",
            ";oc=99999999999999999999",
            ";oc=10;oc-algo=\"window\"",
            ";oc=10;oc-algo=\"loss,rate\"",
            ";oc-validity=500",
            ";oc=10;oc-validity=x",
            ";oc=10;oc-seq=1",
            ";oc=10;oc-seq=1234567890123.1",
            ";oc=10;oc-seq=1.123456",
            ";oc=10;oc-seq=.",
            ";oc=999999999;oc-algo=\"rate\"",
        ] {
            assert_eq!(said(bad), None, "{bad}");
        }
    }

    const WISH: Wish = Wish {
        algorithm: Algorithm::Loss,
        value: 35,
        valid: Duration::from_millis(500),
        sequence: Some(12 * FRACTION + 7),
    };

    fn filled(via: &str) -> String {
        let mut message = b"rest".to_vec();
        message.extend_from_slice(format!("SIP/2.0 200 OK\r\n{via}\r\nTo: x\r\n\r\nbody").as_bytes());
        fill(&mut message, 4, &WISH);
        String::from_utf8(message).unwrap()
    }

    #[test]
    fn a_wish_takes_the_place_of_the_offer() {
        let ours = ";oc=35;oc-algo=\"loss\";oc-validity=500;oc-seq=12.00007";
        let text =
            filled(&format!("Via: {VIA};oc;rport=5;oc-algo=\"loss,rate\", SIP/2.0/UDP b;oc\r\nVia: c;oc"));
        let want = format!(
            "restSIP/2.0 200 OK\r\nVia: {VIA};rport=5{ours}, SIP/2.0/UDP b;oc\r\nVia: c;oc\r\nTo: x\r\n\r\nbody"
        );
        assert_eq!(text, want);
        assert!(filled(&format!("v:{VIA};oc")).contains(&format!("v:{VIA}{ours}\r\n")));
        // What it says was written to be read.
        assert_eq!(said(ours), Some(WISH));
        assert!(filled("Subject: no Via").contains("no Via\r\nTo"));
    }

    /// RFC 3261 section 7.3.1: a line that begins with white space belongs to the one before.
    #[test]
    fn folds_hide_nothing() {
        for (via, kept) in [
            (";oc\r\n ;x=y", ";x=y"),
            ("\r\n\t;oc=100;x=y", "\r\n\t;x=y"),
            (";x=y\r\n ; oc\r\n = 100\r\n ;oc-seq=1.1", ";x=y"),
            ("\r\n ;x=\"a\r\n ;oc\";oc", "\r\n ;x=\"a\r\n ;oc\""),
        ] {
            let mut message = format!("SIP/2.0 200 OK\r\nVia: {VIA}{via}\r\nTo: x;oc\r\n\r\n").into_bytes();
            take_out(&mut message, 0);
            let want = format!("SIP/2.0 200 OK\r\nVia: {VIA}{kept}\r\nTo: x;oc\r\n\r\n");
            assert_eq!(String::from_utf8(message).unwrap(), want);
        }
        assert!(filled(&format!("Via: {VIA};oc\r\n ;x=y")).contains(";x=y;oc=35;"));
    }

    /// As many as a header field takes, between others.
    #[test]
    fn however_many_there_are_all_go() {
        let mut message =
            format!("SIP/2.0 200 OK\r\nVia: {VIA}{}\r\nTo: x\r\n\r\n", ";oc;x".repeat(1_600)).into_bytes();
        take_out(&mut message, 0);
        let want = format!("SIP/2.0 200 OK\r\nVia: {VIA}{}\r\nTo: x\r\n\r\n", ";x".repeat(1_600));
        assert!(message == want.as_bytes());
    }

    #[test]
    fn a_client_that_would_believe_is_known() {
        for knows_it in [";oc", ";rport; OC;x", ";oc-algo=\"loss\"", ";oc=5"] {
            assert!(knows(format!("{VIA}{knows_it}").as_bytes()), "{knows_it}");
        }
        assert!(!knows(format!("{VIA};rport=5;o").as_bytes()) && !knows(b""));
    }

    proptest! {
        /// The short look passes over nothing that the long one would take out.
        #[test]
        fn what_is_taken_out_is_seen_by_the_short_look(
            params in "([;, \"=]|oc|OC|Oc-Algo|oc-seq|o|c|[ -~]|\r\n |\r\n\t){0,24}", end in "\r\n|\n|\r\nTo: oc\r\n",
        ) {
            let message = format!("SIP/2.0 200 OK\r\nv: {VIA}{params}{end}").into_bytes();
            let (mut short, mut long) = (message.clone(), message);
            take_out(&mut short, 0);
            let _ = empty(&mut long, 0);
            prop_assert_eq!(short, long);
        }

        #[test]
        fn any_via_is_read_and_filled(params in "[ -~]{0,60}", value in any::<u32>()) {
            let _ = (said(&params), offer(params.as_bytes()));
            let line = format!("Via: {VIA};{params}");
            let mut message = format!("SIP/2.0 200 OK\r\n{line}\r\nTo: x\r\n\r\n").into_bytes();
            let before = message.len();
            fill(&mut message, 0, &Wish { value, ..WISH });
            prop_assert!(message.ends_with(b"\r\nTo: x\r\n\r\n"));
            prop_assert!(message.len() <= before + 96);
            take_out(&mut message, 0);
            let via = find_vias(&message).unwrap_or_default();
            let first = via.get(..first_len(via)).unwrap_or_default();
            prop_assert!(!super::params(first).any(|(name, _)| is_ours(name)), "{}", via.escape_ascii());
        }
    }
}
