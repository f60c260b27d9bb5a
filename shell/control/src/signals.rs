//! The signals that operate a program, in the order in which they come.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::mpsc::{Receiver, channel};

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGTERM, as service managers send it: stop so that no call is lost; a second one: stop at once.
    Stop,
    /// SIGINT, from a keyboard: as [`Signal::Stop`], but without waiting for calls.
    Interrupt,
    /// SIGHUP.
    Reload,
}

/// Starts to listen to signals.
///
/// # Errors
/// If the system refuses the handlers or the thread.
#[allow(clippy::disallowed_methods, reason = "the program's own thread for signals")]
pub fn listen() -> io::Result<Receiver<Signal>> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (send, receive) = channel();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGHUP => Signal::Reload,
                SIGINT => Signal::Interrupt,
                _ => Signal::Stop,
            };
            if send.send(signal).is_err() {
                return;
            }
        }
    })?;
    Ok(receive)
}
