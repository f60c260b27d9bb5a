//! A stream whose bytes go in pieces of random lengths.

use std::io::{Read, Result, Write};
use std::net::TcpStream;

/// Writes and reads pieces whose lengths follow from a seed.
pub struct Pieces {
    tcp: TcpStream,
    state: u64,
}

impl Pieces {
    pub fn new(tcp: TcpStream, seed: u64) -> Pieces {
        Pieces { tcp, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Mostly short, sometimes long; xorshift of Marsaglia.
    fn length(&mut self, most: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let bits = (self.state >> 32) % 15;
        ((self.state >> 40) as usize % (1 << bits)).clamp(1, most.max(1))
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let len = self.length(bytes.len());
        let written = self.tcp.write(bytes.get(..len).unwrap_or(bytes));
        // The peer may read this piece alone.
        std::thread::yield_now();
        written
    }

    fn flush(&mut self) -> Result<()> {
        self.tcp.flush()
    }
}

impl Read for Pieces {
    fn read(&mut self, room: &mut [u8]) -> Result<usize> {
        let len = self.length(room.len()).min(room.len());
        self.tcp.read(&mut room[..len])
    }
}
