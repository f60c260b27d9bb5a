//! What a datagram over loopback costs without and with the packet counter of a run, nanoseconds; the
//! median of pairs of rounds that alternate.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Instant;

use lab_kernel::{PacketCounter, Protocol};

const DATAGRAMS: u32 = 100_000;
const ROUNDS: usize = 21;
const FROM: Ipv4Addr = Ipv4Addr::new(127, 15, 8, 1);
const TO: Ipv4Addr = Ipv4Addr::new(127, 15, 8, 2);

fn main() -> std::io::Result<()> {
    let (sender, receiver) = (UdpSocket::bind((FROM, 0))?, UdpSocket::bind((TO, 0))?);
    let place = receiver.local_addr()?;
    let mut buffer = [0; 2_048];
    let mut round = || -> std::io::Result<f64> {
        let begun = Instant::now();
        for _ in 0..DATAGRAMS {
            sender.send_to(&[b'x'; 500], place)?;
            receiver.recv(&mut buffer)?;
        }
        Ok(begun.elapsed().as_nanos() as f64 / f64::from(DATAGRAMS))
    };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(round()?);
        let counter = PacketCounter::new(Protocol::Udp, FROM, TO)?;
        with.push(round()?);
        drop(counter);
    }
    let mut differences: Vec<f64> = without.iter().zip(&with).map(|(a, b)| b - a).collect();
    let middle = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (without, difference) = (middle(&mut without), middle(&mut differences));
    println!("a datagram takes {without:.0} ns; the witness adds {difference:.0} ns");
    Ok(())
}
