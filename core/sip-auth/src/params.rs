//! Reads one Authorization or Proxy-Authorization value (RFC 3261 section 25.1, RFC 7616 section 3.4).
//!
//! The parser is total, allocates nothing and reads each byte a fixed number of times. It is strict
//! where leniency would let two readers see different credentials (quotes, commas, repeated
//! parameters) and lenient where devices differ harmlessly: a quoted string is taken where a token is
//! due, and a token where a quoted string is due.

use memchr::memchr2;
use sip_message::find_quote;

/// Longest Digest value that is read, in bytes. Real ones stay under 600.
pub const MAX_VALUE: usize = 2048;

/// Most parameters in one value.
const MAX_PARAMS: usize = 24;

/// The text of a parameter, quotes removed, escapes still in place.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Text<'a> {
    /// Text without escapes.
    pub fn of(raw: &'a [u8]) -> Text<'a> {
        Text { raw, escaped: false }
    }

    /// The text if no escape stands in it, which is always so for what we generated ourselves.
    pub fn plain(self) -> Option<&'a [u8]> {
        if self.escaped { None } else { Some(self.raw) }
    }

    /// The bytes with quoting backslashes removed.
    pub fn bytes(self) -> impl Iterator<Item = u8> + 'a {
        let mut raw = self.raw.iter();
        let escaped = self.escaped;
        core::iter::from_fn(move || match raw.next() {
            Some(b'\\') if escaped => raw.next().copied(),
            other => other.copied(),
        })
    }

    /// Gives the unquoted text to `take`, in as few pieces as possible.
    pub fn pieces(self, mut take: impl FnMut(&[u8])) {
        let mut rest = self.raw;
        while self.escaped
            && let Some(at) = rest.iter().position(|&b| b == b'\\')
        {
            take(rest.get(..at).unwrap_or_default());
            // The escaped byte itself goes out alone, so that an escaped backslash is not taken
            // for the start of another escape.
            take(rest.get(at + 1..at + 2).unwrap_or_default());
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        take(rest);
    }

    /// Whether the unquoted text is `other`.
    pub fn is(self, other: &[u8]) -> bool {
        match self.plain() {
            Some(plain) => plain == other,
            None => self.bytes().eq(other.iter().copied()),
        }
    }
}

/// The parameters of one Digest value that matter here; others are passed over.
#[derive(Clone, Copy, Default)]
pub(crate) struct Params<'a> {
    pub username: Option<Text<'a>>,
    pub realm: Option<Text<'a>>,
    pub nonce: Option<Text<'a>>,
    pub uri: Option<Text<'a>>,
    pub response: Option<Text<'a>>,
    pub algorithm: Option<Text<'a>>,
    pub cnonce: Option<Text<'a>>,
    pub qop: Option<Text<'a>>,
    pub nc: Option<Text<'a>>,
    pub userhash: Option<Text<'a>>,
    /// `username*`, the extended notation of RFC 7616, which SIP devices do not use.
    pub username_extended: Option<Text<'a>>,
}

/// Why a header value holds no Digest parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unusable {
    /// Another scheme: none of our business (RFC 4475 section 3.3.7).
    OtherScheme,
    /// Digest, or nothing at all, but not readable; the reason phrase for a 400.
    Bad(&'static str),
}

/// Reads one header value into `params`, which are empty before.
pub(crate) fn parse<'a>(value: &'a [u8], params: &mut Params<'a>) -> Result<(), Unusable> {
    // Nearly everybody writes it so.
    let list = match value.starts_with(b"Digest ") {
        true => value.get(b"Digest".len()..).unwrap_or_default(),
        false => {
            let (scheme, list) = token(skip_space(value));
            if scheme.is_empty() {
                return Err(Unusable::Bad("Unreadable Credentials"));
            }
            if !scheme.eq_ignore_ascii_case(b"Digest") {
                return Err(Unusable::OtherScheme);
            }
            list
        }
    };
    if value.len() > MAX_VALUE {
        return Err(Unusable::Bad("Credentials Too Long"));
    }
    // Without an early way out and in bytes, so that the compiler can take many at a time. Hardly any value
    // has a tab, so that the least byte tells.
    let (least, delete) = value
        .iter()
        .fold((u8::MAX, 0), |(least, delete), &b| (u8::min(least, b), delete | u8::from(b == 0x7f)));
    if delete != 0 || least < b' ' && value.iter().any(|&b| b < b' ' && b != b'\t') {
        return Err(Unusable::Bad("Control Character In Credentials"));
    }
    read_list(list, params).map_err(Unusable::Bad)
}

