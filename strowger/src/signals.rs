//! Signals, as a list of what to do.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::mpsc::{Receiver, channel};

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// SIGTERM, as service managers send it: stop so that nobody notices; a second one: stop at once.
    Stop,
    /// SIGINT, from somebody at the keyboard, who does not like to wait: as [`Wish::Stop`] but where that only waits.
    Break,
    /// SIGHUP.
    Reload,
}

/// Starts to listen to signals.
#[allow(clippy::disallowed_methods, reason = "the program's own thread for signals")]
pub fn listen() -> io::Result<Receiver<Wish>> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (send, receive) = channel();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let wish = match signal {
                SIGHUP => Wish::Reload,
                SIGINT => Wish::Break,
                _ => Wish::Stop,
            };
            if send.send(wish).is_err() {
                return;
            }
        }
    })?;
    Ok(receive)
}
