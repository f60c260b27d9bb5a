//! Programs for the kernel and the maps that they use (bpf(2)).
//!
//! The layouts are those of `union bpf_attr` (`include/uapi/linux/bpf.h`), each up to the last field that is
//! used here: the kernel takes what is missing for zero.

use super::check_long;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_PERCPU_ARRAY: u32 = 6;
const BPF_MAP_TYPE_REUSEPORT_SOCKARRAY: u32 = 20;
/// The map can be mapped into the memory of a process.
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
const BPF_PROG_TYPE_SK_REUSEPORT: u32 = 21;
/// Name of maps and programs, as `bpftool` shows them.
const NAME: [u8; 16] = *b"strowger\0\0\0\0\0\0\0\0";

/// What a program is for.
#[derive(Clone, Copy)]
pub enum Use {
    /// It chooses among sockets that share a port.
    Choose,
    /// It says what a socket takes.
    Filter,
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

/// Calls bpf(2).
///
/// # Safety
/// `A` is laid out as the kernel has it for this command, and every address in it is readable, or writable
/// where the kernel writes, for as long as it says.
unsafe fn bpf<A>(command: libc::c_int, attr: &A) -> io::Result<usize> {
    // SAFETY: `attr` is readable for its size; the rest is the caller's promise.
    check_long(unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<A>()) })
}

fn owned(fd: usize) -> OwnedFd {
    // SAFETY: bpf(2) has just given us this descriptor, and nobody else.
    unsafe { OwnedFd::from_raw_fd(fd as RawFd) }
}

fn create_map(map_type: u32, value_size: u32, max_entries: u32, map_flags: u32) -> io::Result<OwnedFd> {
    let attr = MapCreate {
        map_type,
        key_size: 4,
        value_size,
        max_entries,
        map_flags,
        inner_map_fd: 0,
        numa_node: 0,
        map_name: NAME,
    };
    // SAFETY: the layout is that of the command; it holds no addresses.
    unsafe { bpf(BPF_MAP_CREATE, &attr) }.map(owned)
}

/// A map with one value of so many bytes for each CPU.
pub fn scratch_map(bytes: u32) -> io::Result<OwnedFd> {
    create_map(BPF_MAP_TYPE_PERCPU_ARRAY, bytes, 1, 0)
}

/// A map with so many values of so many bytes, which can be mapped.
pub fn table_map(bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    create_map(BPF_MAP_TYPE_ARRAY, bytes, entries, BPF_F_MMAPABLE)
}

/// A map of sockets that share a port. It holds none of them open.
pub fn socket_map(sockets: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    let map = create_map(BPF_MAP_TYPE_REUSEPORT_SOCKARRAY, 8, sockets.len() as u32, 0)?;
    for (index, socket) in sockets.iter().enumerate() {
        let (key, value) = (index as u32, socket.as_raw_fd() as u64);
        let attr = MapUpdate {
            map_fd: map.as_raw_fd() as u32,
            unused: 0,
            key: &raw const key as u64,
            value: &raw const value as u64,
            flags: 0,
        };
        // SAFETY: the layout is that of the command; key and value are readable for the sizes that the map
        // was made with, during the call.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attr) }?;
    }
    Ok(map)
}

/// Has the kernel check and translate a program. With `log`, what the check says is written there, ended by a
/// zero.
pub fn load_program(purpose: Use, code: &[u64], log: Option<&mut [u8]>) -> io::Result<OwnedFd> {
    let license = c"MIT";
    let (log_size, log_buf) = log.map_or((0, 0), |log| (log.len() as u32, log.as_mut_ptr() as u64));
    let attr = ProgLoad {
        prog_type: match purpose {
            Use::Choose => BPF_PROG_TYPE_SK_REUSEPORT,
            Use::Filter => BPF_PROG_TYPE_SOCKET_FILTER,
        },
        insn_cnt: code.len() as u32,
        insns: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(log_size > 0),
        log_size,
        log_buf,
        kern_version: 0,
        prog_flags: 0,
        prog_name: NAME,
    };
    // SAFETY: the layout is that of the command; `code` is readable for so many instructions of 8 bytes, the
    // license ends with a zero, and the log is writable for its length.
    unsafe { bpf(BPF_PROG_LOAD, &attr) }.map(owned)
}

/// Lets the program choose among the sockets that share this one's port.
pub fn attach_reuseport_program(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF);
    super::socket::set(socket, level, name, program.as_raw_fd())
}

/// Lets the program say what this socket takes. That takes no privilege.
pub fn attach_filter(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    super::socket::set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, program.as_raw_fd())
}

/// Ends that.
pub fn detach_filter(socket: BorrowedFd<'_>) -> io::Result<()> {
    super::socket::set(socket, libc::SOL_SOCKET, libc::SO_DETACH_BPF, 0)
}

/// Ends that.
pub fn detach_reuseport_program(socket: BorrowedFd<'_>) -> io::Result<()> {
    super::socket::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, 0)
}
