//! A network namespace without a name.

use std::fs::File;
use std::io;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// A network namespace. It lasts as long as this descriptor, and the processes in it.
#[derive(Debug)]
pub struct Space(File);

impl Space {
    /// Makes an empty one.
    ///
    /// # Errors
    /// What the kernel says: EPERM without CAP_SYS_ADMIN.
    pub fn make() -> io::Result<Space> {
        super::apart(|| {
            // Only this thread moves, and it ends here. No table of descriptors is divided.
            #[expect(deprecated, reason = "its successor is unsafe because of another flag than this one")]
            rustix::thread::unshare(UnshareFlags::NEWNET)?;
            File::open("/proc/thread-self/ns/net").map(Space)
        })
    }

    /// Does something in it. Processes that it starts stay there.
    ///
    /// # Errors
    /// If it cannot be entered, or what the work itself says.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
        let done = super::apart(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&self.0), kind)?;
            Ok(work())
        });
        done.unwrap_or_else(|error| Err(format!("a network namespace cannot be entered: {error}")))
    }

    /// Another descriptor of it.
    ///
    /// # Errors
    /// If there are too many descriptors.
    pub fn again(&self) -> Result<Space, String> {
        self.0.try_clone().map(Space).map_err(|error| format!("a network namespace: {error}"))
    }

    /// A path that names it for other programs, as long as this one runs.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&self.0))
    }
}
