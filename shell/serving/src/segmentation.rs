//! Whether datagrams to one peer go through the kernel together (udp(7), `UDP_SEGMENT`): cheaper, but who
//! captures packets on this machine may see several as one, and so does whatever rewrites SIP on its way out
//! of it.

use control::config::Segmentation as Wish;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sockets that take packets past the protocols, one a line (packet(7)). Anyone may read it, and it is
/// there for a process that sees itself only of /proc (`ProcSubset=pid`), which /proc/net is not.
const PACKET_SOCKETS: &str = "/proc/self/net/packet";
/// There, wherever that one is, if there can be such sockets.
const UDP_SOCKETS: &str = "/proc/self/net/udp";
/// "1" where the kernel has its helpers rewrite what goes through it for address translation, SIP among it,
/// unasked; the one for SIP reads the first message of a packet. Kernels from 6.0 on do not have it: there a
/// rule has to name the helper.
const REWRITER: &str = "/proc/sys/net/netfilter/nf_conntrack_helper";

/// What speaks against it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Against {
    /// A socket takes all packets, as those of tcpdump and sngrep do.
    Capture,
    /// The kernel rewrites SIP.
    Rewriter,
}

/// Follows whether datagrams may go together.
pub(crate) struct Segmentation {
    wish: Wish,
    switch: Arc<AtomicBool>,
    against: Option<Against>,
}

impl Segmentation {
    /// As the operator wishes, and as things are now.
    pub fn new(wish: Wish) -> Segmentation {
        let switch = Arc::new(AtomicBool::new(wish != Wish::Off));
        let mut segmentation = Segmentation { wish, switch, against: None };
        segmentation.look();
        segmentation
    }

    /// What the workers go by; `None`: never.
    pub fn switch(&self) -> Option<Arc<AtomicBool>> {
        (self.wish != Wish::Off).then(|| Arc::clone(&self.switch))
    }

    /// Looks how things are, each second or so.
    pub fn look(&mut self) {
        if self.wish != Wish::Auto {
            return;
        }
        let sockets = std::fs::read_to_string(PACKET_SOCKETS);
        let sees = Path::new(UDP_SOCKETS).exists();
        let rewrites = std::fs::read_to_string(REWRITER).is_ok_and(|said| said.trim() == "1");
        self.go_by(against(sockets, sees, rewrites));
    }

    fn go_by(&mut self, against: Option<Against>) {
        if against == self.against {
            return;
        }
        match against {
            Some(Against::Capture) => tracing::info!(
                "packet capture detected (`ss -0 -p` names the process): UDP segmentation off; \
                 udp_segmentation = \"on\" keeps it on"
            ),
            Some(Against::Rewriter) => tracing::info!(
                "the kernel may rewrite SIP (net.netfilter.nf_conntrack_helper = 1): each datagram is sent alone; set it to \
                 0, which servers are better with"
            ),
            None => tracing::info!("datagrams to one peer go through the kernel together"),
        }
        self.against = against;
        self.switch.store(against.is_none(), Ordering::Relaxed);
    }
}

/// What speaks against it, by the list of packet sockets; `sees`: whether such lists can be seen at all.
fn against(sockets: io::Result<String>, sees: bool, rewrites: bool) -> Option<Against> {
    let captured = match sockets {
        Ok(list) => list.lines().skip(1).any(takes_all),
        // A kernel without such sockets has no list of them; what else hides it may hide a capture.
        Err(error) => !sees || error.kind() != io::ErrorKind::NotFound,
    };
    match captured {
        true => Some(Against::Capture),
        false => rewrites.then_some(Against::Rewriter),
    }
}

/// Whether a line of the list is of a socket that takes packets of all protocols (`ETH_P_ALL`): the fourth
/// column.
fn takes_all(line: &str) -> bool {
    line.split_whitespace().nth(3) == Some("0003")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";

    #[test]
    fn who_takes_all_packets_captures() {
        let list = |proto: &str| {
            Ok(format!("{HEAD}000000000255305f 3      3    {proto}   1     1 0      0      1502213\n"))
        };
        assert_eq!(against(Ok(HEAD.to_owned()), true, false), None);
        assert_eq!(against(list("0003"), true, true), Some(Against::Capture));
        // One of a DHCP client or for LLDP.
        assert_eq!(against(list("0800"), true, false), None);
        assert_eq!(against(list("88cc"), true, true), Some(Against::Rewriter));
        assert_eq!(against(Err(io::ErrorKind::NotFound.into()), true, false), None);
        assert_eq!(against(Err(io::ErrorKind::NotFound.into()), false, false), Some(Against::Capture));
        assert_eq!(against(Err(io::ErrorKind::PermissionDenied.into()), true, false), Some(Against::Capture));
    }

    #[test]
    fn the_workers_go_by_what_is_seen() {
        let mut auto = Segmentation::new(Wish::Auto);
        let switch = auto.switch().unwrap();
        for (against, on) in
            [(None, true), (Some(Against::Capture), false), (Some(Against::Rewriter), false), (None, true)]
        {
            auto.go_by(against);
            assert_eq!(switch.load(Ordering::Relaxed), on, "{against:?}");
        }
        assert!(Segmentation::new(Wish::Off).switch().is_none());
        let on = Segmentation::new(Wish::On);
        assert!(on.switch().unwrap().load(Ordering::Relaxed));
    }
}
