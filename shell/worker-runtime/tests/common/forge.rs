//! Records of TLS that no library sends: made by hand, with the keys of a real handshake.

use super::secure::{Stream, client_end};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion, ServerConnection, StreamOwned,
};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

pub const ALERT: u8 = 21;
pub const HANDSHAKE: u8 = 22;
pub const DATA: u8 = 23;

/// What one end sends after the handshake.
pub struct Forge {
    key: LessSafeKey,
    /// As long as a nonce with TLS 1.3; with TLS 1.2 a part of it, which a number in each record completes.
    iv: Vec<u8>,
    old: bool,
    next: u64,
    pub tcp: TcpStream,
}

impl Forge {
    /// A client whose handshake with `example.org` is over.
    pub fn client(client: &Arc<ClientConfig>, tcp: TcpStream) -> Forge {
        let mut open = ClientConfig::clone(client);
        open.enable_secret_extraction = true;
        let mut stream: Stream = StreamOwned::new(client_end(&Arc::new(open)), tcp);
        while stream.conn.is_handshaking() || stream.conn.wants_write() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        let old = stream.conn.protocol_version() == Some(ProtocolVersion::TLSv1_2);
        Forge::new(&stream.conn.dangerous_extract_secrets().unwrap(), old, stream.sock)
    }

    /// A client of TLS 1.3, and its last flight, which is still to be sent.
    pub fn with_flight(client: &Arc<ClientConfig>, mut tcp: TcpStream) -> (Forge, Vec<u8>) {
        let mut open = ClientConfig::clone(client);
        open.enable_secret_extraction = true;
        let mut end = client_end(&Arc::new(open));
        end.write_tls(&mut tcp).unwrap();
        while end.is_handshaking() {
            assert!(end.read_tls(&mut tcp).unwrap() > 0, "the end of the stream");
            end.process_new_packets().unwrap();
        }
        let mut flight = Vec::new();
        while end.wants_write() {
            end.write_tls(&mut flight).unwrap();
        }
        (Forge::new(&end.dangerous_extract_secrets().unwrap(), false, tcp), flight)
    }

    /// A server whose handshake is over.
    pub fn server(stream: StreamOwned<ServerConnection, TcpStream>) -> Forge {
        Forge::new(&stream.conn.dangerous_extract_secrets().unwrap(), false, stream.sock)
    }

    fn new(secrets: &ExtractedSecrets, old: bool, tcp: TcpStream) -> Forge {
        let (next, ConnectionTrafficSecrets::Aes256Gcm { key, iv }) = &secrets.tx else {
            panic!("another suite")
        };
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).unwrap());
        Forge { key, iv: iv.as_ref().to_vec(), old, next: *next, tcp }
    }

    /// A record of this kind (RFC 8446 section 5.2), with `padding` zeros.
    pub fn seal(&mut self, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        if self.old {
            return self.seal_old(kind, content);
        }
        let mut nonce: [u8; 12] = self.iv.clone().try_into().unwrap();
        nonce[4..].iter_mut().zip(self.next.to_be_bytes()).for_each(|(byte, n)| *byte ^= n);
        self.next += 1;
        let mut inner = [content, &[kind], &vec![0; padding]].concat();
        let mut record = vec![DATA, 3, 3];
        record.extend(((inner.len() + 16) as u16).to_be_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(record.clone()), &mut inner).unwrap();
        record.extend(inner);
        record
    }

    /// The same with TLS 1.2 (RFC 5288 section 3).
    fn seal_old(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let number = self.next.to_be_bytes();
        self.next += 1;
        let nonce: [u8; 12] = [&self.iv[..4], &number].concat().try_into().unwrap();
        let len = (content.len() as u16).to_be_bytes();
        let associated = [&number[..], &[kind, 3, 3], &len].concat();
        let mut sealed = content.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(associated), &mut sealed).unwrap();
        let len = (8 + sealed.len() as u16).to_be_bytes();
        [&[kind, 3, 3][..], &len, &number, &sealed].concat()
    }

    pub fn send(&mut self, kind: u8, content: &[u8]) {
        let record = self.seal(kind, content, 0);
        self.tcp.write_all(&record).unwrap();
    }
}
