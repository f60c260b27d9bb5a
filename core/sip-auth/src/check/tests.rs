use super::*;
use crate::{
    Backoff, BackoffRules, Credentials, LocalLedger, NonceCounts, NonceSerial, Question, Status, ha1,
    response, shard_of,
};
use proptest::prelude::*;

mod office;

const REALM: &[u8] = b"example.com";
const URI: &[u8] = b"sip:bob@example.com";
const T0: Time = Time::from_secs(1_000);

fn authenticator(config: Config) -> Authenticator {
    Authenticator::new(&Secret { key: [7; 16], epoch: 3 }, config)
}

fn all_algorithms() -> Config {
    let algorithms = vec![Algorithm::Sha512_256, Algorithm::Sha256, Algorithm::Md5, Algorithm::Md5];
    Config { algorithms, ..Config::default() }
}

/// alice, alice@example.com and bob exist; the password is "secret".
fn accounts(name: &Name, algorithm: Algorithm) -> Option<Ha1> {
    [&b"alice"[..], b"alice@example.com", b"bob"]
        .contains(&name.as_bytes())
        .then(|| ha1(algorithm, name.as_bytes(), REALM, b"secret"))
}

impl Decision {
    fn is_wrong(&self) -> bool {
        matches!(self, Decision::Wrong { .. })
    }
}

/// A lookup for checks that must not get as far as a digest.
fn nobody_asks(_: &Name, _: Algorithm) -> Option<Ha1> {
    panic!("no secret is needed to refuse this")
}

/// Like `accounts`, with alice at home at one address.
struct AtHome(IpAddr);

impl Lookup for AtHome {
    fn ha1(&mut self, user: &Name, algorithm: Algorithm) -> Option<Ha1> {
        accounts(user, algorithm)
    }

    fn familiar(&mut self, user: &Name, source: IpAddr) -> bool {
        user.as_bytes() == b"alice" && source == self.0
    }
}

/// Four shards, as a shell with several workers has them.
struct Striped([LocalLedger; 4]);

impl Ledger for Striped {
    fn nonces<R>(&mut self, key: u64, use_it: impl FnOnce(&mut NonceCounts) -> R) -> R {
        use_it(&mut self.0[shard_of(key, 4)].nonces)
    }

    fn backoff<R>(&mut self, key: u64, use_it: impl FnOnce(&mut Backoff) -> R) -> R {
        use_it(&mut self.0[shard_of(key, 4)].backoff)
    }
}

fn ledger() -> Striped {
    Striped([(); 4].map(|()| LocalLedger {
        nonces: NonceCounts::new(64, Config::default().lifetime),
        backoff: Backoff::new(64, BackoffRules::default()),
        recent: None,
    }))
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn request(source: u8, now: Time) -> Request<'static> {
    let names_server = Request::NOT_BY_ADDRESS;
    let source = address(source);
    let peer = None;
    Request { method: b"INVITE", uri: URI, realm: REALM, home: REALM, source, peer, now, names_server }
}

/// A client that answers challenges.
struct Client<'a> {
    auth: &'a Authenticator,
    serial: NonceSerial,
    user: &'a str,
    password: &'a str,
    uri: &'a str,
    algorithm: Algorithm,
    qop: bool,
}

