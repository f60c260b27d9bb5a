//! The registrar as phones see it: RFC 3261 section 10, RFC 3327 and RFC 5626, over UDP and TCP.

use live::{Credentials, Link, Msg, Req, Server, Setup, Via, eventually};
use std::time::Duration;

/// A REGISTER of `user@example.com` with these header lines and nothing else.
fn bare(link: &Link, user: &str, lines: &[&str]) -> Req {
    let mut req = Req::new("REGISTER", "sip:example.com", link).user(user);
    req.to = format!("<sip:{user}@example.com>");
    lines.iter().fold(req, |r, line| r.with(line))
}

fn register(server: &Server, user: &str, lines: &[&str]) -> Msg {
    let mut link = server.link(Via::Udp);
    let req = bare(&link, user, lines);
    link.ask(&req)
}

/// The bindings as a fetch shows them: Contact values without their expiry.
fn fetch(server: &Server, user: &str) -> Vec<String> {
    let answer = register(server, user, &[]);
    assert_eq!(answer.status(), Some(200));
    let mut all: Vec<String> = answer
        .all("Contact")
        .into_iter()
        .flat_map(|v| v.split(','))
        .filter_map(|v| Some(v.split_once('<')?.1.split_once('>')?.0.to_owned()))
        .collect();
    all.sort();
    all
}

/// The `expires` that the answer gives the binding whose Contact contains this text.
fn expires_of(answer: &Msg, part: &str) -> Option<u32> {
    let value = answer.all("Contact").into_iter().flat_map(|v| v.split(',')).find(|v| v.contains(part))?;
    value.split(';').find_map(|p| p.trim().strip_prefix("expires="))?.parse().ok()
}

#[test]
fn add_refresh_fetch_remove() {
    let server = Setup::open().start();
    let one = "Contact: <sip:a@192.0.2.1>;expires=600";
    assert_eq!(fetch(&server, "a"), Vec::<String>::new());
    let answer = register(&server, "a", &[one, "Contact: <sip:a@192.0.2.2>;q=0.5", "Expires: 900"]);
    assert_eq!(answer.status(), Some(200));
    let first = expires_of(&answer, "192.0.2.1").unwrap();
    assert!((590..=600).contains(&first), "{first}");
    assert!((890..=900).contains(&expires_of(&answer, "192.0.2.2").unwrap()));
    assert_eq!(fetch(&server, "a"), ["sip:a@192.0.2.1", "sip:a@192.0.2.2"]);
    register(&server, "a", &["m: <sip:a@192.0.2.1>;expires=0"]);
    assert_eq!(fetch(&server, "a"), ["sip:a@192.0.2.2"]);
    register(&server, "a", &["Contact: *", "Expires: 0"]);
    assert_eq!(fetch(&server, "a"), Vec::<String>::new());
}

/// RFC 3261 sections 10.3 step 8 and 20.17.
#[test]
fn registrations_are_answered_with_a_date() {
    let server = Setup::open().start();
    let answer = register(&server, "a", &["Contact: <sip:a@192.0.2.1>"]);
    assert_eq!(answer.status(), Some(200));
    let date = answer.header("Date").unwrap();
    let shape: String = date.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    assert_eq!((&shape[3..8], &shape[11..]), (", 99 ", " 9999 99:99:99 GMT"), "{date}");
    // A fetch has one as well, a refusal none.
    assert!(register(&server, "a", &[]).header("Date").is_some());
    assert_eq!(register(&server, "a", &["Contact: x"]).header("Date"), None);
}

#[test]
fn a_binding_is_one_by_uri_equality() {
    let server = Setup::open().start();
    // RFC 3261 section 19.1.4: escapes, host case and parameter order make no difference ...
    register(&server, "a", &["Contact: <sip:%61@Example.NET;transport=udp;x=1>"]);
    register(&server, "a", &["Contact: <sip:a@example.net;x=1;transport=UDP>"]);
    assert_eq!(fetch(&server, "a").len(), 1);
    // ... the user's case and the port do.
    register(&server, "a", &["Contact: <sip:A@example.net;x=1;transport=udp>"]);
    register(&server, "a", &["Contact: <sip:a@example.net:5061;x=1;transport=udp>"]);
    assert_eq!(fetch(&server, "a").len(), 3);
}

