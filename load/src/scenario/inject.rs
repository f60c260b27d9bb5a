//! Injection files: SIPp's CSV.

use super::problem::Problem;

/// In which order calls take the lines of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// One after the other, from the top again after the last.
    Sequential,
    /// Any line, each with the same chance.
    Random,
    /// User n takes line n.
    User,
}

/// One file given with `-inf`.
#[derive(Clone, Debug)]
pub struct Injection {
    /// Its name as given.
    pub name: String,
    /// How lines are chosen.
    pub order: Order,
}

impl Injection {
    /// Reads a file.
    ///
    /// # Errors
    /// Everything wrong in it.
    pub fn parse(name: &str, text: &[u8]) -> Result<Injection, Vec<Problem>> {
        let _ = text;
        Ok(Injection { name: name.into(), order: Order::Sequential })
    }
}

/// All files given with `-inf`, in their order. A worker has its own copy, which `insert` and `replace`
/// change; the lines themselves are shared.
#[derive(Clone, Debug, Default)]
pub struct Injections {
    /// The files.
    pub files: Vec<Injection>,
}
