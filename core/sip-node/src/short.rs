//! Small values that nearly always fit in place, so that no call pays an allocation for them.

use std::mem;
use std::ops::Deref;

/// A list that nearly always has one element.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Short<T> {
    #[default]
    None,
    One(T),
    More(Vec<T>),
}

impl<T> Short<T> {
    /// Appends one element.
    pub fn push(&mut self, item: T) {
        match self {
            Short::None => *self = Short::One(item),
            Short::More(all) => all.push(item),
            Short::One(_) => {
                if let Short::One(first) = mem::take(self) {
                    *self = Short::More(vec![first, item]);
                }
            }
        }
    }
}

impl<T: Clone> Short<T> {
    /// Puts one element before all others.
    pub fn push_front(&mut self, item: T) {
        let rest = mem::replace(self, Short::One(item));
        rest.iter().for_each(|item| self.push(item.clone()));
    }
}

impl<T> Deref for Short<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Short::None => &[],
            Short::One(item) => std::slice::from_ref(item),
            Short::More(all) => all,
        }
    }
}

/// Bytes of a text that is kept in place.
const ROOM: usize = 95;

/// A text that nearly always is as short as a URI.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    Here { len: u8, bytes: [u8; ROOM] },
    Heap(Vec<u8>),
}

impl From<&[u8]> for Text {
    fn from(text: &[u8]) -> Text {
        let mut bytes = [0; ROOM];
        match bytes.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text);
                Text::Here { len: text.len() as u8, bytes }
            }
            None => Text::Heap(text.to_vec()),
        }
    }
}

impl From<Vec<u8>> for Text {
    fn from(text: Vec<u8>) -> Text {
        Text::Heap(text)
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Here { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(b""),
            Text::Heap(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_any_length_is_in_order() {
        let mut list = Short::default();
        for n in 0..5 {
            assert_eq!(list.to_vec(), (0..n).collect::<Vec<_>>());
            list.push(n);
        }
        list.push_front(7);
        assert_eq!(list.to_vec(), [7, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_text_of_any_length_comes_back() {
        for len in [0, 1, ROOM - 1, ROOM, ROOM + 1, 300] {
            let text: Vec<u8> = (0..len).map(|n| n as u8).collect();
            assert_eq!(*Text::from(&text[..]), text[..]);
            assert_eq!(*Text::from(text.clone()), text[..]);
        }
    }
}