#[test]
fn too_brief_and_too_long() {
    let server = Setup::open().config("[registrar]\nmin_expires = 60\nmax_expires = 600\n").start();
    let answer = register(&server, "a", &["Contact: <sip:a@192.0.2.1>;expires=30"]);
    assert_eq!(answer.status(), Some(423));
    assert_eq!(answer.header("Min-Expires"), Some("60"));
    assert_eq!(fetch(&server, "a"), Vec::<String>::new());
    let answer = register(&server, "a", &["Contact: <sip:a@192.0.2.1>;expires=100000"]);
    assert_eq!(expires_of(&answer, "192.0.2.1").map(|e| e <= 600), Some(true));
}

#[test]
fn all_or_nothing_in_order() {
    let server = Setup::open().start();
    let send = |cseq: u32, lines: &[&str]| {
        let mut link = server.link(Via::Udp);
        let mut req = bare(&link, "a", lines);
        req.call_id = "one-phone".into();
        req.cseq = cseq;
        link.status(&req)
    };
    assert_eq!(send(5, &["Contact: <sip:a@192.0.2.1>", "Contact: <sip:a@192.0.2.2>"]), 200);
    // Older, and it names one binding that exists: nothing of it may happen, not even the new one.
    assert_eq!(send(4, &["Contact: <sip:a@192.0.2.3>", "Contact: <sip:a@192.0.2.1>;expires=0"]), 500);
    assert_eq!(fetch(&server, "a"), ["sip:a@192.0.2.1", "sip:a@192.0.2.2"]);
    // One bad Contact among good ones: nothing either.
    let status = send(6, &["Contact: <sip:a@192.0.2.4>", "Contact: <sip:a@192.0.2.5>;expires=1"]);
    assert_eq!(status, 423);
    assert_eq!(fetch(&server, "a").len(), 2);
}

#[test]
fn a_binding_ends_with_its_time() {
    let server = Setup::open().config("[registrar]\nmin_expires = 1\n").start();
    register(&server, "a", &["Contact: <sip:a@192.0.2.1>;expires=2"]);
    assert_eq!(fetch(&server, "a").len(), 1);
    eventually("the binding expires", || fetch(&server, "a").is_empty().then_some(()));
    let mut link = server.link(Via::Udp);
    let req = Req::new("MESSAGE", "sip:a@example.com", &link);
    assert!(matches!(link.status(&req), 480 | 404));
}

#[test]
fn the_cap_of_bindings_holds() {
    let server = Setup::open().config("[registrar]\nmax_bindings = 3\n").start();
    for n in 1..=3 {
        assert_eq!(register(&server, "a", &[&format!("Contact: <sip:a@192.0.2.{n}>")]).status(), Some(200));
    }
    let over = register(&server, "a", &["Contact: <sip:a@192.0.2.9>"]).status().unwrap();
    assert!(matches!(over, 403 | 413 | 500 | 503), "{over}");
    assert_eq!(fetch(&server, "a").len(), 3);
    // Removing one and adding another in one request stays within the cap.
    let swap =
        register(&server, "a", &["Contact: <sip:a@192.0.2.1>;expires=0", "Contact: <sip:a@192.0.2.9>"]);
    assert_eq!(swap.status(), Some(200));
}

#[test]
fn instance_and_reg_id_replace() {
    let server = Setup::open().start();
    let contact = |host: &str, reg: u32| {
        format!(
            "Contact: <sip:a@{host}>;+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-000a95a0e128>\";reg-id={reg}"
        )
    };
    for (host, reg) in [("192.0.2.1", 1), ("192.0.2.2", 2), ("192.0.2.3", 1)] {
        let answer = register(&server, "a", &[&contact(host, reg), "Supported: outbound, path"]);
        assert_eq!(answer.status(), Some(200));
    }
    // RFC 5626 section 6: the same instance and reg-id is the same flow, whatever its Contact.
    assert_eq!(fetch(&server, "a"), ["sip:a@192.0.2.2", "sip:a@192.0.2.3"]);
}

