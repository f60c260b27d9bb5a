//! A route that lets nothing reach one address, until it is dropped. A file stands for it, so that the next
//! lab finds the route of one that was killed.

use std::fs::{self, OpenOptions};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;

use crate::owner;
use crate::programs::found;

/// What the name of its file says it is of.
const WALL: &str = "wall-";

/// The route.
#[derive(Debug)]
pub struct Wall {
    address: IpAddr,
    file: PathBuf,
}

impl Wall {
    /// Adds the route.
    ///
    /// # Errors
    /// If `ip` refuses: it needs root.
    pub fn build(address: IpAddr) -> Result<Wall, String> {
        let file = std::env::temp_dir().join(owner::name(&format!("{WALL}{address}"))?);
        // First the file: a route without one would stay for ever.
        // Nobody else's file is written to: anybody may put a link there.
        let made = OpenOptions::new().write(true).create_new(true).open(&file);
        made.map_err(|error| format!("{}: {error}", file.display()))?;
        // From here on the file goes with it.
        let wall = Wall { address, file };
        change(address, "add").map(|()| wall)
    }

    /// The address of the route that a name stands for. Only loopback addresses have one.
    pub fn address_of(what: &str) -> Option<IpAddr> {
        let address: Ipv4Addr = what.strip_prefix(WALL)?.parse().ok()?;
        address.is_loopback().then_some(IpAddr::V4(address))
    }

    /// Removes the route of a lab that was killed; whether it was there.
    pub fn remove(address: IpAddr) -> bool {
        change(address, "del").is_ok()
    }
}

fn change(address: IpAddr, how: &str) -> Result<(), String> {
    let mut command = Command::new(found("ip"));
    command.args(["route", how, "blackhole", &format!("{address}/32"), "table", "local"]);
    let done = command.output().map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(format!("ip route {how}: {}", said.trim())) }
}

impl Drop for Wall {
    fn drop(&mut self) {
        let _ = change(self.address, "del");
        let _ = fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_wall_has_the_address_of_its_route() {
        assert_eq!(Wall::address_of("wall-127.16.0.9"), Some(IpAddr::from([127, 16, 0, 9])));
        for other in ["wall-10.0.0.1", "wall-x", "data", "wall-::1"] {
            assert_eq!(Wall::address_of(other), None, "{other}");
        }
    }
}
