//! An independent witness: the kernel's count of the packets between generator and system.

use std::io;
use std::net::{IpAddr, SocketAddr};

use lab::checks;
use lab::experiment::Transport;
use lab_kernel::{PacketCounter, Protocol};
use load::report::Report;

use crate::sampler::{Kind, Reading, put};

/// Counts packets between two hosts.
#[derive(Debug)]
pub struct Witness {
    counter: PacketCounter,
}

impl Witness {
    /// Begins to count.
    ///
    /// # Errors
    /// A sentence that says why there is no witness.
    pub fn new(transport: Transport, system: SocketAddr, generator: SocketAddr) -> Result<Witness, String> {
        let (IpAddr::V4(system), IpAddr::V4(generator)) = (system.ip(), generator.ip()) else {
            return Err("it counts IPv4 packets only".to_owned());
        };
        if system == generator {
            return Err("the generator calls itself".to_owned());
        }
        let protocol = match transport {
            Transport::Udp => Protocol::Udp,
            Transport::Sctp => Protocol::Sctp,
            Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => Protocol::Tcp,
        };
        let counter = PacketCounter::new(protocol, system, generator).map_err(|error| refusal(&error))?;
        Ok(Witness { counter })
    }

    /// Packets since the beginning.
    pub fn total(&self) -> u64 {
        self.counter.read().unwrap_or(0)
    }

    /// Adds the count to a reading.
    pub fn read(&self, reading: &mut Reading) {
        put(reading, "wire.packets", Kind::Growth, "1/s", self.total() as f64);
    }
}

/// Why packets cannot be seen.
pub fn refusal(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "no right to see packets (CAP_NET_RAW, and CAP_BPF to count them)".to_owned()
        }
        _ => error.to_string(),
    }
}

/// What the generator says of its messages, beside the packets that were counted meanwhile.
pub fn compared(packets: u64, load: &Report) -> checks::Witness {
    let sum = |beginnings: &[&str]| {
        let of_these = |key: &str| beginnings.iter().any(|beginning| key.starts_with(beginning));
        load.whole.iter().filter(|(key, _)| of_these(key)).map(|(_, count)| count).sum()
    };
    checks::Witness {
        packets,
        sent: sum(&["requests_sent.", "requests_repeated.", "responses_sent", "responses_repeated"]),
        received: sum(&["requests_received.", "responses_received."]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_generator_are_summed_by_direction() {
        let mut load = Report::default();
        let counts = [
            ("requests_sent.INVITE", 10),
            ("requests_repeated.INVITE", 1),
            ("responses_sent", 20),
            ("responses_repeated", 2),
            ("requests_received.INVITE", 100),
            ("responses_received.200", 200),
            ("session_finals.200", 1_000),
            ("calls.begun", 1_000),
        ];
        load.whole.extend(counts.map(|(key, count)| (key.to_owned(), count)));
        let found = compared(330, &load);
        assert_eq!((found.sent, found.received, found.missing()), (33, 300, 3));
    }

    #[test]
    fn generator_that_calls_itself_has_no_witness() {
        let place = SocketAddr::from(([127, 0, 0, 1], 5060));
        let error = Witness::new(Transport::Udp, place, place).expect_err("no two hosts");
        assert!(error.contains("itself"), "{error}");
    }
}
