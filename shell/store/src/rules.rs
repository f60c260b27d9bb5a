//! What users have set for calls to them, in memory, and how commands and files write it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use call_forwarding::{Rules, When};
use hashbrown::HashTable;

use crate::names::NameKey;

/// Parts with a lock of their own.
const STRIPES: usize = 256;

/// The columns of a table or file, in order.
pub const RULE_COLUMNS: [&str; 7] = [
    "forward_always",
    "forward_busy",
    "forward_no_answer",
    "forward_unreachable",
    "also_ring",
    "ring_time",
    "do_not_disturb",
];

/// The columns that hold targets, in the order of [`When::ALL`].
const TARGETS: usize = When::ALL.len();

type Entry = (NameKey, Arc<Rules>);

/// The rules of those users who have some: some 100 bytes a user, and the targets.
pub(crate) struct RuleTable {
    stripes: Box<[RwLock<HashTable<Entry>>]>,
    users: AtomicUsize,
}

impl RuleTable {
    /// No user has rules.
    pub(crate) fn new() -> RuleTable {
        RuleTable {
            stripes: (0..STRIPES).map(|_| RwLock::new(HashTable::new())).collect(),
            users: AtomicUsize::new(0),
        }
    }

    /// How many users have rules.
    pub(crate) fn len(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// The rules of a user; `None`: it has none.
    pub(crate) fn get(&self, key: NameKey) -> Option<Arc<Rules>> {
        let stripe = self.stripe(key)?.read().unwrap_or_else(PoisonError::into_inner);
        stripe.find(key.0, |entry| entry.0 == key).map(|entry| Arc::clone(&entry.1))
    }

    /// Sets the rules of a user. Empty ones are none.
    pub(crate) fn set(&self, key: NameKey, rules: Rules) {
        let Some(stripe) = self.stripe(key) else { return };
        let mut stripe = stripe.write().unwrap_or_else(PoisonError::into_inner);
        match (stripe.find_entry(key.0, |entry| entry.0 == key), rules.is_empty()) {
            (Ok(found), true) => {
                found.remove();
                self.users.fetch_sub(1, Ordering::Relaxed);
            }
            (Ok(mut found), false) => found.get_mut().1 = Arc::new(rules),
            (Err(_), false) => {
                stripe.insert_unique(key.0, (key, Arc::new(rules)), |entry| entry.0.0);
                self.users.fetch_add(1, Ordering::Relaxed);
            }
            (Err(_), true) => {}
        }
    }

    /// Removes the rules of all users whose key `keep` does not hold.
    pub(crate) fn retain(&self, mut keep: impl FnMut(NameKey) -> bool) {
        for stripe in &self.stripes {
            let mut stripe = stripe.write().unwrap_or_else(PoisonError::into_inner);
            let before = stripe.len();
            stripe.retain(|entry| keep(entry.0));
            self.users.fetch_sub(before - stripe.len(), Ordering::Relaxed);
        }
    }

    fn stripe(&self, key: NameKey) -> Option<&RwLock<HashTable<Entry>>> {
        // The table inside uses the other half of the key.
        usize::try_from(key.1 % STRIPES as u64).ok().and_then(|index| self.stripes.get(index))
    }
}

/// The rules that these texts in the order of [`RULE_COLUMNS`] say. An empty text sets nothing.
///
/// # Errors
/// What is wrong with which column.
pub fn read_rules(texts: [&str; RULE_COLUMNS.len()]) -> Result<Rules, String> {
    let mut rules = Rules::default();
    let [targets @ .., also, ring_time, quiet] = texts;
    let wrong = |column: usize| {
        move |problem: &str| {
            format!("has a {} that {problem}", RULE_COLUMNS.get(column).copied().unwrap_or(""))
        }
    };
    for (column, (when, text)) in When::ALL.into_iter().zip(targets).enumerate() {
        rules.set_target(when, text).map_err(wrong(column))?;
    }
    rules.set_also(also.split_ascii_whitespace()).map_err(wrong(TARGETS))?;
    if !ring_time.is_empty() {
        let seconds: u16 = ring_time.parse().map_err(|_| wrong(TARGETS + 1)("is no number of seconds"))?;
        rules.set_ring_time(seconds).map_err(wrong(TARGETS + 1))?;
    }
    rules.set_do_not_disturb(match quiet.to_ascii_lowercase().as_str() {
        "" | "0" | "no" | "false" | "off" => false,
        "1" | "yes" | "true" | "on" => true,
        _ => return Err(wrong(TARGETS + 2)("is neither 0 nor 1")),
    });
    Ok(rules)
}

/// Rules as texts in the order of [`RULE_COLUMNS`].
pub fn rule_texts(rules: &Rules) -> [String; RULE_COLUMNS.len()] {
    let target = |when| rules.target(when).unwrap_or("").to_owned();
    let [always, busy, no_answer, unreachable] = When::ALL.map(target);
    let also: Vec<&str> = rules.also().collect();
    let ring_time = rules.ring_time().map_or(String::new(), |seconds| seconds.to_string());
    let quiet = if rules.do_not_disturb() { "1" } else { "" };
    [always, busy, no_answer, unreachable, also.join(" "), ring_time, quiet.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_back_from_their_texts() {
        let texts = ["+4930", "", "bob", "sip:x@y", "1 2", "25", "yes"];
        let rules = read_rules(texts).unwrap();
        assert_eq!(rule_texts(&rules), ["+4930", "", "bob", "sip:x@y", "1 2", "25", "1"]);
        assert!(read_rules([""; 7]).unwrap().is_empty());
    }

    #[test]
    fn wrong_texts_are_named_by_their_column() {
        for (column, text) in [
            (0, "a b"),
            (3, "http://x"),
            (4, "1 2 3 4 5"),
            (5, "soon"),
            (5, "601"),
            (5, "99999"),
            (6, "maybe"),
        ] {
            let mut texts = [""; 7];
            texts[column] = text;
            let problem = read_rules(texts).unwrap_err();
            assert!(problem.starts_with(&format!("has a {} that ", RULE_COLUMNS[column])), "{problem}");
        }
    }

    #[test]
    fn table_counts_users_with_rules() {
        let table = RuleTable::new();
        let rules = read_rules(["1", "", "", "", "", "", ""]).unwrap();
        let (one, two) = (NameKey(1, 1), NameKey(2, 1));
        table.set(one, rules.clone());
        table.set(two, rules.clone());
        table.set(two, rules.clone());
        assert_eq!((table.len(), table.get(two).as_deref()), (2, Some(&rules)));
        table.set(two, Rules::default());
        table.set(two, Rules::default());
        assert_eq!((table.len(), table.get(two)), (1, None));
        table.retain(|key| key != one);
        assert_eq!((table.len(), table.get(one)), (0, None));
    }
}
