//! What each worker counts. Only the worker writes its counters, so an increment is a plain load and
//! store; anyone may read them at any time.

use std::ops::{Add, AddAssign};
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and any thread reads.
#[derive(Default, Debug)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds `n`. Only the owning worker may call it: two writers would lose counts (nothing worse).
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds one.
    pub(crate) fn one(&self) {
        self.add(1);
    }

    /// Overwrites, for figures that go up and down.
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares the counters: name and meaning, as `docs/reference/metrics.md` has it.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The live counters of one worker, on cache lines of their own.
        #[derive(Default, Debug)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $(pub(crate) $name: Count,)+
        }

        /// The counters of one worker, or the sum of several, at one moment. All count events since
        /// the start, except [`tcp_open`](Counts::tcp_open).
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Counts {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// The figures now.
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.get(),)+ }
            }
        }

        impl Counts {
            /// Every figure with its name and what it means, for metrics.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($doc),+).trim_ascii(), self.$name),)+].into_iter()
            }
        }

        impl AddAssign for Counts {
            fn add_assign(&mut self, other: Counts) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

counters! {
    /// Datagrams received.
    udp_in,
    /// Bytes of datagrams received.
    udp_bytes_in,
    /// Datagrams handed to the kernel.
    udp_out,
    /// Bytes of datagrams handed to the kernel.
    udp_bytes_out,
    /// Receive calls that brought at least one datagram.
    udp_batches,
    /// Datagrams the kernel dropped because the receive buffer was full. Read from the kernel.
    udp_kernel_drops,
    /// Datagrams that the kernel dropped in an overload, because they would have been left unanswered. Read
    /// from the kernel.
    udp_sieved,
    /// Datagrams that went through the kernel as one with others.
    udp_segmented,
    /// Datagrams dropped because the kernel's send buffer and our queue were full.
    udp_send_drops,
    /// Datagrams the kernel refused to send (no route, too long, refused).
    udp_send_errors,
    /// Datagrams that came back: the network says that they cannot be delivered.
    udp_returned,
    /// Datagrams that came to another worker than their owner, and crossed over.
    udp_hops,
    /// Messages handed to the worker that owns them.
    hops_out,
    /// Messages taken from other workers.
    hops_in,
    /// Messages lost because the owner's ring was full.
    ring_drops,
    /// Notices (settings, reports, answers of the resolver) that workers took.
    notices,
    /// Messages received on streams.
    tcp_messages_in,
    /// Bytes received on streams.
    tcp_bytes_in,
    /// Messages queued on streams.
    tcp_messages_out,
    /// Bytes handed to the kernel on streams.
    tcp_bytes_out,
    /// Connections open now.
    tcp_open,
    /// Connections accepted.
    tcp_accepted,
    /// Connections begun by us.
    tcp_connects,
    /// Connections begun by us that did not come about.
    tcp_connect_failures,
    /// Of the connections begun by us, those that the other side refused.
    tcp_connects_refused,
    /// Connections refused for a cap of the process or of their source.
    tcp_refused,
    /// Connections refused because no descriptors or memory were left.
    tcp_exhausted,
    /// Pings answered.
    tcp_pongs,
    /// Connections closed by the peer, in order or by reset.
    tcp_closed_peer,
    /// Connections closed at the machine's wish.
    tcp_closed_asked,
    /// Connections closed for long silence.
    tcp_closed_idle,
    /// Connections closed because no message ever came.
    tcp_closed_useless,
    /// Connections closed because a message did not end in time.
    tcp_closed_slow,
    /// Connections closed because the stream could not be followed.
    tcp_closed_broken,
    /// Connections closed because the peer did not read.
    tcp_closed_stalled,
    /// Connections without a registration or call, closed to make room for others.
    tcp_closed_room,
    /// Connections closed by a socket error.
    tcp_closed_error,
    /// Paths of SCTP associations that became unreachable. Others of the same association may still work.
    sctp_paths_lost,
    /// Associations that were restarted by the peer. Each counts as a new connection.
    sctp_restarts,
    /// Associations on a shared socket that got their own socket, because they had to wait.
    sctp_peeled_off,
    /// TLS handshakes that were completed, with clients and with servers.
    tls_handshakes,
    /// TLS handshakes that failed, and connections that a fault of TLS ended.
    tls_failures,
    /// TLS connections to servers that failed, because the server did not prove its name or refused us, or
    /// were not begun, because there was no name to prove.
    tls_unproven,
    /// Handshakes of WebSocket that were accepted.
    websocket_handshakes,
    /// HTTP requests on WebSocket listeners that got a 4xx.
    websocket_refused,
    /// WebSocket connections that ended because the peer broke a rule of WebSocket.
    websocket_faults,
    /// TLS handshakes with clients that resumed an earlier session; they are among the completed ones.
    tls_resumed,
    /// TLS handshakes with servers that resumed an earlier session. They also count as completed.
    tls_resumed_servers,
    /// TLS connections that failed because the ends have no version, cipher suite or other parameter in
    /// common.
    tls_failed_common,
    /// TLS connections that failed because a certificate is missing or not believed.
    tls_failed_certificate,
    /// TLS connections that the peer ended by an alert.
    tls_failed_alert,
    /// Connections to TLS ports whose first byte was not TLS.
    tls_failed_not_tls,
    /// TLS handshakes that were not over in time.
    tls_failed_timeout,
    /// TLS connections that failed for another fault of the peer.
    tls_failed_other,
    /// Connections refused because there were too many TLS handshakes, in total or from one source, and none
    /// of them could be closed to make room.
    tls_refused,
    /// TLS handshakes without progress that were closed to make room for another.
    tls_gave_way,
    /// TLS handshakes that waited for a later round, because those before them had taken their time.
    tls_deferred,
    /// Microseconds from accept to the end of completed TLS handshakes with clients, all together.
    tls_handshake_us,
    /// Microseconds from the start of a connection to a server to the end of its TLS handshake, summed over
    /// completed handshakes.
    tls_connect_us,
    /// Microseconds that workers spent on TLS handshakes with clients.
    tls_busy_us,
    /// Bytes received on TLS connections, decrypted; they are among those on streams.
    tls_bytes_in,
    /// Bytes sent on TLS connections, before encryption; they are among those on streams.
    tls_bytes_out,
    /// TLS connections closed by the peer, in order or by reset.
    tls_closed_peer,
    /// TLS connections closed at the machine's wish.
    tls_closed_asked,
    /// TLS connections closed for long silence.
    tls_closed_idle,
    /// TLS connections closed because no message, or no handshake, ever came.
    tls_closed_useless,
    /// TLS connections closed because a message did not end in time.
    tls_closed_slow,
    /// TLS connections closed because the stream could not be followed.
    tls_closed_broken,
    /// TLS connections closed because the peer did not read.
    tls_closed_stalled,
    /// TLS connections without a registration or call, closed to make room for others.
    tls_closed_room,
    /// TLS connections closed by a fault of TLS or a socket error.
    tls_closed_error,
    /// Requests that would begin something, not sent because their connection took nothing and much waited
    /// for it.
    tcp_congested,
    /// Messages that could not be sent, of any transport.
    undeliverable,
    /// Rounds of the event loop.
    rounds,
    /// System calls of the data path, without those of busy polling.
    syscalls,
    /// Microseconds of processor time spent on busy polling.
    busy_polled_us,
}

impl Counters {
    /// Datagrams received, and their bytes.
    pub(crate) fn datagrams(&self) -> (u64, u64) {
        (self.udp_in.get(), self.udp_bytes_in.get())
    }

    /// Messages that the worker's machine was given, or its neighbours were.
    pub(crate) fn taken(&self) -> u64 {
        self.udp_in.get() + self.tcp_messages_in.get() + self.hops_in.get()
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(mut self, other: Counts) -> Counts {
        self += other;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_carry_their_names() {
        let counters = Counters::default();
        counters.udp_in.add(3);
        counters.udp_in.one();
        counters.tcp_open.set(7);
        let sum = counters.read() + counters.read();
        assert_eq!((sum.udp_in, sum.tcp_open), (8, 14));
        let found = sum.each().find(|(name, ..)| *name == "udp_in");
        assert_eq!(found, Some(("udp_in", "Datagrams received.", 8)));
    }
}
