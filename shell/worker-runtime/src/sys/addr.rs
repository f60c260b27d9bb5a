//! Socket addresses in the kernel's layout.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Room for a `sockaddr_in` or `sockaddr_in6`, and the length in use.
///
/// Read and written as plain bytes, so that no cast to another type is needed; only the system calls
/// look at it through a pointer.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct RawAddr {
    bytes: [u8; RawAddr::CAPACITY as usize],
    len: libc::socklen_t,
}

impl RawAddr {
    /// The size of the larger of the two, `sockaddr_in6`.
    pub const CAPACITY: libc::socklen_t = 28;

    /// No address yet, all the room given to the kernel.
    pub const fn empty() -> RawAddr {
        RawAddr { bytes: [0; RawAddr::CAPACITY as usize], len: RawAddr::CAPACITY }
    }

    /// The kernel's form of `address`.
    pub fn new(address: SocketAddr) -> RawAddr {
        let mut raw = RawAddr::empty();
        raw.set(address);
        raw
    }

    /// Overwrites with `address`.
    pub fn set(&mut self, address: SocketAddr) {
        let b = &mut self.bytes;
        b[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                b[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                b[4..8].copy_from_slice(&v4.ip().octets());
                b[8..16].fill(0);
                self.len = 16;
            }
            SocketAddr::V6(v6) => {
                b[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                b[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
                b[8..24].copy_from_slice(&v6.ip().octets());
                b[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                self.len = 28;
            }
        }
    }

    /// The address the kernel wrote; `None` if it is of another family.
    pub fn get(&self) -> Option<SocketAddr> {
        let b = &self.bytes;
        let port = u16::from_be_bytes([b[2], b[3]]);
        match i32::from(u16::from_ne_bytes([b[0], b[1]])) {
            libc::AF_INET => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(b[4], b[5], b[6], b[7])), port)),
            libc::AF_INET6 => {
                let mut ip = [0; 16];
                ip.copy_from_slice(&b[8..24]);
                let flowinfo = u32::from_be_bytes([b[4], b[5], b[6], b[7]]);
                let scope = u32::from_ne_bytes([b[24], b[25], b[26], b[27]]);
                Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(ip), port, flowinfo, scope)))
            }
            _ => None,
        }
    }

    /// The bytes in use.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len as usize).unwrap_or_default()
    }

    /// For calls that read the address.
    pub fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.bytes).cast()
    }

    /// For calls that write the address.
    pub fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.bytes).cast()
    }

    /// Bytes in use.
    pub fn len(&self) -> libc::socklen_t {
        self.len
    }

    /// Pointer to the length, which the kernel reads as the room and writes as the size.
    pub fn len_mut_ptr(&mut self) -> *mut libc::socklen_t {
        &raw mut self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_survive_the_round_trip(v6: bool, ip: u128, port: u16, scope: u32) {
            let address = if v6 {
                SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope))
            } else {
                SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip as u32)), port)
            };
            prop_assert_eq!(RawAddr::new(address).get(), Some(address));
        }
    }

    #[test]
    fn an_untouched_address_is_none() {
        assert_eq!(RawAddr::empty().get(), None);
    }
}
