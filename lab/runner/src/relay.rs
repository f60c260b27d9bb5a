//! The bare relay: the floor under every proxy on kernel sockets. What comes from the callee's address goes
//! to the caller's and the other way round, unread.

use std::io;
use std::net::{SocketAddr, UdpSocket};

/// The largest datagram.
const SIZE: usize = 65_536;

/// Relays between two places until the program is ended.
///
/// # Errors
/// If the socket cannot be bound or fails.
pub fn run(own: SocketAddr, caller: SocketAddr, callee: SocketAddr, ready: impl FnOnce()) -> io::Result<()> {
    let socket = UdpSocket::bind(own)?;
    ready();
    let mut buffer = vec![0; SIZE];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                let to = if from == callee { caller } else { callee };
                // A full queue loses the datagram, as a router does.
                let _ = socket.send_to(&buffer[..length], to);
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// An ICMP error of an earlier datagram, or a signal.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn relay_sends_each_side_what_the_other_sent() {
        let bound = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
            socket.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
            (socket.local_addr().expect("bound"), socket)
        };
        let ((caller, calling), (callee, answering)) = (bound(), bound());
        let own = bound().0;
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || run(own, caller, callee, || ready.send(()).expect("waited for")));
        is_ready.recv_timeout(Duration::from_secs(20)).expect("it binds");
        let mut buffer = [0; 10];
        calling.send_to(b"INVITE", own).expect("sent");
        assert_eq!(answering.recv_from(&mut buffer).expect("relayed"), (6, own));
        answering.send_to(b"200", own).expect("sent");
        assert_eq!(calling.recv_from(&mut buffer).expect("relayed"), (3, own));
    }
}
