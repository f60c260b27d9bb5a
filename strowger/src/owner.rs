//! Root works on a data directory as the user who owns it, so that the server can still read and write what
//! is made.

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

/// If this process is root's and the folder is another user's, the calling thread and those it starts from
/// now on are that user's, with the folder's group alone. There is no way back. A folder that cannot be read
/// about changes nothing: its use reports the error.
///
/// # Errors
/// What the kernel answers where root may not change its user, as in a container without CAP_SETUID.
pub fn become_owner(dir: &Path) -> io::Result<()> {
    let Ok(about) = fs::metadata(dir) else { return Ok(()) };
    if !geteuid().is_root() || about.uid() == 0 {
        return Ok(());
    }
    let group = Gid::from_raw(about.gid());
    // In this order: a user who is not root may change neither groups nor group.
    set_thread_groups(&[group])?;
    set_thread_gid(group)?;
    set_thread_uid(Uid::from_raw(about.uid()))?;
    Ok(())
}
