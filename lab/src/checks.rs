//! What was seen of a run beside its figures: packets on the wire, whether hosts reach each other, and what
//! could not be seen.

use serde::{Deserialize, Serialize};

/// What was seen of a run beside its figures.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Checks {
    /// What the witness counted while the measuring generator ran; nothing where there is none.
    pub witness: Option<Witness>,
    /// Captures before and after the measurement.
    pub captures: Vec<Capture>,
    /// Whether hosts reach each other, before and after.
    pub connectivity: Vec<RoundTrips>,
    /// What could not be observed, each with its reason.
    pub unobserved: Vec<String>,
}

/// Packets between generator and system: those that the kernel had, and those that the generator speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Witness {
    /// Datagrams that arrived, in both directions.
    pub packets: u64,
    /// Messages that the generator sent, those sent again included.
    pub sent: u64,
    /// Messages that it received.
    pub received: u64,
}

impl Witness {
    /// Messages of the generator, in both directions.
    pub fn counted(&self) -> u64 {
        self.sent.saturating_add(self.received)
    }

    /// Messages that never arrived.
    pub fn missing(&self) -> u64 {
        self.counted().saturating_sub(self.packets)
    }

    /// Datagrams that the generator does not know of.
    pub fn unknown(&self) -> u64 {
        self.packets.saturating_sub(self.counted())
    }
}

/// Packets of the system that were captured, in a file of the archive.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Capture {
    /// The file.
    pub file: String,
    /// Packets in it.
    pub packets: usize,
    /// From the first to the last packet, seconds.
    pub seconds: f64,
    /// Messages that were there before, byte by byte, in datagrams.
    pub repeated: usize,
    /// Responses from 400 on, challenges not included, in datagrams.
    pub errors: usize,
}

/// Questions to a host and their answers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundTrips {
    /// When, as "before".
    pub when: String,
    /// Where it asked.
    pub to: String,
    /// "ICMP" or "SIP OPTIONS".
    pub by: String,
    /// Questions.
    pub sent: u32,
    /// Without an answer.
    pub lost: u32,
    /// The shortest time to an answer, milliseconds.
    pub min: Option<f64>,
    /// The median.
    pub median: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn witness_tells_lost_from_uncounted_packets() {
        let of = |packets| Witness { packets, sent: 60, received: 40 };
        assert_eq!((of(97).missing(), of(97).unknown()), (3, 0));
        assert_eq!((of(102).missing(), of(102).unknown()), (0, 2));
    }
}
