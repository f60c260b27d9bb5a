//! Until when a client's certificate counts for the tickets of its session.
//!
//! rustls puts a client's chain into its tickets and does not verify it again when a session is resumed. It
//! tells the maker of tickets nothing about the session. Verifier and maker are called while a session takes
//! bytes, on the thread of that call. So the session lends this thread what it knows for as long as the call
//! takes.

use std::cell::Cell;

/// Of a client that has shown no certificate. Else seconds since 1970.
pub const UNBOUNDED: u64 = u64::MAX;

thread_local! {
    static UNTIL: Cell<u64> = const { Cell::new(UNBOUNDED) };
}

/// Runs `call` for a session of which `until` is known; what is known after it.
pub fn within<T>(until: u64, call: impl FnOnce() -> T) -> (u64, T) {
    let earlier = UNTIL.replace(until);
    let result = call();
    (UNTIL.replace(earlier), result)
}

/// What the present session has proven counts until then.
pub fn counts_until(until: u64) {
    UNTIL.set(until);
}

/// Until when what the present session has proven counts.
pub fn until() -> u64 {
    UNTIL.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_on_one_thread_have_each_its_own() {
        let (first, ()) = within(UNBOUNDED, || counts_until(7));
        let (second, seen) = within(UNBOUNDED, until);
        assert_eq!((first, second, seen), (7, UNBOUNDED, UNBOUNDED));
        assert_eq!(within(first, until), (7, 7));
        assert_eq!(until(), UNBOUNDED);
    }
}
