//! The load generator over TLS: against itself, against a server, and where a certificate is not believed.

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
        match transport {
            "ln" => assert_eq!(handshakes, 50, "one for each call: {said}"),
            _ => assert!((1..=64).contains(&handshakes), "one for each worker: {said}"),
        }
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
    let (chain, key) = (shown(&files.chain), shown(&files.key));
    let config = format!("[tls]\ncertificates = [{{ chain = \"{chain}\", key = \"{key}\" }}]\n");
    let server = Setup::open().config(&config).tls().start();
    let (caller, address) = (fresh_ip().to_string(), format!("{}:5061", server.ip()));
    let target = "localhost:5061";
    for transport in ["l1", "ln"] {
        let args = ["-sf", shown(&options), "-i", &caller, target, "-rsa", &address, "-t", transport];
        let more = ["-r", "100", "-m", "60", "-l", "20", "-tls_ca", shown(&files.ca)];
        let out = load(&[&args[..], &more].concat());
        let said = text(&out);
        assert!(out.status.success(), "{transport}: {said}");
        assert_eq!(figure(&said, "Calls begun"), 60.0, "{said}");
        if transport == "ln" {
            assert_eq!(number(&said, "TLS handshakes: "), 60, "{said}");
        }
    }
    server.assert_alive("handshakes");
}

#[test]
fn what_tls_lacks_is_said_before_the_first_message() {
    let ip = fresh_ip().to_string();
    let cases: [(&[&str], &str); 6] = [
        (&["-sn", "uas", "-t", "l1"], "add -tls_cert FILE and -tls_key FILE"),
        (&["-sn", "uac", &ip, "-t", "l1", "-tls_cert", "x.pem"], "--tls-key"),
        (&["-sn", "uac", &ip, "-t", "l1", "-tls_ca", "/nonexistent.pem"], "/nonexistent.pem"),
        (&["-sn", "uac", &ip, "-t", "t1", "-tls_version", "1.2"], "-t l1 or -t ln"),
        (&["-sn", "uac", &ip, "-t", "l1", "-tls_version", "1.1"], "1.2"),
        (&["-sn", "uac", "sips:x.test"], "-t l1 or -t ln"),
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
