//! SIPp's own idea of XML, made into XML.
//!
//! SIPp's files are read by a parser of its own. What it takes and XML does not is rewritten here:
//! comments may hold `--`; a declaration may follow blank lines; in attributes `<` and `&` may stand as
//! they are, and `\"`, `\\`, `\n`, `\r` and `\t` are escapes.

use super::super::context::Place;

/// Text that an XML parser takes, with line numbers as before.
pub(super) struct Loose {
    pub text: String,
    /// Where something got another length: the place after it here, and how many bytes more there are
    /// here than there.
    shifts: Vec<(usize, isize)>,
    /// Where the lines of the file begin.
    lines: Vec<usize>,
    /// Where an entity is declared, which is not supported.
    pub entity: Option<usize>,
    /// Where an attribute refers to what is no character.
    pub no_character: Option<usize>,
}

impl Loose {
    /// The place in the file of an offset into the text here.
    pub fn place(&self, original: &str, at: usize) -> Place {
        let shift = self.shifts.partition_point(|(place, _)| *place <= at);
        let shift = shift.checked_sub(1).and_then(|i| self.shifts.get(i)).map_or(0, |(_, shift)| *shift);
        let mut at = at.saturating_add_signed(-shift).min(original.len());
        while !original.is_char_boundary(at) {
            at -= 1;
        }
        let line = self.lines.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|line| self.lines.get(line)).copied().unwrap_or(0);
        let column = original.get(start..at).unwrap_or_default().chars().count() as u32 + 1;
        Place { line: line as u32, column }
    }

    /// The offset of a row and column (in characters), from 1.
    pub fn offset(&self, row: u32, column: u32) -> usize {
        let mut lines = self.text.split_inclusive('\n');
        let before: usize = lines.by_ref().take(row.saturating_sub(1) as usize).map(str::len).sum();
        let line = lines.next().unwrap_or_default();
        let within: usize = line.chars().take(column.saturating_sub(1) as usize).map(char::len_utf8).sum();
        before + within
    }

    /// The innermost element that has begun before an offset and has not ended: its name, and where it
    /// begins.
    pub fn open_at(&self, end: usize) -> Option<(&str, usize)> {
        let text = self.text.get(..end)?;
        let mut open = Vec::new();
        let mut from = 0;
        while let Some(at) = text.get(from..).and_then(|rest| rest.find('<')).map(|at| from + at) {
            let rest = text.get(at..).unwrap_or_default();
            if rest.starts_with("<![CDATA[") {
                from = at + rest.find("]]>").unwrap_or(rest.len());
                continue;
            }
            let inner = rest.get(1..tag_end(rest)).unwrap_or_default();
            if inner.starts_with('/') {
                open.pop();
            } else if !inner.ends_with('/') {
                let name = inner.split(|c: char| c.is_whitespace()).next().unwrap_or_default();
                open.push((name, at));
            }
            from = at + 1 + inner.len();
        }
        open.pop()
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Writes `new` in the place of `old`.
    fn swap(&mut self, old: &str, new: &str) {
        self.push(new);
        let shift = self.shifts.last().map_or(0, |(_, shift)| *shift);
        self.shifts.push((self.text.len(), shift + new.len() as isize - old.len() as isize));
    }

    /// Writes blanks in the place of `old`, and its line ends.
    fn blank(&mut self, old: &str) {
        for c in old.chars() {
            if c == '\n' {
                self.text.push('\n');
            } else {
                (0..c.len_utf8()).for_each(|_| self.text.push(' '));
            }
        }
    }
}

/// Rewrites a file.
pub(super) fn loosen(original: &str) -> Loose {
    let lines = core::iter::once(0).chain(original.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let text = String::with_capacity(original.len());
    let mut loose = Loose { text, shifts: Vec::new(), lines, entity: None, no_character: None };
    let mut rest = original;
    if let Some(after) = rest.strip_prefix('\u{feff}') {
        loose.swap("\u{feff}", "");
        rest = after;
    }
    while let Some(open) = rest.find('<') {
        let (before, from) = rest.split_at(open);
        loose.push(before);
        let until = |end: &str| from.find(end).map_or(from.len(), |at| at + end.len());
        let taken = if from.starts_with("<!--") {
            until("-->")
        } else if from.starts_with("<?") {
            until("?>")
        } else if from.starts_with("<!DOCTYPE") {
            doctype(from)
        } else if from.starts_with("<![CDATA[") {
            let end = until("]]>");
            loose.push(from.get(..end).unwrap_or_default());
            rest = from.get(end..).unwrap_or_default();
            continue;
        } else {
            rest = tag(from, &mut loose);
            continue;
        };
        let (blank, after) = from.split_at(taken);
        if let Some(at) = blank.find("<!ENTITY").filter(|_| blank.starts_with("<!DOCTYPE")) {
            loose.entity = Some(loose.text.len() + at);
        }
        loose.blank(blank);
        rest = after;
    }
    loose.push(rest);
    loose
}

/// Where the `>` of a tag stands.
fn tag_end(tag: &str) -> usize {
    let mut quote = None;
    for (at, c) in tag.char_indices() {
        match (c, quote) {
            ('>', None) => return at,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    tag.len()
}

/// Length of a document type declaration.
fn doctype(text: &str) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b'>' if depth <= 0 => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Rewrites one tag, from its `<`; gives what follows.
fn tag<'t>(text: &'t str, loose: &mut Loose) -> &'t str {
    let mut quote = None;
    let mut at = 0;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        let mut taken = c.len_utf8();
        match (c, quote) {
            ('\\', Some(_)) => taken = escape(rest, loose),
            ('<', Some(_)) => loose.swap("<", "&lt;"),
            ('&', Some(_)) => match ampersand(rest) {
                Ampersand::Itself => loose.swap("&", "&amp;"),
                Ampersand::Reference => loose.text.push(c),
                Ampersand::NoCharacter => {
                    loose.no_character = loose.no_character.or(Some(loose.text.len()));
                    loose.swap("&", "&amp;");
                }
            },
            (c, Some(open)) if c == open => {
                quote = None;
                loose.text.push(c);
            }
            ('"' | '\'', None) => {
                quote = Some(c);
                loose.text.push(c);
            }
            ('>', None) => {
                loose.text.push(c);
                return text.get(at + 1..).unwrap_or_default();
            }
            (c, _) => loose.text.push(c),
        }
        at += taken;
    }
    ""
}

