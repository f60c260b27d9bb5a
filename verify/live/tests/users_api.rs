//! The users of a server over HTTP, as a customer portal reads and changes them.

use live::{Credentials, Req, Server, Setup, Via, eventually, run, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Sends a request with a token; the status and the whole answer.
fn send(server: &Server, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server.admin()).expect("the admin API");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), answer)
}

/// Runs `strowger token` on the data directory of the server.
#[track_caller]
fn token(server: &Server, args: &[&str]) -> String {
    let data = server.data();
    let data = data.to_str().expect("a name");
    let out = run(["token"].into_iter().chain(args.iter().copied()).chain(["--data-dir", data]));
    assert!(out.status.success(), "{}", text(&out));
    String::from_utf8(out.stdout).expect("UTF-8").trim().to_owned()
}

#[test]
fn portal_makes_a_user_who_then_registers() {
    let config = "[[class]]\nname = \"office\"\n";
    let server = Setup::new().workers(2).config(config).user("ann", "secret-a").start();
    let portal = token(&server, &["add", "portal", "--rights", "users"]);
    let user = "/v1/users/ben@example.com";
    let (status, answer) = send(&server, &portal, "PUT", user, r#"{"password":"secret-b","ring_time":25}"#);
    assert_eq!(status, 201, "{answer}");
    let mut phone = server.link(Via::Udp);
    eventually("the server knows the user", || {
        // Wrong credentials slow an account down.
        std::thread::sleep(Duration::from_millis(400));
        let register = Req::register("ben", &phone);
        let answer = phone.ask_as(&register, &Credentials::new("ben", "secret-b"));
        (answer.status() == Some(200)).then_some(())
    });
    let (_, shown) = send(&server, &portal, "GET", user, "");
    assert!(shown.contains("\"bindings\":1") && shown.contains("\"ring_time\":25"), "{shown}");
    let (status, answer) = send(&server, &portal, "PATCH", user, r#"{"class":"nobles"}"#);
    assert!(status == 400 && answer.contains("\"field\":\"class\""), "{answer}");
    let (_, shown) = send(&server, &portal, "PATCH", user, r#"{"class":"office"}"#);
    assert!(shown.contains("\"class\":\"office\""), "{shown}");
    assert_eq!(send(&server, &portal, "DELETE", &format!("{user}/bindings"), "").0, 204);
    let (_, list) = send(&server, &portal, "GET", "/v1/users?domain=example.com&search=b", "");
    assert!(list.contains("\"bindings\":0") && !list.contains("ann@"), "{list}");
    assert_eq!(send(&server, &portal, "DELETE", user, "").0, 204);
    assert_eq!(send(&server, &portal, "GET", user, "").0, 404);
}

#[test]
fn token_counts_until_it_is_removed() {
    let server = Setup::new().user("ann", "secret-a").start();
    let monitor = token(&server, &["add", "monitor", "--rights", "read"]);
    assert_eq!(send(&server, &monitor, "GET", "/v1/users/ann@example.com", "").0, 200);
    assert_eq!(send(&server, &monitor, "DELETE", "/v1/users/ann@example.com", "").0, 403);
    let list = token(&server, &["list"]);
    assert!(list.starts_with("monitor ") && list.ends_with("read") && !list.contains(&monitor), "{list}");
    token(&server, &["remove", "monitor"]);
    assert_eq!(send(&server, &monitor, "GET", "/v1/users/ann@example.com", "").0, 401);
}
