//! Records by their places.

/// No place.
pub(super) const NIL: u32 = u32::MAX;

/// A call, by its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(pub u32);

/// A transaction, by its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TxnPlace(pub(super) u32);
