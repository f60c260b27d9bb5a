//! The settings of one user for calls to it.

use crate::reason::Reason;
use crate::target::check_target;
use crate::when::When;
use core::fmt;

/// Further numbers of a user that ring at once, at most.
pub const ALSO_MAX: usize = 4;
/// Longest ring time, seconds.
pub const RING_MAX: u16 = 600;
/// Texts of one user: the targets of [`When::ALL`], then the further numbers.
const TEXTS: usize = When::ALL.len() + ALSO_MAX;

/// What happens to a call before any phone of the user rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum First {
    /// It is forwarded.
    Forward(Reason),
    /// It is refused: the user does not want to be disturbed.
    Refuse,
    /// The phones ring.
    Ring,
}

/// What a user has set for calls to it: 32 bytes and the texts, which are at most 8 times 128 bytes.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// The texts, one behind the other.
    text: Box<str>,
    /// How long each of them is.
    lengths: [u8; TEXTS],
    /// Seconds; 0: what the operator has set.
    ring_time: u16,
    do_not_disturb: bool,
}

impl Rules {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Rules::default()
    }

    /// Where calls go in this case.
    pub fn target(&self, when: When) -> Option<&str> {
        let at = When::ALL.iter().position(|other| *other == when)?;
        Some(self.text_at(at)).filter(|text| !text.is_empty())
    }

    /// Numbers that ring at the same time as the phones.
    pub fn also(&self) -> impl Iterator<Item = &str> {
        (When::ALL.len()..TEXTS).map(|at| self.text_at(at)).filter(|text| !text.is_empty())
    }

    /// How long the phones ring, seconds, if the user has set it.
    pub fn ring_time(&self) -> Option<u16> {
        (self.ring_time > 0).then_some(self.ring_time)
    }

    /// Whether no phone rings.
    pub const fn do_not_disturb(&self) -> bool {
        self.do_not_disturb
    }

    /// What happens to a call before any phone rings.
    pub fn first(&self) -> First {
        if self.target(When::Always).is_some() {
            return First::Forward(Reason::Unconditional);
        }
        match (self.do_not_disturb, self.target(When::Busy)) {
            (false, _) => First::Ring,
            (true, Some(_)) => First::Forward(Reason::DoNotDisturb),
            (true, None) => First::Refuse,
        }
    }

    /// Where a call is forwarded to for this reason.
    pub fn forwards(&self, reason: Reason) -> Option<&str> {
        self.target(reason.when())
    }

    /// Sets where calls go in this case; an empty text: nowhere.
    ///
    /// # Errors
    /// What is wrong with the text ([`check_target`]); nothing is changed then.
    pub fn set_target(&mut self, when: When, text: &str) -> Result<(), &'static str> {
        if !text.is_empty() {
            check_target(text)?;
        }
        let mut texts = self.texts();
        if let Some(place) =
            When::ALL.iter().position(|other| *other == when).and_then(|at| texts.get_mut(at))
        {
            *place = text.to_owned();
        }
        self.put(&texts);
        Ok(())
    }

    /// Sets the numbers that ring at the same time.
    ///
    /// # Errors
    /// What is wrong with one of them, or that there are more than [`ALSO_MAX`]; nothing is changed then.
    pub fn set_also<'t>(&mut self, numbers: impl Iterator<Item = &'t str>) -> Result<(), &'static str> {
        let mut texts = self.texts();
        let (_, also) = texts.split_at_mut(When::ALL.len());
        also.iter_mut().for_each(String::clear);
        for (at, number) in numbers.enumerate() {
            check_target(number)?;
            *also.get_mut(at).ok_or("is one of more than 4 numbers that ring at once")? = number.to_owned();
        }
        self.put(&texts);
        Ok(())
    }

    /// Sets how long the phones ring; 0: as the operator has set it.
    ///
    /// # Errors
    /// If that is longer than [`RING_MAX`].
    pub fn set_ring_time(&mut self, seconds: u16) -> Result<(), &'static str> {
        if seconds > RING_MAX {
            return Err("is longer than 600 seconds");
        }
        self.ring_time = seconds;
        Ok(())
    }

    /// Sets whether no phone rings.
    pub fn set_do_not_disturb(&mut self, on: bool) {
        self.do_not_disturb = on;
    }

    /// Bytes of memory that this takes, the texts included.
    pub fn size(&self) -> usize {
        size_of::<Rules>() + self.text.len()
    }

    fn text_at(&self, at: usize) -> &str {
        let before: usize = self.lengths.iter().take(at).map(|length| usize::from(*length)).sum();
        let length = self.lengths.get(at).map_or(0, |length| usize::from(*length));
        self.text.get(before..before + length).unwrap_or("")
    }

    fn texts(&self) -> Vec<String> {
        (0..TEXTS).map(|at| self.text_at(at).to_owned()).collect()
    }

    /// Takes these texts, each of which was checked.
    fn put(&mut self, texts: &[String]) {
        for (length, text) in self.lengths.iter_mut().zip(texts) {
            *length = u8::try_from(text.len()).unwrap_or(0);
        }
        self.text = texts.concat().into();
    }
}