impl<'a> Client<'a> {
    fn new(auth: &'a Authenticator) -> Client<'a> {
        let serial = NonceSerial::new(0);
        let uri = "sip:bob@example.com";
        Client { auth, serial, user: "alice", password: "secret", uri, algorithm: Algorithm::Md5, qop: true }
    }

    /// Takes a challenge at `source` and returns its nonce.
    fn nonce(&mut self, source: u8, now: Time) -> String {
        let mut out = Vec::new();
        let serial = self.serial.next();
        self.auth.challenge(Status::Unauthorized, &request(source, now), false, serial, &mut out);
        let text = String::from_utf8(out).expect("text");
        let (_, rest) = text.split_once("nonce=\"").expect("a nonce");
        rest.split('"').next().expect("its end").to_owned()
    }

    /// The header value over `nonce` with count `nc`.
    fn answer(&self, nonce: &str, nc: u32) -> String {
        let nc = format!("{nc:08x}");
        let counted = self.qop.then_some((nc.as_bytes(), &b"cn"[..], &b"auth"[..]));
        let secret = ha1(self.algorithm, self.user.as_bytes(), REALM, self.password.as_bytes());
        let question =
            Question { method: b"INVITE", uri: self.uri.as_bytes(), nonce: nonce.as_bytes(), counted };
        let response = response(&secret, &question);
        let counting = if self.qop { format!(", qop=auth, nc={nc}, cnonce=\"cn\"") } else { String::new() };
        format!(
            "Digest username=\"{}\", realm=\"example.com\", nonce=\"{nonce}\", uri=\"{}\", response=\"{}\", \
             algorithm={}{counting}",
            self.user,
            self.uri,
            std::str::from_utf8(response.as_bytes()).expect("hexadecimal"),
            self.algorithm.name(),
        )
    }

    /// Takes a challenge and answers it, both at `source`.
    fn fresh(&mut self, source: u8, now: Time) -> String {
        let nonce = self.nonce(source, now);
        self.answer(&nonce, 1)
    }
}

fn check(auth: &Authenticator, request: &Request<'_>, value: &str, ledger: &mut impl Ledger) -> Decision {
    auth.check(request, [value.as_bytes()], &mut accounts, ledger)
}

fn refuse(auth: &Authenticator, value: &str) -> Decision {
    auth.check(&request(1, T0), [value.as_bytes()], &mut nobody_asks, &mut ledger())
}

fn accepted(user: &str) -> Decision {
    Decision::Accepted { user: Name::from_bytes(user.bytes()).expect("a name") }
}

const PLAIN: Decision = Decision::Challenge { stale: false };
const WRONG: Decision = Decision::Wrong { retry_after: 0 };
const STALE: Decision = Decision::Challenge { stale: true };

#[test]
fn every_algorithm_offered_is_accepted() {
    let auth = authenticator(all_algorithms());
    for algorithm in [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512_256] {
        for qop in [true, false] {
            let mut client = Client { algorithm, qop, ..Client::new(&auth) };
            let value = client.fresh(1, T0);
            assert_eq!(check(&auth, &request(1, T0), &value, &mut ledger()), accepted("alice"));
        }
    }
}

#[test]
fn no_credentials_and_credentials_for_others_are_challenged() {
    let auth = authenticator(Config::default());
    let none = auth.check(&request(1, T0), [], &mut nobody_asks, &mut ledger());
    assert_eq!(none, PLAIN);
    let good = Client::new(&auth).fresh(1, T0);
    for value in [
        "NoOneKnowsThisScheme opaque-data=here",
        "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        &good.replace("realm=\"example.com\"", "realm=\"example.net\""),
        &good.replace("algorithm=MD5", "algorithm=MD5-sess"),
        &good.replace("algorithm=MD5", "algorithm=SHA-256"),
        &good.replace("algorithm=MD5", "algorithm=rot13"),
        &good.replace("qop=auth,", "qop=auth-int,"),
        "Digest username=\"alice\", realm=\"example.com\", nonce=\"\", uri=\"sip:example.com\", response=\"\"",
        "Digest username=\"alice\"",
    ] {
        assert_eq!(refuse(&auth, value), PLAIN, "{value}");
    }
}

#[test]
fn nonces_that_are_not_ours_are_challenged_without_looking_at_the_digest() {
    let auth = authenticator(Config::default());
    let client = Client::new(&auth);
    let other = Authenticator::new(&Secret { key: [8; 16], epoch: 3 }, Config::default());
    let foreign = Client::new(&other).nonce(1, T0);
    let mut net = request(1, T0);
    net.realm = b"example.net";
    let mut of_other_realm = Vec::new();
    auth.challenge(Status::Unauthorized, &net, false, 1, &mut of_other_realm);
    let of_other_realm = String::from_utf8(of_other_realm).expect("text");
    let of_other_realm = of_other_realm.split('"').nth(3).expect("a nonce");
    for nonce in [&foreign, of_other_realm, "dcd98b7102dd2f0e8b11d0f600bfb0c093", &"A".repeat(40), "\\\""] {
        assert_eq!(refuse(&auth, &client.answer(nonce, 1)), PLAIN, "{nonce}");
    }
}

