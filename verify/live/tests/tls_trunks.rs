//! Trunks over TLS: calls, names that are verified, certificates that are not believed.

use live::{Credentials, Link, Msg, PATIENCE, Req, Server, Setup, Via, eventually, unique};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};

/// A private authority, and a folder for what it issues, gone with the value.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let folder = std::env::temp_dir().join(format!("strowger-live-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.join("roots.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a certificate of these names to the files of a server.
    fn issue(&self, server: &str, names: &[&str], change: impl FnOnce(&mut CertificateParams)) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let chain = params.signed_by(&key, &self.issuer).unwrap().pem();
        for (kind, text) in [("key", key.serialize_pem()), ("chain", chain)] {
            std::fs::write(self.file("new"), text).unwrap();
            std::fs::rename(self.file("new"), self.file(&format!("{server}-{kind}.pem"))).unwrap();
        }
    }

    /// A server with TLS that shows the certificate of this name and believes this authority.
    fn serve(&self, name: &str, clients: &str, rest: &str) -> Server {
        self.serve_as(Setup::open().domain("elsewhere.example"), name, clients, rest)
    }

    /// The same with other settings of the test.
    fn serve_as(&self, setup: Setup, name: &str, clients: &str, rest: &str) -> Server {
        let shown = |path: &Path| path.display().to_string();
        let (chain, key) = (self.file(&format!("{name}-chain.pem")), self.file(&format!("{name}-key.pem")));
        let config = format!(
            "[tls]\ncertificates = [{{ chain = \"{}\", key = \"{}\" }}]\nroots = \"{}\"\n\
             client_certificates = \"{clients}\"\n{rest}",
            shown(&chain),
            shown(&key),
            shown(&self.file("roots.pem")),
        );
        setup.tls().config(&config).start()
    }

    /// Gives a running server another certificate, for these names; `{IP}` is its address.
    fn renew(&self, at: (&str, &Server), names: &[&str], change: impl FnOnce(&mut CertificateParams)) {
        let (name, server) = at;
        let ip = server.ip().to_string();
        let names: Vec<&str> =
            names.iter().map(|name| if *name == "{IP}" { &ip[..] } else { name }).collect();
        self.issue(name, &names, change);
        assert!(server.ctl(&["reload"]).status.success());
    }

    /// A carrier whose certificate these names are in.
    fn carrier(&self, names: &[&str], clients: &str, change: impl FnOnce(&mut CertificateParams)) -> Server {
        self.issue("carrier", &["carrier.example"], |_| {});
        let carrier = self.serve("carrier", clients, "");
        self.renew(("carrier", &carrier), names, change);
        carrier
    }

    /// A server whose numbers that begin with 00 go to the carrier.
    fn caller(&self, carrier: &Server) -> Server {
        self.issue("caller", &["caller.example"], |_| {});
        let trunk = format!(
            "[auth]\nchallenge = [\"REGISTER\"]\n[[trunk]]\nname = \"carrier\"\n\
             targets = [\"sip:{}:5061;transport=tls\"]\nprefixes = [\"00\"]\n",
            carrier.ip(),
        );
        let caller = self.serve("caller", "off", &trunk);
        self.renew(("caller", &caller), &["{IP}"], |_| {});
        caller
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The BYE of the callee of an INVITE.
fn bye_of(invite: &Msg, link: &Link) -> Vec<u8> {
    let contact = invite.header("Contact").unwrap();
    let target = contact.split_once('<').and_then(|(_, rest)| rest.split_once('>')).unwrap().0;
    let routes: String =
        invite.all("Record-Route").iter().map(|route| format!("Route: {route}\r\n")).collect();
    format!(
        "BYE {target} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch={};rport\r\nMax-Forwards: 70\r\n{routes}\
         From: {};tag=far\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n",
        link.local(),
        unique("z9hG4bK"),
        invite.header("To").unwrap(),
        invite.header("From").unwrap(),
        invite.header("Call-ID").unwrap(),
    )
    .into_bytes()
}

/// A call that the phone places and the far end answers: the INVITE at both ends, and the answer.
fn call_of(phone: &mut Link, far: &mut Link) -> (Req, Msg, Msg) {
    let invite = Req::invite("sip:0012345@example.com", phone);
    phone.send(&invite.bytes());
    let received = far.request("INVITE");
    let contact = format!("Contact: <sip:0012345@{}>", far.local());
    far.send(&received.reply(200, "far", &[&contact]));
    let answered = phone.response(&invite);
    assert_eq!(answered.status(), Some(200));
    phone.send(&invite.in_dialog("ACK", &answered, phone).bytes());
    far.request("ACK");
    (invite, received, answered)
}

#[test]
fn call_goes_over_a_tls_trunk_and_back_again() {
    let authority = Authority::new("trunk-call");
    let carrier = authority.carrier(&["{IP}"], "required", |_| {});
    let server = authority.caller(&carrier);
    let (mut phone, mut far) = (server.link(Via::Udp), carrier.link(Via::Udp));
    far.register("0012345");

    let (invite, received, answered) = call_of(&mut phone, &mut far);
    let over: Vec<_> = received.all("Via");
    assert!(over.iter().any(|via| via.starts_with("SIP/2.0/TLS ")), "{over:?}");
    let bye = invite.in_dialog("BYE", &answered, &phone);
    phone.send(&bye.bytes());
    let received = far.request("BYE");
    far.send(&received.reply(200, "far", &[]));
    assert_eq!(phone.response(&bye).status(), Some(200));

    assert_eq!(server.metric("strowger_tls_handshakes_total"), 1, "one connection for all");

    // The other side hangs up, over the connection that it has from us.
    let (_, received, _) = call_of(&mut phone, &mut far);
    far.send(&bye_of(&received, &far));
    let bye = phone.request("BYE");
    phone.send(&bye.reply(200, "caller", &[]));
    far.find_within(PATIENCE, |message| message.status() == Some(200)).expect("the answer to BYE");
    assert_eq!(server.metric("strowger_tls_handshakes_total"), 1, "both ways");
    assert_eq!(server.metric("strowger_tls_unproven_total"), 0);
    server.assert_alive("a call over TLS");
    carrier.assert_alive("a call over TLS");
}

#[test]
fn cancel_goes_over_the_connection_of_its_call() {
    let authority = Authority::new("trunk-cancel");
    let carrier = authority.carrier(&["{IP}"], "off", |_| {});
    let server = authority.caller(&carrier);
    let (mut phone, mut far) = (server.link(Via::Udp), carrier.link(Via::Udp));
    far.register("0012345");
    let invite = Req::invite("sip:0012345@example.com", &phone);
    phone.send(&invite.bytes());
    let received = far.request("INVITE");
    far.send(&received.reply(180, "far", &[]));
    phone.expect(&invite, 180);
    phone.send(&invite.cancel().bytes());
    let cancel = far.request("CANCEL");
    far.send(&cancel.reply(200, "far", &[]));
    far.send(&received.reply(487, "far", &[]));
    assert_eq!(phone.response(&invite).status(), Some(487));
    far.request("ACK");
    assert_eq!(server.metric("strowger_tls_handshakes_total"), 1);
}

#[test]
fn carrier_that_does_not_prove_its_name_gets_no_call() {
    let authority = Authority::new("trunk-name");
    let old = |params: &mut CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    };
    for (names, expired, why) in [
        (&["other.example"][..], false, "the certificate is of other.example, not of 127."),
        (&["{IP}"], true, "expired"),
    ] {
        let change = |params: &mut CertificateParams| {
            if expired {
                old(params)
            }
        };
        let carrier = authority.carrier(names, "off", change);
        let server = authority.caller(&carrier);
        let (mut phone, mut far) = (server.link(Via::Udp), carrier.link(Via::Udp));
        far.register("0012345");
        let invite = Req::invite("sip:0012345@example.com", &phone);
        assert_eq!(phone.status(&invite), 500, "as for a trunk that is down: {why}");
        eventually("the log says why", || server.log_has(why).then_some(()));
        assert_eq!(carrier.metric("strowger_tcp_messages_in_total"), 0, "{why}");
    }
}

