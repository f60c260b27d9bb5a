//! The fields of a line of CSV (RFC 4180 section 2), of a file in which each row is one line.

use std::borrow::Cow;
use toml_form::error::Fault;

/// Fields of a line at most.
pub const MOST_FIELDS: usize = 16;

/// What is wrong, and where in the line, bytes from its beginning.
pub type Misplaced = (usize, Fault);

/// A field, without blanks around it and without quotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field<'l> {
    /// Where its text begins, bytes from the beginning of the line.
    pub at: usize,
    /// What it is.
    pub text: Cow<'l, [u8]>,
}

/// Splits a line at its commas into `fields`.
///
/// # Errors
/// Where and why it cannot be split.
pub fn split<'l>(line: &'l [u8], fields: &mut Vec<Field<'l>>) -> Result<(), Misplaced> {
    fields.clear();
    let mut begin = 0;
    loop {
        if fields.len() == MOST_FIELDS {
            let what = format!("a row of more than {MOST_FIELDS} fields");
            return Err((begin, Fault::new(what, "write as many as the header has")));
        }
        let rest = line.get(begin..).unwrap_or(b"");
        let at = begin + rest.len() - rest.trim_ascii_start().len();
        let end = match line.get(at) {
            Some(b'"') => {
                let (text, end) = quoted(line, at)?;
                fields.push(Field { at: at + 1, text });
                end
            }
            _ => {
                let end =
                    rest.iter().position(|&byte| byte == b',').map_or(line.len(), |comma| begin + comma);
                let text = line.get(at.min(end)..end).unwrap_or(b"").trim_ascii();
                fields.push(Field { at: at.min(end), text: text.into() });
                end
            }
        };
        if end >= line.len() {
            return Ok(());
        }
        begin = end + 1;
    }
}

/// The text between quotes, in which two quotes stand for one, and the place of the comma behind it.
fn quoted(line: &[u8], at: usize) -> Result<(Cow<'_, [u8]>, usize), Misplaced> {
    let (mut text, mut next) = (Vec::new(), at + 1);
    loop {
        match (line.get(next), line.get(next + 1)) {
            (None, _) => {
                return Err((
                    at,
                    Fault::new("a quote that is not closed", "write \" at the end of the field"),
                ));
            }
            (Some(b'"'), Some(b'"')) => {
                text.push(b'"');
                next += 2;
            }
            (Some(b'"'), _) => break,
            (Some(byte), _) => {
                text.push(*byte);
                next += 1;
            }
        }
    }
    let behind = line.get(next + 1..).unwrap_or(b"");
    let blank = behind.len() - behind.trim_ascii_start().len();
    let end = next + 1 + blank;
    match line.get(end) {
        None | Some(b',') => Ok((text.into(), end)),
        Some(_) => Err((end, Fault::new("text behind a quoted field", "write a comma behind the quote"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Result<Vec<(usize, String)>, usize> {
        let mut fields = Vec::new();
        split(line.as_bytes(), &mut fields).map_err(|(at, _)| at)?;
        Ok(fields.into_iter().map(|f| (f.at, String::from_utf8_lossy(&f.text).into_owned())).collect())
    }

    #[test]
    fn line_is_split_at_commas_outside_quotes() {
        for (line, wanted) in [
            ("+49,a,1,0.5", &[(0, "+49"), (4, "a"), (6, "1"), (8, "0.5")][..]),
            (" +49 , a ", &[(1, "+49"), (7, "a")]),
            ("\"#31#\",\"a, b\"", &[(1, "#31#"), (8, "a, b")]),
            ("\"a\"\"b\" ,c", &[(1, "a\"b"), (8, "c")]),
            (",,", &[(0, ""), (1, ""), (2, "")]),
            ("a,", &[(0, "a"), (2, "")]),
            ("a", &[(0, "a")]),
            ("", &[(0, "")]),
            ("\"\"", &[(1, "")]),
        ] {
            let wanted: Vec<(usize, String)> =
                wanted.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
            assert_eq!(texts(line), Ok(wanted), "{line}");
        }
    }

    #[test]
    fn line_that_cannot_be_split_names_the_place() {
        assert_eq!(texts("a,\"b"), Err(2));
        assert_eq!(texts("\"a\"b,c"), Err(3));
        assert_eq!(texts(&",".repeat(MOST_FIELDS)), Err(MOST_FIELDS));
        assert_eq!(texts(&",".repeat(MOST_FIELDS - 1)).map(|all| all.len()), Ok(MOST_FIELDS));
    }
}