#[test]
fn unreadable_or_contradictory_credentials_are_bad() {
    let auth = authenticator(Config::default());
    let good = Client::new(&auth).fresh(1, T0);
    let long = format!("{good}, opaque=\"{}\"", "x".repeat(8192));
    for value in [
        "",
        "Digest",
        &long,
        &good.replace("username=\"alice\"", "username=\"alice"),
        &good.replace("uri=\"sip:bob@example.com\"", "uri=sip:bob@example.com"),
        &good.replace("username=\"alice\"", "username=\"al\x01ice\""),
        &good.replace("username=\"alice\"", "user=\"alice\""),
        &good.replace("username=\"alice\"", "username=\"alice\", username=\"bob\""),
        &good.replace("username=\"alice\"", "username=\"alice\", username*=UTF-8''alice"),
        &good.replace("username=\"alice\"", "username=\"alice\", userhash=true"),
        &good.replace("alice", &"a".repeat(161)),
        &good.replace(", cnonce=\"cn\"", ""),
        &good.replace("nc=00000001, ", ""),
        &good.replace("nc=00000001", "nc=1x"),
        &good.replace("response=\"", "response=\"00"),
        &good.replace("response=\"", "answer=\""),
        &good.replace("uri=\"sip:bob@", "uri=\"sip:carol@"),
    ] {
        assert!(matches!(refuse(&auth, value), Decision::Bad(_)), "{value}");
    }
}

#[test]
fn what_devices_write_differently_is_accepted() {
    let auth = authenticator(Config::default());
    let mut client = Client::new(&auth);
    for (from, to) in [
        ("Digest ", "DIGEST  "),
        ("algorithm=MD5", "algorithm=\"md5\""),
        ("algorithm=MD5, ", ""),
        ("qop=auth", "qop=\"auth\""),
        ("nc=00000001", "nc=\"00000001\""),
        ("username=\"alice\"", "username=alice"),
        ("username=\"alice\"", "username=\"\\al\\ice\""),
        ("cnonce=\"cn\"", "cnonce=\"\\c\\n\", opaque=\"\", auts=\"x\""),
        ("realm=\"example.com\"", "REALM = \"ex\\ample.com\""),
    ] {
        let value = client.fresh(1, T0).replace(from, to);
        assert_eq!(check(&auth, &request(1, T0), &value, &mut ledger()), accepted("alice"), "{value}");
    }
    let spelled = Client { uri: "SIP:bob@Example.com;transport=tcp", ..Client::new(&auth) }.fresh(1, T0);
    assert_eq!(check(&auth, &request(1, T0), &spelled, &mut ledger()), accepted("alice"));
    let full = Client { user: "alice@example.com", ..client }.fresh(1, T0);
    assert_eq!(check(&auth, &request(1, T0), &full, &mut ledger()), accepted("alice@example.com"));
}

#[test]
fn a_digest_for_the_servers_address_is_taken_where_the_caller_knows_it() {
    let auth = authenticator(Config { uri: UriRule::Exact, ..Config::default() });
    let by_address = Client { uri: "sip:192.0.2.99:5060", ..Client::new(&auth) }.fresh(1, T0);
    let refused = Decision::Bad("Credentials For Another URI");
    assert_eq!(check(&auth, &request(1, T0), &by_address, &mut ledger()), refused);
    let named = |uri: &[u8]| uri == b"sip:192.0.2.99:5060";
    let knowing = Request { names_server: &named, ..request(1, T0) };
    assert_eq!(check(&auth, &knowing, &by_address, &mut ledger()), accepted("alice"));
    let elsewhere = Client { uri: "sip:192.0.2.98:5060", ..Client::new(&auth) }.fresh(1, T0);
    assert_eq!(check(&auth, &knowing, &elsewhere, &mut ledger()), refused);
}