const UNREADABLE: &str = "Unreadable Credentials";

/// Reads `name=value` pairs separated by commas, to the end. White space comes first.
fn read_list<'a>(list: &'a [u8], params: &mut Params<'a>) -> Result<(), &'static str> {
    let mut rest = skip_space(list);
    if rest.len() == list.len() {
        return Err(UNREADABLE);
    }
    for _ in 0..MAX_PARAMS {
        let (which, after) = match usual_name(rest) {
            Some((which, len)) => (Some(which), rest.get(len..).unwrap_or_default()),
            None => other_name(rest).ok_or(UNREADABLE)?,
        };
        let (text, after) = match *after {
            [b'"', ..] => text(after),
            _ => text(skip_space(after)),
        }
        .ok_or(UNREADABLE)?;
        if let Some(which) = which
            && params.slot(which).replace(text).is_some()
        {
            return Err("Repeated Credential Parameter");
        }
        rest = match *after {
            [b',', ref more @ ..] => skip_space(more),
            _ => match *skip_space(after) {
                [] => return Ok(()),
                [b',', ref more @ ..] => skip_space(more),
                _ => return Err(UNREADABLE),
            },
        };
    }
    Err("Too Many Credential Parameters")
}

/// A name that is not written as usual, its equals sign, and what follows them.
fn other_name(text: &[u8]) -> Option<(Option<Which>, &[u8])> {
    let (name, rest) = token(text);
    match *skip_space(rest) {
        [b'=', ref after @ ..] if !name.is_empty() => Some((which_parameter(name), after)),
        _ => None,
    }
}

/// The parameters of interest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Username,
    Realm,
    Nonce,
    Uri,
    Response,
    Algorithm,
    Cnonce,
    Qop,
    Nc,
    Userhash,
    UsernameExtended,
}

/// The parameters of interest by their names in lower case.
const NAMES: [(&[u8], Which); 11] = [
    (b"username", Which::Username),
    (b"realm", Which::Realm),
    (b"nonce", Which::Nonce),
    (b"uri", Which::Uri),
    (b"response", Which::Response),
    (b"algorithm", Which::Algorithm),
    (b"cnonce", Which::Cnonce),
    (b"qop", Which::Qop),
    (b"nc", Which::Nc),
    (b"userhash", Which::Userhash),
    (b"username*", Which::UsernameExtended),
];

/// Which parameter a name in any case means; `None` for one that we have no use for.
fn which_parameter(name: &[u8]) -> Option<Which> {
    NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, which)| *which)
}

/// The parameter whose name in lower case and equals sign `text` begins with, and the length of the
/// two. Nearly everybody writes them so, and few comparisons of whole words tell them apart. `None`
/// says nothing.
fn usual_name(text: &[u8]) -> Option<(Which, usize)> {
    const fn word(text: &[u8; 8]) -> u64 {
        u64::from_le_bytes(*text)
    }
    let (front, rest) = text.split_first_chunk::<8>()?;
    let all = word(front);
    let first = |bytes: u32| all & (u64::MAX >> (64 - 8 * bytes));
    const QOP: u64 = word(b"qop=\0\0\0\0");
    const URI: u64 = word(b"uri=\0\0\0\0");
    const REALM: u64 = word(b"realm=\0\0");
    const NONCE: u64 = word(b"nonce=\0\0");
    const CNONCE: u64 = word(b"cnonce=\0");
    const NC: u64 = word(b"nc=\0\0\0\0\0");
    const USERNAME: u64 = word(b"username");
    const RESPONSE: u64 = word(b"response");
    const ALGORITHM: u64 = word(b"algorith");
    match all {
        USERNAME if rest.first() == Some(&b'=') => return Some((Which::Username, 9)),
        RESPONSE if rest.first() == Some(&b'=') => return Some((Which::Response, 9)),
        ALGORITHM if rest.starts_with(b"m=") => return Some((Which::Algorithm, 10)),
        _ => {}
    }
    match first(6) {
        REALM => return Some((Which::Realm, 6)),
        NONCE => return Some((Which::Nonce, 6)),
        _ => {}
    }
    match first(4) {
        QOP => return Some((Which::Qop, 4)),
        URI => return Some((Which::Uri, 4)),
        _ => {}
    }
    match (first(3), first(7)) {
        (NC, _) => Some((Which::Nc, 3)),
        (_, CNONCE) => Some((Which::Cnonce, 7)),
        _ => None,
    }
}

