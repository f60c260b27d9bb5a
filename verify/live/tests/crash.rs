//! What a crash, a full disk, exhausted descriptors or a stopped process may and may not cost.

use live::{Credentials, Link, Req, Server, Setup, Via, eventually, http};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

fn register_many(server: &Server, n: usize) -> Vec<String> {
    let mut link = server.link(Via::Tcp);
    let users: Vec<String> = (0..n).map(|i| format!("user{i}")).collect();
    for user in &users {
        let mut req = Req::new("REGISTER", "sip:example.com", &link).user(user).with("Expires: 3600");
        req.to = format!("<sip:{user}@example.com>");
        let req = req.with(&format!("Contact: <sip:{user}@192.0.2.1:5070>"));
        assert_eq!(link.status(&req), 200);
    }
    users
}

fn bound(link: &mut Link, user: &str) -> bool {
    let mut req = Req::new("REGISTER", "sip:example.com", link).user(user);
    req.to = format!("<sip:{user}@example.com>");
    link.ask(&req).header("Contact").is_some()
}

fn pending(server: &Server) -> bool {
    !http(server.admin(), "GET", "/v1/status").body.contains("\"pending\":0")
}

#[test]
fn registrations_and_removals_survive_kill_9_at_once() {
    let mut server = Setup::open().workers(2).start();
    let users = register_many(&server, 100);
    let mut link = server.link(Via::Udp);
    for user in &users[50..] {
        let mut req = Req::new("REGISTER", "sip:example.com", &link).user(user).with("Contact: *");
        req.to = format!("<sip:{user}@example.com>");
        assert_eq!(link.status(&req.with("Expires: 0")), 200);
    }
    server.kill();
    server.restart();
    let mut link = server.link(Via::Tcp);
    let found: Vec<bool> = users.iter().map(|user| bound(&mut link, user)).collect();
    let expected: Vec<bool> = (0..100).map(|user| user < 50).collect();
    assert_eq!(found, expected);
}

/// What stands before the bytes that end a stream is answered, as what waits for the end of a round is.
#[test]
fn a_registration_is_answered_before_its_stream_ends() {
    for workers in [1, 2, 4] {
        let server = Setup::open().workers(workers).start();
        for _ in 0..10 {
            let mut link = server.link(Via::Tcp);
            let req = Req::register("bob", &link);
            link.send(&[&req.bytes()[..], b"REGISTER nonsense\r\nContent-Length: x\r\n\r\n"].concat());
            assert_eq!(link.response(&req).status(), Some(200), "{workers} workers");
            assert!(link.closed_within(live::PATIENCE));
        }
    }
}

#[test]
fn the_first_request_after_a_restart_finds_its_binding() {
    let mut server = Setup::open().start();
    let mut bob = server.link(Via::Udp);
    bob.register("bob");
    eventually("it is written", || (!pending(&server)).then_some(()));
    let mut caller = server.link(Via::Udp);
    server.kill();
    // What arrives while the server loads waits in the socket or is refused by the kernel, so this
    // repeats until the very first answer, which must not be "no such user".
    server.restart();
    let req = Req::new("MESSAGE", "sip:bob@example.com", &caller);
    caller.send(&req.bytes());
    let message = bob.request("MESSAGE");
    bob.send(&message.reply(200, "b", &[]));
    assert_eq!(caller.response(&req).status(), Some(200));
}

#[test]
fn removals_and_expiry_survive_too() {
    let mut server = Setup::open().config("[registrar]\nmin_expires = 1\n").start();
    let mut link = server.link(Via::Udp);
    let mut send = |user: &str, expires: u32| {
        let mut req = Req::new("REGISTER", "sip:example.com", &link).user(user);
        req.to = format!("<sip:{user}@example.com>");
        assert_eq!(
            link.status(&req.with(&format!("Contact: <sip:{user}@192.0.2.1>;expires={expires}"))),
            200
        );
    };
    send("removed", 600);
    send("removed", 0);
    send("short", 2);
    send("stays", 600);
    eventually("all is written", || (!pending(&server)).then_some(()));
    server.kill();
    std::thread::sleep(Duration::from_secs(2));
    server.restart();
    let mut link = server.link(Via::Udp);
    assert!(!bound(&mut link, "removed"), "a removed binding came back");
    assert!(!bound(&mut link, "short"), "a binding outlived its expiry across a restart");
    assert!(bound(&mut link, "stays"));
}