/// A server that knows a trunk by the name `caller.example` in its certificate. A number is for bob there,
/// whose phone is `far`.
fn known_by_name(authority: &Authority, workers: usize) -> (Server, Link) {
    authority.issue("carrier", &["carrier.example"], |_| {});
    let rest = "[[trunk]]\nname = \"caller\"\ntargets = [\"sip:192.0.2.9\"]\n\
                sources = [\"tls:caller.example\"]\nprefixes = [\"99\"]\n\
                [[route]]\nuser = \"0012345\"\ntargets = [\"sip:bob@example.com\"]\n";
    let setup = Setup::new().user("bob", "secret").workers(workers);
    let carrier = authority.serve_as(setup, "carrier", "offered", rest);
    authority.renew(("carrier", &carrier), &["{IP}"], |_| {});
    let mut far = carrier.link(Via::Udp);
    let bob = Credentials::new("bob", "secret");
    assert_eq!(far.ask_as(&Req::register("bob", &far), &bob).status(), Some(200));
    (carrier, far)
}

/// A call of a user elsewhere to the number that is bob's at the carrier.
fn call_to_bob(phone: &Link) -> Req {
    let mut invite = Req::invite("sip:0012345@example.com", phone);
    invite.from = invite.from.replace("example.com", "elsewhere.example");
    invite
}

