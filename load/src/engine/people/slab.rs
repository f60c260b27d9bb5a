//! Room for things that come and go. What is freed is kept with the memory of its texts, so that a
//! steady state allocates nothing.

/// Something that lives in a [`Slab`].
pub trait Tenant: Default {
    /// Forgets everything but the memory.
    fn clear(&mut self);
}

struct Place<T> {
    /// Distinguishes those who lived here one after the other. Odd: somebody does now.
    generation: u32,
    tenant: T,
}

/// The things of one worker, by slot.
pub struct Slab<T> {
    all: Vec<Place<T>>,
    free: Vec<u32>,
}

/// Most slots; a name of a thing leaves two bits beside them.
const MOST: usize = 1 << 29;

impl<T: Tenant> Slab<T> {
    /// Nothing.
    pub fn new() -> Slab<T> {
        Slab { all: Vec::new(), free: Vec::new() }
    }

    /// A place for something new and its generation; `None` if there is none.
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

    /// Frees a place.
    pub fn give(&mut self, slot: u32) {
        if let Some(place) = self.all.get_mut(slot as usize).filter(|place| place.generation & 1 == 1) {
            place.tenant.clear();
            place.generation = place.generation.wrapping_add(1);
            self.free.push(slot);
        }
    }

    /// What lives there now.
    pub fn at(&mut self, slot: u32) -> Option<&mut T> {
        let place = self.all.get_mut(slot as usize).filter(|place| place.generation & 1 == 1)?;
        Some(&mut place.tenant)
    }

    /// What lives there now.
    pub fn get(&self, slot: u32) -> Option<&T> {
        let place = self.all.get(slot as usize).filter(|place| place.generation & 1 == 1)?;
        Some(&place.tenant)
    }

    /// What lives there, if it is of this generation.
    pub fn find(&mut self, slot: u32, generation: u32) -> Option<&mut T> {
        let place = self.all.get_mut(slot as usize)?;
        (place.generation == generation && generation & 1 == 1).then_some(&mut place.tenant)
    }

    /// The generation of a place.
    pub fn generation(&self, slot: u32) -> u32 {
        self.all.get(slot as usize).map_or(0, |place| place.generation)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// The slots of all.
    pub fn slots(&self) -> Vec<u32> {
        let live = self.all.iter().enumerate().filter(|(_, place)| place.generation & 1 == 1);
        live.map(|(slot, _)| slot as u32).collect()
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
        let mut slab = Slab::<Text>::new();
        let (slot, first) = slab.take().unwrap();
        slab.at(slot).unwrap().0.extend_from_slice(b"text");
        slab.give(slot);
        slab.give(slot);
        assert!(slab.at(slot).is_none() && slab.find(slot, first).is_none());
        let (again, second) = slab.take().unwrap();
        assert_eq!(again, slot);
        assert!(second != first && slab.find(slot, first).is_none());
        assert!(slab.find(slot, second).is_some_and(|text| text.0.is_empty()));
        assert_eq!((slab.len(), slab.slots()), (1, vec![slot]));
    }
}
