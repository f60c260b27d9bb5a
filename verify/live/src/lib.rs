//! The harness of the live tests: it starts the real `strowger` on a loopback address of its own
//! and talks to it from raw sockets, the way phones and attackers do.
//!
//! A test names what it wants with [`Setup`], gets a [`Server`], and opens [`Link`]s to it. Nothing here
//! sleeps for a fixed time: every wait polls a condition up to a generous deadline. Every server has its own
//! addresses, so tests run side by side.
//!
//! The binary is the one named by `STROWGER_BIN`, else `strowger` beside the test in cargo's target
//! folder, which is built first when cargo is at hand.

mod archive;
mod authority;
mod beside;
mod dialog;
mod digest;
mod front;
mod http;
mod link;
mod random;
mod reference;
mod server;
mod signals;
mod sip;
mod stream;

pub use archive::unpack;
pub use authority::Authority;
pub use beside::{Beside, figure, file, load, text};
pub use dialog::{Side, hangs_up, speaks};
pub use digest::{Credentials, answer, sha256_answer};
pub use front::Front;
pub use http::{Answer, http};
pub use link::{Link, Listener};
pub use random::{Random, seed, setting};
pub use reference::compare as compare_metrics;
pub use server::{Server, Setup, binary, fresh_ip, fresh_ips, run, without_capabilities};
pub use signals::signal;
pub use sip::{Msg, Req, unique};
pub use stream::{Stream, UPGRADE, frame, opcode};

use std::time::{Duration, Instant};

/// How long a test waits for something that must happen. Generous: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The transports that servers here listen on: all on the first two, those of [`Setup::secure`] on the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Datagrams.
    Udp,
    /// One connection.
    Tcp,
    /// One connection over TLS.
    Tls,
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Via {
    /// UDP and TCP, for tests that must hold over each.
    pub const BOTH: [Self; 2] = [Self::Udp, Self::Tcp];
    /// Those whose phones have no other way than their connection.
    pub const FLOWS: [Self; 3] = [Self::Tls, Self::Ws, Self::Wss];

    /// The name as it stands in a Via header field.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Ws => "WS",
            Self::Wss => "WSS",
        }
    }
}

/// Poll `ready` until it gives something or [`PATIENCE`] is over.
pub fn eventually<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
