//! Many accounts behind one address, one of them with a wrong password.

use super::*;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The address of the office.
const OFFICE: u8 = 1;

/// Accounts 0 to 399 and their password; those named are registered from a port of the office.
#[derive(Default)]
struct Phones {
    ports: BTreeMap<String, u16>,
}

impl Lookup for Phones {
    fn ha1(&mut self, user: &Name, algorithm: Algorithm) -> Option<Ha1> {
        let number: u32 = std::str::from_utf8(user.user()).ok()?.parse().ok()?;
        (number < 400).then(|| ha1(algorithm, user.as_bytes(), REALM, b"secret"))
    }

    fn familiar(&mut self, user: &Name, source: IpAddr) -> bool {
        let user = std::str::from_utf8(user.user()).expect("a number");
        source == address(OFFICE) && self.ports.contains_key(user)
    }

    fn registered(&mut self, user: &Name, peer: SocketAddr) -> bool {
        let user = std::str::from_utf8(user.user()).expect("a number");
        peer.ip() == address(OFFICE) && self.ports.get(user) == Some(&peer.port())
    }
}

/// A server and what it remembers.
struct Office {
    auth: Authenticator,
    book: LocalLedger,
    phones: Phones,
    serial: NonceSerial,
}

impl Office {
    fn new() -> Office {
        let book = LocalLedger {
            nonces: NonceCounts::new(1 << 16, Config::default().lifetime),
            backoff: Backoff::new(1 << 14, BackoffRules::default()),
            recent: None,
        };
        let (auth, serial) = (authenticator(Config::default()), NonceSerial::new(0));
        Office { auth, book, phones: Phones::default(), serial }
    }

    /// A try of `user` from a port of the office.
    fn attempt(&mut self, user: &str, password: &str, port: u16, now: Time) -> Decision {
        let serial = self.serial;
        let mut client = Client { user, password, serial, ..Client::new(&self.auth) };
        let value = client.fresh(OFFICE, now);
        self.serial = client.serial;
        let peer = Some(SocketAddr::new(address(OFFICE), port));
        let request = Request { peer, ..request(OFFICE, now) };
        self.auth.check(&request, [value.as_bytes()], &mut self.phones, &mut self.book)
    }

    /// Goes round `names` ten times a second for `seconds`; returns how many guesses were judged in each
    /// second.
    fn guess(&mut self, names: &[String], seconds: u64) -> Vec<u32> {
        let mut round = names.iter().cycle();
        let mut second = |at: u64| {
            let now = T0 + Duration::from_secs(at);
            let judged = (0..10)
                .filter(|_| self.attempt(round.next().expect("names"), "no", 9, now).is_wrong())
                .count();
            u32::try_from(judged).expect("a few")
        };
        (0..seconds).map(&mut second).collect()
    }
}

