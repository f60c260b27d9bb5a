//! A slab of reusable slots. A freed slot keeps its memory, so that a steady state allocates nothing.

/// Something that lives in a [`Slab`].
pub trait Tenant: Default {
    /// Forgets everything but the memory.
    fn clear(&mut self);
}

impl<T: Tenant> Tenant for Box<T> {
    fn clear(&mut self) {
        (**self).clear();
    }
}

#[derive(Debug)]
struct Place<T> {
    /// Distinguishes the things that had this place one after the other. Odd: the place is taken.
    generation: u32,
    tenant: T,
}

/// Things by slot. A slot and its generation name one thing for good.
///
/// Things move when the slab grows: large ones are better boxed.
#[derive(Debug, Default)]
pub struct Slab<T> {
    all: Vec<Place<T>>,
    free: Vec<u32>,
}

/// Most slots, so that the name of a thing has two bits left beside slot and generation.
const MOST: usize = 1 << 29;

impl<T: Tenant> Slab<T> {
    /// An empty slab.
    pub fn new() -> Slab<T> {
        Slab { all: Vec::new(), free: Vec::new() }
    }

    /// A place for something new and its generation; `None` if all 2^29 are taken.
    pub fn take(&mut self) -> Option<(u32, u32)> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.all.len() >= MOST => return None,
            None => {
                self.all.push(Place { generation: 0, tenant: T::default() });
                (self.all.len() - 1) as u32
            }
        };
        let place = self.all.get_mut(slot as usize)?;
        place.generation = place.generation.wrapping_add(1);
        Some((slot, place.generation))
    }

    /// Frees a place. False if it was free.
    pub fn give(&mut self, slot: u32) -> bool {
        let Some(place) = self.all.get_mut(slot as usize).filter(|place| place.is_taken()) else {
            return false;
        };
        place.tenant.clear();
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        true
    }

    /// What has this place now, to be changed.
    #[inline(always)]
    pub fn at(&mut self, slot: u32) -> Option<&mut T> {
        let place = self.all.get_mut(slot as usize)?;
        place.is_taken().then_some(&mut place.tenant)
    }

    /// What has this place now.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> Option<&T> {
        let place = self.all.get(slot as usize)?;
        place.is_taken().then_some(&place.tenant)
    }

    /// What has this place, if it is of this generation.
    #[inline]
    pub fn find(&mut self, slot: u32, generation: u32) -> Option<&mut T> {
        let place = self.all.get_mut(slot as usize)?;
        (place.generation == generation && place.is_taken()).then_some(&mut place.tenant)
    }

    /// Whether this place is taken by something of this generation.
    #[inline]
    pub fn has(&self, slot: u32, generation: u32) -> bool {
        self.all.get(slot as usize).is_some_and(|place| place.generation == generation && place.is_taken())
    }

    /// The generation of a place.
    pub fn generation(&self, slot: u32) -> u32 {
        self.all.get(slot as usize).map_or(0, |place| place.generation)
    }

    /// How many places are taken.
    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Whether no place is taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All things.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().filter(|place| place.is_taken()).map(|place| &place.tenant)
    }

    /// The slots of all things.
    pub fn slots(&self) -> Vec<u32> {
        let taken = (0..).zip(&self.all).filter(|(_, place)| place.is_taken());
        taken.map(|(slot, _)| slot).collect()
    }
}

impl<T> Place<T> {
    #[inline(always)]
    fn is_taken(&self) -> bool {
        self.generation & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Text(Vec<u8>);

    impl Tenant for Text {
        fn clear(&mut self) {
            self.0.clear();
        }
    }

    #[test]
    fn places_are_used_again_under_another_name() {
        let mut slab = Slab::<Box<Text>>::new();
        let (slot, first) = slab.take().unwrap();
        slab.at(slot).unwrap().0.extend_from_slice(b"text");
        assert!(slab.give(slot) && !slab.give(slot), "it is free");
        assert!(slab.at(slot).is_none() && slab.find(slot, first).is_none() && slab.is_empty());
        let (again, second) = slab.take().unwrap();
        assert_eq!(again, slot);
        assert!(second != first && slab.find(slot, first).is_none() && !slab.has(slot, first));
        assert!(slab.has(slot, second) && slab.get(slot).is_some_and(|text| text.0.is_empty()));
        assert_eq!((slab.len(), slab.slots(), slab.iter().count()), (1, vec![slot], 1));
    }
}
