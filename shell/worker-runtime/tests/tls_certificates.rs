//! Certificates that prove nothing, of clients and of servers: each ends the handshake and is counted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use common::secure::{Authority, address};
use common::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tls::ClientCertificates;

/// What a certificate is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Worth {
    /// It is believed.
    Good,
    /// It is valid, but not of the server that was wanted.
    OtherName,
    /// It is not believed, or the peer does not have its key.
    Bad,
}

fn certified(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> Arc<CertifiedKey> {
    let key = any_supported_type(&PrivateKeyDer::try_from(key.serialize_der()).unwrap()).unwrap();
    Arc::new(CertifiedKey::new(chain, key))
}

/// Certificates of an authority, and some that only look so.
struct Shown<'a>(&'a Authority);

impl Shown<'_> {
    fn with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Arc<CertifiedKey> {
        Shown::by(&self.0.issuer, name, change)
    }

    fn by(
        issuer: &Issuer<'static, KeyPair>,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Arc<CertifiedKey> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        certified(vec![params.signed_by(&key, issuer).unwrap().der().clone()], &key)
    }

    fn self_signed(&self) -> Arc<CertifiedKey> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["example.org".to_owned()]).unwrap();
        certified(vec![params.self_signed(&key).unwrap().der().clone()], &key)
    }

    fn without_key(&self) -> Arc<CertifiedKey> {
        let params = CertificateParams::new(vec!["example.org".to_owned()]).unwrap();
        let signed = params.signed_by(&KeyPair::generate().unwrap(), &self.0.issuer).unwrap();
        certified(vec![signed.der().clone()], &KeyPair::generate().unwrap())
    }

    /// A chain of `count` certificates below the root.
    fn chain(&self, count: usize) -> Arc<CertifiedKey> {
        let mut chain: Vec<CertificateDer<'static>> = Vec::new();
        let mut above: Option<Issuer<'static, KeyPair>> = None;
        for at in 1..count {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(DnType::CommonName, format!("authority {at}"));
            let key = KeyPair::generate().unwrap();
            let signed = params.signed_by(&key, above.as_ref().unwrap_or(&self.0.issuer)).unwrap();
            chain.insert(0, signed.der().clone());
            above = Some(Issuer::new(params, key));
        }
        let last = Shown::by(above.as_ref().unwrap_or(&self.0.issuer), "example.org", |_| {});
        Arc::new(CertifiedKey::new([&last.cert[..], &chain].concat(), Arc::clone(&last.key)))
    }

    fn all(&self) -> Vec<(&'static str, Arc<CertifiedKey>, Worth)> {
        let foreign = Authority::new();
        vec![
            ("good", self.with("example.org", |_| {}), Worth::Good),
            ("a chain of five", self.chain(5), Worth::Good),
            ("other name", self.with("other.example", |_| {}), Worth::OtherName),
            (
                "expired",
                self.with("example.org", |params| {
                    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
                    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
                }),
                Worth::Bad,
            ),
            (
                "not yet valid",
                self.with("example.org", |params| params.not_before = rcgen::date_time_ymd(4000, 1, 1)),
                Worth::Bad,
            ),
            ("self-signed", self.self_signed(), Worth::Bad),
            ("foreign", Shown(&foreign).with("example.org", |_| {}), Worth::Bad),
            ("a chain of thirty", self.chain(30), Worth::Bad),
            ("another key", self.without_key(), Worth::Bad),
            (
                "garbage",
                Arc::new(CertifiedKey::new(
                    vec![vec![0x30, 3, 1, 2, 3].into()],
                    Arc::clone(&self.self_signed().key),
                )),
                Worth::Bad,
            ),
        ]
    }
}

/// Says a line over TLS and hears it again, if that is possible.
fn is_answered(client: &Arc<ClientConfig>, server: &Server) -> bool {
    let mut stream = secure::connect(client, address(server));
    let mut answer = [0; 6];
    stream.write_all(b"hello\n").is_ok() && stream.read_exact(&mut answer).is_ok() && &answer == b"hello\n"
}

