//! What the runtime's counters mean, for `/metrics`. The same sentences stand in docs/metrics.md.

/// The sentence for the counter that [`worker_runtime::Counts::each`] calls `name`; empty for one that
/// is not known here.
pub fn help(name: &str) -> &'static str {
    match name {
        "udp_in" => "Datagrams received.",
        "udp_bytes_in" => "Bytes of datagrams received.",
        "udp_out" => "Datagrams handed to the kernel.",
        "udp_bytes_out" => "Bytes of datagrams handed to the kernel.",
        "udp_batches" => "Receive calls that brought at least one datagram.",
        "udp_kernel_drops" => {
            "Datagrams the kernel dropped because the receive buffer was full. Read from the kernel."
        }
        "udp_sieved" => {
            "Datagrams that the kernel dropped in an overload, because they would have been left unanswered. Read from the kernel."
        }
        "udp_segmented" => "Datagrams that went through the kernel as one with others.",
        "udp_send_drops" => "Datagrams dropped because the kernel's send buffer and our queue were full.",
        "udp_send_errors" => "Datagrams the kernel refused to send (no route, too long, refused).",
        "udp_returned" => "Datagrams that came back: the network says that they cannot be delivered.",
        "udp_hops" => "Datagrams that came to another worker than their owner, and crossed over.",
        "hops_out" => "Messages handed to the worker that owns them.",
        "hops_in" => "Messages taken from other workers.",
        "ring_drops" => "Messages lost because the owner's ring was full.",
        "notices" => "Notices (settings, reports, answers of the resolver) that workers took.",
        "tcp_messages_in" => "Messages received on streams.",
        "tcp_bytes_in" => "Bytes received on streams.",
        "tcp_messages_out" => "Messages queued on streams.",
        "tcp_bytes_out" => "Bytes handed to the kernel on streams.",
        "tcp_open" => "Connections open now.",
        "tcp_accepted" => "Connections accepted.",
        "tcp_connects" => "Connections begun by us.",
        "tcp_connect_failures" => "Connections begun by us that did not come about.",
        "tcp_connects_refused" => "Of the connections begun by us, those that the other side refused.",
        "tcp_refused" => "Connections refused for a cap of the process or of their source.",
        "tcp_exhausted" => "Connections refused because no descriptors or memory were left.",
        "tcp_pongs" => "Pings answered.",
        "tcp_closed_peer" => "Connections closed by the peer, in order or by reset.",
        "tcp_closed_asked" => "Connections closed at the machine's wish.",
        "tcp_closed_idle" => "Connections closed for long silence.",
        "tcp_closed_useless" => "Connections closed because no message ever came.",
        "tcp_closed_slow" => "Connections closed because a message did not end in time.",
        "tcp_closed_broken" => "Connections closed because the stream could not be followed.",
        "tcp_closed_stalled" => "Connections closed because the peer did not read.",
        "tcp_closed_room" => "Connections without a registration or call, closed to make room for others.",
        "tcp_closed_error" => "Connections closed by a socket error.",
        "tcp_congested" => {
            "Requests that would begin something, not sent because their connection took nothing and much waited for it."
        }
        "undeliverable" => "Messages that could not be sent, of any transport.",
        "rounds" => "Rounds of the event loop.",
        "syscalls" => "System calls of the data path, without those of busy polling.",
        "busy_polled_us" => "Microseconds of processor time spent on busy polling.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_counter_has_a_sentence_of_its_own() {
        let names: Vec<&str> = worker_runtime::Counts::default().each().map(|(name, _)| name).collect();
        let texts: BTreeSet<&str> = names.iter().map(|name| help(name)).collect();
        assert!(!texts.contains(""), "a counter without a sentence among {names:?}");
        assert_eq!(texts.len(), names.len(), "two counters share a sentence");
    }
}
