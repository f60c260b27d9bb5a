//! Writes challenges (RFC 3261 section 22, RFC 8760 section 2.3).

use crate::nonce::TEXT_LEN;
use crate::{Algorithm, Authenticator, Minted, Request};

/// Which response carries the challenge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// 401: `WWW-Authenticate`, from a registrar or user agent server; answered by `Authorization`.
    Unauthorized,
    /// 407: `Proxy-Authenticate`, from a proxy; answered by `Proxy-Authorization`.
    ProxyAuthenticationRequired,
}

impl Status {
    /// The response's status code.
    pub const fn code(self) -> u16 {
        match self {
            Status::Unauthorized => 401,
            Status::ProxyAuthenticationRequired => 407,
        }
    }

    const fn header(self) -> &'static [u8] {
        match self {
            Status::Unauthorized => b"WWW-Authenticate: Digest realm=\"",
            Status::ProxyAuthenticationRequired => b"Proxy-Authenticate: Digest realm=\"",
        }
    }
}

impl Authenticator {
    /// Appends the challenge for `request` to `out`: one whole header line per algorithm, most
    /// preferred first, all with one new nonce.
    ///
    /// `serial` comes from the worker's [`NonceSerial`](crate::NonceSerial). The nonce is bound to the realm
    /// and remembers the network of `request.source`. It is the answer as well, for
    /// [`Recent`](crate::Recent).
    pub fn challenge(
        &self,
        status: Status,
        request: &Request<'_>,
        stale: bool,
        serial: u32,
        out: &mut Vec<u8>,
    ) -> Minted {
        let minted = self.mint(request, serial);
        let challenge =
            Challenge { status, realm: request.realm, nonce: &minted.text, opaque: self.opaque(), stale };
        self.algorithms().iter().for_each(|&algorithm| challenge.write(algorithm, out));
        minted
    }
}

/// What the lines of a challenge have in common.
struct Challenge<'a> {
    status: Status,
    realm: &'a [u8],
    nonce: &'a [u8; TEXT_LEN],
    opaque: Option<&'a [u8]>,
    stale: bool,
}

impl Challenge<'_> {
    /// Appends the header line for `algorithm`.
    fn write(&self, algorithm: Algorithm, out: &mut Vec<u8>) {
        out.extend_from_slice(self.status.header());
        quote(self.realm, out);
        out.extend_from_slice(b"\", nonce=\"");
        out.extend_from_slice(self.nonce);
        if let Some(opaque) = self.opaque {
            out.extend_from_slice(b"\", opaque=\"");
            quote(opaque, out);
        }
        out.extend_from_slice(b"\", algorithm=");
        out.extend_from_slice(algorithm.name().as_bytes());
        out.extend_from_slice(b", qop=\"auth\"");
        if self.stale {
            out.extend_from_slice(b", stale=true");
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the inside of a quoted string. Control characters are left out: a realm may come from a
/// request's domain, and nothing of a request may end a line of ours.
pub(crate) fn quote(text: &[u8], out: &mut Vec<u8>) {
    // Nearly every realm is plain.
    if text.iter().fold(true, |plain, &b| plain & (b >= 0x20) & (b != b'"') & (b != b'\\') & (b != 0x7f)) {
        return out.extend_from_slice(text);
    }
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 | 0x7f => {}
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Secret};
    use core::net::IpAddr;
    use wire::Time;

    fn written(config: Config, status: Status, realm: &[u8], stale: bool) -> String {
        let auth = Authenticator::new(&Secret { key: [1; 16], epoch: 1 }, config);
        let source = IpAddr::from([192, 0, 2, 1]);
        let (now, names_server) = (Time::from_secs(9), Request::NOT_BY_ADDRESS);
        let (method, uri, peer) = (&b"INVITE"[..], &b"sip:h"[..], None);
        let request = Request { method, uri, realm, home: realm, source, peer, now, names_server };
        let mut out = b"X: y\r\n".to_vec();
        auth.challenge(status, &request, stale, 1, &mut out);
        String::from_utf8(out).expect("text")
    }

    /// The text with every nonce replaced by N.
    fn without_nonces(text: &str) -> String {
        let mut parts = text.split("nonce=\"");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            assert_eq!(part.find('"'), Some(TEXT_LEN));
            out += "nonce=\"N";
            out += &part[TEXT_LEN..];
        }
        out
    }

    #[test]
    fn one_line_per_algorithm_in_order_of_preference() {
        let algorithms = vec![Algorithm::Sha256, Algorithm::Md5, Algorithm::Sha256];
        let text = written(Config { algorithms, ..Config::default() }, Status::Unauthorized, b"a.b", true);
        assert_eq!(
            without_nonces(&text),
            "X: y\r\n\
             WWW-Authenticate: Digest realm=\"a.b\", nonce=\"N\", algorithm=SHA-256, qop=\"auth\", stale=true\r\n\
             WWW-Authenticate: Digest realm=\"a.b\", nonce=\"N\", algorithm=MD5, qop=\"auth\", stale=true\r\n"
        );
    }

    #[test]
    fn a_realm_can_neither_end_its_quotes_nor_its_line() {
        let config = Config { opaque: Some((*b"o\"").into()), ..Config::default() };
        let text = written(config, Status::ProxyAuthenticationRequired, b"a\"b\\c\r\nX: y\0\x7f", false);
        assert_eq!(
            without_nonces(&text),
            "X: y\r\nProxy-Authenticate: Digest realm=\"a\\\"b\\\\cX: y\", nonce=\"N\", opaque=\"o\\\"\", \
             algorithm=MD5, qop=\"auth\"\r\n"
        );
    }
}
