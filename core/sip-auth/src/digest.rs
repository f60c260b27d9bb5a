//! The digest itself (RFC 7616 section 3.4.1).

use crate::hash::{Gather, Hash};
use crate::md5::Md5;
use crate::params::Text;
use crate::recent::Recent;
use crate::{Algorithm, Ha1, hex};
use core::fmt;
use sha2::{Sha256, Sha512_256};

/// What a client answers when it computes a response: everything in a credential but the secret.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The request's method.
    pub method: &'a [u8],
    /// The `uri` parameter.
    pub uri: &'a [u8],
    /// The server's nonce.
    pub nonce: &'a [u8],
    /// `nc` as text, `cnonce` and `qop`; `None` for a response without qop (RFC 2069).
    pub counted: Option<Counted<'a>>,
}

/// The parts that `qop=auth` adds: `nc` as text, `cnonce`, `qop`.
pub type Counted<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// A response in lower-case hexadecimal.
#[derive(Clone, Copy)]
pub struct ResponseText {
    text: [u8; 64],
    len: usize,
}

impl ResponseText {
    /// The text, 32 or 64 characters.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Debug for ResponseText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseText(hidden)")
    }
}

/// The `response` parameter that proves knowledge of `secret`: what a client sends.
pub fn response(secret: &Ha1, question: &Question<'_>) -> ResponseText {
    let counted = question.counted.map(|(nc, cnonce, qop)| Proof { nc, cnonce: Text::of(cnonce), qop });
    let sum = digest(secret, (question.method, question.uri), question.nonce, counted, None);
    let mut text = [0; 64];
    let len = hex::encode(sum.as_bytes(), &mut text).len();
    ResponseText { text, len }
}

/// The client's part of a counted response.
#[derive(Clone, Copy)]
pub(crate) struct Proof<'a> {
    /// The digits as the client wrote them, for they are hashed as text.
    pub nc: &'a [u8],
    pub cnonce: Text<'a>,
    pub qop: &'a [u8],
}

/// A computed digest.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    bytes: [u8; 32],
    len: usize,
}

impl Sum {
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn of(digest: &[u8]) -> Sum {
        let mut bytes = [0; 32];
        let len = digest.len().min(32);
        bytes[..len].copy_from_slice(&digest[..len]);
        Sum { bytes, len }
    }
}

/// The digest over all parts, by the algorithm of `secret`. That of `target`, method and URI, may be among
/// the `recent`.
pub(crate) fn digest(
    secret: &Ha1,
    target: (&[u8], &[u8]),
    nonce: &[u8],
    proof: Option<Proof<'_>>,
    recent: Option<&mut Recent>,
) -> Sum {
    match secret.algorithm() {
        Algorithm::Md5 => compute::<Md5>(secret, &md5_a2(target, recent), nonce, proof),
        Algorithm::Sha256 => compute::<Sha256>(secret, &digits::<Sha256>(target), nonce, proof),
        Algorithm::Sha512_256 => compute::<Sha512_256>(secret, &digits::<Sha512_256>(target), nonce, proof),
    }
}

/// The text A2: method and URI.
fn a2<H: Hash>((method, uri): (&[u8], &[u8])) -> Gather<H> {
    let mut a2 = Gather::<H>::new();
    a2.add_part(method);
    a2.add(uri);
    a2
}

/// H(A2) of a hash of 32 bytes, in hexadecimal.
fn digits<H: Hash>(target: (&[u8], &[u8])) -> [u8; 64] {
    let mut text = [0; 64];
    hex::encode(a2::<H>(target).finish().as_ref(), &mut text);
    text
}

/// H(A2) by MD5, in hexadecimal.
fn md5_a2((method, uri): (&[u8], &[u8]), recent: Option<&mut Recent>) -> [u8; 32] {
    if let Some(digits) = recent.as_deref().and_then(|recent| recent.target(method, uri)) {
        return *digits;
    }
    let digits = hex::encode_md5(&a2::<Md5>((method, uri)).finish());
    if let Some(recent) = recent {
        recent.note_target(method, uri, digits);
    }
    digits
}

