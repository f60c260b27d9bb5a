//! What is said of a file that is no TOML: the one mistake that is to be mended first.
//!
//! The parser goes on after an error, and what it finds then follows from the first one more often than not:
//! after a `]` that is missing it reads the rest of the file as elements of the list.

use crate::error::Fault;
use crate::reader::Span;
use toml::de::Error;

/// Words that other formats have for true and false.
const SWITCHES: [&str; 6] = ["yes", "no", "on", "off", "true", "false"];

/// The error to mend first, and where; `None` where there is none.
pub fn first(text: &str, errors: &[Error]) -> Option<(Span, Fault)> {
    let place = |error: &Error| error.span().unwrap_or(0..0);
    let first = errors.iter().min_by_key(|error| place(error).start)?;
    let span = place(first);
    // The parser tells where the file ends, and not where the list begins that ends nowhere.
    let unclosed = errors.iter().any(|error| error.message().contains("unclosed array"));
    // An error within a list of one line is one by itself.
    let ends = |open: &usize| {
        text.get(*open..).and_then(|rest| rest.lines().next()).is_some_and(|l| l.contains(']'))
    };
    let open = unclosed.then(|| open_list(text.get(..span.start)?)).flatten();
    if let Some(open) = open.filter(|open| !ends(open)) {
        return Some((open..open + 1, Fault::new("this list does not end", "close it with `]`")));
    }
    let word = text.get(span.clone()).unwrap_or_default();
    let fault = if first.message().contains("duplicate key") {
        duplicate(text, &span)
    } else if SWITCHES.iter().any(|switch| switch.eq_ignore_ascii_case(word)) {
        let mend = match word {
            "off" => "write false, or \"off\" in quotes where that is a value",
            _ => "write true or false",
        };
        Fault::new(format!("`{word}` is not a value"), mend)
    } else if word.is_empty() && first.message().starts_with("string values must be quoted") {
        Fault::new("there is no value", "write one after `=`")
    } else {
        Fault::new(first.message().trim(), "")
    };
    Some((span, fault))
}

/// A key or section that occurs twice.
fn duplicate(text: &str, again: &Span) -> Fault {
    let word = text.get(again.clone()).unwrap_or_default();
    let first = earlier(text, again).and_then(|at| text.get(..at)).map_or_else(String::new, |before| {
        let (line, begin) = (before.matches('\n').count() + 1, before.rfind('\n').map_or(0, |end| end + 1));
        let column = before.get(begin..).map_or(0, |start| start.chars().count()) + 1;
        format!("; the first is at {line}:{column}")
    });
    Fault::new(format!("duplicate key `{word}`{first}"), "remove one")
}

/// The first place of the key or section that is repeated there. A key counts in its section, a section in
/// the file.
fn earlier(text: &str, again: &Span) -> Option<usize> {
    let word = text.get(again.clone())?;
    let begin = text.get(..again.start)?.rfind('\n').map_or(0, |end| end + 1);
    let before = text.get(..begin)?;
    let header = |line: &str| line.trim_start().starts_with('[');
    let section = header(text.get(begin..)?);
    let (mut at, mut found) = (0, None);
    for line in before.split_inclusive('\n') {
        let name = line.trim_start();
        let same = match section {
            true => header(line) && name.trim_start_matches(['[', ' ']).starts_with(word),
            false => name.strip_prefix(word).is_some_and(|rest| rest.trim_start().starts_with('=')),
        };
        if !section && header(line) {
            found = None;
        }
        if same && found.is_none() {
            found = line.find(word).map(|column| at + column);
        }
        at += line.len();
    }
    found
}

/// Where the outermost list begins that is still open where this text ends: the header of the next section
/// looks like a list within it.
fn open_list(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    let mut quote: Option<&str> = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let at = text.len() - rest.len();
        let mut length = c.len_utf8();
        match quote {
            Some(end) if rest.starts_with(end) => (quote, length) = (None, end.len()),
            // Only the kind with double quotes knows an escape.
            Some(end) if end.starts_with('"') && c == '\\' => {
                length += rest.chars().nth(1).map_or(0, char::len_utf8);
            }
            Some(_) => {}
            None => match c {
                '#' => length = rest.find('\n').unwrap_or(rest.len()),
                '"' | '\'' => {
                    let kinds = ["\"\"\"", "\'\'\'", "\"", "\'"];
                    quote = kinds.into_iter().find(|kind| rest.starts_with(kind));
                    length = quote.map_or(1, str::len);
                }
                '[' => open.push(at),
                ']' => drop(open.pop()),
                _ => {}
            },
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    open.first().copied()
}
