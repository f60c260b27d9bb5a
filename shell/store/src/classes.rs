//! The classes of users that have one of their own, in memory, for the data path.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use hashbrown::HashTable;

use crate::names::NameKey;

/// Longest name of a class, in bytes.
pub const MAX_CLASS: usize = 31;

/// Parts with a lock of their own.
const STRIPES: usize = 256;

/// Checks the name of a class. The message says what is wrong without repeating the input.
///
/// # Errors
/// What is wrong with it.
pub fn check_class(class: &str) -> Result<(), &'static str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match (1..=MAX_CLASS).contains(&class.len()) && class.bytes().all(fits) {
        true => Ok(()),
        false => Err("the name of a class has letters, digits, `-`, `_` and `.`, at most 31"),
    }
}

/// The name of a class; what is beyond [`MAX_CLASS`] bytes is cut off.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Class {
    text: [u8; MAX_CLASS],
    len: u8,
}

impl Class {
    fn new(name: &[u8]) -> Class {
        let mut text = [0; MAX_CLASS];
        text.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        // It is at most 31.
        Class { text, len: name.len().min(MAX_CLASS) as u8 }
    }

    fn as_bytes(&self) -> &[u8] {
        self.text.get(..usize::from(self.len)).unwrap_or_default()
    }
}

struct Entry {
    key: NameKey,
    class: Class,
}

/// Which users have which class.
pub(crate) struct ClassTable {
    stripes: Box<[RwLock<HashTable<Entry>>]>,
    users: AtomicUsize,
}

impl fmt::Debug for ClassTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClassTable({} users)", self.users.load(Ordering::Relaxed))
    }
}

impl ClassTable {
    pub(crate) fn new() -> ClassTable {
        let stripes = (0..STRIPES).map(|_| RwLock::new(HashTable::new())).collect();
        ClassTable { stripes, users: AtomicUsize::new(0) }
    }

    /// Calls `f` with the name of the class of a user. A reader's lock is held during the call.
    pub(crate) fn get<R>(&self, key: NameKey, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let stripe = self.stripe(key)?.read().unwrap_or_else(PoisonError::into_inner);
        stripe.find(key.0, |entry| entry.key == key).map(|entry| f(entry.class.as_bytes()))
    }

    /// Whether no user has one.
    pub(crate) fn is_empty(&self) -> bool {
        self.users.load(Ordering::Relaxed) == 0
    }

    /// Sets the class of a user; empty: it has none of its own.
    pub(crate) fn set(&self, key: NameKey, class: &[u8]) {
        let Some(stripe) = self.stripe(key) else { return };
        let mut stripe = stripe.write().unwrap_or_else(PoisonError::into_inner);
        match (stripe.find_entry(key.0, |entry| entry.key == key), class) {
            (Ok(found), b"") => {
                found.remove();
                self.users.fetch_sub(1, Ordering::Relaxed);
            }
            (Ok(mut found), class) => found.get_mut().class = Class::new(class),
            (Err(_), b"") => {}
            (Err(_), class) => {
                // Before it is there: a reader that finds none skips the table.
                self.users.fetch_add(1, Ordering::Relaxed);
                stripe.insert_unique(key.0, Entry { key, class: Class::new(class) }, |entry| entry.key.0);
            }
        }
    }

    /// Forgets the classes of users whose keys `keep` does not hold.
    pub(crate) fn retain(&self, mut keep: impl FnMut(NameKey) -> bool) {
        for stripe in &self.stripes {
            let mut stripe = stripe.write().unwrap_or_else(PoisonError::into_inner);
            let before = stripe.len();
            stripe.retain(|entry| keep(entry.key));
            self.users.fetch_sub(before - stripe.len(), Ordering::Relaxed);
        }
    }

    /// How many users have each class.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for stripe in &self.stripes {
            for entry in stripe.read().unwrap_or_else(PoisonError::into_inner).iter() {
                let name = String::from_utf8_lossy(entry.class.as_bytes()).into_owned();
                *counts.entry(name).or_insert(0) += 1;
            }
        }
        counts
    }

    fn stripe(&self, key: NameKey) -> Option<&RwLock<HashTable<Entry>>> {
        // The table inside uses the other half of the key.
        usize::try_from(key.1 % STRIPES as u64).ok().and_then(|index| self.stripes.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_come_change_and_go() {
        let table = ClassTable::new();
        let text = |key| table.get(NameKey(key, key), |class| String::from_utf8(class.to_vec()).unwrap());
        assert!(table.is_empty());
        for (key, class) in [(1, &b"staff"[..]), (2, b"guest"), (3, b"guest"), (1, b"boss"), (4, b"")] {
            table.set(NameKey(key, key), class);
        }
        assert_eq!((text(1).as_deref(), text(2).as_deref(), text(4)), (Some("boss"), Some("guest"), None));
        assert_eq!(table.counts(), BTreeMap::from([("boss".to_owned(), 1), ("guest".to_owned(), 2)]));
        table.set(NameKey(2, 2), b"");
        table.retain(|key| key.0 == 3);
        assert_eq!((text(1), text(2), text(3).as_deref()), (None, None, Some("guest")));
        table.retain(|_| false);
        assert!(table.is_empty());
    }

    #[test]
    fn names_of_classes_have_few_characters() {
        for good in ["a", "staff-2", "night_shift", "x.y", &"x".repeat(MAX_CLASS)] {
            assert_eq!(check_class(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "a\"", "\u{e4}", "a\r\n", &"x".repeat(MAX_CLASS + 1)] {
            assert!(check_class(bad).is_err(), "{bad}");
        }
        let table = ClassTable::new();
        table.set(NameKey(1, 1), &[b'x'; 90]);
        assert_eq!(table.get(NameKey(1, 1), <[u8]>::len), Some(MAX_CLASS));
    }
}