#[test]
fn a_digest_for_another_method_or_password_is_wrong() {
    let auth = authenticator(Config::default());
    let good = Client::new(&auth).fresh(1, T0);
    let register = Request { method: b"REGISTER", ..request(1, T0) };
    assert_eq!(check(&auth, &register, &good, &mut ledger()), WRONG);
    let bad = Client { password: "Secret", ..Client::new(&auth) }.fresh(1, T0);
    assert_eq!(check(&auth, &request(1, T0), &bad, &mut ledger()), WRONG);
    // A digest over the stand-in for unknown users is no way in.
    let nonce = Client::new(&auth).nonce(1, T0);
    let zero = Question { method: b"INVITE", uri: URI, nonce: nonce.as_bytes(), counted: None };
    let answer = response(&Ha1::Md5([0; 16]), &zero);
    let value = format!(
        "Digest username=\"carol\", realm=\"example.com\", nonce=\"{}\", uri=\"sip:bob@example.com\", response=\"{}\"",
        String::from_utf8_lossy(zero.nonce),
        String::from_utf8_lossy(answer.as_bytes()),
    );
    assert_eq!(check(&auth, &request(1, T0), &value, &mut ledger()), WRONG);
}

#[test]
fn strangers_cannot_tell_who_exists() {
    let auth = authenticator(Config::default());
    let mut books = [ledger(), ledger()];
    for round in 0..20 {
        let now = T0 + Duration::from_millis(round * 700);
        let known = Client { password: "no", ..Client::new(&auth) }.fresh(1, now);
        let unknown = Client { password: "no", user: "carol", ..Client::new(&auth) }.fresh(1, now);
        let answers = [
            check(&auth, &request(1, now), &known, &mut books[0]),
            check(&auth, &request(1, now), &unknown, &mut books[1]),
        ];
        assert_eq!(answers[0], answers[1]);
        assert!(!matches!(answers[0], Decision::Accepted { .. }));
    }
}

#[test]
fn stale_is_said_only_to_those_who_know_the_password() {
    let auth = authenticator(Config::default());
    let later = T0 + Duration::from_secs(301);
    let right = Client::new(&auth).fresh(1, T0);
    let wrong = Client { password: "no", ..Client::new(&auth) }.fresh(1, T0);
    let mut book = ledger();
    assert_eq!(
        check(&auth, &request(1, T0 + Duration::from_secs(300)), &right, &mut ledger()),
        accepted("alice")
    );
    assert_eq!(check(&auth, &request(1, later), &right, &mut book), STALE);
    assert_eq!(check(&auth, &request(1, later), &wrong, &mut book), WRONG);
    // Nobody hoards nonces for days.
    let days = T0 + Duration::from_secs(2 * 86_400);
    let hoarded = auth.check(&request(1, days), [right.as_bytes()], &mut nobody_asks, &mut book);
    assert_eq!(hoarded, PLAIN);
    // A nonce of the life before, with the time starting again from zero.
    let reborn = Authenticator::new(&Secret { key: [7; 16], epoch: 4 }, Config::default());
    assert_eq!(check(&reborn, &request(1, Time::ZERO), &right, &mut book), STALE);
    // Nobody knows how old it is, so it says nothing for another network: one who was behind somebody's
    // address once would charge his guesses to it for ever.
    assert_eq!(reborn.check(&request(2, Time::ZERO), [wrong.as_bytes()], &mut nobody_asks, &mut book), PLAIN);
    // A clock that jumped back makes no nonce invalid; workers' clocks differ a little.
    assert_eq!(check(&auth, &request(1, Time::from_secs(990)), &right, &mut book), accepted("alice"));
}

#[test]
fn a_nonce_is_used_on_any_worker_and_a_replay_is_stale_on_all() {
    let auth = authenticator(Config::default());
    let mut client = Client::new(&auth);
    let nonce = client.nonce(1, T0);
    let mut book = ledger();
    for (nc, want) in [
        (1, accepted("alice")),
        (1, STALE),
        (3, accepted("alice")),
        (2, accepted("alice")),
        (3, STALE),
        (500, accepted("alice")),
        (436, STALE),
    ] {
        assert_eq!(check(&auth, &request(1, T0), &client.answer(&nonce, nc), &mut book), want, "{nc}");
    }
    // Another user of the same gateway counts for himself.
    let bob = Client { user: "bob", ..client };
    assert_eq!(check(&auth, &request(1, T0), &bob.answer(&nonce, 1), &mut book), accepted("bob"));
}

#[test]
fn without_qop_a_nonce_is_good_once_or_not_at_all() {
    let auth = authenticator(Config::default());
    let value = Client { qop: false, ..Client::new(&auth) }.fresh(1, T0);
    let mut book = ledger();
    assert_eq!(check(&auth, &request(1, T0), &value, &mut book), accepted("alice"));
    assert_eq!(check(&auth, &request(1, T0), &value, &mut book), STALE);
    let strict = authenticator(Config { require_qop: true, ..Config::default() });
    assert_eq!(refuse(&strict, &value), PLAIN);
}

