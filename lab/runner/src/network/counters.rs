//! The kernel's counters of one namespace. A file of /proc/net shows the namespace in which it was
//! opened, from wherever it is read later.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::link::{CARD, dropped_by_queues};
use super::space::Space;

/// Octets of a file that are read.
const LARGEST: usize = 1 << 16;

/// Files of /proc/net, opened in a namespace.
#[derive(Debug)]
pub struct Counters {
    snmp: File,
    netstat: File,
    cards: File,
    datagrams: bool,
    /// Where queues drop packets that the card never sees.
    shaped: Option<Space>,
}

impl Counters {
    /// Opens those of a namespace. `datagrams`: packets of the card are datagrams. `shaped`: there are
    /// queues.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub fn open(space: &Space, datagrams: bool, shaped: bool) -> Result<Counters, String> {
        let open = |name: &str| {
            let path = format!("/proc/thread-self/net/{name}");
            File::open(&path).map_err(|error| format!("{path}: {error}"))
        };
        let (snmp, netstat, cards) = space.within(|| Ok((open("snmp")?, open("netstat")?, open("dev")?)))?;
        let shaped = shaped.then(|| space.again()).transpose()?;
        Ok(Counters { snmp, netstat, cards, datagrams, shaped })
    }

    /// /proc/net/snmp.
    pub fn snmp(&self) -> String {
        text(&self.snmp)
    }

    /// /proc/net/netstat.
    pub fn netstat(&self) -> String {
        text(&self.netstat)
    }

    /// Packets that left the programs of this side: those that the card sent, and those that a queue before
    /// it dropped. Nothing where they are no datagrams.
    ///
    /// # Errors
    /// If the drops are there and cannot be read.
    pub fn sent(&self) -> Result<Option<Sent>, String> {
        let Some(by_card) = transmitted(&text(&self.cards)).filter(|_| self.datagrams) else {
            return Ok(None);
        };
        let dropped = self.shaped.as_ref().map(|space| space.within(dropped_by_queues)).transpose()?;
        Ok(Some(Sent { by_card, dropped: dropped.unwrap_or(0.0) }))
    }
}

/// Packets that left the programs of one side.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sent {
    /// Sent by the card.
    pub by_card: f64,
    /// Dropped by a queue before it.
    pub dropped: f64,
}

/// The packets that the card of this table sent: the tenth number.
fn transmitted(table: &str) -> Option<f64> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(CARD)?.strip_prefix(':'))?;
    line.split_whitespace().nth(9)?.parse().ok()
}

/// The whole text as it is now.
fn text(file: &File) -> String {
    let mut bytes = vec![0; LARGEST];
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, u64::try_from(length).unwrap_or(u64::MAX)) {
            Ok(0) | Err(_) => break,
            Ok(more) => length += more,
        }
    }
    bytes.truncate(length);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_packets_are_those_of_the_card() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  \
                     lab0: 100 2 0 0 0 0 0 0 900 17 0 0 0 0 0 0\n";
        assert_eq!(transmitted(table), Some(17.0));
        assert_eq!(transmitted(""), None);
    }

    #[test]
    fn counters_are_read_again_from_the_same_files() {
        let open = |name: &str| File::open(format!("/proc/net/{name}")).expect("it is there");
        let (snmp, netstat, cards) = (open("snmp"), open("netstat"), open("dev"));
        let counters = Counters { snmp, netstat, cards, datagrams: false, shaped: None };
        let before = counters.snmp();
        assert!(before.contains("Udp: InDatagrams"), "{before}");
        assert_eq!(counters.snmp().lines().count(), before.lines().count());
        assert!(counters.netstat().contains("TcpExt:"));
        assert_eq!(counters.sent(), Ok(None));
    }
}
