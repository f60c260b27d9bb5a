//! Extensions that a request requires.

use sip_message::{Message, Name};

/// `Unsupported` with everything that a Require-like header lists and this server does not do, or
/// nothing if it does it all (sections 8.2.2.3, 16.3 step 5).
pub(crate) fn unsupported(request: &Message<'_>, name: Name) -> Option<Vec<u8>> {
    const KNOWN: [&[u8]; 2] = [b"path", b"outbound"];
    request.header(name)?;
    let mut line = Vec::new();
    let unknown = |v: &&[u8]| !(name == Name::Require && KNOWN.iter().any(|k| k.eq_ignore_ascii_case(v)));
    for value in request.values(name).filter(unknown) {
        line.extend_from_slice(if line.is_empty() { b"Unsupported: " } else { b", " });
        line.extend_from_slice(value);
    }
    if line.is_empty() {
        return None;
    }
    line.extend_from_slice(b"\r\n");
    Some(line)
}
