//! Word to the service manager: the readiness protocol of systemd, sd_notify(3).
//!
//! A datagram with `KEY=VALUE` lines goes to the socket named in `NOTIFY_SOCKET`. Without that
//! variable nobody listens and nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The way to the service manager, if there is one.
pub struct Notifier {
    target: Option<(UnixDatagram, SocketAddr)>,
}

impl Notifier {
    /// The one named in the environment. A name that cannot be used counts as none, with a warning.
    pub fn from_env() -> Notifier {
        match std::env::var_os("NOTIFY_SOCKET") {
            Some(name) if !name.is_empty() => Notifier::to(&name).unwrap_or_else(|error| {
                log_events::admin::notify_socket_unusable(&error);
                Notifier::none()
            }),
            _ => Notifier::none(),
        }
    }

    /// Nobody to tell.
    pub fn none() -> Notifier {
        Notifier { target: None }
    }

    /// A socket by name: a path, or `@` and an abstract name.
    pub fn to(name: &OsStr) -> io::Result<Notifier> {
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor abstract")),
        };
        let socket = UnixDatagram::unbound()?;
        // The manager may be slow or gone; the server must not wait for it.
        socket.set_nonblocking(true)?;
        Ok(Notifier { target: Some((socket, address)) })
    }

    /// Whether a service manager listens.
    pub fn is_some(&self) -> bool {
        self.target.is_some()
    }

    /// The server answers.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}\nMAINPID={}", one_line(status), std::process::id()));
    }

    /// A reload has begun; [`Notifier::ready`] ends it. `monotonic_micros` is CLOCK_MONOTONIC now,
    /// which `Type=notify-reload` compares with when it asked.
    pub fn reloading(&self, monotonic_micros: u64) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={monotonic_micros}"));
    }

    /// The server finishes what it has and will end.
    pub fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}", one_line(status)));
    }

    /// A line for `systemctl status`.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", one_line(status)));
    }

    fn send(&self, message: &str) {
        let Some((socket, address)) = &self.target else { return };
        if let Err(error) = socket.send_to_addr(message.as_bytes(), address) {
            tracing::debug!(%error, "the service manager was not reached");
        }
    }
}

/// A line break would begin another assignment.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn an_abstract_socket_hears_the_whole_life() {
        let name = format!("strowger-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let notifier = Notifier::to(OsStr::new(&format!("@{name}"))).unwrap();
        assert!(notifier.is_some());
        notifier.ready("answers\nMAINPID=1");
        let ready = format!("READY=1\nSTATUS=answers MAINPID=1\nMAINPID={}", std::process::id());
        assert_eq!(receive(&manager), ready);
        notifier.reloading(42);
        assert_eq!(receive(&manager), "RELOADING=1\nMONOTONIC_USEC=42");
        notifier.status("busy");
        assert_eq!(receive(&manager), "STATUS=busy");
        notifier.stopping("drains");
        assert_eq!(receive(&manager), "STOPPING=1\nSTATUS=drains");
    }

    #[test]
    fn a_path_works_and_a_missing_manager_does_no_harm() {
        let path = std::env::temp_dir().join(format!("strowger-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let manager = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::to(path.as_os_str()).unwrap();
        notifier.status("x");
        assert_eq!(receive(&manager), "STATUS=x");
        drop(manager);
        std::fs::remove_file(&path).unwrap();
        notifier.status("nobody hears this");
        Notifier::none().ready("nor this");
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["relative", "vsock:2:1234", ""] {
            assert!(Notifier::to(OsStr::new(name)).is_err(), "{name}");
        }
    }
}
