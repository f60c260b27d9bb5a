//! Datagram sockets that only send.

use super::socket::{bind, send, set, udp_connect, udp_socket};
use super::{SocketOptions, errno};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// A datagram to an address of this machine is there when the call that sent it returns, but for an interrupt
/// in between.
const PATIENCE: Duration = Duration::from_millis(100);

/// Makes datagram sockets that send from an address to whom they are connected, as [`udp_connect`] does, and
/// get nothing: what comes to that address is for the other sockets there, from whomever it comes.
///
/// An ordinary socket that is connected takes all that comes from its peer before the kernel asks a reuseport
/// program who owns it. These are bound to the port of a multicast group, which leaves open where they send
/// from; the kernel chooses that when one is connected for the first time (Linux, `ip4_datagram_connect`), to
/// a socket at the address itself, and keeps it when it is connected elsewhere. Others may not, so both are
/// tried with the first.
pub struct Mutes {
    address: SocketAddr,
    /// What each is connected to at first.
    here: UdpSocket,
}

impl Mutes {
    /// Those of this address and port. It may take some tenths of a second where datagrams do not arrive.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::AddrNotAvailable`] where another address would be the sender's,
    /// as for all of 127.0.0.0/8 but 127.0.0.1, or for a second IPv4 address of a subnet; and for an address
    /// of one link, whose peers get no sockets of their own.
    pub fn new(address: SocketAddr) -> io::Result<Mutes> {
        let unavailable = || Err(io::ErrorKind::AddrNotAvailable.into());
        if matches!(address.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            return unavailable();
        }
        let here = UdpSocket::bind((address.ip(), 0))?;
        if sender_to(here.local_addr()?)? != address.ip() {
            return unavailable();
        }
        let mutes = Mutes { address, here };
        let fd = mutes.open(0)?;
        // What is late or lost says nothing yet.
        let first = match sends_as(&fd, &mutes.here, address)? {
            None => sends_as(&fd, &mutes.here, address)?,
            said => said,
        };
        if first != Some(true) {
            return unavailable();
        }
        // Left to itself the kernel would send from loopback to loopback. Many a firewall lets nothing else
        // through to there, and not every machine has it, so only a wrong address counts.
        let loopback: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let elsewhere = || UdpSocket::bind((loopback, 0)).and_then(|there| sends_as(&fd, &there, address));
        match address.ip().is_loopback() || !matches!(elsewhere(), Ok(Some(false))) {
            true => Ok(mutes),
            false => unavailable(),
        }
    }

    /// One more, connected to a socket of this process that is closed when this is dropped.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self, send_buffer: usize) -> io::Result<OwnedFd> {
        let options = SocketOptions { send_buffer, ..SocketOptions::default() };
        let (fd, _, _) = udp_socket(self.address, &options)?;
        hear_no_group(&fd, self.address.is_ipv4());
        bind(fd.as_fd(), SocketAddr::new(group_of(self.address.ip()), self.address.port()))?;
        udp_connect(fd.as_fd(), self.here.local_addr()?)?;
        Ok(fd)
    }
}

/// A group that nobody here joins, of the ranges for an organization's and a site's own use (RFC 2365 section
/// 6.2, RFC 4291 section 2.7). Another one for most addresses: sockets of another user's server at another
/// address keep its ports from ours.
fn group_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let [_, _, c, d] = ip.octets();
            Ipv4Addr::new(239, 195, c, d).into()
        }
        IpAddr::V6(ip) => {
            let [.., g, h] = ip.segments();
            Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0x5060, g, h).into()
        }
    }
}

