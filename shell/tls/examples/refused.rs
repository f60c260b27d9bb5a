//! The cost of a client for a server that asks for certificates: of one that is served, and of several that
//! are refused.
//!
//! ```text
//! refused COUNT
//! ```
//! Prints the median time of the server's half of a TLS 1.3 handshake in microseconds, for each kind of
//! client. The keys are of P-384, whose signatures take the longest to verify.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example, not a part of the product")]

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P384_SHA384};
use rustls::RootCertStore;
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::{Certificate, Choice, ClientCertificates, ServerSettings, Session};

/// Handshakes before the measured ones.
const WARM_UP: usize = 20;

fn key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap()
}

fn params(name: &str, authority: bool) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["example.org".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    if authority {
        params.subject_alt_names.clear();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    params
}

/// A chain of `count` certificates below an issuer, and the key of the first.
fn chain(root: &Issuer<'static, KeyPair>, count: usize) -> (Vec<CertificateDer<'static>>, KeyPair) {
    let mut chain: Vec<CertificateDer<'static>> = Vec::new();
    let mut above: Option<Issuer<'static, KeyPair>> = None;
    for at in (1..count).rev() {
        let (params, key) = (params(&format!("authority {at}"), true), key());
        let signed = params.signed_by(&key, above.as_ref().unwrap_or(root)).unwrap();
        chain.insert(0, signed.der().clone());
        above = Some(Issuer::new(params, key));
    }
    let key = key();
    let signed = params("client", false).signed_by(&key, above.as_ref().unwrap_or(root)).unwrap();
    chain.insert(0, signed.der().clone());
    (chain, key)
}

fn client(
    roots: &Arc<RootCertStore>,
    shown: Option<(Vec<CertificateDer<'static>>, KeyPair)>,
) -> Arc<ClientConfig> {
    let builder =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(Arc::clone(roots));
    let mut config = match shown {
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn once(server: &tls::Server, client: &Arc<ClientConfig>) -> (Duration, bool) {
    let name = ServerName::try_from("example.org").unwrap();
    let mut far = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut near: Session = server.session().unwrap();
    let mut spent = Duration::ZERO;
    loop {
        let mut up = near.take_kept();
        while far.wants_write() {
            far.write_tls(&mut up).unwrap();
        }
        if up.is_empty() {
            return (spent, true);
        }
        let (mut down, begun) = (Vec::new(), Instant::now());
        let received = near.receive(&mut up, &mut |_| {}, &mut down);
        spent += begun.elapsed();
        if received.is_err() {
            return (spent, false);
        }
        let mut unread = &down[..];
        while !unread.is_empty() {
            far.read_tls(&mut unread).unwrap();
            far.process_new_packets().unwrap();
        }
    }
}

fn main() {
    let count: usize = std::env::args().nth(1).expect("refused COUNT").parse().unwrap();
    let issuer = || {
        let (params, key) = (params("root", true), key());
        let certificate = params.self_signed(&key).unwrap().der().clone();
        (certificate, Issuer::new(params, key))
    };
    let ((root, good), (_, forged)) = (issuer(), issuer());
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let roots = Arc::new(roots);
    let (own, own_key) = chain(&good, 2);
    let own = Certificate::new(own, &PrivateKeyDer::try_from(own_key.serialize_der()).unwrap()).unwrap();
    let server = ServerSettings {
        choice: Arc::new(Choice::new([(&own, &[][..])])),
        clients: ClientCertificates::Offered,
        roots: Arc::clone(&roots),
        key_log: None,
    };
    let server = server.server().unwrap();
    let broken = {
        // The first certificate of the chain is not signed by the next one.
        let (mut chain, _) = chain(&good, 5);
        let stranger = Issuer::new(params("authority 1", true), key());
        let (first, key) = self::chain(&stranger, 1);
        chain[0] = first[0].clone();
        (chain, key)
    };
    let kinds = [
        ("served without a certificate", None),
        ("served with a chain of two", Some(chain(&good, 2))),
        ("served with a chain of five", Some(chain(&good, 5))),
        ("refused: one unknown certificate", Some(chain(&forged, 1))),
        ("refused: five that lead to a root by name", Some(chain(&forged, 5))),
        ("refused: five of which the last signature is false", Some(broken)),
        ("refused: thirty", Some(chain(&good, 30))),
    ];
    for (kind, shown) in kinds {
        let client = client(&roots, shown);
        let mut times: Vec<Duration> = Vec::new();
        for round in 0..WARM_UP + count {
            let (spent, made) = once(&server, &client);
            assert_eq!(made, kind.starts_with("served"), "{kind}");
            if round >= WARM_UP {
                times.push(spent);
            }
        }
        times.sort();
        println!("{:>6} us  {kind}", times[times.len() / 2].as_micros());
    }
}
