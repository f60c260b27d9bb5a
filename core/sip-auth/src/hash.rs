//! Hash functions as this crate drives them: whole blocks at a time, out of a buffer for short pieces.

use sha2::{Digest, Sha256, Sha512_256};

/// Bytes that a [`Gather`] hands over at a time: whole blocks of every hash here.
pub(crate) const ROOM: usize = 256;

/// A hash that takes its text in large pieces.
pub(crate) trait Hash {
    /// What it comes to.
    type Sum: AsRef<[u8]>;

    fn begin() -> Self;

    /// Takes the next piece.
    fn take(&mut self, whole: &[u8; ROOM]);

    /// Takes the last piece, the first `len` bytes of `room`, less than all of them; `before` are the bytes
    /// taken before.
    fn end(&mut self, before: u64, room: &mut [u8; ROOM], len: usize) -> Self::Sum;
}

macro_rules! like_sha2 {
    ($($hash:ty),*) => {$(
        impl Hash for $hash {
            type Sum = [u8; 32];

            fn begin() -> $hash {
                <$hash>::new()
            }

            fn take(&mut self, whole: &[u8; ROOM]) {
                self.update(whole);
            }

            fn end(&mut self, _before: u64, room: &mut [u8; ROOM], len: usize) -> [u8; 32] {
                self.update(room.get(..len).unwrap_or_default());
                self.finalize_reset().into()
            }
        }
    )*};
}

like_sha2!(Sha256, Sha512_256);

/// Collects short pieces for a hash, which takes many of them dearly.
#[derive(Clone)]
pub(crate) struct Gather<H> {
    hash: H,
    room: [u8; ROOM],
    len: usize,
    /// Bytes handed over.
    before: u64,
}

impl<H: Hash> Gather<H> {
    pub fn new() -> Gather<H> {
        Gather { hash: H::begin(), room: [0; ROOM], len: 0, before: 0 }
    }

    pub fn add(&mut self, piece: &[u8]) {
        // Never full between two pieces.
        match self.room.get_mut(self.len..self.len + piece.len()) {
            Some(place) if self.len + piece.len() < ROOM => {
                place.copy_from_slice(piece);
                self.len += piece.len();
            }
            _ => self.add_long(piece),
        }
    }

    #[cold]
    fn add_long(&mut self, mut piece: &[u8]) {
        while let Some((first, rest)) = piece.split_at_checked(ROOM - self.len) {
            if let Some(place) = self.room.get_mut(self.len..) {
                place.copy_from_slice(first);
            }
            self.hash.take(&self.room);
            self.before += ROOM as u64;
            (self.len, piece) = (0, rest);
        }
        if let Some(place) = self.room.get_mut(self.len..self.len + piece.len()) {
            place.copy_from_slice(piece);
            self.len += piece.len();
        }
    }

    /// The same with a colon after it.
    pub fn add_part(&mut self, part: &[u8]) {
        let end = self.len + part.len();
        if end + 1 < ROOM
            && let Some(place) = self.room.get_mut(self.len..=end)
            && let Some((colon, place)) = place.split_last_mut()
        {
            place.copy_from_slice(part);
            *colon = b':';
            self.len = end + 1;
        } else {
            self.add(part);
            self.add(b":");
        }
    }

    /// The hash of all that was added, after which nothing more can be. By reference, for it is long to move.
    pub fn finish(&mut self) -> H::Sum {
        self.hash.end(self.before, &mut self.room, self.len)
    }
}
