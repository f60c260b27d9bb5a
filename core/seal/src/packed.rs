//! Bytes on the stack, and their text.

/// Up to `N` bytes. Their text is base64 with the URL alphabet (RFC 4648 section 5), without padding: all its
/// characters may stand in a URI parameter.
pub struct Packed<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Packed<N> {
    fn default() -> Packed<N> {
        Packed { bytes: [0; N], len: 0 }
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const REVERSE: [u8; 256] = {
    let mut table = [255; 256];
    let mut i = 0;
    while i < 64 {
        table[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    table
};

impl<const N: usize> Packed<N> {
    /// Appends bytes: never more than `N` in total.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        let place = self.bytes.get_mut(self.len..self.len + bytes.len());
        if let Some(place) = invariant::some!(place, "there is room for the longest text") {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// All of them.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends their text.
    pub fn write(&self, out: &mut Vec<u8>) {
        let text = |bits: u32| [18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift) as usize & 63]);
        let (threes, rest) = self.bytes().as_chunks::<3>();
        for &[a, b, c] in threes {
            out.extend_from_slice(&text(u32::from_be_bytes([0, a, b, c])));
        }
        match *rest {
            [a] => out.extend_from_slice(&text(u32::from_be_bytes([0, a, 0, 0]))[..2]),
            [a, b] => out.extend_from_slice(&text(u32::from_be_bytes([0, a, b, 0]))[..3]),
            _ => {}
        }
    }

    /// Reads a text. `None`: it is not base64, or has more than `N` bytes.
    pub fn read(text: &[u8]) -> Option<Packed<N>> {
        if text.len() > N * 4 / 3 + 1 {
            return None;
        }
        let mut packed = Packed::default();
        let mut seen = 0;
        let mut six = |eight: [u8; 8]| {
            let [a, b, c, d, e, f, g, h] = eight.map(|b| u64::from(REVERSE[usize::from(b)]));
            seen |= a | b | c | d | e | f | g | h;
            let (first, second) = (a << 18 | b << 12 | c << 6 | d, e << 18 | f << 12 | g << 6 | h);
            let [bytes @ .., _, _] = (first << 40 | second << 16).to_be_bytes();
            bytes
        };
        let (eights, rest) = text.as_chunks::<8>();
        for &eight in eights {
            *packed.bytes.get_mut(packed.len..)?.first_chunk_mut::<6>()? = six(eight);
            packed.len += 6;
        }
        // An `A` stands for zero bits.
        const A: u8 = b'A';
        let (last, more) = match *rest {
            [] => ([0; 6], 0),
            [a, b] => (six([a, b, A, A, A, A, A, A]), 1),
            [a, b, c] => (six([a, b, c, A, A, A, A, A]), 2),
            [a, b, c, d] => (six([a, b, c, d, A, A, A, A]), 3),
            [a, b, c, d, e, f] => (six([a, b, c, d, e, f, A, A]), 4),
            [a, b, c, d, e, f, g] => (six([a, b, c, d, e, f, g, A]), 5),
            _ => return None,
        };
        packed.push_checked(last.get(..more)?)?;
        // What is none of the 64 characters has higher bits.
        (seen < 64).then_some(packed)
    }

    #[inline]
    fn push_checked(&mut self, bytes: &[u8]) -> Option<()> {
        self.bytes.get_mut(self.len..self.len + bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 56;

    #[test]
    fn bytes_of_every_length_come_back() {
        let read = |text: &[u8]| Packed::<ROOM>::read(text).map(|packed| packed.bytes().to_vec());
        for len in 0..=ROOM {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 73 + len) as u8).collect();
            let (mut packed, mut text) = (Packed::<ROOM>::default(), Vec::new());
            packed.push(&bytes);
            packed.write(&mut text);
            assert_eq!(text.len(), (len * 4).div_ceil(3));
            assert_eq!(read(&text), Some(bytes));
            for at in 0..text.len() {
                let mut damaged = text.clone();
                damaged[at] = b'+';
                assert_eq!(read(&damaged), None);
            }
        }
        for len in ROOM * 4 / 3 + 1..100 {
            assert_eq!(read(&vec![b'A'; len]).is_some(), len * 3 / 4 <= ROOM && len % 4 != 1, "{len}");
        }
    }
}
