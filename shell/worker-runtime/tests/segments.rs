//! UDP: what comes together is answered together, and leaves the kernel cut.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::*;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A hundred lines of one length, all of which come back one by one in their order.
fn burst(client: &UdpSocket, server: &Server) {
    for n in 100..200 {
        client.send_to(format!("b {n}\n").as_bytes(), server.udp()).unwrap();
    }
    for n in 100..200 {
        assert_eq!(hear(client), format!("b {n}\n"));
    }
}

#[test]
fn datagrams_go_together_while_they_may() {
    for connected in [0, 1] {
        let switch = Arc::new(AtomicBool::new(true));
        let mut config = config("127.0.0.1");
        (config.segment, config.connected) = (Some(Arc::clone(&switch)), connected);
        let server = Server::with(config, 1);
        let (client, mut bursts) = (client(), 0);
        wait("some that went together", || {
            bursts += 1;
            burst(&client, &server);
            (server.counts().udp_segmented > 100).then_some(())
        });
        switch.store(false, Ordering::Relaxed);
        // What is on its way.
        burst(&client, &server);
        let before = server.counts().udp_segmented;
        (0..2 * bursts + 3).for_each(|_| burst(&client, &server));
        let counts = server.counts();
        assert_eq!((counts.udp_segmented, counts.udp_send_errors), (before, 0));
        switch.store(true, Ordering::Relaxed);
        wait("some again", || {
            burst(&client, &server);
            (server.counts().udp_segmented > before).then_some(())
        });
    }
}