impl<'a> Params<'a> {
    fn slot(&mut self, which: Which) -> &mut Option<Text<'a>> {
        match which {
            Which::Username => &mut self.username,
            Which::Realm => &mut self.realm,
            Which::Nonce => &mut self.nonce,
            Which::Uri => &mut self.uri,
            Which::Response => &mut self.response,
            Which::Algorithm => &mut self.algorithm,
            Which::Cnonce => &mut self.cnonce,
            Which::Qop => &mut self.qop,
            Which::Nc => &mut self.nc,
            Which::Userhash => &mut self.userhash,
            Which::UsernameExtended => &mut self.username_extended,
        }
    }
}

/// What follows spaces and tabs.
#[inline]
fn skip_space(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    text
}

/// A token, possibly empty, and what follows it.
fn token(text: &[u8]) -> (&[u8], &[u8]) {
    let len = text.iter().position(|&b| !TOKEN[usize::from(b)]).unwrap_or(text.len());
    text.split_at_checked(len).unwrap_or_default()
}

/// A quoted string, or a token that is not empty, and what follows it.
#[inline]
fn text(value: &[u8]) -> Option<(Text<'_>, &[u8])> {
    let [b'"', inside @ ..] = value else {
        let (raw, rest) = token(value);
        return (!raw.is_empty()).then_some((Text { raw, escaped: false }, rest));
    };
    let (raw, rest) = inside.split_at_checked(find_quote(inside))?;
    match rest {
        [b'"', rest @ ..] => Some((Text { raw, escaped: false }, rest)),
        _ => escaped(inside, raw.len()),
    }
}

/// A quoted string from behind its first quote, of which the first backslash is there, and what follows it.
#[cold]
fn escaped(inside: &[u8], backslash: usize) -> Option<(Text<'_>, &[u8])> {
    let (raw, rest) = inside.split_at_checked(closing_quote(inside, backslash)?)?;
    Some((Text { raw, escaped: true }, rest.get(1..)?))
}

/// Where the first quote stands that no backslash hides; `from` is the first backslash.
fn closing_quote(rest: &[u8], from: usize) -> Option<usize> {
    let mut end = from;
    loop {
        end += memchr2(b'"', b'\\', rest.get(end..)?)?;
        if rest.get(end) == Some(&b'"') {
            return Some(end);
        }
        end += 2;
    }
}

