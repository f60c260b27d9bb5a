//! Ordinary deployments in private networks: what `adversary` forbids those outside must not be in the way of
//! those inside. Networks behind address translation, of containers, of carriers and of IPv6 are all the same
//! here.

use super::*;

/// A LAN of each kind: the server and two phones in it.
const LANS: [[&str; 3]; 5] = [
    ["10.0.0.1:5060", "10.0.0.30:5060", "10.9.0.20:5062"],
    ["192.168.1.1:5060", "192.168.1.30:5060", "192.168.1.20:5062"],
    ["172.17.0.1:5060", "172.17.0.3:5060", "172.18.0.2:5062"],
    ["100.64.0.1:5060", "100.64.0.30:5060", "100.127.0.20:5062"],
    ["[fd00::1]:5060", "[fd00::30]:5060", "[fd12::20]:5062"],
];
const CARRIER: &str = "203.0.113.5:5060";

fn udp_listener(address: &str, advertise: Option<&str>) -> Listener {
    let advertise = advertise.map(|name| (name.as_bytes().to_vec(), None));
    Listener::new(Transport::Udp, address.parse().unwrap(), advertise)
}

/// Over the listener with this index.
fn over(listener: u16, from: &str) -> Flow {
    Flow::udp(ListenerId(listener), from.parse().unwrap())
}

/// A REGISTER of `user` at `address`, which is also where the phone thinks it is.
fn register(lab: &mut Lab, listener: u16, user: &str, address: &str) {
    let mut req = Req::new("REGISTER", "sip:here.example").sent_by("UDP", address);
    req.from = format!("<sip:{user}@here.example>;tag=r{}", number());
    req.to = format!("<sip:{user}@here.example>");
    req.lines = vec![format!("Contact: <sip:{user}@{address}>")];
    let sent = proven(lab, over(listener, address), user, &req);
    assert_eq!(statuses(&sent), [200]);
}

/// A request of `user` from `address`.
fn from_user(method: &str, uri: &str, user: &str, address: &str) -> Req {
    let mut req = Req::new(method, uri).sent_by("UDP", address);
    req.from = format!("<sip:{user}@here.example>;tag=f{}", number());
    req.lines = vec![format!("Contact: <sip:{user}@{address}>")];
    req
}

/// What a request led to once its challenge was answered.
fn proven(lab: &mut Lab, flow: Flow, user: &str, req: &Req) -> Vec<Sent> {
    lab.send_on(flow, req.text());
    let challenge = lab.one();
    lab.send_on(flow, req.answer(user, &challenge).text());
    lab.sent()
}

/// The request among what left.
fn request(sent: Vec<Sent>) -> Sent {
    let mut all: Vec<Sent> = sent.into_iter().filter(|s| s.status() == 0).collect();
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

/// A call from `caller` is set up, and ended by either side; `got` is the INVITE as the callee has it, whose
/// Contact is `contact`.
fn talk(lab: &mut Lab, invite: &Req, caller: Flow, got: &Sent, contact: &str, user: [Option<&str>; 2]) {
    let callee = Flow { conn: None, ..got.flow };
    lab.send_on(callee, got.reply(200, "b", &format!("Contact: <sip:b@{contact}>\r\n")));
    let ok = lab.one();
    assert_eq!((ok.status(), ok.flow), (200, caller));
    lab.send_on(caller, invite.within("ACK", &ok).text());
    assert_eq!(lab.one().flow, callee);
    let send = |lab: &mut Lab, flow, user: Option<&str>, req: &Req| match user {
        Some(user) => request(proven(lab, flow, user, req)),
        None => {
            lab.send_on(flow, req.text());
            request(lab.sent())
        }
    };
    let bye = from_callee(got, "INFO", contact, inside(got.get("To").unwrap()));
    assert_eq!(send(lab, callee, user[1], &bye).flow, caller);
    assert_eq!(send(lab, caller, user[0], &invite.within("BYE", &ok)).flow, callee);
}

#[test]
fn phones_in_one_private_network_call_each_other() {
    for [us, alice, bob] in LANS {
        let mut lab = Lab::with(|s| s.listeners = vec![udp_listener(us, None)]);
        register(&mut lab, 0, "alice", alice);
        register(&mut lab, 0, "bob", bob);
        let invite = from_user("INVITE", "sip:bob@here.example", "alice", alice);
        let got = request(proven(&mut lab, over(0, alice), "alice", &invite));
        assert_eq!(got.flow, over(0, bob));
        talk(&mut lab, &invite, over(0, alice), &got, bob, [Some("alice"), Some("bob")]);
        // A gateway of the network, by its address.
        let host = bob.rsplit_once(':').unwrap().0;
        let call = from_user("OPTIONS", &format!("sip:x@{host}:5070"), "alice", alice);
        let got = request(proven(&mut lab, over(0, alice), "alice", &call));
        assert_eq!(got.to(), format!("{host}:5070"));
    }
}

/// A server with a public address and one in a private network.
fn two_legs(change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.listeners = vec![udp_listener(US, None), udp_listener("10.0.0.1:5060", None)];
        s.trunks.push(trunk(&["sip:203.0.113.5"], "+49"));
        change(s);
    })
}