#[test]
fn call_belongs_to_the_trunk_whose_name_the_peer_proved() {
    let authority = Authority::new("trunk-identity");
    let (carrier, mut far) = known_by_name(&authority, 2);
    let server = authority.caller(&carrier);
    let mut phone = server.link(Via::Udp);

    // Its certificate has its address alone.
    assert_eq!(phone.status(&call_to_bob(&phone)), 403);
    let why = format!("wanted=\"caller.example\" found=\"{}\"", server.ip());
    eventually("the log says why", || {
        (carrier.log_has("trunk_not_proven") && carrier.log_has(&why)).then_some(())
    });
    assert_eq!(carrier.metric("strowger_trunk_unproven_total{certificate=\"other\"}"), 1);

    authority.renew(("caller", &server), &["{IP}", "caller.example"], |_| {});
    // The connection from before has shown the old one. The carrier ends it when it restarts.
    let mut carrier = carrier;
    carrier.restart();
    let bob = Credentials::new("bob", "secret");
    assert_eq!(far.ask_as(&Req::register("bob", &far), &bob).status(), Some(200));
    for round in 0..4 {
        let invite = call_to_bob(&phone);
        phone.send(&invite.bytes());
        let received = far.request("INVITE");
        far.send(&received.reply(200, "far", &[&format!("Contact: <sip:bob@{}>", far.local())]));
        let answered = phone.response(&invite);
        assert_eq!(answered.status(), Some(200), "{round}");
        phone.send(&invite.in_dialog("ACK", &answered, &phone).bytes());
        far.request("ACK");
        let bye = invite.in_dialog("BYE", &answered, &phone);
        phone.send(&bye.bytes());
        let received = far.request("BYE");
        far.send(&received.reply(200, "far", &[]));
        assert_eq!(phone.response(&bye).status(), Some(200));
    }
    assert_eq!(carrier.metric("strowger_trunk_unproven_total{certificate=\"other\"}"), 0);
    carrier.assert_alive("calls of a trunk that is known by its name");
}

