//! A carrier that wants registration and digest, played by the test, honest and hostile.

use live::{Link, Msg, PATIENCE, Req, Server, Setup, Via, eventually, fresh_ip, unique};
use md5::{Digest, Md5};
use std::net::SocketAddr;
use std::path::PathBuf;

const PASSWORD: &str = "carrier-secret";

/// A password file; removed when dropped.
struct Password(PathBuf);

impl Password {
    fn new() -> Self {
        let file = std::env::temp_dir().join(unique("strowger-carrier-password"));
        std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
        Self(file)
    }
}

impl Drop for Password {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The carrier's socket, made before the server is.
fn carrier() -> Link {
    let nowhere: SocketAddr = "127.0.0.1:9".parse().unwrap();
    Link::udp_at((fresh_ip(), 5060).into(), nowhere)
}

/// A server with an account at this carrier, and a route for the calls that it brings.
fn server(carrier: &mut Link, password: &Password, register: &str, workers: usize) -> Server {
    let config = format!(
        "[auth]\nchallenge = [\"REGISTER\"]\n[proxy]\nstrangers = \"refuse\"\n\
         [[trunk]]\nname = \"carrier\"\ntargets = [\"sip:{}\"]\nsources = [\"192.0.2.77\"]\nprefixes = [\"00\"]\n\
         user = \"4930555\"\npassword_file = \"{}\"\nregister = {register}\n\
         [[route]]\nuser = \"4930555\"\ntargets = [\"sip:bob@example.com\"]\n",
        carrier.local(),
        password.0.display(),
    );
    let server = Setup::open().workers(workers).config(&config).start();
    carrier.set_server(server.sip());
    server
}

/// A challenge with this nonce.
fn challenge(status: u16, nonce: &str) -> String {
    let name = if status == 407 { "Proxy-Authenticate" } else { "WWW-Authenticate" };
    format!("{name}: Digest realm=\"carrier.example\", nonce=\"{nonce}\", qop=\"auth\", algorithm=MD5")
}

fn md5(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a request proves the account with an answer to this nonce.
fn proves(request: &Msg, nonce: &str) -> bool {
    let value = request.header("Proxy-Authorization").or_else(|| request.header("Authorization"));
    let Some(value) = value.and_then(|value| value.strip_prefix("Digest ")) else { return false };
    let part = |name: &str| {
        let found = value.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_default().trim_matches('"').to_owned()
    };
    let secret = md5(&format!("4930555:carrier.example:{PASSWORD}"));
    let asked = md5(&format!("{}:{}", request.method(), part("uri")));
    let text =
        format!("{secret}:{}:{}:{}:{}:{asked}", part("nonce"), part("nc"), part("cnonce"), part("qop"));
    part("username") == "4930555" && part("nonce") == nonce && part("response") == md5(&text)
}

/// The next request of this method that is no repetition of `seen`.
fn next(carrier: &mut Link, method: &str, seen: &mut Vec<String>) -> Msg {
    let found = carrier.find_within(PATIENCE, |m| {
        let via = m.header("Via").unwrap_or_default().to_owned();
        m.status().is_none() && m.method() == method && !seen.contains(&via)
    });
    let found = found.unwrap_or_else(|| panic!("the carrier got no {method}"));
    seen.push(found.header("Via").unwrap_or_default().to_owned());
    found
}

/// A 200 that grants the Contact of a REGISTER for this number of seconds.
fn granted(register: &Msg, seconds: u32) -> Vec<u8> {
    let contact = register.header("Contact").unwrap();
    register.reply(200, "c", &[&format!("Contact: {contact};expires={seconds}")])
}

/// Challenges the registration and grants it; the REGISTER that was accepted.
fn register(carrier: &mut Link, seconds: u32, seen: &mut Vec<String>) -> Msg {
    let first = next(carrier, "REGISTER", seen);
    assert!(!proves(&first, "reg") && first.header("Expires") == Some("600"), "{first:?}");
    carrier.send(&first.reply(401, "c", &[&challenge(401, "reg")]));
    let second = next(carrier, "REGISTER", seen);
    assert!(proves(&second, "reg"), "{second:?}");
    carrier.send(&granted(&second, seconds));
    second
}

fn trunks(server: &Server) -> String {
    String::from_utf8(server.ctl(&["trunks"]).stdout).unwrap()
}

/// The line of `ctl trunks` about the registration, once it says this.
fn shows(server: &Server, what: &str) {
    eventually(&format!("ctl trunks shows {what}"), || {
        trunks(server).lines().any(|line| line.contains("register at") && line.contains(what)).then_some(())
    });
}

/// The URI in angle brackets.
fn inside(value: &str) -> &str {
    value.split(['<', '>']).nth(1).unwrap()
}

/// A call from this link to this URI, taken by bob's phone: its status.
fn call_in(from: &mut Link, uri: &str, bob: &mut Link) -> u16 {
    let invite = Req::invite(uri, from);
    let invite = Req { from: format!("<sip:+4940@carrier.example>;tag={}", unique("t")), ..invite };
    from.send(&invite.bytes());
    loop {
        if let Some(rings) = bob.find_within(std::time::Duration::from_millis(50), |m| m.method() == "INVITE")
        {
            let contact = format!("Contact: {}", bob.contact("bob"));
            bob.send(&rings.reply(200, "b", &[&contact]));
        }
        if let Some(answer) = from.response_within(&invite, std::time::Duration::from_millis(50))
            && answer.status().is_some_and(|status| status >= 200)
        {
            return answer.status().unwrap();
        }
    }
}

#[test]
fn carrier_with_registration_and_digest_is_served_both_ways() {
    for workers in [1, 2] {
        let (mut carrier, password, mut seen) = (carrier(), Password::new(), Vec::new());
        let mut server = server(&mut carrier, &password, "true", workers);
        register(&mut carrier, 10, &mut seen);
        shows(&server, "registered");
        // It is refreshed before its ten seconds are over.
        let accepted = next(&mut carrier, "REGISTER", &mut seen);
        assert!(proves(&accepted, "reg"), "{accepted:?}");
        carrier.send(&granted(&accepted, 6_000));
        shows(&server, "for 59");
        assert!(trunks(&server).contains("realm carrier.example"), "{}", trunks(&server));
        // Out: the challenge is answered here, and the caller sees nothing of it.
        let mut caller = server.link(Via::Udp);
        for (round, nonce) in ["call", "call", "other"].into_iter().enumerate() {
            let invite = Req::invite("sip:0044123@example.com", &caller);
            caller.send(&invite.bytes());
            let mut got = next(&mut carrier, "INVITE", &mut seen);
            if !proves(&got, nonce) {
                // Each worker keeps challenges of its own.
                assert!(round != 1 || workers > 1, "the second call carries credentials at once: {got:?}");
                let (cseq, call_id) =
                    (got.header("CSeq").map(str::to_owned), got.header("Call-ID").map(str::to_owned));
                carrier.send(&got.reply(407, "c", &[&challenge(407, nonce)]));
                got = next(&mut carrier, "INVITE", &mut seen);
                assert!(proves(&got, nonce), "{got:?}");
                assert_eq!(
                    (got.header("CSeq"), got.header("Call-ID")),
                    (cseq.as_deref(), call_id.as_deref())
                );
            }
            let contact = format!("Contact: <sip:gw@{}>", carrier.local());
            carrier.send(&got.reply(200, "d", &[&contact]));
            let answer = caller.response(&invite);
            assert_eq!(answer.status(), Some(200), "{answer:?}");
        }
        // In: from the address that took the registration, and to the Contact that was registered.
        let mut bob = server.link(Via::Udp);
        bob.register("bob");
        let plain = format!("sip:4930555@{}", server.sip());
        let contact = inside(accepted.header("Contact").unwrap()).to_owned();
        let mut other = Link::udp_at((fresh_ip(), 5060).into(), server.sip());
        assert_eq!(call_in(&mut carrier, &plain, &mut bob), 200);
        assert_eq!(call_in(&mut other, &contact, &mut bob), 200);
        assert_eq!(call_in(&mut other, &plain, &mut bob), 403, "a stranger");
        let forged = format!("sip:4930555@{};line={}", server.sip(), "f".repeat(32));
        assert_eq!(call_in(&mut other, &forged, &mut bob), 403, "a stranger");
        // It is ended with the server.
        assert_eq!(server.metric("strowger_trunk_registrations{state=\"registered\"}"), 1);
        server.signal("TERM");
        let last = next(&mut carrier, "REGISTER", &mut seen);
        assert!(last.header("Expires") == Some("0") && proves(&last, "reg"), "{last:?}");
        carrier.send(&last.reply(200, "c", &[]));
        eventually("the server ends", || server.ended());
        assert!(!server.log_text().contains(PASSWORD), "the password is in the log");
    }
}

#[test]
fn carrier_that_challenges_for_ever_is_refused_with_a_reason() {
    let (mut carrier, password, mut seen) = (carrier(), Password::new(), Vec::new());
    let server = server(&mut carrier, &password, "false", 1);
    let mut caller = server.link(Via::Udp);
    for round in 0..3 {
        let invite = Req::invite("sip:0044123@example.com", &caller);
        caller.send(&invite.bytes());
        for n in 0..2 {
            let got = next(&mut carrier, "INVITE", &mut seen);
            carrier.send(&got.reply(407, "c", &[&challenge(407, &format!("n{round}{n}"))]));
        }
        let answer = caller.response(&invite);
        assert_eq!(answer.status(), Some(403), "{answer:?}");
        assert!(answer.header("Warning").is_some_and(|w| w.contains("account")), "{answer:?}");
    }
    let lines = server.log_text().lines().filter(|line| line.contains("trunk_account_refused")).count();
    assert_eq!(lines, 1, "once in ten seconds:\n{}", server.log_text());
    assert_eq!(server.metric("strowger_trunk_challenges_total{result=\"refused\"}"), 3);
}

#[test]
fn garbage_of_a_carrier_is_answered_with_403() {
    let (mut carrier, password, mut seen) = (carrier(), Password::new(), Vec::new());
    let server = server(&mut carrier, &password, "false", 1);
    let mut caller = server.link(Via::Udp);
    let long = format!("Proxy-Authenticate: Digest realm=\"r\", nonce=\"{}\"", "n".repeat(7_000));
    for garbage in [
        "X: none",
        "Proxy-Authenticate: Digest",
        "Proxy-Authenticate: Digest realm=\"r\", nonce=\"",
        "Proxy-Authenticate: Digest realm=\"r\", nonce=\"n\", algorithm=ROT13",
        "Proxy-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth-int\"",
        "Proxy-Authenticate: Bearer realm=\"r\"",
        &long,
    ] {
        let invite = Req::invite("sip:0044123@example.com", &caller);
        caller.send(&invite.bytes());
        let got = next(&mut carrier, "INVITE", &mut seen);
        carrier.send(&got.reply(407, "c", &[garbage]));
        assert_eq!(caller.response(&invite).status(), Some(403), "{garbage}");
    }
    server.assert_alive("garbage of a carrier");
}

#[test]
fn refused_registration_is_an_alarm_until_the_account_is_right() {
    let (mut carrier, password, mut seen) = (carrier(), Password::new(), Vec::new());
    let server = server(&mut carrier, &password, "{ expires = 600 }", 1);
    let first = next(&mut carrier, "REGISTER", &mut seen);
    carrier.send(&first.reply(403, "c", &[]));
    shows(&server, "refused");
    let status = String::from_utf8(server.ctl(&["status"]).stdout).unwrap();
    assert!(status.contains("the registration is refused") && status.contains("403"), "{status}");
    assert!(server.log_has("trunk_registration_refused"), "{}", server.log_text());
    // A new password, and a reload: at once.
    std::fs::write(&password.0, "another").unwrap();
    assert!(server.ctl(&["reload"]).status.success());
    let second = next(&mut carrier, "REGISTER", &mut seen);
    carrier.send(&granted(&second, 600));
    shows(&server, "registered");
}

#[test]
fn registrar_that_sends_elsewhere_is_followed() {
    let (mut carrier, password, mut seen) = (carrier(), Password::new(), Vec::new());
    let server = server(&mut carrier, &password, "true", 1);
    let mut other = Link::udp_at((fresh_ip(), 5060).into(), server.sip());
    let first = next(&mut carrier, "REGISTER", &mut seen);
    carrier.send(&first.reply(302, "c", &[&format!("Contact: <sip:{}>", other.local())]));
    let second = next(&mut other, "REGISTER", &mut seen);
    assert_eq!(second.header("To"), first.header("To"), "the account is the same");
    other.send(&second.reply(423, "c", &["Min-Expires: 1200"]));
    let third = next(&mut other, "REGISTER", &mut seen);
    assert_eq!(third.header("Expires"), Some("1200"));
    other.send(&granted(&third, 1_200));
    shows(&server, "registered");
}
