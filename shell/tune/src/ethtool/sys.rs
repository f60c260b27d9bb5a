//! The system call behind settings of network cards, as a safe function. All unsafe code of this crate is
//! here.

use std::ffi::c_void;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

/// `SIOCETHTOOL` of linux/sockios.h.
const REQUEST: libc::Ioctl = 0x8946;

/// Bytes of a card's name with its final zero, `IFNAMSIZ`.
const NAME: usize = 16;

/// The structure of a command of linux/ethtool.h, as 32-bit words; the first one is the command. It is larger
/// than every structure without a variable length.
#[repr(C, align(8))]
#[derive(Clone)]
pub(super) struct Command(pub(super) [u32; 64]);

/// `struct ifreq` of linux/if.h, with the pointer of its union.
#[repr(C)]
struct Request {
    name: [u8; NAME],
    data: *mut c_void,
    rest: [u8; 16],
}

/// Carries out a command on a card. It must be one whose structure has no variable length.
pub(super) fn ethtool(card: &str, command: &mut Command) -> io::Result<()> {
    let mut name = [0; NAME];
    if card.len() >= NAME || card.is_empty() {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    name[..card.len()].copy_from_slice(card.as_bytes());
    // Any socket will do.
    let socket = UnixDatagram::unbound()?;
    let mut request = Request { name, data: (&raw mut command.0).cast(), rest: [0; 16] };
    // SAFETY: the request has the size and form of `struct ifreq`, its pointer leads to 256 writable bytes
    // that live until the call returns, and the commands used here have at most 196 bytes.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), REQUEST, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
