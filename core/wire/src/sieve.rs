//! What the kernel drops in an overload.

/// What the kernel is to drop for a worker, in the terms of the program that was loaded for it.
#[derive(Clone, Copy, Debug)]
pub struct Sieve<'a> {
    /// The numbers of the worker's entry in the table.
    pub words: &'a [u32],
    /// Bits of memory, by number: what passes from now on, whatever its share. Those that are new since the
    /// machine was asked last.
    pub known: &'a [u32],
}
