//! The grammar as plain walks over bytes, one at a time: what the readers that look at many bytes at
//! once must agree with. Slow, and used by tests only.

pub(crate) mod scan;
pub(crate) mod values;

mod corpora;
mod tests;
