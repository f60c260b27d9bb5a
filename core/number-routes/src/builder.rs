//! From rows to a table.

use crate::digits::Digits;
use crate::table::{NO_PARENT, RouteTable, Way};
use crate::{MAX_ROWS, MAX_WAYS};

/// A row, 32 bytes.
#[derive(Clone, Copy)]
struct Row {
    prefix: Digits,
    way: Way,
}

/// Takes the rows of a table.
pub struct Builder {
    trunks: Vec<Vec<u8>>,
    rows: Vec<Row>,
}

/// There are [`MAX_ROWS`] rows already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Rows that contradict each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// A prefix has the same trunk twice.
    Twice {
        /// The prefix.
        prefix: Digits,
        /// The trunk, by its place.
        trunk: u16,
        /// The line of the first row.
        first: u32,
        /// The line of the second row.
        line: u32,
    },
    /// A prefix has more than [`MAX_WAYS`] ways.
    TooMany {
        /// The prefix.
        prefix: Digits,
        /// The line of the last of its rows.
        line: u32,
    },
}

/// What keeps rows from being a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflicts {
    /// Some of the conflicts, in the order of prefixes.
    pub listed: Vec<Conflict>,
    /// How many there are.
    pub count: usize,
}

impl Builder {
    /// Of a table whose ways lead over these trunks.
    pub const fn new(trunks: Vec<Vec<u8>>) -> Builder {
        Builder { trunks, rows: Vec::new() }
    }

    /// Adds a row. Of rows that are added one after the other, the lines ascend.
    ///
    /// # Errors
    /// There are too many rows.
    pub fn add(&mut self, prefix: Digits, way: Way) -> Result<(), Full> {
        if self.rows.len() == MAX_ROWS {
            return Err(Full);
        }
        self.rows.push(Row { prefix, way });
        Ok(())
    }

    /// The table of all rows.
    ///
    /// # Errors
    /// Rows contradict each other. At most `listed` of the conflicts are listed, all are counted.
    pub fn finish(self, listed: usize) -> Result<RouteTable, Conflicts> {
        let Builder { trunks, mut rows } = self;
        rows.sort_unstable_by_key(|Row { prefix, way }| (*prefix, way.priority, way.cost, way.line));
        let mut conflicts = Conflicts { listed: Vec::new(), count: 0 };
        for group in rows.chunk_by(|one, other| one.prefix == other.prefix) {
            conflicts.look(group, listed);
        }
        if conflicts.count > 0 {
            return Err(conflicts);
        }
        let groups = || rows.chunk_by(|one, other| one.prefix == other.prefix);
        let count = groups().count();
        let (mut keys, mut parents) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut ends, mut end) = (Vec::with_capacity(count), 0);
        // Prefixes of the one before, each with its place, the shortest first: at most MAX_DIGITS.
        let mut open: Vec<(Digits, u32)> = Vec::new();
        for group in groups() {
            let Some(Row { prefix, .. }) = group.first() else { continue };
            while open.last().is_some_and(|(other, _)| !prefix.starts_with(*other)) {
                open.pop();
            }
            parents.push(open.last().map_or(NO_PARENT, |(_, place)| *place));
            // MAX_ROWS is far below the range.
            open.push((*prefix, keys.len() as u32));
            keys.push(*prefix);
            end += group.len() as u32;
            ends.push(end);
        }
        let ways = rows.iter().map(|row| row.way).collect();
        Ok(RouteTable::new(trunks, keys, parents, ends, ways))
    }
}

impl Conflicts {
    /// Looks for conflicts among the rows of one prefix.
    fn look(&mut self, group: &[Row], listed: usize) {
        if group.len() > MAX_WAYS {
            let last = group.iter().max_by_key(|row| row.way.line);
            let found = last.map(|row| Conflict::TooMany { prefix: row.prefix, line: row.way.line });
            return found.into_iter().for_each(|found| self.add(found, listed));
        }
        for (at, Row { prefix, way }) in group.iter().enumerate() {
            if let Some(other) = group.iter().take(at).find(|other| other.way.trunk == way.trunk) {
                let (first, line) = (other.way.line.min(way.line), other.way.line.max(way.line));
                self.add(Conflict::Twice { prefix: *prefix, trunk: way.trunk, first, line }, listed);
            }
        }
    }

    fn add(&mut self, conflict: Conflict, listed: usize) {
        self.count += 1;
        if self.listed.len() < listed {
            self.listed.push(conflict);
        }
    }
}
