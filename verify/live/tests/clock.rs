//! The wall clock is set while the running binary serves: nothing ends early and nothing lives longer.
//!
//! A preloaded library (Debian's `faketime`) shows the process another time of day, which a test moves
//! through a file. Monotonic time stays the real one, as it does on a machine whose clock is set.

use live::{Link, Req, Server, Setup, Via, eventually, fresh_ip, http};
use std::path::PathBuf;

/// The library as the dynamic linker should find it.
fn library() -> PathBuf {
    let mut folders: Vec<PathBuf> = vec!["/usr/lib".into(), "/usr/lib64".into()];
    folders.push(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH).into());
    let found = folders.iter().map(|f| f.join("faketime/libfaketime.so.1")).find(|f| f.exists());
    found.expect("no libfaketime: install faketime, as `verify/setup.sh test` does")
}

/// What moves the clock of one server.
struct Clock(PathBuf);

impl Clock {
    fn new() -> Self {
        let file = format!("strowger-clock-{}-{}", std::process::id(), fresh_ip());
        let clock = Self(std::env::temp_dir().join(file));
        clock.set("+0");
        clock
    }

    /// An offset in the library's words, for example `+1d`. Written whole, since it may be read at any
    /// time.
    fn set(&self, offset: &str) {
        let mut draft = self.0.clone();
        draft.as_mut_os_string().push(".new");
        std::fs::write(&draft, format!("{offset}\n")).unwrap();
        std::fs::rename(&draft, &self.0).unwrap();
    }

    fn setup(&self) -> Setup {
        Setup::open()
            .env("LD_PRELOAD", library().to_str().unwrap())
            .env("FAKETIME_TIMESTAMP_FILE", self.0.to_str().unwrap())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Seconds that the binding of `ann` has left; `None` if there is none.
fn left(server: &Server) -> Option<u64> {
    let body = http(server.admin(), "GET", "/v1/bindings?aor=ann@example.com").body;
    let value = body.split("\"expires_s\":").nth(1)?;
    value.split([',', '}']).next()?.trim().parse().ok()
}

fn registered(server: &Server) -> Link {
    let mut ann = server.link(Via::Udp);
    ann.register("ann");
    written(server);
    ann
}

fn written(server: &Server) {
    eventually("everything is on disk", || {
        http(server.admin(), "GET", "/v1/status").body.contains("\"pending\":0").then_some(())
    });
}

fn reaches(server: &Server, ann: &mut Link, what: &str) {
    let mut caller = server.link(Via::Udp);
    let req = Req::new("MESSAGE", "sip:ann@example.com", &caller);
    caller.send(&req.bytes());
    let received = ann.request("MESSAGE");
    ann.send(&received.reply(200, "a", &[]));
    assert_eq!(caller.response(&req).status(), Some(200), "{what}");
}

/// An hour was granted a few seconds ago.
fn assert_an_hour(server: &Server, what: &str) {
    let left = left(server).unwrap_or_else(|| panic!("{what}: the binding is gone"));
    assert!((3_400..=3_600).contains(&left), "{what}: {left} s are left of an hour");
}

fn jump(offset: &str) {
    let clock = Clock::new();
    let mut server = clock.setup().start();
    let mut ann = registered(&server);
    clock.set(offset);
    eventually("the server notices", || server.log_has("the wall clock was set").then_some(()));
    assert_an_hour(&server, offset);
    reaches(&server, &mut ann, offset);
    // A registration after the jump is like any other.
    let mut ben = server.link(Via::Udp);
    ben.register("ben");
    written(&server);
    // The rows were written anew, so that a restart under the new clock knows them.
    server.restart();
    assert_an_hour(&server, &format!("restart after {offset}"));
    reaches(&server, &mut ann, &format!("restart after {offset}"));
    assert!(http(server.admin(), "GET", "/v1/status").body.contains("\"bindings\":2"), "{offset}");
}

#[test]
fn a_clock_set_forward_ends_no_binding() {
    jump("+1d");
}

#[test]
fn a_clock_set_back_ends_and_lengthens_no_binding() {
    jump("-1d");
}

#[test]
fn time_that_passes_while_the_server_is_down_counts() {
    let clock = Clock::new();
    let mut server = clock.setup().start();
    registered(&server);
    server.kill();
    clock.set("+30m");
    server.restart();
    let left = left(&server).expect("half an hour is left");
    assert!((1_700..=1_800).contains(&left), "{left}");
    server.kill();
    clock.set("+2h");
    server.restart();
    assert!(self::left(&server).is_none(), "a binding outlived its hour");
}

#[test]
fn nonces_and_calls_do_not_mind_a_clock_that_is_set() {
    let clock = Clock::new();
    let server = clock.setup().auth(true).user("ann", "pw").start();
    let who = live::Credentials::new("ann", "pw");
    let mut ann = server.link(Via::Tcp);
    for offset in ["+0", "+1d", "-1d"] {
        clock.set(offset);
        let answer = ann.ask_as(&Req::register("ann", &ann), &who);
        assert_eq!(answer.status(), Some(200), "{offset}");
    }
}