/// Whether what is sent by `fd` to `there`, a socket of ours, comes from `address`; `None` if it does not
/// come.
fn sends_as(fd: &OwnedFd, there: &UdpSocket, address: SocketAddr) -> io::Result<Option<bool>> {
    there.set_read_timeout(Some(PATIENCE))?;
    udp_connect(fd.as_fd(), there.local_addr()?)?;
    send(fd.as_fd(), b"\r\n")?;
    loop {
        match there.recv_from(&mut [0; 2]) {
            Ok((_, from)) => return Ok(Some((from.ip(), from.port()) == (address.ip(), address.port()))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if errno(&error) == libc::EAGAIN => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// The address from which the kernel would send there if nobody says otherwise.
fn sender_to(there: SocketAddr) -> io::Result<IpAddr> {
    let unspecified = if there.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.connect(there)?;
    Ok(socket.local_addr()?.ip())
}

/// Keeps from a socket what comes to a group that somebody else on this machine has joined. A kernel that
/// cannot (IPv6, before 4.20) lets it have that of its peer.
fn hear_no_group(fd: &OwnedFd, v4: bool) {
    let (level, name) = match v4 {
        true => (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL),
        false => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_ALL),
    };
    let _ = set(fd.as_fd(), level, name, 0);
}

#[cfg(test)]
mod tests {
    use super::super::{recv_from, udp_bind, udp_probe};
    use super::*;

    fn text(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        let mut bytes = [0; 100];
        let (n, from) = socket.recv_from(&mut bytes).unwrap();
        (bytes[..n].to_vec(), from)
    }

    /// Two listeners with one port there.
    fn listeners(ip: IpAddr) -> ([OwnedFd; 2], SocketAddr) {
        let address = udp_probe(SocketAddr::new(ip, 0)).unwrap();
        let listeners = [0; 2].map(|_| udp_bind(address, &SocketOptions::default()).unwrap().0);
        (listeners, address)
    }

    fn count(fd: &OwnedFd) -> usize {
        std::iter::from_fn(|| recv_from(fd.as_fd(), &mut [0; 100]).ok()).count()
    }

    /// Of its peers' datagrams it gets none, and one after the other is sent to from the listener's address.
    fn try_it(ip: IpAddr, peers: &[UdpSocket]) {
        let (listeners, address) = listeners(ip);
        let mutes = Mutes::new(address).unwrap();
        let mutes = [0; 2].map(|_| mutes.open(1 << 16).unwrap());
        for peer in peers {
            for mute in &mutes {
                udp_connect(mute.as_fd(), peer.local_addr().unwrap()).unwrap();
                for _ in 0..2 {
                    send(mute.as_fd(), b"hello").unwrap();
                    assert_eq!(text(peer), (b"hello".to_vec(), address));
                }
                for _ in 0..8 {
                    peer.send_to(b"back", address).unwrap();
                }
            }
        }
        assert_eq!(listeners.iter().map(count).sum::<usize>(), peers.len() * 2 * 8);
        assert_eq!(mutes.iter().map(count).sum::<usize>(), 0);
    }

    #[test]
    fn it_sends_from_the_address_of_others_and_takes_nothing_from_them() {
        for ip in ["127.0.0.1", "::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            try_it(ip, &[0; 3].map(|_| UdpSocket::bind((ip, 0)).unwrap()));
        }
    }

    /// Where the machine has an address on a network it is kept, though loopback would choose another.
    #[test]
    fn it_keeps_its_address_whomever_it_is_connected_to() {
        let ip = sender_to("192.0.2.1:9".parse().unwrap());
        // Where it is a second address of its network there are none.
        let Some(ip) = ip.ok().filter(|&ip| sender_to(SocketAddr::new(ip, 9)).is_ok_and(|from| from == ip))
        else {
            eprintln!("this machine has no address on a network: not tried");
            return;
        };
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let peers = [loopback, ip, loopback].map(|ip| UdpSocket::bind((ip, 0)).unwrap());
        // Many a firewall lets nothing through from one to the other.
        let plain = UdpSocket::bind((ip, 0)).unwrap();
        peers[0].set_read_timeout(Some(PATIENCE)).unwrap();
        let there = peers[0].local_addr().unwrap();
        if plain.send_to(b"hello", there).is_err() || peers[0].recv(&mut [0; 5]).is_err() {
            eprintln!("from {ip} nothing comes to loopback: not tried");
            return;
        }
        try_it(ip, &peers);
    }

    /// Not even what comes to its group from its peer, for somebody else here who joined it.
    #[test]
    fn it_hears_no_group() {
        let (_listeners, address) = listeners(Ipv4Addr::LOCALHOST.into());
        let mute = Mutes::new(address).unwrap().open(0).unwrap();
        let IpAddr::V4(group) = group_of(address.ip()) else { panic!("an IPv6 group") };
        // Sockets of a group share its port, if they say so.
        let (joined, _, _) =
            udp_bind(SocketAddr::new(group.into(), address.port()), &SocketOptions::default()).unwrap();
        let joined = UdpSocket::from(joined);
        joined.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
        joined.set_nonblocking(false).unwrap();
        joined.set_read_timeout(Some(PATIENCE * 20)).unwrap();
        let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let by_loopback = i32::from_ne_bytes(Ipv4Addr::LOCALHOST.octets());
        set(peer.as_fd(), libc::IPPROTO_IP, libc::IP_MULTICAST_IF, by_loopback).unwrap();
        udp_connect(mute.as_fd(), peer.local_addr().unwrap()).unwrap();
        peer.send_to(b"all", (group, address.port())).unwrap();
        assert_eq!(text(&joined).0, b"all");
        assert_eq!(count(&mute), 0);
    }

    #[test]
    fn where_it_would_send_from_another_address_there_is_none() {
        let address = "127.1.2.3:25060".parse().unwrap();
        assert_eq!(Mutes::new(address).err().unwrap().kind(), io::ErrorKind::AddrNotAvailable);
    }
}