fn names(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

#[test]
fn office_is_not_slowed_when_one_phone_has_a_wrong_password() {
    let mut office = Office::new();
    let mut judged = 0;
    for second in 0..600u64 {
        let now = T0 + Duration::from_secs(second);
        judged += u32::from(office.attempt("0", "no", 7, now).is_wrong());
        // Each of the others registers every hundred seconds, two in a second.
        for other in [second * 2 % 200, second * 2 % 200 + 1].iter().filter(|n| **n != 0) {
            let got = office.attempt(&other.to_string(), "secret", 8, now);
            assert_eq!(got, accepted(&other.to_string()), "at {second} s");
        }
    }
    assert!((6..20).contains(&judged), "{judged}");
}

#[test]
fn right_answer_passes_where_others_answered_wrongly() {
    let mut office = Office::new();
    let judged: u32 = office.guess(&names(1_000..2_000), 100).iter().sum();
    assert_eq!(judged, 1_000, "each name has one try");
    // Neither registered there nor seen there before.
    let now = T0 + Duration::from_secs(100);
    for user in names(0..200) {
        assert_eq!(office.attempt(&user, "secret", 8, now), accepted(&user));
    }
}

#[test]
fn guesser_has_one_guess_a_second_after_a_try_for_each_name() {
    let mut office = Office::new();
    // Half of them are no accounts, and nothing tells which.
    let judged = office.guess(&names(0..1_000), 1_700);
    let (first, later) = judged.split_at(100);
    assert_eq!(first.iter().sum::<u32>(), 1_000);
    // One for each second since the start, and the fifty that cost nothing.
    let mut total = 0;
    for (second, judged) in (101..).zip(later) {
        total += judged;
        assert!(total <= second + 50, "{total} after {second} s");
    }
    assert!(total > 1_200, "{total}");
}

#[test]
fn wrong_answer_among_many_is_told_to_wait_at_once() {
    let mut office = Office::new();
    for (n, name) in names(1_000..1_200).iter().enumerate() {
        let retry_after = u32::try_from(n + 1).expect("small").saturating_sub(50);
        assert_eq!(office.attempt(name, "no", 9, T0), Decision::Wrong { retry_after }, "{n}");
    }
    assert_eq!(office.attempt("1199", "no", 9, T0), Decision::Throttled { retry_after: 150 });
}

#[test]
fn wrong_answers_of_accounts_at_home_do_not_count_for_the_source() {
    let mut office = Office::new();
    office.phones.ports.extend(names(0..100).into_iter().map(|user| (user, 8)));
    for user in names(0..100) {
        assert_eq!(office.attempt(&user, "no", 9, T0), WRONG);
    }
    assert_eq!(office.attempt("1000", "no", 9, T0), WRONG, "the first that counts");
    // Whoever was right there while there were wrong answers is at home too.
    assert_eq!(office.attempt("300", "secret", 8, T0), accepted("300"));
    for name in names(1_000..1_100) {
        office.attempt(&name, "no", 9, T0);
    }
    assert_eq!(office.attempt("300", "no", 8, T0), WRONG);
    assert!(matches!(office.attempt("301", "no", 8, T0), Decision::Wrong { retry_after: 50.. }));
}

#[test]
fn registered_phone_is_let_in_while_its_own_account_is_guessed_at() {
    let mut office = Office::new();
    office.phones.ports.insert("5".to_owned(), 5_005);
    while office.attempt("5", "no", 9, T0).is_wrong() {}
    assert_eq!(office.attempt("5", "secret", 5_005, T0), accepted("5"));
    // The guesser is held off as before, and from that port as well after as many wrong answers.
    assert!(matches!(office.attempt("5", "secret", 9, T0), Decision::Throttled { .. }));
    let judged = (0..20).filter(|_| office.attempt("5", "no", 5_005, T0).is_wrong()).count();
    assert_eq!(judged, 6);
}

#[test]
fn source_with_the_most_wrong_answers_lets_those_at_home_in() {
    let mut office = Office::new();
    office.phones.ports.insert("5".to_owned(), 5_005);
    let guesses = names(1_000..9_000);
    let judged = guesses.iter().filter(|name| office.attempt(name, "no", 9, T0).is_wrong()).count();
    assert_eq!(judged, 3_650, "each name has one try, and no more than are counted");
    assert_eq!(office.attempt("5", "secret", 5_005, T0), accepted("5"));
    assert_eq!(office.attempt("6", "secret", 6_006, T0), Decision::Throttled { retry_after: CROWDED });
    // A second later there is room for one, and who was right once is at home.
    let now = T0 + Duration::from_secs(1);
    assert_eq!(office.attempt("6", "secret", 6_006, now), accepted("6"));
    assert!(office.attempt("9000", "no", 9, now).is_wrong());
    assert_eq!(office.attempt("7", "secret", 7_007, now), Decision::Throttled { retry_after: CROWDED });
    assert_eq!(office.attempt("6", "secret", 6_006, now), accepted("6"));
}
