//! Who the users are: names and passwords, made from a number or read from a file.

use crate::scenario::Injection;
use sip_message::{parse_u64, push_u64};

/// A text whose trailing digits count up from one user to the next; without such digits it is the same
/// for all.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Counted {
    before: Vec<u8>,
    first: u64,
    /// Digits at least; 0: there are none.
    width: usize,
}

impl Counted {
    fn new(text: &str) -> Option<Counted> {
        let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (before, digits) = text.split_at(text.len() - digits);
        let first = if digits.is_empty() { 0 } else { parse_u64(digits.as_bytes())? };
        // Room for every user that there can be.
        first.checked_add(1 << 40)?;
        Some(Counted { before: before.as_bytes().to_vec(), first, width: digits.len() })
    }

    fn write(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.before);
        if self.width == 0 {
            return;
        }
        let start = out.len();
        push_u64(self.first + number, out);
        let missing = self.width.saturating_sub(out.len() - start);
        out.splice(start..start, core::iter::repeat_n(b'0', missing));
    }
}

#[derive(Clone, Debug)]
enum Source {
    Counted { user: Counted, password: Counted },
    Listed(Injection),
}

/// The names and passwords of all users.
#[derive(Clone, Debug)]
pub struct Names(Source);

impl Names {
    /// User n is called `user` with n added to the number at its end, and its password is made from
    /// `password` in the same way. The number keeps its leading zeros. A password without a number at
    /// its end is everybody's.
    pub fn counted(user: &str, password: &str) -> Result<Names, String> {
        let read = |what: &str, text: &str| {
            Counted::new(text).ok_or_else(|| format!("{what} {text}: the number at its end is too large"))
        };
        let (user, password) = (read("user", user)?, read("password", password)?);
        if user.width == 0 {
            return Err("the first user's name must end with a number, such as u1000000".to_owned());
        }
        Ok(Names(Source::Counted { user, password }))
    }

    /// User n is that of line n: field 0 is the name, field 1 the password. `users` lines are needed.
    pub fn listed(file: Injection, users: u64) -> Result<Names, String> {
        if u64::from(file.lines()) < users {
            return Err(format!("{}: {} lines are too few for {users} users", file.name, file.lines()));
        }
        let has_both = |line| file.write(line, 0, &mut Vec::new()) && file.write(line, 1, &mut Vec::new());
        if let Some(line) = (0..users as u32).find(|&line| !has_both(line)) {
            return Err(format!("{}: user {}: a line is NAME;PASSWORD", file.name, line + 1));
        }
        Ok(Names(Source::Listed(file)))
    }

    /// Appends the name of user `number`, from 0.
    pub fn user(&self, number: u64, out: &mut Vec<u8>) {
        match &self.0 {
            Source::Counted { user, .. } => user.write(number, out),
            Source::Listed(file) => {
                file.write(number as u32, 0, out);
            }
        }
    }

    /// Appends its password.
    pub fn password(&self, number: u64, out: &mut Vec<u8>) {
        match &self.0 {
            Source::Counted { password, .. } => password.write(number, out),
            Source::Listed(file) => {
                file.write(number as u32, 1, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &Names, number: u64) -> (String, String) {
        let (mut user, mut password) = (Vec::new(), Vec::new());
        names.user(number, &mut user);
        names.password(number, &mut password);
        (String::from_utf8(user).unwrap(), String::from_utf8(password).unwrap())
    }

    fn pair(user: &str, password: &str) -> (String, String) {
        (user.to_owned(), password.to_owned())
    }

    #[test]
    fn numbers_at_the_end_count_up() {
        let names = Names::counted("u1000000", "p1000000").unwrap();
        assert_eq!(of(&names, 0), pair("u1000000", "p1000000"));
        assert_eq!(of(&names, 234_567), pair("u1234567", "p1234567"));
        assert_eq!(of(&names, 9_000_000), pair("u10000000", "p10000000"));
        let names = Names::counted("room007", "secret").unwrap();
        assert_eq!(of(&names, 5), pair("room012", "secret"));
        assert!(Names::counted("alice", "p").unwrap_err().contains("must end with a number"));
        assert!(Names::counted("u99999999999999999999", "p").unwrap_err().contains("too large"));
    }

    #[test]
    fn a_file_gives_names_of_any_form() {
        let file = |text: &[u8]| Injection::parse("u.csv", text).unwrap();
        let names = Names::listed(file(b"USERS\nann;x\nbob;y;z\n"), 2).unwrap();
        assert_eq!((of(&names, 0), of(&names, 1)), (pair("ann", "x"), pair("bob", "y")));
        assert!(Names::listed(file(b"USERS\nann;x\n"), 2).unwrap_err().contains("too few"));
        assert!(Names::listed(file(b"USERS\nann;x\nbob\n"), 2).unwrap_err().contains("user 2"));
    }
}
