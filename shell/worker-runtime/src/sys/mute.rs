//! Datagram sockets that only send.

use super::socket::{bind, send, set, udp_connect, udp_socket};
use super::{SocketOptions, errno};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Groups that nobody here joins, of the ranges for a site's own use (RFC 2365 section 6.1, RFC 4291 section 2.7).
const GROUP_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 255, 50, 60));
const GROUP_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x50, 0x60));
/// A datagram to an address of this machine is there when the call that sent it returns, but for an interrupt in between.
const PATIENCE: Duration = Duration::from_millis(100);

/// A datagram socket that sends from `address` to whom it is connected, as [`udp_connect`] does, and gets nothing: what
/// comes to `address` is for the other sockets there, from whomever it comes.
///
/// An ordinary socket that is connected takes all that comes from its peer before the kernel asks a reuseport program who
/// owns it. This one is bound to the port of a multicast group, which leaves open where it sends from; the kernel chooses
/// that when it is connected for the first time (Linux, `ip4_datagram_connect`), to a socket at `address` itself, and keeps
/// it. So it is tried here and not taken for granted.
///
/// # Errors
/// What the system says; [`io::ErrorKind::AddrNotAvailable`] where another address would be the sender's, as for all of
/// 127.0.0.0/8 but 127.0.0.1, or for a second IPv4 address of a subnet.
pub fn mute(address: SocketAddr, send_buffer: usize) -> io::Result<OwnedFd> {
    let options = SocketOptions { send_buffer, ..SocketOptions::default() };
    // With its scope, if it has one.
    let mut any = address;
    any.set_port(0);
    let here = UdpSocket::bind(any)?;
    if sender_to(here.local_addr()?)? != address.ip() {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    }
    let (fd, _, _) = udp_socket(address, &options)?;
    hear_no_group(&fd, address.is_ipv4());
    let group = if address.is_ipv4() { GROUP_V4 } else { GROUP_V6 };
    bind(fd.as_fd(), SocketAddr::new(group, address.port()))?;
    here.set_read_timeout(Some(PATIENCE))?;
    udp_connect(fd.as_fd(), here.local_addr()?)?;
    send(fd.as_fd(), b"\r\n")?;
    let (_, from) = here.recv_from(&mut [0; 2]).map_err(|error| match errno(&error) {
        libc::EAGAIN => io::ErrorKind::AddrNotAvailable.into(),
        _ => error,
    })?;
    if (from.ip(), from.port()) == (address.ip(), address.port()) {
        Ok(fd)
    } else {
        Err(io::ErrorKind::AddrNotAvailable.into())
    }
}

/// The address from which the kernel would send there if nobody says otherwise.
fn sender_to(there: SocketAddr) -> io::Result<IpAddr> {
    let unspecified = if there.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.connect(there)?;
    Ok(socket.local_addr()?.ip())
}

/// Keeps from a socket what comes to a group that somebody else on this machine has joined. A kernel that cannot (IPv6, before
/// 4.20) lets it have that of its peer.
fn hear_no_group(fd: &OwnedFd, v4: bool) {
    let (level, name) = match v4 {
        true => (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL),
        false => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_ALL),
    };
    let _ = set(fd.as_fd(), level, name, 0);
}

#[cfg(test)]
mod tests {
    use super::super::{recv_from, udp_bind};
    use super::*;

    fn text(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        let mut bytes = [0; 100];
        let (n, from) = socket.recv_from(&mut bytes).unwrap();
        (bytes[..n].to_vec(), from)
    }

    /// Of its peer's datagrams it gets none, and one peer after the other is sent to from the listener's address.
    #[test]
    fn it_sends_from_the_address_of_others_and_takes_nothing_from_them() {
        for ip in ["127.0.0.1", "::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let peers = [0; 3].map(|_| UdpSocket::bind((ip, 0)).unwrap());
            let free = UdpSocket::bind((ip, 0)).unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            let listeners = [0; 2].map(|_| udp_bind(address, &SocketOptions::default()).unwrap().0);
            let mutes = [0; 2].map(|_| mute(address, 1 << 16).unwrap());
            for peer in &peers {
                for mute in &mutes {
                    udp_connect(mute.as_fd(), peer.local_addr().unwrap()).unwrap();
                    send(mute.as_fd(), b"hello").unwrap();
                    assert_eq!(text(peer), (b"hello".to_vec(), address));
                    for _ in 0..8 {
                        peer.send_to(b"back", address).unwrap();
                    }
                }
            }
            let mut bytes = [0; 100];
            let mut got =
                |fd: &OwnedFd| std::iter::from_fn(|| recv_from(fd.as_fd(), &mut bytes).ok()).count();
            assert_eq!(listeners.iter().map(&mut got).sum::<usize>(), 3 * 2 * 8);
            assert_eq!(mutes.iter().map(&mut got).sum::<usize>(), 0);
        }
    }

    #[test]
    fn where_it_would_send_from_another_address_there_is_none() {
        let address = "127.1.2.3:25060".parse().unwrap();
        assert_eq!(mute(address, 0).unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
    }
}
