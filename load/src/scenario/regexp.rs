//! POSIX extended regular expressions, as SIPp's scenarios write them, by the `regex` crate.
//!
//! The text is translated, not handed through: in brackets a backslash is a backslash, `.` and `[^x]`
//! match line ends, `^` and `$` are the ends of the whole text, and bytes are bytes. Of two alternatives
//! that both match, POSIX takes the longer one and this the one that is written first; write the longer
//! one first. Back references, two repetitions in a row and Perl's letter classes are refused.

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    inner: regex::bytes::Regex,
}

impl Pattern {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong, and how to mend it.
    pub fn parse(text: &str) -> Result<Pattern, (String, String)> {
        let translated = translate(text)?;
        let inner = regex::bytes::Regex::new(&translated).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason).to_owned();
            (format!("the expression is not valid: {reason}"), "see regex(7), `extended'".to_owned())
        })?;
        Ok(Pattern { inner })
    }

    /// Whether it matches anywhere in `text`.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.inner.is_match(text)
    }

    /// How many groups it has.
    pub fn groups(&self) -> usize {
        self.inner.captures_len() - 1
    }

    /// Gives `take` the whole match (as number 0) and what its groups found. False if it does not match.
    pub(super) fn find(&self, text: &[u8], mut take: impl FnMut(usize, Option<&[u8]>)) -> bool {
        if self.groups() == 0 {
            let Some(found) = self.inner.find(text) else { return false };
            take(0, Some(found.as_bytes()));
            return true;
        }
        let Some(found) = self.inner.captures(text) else { return false };
        found
            .iter()
            .enumerate()
            .for_each(|(number, group)| take(number, group.map(|group| group.as_bytes())));
        true
    }
}

/// Rewrites a POSIX expression as one of the `regex` crate.
fn translate(text: &str) -> Result<String, (String, String)> {
    let mut out = String::from("(?s-u)");
    let mut chars = text.chars().peekable();
    // Whether the last thing was a repetition.
    let mut repeated = false;
    while let Some(c) = chars.next() {
        let repeats = matches!(c, '*' | '+' | '?' | '{');
        if repeats && repeated {
            return refuse("two repetitions in a row are not supported", "put the first into parentheses");
        }
        repeated = repeats;
        match c {
            '\\' => escape(chars.next(), &mut out)?,
            '[' => bracket(&mut chars, &mut out)?,
            '(' if chars.peek() == Some(&'?') => {
                return refuse("`(?' is not POSIX", "write \\( for a parenthesis, (...) for a group");
            }
            '{' if !chars.peek().is_some_and(char::is_ascii_digit) => {
                return refuse(
                    "`{' begins no repetition",
                    "write \\{ for a brace, {2} or {2,3} for a repetition",
                );
            }
            '{' => {
                out.push(c);
                out.extend(core::iter::from_fn(|| chars.next_if(|c| c.is_ascii_digit() || *c == ',')));
                out.extend(chars.next_if_eq(&'}'));
            }
            '*' | '+' | '?' | '(' | ')' | '|' | '.' | '^' | '$' => out.push(c),
            c => literal(c, &mut out),
        }
    }
    Ok(out)
}

fn refuse<T>(what: &str, mend: &str) -> Result<T, (String, String)> {
    Err((what.to_owned(), mend.to_owned()))
}

/// A character that means itself, byte for byte.
fn literal(c: char, out: &mut String) {
    let mut bytes = [0; 4];
    for byte in c.encode_utf8(&mut bytes).bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
}

/// What follows a backslash outside of brackets: glibc's extensions are few.
fn escape(c: Option<char>, out: &mut String) -> Result<(), (String, String)> {
    match c {
        None => refuse("the expression ends with a backslash", "write \\\\ for a backslash"),
        Some('1'..='9') => refuse("back references are not supported", "use two expressions"),
        Some('d' | 'D') => refuse("\\d is the letter d in POSIX", "write [0-9]"),
        Some(c @ ('w' | 'W' | 's' | 'S' | 'b' | 'B')) => {
            out.push('\\');
            out.push(c);
            Ok(())
        }
        Some('<') => {
            out.push_str("\\b{start}");
            Ok(())
        }
        Some('>') => {
            out.push_str("\\b{end}");
            Ok(())
        }
        Some('`') => {
            out.push_str("\\A");
            Ok(())
        }
        Some('\'') => {
            out.push_str("\\z");
            Ok(())
        }
        Some(c) => {
            literal(c, out);
            Ok(())
        }
    }
}

type Chars<'a> = core::iter::Peekable<core::str::Chars<'a>>;

