//! The last of many sorted keys that is not greater than one.

use crate::digits::Digits;

/// Keys of a level below one key of the level above: four cache lines.
const RUN: usize = 16;

/// Sorted keys without duplicates, and above them levels of every sixteenth key of the level below.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// From the keys themselves to a level of at most [`RUN`].
    levels: Vec<Box<[Digits]>>,
}

impl Index {
    /// Of keys in ascending order.
    pub fn new(keys: Vec<Digits>) -> Index {
        let mut levels = Vec::new();
        if !keys.is_empty() {
            levels.push(keys.into_boxed_slice());
        }
        while let Some(below) = levels.last().filter(|below| below.len() > RUN) {
            levels.push(below.iter().step_by(RUN).copied().collect());
        }
        Index { levels }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.levels.first().map_or(0, |keys| keys.len())
    }

    /// The key at a place.
    pub fn get(&self, at: usize) -> Option<Digits> {
        self.levels.first()?.get(at).copied()
    }

    /// The place of the last key that is not greater than this one.
    pub fn last_up_to(&self, key: Digits) -> Option<usize> {
        let mut place = None;
        for level in self.levels.iter().rev() {
            let begin = place.map_or(0, |place: usize| place * RUN);
            let run = level.get(begin..(begin + RUN).min(level.len()))?;
            // Without a branch for each key: they are all compared.
            let up_to = run.iter().map(|other| usize::from(*other <= key)).sum::<usize>();
            // The first key of a run is not greater, because that of the level above is not.
            place = Some(begin + up_to.checked_sub(1)?);
        }
        place
    }

    /// Memory of all levels, bytes.
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| size_of_val(&**level)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_finds_what_a_scan_finds_at_all_sizes() {
        for count in [0, 1, 2, 15, 16, 17, 255, 256, 257, 4_095, 4_096, 4_097] {
            // Every other number, so that there is something between two keys.
            let key = |number: usize| Digits::parse(format!("{number:06}").as_bytes()).unwrap();
            let keys: Vec<Digits> = (0..count).map(|number| key(2 * number + 1)).collect();
            let index = Index::new(keys.clone());
            assert_eq!(index.len(), count);
            for number in 0..2 * count + 2 {
                let wanted = keys.partition_point(|other| *other <= key(number)).checked_sub(1);
                assert_eq!(index.last_up_to(key(number)), wanted, "{number} of {count}");
            }
        }
    }
}
