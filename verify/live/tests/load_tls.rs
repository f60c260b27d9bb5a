//! The load generator over TLS and WebSocket: against itself, against a server, and where it is refused.

use live::{Beside, Setup, figure, fresh_ip, load, run, text};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};

/// An authority, and a certificate of its for one name, as files.
struct Files {
    ca: PathBuf,
    chain: PathBuf,
    key: PathBuf,
}

fn files(name: &str, of: &str) -> Files {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec![of.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let file = |end: &str, content: &str| {
        live::file(env!("CARGO_TARGET_TMPDIR"), &format!("load-tls-{name}-{end}.pem"), content)
    };
    Files { ca: file("ca", &ca), chain: file("chain", &own.pem()), key: file("key", &key.serialize_pem()) }
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("a name")
}

impl Files {
    /// The configuration of a server that shows the certificate.
    fn config(&self) -> String {
        let (chain, key) = (shown(&self.chain), shown(&self.key));
        format!("[tls]\ncertificates = [{{ chain = \"{chain}\", key = \"{key}\" }}]\n")
    }

    fn certificate(&self) -> [&str; 4] {
        ["-tls_cert", shown(&self.chain), "-tls_key", shown(&self.key)]
    }
}

/// The number behind `words` in what a run said.
fn number(said: &str, words: &str) -> u64 {
    let rest = said.split(words).nth(1).unwrap_or_else(|| panic!("{words}: {said}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{words}: {said}"))
}

#[test]
fn one_generator_calls_another_over_tls() {
    let callee = fresh_ip().to_string();
    let files = files("pair", &callee);
    let answers = ["-sn", "uas", "-i", &callee, "-t", "l1"];
    let _callee = Beside::load(&[&answers[..], &files.certificate()].concat());
    let ca = shown(&files.ca);
    for (transport, more) in [
        ("l1", &["-tls_ca", ca][..]),
        ("ln", &["-tls_ca", ca]),
        ("ln", &["-tls_version", "1.2", "--tls-resume", "off"]),
    ] {
        let (caller, target) = (fresh_ip().to_string(), format!("tls:{callee}"));
        let args = ["-sn", "uac", "-i", &caller, &target, "-t", transport, "-r", "100", "-m", "50"];
        let out = load(&[&args[..], more].concat());
        let said = text(&out);
        assert!(out.status.success(), "{transport}: {said}");
        assert_eq!((figure(&said, "Calls begun"), figure(&said, "Calls failed")), (50.0, 0.0), "{said}");
        let handshakes = number(&said, "TLS handshakes: ");
        assert_eq!(handshakes, if transport == "ln" { 50 } else { 1 }, "{transport}: {said}");
        let verified = more.contains(&"-tls_ca");
        assert_ne!(said.contains("certificate is not verified"), verified, "{said}");
    }
}

#[test]
fn server_that_proves_nothing_fails_the_calls() {
    let callee = fresh_ip().to_string();
    let (files, other) = (files("callee", &callee), files("other", "x.example"));
    let answers = ["-sn", "uas", "-i", &callee, "-t", "l1"];
    let _callee = Beside::load(&[&answers[..], &files.certificate()].concat());
    let caller = fresh_ip().to_string();
    let out = load(&[
        "-sn",
        "uac",
        "-i",
        &caller,
        &callee,
        "-t",
        "l1",
        "-r",
        "10",
        "-m",
        "3",
        "-tls_ca",
        shown(&other.ca),
    ]);
    let said = text(&out);
    assert_eq!((out.status.code(), figure(&said, "Calls failed")), (Some(1), 3.0), "{said}");
    let why = format!("cannot connect to {callee}:5061 over TLS: invalid peer certificate: ");
    assert!(said.contains(&why) && said.contains("-tls_ca"), "{said}");
    // The authority is believed, but the name is another.
    let name = "localhost:5061";
    let args = ["-sn", "uac", "-i", &caller, name, "-rsa", &callee, "-t", "l1", "-r", "10", "-m", "3"];
    let out = load(&[&args[..], &["-tls_ca", shown(&files.ca)]].concat());
    let said = text(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("the certificate is of {callee}, not of localhost")), "{said}");
}

#[test]
fn connections_of_calls_are_handshakes_with_a_server() {
    let options = live::file(env!("CARGO_TARGET_TMPDIR"), "load-tls-options.xml", OPTIONS);
    let files = files("server", "localhost");
    let server = Setup::open().config(&files.config()).tls().start();
    let (caller, address) = (fresh_ip().to_string(), format!("{}:5061", server.ip()));
    let target = "localhost:5061";
    for transport in ["l1", "ln"] {
        let args = ["-sf", shown(&options), "-i", &caller, target, "-rsa", &address, "-t", transport];
        let more = ["-r", "100", "-m", "60", "-l", "20", "-tls_ca", shown(&files.ca)];
        let out = load(&[&args[..], &more].concat());
        let said = text(&out);
        assert!(out.status.success(), "{transport}: {said}");
        assert_eq!(figure(&said, "Calls begun"), 60.0, "{said}");
        let handshakes = if transport == "ln" { 60 } else { 1 };
        assert_eq!(number(&said, "TLS handshakes: "), handshakes, "{transport}: {said}");
    }
    server.assert_alive("handshakes");
}

