use super::*;
use std::net::UdpSocket;
use wire::ListenerId;

#[test]
fn what_waits_for_room_goes_first_and_beyond_the_cap_is_dropped() {
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = peer.local_addr().expect("its address");
    let ours = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let poller = Poller::new(1).expect("an epoll");
    let counters = Arc::new(Counters::default());
    let listener = crate::Listener { transport: wire::Transport::Udp, address: to };
    let config = RuntimeConfig { listeners: vec![listener], udp_send_queue: 2, ..RuntimeConfig::default() };
    let socket = super::UdpSocket { id: ListenerId(0), fd: Arc::new(ours.into()), peer: None };
    let watch = (&poller, |number| number as u64);
    let mut datagrams =
        Datagrams::new(&config, vec![socket], Arc::clone(&counters), watch, Time::ZERO).expect("a watch");
    assert!(datagrams.sockets[0].keep(b"first", to, &poller));

    let mut out = Outbox::new();
    for text in [&b"second"[..], b"third"] {
        out.send(Flow::udp(ListenerId(0), to), 9, text);
    }
    for index in 0..2 {
        assert!(datagrams.enqueue(&Flow::udp(ListenerId(0), to), index));
    }
    assert!(!datagrams.enqueue(&Flow::udp(ListenerId(1), to), 0), "there is no such listener");
    datagrams.send(&out, &poller, |token| panic!("{token} is not undeliverable"));
    assert_eq!((counters.read().udp_out, counters.read().udp_send_drops), (0, 1));

    datagrams.writable(0, &poller);
    let mut buffer = [0; 16];
    for expected in [&b"first"[..], b"second"] {
        let n = peer.recv(&mut buffer).expect("a datagram");
        assert_eq!(&buffer[..n], expected);
    }
    assert_eq!(counters.read().udp_out, 2);
    assert!(datagrams.sockets[0].has_room());
}