/// Rewrites a backslash in an attribute and what it stands before; gives the length of both.
fn escape(rest: &str, loose: &mut Loose) -> usize {
    let escapes = [("\\\"", "&quot;"), ("\\\\", "\\"), ("\\n", "&#10;"), ("\\r", "&#13;"), ("\\t", "&#9;")];
    match escapes.iter().find(|(old, _)| rest.starts_with(old)) {
        Some((old, new)) => {
            loose.swap(old, new);
            old.len()
        }
        None => {
            loose.text.push('\\');
            1
        }
    }
}

/// What an `&` in an attribute begins.
enum Ampersand {
    /// Nothing: it stands for itself.
    Itself,
    /// One of the five names of XML, or a reference to a character (XML 1.0 section 4.1).
    Reference,
    /// A reference to what is no character of XML.
    NoCharacter,
}

fn ampersand(text: &str) -> Ampersand {
    if ["&lt;", "&gt;", "&amp;", "&quot;", "&apos;"].iter().any(|entity| text.starts_with(entity)) {
        return Ampersand::Reference;
    }
    let (digits, radix) = match (text.strip_prefix("&#x"), text.strip_prefix("&#")) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) => (digits, 10),
        (None, None) => return Ampersand::Itself,
    };
    let (digits, _) = digits.split_once(';').unwrap_or_default();
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Ampersand::Itself;
    }
    let named = u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    match named.filter(|c| !c.is_control() || matches!(c, '\t' | '\n' | '\r' | '\u{7f}'..='\u{9f}')) {
        Some('\u{fffe}' | '\u{ffff}') | None => Ampersand::NoCharacter,
        Some(_) => Ampersand::Reference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_sipp_takes_becomes_xml() {
        let file = "\n\n<?xml version='1.0'?>\n<!DOCTYPE a SYSTEM \"sipp.dtd\">\n<!-- a -- b -->\n\
            <a x=\"<sip:\\\"q\\\" & \\. \\\\ &lt;\" y='\"'><![CDATA[ <b> & \\\" ]]></a>\n";
        let loose = loosen(file);
        let document = roxmltree::Document::parse(&loose.text).unwrap();
        let root = document.root_element();
        assert_eq!(root.attribute("x"), Some("<sip:\"q\" & \\. \\ <"));
        assert_eq!((root.attribute("y"), root.text()), (Some("\""), Some(" <b> & \\\" ")));
        assert_eq!(loose.place(file, root.range().start), Place { line: 6, column: 1 });
        let text = loose.text.find(" <b>").unwrap();
        assert_eq!(
            file.find(" <b>").unwrap() as u32 - file.rfind("<a x").unwrap() as u32 + 1,
            loose.place(file, text).column
        );
    }

    #[test]
    fn character_references_are_decoded_in_attributes() {
        let of = |value: &str| {
            let loose = loosen(&format!("<a x=\"{value}\"/>"));
            let document = roxmltree::Document::parse(&loose.text).map_err(|error| error.to_string())?;
            Ok(document.root_element().attribute("x").unwrap_or_default().to_owned())
        };
        for (written, meant) in [
            ("a&#34;b", "a\"b"),
            ("&#x22;&#X22;", "\"&#X22;"),
            ("&#xe9;&#233;", "éé"),
            ("a&#;b&#x;c&#34d&#", "a&#;b&#x;c&#34d&#"),
            ("&amp;#34;", "&#34;"),
            ("a;&#x41", "a;&#x41"),
        ] {
            assert_eq!(of(written), Ok::<_, String>(meant.to_owned()), "{written}");
        }
        for none in ["&#0;", "&#x8;", "&#xD800;", "&#xffff;", "&#99999999999;"] {
            let loose = loosen(&format!("<a x=\"{none}\"/>"));
            assert_eq!(loose.no_character, Some(6), "{none}");
        }
    }

    #[test]
    fn entities_are_noted() {
        let file = "<!DOCTYPE a [\n <!ENTITY b \"c\"> ]>\n<a/>";
        let loose = loosen(file);
        assert_eq!(loose.place(file, loose.entity.unwrap()), Place { line: 2, column: 2 });
        assert!(roxmltree::Document::parse(&loose.text).is_ok());
    }

    proptest! {
        #[test]
        fn lines_stay_where_they_are(file in "([<>!?&;\"'\\\\ ab=é\n-]|<!--|-->|<!\\[CDATA\\[|\\]\\]>|<a b=\"){0,60}") {
            let loose = loosen(&file);
            // A line end in the text here is one there.
            for (at, _) in loose.text.match_indices('\n') {
                let line = loose.text[..at].matches('\n').count() as u32 + 1;
                prop_assert_eq!(loose.place(&file, at).line, line);
            }
            loose.offset(3, 3);
        }
    }
}
