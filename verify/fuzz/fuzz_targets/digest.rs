//! Digest credentials: whatever a header says, only one who knows the password is let in, under the
//! right name, and only once with one count.
//!
//! The input is a byte of choices and header values, one a line. In them `$N` stands for a nonce of
//! the server's and `$R` for the right response of user alice to it.
#![no_main]

use fuzz::Feed;
use libfuzzer_sys::fuzz_target;
use sip_auth::{
    Algorithm, Authenticator, Backoff, BackoffRules, Config, Decision, LocalLedger, Name, NonceCounts,
    Question, Request, Secret, Status, ha1, response,
};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use wire::Time;

const REALM: &[u8] = b"example.com";

fn replace(text: &[u8], mark: &[u8; 2], by: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(mark) {
            out.extend_from_slice(by);
            at += 2;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}

/// The nonce in a challenge line.
fn nonce_of(challenge: &[u8]) -> Vec<u8> {
    let at = challenge.windows(7).position(|w| w == b"nonce=\"").expect("a challenge has a nonce") + 7;
    challenge[at..].iter().copied().take_while(|&b| b != b'"').collect()
}

fuzz_target!(|data: &[u8]| {
    let mut feed = Feed::new(data);
    let choice = feed.byte();
    let algorithm = [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512_256][usize::from(choice & 3) % 3];
    let counted = choice & 4 == 0;
    let text = feed.rest();
    let config = Config { algorithms: vec![algorithm], require_qop: choice & 8 != 0, ..Config::default() };
    let authenticator = Authenticator::new(&Secret { key: [7; 16], epoch: 3 }, config);
    let mut ledger = LocalLedger {
        nonces: NonceCounts::new(64, Duration::from_secs(300)),
        backoff: Backoff::new(64, BackoffRules::default()),
        recent: Some(sip_auth::Recent::new()),
    };
    let mut lookup = |user: &Name, algorithm: Algorithm| {
        (user.user() == b"alice").then(|| ha1(algorithm, user.as_bytes(), REALM, b"secret"))
    };
    let request = Request {
        method: b"INVITE",
        uri: b"sip:bob@example.com",
        realm: REALM,
        home: REALM,
        source: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
        peer: None,
        now: Time::from_secs(1000),
        names_server: Request::NOT_BY_ADDRESS,
    };
    let mut challenge = Vec::new();
    let minted = authenticator.challenge(Status::Unauthorized, &request, false, 1, &mut challenge);
    if choice & 16 != 0 {
        ledger.note(REALM, minted);
    }
    let nonce = nonce_of(&challenge);
    let question = Question {
        method: request.method,
        uri: request.uri,
        nonce: &nonce,
        counted: counted.then_some((&b"00000001"[..], &b"c"[..], &b"auth"[..])),
    };
    let right = response(&ha1(algorithm, b"alice", REALM, b"secret"), &question);
    let values: Vec<Vec<u8>> = text
        .split(|&b| b == b'\n')
        .map(|line| replace(&replace(line, b"$N", &nonce), b"$R", right.as_bytes()))
        .collect();
    let mut judge = |request: &Request<'_>| {
        authenticator.check(request, values.iter().map(Vec::as_slice), &mut lookup, &mut ledger)
    };
    let other = Request { method: b"BYE", ..request };
    assert!(!matches!(judge(&other), Decision::Accepted { .. }), "a response to another method");
    match judge(&request) {
        Decision::Accepted { user } => {
            assert_eq!(user.user(), b"alice");
            assert!(text.windows(2).any(|w| w == b"$R"), "let in without the password");
            assert!(!matches!(judge(&request), Decision::Accepted { .. }), "let in twice");
        }
        Decision::Bad(reason) => assert!(!reason.is_empty()),
        Decision::Throttled { retry_after } => assert!(retry_after > 0),
        Decision::Challenge { .. } | Decision::Wrong { .. } => {}
    }
});