#[test]
fn crash_upon_crash() {
    let mut server = Setup::open().start();
    for round in 0..4 {
        let mut link = server.link(Via::Udp);
        let user = format!("round{round}");
        let mut req = Req::new("REGISTER", "sip:example.com", &link).user(&user);
        req.to = format!("<sip:{user}@example.com>");
        assert_eq!(link.status(&req.with("Contact: <sip:x@192.0.2.1>")), 200);
        eventually("it is written", || (!pending(&server)).then_some(()));
        server.restart();
        let mut link = server.link(Via::Udp);
        for earlier in 0..=round {
            assert!(bound(&mut link, &format!("round{earlier}")), "round {earlier} lost in crash {round}");
        }
    }
}

#[test]
fn credentials_work_after_a_crash() {
    let mut server = Setup::new().user("ann", "pw").start();
    server.restart();
    let mut link = server.link(Via::Udp);
    let req = Req::register("ann", &link);
    assert_eq!(link.ask_as(&req, &Credentials::new("ann", "pw")).status(), Some(200));
}

/// EMFILE: more connections than descriptors. UDP goes on, and so does TCP once some are closed.
#[test]
fn no_descriptors_left() {
    let server = Setup::open().limit("--nofile=64:64").start();
    let connect = |to: SocketAddr| TcpStream::connect_timeout(&to, Duration::from_secs(2)).ok();
    let hogs: Vec<TcpStream> = (0..200).filter_map(|_| connect(server.sip())).collect();
    assert!(hogs.len() > 40);
    server.assert_alive("all descriptors are taken");
    assert!(server.log_text().lines().count() < 200, "a log line for each refused connection");
    drop(hogs);
    eventually("TCP works again", || {
        let mut link = server.link(Via::Tcp);
        let ping = Req::new("OPTIONS", "sip:example.com", &link);
        link.send(&ping.bytes());
        link.response_within(&ping, Duration::from_secs(1))
    });
}

/// ENOSPC, by a limit on file size: by default nothing is acknowledged that cannot be kept.
#[test]
fn no_room_on_the_disk() {
    let server = Setup::open().limit("--fsize=300000:300000").start();
    let mut link = server.link(Via::Udp);
    let long = "p".repeat(200);
    let mut refused = false;
    // The server notices within a round of writing, however fast the registrations come.
    let end = Instant::now() + Duration::from_secs(60);
    for i in 0.. {
        if Instant::now() > end {
            break;
        }
        let mut req = Req::new("REGISTER", "sip:example.com", &link).user(&format!("u{i}"));
        req.to = format!("<sip:u{i}@example.com>");
        let status = link.status(&req.with(&format!("Contact: <sip:u{i}@192.0.2.1;x={long}>")));
        if status != 200 {
            assert!(matches!(status, 500 | 503), "{status}");
            refused = true;
            break;
        }
    }
    assert!(refused, "a minute of registrations was acknowledged into 300 kB");
    server.assert_alive("the disk is full");
    let status = http(server.admin(), "GET", "/v1/status").body;
    assert!(status.contains("\"healthy\":false"), "no alarm: {status}");
    // Calls need no disk.
    let mut caller = server.link(Via::Udp);
    let req = Req::new("MESSAGE", "sip:nobody@example.com", &caller);
    assert!(matches!(caller.status(&req), 404 | 480));
}

#[test]
fn stopped_for_a_while() {
    let server = Setup::open().config("[registrar]\nmin_expires = 1\n").start();
    let mut bob = server.link(Via::Udp);
    bob.register("bob");
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(180, "b", &[]));
    caller.expect(&invite, 180);
    server.signal("STOP");
    std::thread::sleep(Duration::from_secs(3));
    server.signal("CONT");
    let contact = format!("Contact: <sip:bob@{}>", bob.local());
    bob.send(&received.reply(200, "b", &[&contact]));
    assert_eq!(caller.response(&invite).status(), Some(200));
    server.assert_alive("three seconds of standstill");
}

#[test]
fn a_damaged_store_is_told_not_overwritten() {
    let mut server = Setup::open().start();
    register_many(&server, 5);
    eventually("it is written", || (!pending(&server)).then_some(()));
    server.kill();
    let mut damaged = 0;
    for entry in std::fs::read_dir(server.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && std::fs::metadata(&path).unwrap().len() > 0 {
            std::fs::write(&path, b"this is not a database, but it is somebody's file").unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0, "no file in the data folder");
    let out = std::process::Command::new("timeout")
        .args(["10", live::binary().to_str().unwrap(), "serve", "--admin", "off", "--listen"])
        .arg(format!("udp:{}", server.sip()))
        .arg("--data-dir")
        .arg(server.data())
        .output()
        .unwrap();
    assert!(!out.status.success());
    assert_ne!(out.status.code(), Some(124), "it started on a damaged store");
    assert!(!out.stderr.is_empty(), "no word about the damage");
}
