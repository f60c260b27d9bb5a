//! A pure receiver: it reads datagrams and answers none. What it does not read, the path to it has lost.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use rustix::net::sockopt;

/// The largest datagram.
const SIZE: usize = 65_536;

/// Reads until the program is ended.
///
/// # Errors
/// If the socket cannot be bound, fails, or may not have a receive buffer of this size, octets.
pub fn run(own: SocketAddr, buffer: Option<usize>, ready: impl FnOnce()) -> io::Result<()> {
    let socket = UdpSocket::bind(own)?;
    if let Some(wanted) = buffer {
        make_room(&socket, wanted)?;
    }
    ready();
    let mut datagram = vec![0; SIZE];
    loop {
        match socket.recv(&mut datagram) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Gives the socket a receive buffer. Beyond net.core.rmem_max that needs CAP_NET_ADMIN.
fn make_room(socket: &UdpSocket, wanted: usize) -> io::Result<()> {
    if sockopt::set_socket_recv_buffer_size_force(socket, wanted).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, wanted)?;
    }
    // The kernel doubles it, for its own book-keeping.
    let given = sockopt::socket_recv_buffer_size(socket)? / 2;
    if given >= wanted {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the kernel gives a receive buffer of {given} octets, not {wanted}: raise net.core.rmem_max, as `strowger tune` \
         advises, or run as root"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_has_the_buffer_that_was_asked_for() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        make_room(&socket, 100_000).expect("below the limit of every kernel");
        assert!(sockopt::socket_recv_buffer_size(&socket).expect("asked") >= 200_000);
    }
}
