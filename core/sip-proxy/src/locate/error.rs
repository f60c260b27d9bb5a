//! Why a URI leads nowhere.

/// Why a URI leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The host is neither an address one may send to nor a name one may ask.
    BadHost,
    /// The URI demands a transport that this server does not have, or that does not exist.
    NoTransport,
    /// The DNS knows no address.
    NotFound,
    /// The domain says by an SRV record of `.` that it has no such service.
    NoService,
    /// The DNS did not answer; it may next time.
    Unavailable,
    /// The DNS was not asked, because too many questions wait for it.
    Full,
}