impl fmt::Debug for Rules {
    /// Without the numbers, which are nobody's business in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = When::ALL.into_iter().filter(|when| self.target(*when).is_some()).map(When::name);
        f.debug_list().entries(set).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TARGET_MAX;
    use proptest::prelude::*;

    const _: () = assert!(size_of::<Rules>() <= 32);
    const _: () = assert!(TARGET_MAX <= u8::MAX as usize);

    fn rules(always: &str, busy: &str, quiet: bool) -> Rules {
        let mut rules = Rules::default();
        rules.set_target(When::Always, always).unwrap();
        rules.set_target(When::Busy, busy).unwrap();
        rules.set_do_not_disturb(quiet);
        rules
    }

    #[test]
    fn always_comes_first_and_quiet_users_forward_as_busy() {
        for (always, busy, quiet, first) in [
            ("1", "2", true, First::Forward(Reason::Unconditional)),
            ("", "2", true, First::Forward(Reason::DoNotDisturb)),
            ("", "", true, First::Refuse),
            ("", "2", false, First::Ring),
            ("", "", false, First::Ring),
        ] {
            assert_eq!(rules(always, busy, quiet).first(), first);
        }
        let rules = rules("", "2", true);
        assert_eq!(
            (rules.forwards(Reason::DoNotDisturb), rules.forwards(Reason::NoAnswer)),
            (Some("2"), None)
        );
    }

    #[test]
    fn rules_refuse_what_is_too_much() {
        let mut rules = rules("1", "", false);
        let before = rules.clone();
        assert!(rules.set_also(["1", "2", "3", "4", "5"].into_iter()).is_err());
        assert!(rules.set_also(["1", "a b"].into_iter()).is_err());
        assert!(rules.set_target(When::Always, "a b").is_err());
        assert!(rules.set_ring_time(601).is_err());
        assert_eq!(rules, before);
        rules.set_target(When::Always, "").unwrap();
        assert!(rules.is_empty());
    }

    #[test]
    fn names_of_cases_come_back() {
        for when in When::ALL {
            assert_eq!(When::from_name(when.name()), Some(when));
        }
        assert_eq!(When::from_name("no-answer"), Some(When::NoAnswer));
        assert_eq!(When::from_name("sometimes"), None);
    }

    proptest! {
        #[test]
        fn rules_keep_what_was_set(
            targets in proptest::collection::vec("[+]?[0-9a-z]{0,128}", 4),
            also in proptest::collection::vec("[0-9]{1,20}", 0..=ALSO_MAX),
            seconds in 0_u16..=RING_MAX,
        ) {
            let mut rules = Rules::default();
            let fits = |text: &&String| text.len() <= TARGET_MAX && *text != "+";
            for (when, text) in When::ALL.into_iter().zip(targets.iter().map(Some)) {
                let text = text.filter(fits).map_or("", |text| text.as_str());
                prop_assert_eq!(rules.set_target(when, text), Ok(()));
            }
            prop_assert_eq!(rules.set_also(also.iter().map(String::as_str)), Ok(()));
            prop_assert_eq!(rules.set_ring_time(seconds), Ok(()));
            for (when, text) in When::ALL.into_iter().zip(&targets) {
                let wanted = Some(text).filter(fits).map(|text| text.as_str()).filter(|text| !text.is_empty());
                prop_assert_eq!(rules.target(when), wanted);
            }
            prop_assert!(rules.also().eq(also.iter().map(String::as_str)));
            prop_assert_eq!(rules.ring_time().unwrap_or(0), seconds);
            prop_assert!(rules.size() <= 32 + TEXTS * TARGET_MAX);
        }
    }
}
