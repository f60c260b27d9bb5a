//! Hashing of several texts as one.

/// Gives `parts` to `hash` one after the other without a break: hashing one piece is far cheaper than
/// hashing many small ones.
pub fn in_one_piece<R>(parts: &[&[u8]], hash: impl FnOnce(&[u8]) -> R) -> R {
    let mut room = [0; 192];
    let mut len = 0;
    for part in parts {
        let Some(place) = room.get_mut(len..len + part.len()) else { return hash(&parts.concat()) };
        place.copy_from_slice(part);
        len += part.len();
    }
    hash(room.get(..len).unwrap_or_default())
}