#[test]
fn wrong_answers_leave_no_mark_in_the_nonce_memory() {
    let auth = authenticator(Config::default());
    let value = Client { password: "no", ..Client::new(&auth) }.fresh(1, T0);
    let mut book = ledger();
    assert_eq!(check(&auth, &request(1, T0), &value, &mut book), WRONG);
    assert!(book.0.iter().all(|shard| shard.nonces.is_empty()));
}

#[test]
fn of_many_credentials_the_first_eight_count_and_the_newest_nonce_wins() {
    let auth = authenticator(Config::default());
    let mut client = Client::new(&auth);
    let good = client.fresh(1, T0);
    let old = Client { password: "no", ..Client::new(&auth) }.fresh(1, Time::from_secs(990));
    let other = good.replace("realm=\"example.com\"", "realm=\"example.net\"");
    let judge = |values: &[&str]| {
        auth.check(&request(1, T0), values.iter().map(|v| v.as_bytes()), &mut accounts, &mut ledger())
    };
    assert_eq!(judge(&[&old, &good]), accepted("alice"));
    assert_eq!(judge(&[&good, &old]), accepted("alice"));
    assert_eq!(judge(&["Digest \"", &good]), accepted("alice"));
    assert!(matches!(judge(&["Digest \"", &other]), Decision::Bad(_)));
    let mut twenty = [other.as_str(); 20];
    assert_eq!(judge(&twenty), PLAIN);
    twenty[8] = &good;
    assert_eq!(judge(&twenty), PLAIN);
    twenty[7] = &good;
    assert_eq!(judge(&twenty), accepted("alice"));
}

/// Guesses at `user` from `source` until told to wait or `most` times; how many were judged.
fn guess(auth: &Authenticator, user: &str, source: u8, now: Time, most: u32, book: &mut Striped) -> u32 {
    let mut client = Client { user, password: "no", ..Client::new(auth) };
    for judged in 0..most {
        let value = client.fresh(source, now);
        match check(auth, &request(source, now), &value, book) {
            Decision::Wrong { .. } => {}
            Decision::Throttled { retry_after } if retry_after > 0 => return judged,
            other => panic!("{other:?}"),
        }
    }
    most
}

#[test]
fn a_guesser_waits_ever_longer_and_the_account_stays_open_elsewhere() {
    let auth = authenticator(Config::default());
    let mut book = ledger();
    assert_eq!(guess(&auth, "alice", 1, T0, 100, &mut book), 6);
    // Waiting allows one more, then twice the time.
    let mut now = T0;
    for seconds in [1, 2, 4, 8] {
        let value = Client::new(&auth).fresh(1, now);
        let wait = check(&auth, &request(1, now), &value, &mut book);
        assert_eq!(wait, Decision::Throttled { retry_after: seconds });
        now = now + Duration::from_secs(seconds.into());
        assert_eq!(guess(&auth, "alice", 1, now, 100, &mut book), 1);
    }
    // Other spellings of the name are the same account here.
    assert_eq!(guess(&auth, "ALICE@example.com", 1, now, 100, &mut book), 0);
    let value = Client::new(&auth).fresh(2, now);
    assert_eq!(check(&auth, &request(2, now), &value, &mut book), accepted("alice"));
}

#[test]
fn the_right_password_clears_the_pair() {
    let auth = authenticator(Config::default());
    let (mut book, mut client) = (ledger(), Client::new(&auth));
    for _ in 0..3 {
        assert_eq!(guess(&auth, "alice", 1, T0, 5, &mut book), 5);
        let value = client.fresh(1, T0);
        assert_eq!(check(&auth, &request(1, T0), &value, &mut book), accepted("alice"));
    }
}

