//! The promise of a 200 to a REGISTER: the server is killed at random instants under registrations and
//! removals, and no change that was answered with 200 is lost.
//!
//! Random, from a seed that is said. `STROWGER_KILL_SEED` repeats it. `STROWGER_KILL_INSTANTS` [default: 20]
//! and `STROWGER_KILL_RATE` [default: 2,000 requests a second, or what the machine carries] set the size.

use live::{Link, Msg, Random, Req, Server, Setup, Via, seed, setting};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Phones over UDP, each with one request at a time and users of its own, and one over TCP.
const PHONES: usize = 7;
/// Users of a phone.
const USERS: usize = 20;

/// A user with one contact: the version that is bound, or none.
struct User {
    name: String,
    cseq: u32,
    /// As the last answer said.
    answered: Option<u32>,
    /// As a request says that has no answer.
    asked: Option<Option<u32>>,
}

impl User {
    fn request(&mut self, link: &Link, lines: &[String]) -> Req {
        let mut req = Req::new("REGISTER", "sip:example.com", link).user(&self.name);
        req.to = format!("<sip:{}@example.com>", self.name);
        req.call_id = format!("call-of-{}", self.name);
        self.cseq += 1;
        req.cseq = self.cseq;
        lines.iter().fold(req, |req, line| req.with(line))
    }

    /// Binds another version, or removes what is bound.
    fn change(&mut self, link: &Link, random: &mut Random) -> Req {
        let wanted = (self.answered.is_none() || random.below(3) != 0).then_some(self.cseq + 1);
        self.asked = Some(wanted);
        let contact = format!("Contact: <sip:{}@192.0.2.1:5070>", self.name);
        let line = match wanted {
            Some(version) => format!("{contact};v={version};expires=600"),
            None => format!("{contact};expires=0"),
        };
        self.request(link, &[line])
    }
}

fn bound(answer: &Msg) -> Option<u32> {
    let contact = answer.header("Contact")?;
    contact.split_once(";v=").and_then(|(_, rest)| rest.split(';').next()?.parse().ok())
}

/// Sends changes, one after the other, until `stop`. Answers that came before the end count.
fn phone(
    users: &mut [User],
    link: &mut Link,
    mut random: Random,
    pause: Duration,
    stop: &AtomicBool,
) -> usize {
    let (mut due, mut count) = (Instant::now(), 0);
    while !stop.load(Ordering::Acquire) {
        let chosen = random.below(users.len() as u64) as usize;
        let user = users.get_mut(chosen).unwrap();
        let req = user.change(link, &mut random);
        link.send(&req.bytes());
        let Some(answer) = link.response_within(&req, Duration::from_millis(500)) else {
            // Killed before its answer, or a busy machine; nothing is known of this user then.
            while !stop.load(Ordering::Acquire) && user.asked.is_some() {
                settle(user, link.response_within(&req, Duration::from_millis(50)));
                std::thread::sleep(Duration::from_millis(5));
            }
            continue;
        };
        settle(user, Some(answer));
        count += 1;
        due += pause;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    count
}

fn settle(user: &mut User, answer: Option<Msg>) {
    let Some(answer) = answer else { return };
    assert_eq!(answer.status(), Some(200), "{}", user.name);
    let asked = user.asked.take().unwrap();
    assert_eq!(bound(&answer), asked, "{}", user.name);
    user.answered = asked;
}

/// What is bound after a restart is what was answered, or what the last request without an answer asked for.
fn check(server: &Server, users: &mut [User], what: &str) {
    let mut link = server.link(Via::Tcp);
    let mut lost = Vec::new();
    for user in users {
        let req = user.request(&link, &[]);
        let found = bound(&link.ask(&req));
        if found != user.answered && Some(found) != user.asked {
            lost.push(format!(
                "{} has {found:?}, answered {:?}, asked {:?}",
                user.name, user.answered, user.asked
            ));
        }
        (user.answered, user.asked) = (found, None);
    }
    assert!(lost.is_empty(), "{what}: {} changes lost: {lost:#?}\n{}", lost.len(), server.log_text());
}

#[test]
fn no_answered_change_is_lost_by_kill_9() {
    let seed = seed("STROWGER_KILL_SEED");
    let pause = Duration::from_secs(PHONES as u64) / setting("STROWGER_KILL_RATE", 2_000) as u32;
    println!("STROWGER_KILL_SEED={seed}");
    let mut random = Random::new(seed);
    let user = |n| User { name: format!("user{n}"), cseq: 0, answered: None, asked: None };
    let mut users: Vec<User> = (0..PHONES * USERS).map(user).collect();
    let mut server = Setup::open().workers(2).start();
    let mut links: Vec<Link> = (1..PHONES).map(|_| server.link(Via::Udp)).collect();
    let mut requests = 0;
    for instant in 0..setting("STROWGER_KILL_INSTANTS", 20) {
        let stop = AtomicBool::new(false);
        let mut tcp = server.link(Via::Tcp);
        std::thread::scope(|scope| {
            let links = links.iter_mut().chain([&mut tcp]);
            let phones: Vec<_> = users
                .chunks_mut(USERS)
                .zip(links)
                .map(|(users, link)| {
                    let (random, stop) = (random.fork(), &stop);
                    scope.spawn(move || phone(users, link, random, pause, stop))
                })
                .collect();
            std::thread::sleep(Duration::from_micros(20_000 + random.below(600_000)));
            // Whoever waits for an answer stops there.
            server.kill();
            stop.store(true, Ordering::Release);
            requests += phones.into_iter().map(|phone| phone.join().expect("a phone")).sum::<usize>();
        });
        server.restart();
        check(&server, &mut users, &format!("seed {seed}, instant {instant}"));
    }
    println!("{requests} changes answered");
    assert!(requests != 0);
}