#[test]
fn path_is_kept_and_used() {
    let server = Setup::open().start();
    // The edge proxy is where the registration comes from; the phone is only reachable through it.
    let mut edge = live::Listener::open(server.sip());
    let path = format!("<sip:{};lr>", edge.udp.local());
    let req =
        bare(&edge.udp, "a", &[&format!("Path: {path}"), "Supported: path", "Contact: <sip:a@192.0.2.1>"]);
    let answer = edge.udp.ask(&req);
    assert_eq!(answer.status(), Some(200));
    assert_eq!(answer.header("Path"), Some(path.as_str()), "RFC 3327 section 5.3: echoed");
    let mut link = server.link(Via::Udp);
    let req = Req::new("MESSAGE", "sip:a@example.com", &link);
    link.send(&req.bytes());
    let (message, edge) = edge.request_within(Duration::from_secs(10)).expect("sent to the edge proxy");
    assert_eq!(message.uri(), "sip:a@192.0.2.1");
    assert_eq!(message.header("Route"), Some(path.as_str()));
    edge.send(&message.reply(200, "a", &[]));
    assert_eq!(link.response(&req).status(), Some(200));
}

#[test]
fn path_without_support_is_refused() {
    let server = Setup::open().start();
    let answer = register(&server, "a", &["Path: <sip:edge.example.com;lr>", "Contact: <sip:a@192.0.2.1>"]);
    // RFC 3327 section 5.3 would let a registrar store it as well; it recommends this.
    assert_eq!((answer.status(), answer.header("Unsupported")), (Some(420), Some("path")));
    assert!(fetch(&server, "a").is_empty());
}

#[test]
fn service_route_is_told() {
    let server = Setup::open().config("[registrar]\nservice_route = [\"sip:edge.example.com;lr\"]\n").start();
    let answer = register(&server, "a", &["Contact: <sip:a@192.0.2.1>"]);
    assert!(answer.header("Service-Route").is_some_and(|v| v.contains("sip:edge.example.com;lr")));
}

#[test]
fn digest_then_registered_over_both_transports() {
    let server = Setup::new().user("a", "pw-a").workers(2).start();
    for via in Via::BOTH {
        let mut link = server.link(via);
        let req = Req::register("a", &link);
        assert_eq!(link.status(&req), 401, "{via:?}");
        let answer = link.ask_as(&req, &Credentials::new("a", "pw-a"));
        assert_eq!(answer.status(), Some(200), "{via:?}");
        assert!(answer.has(&link.local().to_string()));
    }
}

#[test]
fn other_domains_and_extensions_are_refused() {
    let server = Setup::open().start();
    let mut link = server.link(Via::Udp);
    let mut elsewhere = bare(&link, "a", &["Contact: <sip:a@192.0.2.1>"]);
    elsewhere.uri = "sip:elsewhere.example".into();
    elsewhere.to = "<sip:a@elsewhere.example>".into();
    assert!(matches!(link.status(&elsewhere), 403 | 404));
    let require = bare(&link, "a", &["Contact: <sip:a@192.0.2.1>", "Require: nothing-known"]);
    let answer = link.ask(&require);
    assert_eq!(answer.status(), Some(420));
    assert_eq!(answer.header("Unsupported"), Some("nothing-known"));
}

/// Cameras of GB/T 28181 live in domains that are no host names.
#[test]
fn a_camera_registers_in_a_domain_of_digits() {
    let server = Setup::open().domain("3402000000").start();
    let mut link = server.link(Via::Udp);
    let camera = "34020000001320000001@3402000000";
    let mut req = Req::new("REGISTER", "sip:3402000000", &link).contact(&link);
    (req.from, req.to) = (format!("<sip:{camera}>;tag=c"), format!("<sip:{camera}>"));
    assert_eq!(link.status(&req), 200);
    let mut caller = server.link(Via::Udp);
    caller.send(&Req::new("MESSAGE", &format!("sip:{camera}"), &caller).bytes());
    assert!(link.request("MESSAGE").uri().starts_with("sip:"));
}
