//! The layers of a stream: TLS, and WebSocket above it. However the bytes are split, the data and the events
//! are the same. If bytes are changed on the way, a server hands on only a correct beginning of the data.
#![no_main]

use fuzz::Feed;
use libfuzzer_sys::fuzz_target;
use rcgen::{CertificateParams, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use std::sync::{Arc, OnceLock};
use tls::session::MAX_KEPT;
use tls::{Certificate, Client, GeneratorSettings, Server, Session, Standing, Versions};
use websocket::{Connection, Limits, Role};

/// A server and its clients, of TLS 1.3 and of TLS 1.2.
struct World([(Server, Client); 2]);

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["example.org".to_owned()]).expect("a name");
        let signed = params.self_signed(&key).expect("a certificate").der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(signed.clone()).expect("a root");
        let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let certificate = Certificate::new(vec![signed], &private).expect("a pair");
        let roots = Arc::new(roots);
        World([Versions::Tls13, Versions::Tls12].map(|versions| {
            let settings = GeneratorSettings {
                roots: Some(Arc::clone(&roots)),
                certificate: Some(certificate.clone()),
                versions,
                resume: true,
            };
            let client = settings.client("example.org").expect("a client");
            (settings.server().expect("a server"), client)
        }))
    })
}

/// One end: its session, the received data, and the ends of its pieces.
struct End {
    session: Session,
    got: Vec<u8>,
    ends: Vec<usize>,
    failed: bool,
}

impl End {
    fn new(session: Session) -> End {
        End { session, got: Vec::new(), ends: Vec::new(), failed: false }
    }

    /// Processes bytes in pieces of the sizes in `cuts`, like those of a connection. Returns the answer.
    fn take(&mut self, bytes: &[u8], cuts: &[u8], turn: &mut usize) -> Vec<u8> {
        let (mut out, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() && !self.failed {
            *turn += 1;
            // Zero: everything.
            let len = match usize::from(cuts[*turn % cuts.len()]) {
                0 => rest.len(),
                cut => cut.min(rest.len()),
            };
            let (piece, more) = rest.split_at(len);
            rest = more;
            let mut incoming = self.session.take_kept();
            incoming.extend_from_slice(piece);
            let got = &mut self.got;
            let received =
                self.session.receive(&mut incoming, &mut |data| got.extend_from_slice(data), &mut out);
            self.failed = received.is_err();
            self.ends.push(self.got.len());
            assert!(self.session.kept().len() <= MAX_KEPT);
        }
        if self.failed {
            let mut nothing = Vec::new();
            self.session.finish(&mut nothing);
            assert!(self.session.send(b"data", &mut nothing).is_err());
            assert!(self.session.receive(&mut [22, 3, 1, 0, 1, 1], &mut |_| {}, &mut nothing).is_err());
            assert_eq!(nothing, b"");
        }
        out
    }
}

/// The result of WebSocket for data that comes in pieces with these ends.
fn events(data: &[u8], ends: &[usize]) -> Vec<String> {
    let limits = Limits { message: 65_536, fragments: u16::MAX };
    let (mut connection, mut seen, mut buffer, mut have) =
        (Connection::new(Role::Server), Vec::new(), Vec::new(), 0);
    for end in ends {
        buffer.extend_from_slice(&data[have..*end]);
        have = *end;
        let mut reader = connection.read(&mut buffer, &limits);
        loop {
            match reader.next_event() {
                Ok(Some(websocket::Event::Message { kind, payload })) => {
                    seen.push(format!("{kind:?} {:?}", reader.bytes(payload)));
                }
                Ok(Some(websocket::Event::Close { code, .. })) => {
                    seen.push(format!("{code:?}"));
                    return seen;
                }
                Ok(Some(websocket::Event::Ping(payload) | websocket::Event::Pong(payload))) => {
                    seen.push(format!("{:?}", reader.bytes(payload)));
                }
                Ok(None) => break,
                Err(fault) => {
                    seen.push(format!("{fault:?}"));
                    return seen;
                }
            }
        }
        let kept = reader.finish();
        buffer.truncate(kept.end);
        buffer.drain(..kept.start);
    }
    seen
}

/// What happens to the bytes of the client on their way.
enum Change {
    Nothing,
    /// The byte at this place is changed.
    Byte(usize, u8),
    /// These bytes are inserted.
    Insert(usize, Vec<u8>),
    /// Everything from this place on is missing.
    End(usize),
}

impl Change {
    /// Changes `bytes`, after `sent` earlier ones.
    fn apply(&self, bytes: &mut Vec<u8>, sent: usize) {
        let place = |at: &usize| at.checked_sub(sent).filter(|at| *at < bytes.len());
        match self {
            Change::Nothing => {}
            Change::Byte(at, by) => {
                if let Some(at) = place(at) {
                    bytes[at] ^= by;
                }
            }
            Change::Insert(at, more) => {
                if let Some(at) = place(at) {
                    bytes.splice(at..at, more.iter().copied());
                }
            }
            Change::End(at) => bytes.truncate(at.saturating_sub(sent)),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut feed = Feed::new(data);
    // The first byte chooses the version and the change, the next four the pieces, the next three the place
    // and the size of the change.
    let choice = feed.byte();
    let cuts: [u8; 4] = std::array::from_fn(|_| feed.byte());
    let place = usize::from(feed.byte()) << 8 | usize::from(feed.byte());
    let size = feed.byte();
    let mut payload = feed.rest().to_vec();
    let change = match choice >> 6 {
        0 => Change::Nothing,
        1 => Change::Byte(place, size),
        2 => Change::Insert(place, payload.split_off(payload.len().saturating_sub(size.into()))),
        _ => Change::End(place),
    };
    let (server, client) = &world().0[usize::from(choice & 1)];
    let mut up = Vec::new();
    let mut caller = End::new(client.session("", &mut up).expect("a session"));
    let mut callee = End::new(server.session().expect("a session"));
    let (mut turn, mut sent, mut queued) = (0, 0, false);
    while !up.is_empty() {
        let len = up.len();
        change.apply(&mut up, sent);
        sent += len;
        let down = callee.take(&up, &cuts, &mut turn);
        up = caller.take(&down, &cuts, &mut turn);
        if caller.session.standing() == Standing::Open && !caller.failed && !queued {
            queued = true;
            caller.session.send(&payload, &mut up).expect("an open session");
            caller.session.finish(&mut up);
        }
    }
    assert!(payload.starts_with(&callee.got), "other data than were sent");
    assert_eq!(events(&callee.got, &callee.ends), events(&callee.got, &[callee.got.len()]));
    if matches!(change, Change::Nothing) {
        assert!(!callee.failed && !caller.failed && callee.got == payload);
        assert_eq!(callee.session.standing(), Standing::PeerClosed);
        let mut down = Vec::new();
        callee.session.send(&payload, &mut down).expect("its own direction is open");
        caller.take(&down, &cuts, &mut turn);
        assert!(caller.got == payload);
    }
});