#[test]
fn resumed_and_full_handshakes_are_counted_apart() {
    let files = files("resumed", "localhost");
    let server = Setup::open().config(&files.config()).tls().start();
    let (caller, target) = (fresh_ip().to_string(), format!("tls:{}", server.ip()));
    for (resume, version) in [("on", "1.3"), ("on", "1.2"), ("off", "1.3"), ("off", "1.2")] {
        let report = live::file(env!("CARGO_TARGET_TMPDIR"), "load-tls-resumed.json", "");
        let args = ["-sn", "options", "-i", &caller, &target, "-t", "ln", "-tls_version", version];
        let more = ["-r", "50", "-m", "40", "--workers", "1"];
        let last = ["--tls-resume", resume, "--json", shown(&report)];
        let said = text(&load(&[&args[..], &more, &last].concat()));
        let report = std::fs::read_to_string(&report).unwrap();
        let count = |name: &str| number(&report, &format!("\"{name}\":"));
        assert_eq!((count("tls_handshakes"), count("tls_failures")), (40, 0), "{said}");
        let (full, resumed) = (count("tls_handshakes_full"), count("tls_handshakes_resumed"));
        assert_eq!(full + resumed, 40);
        match resume {
            // How many begin before the first ticket is there depends on the machine.
            "on" => assert!(resumed > 0 && full > 0, "TLS {version}: {said}"),
            _ => assert_eq!((full, resumed), (40, 0), "TLS {version}: {said}"),
        }
        assert!(count("tls_handshakes_us") > 0);
        assert!(
            said.contains(&format!("TLS handshakes: 40 ({full} full, {resumed} resumed), failed: 0")),
            "{said}"
        );
    }
}

#[test]
fn one_generator_calls_another_over_websocket() {
    let callee = fresh_ip().to_string();
    let files = files("web", &callee);
    let ca = shown(&files.ca);
    for (one, each, port, secure) in [("w1", "wn", "80", false), ("wss1", "wssn", "443", true)] {
        let certificate = if secure { &files.certificate()[..] } else { &[] };
        let answers = ["-sn", "uas", "-i", &callee, "-t", one];
        let _callee = Beside::load(&[&answers[..], certificate].concat());
        for (transport, connections) in [(one, 1), (each, 50)] {
            let caller = fresh_ip().to_string();
            let report = live::file(env!("CARGO_TARGET_TMPDIR"), &format!("load-{transport}.json"), "");
            let messages = live::file(env!("CARGO_TARGET_TMPDIR"), &format!("load-{transport}.log"), "");
            let args = ["-sn", "uac", "-i", &caller, &callee, "-t", transport, "-r", "100", "-m", "50"];
            let more = ["--json", shown(&report), "-message_file", shown(&messages)];
            let verified = if secure { &["-tls_ca", ca][..] } else { &[] };
            let out = load(&[&args[..], &more, verified].concat());
            let said = text(&out);
            assert!(out.status.success(), "{transport} to {port}: {said}");
            assert_eq!((figure(&said, "Calls begun"), figure(&said, "Calls failed")), (50.0, 0.0), "{said}");
            let report = std::fs::read_to_string(&report).unwrap();
            assert_eq!(number(&report, "\"websocket_handshakes\":"), connections, "{transport}: {said}");
            let messages = std::fs::read_to_string(&messages).unwrap();
            let via = if secure { "Via: SIP/2.0/WSS " } else { "Via: SIP/2.0/WS " };
            assert!(messages.contains(via) && messages.contains(".invalid:"), "{transport}: {messages:.900}");
            assert!(messages.contains(";transport=ws>"), "{transport}: {messages:.900}");
        }
    }
}

#[test]
fn calls_come_in_on_the_connection_that_registered() {
    let phones = live::file(env!("CARGO_TARGET_TMPDIR"), "load-web-phones.xml", PHONES);
    let server = Setup::open().workers(2).secure().start();
    for (transport, port) in [("w1", 5080), ("wss1", 5443)] {
        let (caller, address) = (fresh_ip().to_string(), format!("{}:{port}", server.ip()));
        let target = format!("localhost:{port}");
        let args = ["-sf", shown(&phones), "--answer", "uas", "-i", &caller, &target, "-rsa", &address];
        let out = load(&[&args[..], &["-t", transport, "-r", "50", "-m", "50"]].concat());
        let said = text(&out);
        assert!(out.status.success(), "{transport}: {said}");
        assert_eq!((figure(&said, "Calls begun"), figure(&said, "Calls failed")), (50.0, 0.0), "{said}");
    }
    server.assert_alive("calls over WebSocket");
}