/// A bracket expression, from after its `[`.
fn bracket(chars: &mut Chars<'_>, out: &mut String) -> Result<(), (String, String)> {
    out.push('[');
    if chars.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut first = true;
    loop {
        let Some(c) = chars.next() else {
            return refuse("a bracket expression does not end", "write \\[ for a bracket");
        };
        match c {
            ']' if !first => break,
            '[' if chars.peek() == Some(&':') => class(chars, out)?,
            '[' if matches!(chars.peek(), Some('.' | '=')) => {
                return refuse("collating symbols are not supported", "write the characters themselves");
            }
            // A range, unless the hyphen is the first or the last.
            '-' if !first && chars.peek() != Some(&']') => out.push('-'),
            c if c.is_ascii() => literal(c, out),
            _ => {
                return refuse(
                    "a bracket expression holds a character that is not ASCII",
                    "use alternatives: (ä|ö)",
                );
            }
        }
        first = false;
    }
    out.push(']');
    Ok(())
}

/// `[:alpha:]` and its kin, from after the `[`.
fn class(chars: &mut Chars<'_>, out: &mut String) -> Result<(), (String, String)> {
    const KNOWN: [&str; 12] = [
        "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
        "xdigit",
    ];
    chars.next();
    let name: String = core::iter::from_fn(|| chars.next_if(char::is_ascii_alphabetic)).collect();
    if !KNOWN.contains(&name.as_str()) || chars.next() != Some(':') || chars.next() != Some(']') {
        return refuse("unknown character class", "write one of [:alnum:] [:alpha:] [:digit:] [:space:] ...");
    }
    out.push_str("[:");
    out.push_str(&name);
    out.push_str(":]");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(expression: &str, text: &str) -> Option<Vec<String>> {
        let pattern = Pattern::parse(expression).unwrap();
        let mut all = Vec::new();
        let matched = pattern.find(text.as_bytes(), |_, group| {
            all.push(String::from_utf8_lossy(group.unwrap_or_default()).into_owned());
        });
        assert_eq!(matched, pattern.matches(text.as_bytes()));
        matched.then_some(all)
    }

    fn some(texts: &[&str]) -> Option<Vec<String>> {
        Some(texts.iter().map(|t| (*t).to_owned()).collect())
    }

    #[test]
    fn posix_expressions_find_what_posix_says() {
        let sdp = "v=0\r\no=user1 53655765 2353687637 IN IP4 127.0.0.1\r\n";
        let origin = "o=([[:alnum:]]*) ([[:alnum:]]*) ([[:alnum:]]*)";
        let want = ["o=user1 53655765 2353687637", "user1", "53655765", "2353687637"];
        assert_eq!(found(origin, sdp), some(&want));
        assert_eq!(found("([0-9]{1,3}\\.){3}[0-9]{1,3}", sdp), some(&["127.0.0.1", "0."]));
        assert_eq!(found("^v.*$", sdp), some(&[sdp]), "a dot matches line ends, ^ and $ do not see them");
        assert_eq!(found("(z)?(IN)", sdp), some(&["IN", "", "IN"]));
        assert_eq!(found("^o=", sdp), None);
        assert_eq!(
            found("Digest .*username=\"([^\"]*)\"", "Digest a=b, username=\"u\", c"),
            some(&["Digest a=b, username=\"u\"", "u"])
        );
    }

    #[test]
    fn brackets_are_posix_brackets() {
        assert_eq!(found("[\\.s]ip", "x\\ip"), some(&["\\ip"]));
        assert_eq!(found("[]a]+", "xa]a"), some(&["a]a"]));
        assert_eq!(found("[^]a]+", "a]xya"), some(&["xy"]));
        assert_eq!(found("[a-]+", "b-a-b"), some(&["-a-"]));
        assert_eq!(found("[&&~]+", "a&~&"), some(&["&~&"]));
        assert_eq!(found("[[]x", "[x"), some(&["[x"]));
        assert_eq!(found("a b/é", "a b/é"), some(&["a b/é"]));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (expression, what) in [
            ("(a)\\1", "back references"),
            ("a**", "two repetitions"),
            ("a+?", "two repetitions"),
            ("(?i)a", "not POSIX"),
            ("\\d+", "letter d"),
            ("a\\", "ends with a backslash"),
            ("[a", "does not end"),
            ("[[:foo:]]", "unknown character class"),
            ("[[.a.]]", "collating"),
            ("a{x", "begins no repetition"),
            ("(a", "not valid"),
            ("*a", "not valid"),
            ("[é]", "not ASCII"),
        ] {
            let (said, mend) = Pattern::parse(expression).unwrap_err();
            assert!(said.contains(what) && !mend.is_empty(), "{expression}: {said}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "[\\[\\]\\\\(){}|*+?.^$a-c0-3:=-]{0,12}|.{0,12}") {
            if let Ok(pattern) = Pattern::parse(&text) {
                pattern.matches(b"abc");
            }
        }
    }
}
