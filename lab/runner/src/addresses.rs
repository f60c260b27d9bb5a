//! Addresses of a run. Each part has an address of its own, so every part can use port 5060, and no two
//! experiments on one machine meet.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// A block of IPv4 addresses, /16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block(u32);

/// The block of generators and back ends in namespaces: RFC 2544 sets it apart for measurements.
pub const FAR: Block = Block(0xc612_0000);
/// The block of systems in namespaces.
pub const NEAR: Block = Block(0xc613_0000);

impl Block {
    /// The block with its length, `198.18.0.0/16`.
    pub fn block(self) -> String {
        format!("{}/16", Ipv4Addr::from(self.0))
    }

    /// An address of it.
    fn nth(self, number: u32) -> IpAddr {
        // The last part is never 0 or 255.
        IpAddr::V4(Ipv4Addr::from(self.0 + (number / 250 % 256) * 256 + number % 250 + 1))
    }
}

/// Gives out addresses that nothing listens at.
#[derive(Debug)]
pub struct Addresses {
    next: u32,
    /// Whether both sides have a namespace: nothing listens there.
    apart: bool,
}

/// Addresses from 127.16.0.0 on: those before are often in use by other programs.
const FIRST: u32 = 0x7f10_0000;
const COUNT: u32 = 0x00e0_0000;
/// How many are tried.
const TRIES: u32 = 1_000;
/// The port that every part uses.
pub const PORT: u16 = 5060;

impl Addresses {
    /// Those of the loopback interface. Begins at a place that follows from `number`, such as the process.
    pub fn new(number: u32) -> Addresses {
        Addresses { next: number.wrapping_mul(4_099) % COUNT, apart: false }
    }

    /// Those of a network of namespaces.
    pub fn apart() -> Addresses {
        Addresses { next: 0, apart: true }
    }

    /// The next free one for a system.
    ///
    /// # Errors
    /// If port 5060 can be bound at none: then something is wrong with the loopback interface.
    pub fn fresh(&mut self) -> Result<IpAddr, String> {
        self.of(NEAR)
    }

    /// The next free one for the generator and what is on its side.
    ///
    /// # Errors
    /// As with [`Addresses::fresh`].
    pub fn far(&mut self) -> Result<IpAddr, String> {
        self.of(FAR)
    }

    fn of(&mut self, block: Block) -> Result<IpAddr, String> {
        if self.apart {
            self.next += 1;
            return Ok(block.nth(self.next));
        }
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

    #[test]
    fn sides_of_a_network_have_blocks_of_their_own() {
        let mut addresses = Addresses::apart();
        assert_eq!(addresses.far().map(|ip| ip.to_string()), Ok("198.18.0.2".to_owned()));
        assert_eq!(addresses.fresh().map(|ip| ip.to_string()), Ok("198.19.0.3".to_owned()));
        assert_eq!(
            (FAR.block(), NEAR.nth(249), NEAR.nth(250)),
            ("198.18.0.0/16".to_owned(), IpAddr::from([198, 19, 0, 250]), IpAddr::from([198, 19, 1, 1]))
        );
    }
}
