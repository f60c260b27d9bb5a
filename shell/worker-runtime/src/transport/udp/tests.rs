use super::peers::place_of;
use super::socket::send_one;
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
    let socket =
        super::UdpSocket { id: ListenerId(0), fd: Arc::new(ours.into()), peer: None, lent: Lent::No };
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

/// A socket lent to one peer that cannot be connected to another, as for 255.255.255.255 without leave to
/// broadcast, goes on to the first.
#[test]
fn what_cannot_be_connected_anew_still_sends_to_the_peer_it_had() {
    for lent in [Lent::Unbound, Lent::Mute] {
        let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let to = peer.local_addr().expect("its address");
        peer.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("patience");
        let options = sys::SocketOptions::default();
        let (listener, _, _) =
            sys::udp_bind("127.0.0.1:0".parse().expect("one"), &options).expect("a listener");
        let address =
            UdpSocket::from(listener.try_clone().expect("a copy")).local_addr().expect("its address");
        let fd = match lent {
            Lent::Mute => {
                sys::Mutes::new(address).and_then(|mutes| mutes.open(0)).expect("one that only sends")
            }
            _ => sys::udp_socket(address, &options).expect("a socket").0,
        };
        let opened = super::UdpSocket { id: ListenerId(0), fd: Arc::new(fd), peer: None, lent };
        let mut socket = Socket::new(opened, 0, 1);
        socket.connect(address, to).expect("a way");
        let nowhere = "255.255.255.255:9".parse().expect("an address");
        assert!(socket.connect(address, nowhere).is_err());
        let mut reports = Reports::new(Arc::default());
        for text in [&b"first"[..], b"second", b"third"] {
            let named = if socket.peer().is_some() { None } else { Some(to) };
            send_one(socket.fd(), text, named, &mut reports).expect("sent");
            let mut buffer = [0; 16];
            let (n, from) = peer.recv_from(&mut buffer).expect("a datagram");
            assert_eq!((&buffer[..n], from), (text, address));
        }
    }
}

/// The one socket that is lent is taken from a peer for one that nothing can be connected to. The first is
/// sent to all the same, one at a time, many at once and what waited. Then it gets the socket back.
#[test]
fn peer_without_its_socket_is_sent_to_as_before() {
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = peer.local_addr().expect("its address");
    peer.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("patience");
    let options = sys::SocketOptions::default();
    let address = sys::udp_probe("127.0.0.1:0".parse().expect("one")).expect("a port");
    let (listening, _, _) = sys::udp_bind(address, &options).expect("a listener");
    let (spare, _, _) = sys::udp_socket(address, &options).expect("a socket");
    let listeners = [crate::Listener { transport: wire::Transport::Udp, address }];
    let config =
        RuntimeConfig { listeners: listeners.to_vec(), udp_send_queue: 8, ..RuntimeConfig::default() };
    let counters = Arc::new(Counters::default());
    let poller = Poller::new(2).expect("an epoll");
    let sockets = [(listening, Lent::No), (spare, Lent::Unbound)].map(|(fd, lent)| super::UdpSocket {
        id: ListenerId(0),
        fd: Arc::new(fd),
        peer: None,
        lent,
    });
    let watch = (&poller, |number| number as u64);
    let mut datagrams =
        Datagrams::new(&config, sockets.into(), Arc::clone(&counters), watch, Time::ZERO).expect("a watch");
    let flow = Flow::udp(ListenerId(0), to);
    let elsewhere =
        (9..).map(|port| SocketAddr::from(([255; 4], port))).find(|at| place_of(at) != place_of(&to));
    let nowhere = Flow::udp(ListenerId(0), elsewhere.expect("a place of its own"));
    let count = |datagrams: &mut Datagrams, flow: &Flow, times| {
        (0..times).map(|_| datagrams.number_of(flow)).last().expect("a number")
    };
    let hear = |text: &[u8]| {
        let mut buffer = [0; 600];
        let (n, from) = peer.recv_from(&mut buffer).expect("a datagram");
        assert_eq!((&buffer[..n], from), (text, address));
    };
    count(&mut datagrams, &flow, 200);
    datagrams.connect_busy(Time::from_micros(1_000_000), &listeners);
    assert_eq!(count(&mut datagrams, &flow, 200), 1);
    count(&mut datagrams, &nowhere, 1_000);
    datagrams.connect_busy(Time::from_micros(2_000_000), &listeners);
    let lent = datagrams.sockets.get(1).expect("it");
    assert_eq!((lent.peer(), lent.lent()), (None, Lent::Bound));

    let mut out = Outbox::new();
    for text in [&[b'x'; 500][..], b"second", b"third"] {
        out.send(flow, 9, text);
    }
    let lone = out.transmits().first().expect("a transmit");
    for _ in 0..3 {
        assert!(datagrams.send_lone(&out, lone, &poller, |_| panic!("it can be sent")));
        hear(&[b'x'; 500]);
    }
    for kernel_cuts in [false, true] {
        datagrams.send = SendBatch::new(64, kernel_cuts.then(|| Arc::new(true.into())));
        for _ in 0..10 {
            (0..3).for_each(|index| assert!(datagrams.enqueue(&flow, index)));
            datagrams.enqueue(&flow, 0);
        }
        datagrams.send(&out, &poller, |_| panic!("it can be sent"));
        for _ in 0..10 {
            [&[b'x'; 500][..], b"second", b"third", &[b'x'; 500]].iter().for_each(|text| hear(text));
        }
    }
    assert_eq!(count(&mut datagrams, &flow, 1), 1, "by the socket that has no peer");
    assert!(datagrams.sockets.get_mut(1).expect("it").keep(b"waited", to, &poller));
    datagrams.writable(1, &poller);
    hear(b"waited");

    count(&mut datagrams, &flow, 200);
    datagrams.connect_busy(Time::from_micros(3_000_000), &listeners);
    assert_eq!(datagrams.sockets.get(1).expect("it").peer(), Some(to));
    assert_eq!(counters.read().udp_send_errors, 0);
}
