//! How long a client's certificate is valid, for the tickets of its session.
//!
//! rustls puts a client's chain into its tickets and does not verify it again when a session is resumed. It
//! gives the ticketer no information about the session. Verifier and ticketer are called while a session
//! processes bytes, on the same thread. So the session keeps the time in a thread-local value during that
//! call.

use std::cell::Cell;

/// The value for a client without a certificate. Otherwise seconds since 1970.
pub const UNBOUNDED: u64 = u64::MAX;

thread_local! {
    static UNTIL: Cell<u64> = const { Cell::new(UNBOUNDED) };
}

/// Runs `call` for a session with the time `until`; returns the time after the call.
pub fn within<T>(until: u64, call: impl FnOnce() -> T) -> (u64, T) {
    let earlier = UNTIL.replace(until);
    let result = call();
    (UNTIL.replace(earlier), result)
}

/// Sets the time until which the certificate of the present session is valid.
pub fn counts_until(until: u64) {
    UNTIL.set(until);
}

/// The time until which the certificate of the present session is valid.
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