#[test]
fn refused_websocket_is_reported_with_the_mend() {
    let server = Setup::open().config("[websocket]\npath = \"/sip\"\n").secure().start();
    let (caller, target) = (fresh_ip().to_string(), format!("ws://{}:5080", server.ip()));
    let args = ["-sn", "options", "-i", &caller, &target, "-t", "wn", "-r", "20", "-m", "5"];
    let out = load(&args);
    let said = text(&out);
    assert_eq!((out.status.code(), figure(&said, "Calls failed")), (Some(1), 5.0), "{said}");
    assert!(
        said.contains("over WebSocket: status 404 instead of 101; is the path / right (--websocket-path)?"),
        "{said}"
    );
    let out = load(&[&args[..], &["--websocket-path", "/sip"]].concat());
    assert!(out.status.success(), "{}", text(&out));
}

#[test]
fn what_tls_lacks_is_said_before_the_first_message() {
    let ip = fresh_ip().to_string();
    let cases: [(&[&str], &str); 10] = [
        (&["-sn", "uas", "-t", "l1"], "add -tls_cert FILE and -tls_key FILE"),
        (&["-sn", "uac", &ip, "-t", "l1", "-tls_cert", "x.pem"], "--tls-key"),
        (&["-sn", "uac", &ip, "-t", "l1", "-tls_ca", "/nonexistent.pem"], "/nonexistent.pem"),
        (&["-sn", "uac", &ip, "-t", "t1", "-tls_version", "1.2"], "-t l1 or -t ln"),
        (&["-sn", "uac", &ip, "-t", "l1", "-tls_version", "1.1"], "1.2"),
        (&["-sn", "uac", "sips:x.test"], "-t l1 or -t ln"),
        (&["-sn", "uac", &ip, "-t", "wss"], "wss1"),
        (&["-sn", "uac", "ws://x.test", "-t", "wss1"], "-t w1 or -t wn"),
        (&["-sn", "uac", "ws://x.test/sip", "-t", "w1"], "--websocket-path /sip"),
        (&["-sn", "uac", &ip, "-t", "t1", "--websocket-path", "/x"], "-t w1"),
    ];
    for (args, expected) in cases {
        let out = run(["load"].into_iter().chain(args.iter().copied()));
        let said = text(&out);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

/// One request and its answer.
const OPTIONS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<scenario name="options">
  <send retrans="500"><![CDATA[
    OPTIONS sip:example.com SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:a@[local_ip]:[local_port]>;tag=[pid]load[call_number]
    To: <sip:example.com>
    Call-ID: [call_id]
    CSeq: 1 OPTIONS
    Contact: <sip:a@[local_ip]:[local_port];transport=[transport]>
    Max-Forwards: 70
    Content-Length: 0

  ]]></send>
  <recv response="200" rtd="true"/>
</scenario>
"#;

/// Registers a user of its own, and calls it through the server.
const PHONES: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<scenario name="phones">
  <send retrans="500"><![CDATA[
    REGISTER sip:example.com SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:p[call_number]@example.com>;tag=[pid]load[call_number]
    To: <sip:p[call_number]@example.com>
    Call-ID: [call_id]
    CSeq: 1 REGISTER
    Contact: <sip:p[call_number]@[local_ip]:[local_port];transport=[transport]>
    Expires: 600
    Max-Forwards: 70
    Content-Length: 0

  ]]></send>
  <recv response="200"/>
  <send retrans="500"><![CDATA[
    INVITE sip:p[call_number]@example.com SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:c@example.com>;tag=[pid]load[call_number]
    To: <sip:p[call_number]@example.com>
    Call-ID: 2///[call_id]
    CSeq: 2 INVITE
    Contact: <sip:c@[local_ip]:[local_port];transport=[transport]>
    Max-Forwards: 70
    Content-Length: 0

  ]]></send>
  <recv response="100" optional="true"/>
  <recv response="180" optional="true"/>
  <recv response="200" rrs="true" rtd="true"/>
  <send><![CDATA[
    ACK [next_url] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:c@example.com>;tag=[pid]load[call_number]
    To: <sip:p[call_number]@example.com>[peer_tag_param]
    Call-ID: 2///[call_id]
    CSeq: 2 ACK
    [routes]
    Max-Forwards: 70
    Content-Length: 0

  ]]></send>
  <send retrans="500"><![CDATA[
    BYE [next_url] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:c@example.com>;tag=[pid]load[call_number]
    To: <sip:p[call_number]@example.com>[peer_tag_param]
    Call-ID: 2///[call_id]
    CSeq: 3 BYE
    [routes]
    Max-Forwards: 70
    Content-Length: 0

  ]]></send>
  <recv response="200"/>
</scenario>
"#;
