//! A short list that keeps its first elements in place.
//!
//! Nearly every response context has one branch and nearly every next hop one address. Those must
//! cost no allocation; the rare longer list moves to the heap once and stays there.

/// Up to `N` elements in place, more on the heap.
#[derive(Clone, Debug)]
pub struct Few<T, const N: usize>(Store<T, N>);

#[derive(Clone, Debug)]
enum Store<T, const N: usize> {
    Inline { len: u8, items: [T; N] },
    Heap(Vec<T>),
}

impl<T: Copy + Default, const N: usize> Few<T, N> {
    /// An empty list; allocates nothing.
    pub fn new() -> Few<T, N> {
        Few(Store::Inline { len: 0, items: [T::default(); N] })
    }

    /// Appends one element. Moves to the heap when the places run out.
    pub fn push(&mut self, item: T) {
        match &mut self.0 {
            Store::Inline { len, items } => {
                if let Some(place) = items.get_mut(usize::from(*len)) {
                    *place = item;
                    *len += 1;
                    return;
                }
                let mut heap = Vec::with_capacity(N * 2 + 1);
                heap.extend_from_slice(items);
                heap.push(item);
                self.0 = Store::Heap(heap);
            }
            Store::Heap(heap) => heap.push(item),
        }
    }

    /// The elements in order.
    pub fn as_slice(&self) -> &[T] {
        match &self.0 {
            Store::Inline { len, items } => items.get(..usize::from(*len)).unwrap_or(items),
            Store::Heap(heap) => heap,
        }
    }

    /// The elements in order, to be changed in place.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match &mut self.0 {
            Store::Inline { len, items } => {
                let len = usize::from(*len).min(N);
                &mut items[..len]
            }
            Store::Heap(heap) => heap,
        }
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Copy + Default, const N: usize> Default for Few<T, N> {
    fn default() -> Few<T, N> {
        Few::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn order_survives_the_move_to_the_heap() {
        let mut few: Few<u16, 2> = Few::new();
        assert!(few.is_empty());
        for n in 0..100 {
            few.push(n);
            assert_eq!(few.len(), usize::from(n) + 1);
            few.as_mut_slice()[usize::from(n)] += 1;
        }
        assert!(few.as_slice().iter().copied().eq(1..=100));
    }
}