/// alice, in all spellings, with one password.
struct Spelt(&'static [u8]);

impl Lookup for Spelt {
    fn ha1(&mut self, user: &Name, algorithm: Algorithm) -> Option<Ha1> {
        user.user().eq_ignore_ascii_case(b"alice").then(|| ha1(algorithm, user.as_bytes(), REALM, self.0))
    }

    fn mark(&mut self, user: &Name) -> u32 {
        assert_eq!(user.user(), b"alice", "one spelling for all");
        Credentials::from_password(b"alice", REALM, REALM, self.0, &[Algorithm::Md5]).mark()
    }
}

#[test]
fn another_password_ends_the_wait_for_wrong_answers_to_the_one_before() {
    let auth = authenticator(all_algorithms());
    let mut book = ledger();
    let mut judge = |user, algorithm, password, account: &mut Spelt| {
        let mut client = Client { user, algorithm, password, ..Client::new(&auth) };
        let value = client.fresh(1, T0);
        auth.check(&request(1, T0), [value.as_bytes()], account, &mut book)
    };
    let (mut before, mut after) = (Spelt(b"typed wrongly"), Spelt(b"secret"));
    // Neither another spelling nor another algorithm begins anew.
    let turns = [("alice", Algorithm::Md5), ("ALICE@example.com", Algorithm::Sha256)];
    let judged = turns
        .into_iter()
        .cycle()
        .take(20)
        .filter(|&(user, algorithm)| judge(user, algorithm, "secret", &mut before).is_wrong());
    assert_eq!(judged.count(), 6);
    // The account is mended: its owner is let in, and a guesser begins anew.
    assert_eq!(judge("alice", Algorithm::Md5, "secret", &mut after), accepted("alice"));
    let judged = (0..20).filter(|_| judge("alice", Algorithm::Md5, "no", &mut after).is_wrong());
    assert_eq!(judged.count(), 6);
    assert_eq!(judge("alice", Algorithm::Md5, "secret", &mut after), Decision::Throttled { retry_after: 1 });
}

#[test]
fn a_forged_source_charges_the_network_that_took_the_challenge() {
    let auth = authenticator(Config::default());
    let mut book = ledger();
    let mut guesser = Client { password: "no", ..Client::new(&auth) };
    // Challenges fetched at .66, guesses sent with the victim's address .1.
    for _ in 0..100 {
        let value = guesser.fresh(66, T0);
        let _ = check(&auth, &request(1, T0), &value, &mut book);
    }
    let value = Client::new(&auth).fresh(1, T0);
    assert_eq!(check(&auth, &request(1, T0), &value, &mut book), accepted("alice"));
    assert_eq!(guess(&auth, "alice", 66, T0, 1, &mut book), 0);
    // Nor does the victim's address lend the guesser what is not counted at home there.
    struct Everywhere;
    impl Lookup for Everywhere {
        fn ha1(&mut self, user: &Name, algorithm: Algorithm) -> Option<Ha1> {
            accounts(user, algorithm)
        }
        fn familiar(&mut self, _: &Name, source: IpAddr) -> bool {
            source == address(1)
        }
    }
    for user in 0..60 {
        let user = format!("user{user}");
        let value = Client { user: &user, ..Client::new(&auth) }.fresh(66, T0);
        assert!(auth.check(&request(1, T0), [value.as_bytes()], &mut Everywhere, &mut book).is_wrong());
    }
    let bob = Client { user: "bob", password: "no", ..Client::new(&auth) }.fresh(66, T0);
    let Decision::Wrong { retry_after } = check(&auth, &request(66, T0), &bob, &mut book) else { panic!() };
    assert_eq!(retry_after, 17, "six for alice, sixty others and this one, less fifty");
}

#[test]
fn a_hash_of_another_algorithm_is_no_hash() {
    let auth = authenticator(all_algorithms());
    let value = Client { algorithm: Algorithm::Sha512_256, ..Client::new(&auth) }.fresh(1, T0);
    let value = value.replace("SHA-512-256", "SHA-256");
    let mut careless = |name: &Name, _: Algorithm| accounts(name, Algorithm::Sha512_256);
    assert_eq!(auth.check(&request(1, T0), [value.as_bytes()], &mut careless, &mut ledger()), WRONG);
}

#[test]
fn guesses_from_many_networks_get_one_try_each_and_the_owner_gets_in() {
    let auth = authenticator(Config::default());
    let mut book = ledger();
    for source in 10..14 {
        assert_eq!(guess(&auth, "alice", source, T0, 5, &mut book), 5);
    }
    for source in 20..40 {
        assert_eq!(guess(&auth, "alice", source, T0, 5, &mut book), 1, "{source}");
    }
    let value = Client::new(&auth).fresh(1, T0);
    assert_eq!(check(&auth, &request(1, T0), &value, &mut book), accepted("alice"));
    // At home a slip of the finger costs no more than on other days.
    let slip = Client { password: "no", ..Client::new(&auth) }.fresh(2, T0);
    let mut home = AtHome(address(2));
    assert_eq!(auth.check(&request(2, T0), [slip.as_bytes()], &mut home, &mut book), WRONG);
    let value = Client::new(&auth).fresh(2, T0);
    assert_eq!(auth.check(&request(2, T0), [value.as_bytes()], &mut home, &mut book), accepted("alice"));
    // Another account is not touched.
    assert_eq!(guess(&auth, "bob", 50, T0, 5, &mut book), 5);
}

#[test]
fn debug_shows_no_secret() {
    let auth = authenticator(Config::default());
    let secret = Secret { key: [0x5a; 16], epoch: 1 };
    let shown = format!("{auth:?} {secret:?} {:?}", accepted("alice"));
    assert!(!shown.contains("90, 90") && !shown.contains("alice") && !shown.contains("key: ["), "{shown}");
}

proptest! {
    /// Any bytes get an answer that lets nobody in.
    #[test]
    fn total(value in proptest::collection::vec(any::<u8>(), 0..200)) {
        let auth = authenticator(Config::default());
        let got = auth.check(&request(1, T0), [&value[..]], &mut accounts, &mut ledger());
        let is_refusal = matches!(got, Decision::Bad(_) | Decision::Challenge { stale: false });
        prop_assert!(is_refusal);
    }

    /// Damaged credentials are refused, or they still say the same.
    #[test]
    fn damage(at in 0usize..300, to: u8, cut in any::<bool>()) {
        let auth = authenticator(Config::default());
        let mut value = Client::new(&auth).fresh(1, T0).into_bytes();
        let at = at % value.len();
        if cut {
            value.truncate(at);
        } else {
            value[at] = to;
        }
        let got = auth.check(&request(1, T0), [&value[..]], &mut accounts, &mut ledger());
        if let Decision::Accepted { user } = got {
            prop_assert_eq!(user.as_bytes(), b"alice");
        }
    }
}

#[test]
fn what_is_at_hand_changes_no_decision() {
    let [plain, other, _, _] = ledger().0;
    let (mut plain, mut quick) = (plain, LocalLedger { recent: Some(Recent::new()), ..other });
    let auth = authenticator(all_algorithms());
    let mut serial = NonceSerial::new(0);
    let mut seen = Vec::new();
    for (algorithm, qop) in [(Algorithm::Md5, true), (Algorithm::Md5, false), (Algorithm::Sha256, true)] {
        for (noted, password, later) in [
            (true, "secret", 0),
            (false, "secret", 0),
            (true, "wrong", 0),
            (true, "secret", 400),
            (true, "secret", 0),
        ] {
            let client = Client { algorithm, qop, password, ..Client::new(&auth) };
            let minted =
                auth.challenge(Status::Unauthorized, &request(1, T0), false, serial.next(), &mut Vec::new());
            if noted {
                quick.note(REALM, minted);
            }
            let value = client.answer(std::str::from_utf8(&minted.text).expect("text"), 1);
            // The second is a replay, the third has a nonce that is not ours, the fourth is asked by another
            // realm.
            let damaged = value.replacen("nonce=\"", "nonce=\"-", 1);
            let foreign = Request { realm: b"example.net", ..request(1, T0 + Duration::from_secs(later)) };
            for (value, request) in [
                (&value, request(1, T0 + Duration::from_secs(later))),
                (&value, request(1, T0 + Duration::from_secs(later))),
                (&damaged, request(1, T0)),
                (&value, foreign),
            ] {
                let decision = check(&auth, &request, value, &mut plain);
                assert_eq!(check(&auth, &request, value, &mut quick), decision, "{value}");
                seen.push(decision);
            }
        }
    }
    for wanted in [accepted("alice"), PLAIN, STALE, WRONG] {
        assert!(seen.contains(&wanted), "{wanted:?}");
    }
}
