//! UDP: what comes together is answered together, and leaves the kernel cut.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::net::UdpSocket;

/// So many lines of one length, all of which come back one by one in their order.
fn burst(client: &UdpSocket, server: &Server, lines: usize) {
    for n in 100..100 + lines {
        client.send_to(format!("b {n}\n").as_bytes(), server.udp()).unwrap();
    }
    for n in 100..100 + lines {
        assert_eq!(hear(client), format!("b {n}\n"));
    }
}

/// Fewer than are ever taken in one system call.
#[test]
fn a_few_that_come_together_are_answered_together() {
    let mut config = config("127.0.0.1");
    config.segment = true;
    let server = Server::with(config, 1);
    let client = client();
    wait("some that went together", || {
        burst(&client, &server, 6);
        (server.counts().udp_segmented > 0).then_some(())
    });
}

#[test]
fn datagrams_go_together_only_if_asked_to() {
    for segment in [true, false] {
        let mut config = config("127.0.0.1");
        config.segment = segment;
        let server = Server::with(config, 1);
        let client = client();
        if segment {
            wait("some that went together", || {
                burst(&client, &server, 100);
                (server.counts().udp_segmented > 100).then_some(())
            });
        }
        (0..10).for_each(|_| burst(&client, &server, 100));
        let counts = server.counts();
        assert_eq!((counts.udp_segmented > 0, counts.udp_send_errors), (segment, 0));
    }
}