/// The bytes of a token (RFC 3261 section 25.1).
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        table[i] = b.is_ascii_alphanumeric()
            || matches!(b, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~');
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(value: &[u8]) -> Result<Params<'_>, Unusable> {
        let mut params = Params::default();
        parse(value, &mut params).map(|()| params)
    }

    fn params(value: &str) -> Result<Params<'_>, &'static str> {
        read(value.as_bytes()).map_err(|unusable| match unusable {
            Unusable::OtherScheme => "other",
            Unusable::Bad(reason) => reason,
        })
    }

    fn text(t: Option<Text<'_>>) -> String {
        String::from_utf8(t.expect("present").bytes().collect()).expect("UTF-8")
    }

    #[test]
    fn reads_the_example_of_rfc_3261() {
        let p = params(
            "Digest username=\"bob\", realm=\"biloxi.com\",\tnonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\",\
             uri = \"sip:bob@biloxi.com\" , QOP=auth,nc=00000001, cnonce=\"0a4f113b\",\
             response=\"6629fae49393a05397450978507c4ef1\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"",
        )
        .expect("good");
        assert_eq!(text(p.username), "bob");
        assert_eq!(text(p.uri), "sip:bob@biloxi.com");
        assert_eq!(text(p.qop), "auth");
        assert_eq!(text(p.nc), "00000001");
        assert_eq!(text(p.response), "6629fae49393a05397450978507c4ef1");
        assert!(p.algorithm.is_none());
    }

    #[test]
    fn removes_quoting_and_nothing_else() {
        let p = params(r#"digest username="a\"b\\c\d", realm="\\", nonce=abc"#).expect("good");
        assert_eq!(text(p.username), r#"a"b\cd"#);
        let mut pieces = Vec::new();
        p.username.expect("present").pieces(|b| pieces.extend_from_slice(b));
        assert_eq!(pieces, br#"a"b\cd"#);
        assert!(p.realm.expect("present").is(b"\\"));
        assert!(!p.realm.expect("present").is(b"\\\\"));
        assert!(p.nonce.expect("present").is(b"abc"));
    }

    #[test]
    fn other_schemes_are_passed_over_whatever_they_hold() {
        for value in [
            "NoOneKnowsThisScheme opaque-data=here",
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "Digestive a=b",
            "Bearer",
        ] {
            assert_eq!(params(value).err(), Some("other"));
        }
    }

    #[test]
    fn refuses_what_two_readers_could_read_differently() {
        for value in [
            "",
            " ",
            "=",
            "Digest",
            "Digest ",
            "Digest ,",
            "Digest a",
            "Digest a=",
            "Digest a=\"b",
            "Digest a=\"b\\",
            "Digest a=\"b\\\"",
            "Digest a=b c=d",
            "Digest a=b,",
            "Digest a=b,,c=d",
            "Digest =b",
            "Digest a=b\"c\"",
            "Digest username=\"a\"b\"",
            "Digest uri=sip:a@b",
            "Digest\"a=b\"",
            "Digest a=b;c=d",
        ] {
            assert_eq!(params(value).err(), Some("Unreadable Credentials"), "{value}");
        }
        assert_eq!(params("Digest nc=1, NC=2").err(), Some("Repeated Credential Parameter"));
        assert_eq!(params("Digest a=\"b\0\"").err(), Some("Control Character In Credentials"));
        assert_eq!(params("Digest a=\"b\x7f\"").err(), Some("Control Character In Credentials"));
        assert_eq!(params("Digest a=b\r\n c=d").err(), Some("Control Character In Credentials"));
    }

    #[test]
    fn length_and_number_of_parameters_are_bounded() {
        let long = format!("Digest a=\"{}\"", "x".repeat(8192));
        assert_eq!(params(&long).err(), Some("Credentials Too Long"));
        let many = |n: usize| format!("Digest {}", vec!["a=b"; n].join(","));
        assert!(params(&many(MAX_PARAMS)).is_ok());
        assert_eq!(params(&many(MAX_PARAMS + 1)).err(), Some("Too Many Credential Parameters"));
    }

    /// The quick way to a name and the slow one agree, whatever follows.
    #[test]
    fn names_are_told_apart() {
        for (name, which) in NAMES {
            for tail in ["=\"a\"", "=abcdefgh", "x=abcdefgh", " =abcdefgh", "=", ""] {
                let text = [name, tail.as_bytes()].concat();
                let len = name.len() + 1;
                if let Some(found) = usual_name(&text) {
                    assert!(tail.starts_with('=') && found == (which, len), "{text:?} {found:?}");
                } else {
                    assert!(
                        !tail.starts_with('=')
                            || text.len() < 10
                            || name.starts_with(b"userhash")
                            || name.ends_with(b"*"),
                        "{text:?}"
                    );
                }
            }
            assert_eq!(which_parameter(&name.to_ascii_uppercase()), Some(which));
        }
        assert_eq!(which_parameter(b"opaque"), None);
        let all = "Digest USERNAME=a, realm=b,nonce=c, uri=d, response=e, algorithm=f,cnonce=g, qop=h, nc=i, UserHash=j, username*=k";
        let p = params(all).expect("good");
        let texts = [
            p.username,
            p.realm,
            p.nonce,
            p.uri,
            p.response,
            p.algorithm,
            p.cnonce,
            p.qop,
            p.nc,
            p.userhash,
            p.username_extended,
        ];
        assert_eq!(texts.map(text).concat(), "abcdefghijk");
    }

    proptest! {
        /// Any bytes get an answer, and any text found is free of quotes that were not escaped.
        #[test]
        fn total(value in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&value);
        }

        /// The same over the alphabet that reaches the deep branches.
        #[test]
        fn total_near_the_grammar(tail in "[a-c=,\"\\\\ \t]{0,40}") {
            let value = format!("Digest {tail}");
            if let Ok(p) = read(value.as_bytes()) {
                prop_assert!(p.nonce.is_none());
            }
        }

        /// Words of eight bytes hide no quote and no backslash, and make none up.
        #[test]
        fn searching_by_words(text in "[\u{1}-\u{3}!\"#\\[\\\\\\]\u{80}-\u{ff}]{0,40}") {
            let bytes = text.as_bytes();
            prop_assert_eq!(find_quote(bytes), memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len()));
        }

        /// What is written with quoting is read back.
        #[test]
        fn quoting_round_trips(user in "[ -~\u{a0}-\u{2ff}]{0,60}") {
            let quoted = user.replace('\\', "\\\\").replace('"', "\\\"");
            let value = format!("Digest username=\"{quoted}\", nc=1");
            let p = params(&value).map_err(TestCaseError::fail)?;
            prop_assert_eq!(text(p.username), user);
        }
    }
}