#[test]
fn clients_are_served_only_with_good_certificates() {
    let authority = Authority::new();
    for clients in [ClientCertificates::Offered, ClientCertificates::Required] {
        let server = authority.server(&[authority.certificate(&["example.org"])], clients, 1);
        let plain = authority.settings(None).config().unwrap();
        for (name, certificate, worth) in Shown(&authority).all() {
            let mut client = ClientConfig::clone(&plain);
            client.resumption = rustls::client::Resumption::disabled();
            client.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certificate));
            let before = server.counts();
            // What a client's certificate names is not asked here.
            let good = matches!(worth, Worth::Good | Worth::OtherName);
            assert_eq!(is_answered(&Arc::new(client), &server), good, "{name}");
            let counts = server.wait_count("the end", |c| c.tcp_open == 0);
            let failed = |class: fn(&worker_runtime::Counts) -> u64| class(&counts) - class(&before);
            let bad = [failed(|c| c.tls_failures), failed(|c| c.tls_failed_certificate)];
            assert_eq!(bad, [u64::from(!good); 2], "{name}");
            // Others are served meanwhile.
            assert_eq!(is_answered(&plain, &server), clients == ClientCertificates::Offered, "{name}");
            let mut tcp = server.connect();
            assert_eq!(ask(&mut tcp, "hello\n"), "hello\n");
            drop(tcp);
            server.wait_count("the end of the others", |c| c.tcp_open == 0);
        }
    }
}

#[test]
fn servers_get_messages_only_with_good_certificates() {
    let authority = Authority::new();
    let mut config = config("127.0.0.1");
    config.tls_client = Some(authority.client());
    let caller = Server::with(config, 1);
    let builder =
        || ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    for (token, (name, certificate, worth)) in (1..).zip(Shown(&authority).all()) {
        let serving = builder().with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let serving = Arc::new(serving.with_cert_resolver(Arc::new(SingleCertAndKey::from(certificate))));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        caller.act(0, &format!(">tls@example.org {to} {token} quiet {token}"));
        let tcp: TcpStream = patient(listener.accept().unwrap().0);
        let mut heard = Vec::new();
        let mut server = StreamOwned::new(ServerConnection::new(serving).unwrap(), tcp);
        let mut byte = [0];
        while !heard.ends_with(b"\n") && server.read(&mut byte).is_ok_and(|n| n > 0) {
            heard.push(byte[0]);
        }
        if worth == Worth::Good {
            assert_eq!(String::from_utf8_lossy(&heard), format!("quiet {token}\n"), "{name}");
        } else {
            assert_eq!(heard, b"", "{name}");
            caller.wait_told(name, |(_, told)| *told == Told::Undeliverable(token));
        }
        drop(server);
        caller.wait_count("the end", |c| c.tcp_open == 0);
    }
    let counts = caller.counts();
    assert_eq!((counts.tls_unproven, counts.tls_failed_certificate, counts.tls_handshakes), (8, 8, 2));
}

/// `verify/bench/renewal.py` does the same to a whole server, for longer.
#[test]
fn certificates_are_exchanged_under_load_without_a_failure() {
    const PHONES: usize = 4;
    let authority = Authority::new();
    let certificates: Vec<_> = (0..8).map(|_| authority.certificate(&["example.org"])).collect();
    let settings = authority.serving(&certificates[..1], ClientCertificates::Off);
    let mut config = config("127.0.0.1");
    secure::listens(&mut config, wire::Transport::Tls);
    config.tls = Some(settings.server().unwrap());
    let server = Server::with(config, 2);
    let client = authority.settings(None).config().unwrap();
    let over = AtomicBool::new(false);
    let sessions = std::thread::scope(|scope| {
        let phone = || {
            let mut sessions = 0;
            while !over.load(Ordering::Relaxed) || sessions < 20 {
                assert!(is_answered(&client, &server));
                sessions += 1;
            }
            sessions
        };
        let phones: Vec<_> = (0..PHONES).map(|_| scope.spawn(phone)).collect();
        for renewal in 0..200 {
            settings.choice.replace([(&certificates[renewal % certificates.len()], &[][..])]);
            // They go on for a while.
            server.wait_count("a handshake", |c| c.tls_handshakes > renewal as u64 / 2);
        }
        over.store(true, Ordering::Relaxed);
        phones.into_iter().map(|phone| phone.join().unwrap()).sum::<u64>()
    });
    let counts = server.wait_count("the ends", |c| c.tcp_open == 0);
    assert_eq!((counts.tls_handshakes, counts.tls_failures), (sessions, 0));
}
