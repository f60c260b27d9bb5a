//! The table that calls are looked up in.

use crate::digits::Digits;
use crate::index::Index;

/// No prefix of the table begins this one.
pub(crate) const NO_PARENT: u32 = u32::MAX;

/// One way of a prefix: a row of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// The trunk, by its place in [`RouteTable::trunks`].
    pub trunk: u16,
    /// What is tried first has the lower one.
    pub priority: u16,
    /// Of equal priority the cheaper way is tried first. The unit is up to the operator; millionths of it.
    pub cost: u32,
    /// The line of the row, for people. Of equal cost the way with the lower one is tried first.
    pub line: u32,
}

/// A prefix that a number begins with, and its ways in the order in which they are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match<'t> {
    /// The longest prefix in the table.
    pub prefix: Digits,
    /// At least one.
    pub ways: &'t [Way],
}

/// Prefixes of called numbers with the trunks that serve them. The default has none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RouteTable {
    /// Names of the trunks.
    trunks: Vec<Vec<u8>>,
    /// Prefixes in ascending order.
    prefixes: Index,
    /// The place of the longest other prefix that begins each.
    parents: Box<[u32]>,
    /// Where the ways of each prefix end.
    ends: Box<[u32]>,
    ways: Box<[Way]>,
}

impl RouteTable {
    /// Of parts that fit: `keys` ascend, and each has a parent and an end.
    pub(crate) fn new(
        trunks: Vec<Vec<u8>>,
        keys: Vec<Digits>,
        parents: Vec<u32>,
        ends: Vec<u32>,
        ways: Vec<Way>,
    ) -> RouteTable {
        RouteTable {
            trunks,
            prefixes: Index::new(keys),
            parents: parents.into_boxed_slice(),
            ends: ends.into_boxed_slice(),
            ways: ways.into_boxed_slice(),
        }
    }

    /// The longest prefix of a number, and the ways of it.
    pub fn find(&self, number: Digits) -> Option<Match<'_>> {
        // Whatever is between a prefix of the number and the number itself has that prefix too. So the
        // longest one is the last key up to the number, or one that begins that key.
        let mut at = self.prefixes.last_up_to(number)?;
        loop {
            let prefix = self.prefixes.get(at)?;
            if number.starts_with(prefix) {
                return Some(Match { prefix, ways: self.ways_at(at)? });
            }
            at = *self.parents.get(at)? as usize;
        }
    }

    /// The ways of the prefix at a place.
    fn ways_at(&self, at: usize) -> Option<&[Way]> {
        let begin = match at.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.ways.get(begin as usize..*self.ends.get(at)? as usize)
    }

    /// The names of the trunks that ways lead over.
    pub fn trunks(&self) -> &[Vec<u8>] {
        &self.trunks
    }

    /// How many rows there are.
    pub const fn rows(&self) -> usize {
        self.ways.len()
    }

    /// How many prefixes there are.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether there are no rows.
    pub const fn is_empty(&self) -> bool {
        self.ways.is_empty()
    }

    /// The memory that it takes, bytes, without the names of trunks.
    pub fn bytes(&self) -> usize {
        self.prefixes.bytes()
            + size_of_val(&*self.parents)
            + size_of_val(&*self.ends)
            + size_of_val(&*self.ways)
    }
}
