//! What is wrong with a file that somebody wrote, and how to mend it.

use core::fmt;

/// One thing wrong in a scenario or an injection file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The file's name as it was given.
    pub file: String,
    /// The line, counted from 1; 0 if it is about the whole file.
    pub line: u32,
    /// The column in characters, counted from 1; 0 if it is about the whole line.
    pub column: u32,
    /// The element or keyword it is about, such as `recv` or `[len]`; empty if none.
    pub element: String,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub mend: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if self.column > 0 {
            write!(f, ":{}", self.column)?;
        }
        f.write_str(": ")?;
        if !self.element.is_empty() {
            write!(f, "{}: ", self.element)?;
        }
        f.write_str(&self.what)?;
        if self.mend.is_empty() { Ok(()) } else { write!(f, "; {}", self.mend) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_where_what_and_what_to_do() {
        let mut problem = Problem {
            file: "a.xml".into(),
            line: 3,
            column: 7,
            element: "<sendCmd>".into(),
            what: "third-party call control is not supported".into(),
            mend: "run two scenarios".into(),
        };
        let whole = "a.xml:3:7: <sendCmd>: third-party call control is not supported; run two scenarios";
        assert_eq!(problem.to_string(), whole);
        (problem.line, problem.column) = (0, 0);
        (problem.element, problem.mend) = (String::new(), String::new());
        assert_eq!(problem.to_string(), "a.xml: third-party call control is not supported");
    }
}
