//! The head of an HTTP message (RFC 9112), read strictly.

/// Bytes of a head at most, the empty line included.
const MAX_HEAD: usize = 16 * 1024;
/// Header fields at most.
const MAX_FIELDS: usize = 100;

/// What has been received of the peer's part of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received<T> {
    /// Not all of it: read more and ask again.
    Partial {
        /// To be given with the same bytes and more, so that each byte is looked at once.
        resume: usize,
    },
    /// All of it.
    Whole(T),
}

/// What is wrong with a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeadFault {
    /// It has more than 16 KiB.
    TooLarge,
    /// It has more than 100 fields.
    TooManyFields,
    /// A line does not end with CRLF, is no field, or has a control character.
    BadField,
    /// A field is continued on a second line.
    Folded,
}

/// The length of the head that `buffer` begins with, its empty line included.
pub(crate) fn end_of_head(buffer: &[u8], resume: usize) -> Result<Received<usize>, HeadFault> {
    let head = &buffer[..buffer.len().min(MAX_HEAD)];
    for at in resume..head.len() {
        if head[at] != b'\n' {
            continue;
        }
        if !head[..at].ends_with(b"\r") {
            return Err(HeadFault::BadField);
        }
        if head[..at].ends_with(b"\r\n\r") {
            return Ok(Received::Whole(at + 1));
        }
    }
    if buffer.len() >= MAX_HEAD {
        Err(HeadFault::TooLarge)
    } else {
        Ok(Received::Partial { resume: head.len() })
    }
}

/// The first line of a head, and its fields.
pub(crate) fn split(head: &[u8]) -> Result<(&[u8], Fields<'_>), HeadFault> {
    let (first, rest) = split_line(head).ok_or(HeadFault::BadField)?;
    let mut left = rest;
    for fields in 0.. {
        let (line, after) = split_line(left).ok_or(HeadFault::BadField)?;
        if line.is_empty() {
            break;
        }
        if fields == MAX_FIELDS {
            return Err(HeadFault::TooManyFields);
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(HeadFault::Folded);
        }
        let (name, value) = split_field(line).ok_or(HeadFault::BadField)?;
        if name.is_empty() || !name.iter().all(is_token) || !value.iter().all(is_text) {
            return Err(HeadFault::BadField);
        }
        left = after;
    }
    Ok((first, Fields { rest }))
}

/// The header fields of a head, as names and values without white space around them.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The values of the fields with this name, in any case.
    pub fn values(self, name: &'static str) -> FieldValues<'a> {
        FieldValues { fields: self, name }
    }

    /// The value of a field that may be there once; an error if it is there more than once.
    pub(crate) fn single(self, name: &'static str) -> Result<Option<&'a [u8]>, ()> {
        let mut values = self.values(name);
        let value = values.next();
        if values.next().is_some() { Err(()) } else { Ok(value) }
    }

    /// The members of the comma-separated list that all fields with this name make together.
    pub(crate) fn list(self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        let members = self.values(name).flat_map(|value| value.split(|&byte| byte == b','));
        members.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
    }

    /// Whether that list has this token, in any case.
    pub(crate) fn lists(self, name: &'static str, token: &str) -> bool {
        self.list(name).any(|member| member.eq_ignore_ascii_case(token.as_bytes()))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let (line, rest) = split_line(self.rest)?;
        self.rest = rest;
        split_field(line)
    }
}

/// The values of the fields with one name.
#[derive(Clone, Copy, Debug)]
pub struct FieldValues<'a> {
    fields: Fields<'a>,
    name: &'static str,
}

impl<'a> Iterator for FieldValues<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let name = self.name.as_bytes();
        self.fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A line, and what follows its CRLF.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

/// The name and the value of a field.
fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

/// Whether a byte may be in a token (RFC 9110 section 5.6.2).
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Whether a byte may be in the value of a field: no control character but the tab.
pub(crate) fn is_text(byte: &u8) -> bool {
    !byte.is_ascii_control() || *byte == b'\t'
}
