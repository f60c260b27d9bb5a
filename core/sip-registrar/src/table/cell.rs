//! The cell of one address of record: links of the index and the wheel, then key and bindings.
//!
//! ```text
//!  0  next cell of the same bucket          12  next cell of the same wheel slot
//!  4  hash of the key                       16  wheel slot
//!  8  previous cell of the wheel slot       18  number of bindings, key length, key, bindings
//! ```

use super::binding::Bindings;
use super::bytes::{Reader, push_bytes};

pub(crate) const CHAIN: usize = 0;
pub(crate) const HASH: usize = 4;
pub(crate) const PREV: usize = 8;
pub(crate) const NEXT: usize = 12;
pub(crate) const SLOT: usize = 16;
/// Length of the links; what follows is written as one piece.
pub(crate) const HEAD: usize = 18;

/// Starts the part after the links.
pub(crate) fn begin(out: &mut Vec<u8>, count: u8, aor: &[u8]) {
    out.push(count);
    push_bytes(out, aor);
}

/// Key and bindings of a cell.
pub(crate) fn open(cell: &[u8]) -> (&[u8], Bindings<'_>) {
    open_body(cell.get(HEAD..).unwrap_or_default())
}

/// Same, of the part after the links.
pub(crate) fn open_body(body: &[u8]) -> (&[u8], Bindings<'_>) {
    let mut from = Reader(body);
    let count = from.byte();
    let aor = from.bytes();
    (aor, Bindings::new(count, from.0))
}
