//! Sessions of two ends that talk through memory.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use rustls::version::TLS12;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tls::{
    Certificate, Choice, ClientCertificates, ClientSettings, Fault, FaultClass, KeyFile, KeyLog,
    ServerSettings, Session, Standing, TicketSecret,
};

/// A private authority, and a folder for what it issues.
struct Authority {
    folder: std::path::PathBuf,
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let folder = std::env::temp_dir().join(format!("strowger-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "Test Authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        Authority { folder, issuer: Issuer::new(params, key), roots: Arc::new(roots) }
    }

    fn issue(&self, names: &[&str], usage: ExtendedKeyUsagePurpose) -> Certificate {
        self.issue_until(names, usage, None)
    }

    fn issue_until(
        &self,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
        end: Option<SystemTime>,
    ) -> Certificate {
        let mut params =
            CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        params.extended_key_usages = vec![usage];
        if let Some(end) = end {
            params.not_after = end.into();
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (chain, private) = (self.folder.join("chain.pem"), self.folder.join("key.pem"));
        std::fs::write(&chain, certificate.pem()).unwrap();
        std::fs::write(&private, key.serialize_pem()).unwrap();
        Certificate::read(&chain, &private).unwrap()
    }

    fn server(&self, names: &[&str]) -> ServerSettings {
        let certificate = self.issue(names, ExtendedKeyUsagePurpose::ServerAuth);
        ServerSettings {
            choice: Arc::new(Choice::new([(&certificate, &[][..])])),
            clients: ClientCertificates::Off,
            roots: Arc::clone(&self.roots),
            key_log: None,
        }
    }

    fn client(&self) -> ClientSettings {
        ClientSettings {
            roots: Arc::clone(&self.roots),
            wildcards: false,
            certificate: None,
            resume: true,
            key_log: None,
        }
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// One end, and what it got.
struct End {
    session: Session,
    got: Vec<u8>,
}

impl End {
    /// Takes bytes as a connection brings them; what is to be sent in answer.
    fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>, (Fault, Vec<u8>)> {
        let mut incoming = self.session.take_kept();
        incoming.extend_from_slice(bytes);
        let mut out = Vec::new();
        let got = &mut self.got;
        match self.session.receive(&mut incoming, &mut |data| got.extend_from_slice(data), &mut out) {
            Ok(_) => Ok(out),
            Err(fault) => Err((fault, out)),
        }
    }
}

/// A client and a server after the handshake, whose bytes went in pieces of `piece`; or who failed.
fn connect(
    server: &ServerSettings,
    client: &Arc<rustls::ClientConfig>,
    name: &str,
    piece: usize,
) -> Result<(End, End), Fault> {
    let mut to_server = Vec::new();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = End { session: Session::client(client, name, &mut to_server)?, got: Vec::new() };
    let mut server = End { session: Session::server(&server.config().unwrap())?, got: Vec::new() };
    for _ in 0..10 {
        let mut to_client = Vec::new();
        for piece in to_server.chunks(piece) {
            to_client.extend(server.take(piece).map_err(|(fault, _)| fault)?);
        }
        to_server.clear();
        for piece in to_client.chunks(piece) {
            to_server.extend(client.take(piece).map_err(|(fault, _)| fault)?);
        }
        if to_server.is_empty() {
            break;
        }
    }
    assert_eq!((client.session.standing(), server.session.standing()), (Standing::Open, Standing::Open));
    Ok((client, server))
}

#[test]
fn data_go_both_ways_however_the_bytes_are_cut() {
    let authority = Authority::new("cut");
    let server = authority.server(&["example.org"]);
    let client = authority.client().config().unwrap();
    for piece in [1, 5, 100, 100_000] {
        let (mut caller, mut callee) = connect(&server, &client, "example.org", piece).unwrap();
        let message = vec![b'x'; 40_000];
        let mut out = Vec::new();
        caller.session.send(&message, &mut out).unwrap();
        for piece in out.chunks(piece) {
            callee.take(piece).unwrap();
        }
        assert!(callee.got == message && callee.session.kept().is_empty());
        out.clear();
        callee.session.send(b"SIP/2.0 200 OK", &mut out).unwrap();
        caller.take(&out).unwrap();
        assert_eq!(caller.got, b"SIP/2.0 200 OK");
        assert_eq!((caller.session.version(), callee.session.version()), (Some("1.3"), Some("1.3")));
    }
}

/// rustls reads on from where it was, in bytes that are gone after a fault.
#[test]
fn session_after_a_fault_writes_nothing() {
    let authority = Authority::new("after");
    let config = authority.server(&["example.org"]).config().unwrap();
    let mut callee = End { session: Session::server(&config).unwrap(), got: Vec::new() };
    let half = [&[22, 3, 1, 0, 5, 1, 0, 2, 0, 3][..], &[23, 3, 3, 0, 1, 0]].concat();
    assert!(callee.take(&half).is_err());
    let mut out = Vec::new();
    callee.session.finish(&mut out);
    assert!(callee.session.send(b"data", &mut out).is_err() && callee.take(&half).is_err());
    assert_eq!(out, b"");
}

#[test]
fn data_between_the_handshake_and_a_fault_are_shown() {
    let authority = Authority::new("fault");
    let mut to_server = Vec::new();
    let config = authority.client().config().unwrap();
    let name = ServerName::try_from("example.org").unwrap();
    let mut caller =
        End { session: Session::client(&config, name, &mut to_server).unwrap(), got: Vec::new() };
    let server = authority.server(&["example.org"]).config().unwrap();
    let mut callee = End { session: Session::server(&server).unwrap(), got: Vec::new() };
    let flight = callee.take(&to_server).unwrap();
    let mut all = caller.take(&flight).unwrap();
    caller.session.send(b"data", &mut all).unwrap();
    all.extend(b"garbage");
    assert!(callee.take(&all).is_err());
    assert_eq!((&callee.got[..], callee.session.standing()), (&b"data"[..], Standing::Open));
}

#[test]
fn end_of_one_side_leaves_the_other_open() {
    let authority = Authority::new("end");
    let server = authority.server(&["example.org"]);
    let (mut caller, mut callee) =
        connect(&server, &authority.client().config().unwrap(), "example.org", 5000).unwrap();
    let mut out = Vec::new();
    caller.session.send(b"last", &mut out).unwrap();
    caller.session.finish(&mut out);
    callee.take(&out).unwrap();
    assert_eq!((callee.got.as_slice(), callee.session.standing()), (&b"last"[..], Standing::PeerClosed));
    out.clear();
    callee.session.send(b"answer", &mut out).unwrap();
    callee.session.finish(&mut out);
    caller.take(&out).unwrap();
    assert_eq!((caller.got.as_slice(), caller.session.standing()), (&b"answer"[..], Standing::PeerClosed));
}

/// Whether a handshake with `example.org` resumes a session; or why the client refuses the server.
fn accepted(server: &Arc<rustls::ServerConfig>, client: &Arc<rustls::ClientConfig>) -> Result<bool, Fault> {
    let mut to_server = Vec::new();
    let name = ServerName::try_from("example.org").unwrap();
    let session = Session::client(client, name, &mut to_server).unwrap();
    let mut caller = End { session, got: Vec::new() };
    let mut callee = End { session: Session::server(server).unwrap(), got: Vec::new() };
    for _ in 0..4 {
        let to_client = callee.take(&to_server).unwrap();
        to_server = caller.take(&to_client).map_err(|(fault, _)| fault)?;
    }
    Ok(caller.session.is_resumed())
}

/// Whether a handshake with `example.org` resumes a session, as both ends see it; or why the server refuses
/// it.
fn handshake(
    server: &Arc<rustls::ServerConfig>,
    client: &Arc<rustls::ClientConfig>,
) -> Result<(bool, bool), Fault> {
    let mut to_server = Vec::new();
    let name = ServerName::try_from("example.org").unwrap();
    let session = Session::client(client, name, &mut to_server).unwrap();
    let mut caller = End { session, got: Vec::new() };
    let mut callee = End { session: Session::server(server).unwrap(), got: Vec::new() };
    for _ in 0..4 {
        let to_client = callee.take(&to_server).map_err(|(fault, _)| fault)?;
        to_server = caller.take(&to_client).unwrap();
    }
    Ok((caller.session.is_resumed(), callee.session.is_resumed()))
}

/// Whether a client's second session is resumed that goes to another server than its first.
fn resumed_by(
    first: &Arc<rustls::ServerConfig>,
    second: &Arc<rustls::ServerConfig>,
    client: &ClientSettings,
) -> bool {
    let client = client.config().unwrap();
    handshake(first, &client).unwrap();
    handshake(second, &client).unwrap().1
}

#[test]
fn nodes_with_one_secret_resume_each_others_sessions() {
    let authority = Authority::new("nodes");
    let server = authority.server(&["example.org"]);
    let file = authority.folder.join("secret");
    std::fs::write(&file, (0..48).collect::<Vec<u8>>()).unwrap();
    let shared = || server.shared_config(TicketSecret::read(&file).unwrap()).unwrap();
    assert!(resumed_by(&shared(), &shared(), &authority.client()));
    let own = || server.config().unwrap();
    assert!(!resumed_by(&own(), &own(), &authority.client()));
}

#[test]
fn nodes_that_ask_for_other_certificates_resume_no_session() {
    let (authority, other) = (Authority::new("asks"), Authority::new("asks-other"));
    let config = |clients, roots: &Authority| {
        let server = authority.server(&["example.org"]);
        let server = ServerSettings { clients, roots: Arc::clone(&roots.roots), ..server };
        let file = authority.folder.join("secret");
        std::fs::write(&file, (0..48).collect::<Vec<u8>>()).unwrap();
        server.shared_config(TicketSecret::read(&file).unwrap()).unwrap()
    };
    use ClientCertificates::{Off, Offered};
    let client = authority.client();
    assert!(resumed_by(&config(Offered, &authority), &config(Offered, &authority), &client));
    assert!(resumed_by(&config(Off, &authority), &config(Off, &other), &client));
    assert!(!resumed_by(&config(Off, &authority), &config(Offered, &authority), &client));
    assert!(!resumed_by(&config(Offered, &authority), &config(Offered, &other), &client));
}

#[test]
fn session_is_not_resumed_after_the_certificate_of_its_client() {
    let authority = Authority::new("ends");
    let server =
        ServerSettings { clients: ClientCertificates::Required, ..authority.server(&["example.org"]) };
    let config = server.config().unwrap();
    // On a slow machine a certificate may expire before its first handshake.
    let first = [2, 4, 8, 16, 32].into_iter().find_map(|seconds| {
        let end = SystemTime::now() + Duration::from_secs(seconds);
        let certificate =
            authority.issue_until(&["trunk.example"], ExtendedKeyUsagePurpose::ClientAuth, Some(end));
        let client =
            ClientSettings { certificate: Some(certificate), ..authority.client() }.config().unwrap();
        handshake(&config, &client).ok().map(|_| (client, end))
    });
    let (client, end) = first.expect("a certificate of 32 seconds is valid at its first handshake");
    std::thread::sleep(end.duration_since(SystemTime::now()).unwrap_or_default() + Duration::from_secs(2));
    let fault = handshake(&config, &client).expect_err("it has expired");
    assert_eq!(fault.class(), FaultClass::Certificate, "{fault}");
}

#[test]
fn session_is_not_resumed_after_the_certificate_of_its_server() {
    let authority = Authority::new("server-ends");
    let client = authority.client().config().unwrap();
    let first = [2, 4, 8, 16, 32].into_iter().find_map(|seconds| {
        let end = SystemTime::now() + Duration::from_secs(seconds);
        let certificate =
            authority.issue_until(&["example.org"], ExtendedKeyUsagePurpose::ServerAuth, Some(end));
        let choice = Arc::new(Choice::new([(&certificate, &[][..])]));
        let server = ServerSettings { choice, ..authority.server(&["example.org"]) }.config().unwrap();
        accepted(&server, &client).ok().map(|_| (server, end))
    });
    let (server, end) = first.expect("a certificate of 32 seconds is valid at its first handshake");
    std::thread::sleep(end.duration_since(SystemTime::now()).unwrap_or_default() + Duration::from_secs(2));
    assert_eq!(accepted(&server, &client).expect_err("it has expired").class(), FaultClass::Certificate);
}

#[test]
fn key_log_that_others_can_read_is_refused() {
    let authority = Authority::new("open-keys");
    let file = authority.folder.join("keys.log");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = KeyFile::open(&file).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
}

#[test]
fn keys_are_logged_for_captures() {
    let authority = Authority::new("keys");
    let file = authority.folder.join("keys.log");
    let key_log = Some(Arc::new(KeyFile::open(&file).unwrap()) as Arc<dyn KeyLog>);
    let server = ServerSettings { key_log, ..authority.server(&["example.org"]) };
    connect(&server, &authority.client().config().unwrap(), "example.org", 5000).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let labels: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert!(labels.contains(&"CLIENT_TRAFFIC_SECRET_0") && labels.contains(&"SERVER_TRAFFIC_SECRET_0"));
    let hex = |text: &str| text.len() >= 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(text.lines().all(|line| line.split(' ').skip(1).all(hex)), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn faults_are_told_apart() {
    let authority = Authority::new("class");
    let server = authority.server(&["example.org"]);
    let class = |bytes: &[u8]| {
        let mut callee =
            End { session: Session::server(&server.config().unwrap()).unwrap(), got: Vec::new() };
        callee.take(bytes).err().map(|(fault, _)| fault.class())
    };
    assert_eq!(class(b"OPTIONS sip:example.org SIP/2.0\r\n"), Some(FaultClass::NotTls));
    assert_eq!(class(&[21, 3, 3, 0, 2, 2, 48]), Some(FaultClass::Alert));
    assert_eq!(class(&[22, 3, 1, 0, 5, 1, 0, 0, 1, 0]), Some(FaultClass::Other));
    let required =
        ServerSettings { clients: ClientCertificates::Required, ..authority.server(&["example.org"]) };
    let fault = connect(&required, &authority.client().config().unwrap(), "example.org", 5000).err().unwrap();
    assert_eq!(fault.class(), FaultClass::Certificate);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let only =
        rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS12]).unwrap();
    let old = Arc::new(only.with_root_certificates(Arc::clone(&authority.roots)).with_no_client_auth());
    assert!(connect(&server, &old, "example.org", 5000).is_ok(), "1.2 is served");
    // A hello of TLS 1.1 without the extension for versions.
    let mut hello = vec![22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0, 47, 1, 0]);
    assert_eq!(class(&hello), Some(FaultClass::NothingInCommon));
}

#[test]
fn second_session_is_resumed() {
    let authority = Authority::new("resume");
    let mut server = authority.server(&["example.org"]);
    let config = server.config().unwrap();
    let client = authority.client().config().unwrap();
    // One configuration, because its keys open the tickets.
    server.key_log = None;
    let resumed = [(); 2].map(|()| handshake(&config, &client).unwrap());
    assert_eq!(resumed, [(false, false), (true, true)]);
}

#[test]
fn certificate_of_another_domain_is_refused_by_its_names() {
    let authority = Authority::new("other");
    let server = authority.server(&["other.org"]);
    let fault = connect(&server, &authority.client().config().unwrap(), "example.org", 5000).err().unwrap();
    let said = fault.to_string();
    assert!(said.contains("of other.org, not of example.org"), "{said}");
}

#[test]
fn unknown_authority_is_refused_with_an_alert() {
    let (authority, stranger) = (Authority::new("known"), Authority::new("stranger"));
    let server = stranger.server(&["example.org"]);
    let mut to_server = Vec::new();
    let name = ServerName::try_from("example.org").unwrap();
    let session = Session::client(&authority.client().config().unwrap(), name, &mut to_server).unwrap();
    let mut caller = End { session, got: Vec::new() };
    let mut callee = End { session: Session::server(&server.config().unwrap()).unwrap(), got: Vec::new() };
    let hello = callee.take(&to_server).unwrap();
    let (fault, alert) = caller.take(&hello).unwrap_err();
    assert!(matches!(fault, Fault::Tls(rustls::Error::InvalidCertificate(_))), "{fault}");
    let (fault, _) = callee.take(&alert).unwrap_err();
    assert!(matches!(fault, Fault::Tls(rustls::Error::AlertReceived(_))), "{fault}");
}

#[test]
fn clients_prove_their_domain_with_a_certificate_for_servers() {
    let authority = Authority::new("clients");
    for usage in [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth] {
        let mut server = authority.server(&["example.org"]);
        server.clients = ClientCertificates::Required;
        let mut client = authority.client();
        client.certificate = Some(authority.issue(&["trunk.example.net"], usage));
        let (_, callee) = connect(&server, &client.config().unwrap(), "example.org", 5000).unwrap();
        assert_eq!(callee.session.peer().unwrap().domains().collect::<Vec<_>>(), ["trunk.example.net"]);
    }
}

#[test]
fn client_without_certificate_is_served_unless_required() {
    let authority = Authority::new("offered");
    let client = authority.client().config().unwrap();
    let mut server = authority.server(&["example.org"]);
    server.clients = ClientCertificates::Offered;
    let (_, callee) = connect(&server, &client, "example.org", 5000).unwrap();
    assert!(callee.session.peer().is_none());
    server.clients = ClientCertificates::Required;
    // In TLS 1.3 the client learns of it after its own handshake.
    assert!(connect(&server, &client, "example.org", 5000).is_err());
}

#[test]
fn plain_sip_is_refused_at_once() {
    let authority = Authority::new("plain");
    let server = authority.server(&["example.org"]);
    let mut callee = End { session: Session::server(&server.config().unwrap()).unwrap(), got: Vec::new() };
    assert!(callee.take(b"OPTIONS sip:example.org SIP/2.0\r\n").is_err());
}

/// A record of the handshake (RFC 8446 section 5.1).
fn record(fragment: &[u8]) -> Vec<u8> {
    let mut record = vec![22, 3, 1];
    record.extend((fragment.len() as u16).to_be_bytes());
    record.extend(fragment);
    record
}

#[test]
fn handshake_message_in_fragments_is_put_together() {
    let authority = Authority::new("fragments");
    let server = authority.server(&["example.org"]).config().unwrap();
    let mut hello = Vec::new();
    let name = ServerName::try_from("example.org").unwrap();
    Session::client(&authority.client().config().unwrap(), name, &mut hello).unwrap();
    let message = hello.get(5..).unwrap();
    let mut callee = End { session: Session::server(&server).unwrap(), got: Vec::new() };
    for fragment in message.chunks(100) {
        assert_eq!(callee.session.standing(), Standing::Handshake);
        // Ends and data in the midst of a message find a session that cannot send yet.
        let mut out = Vec::new();
        callee.session.finish(&mut out);
        assert!(out.is_empty() && callee.session.send(b"early", &mut out).is_err());
        let answer = callee.take(&record(fragment)).unwrap();
        assert_eq!(answer.is_empty(), !callee.session.kept().is_empty());
    }
}

#[test]
fn endless_handshake_message_is_refused() {
    let authority = Authority::new("endless");
    let server = authority.server(&["example.org"]).config().unwrap();
    let mut callee = End { session: Session::server(&server).unwrap(), got: Vec::new() };
    // A ClientHello of 16 MB.
    let mut bytes = record(&[1, 0xff, 0xff, 0xff, 3, 3]);
    let fault = (0..100).find_map(|_| {
        let fault = callee.take(&bytes).err();
        bytes = record(&[0; 16_000]);
        fault
    });
    assert!(fault.is_some() && callee.session.kept().len() <= tls::session::MAX_KEPT);
}
