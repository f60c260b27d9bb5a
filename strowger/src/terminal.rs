//! Passwords from a terminal, which does not show them.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;
use std::io::{self, BufRead, Write};
use std::thread::JoinHandle;

/// Asks twice for a password on the terminal that is standard input, and shows nothing of it. `None` if the
/// two differ.
///
/// # Errors
/// If the terminal cannot be read or set.
pub fn new_password() -> io::Result<Option<String>> {
    let _hidden = Hidden::begin()?;
    let password = ask("password: ")?;
    Ok((password.is_empty() || ask("the same again: ")? == password).then_some(password))
}

/// A line from the terminal, without its end.
fn ask(prompt: &str) -> io::Result<String> {
    write!(io::stderr(), "{prompt}")?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// While it lives, the terminal shows nothing of a line but its end. A signal that ends the program, such as
/// Ctrl-C, restores the terminal first.
struct Hidden {
    shown: Termios,
    signals: Handle,
    restorer: Option<JoinHandle<()>>,
}

impl Hidden {
    #[allow(clippy::disallowed_methods, reason = "a thread that waits for signals")]
    fn begin() -> io::Result<Hidden> {
        let shown = tcgetattr(io::stdin())?;
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
        let (handle, restored) = (signals.handle(), shown.clone());
        let wait = move || {
            if let Some(signal) = signals.forever().next() {
                restore(&restored);
                let _ = writeln!(io::stderr());
                let _ = emulate_default_handler(signal);
            }
        };
        let restorer = std::thread::Builder::new().name("terminal".into()).spawn(wait)?;
        let begun = Hidden { shown, signals: handle, restorer: Some(restorer) };
        let mut hidden = begun.shown.clone();
        hidden.local_modes = (hidden.local_modes - LocalModes::ECHO) | LocalModes::ECHONL;
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(begun)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        restore(&self.shown);
        self.signals.close();
        let _ = self.restorer.take().map(JoinHandle::join);
    }
}

/// Sets the terminal as it was. One that is gone shows nothing either.
fn restore(shown: &Termios) {
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, shown);
}
