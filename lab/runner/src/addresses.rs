//! Loopback addresses of a run. Each part has an address of its own, so every part can use port 5060, and no
//! two experiments on one machine meet.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// Gives out addresses of 127.0.0.0/8 that nothing listens at.
#[derive(Debug)]
pub struct Addresses {
    next: u32,
}

/// Addresses from 127.16.0.0 on: those before are often in use by other programs.
const FIRST: u32 = 0x7f10_0000;
const COUNT: u32 = 0x00e0_0000;
/// How many are tried.
const TRIES: u32 = 1_000;
/// The port that every part uses.
pub const PORT: u16 = 5060;

impl Addresses {
    /// Begins at a place that follows from `number`, such as the process.
    pub fn new(number: u32) -> Addresses {
        Addresses { next: number.wrapping_mul(4_099) % COUNT }
    }

    /// The next free one.
    ///
    /// # Errors
    /// If port 5060 can be bound at none: then something is wrong with the loopback interface.
    pub fn fresh(&mut self) -> Result<IpAddr, String> {
        for _ in 0..TRIES {
            let address = IpAddr::V4(Ipv4Addr::from(FIRST + self.next));
            self.next = (self.next + 1) % COUNT;
            if UdpSocket::bind((address, PORT)).is_ok() {
                return Ok(address);
            }
        }
        Err("no address of 127.0.0.0/8 has port 5060 free: is the loopback interface up?".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_in_use_is_left_out() {
        let mut addresses = Addresses::new(std::process::id());
        let first = addresses.fresh().expect("one is free");
        let _taken = UdpSocket::bind((first, PORT)).expect("it was free");
        let mut again = Addresses::new(std::process::id());
        assert_ne!(again.fresh().expect("another is free"), first);
    }
}
