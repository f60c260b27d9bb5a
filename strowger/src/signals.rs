//! Signals, as a list of what to do.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::mpsc::{Receiver, channel};

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// SIGTERM or SIGINT: drain and stop; a second one: stop at once.
    Stop,
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
            let wish = if signal == SIGHUP { Wish::Reload } else { Wish::Stop };
            if send.send(wish).is_err() {
                return;
            }
        }
    })?;
    Ok(receive)
}