#[test]
fn trunk_has_a_certificate_roots_and_a_name_of_its_own() {
    let [carriers, ours] = [Authority::new("trunk-own-roots"), Authority::new("trunk-own")];
    carriers.issue("carrier", &["sip.carrier.example"], |_| {});
    carriers.issue("client", &["account.example"], |_| {});
    let carrier = carriers.serve("carrier", "required", "");
    let mut far = carrier.link(Via::Udp);
    far.register("0012345");

    ours.issue("caller", &["caller.example"], |_| {});
    let shown = |name: &str| carriers.file(name).display().to_string();
    let trunk = |certificate: &str, verify: &str, roots: &str| {
        format!(
            "[auth]\nchallenge = [\"REGISTER\"]\n[[trunk]]\nname = \"carrier\"\n\
             targets = [\"sips:{}\"]\nprefixes = [\"00\"]\n{certificate}{verify}{roots}",
            carrier.ip(),
        )
    };
    let certificate = |name: &str| {
        let (chain, key) = (shown(&format!("{name}-chain.pem")), shown(&format!("{name}-key.pem")));
        format!("certificate = {{ chain = \"{chain}\", key = \"{key}\" }}\n")
    };
    let (own, verify) = (certificate("client"), "verify = \"sip.carrier.example\"\n");
    let roots = format!("roots = \"{}\"\n", shown("roots.pem"));
    let server = ours.serve("caller", "off", &trunk("", "", ""));
    let mut phone = server.link(Via::Udp);
    let mut call = |rest: &str| {
        let text = std::fs::read_to_string(server.config_file()).unwrap();
        let head = text.split_once("[auth]").unwrap().0;
        server.write_config(Some(&format!("{head}{rest}")));
        let reload = server.ctl(&["reload"]);
        assert!(reload.status.success(), "{}", String::from_utf8_lossy(&reload.stderr));
        let invite = Req::invite("sip:0012345@example.com", &phone);
        phone.send(&invite.bytes());
        let answered = far.find_within(PATIENCE / 20, |message| message.method() == "INVITE");
        if let Some(received) = &answered {
            far.send(&received.reply(486, "far", &[]));
        }
        phone.response(&invite).status().unwrap()
    };
    let last_error = || {
        let out = server.ctl(&["trunks", "--output", "json"]);
        String::from_utf8(out.stdout).unwrap()
    };
    // Each is needed, and `ctl trunks` says which one is missing.
    for (rest, why) in [
        (trunk(&own, verify, ""), "UnknownIssuer"),
        (trunk(&own, "", &roots), "the certificate is of sip.carrier.example, not of 127."),
        (trunk("", verify, &roots), "the peer ended it: "),
    ] {
        assert_eq!(call(&rest), 500, "{why}");
        eventually(why, || last_error().contains(why).then_some(()));
    }
    assert_eq!(call(&trunk(&own, verify, &roots)), 486, "the callee is reached");
    assert!(carrier.log_has("tls_peer_refused"), "a foreign certificate");
    let shown = server.ctl(&["certificates"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("trunk carrier") && shown.contains("account.example"), "{shown}");

    // The files are looked at while the server runs.
    let old = |params: &mut CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    };
    carriers.issue("client", &["account.example"], old);
    eventually("the alarm", || server.log_has("certificate_expired").then_some(()));
    let text = std::fs::read_to_string(server.config_file()).unwrap();
    let file = ours.file("check.toml");
    std::fs::write(&file, format!("listen = [\"tls:127.0.0.1:5061\"]\n{text}")).unwrap();
    let check = live::run([std::ffi::OsStr::new("check"), file.as_ref()]);
    let said = [check.stdout, check.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let (line, _) = text.lines().enumerate().find(|(_, line)| line.starts_with("certificate =")).unwrap();
    assert!(said.contains(&format!("check.toml:{}:15: ", line + 2)), "{said}");
    assert!(said.contains("client-chain.pem expired"), "{said}");
}

#[test]
fn failed_certificate_moves_calls_to_the_next_target() {
    let authority = Authority::new("trunk-next");
    let first = authority.carrier(&["other.example"], "off", |_| {});
    authority.issue("next", &["carrier.example"], |_| {});
    let second = authority.serve("next", "off", "");
    authority.renew(("next", &second), &["{IP}"], |_| {});
    let mut far = second.link(Via::Udp);
    far.register("0012345");
    authority.issue("caller", &["caller.example"], |_| {});
    let trunk = format!(
        "[auth]\nchallenge = [\"REGISTER\"]\n[[trunk]]\nname = \"carrier\"\n\
         targets = [\"sips:{}\", \"sips:{}\"]\nprefixes = [\"00\"]\n",
        first.ip(),
        second.ip(),
    );
    let server = authority.serve("caller", "off", &trunk);
    let mut phone = server.link(Via::Udp);
    let (invite, _, answered) = call_of(&mut phone, &mut far);
    let bye = invite.in_dialog("BYE", &answered, &phone);
    phone.send(&bye.bytes());
    let received = far.request("BYE");
    far.send(&received.reply(200, "far", &[]));
    assert_eq!(phone.response(&bye).status(), Some(200));
    assert!(server.log_has("target_down"), "the first one is tried last from now on");
    let shown = String::from_utf8(server.ctl(&["trunks"]).stdout).unwrap();
    let why = format!("TLS failed: the certificate is of other.example, not of {}", first.ip());
    assert!(shown.contains(&why), "{shown}");
    assert_eq!(server.metric("strowger_targets{state=\"down\"}"), 1);
    // Once its certificate is good, the probe finds it up.
    authority.renew(("carrier", &first), &["{IP}"], |_| {});
    eventually("the first one is up", || {
        (server.metric("strowger_targets{state=\"down\"}") == 0).then_some(())
    });
}