#[test]
fn phones_in_the_private_network_of_a_server_with_a_public_address_are_called_from_outside() {
    let phone = "10.0.0.30:5060";
    let mut lab = two_legs(|_| {});
    register(&mut lab, 1, "bob", phone);
    register(&mut lab, 0, "alice", ALICE);
    // By a stranger, a carrier, and a user behind somebody else's address translation.
    let stranger = Req::invite();
    let mut carrier = Req::invite().sent_by("UDP", CARRIER);
    carrier.lines = vec![format!("Contact: <sip:{CARRIER}>")];
    let user = from_user("INVITE", "sip:bob@here.example", "alice", "192.168.1.5:5060");
    for (from, invite, caller) in
        [(CAROL, stranger, None), (CARRIER, carrier, None), (ALICE, user, Some("alice"))]
    {
        let caller_flow = over(0, from);
        let got = match caller {
            Some(user) => request(proven(&mut lab, caller_flow, user, &invite)),
            None => {
                lab.send_on(caller_flow, invite.text());
                request(lab.sent())
            }
        };
        assert_eq!(got.flow, over(1, phone), "{from}");
        talk(&mut lab, &invite, caller_flow, &got, phone, [caller, Some("bob")]);
    }
}

#[test]
fn phones_in_the_private_network_of_a_server_with_a_public_address_call_out() {
    let phone = "10.0.0.30:5060";
    let mut lab = two_legs(|_| {});
    register(&mut lab, 1, "alice", phone);
    register(&mut lab, 0, "bob", BOB);
    for (uri, to) in
        [("sip:+4930@here.example", CARRIER), ("sip:bob@here.example", BOB), ("sip:carol@192.0.2.10", CAROL)]
    {
        let invite = from_user("INVITE", uri, "alice", phone);
        let got = request(proven(&mut lab, over(1, phone), "alice", &invite));
        // From the public address: nobody outside could answer the other one.
        assert_eq!(got.flow, over(0, to), "{uri}");
        assert!(got.get("Via").unwrap().contains(US), "{}", got.text);
        let callee = (to == BOB).then_some("bob");
        talk(&mut lab, &invite, over(1, phone), &got, to, [Some("alice"), callee]);
    }
}

#[test]
fn a_server_behind_address_translation_serves_both_sides_of_it() {
    let (phone, us) = ("10.0.0.30:5060", "10.0.0.1:5060");
    for advertised in ["203.0.113.80", "sip.here.example", "SIP.Here.Example"] {
        let mut lab = Lab::with(|s| {
            s.listeners = vec![udp_listener(us, Some(advertised))];
            s.trunks.push(Trunk {
                sources: vec![(CARRIER.parse::<SocketAddr>().unwrap().ip(), 32)],
                ..trunk(&["sip:203.0.113.5"], "+49")
            });
        });
        register(&mut lab, 0, "alice", phone);
        register(&mut lab, 0, "bob", BOB);
        let out = from_user("INVITE", "sip:+4930@here.example", "alice", phone);
        let across = from_user("INVITE", "sip:bob@here.example", "alice", phone);
        for (invite, to, callee) in [(out, CARRIER, None), (across, BOB, Some("bob"))] {
            let got = request(proven(&mut lab, over(0, phone), "alice", &invite));
            assert_eq!(got.flow, over(0, to));
            talk(&mut lab, &invite, over(0, phone), &got, to, [Some("alice"), callee]);
        }
        let invite = from_user("INVITE", "sip:alice@here.example", "bob", BOB);
        let got = request(proven(&mut lab, over(0, BOB), "bob", &invite));
        assert_eq!(got.flow, over(0, phone));
        talk(&mut lab, &invite, over(0, BOB), &got, phone, [Some("bob"), Some("alice")]);
    }
}

#[test]
fn an_answer_is_ours_however_our_sent_by_is_spelled() {
    for (us, advertise, spellings) in [
        ("198.51.100.1:5060", None, &["198.51.100.1", "198.51.100.1:5060", "198.51.100.1 : 5060"][..]),
        ("198.51.100.1:5080", None, &["198.51.100.1:5080"]),
        ("10.0.0.1:5080", Some("sip.here.example"), &["sip.here.example", "SIP.here.Example:5060"]),
        ("[2001:db8::1]:5060", None, &["[2001:DB8:0:0::1]", "[2001:db8::1]:5060"]),
    ] {
        for spelled in spellings {
            let phone = if us.starts_with('[') { "[2001:db8::20]:5060" } else { BOB };
            let mut lab = Lab::with(|s| s.listeners = vec![udp_listener(us, advertise)]);
            lab.bind("bob", &format!("<sip:bob@{phone}>"), over(0, phone));
            let caller = over(0, if us.starts_with('[') { "[2001:db8::10]:5060" } else { CAROL });
            lab.send_on(caller, Req::invite().text());
            let got = request(lab.sent());
            let via = got.get("Via").unwrap().split([' ', ';']).nth(1).unwrap().to_owned();
            lab.send_on(got.flow, got.reply(180, "b", "").replacen(&via, spelled, 1));
            assert_eq!(statuses(&lab.sent()), [180], "{spelled}");
        }
    }
}