fn compute<H: Hash>(secret: &Ha1, a2: &[u8], nonce: &[u8], proof: Option<Proof<'_>>) -> Sum {
    let mut text = [0; 64];
    let mut all = Gather::<H>::new();
    all.add_part(hex::encode(secret.as_bytes(), &mut text));
    all.add_part(nonce);
    if let Some(proof) = proof {
        all.add_part(proof.nc);
        match proof.cnonce.plain() {
            Some(plain) => all.add_part(plain),
            None => {
                proof.cnonce.pieces(|piece| all.add(piece));
                all.add(b":");
            }
        }
        all.add_part(proof.qop);
    }
    all.add(a2);
    Sum::of(all.finish().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ha1;
    use sha2::Digest;

    fn text(secret: Ha1, nonce: &[u8], counted: Option<Counted<'_>>) -> String {
        let question = Question { method: b"GET", uri: b"/dir/index.html", nonce, counted };
        String::from_utf8(response(&secret, &question).as_bytes().to_vec()).expect("hexadecimal")
    }

    /// RFC 2617 section 3.5.
    #[test]
    fn example_of_rfc_2617() {
        let secret = ha1(Algorithm::Md5, b"Mufasa", b"testrealm@host.com", b"Circle Of Life");
        let nonce = b"dcd98b7102dd2f0e8b11d0f600bfb0c093";
        let counted = Some((&b"00000001"[..], &b"0a4f113b"[..], &b"auth"[..]));
        assert_eq!(text(secret, nonce, counted), "6629fae49393a05397450978507c4ef1");
        // The same without qop, as a client of RFC 2069 computes it.
        assert_eq!(text(secret, nonce, None), "670fd8c2df070c60b045671b8b24ff02");
    }

    /// Parts of any length are hashed as if they stood in one piece.
    #[test]
    fn long_parts() {
        let secret = ha1(Algorithm::Sha256, b"u", b"r", b"p");
        for length in
            [0, 1, 60, 61, 62, 126, 127, 128, 129, 190, 191, 192, 193, 250, 254, 255, 256, 257, 400, 600]
        {
            let long = vec![b'x'; length];
            let counted = Some((&b"00000001"[..], &long[..], &b"auth"[..]));
            let question = Question { method: &long, uri: b"sip:h", nonce: b"n", counted };
            let hexadecimal = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
            let part = String::from_utf8(long.clone()).expect("text");
            let a2 = hexadecimal(&Sha256::digest(format!("{part}:sip:h")));
            let all = format!("{}:n:00000001:{part}:auth:{a2}", hexadecimal(secret.as_bytes()));
            let expected = hexadecimal(&Sha256::digest(all));
            assert_eq!(response(&secret, &question).as_bytes(), expected.as_bytes(), "{length}");
        }
    }

    /// RFC 7616 section 3.9.1, both algorithms.
    #[test]
    fn examples_of_rfc_7616() {
        let nonce = b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
        let cnonce = b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let counted = Some((&b"00000001"[..], &cnonce[..], &b"auth"[..]));
        let secret = |a| ha1(a, b"Mufasa", b"http-auth@example.org", b"Circle of Life");
        assert_eq!(text(secret(Algorithm::Md5), nonce, counted), "8ca523f5e9506fed4657c9700eebdbec");
        assert_eq!(
            text(secret(Algorithm::Sha256), nonce, counted),
            "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"
        );
        // The same with the third algorithm (RFC 8760 section 2.1), reckoned with OpenSSL.
        assert_eq!(
            text(secret(Algorithm::Sha512_256), nonce, counted),
            "430d05014cecc49cab6fbe03176d41a1da86cbfe24a16580e22aaad928d960d0"
        );
    }
}
