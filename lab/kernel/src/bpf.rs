//! A program in the kernel that counts packets in a map (bpf(2)). The layouts are those of `union bpf_attr`
//! (`include/uapi/linux/bpf.h`), each up to the last field that is used here.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const PROGRAM_LOAD: libc::c_int = 5;
const ARRAY: u32 = 2;
const SOCKET_FILTER: u32 = 1;
/// No function that the program calls asks for a licence; the kernel wants a text.
const LICENCE: &std::ffi::CStr = c"MIT OR Apache-2.0";

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapLookup {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// Calls bpf(2).
///
/// # Safety
/// `A` is laid out as the kernel has it for this command, and the addresses in it are readable, or writable
/// where the kernel writes, during the call.
unsafe fn bpf<A>(command: libc::c_int, attributes: &A) -> io::Result<libc::c_int> {
    let size = size_of::<A>() as libc::c_uint;
    // SAFETY: the attributes are readable for their size; the rest is the caller's promise.
    let value = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size) };
    super::check(value as libc::c_int)
}

/// A sum that a program in the kernel adds to.
#[derive(Debug)]
pub struct Sum(OwnedFd);

impl Sum {
    /// A sum of nothing.
    pub fn new() -> io::Result<Sum> {
        let attributes = MapCreate { kind: ARRAY, key_size: 4, value_size: 8, max_entries: 1, flags: 0 };
        // SAFETY: the layout is that of the command; it has no addresses.
        let map = unsafe { bpf(MAP_CREATE, &attributes) }?;
        // SAFETY: bpf(2) has just given us this descriptor, and nobody else.
        Ok(Sum(unsafe { OwnedFd::from_raw_fd(map) }))
    }

    /// Its value.
    pub fn read(&self) -> io::Result<u64> {
        let (key, mut value) = (0_u32, 0_u64);
        let attributes = MapLookup {
            map: self.number(),
            unused: 0,
            key: &raw const key as u64,
            value: &raw mut value as u64,
        };
        // SAFETY: the layout is that of the command; the key is readable and the value writable for the sizes
        // that the map was made with.
        unsafe { bpf(MAP_LOOKUP, &attributes) }?;
        Ok(value)
    }

    /// How instructions name it.
    pub fn number(&self) -> u32 {
        self.0.as_raw_fd().unsigned_abs()
    }
}

/// Loads a program for sockets.
pub fn load(instructions: &[u64]) -> io::Result<OwnedFd> {
    let attributes = ProgramLoad {
        kind: SOCKET_FILTER,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    // SAFETY: the layout is that of the command; instructions and licence are readable.
    let program = unsafe { bpf(PROGRAM_LOAD, &attributes) }?;
    // SAFETY: bpf(2) has just given us this descriptor, and nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(program) })
}
