//! Allowed and denied beginnings of called numbers.

use crate::number::Readings;
use crate::rule::Rule;
use number_routes::Digits;

/// Prefixes of one class at most.
pub const MOST_PREFIXES: usize = 10_000;

/// No other prefix begins this one.
const NO_PARENT: u16 = u16::MAX;

/// A prefix that is both allowed and denied, or stands in a list twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Twice(pub Digits);

#[derive(Clone, Copy, Debug)]
struct Entry {
    prefix: Digits,
    allowed: bool,
    /// The place of the longest other prefix that begins this one.
    parent: u16,
}

/// Beginnings of called numbers. Of those that a number begins with the longest decides.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    /// In ascending order, so that a prefix comes before its continuations.
    entries: Box<[Entry]>,
    /// Whether there are allowed ones: what begins with none of them is refused then.
    listed: bool,
}

impl Prefixes {
    /// Of two lists, at most [`MOST_PREFIXES`] together. Without allowed ones
    /// everything is allowed that is not denied.
    ///
    /// # Errors
    /// A prefix stands in them twice.
    pub fn new(allowed: &[Digits], denied: &[Digits]) -> Result<Prefixes, Twice> {
        let with = |list: &[Digits], allowed| {
            list.iter().map(move |&prefix| Entry { prefix, allowed, parent: NO_PARENT }).collect::<Vec<_>>()
        };
        let mut entries = [with(allowed, true), with(denied, false)].concat();
        entries.truncate(MOST_PREFIXES);
        entries.sort_by_key(|entry| entry.prefix);
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].prefix == pair[1].prefix) {
            return Err(Twice(pair[0].prefix));
        }
        // The prefixes that begin the present one.
        let mut open: Vec<u16> = Vec::new();
        for at in 0..entries.len() {
            let prefix = entries[at].prefix;
            while open.last().is_some_and(|&last| !prefix.starts_with(entries[usize::from(last)].prefix)) {
                open.pop();
            }
            entries[at].parent = open.last().copied().unwrap_or(NO_PARENT);
            open.push(at as u16);
        }
        Ok(Prefixes { entries: entries.into(), listed: !allowed.is_empty() })
    }

    /// Whether no prefix is denied.
    pub fn denies_nothing(&self) -> bool {
        self.entries.iter().all(|entry| entry.allowed)
    }

    /// The longest prefix that a number begins with, and whether it is allowed.
    fn longest(&self, number: Digits) -> Option<(Digits, bool)> {
        let after = self.entries.partition_point(|entry| entry.prefix <= number);
        let mut at = after.checked_sub(1)?;
        loop {
            let entry = self.entries.get(at)?;
            if number.starts_with(entry.prefix) {
                return Some((entry.prefix, entry.allowed));
            }
            at = usize::from(entry.parent);
        }
    }

    /// Whether a number is allowed, as one reading has it.
    pub fn allows(&self, number: Digits) -> bool {
        self.longest(number).map_or(!self.listed, |(_, allowed)| allowed)
    }

    /// The prefix that a number is denied by, as one reading has it.
    pub fn denies(&self, number: Digits) -> Option<Digits> {
        self.longest(number).filter(|(_, allowed)| !allowed).map(|(prefix, _)| prefix)
    }

    /// Whether a number may be called. A single reading that is denied denies it. What is to be allowed must
    /// be so as it leaves, if it leaves as a global number; otherwise in one of its readings.
    ///
    /// # Errors
    /// The rule that refuses it.
    pub fn judge(&self, readings: &Readings) -> Result<(), Rule> {
        if let Some(prefix) = readings.all().find_map(|digits| self.denies(digits)) {
            return Err(Rule::Denied(prefix));
        }
        if !self.listed {
            return Ok(());
        }
        let listed = |digits: Digits| self.longest(digits).is_some();
        let plus = Digits::dialled(b"+");
        let mut global = readings.leaving().filter(|digits| digits.starts_with(plus)).peekable();
        let passes = match global.peek() {
            Some(_) => global.all(listed),
            None => readings.all().any(listed),
        };
        if passes { Ok(()) } else { Err(Rule::Unlisted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;
    use proptest::prelude::*;

    fn digits(text: &str) -> Digits {
        Digits::parse(text.as_bytes()).unwrap()
    }

    fn prefixes(allowed: &[&str], denied: &[&str]) -> Prefixes {
        let list = |list: &[&str]| list.iter().map(|text| digits(text)).collect::<Vec<_>>();
        Prefixes::new(&list(allowed), &list(denied)).unwrap()
    }

    fn judge(prefixes: &Prefixes, sent: &str, dialled: &str) -> Result<(), Rule> {
        let mut readings = Readings::default();
        readings.sent(Number::of(sent.as_bytes()).digits());
        readings.dialled(Number::of(dialled.as_bytes()).digits());
        prefixes.judge(&readings)
    }

    #[test]
    fn longest_prefix_decides_between_lists() {
        let some = prefixes(&["+49", "+4490012"], &["+4990", "+44900", "+49900123"]);
        for (number, allowed) in [
            ("+4930", true),
            ("+49", true),
            ("+4", false),
            ("+49901", false),
            ("+49900123", false),
            ("+44900", false),
            ("+4490012", true),
            ("+449001", false),
            ("+1", false),
            ("0", false),
        ] {
            assert_eq!(some.allows(digits(number)), allowed, "{number}");
        }
        assert_eq!(some.denies(digits("+4990012")), Some(digits("+4990")));
        assert!(prefixes(&[], &["+1"]).allows(digits("+2")) && Prefixes::default().denies_nothing());
    }

    #[test]
    fn prefix_in_both_lists_is_reported() {
        assert_eq!(Prefixes::new(&[digits("+1")], &[digits("+1")]).unwrap_err(), Twice(digits("+1")));
    }

    #[test]
    fn denied_reading_wins_over_an_allowed_one() {
        let some = prefixes(&["+44", "0"], &["+44900", "0900"]);
        assert_eq!(judge(&some, "+4420", "020"), Ok(()));
        assert_eq!(judge(&some, "+44900", "0"), Err(Rule::Denied(digits("+44900"))));
        assert_eq!(judge(&some, "09001", "9009001"), Err(Rule::Denied(digits("0900"))));
        // An outside line: as it was dialled the number is in no list.
        assert_eq!(judge(&some, "020", "9020"), Ok(()));
    }

    #[test]
    fn global_number_must_be_allowed_as_it_leaves() {
        let some = prefixes(&["+49"], &[]);
        assert_eq!(judge(&some, "+1555", "+4930"), Err(Rule::Unlisted));
        assert_eq!(judge(&some, "030", "+4930"), Ok(()));
        assert_eq!(judge(&some, "alice", "alice"), Err(Rule::Unlisted));
        assert_eq!(judge(&prefixes(&[], &["+49"]), "alice", "alice"), Ok(()));
    }

    proptest! {
        #[test]
        fn search_finds_what_a_scan_finds(
            lists in prop::collection::btree_map("[+]?[0-3]{1,4}", any::<bool>(), 0..40),
            number in "[+]?[0-3]{1,8}",
        ) {
            let of = |wanted: bool| {
                lists.iter().filter(|(_, allowed)| **allowed == wanted).map(|(p, _)| digits(p)).collect::<Vec<_>>()
            };
            let prefixes = Prefixes::new(&of(true), &of(false)).unwrap();
            let scan = lists.iter().filter(|(p, _)| number.starts_with(&p[..])).max_by_key(|(p, _)| p.len());
            let expected = scan.map_or(of(true).is_empty(), |(_, allowed)| *allowed);
            prop_assert_eq!(prefixes.allows(digits(&number)), expected);
        }
    }
}
