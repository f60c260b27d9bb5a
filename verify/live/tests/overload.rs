//! More than the server can do: what is refused, what goes first, and how it is told.

use live::{Link, Req, Server, Setup, Via, eventually, unique};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};

/// A server that takes 60 ms of being behind for an overload, so that one sender can overload it.
fn server(more: &str) -> Server {
    Setup::open().workers(1).config(&format!("[overload]\ndelay = \"60ms\"\nretry_after = 7\n{more}")).start()
}

/// Somebody who sends INVITEs to nobody as fast as he can, and reads no answers.
struct Flood {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn begin(server: &Server) -> Flood {
        let ends = Arc::new(AtomicBool::new(false));
        let mut link = server.link(Via::Udp);
        let told = Arc::clone(&ends);
        let thread = spawn(move || {
            while !told.load(Ordering::Relaxed) {
                let req = Req::invite("sip:nobody@example.com", &link);
                link.send(&req.bytes());
            }
        });
        Flood { ends, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn overloaded(server: &Server) -> bool {
    server.metric("strowger_overloaded_workers") > 0
}

fn refused(server: &Server, how: &str) -> u64 {
    server.metric(&format!("strowger_overload_refused_total{{how=\"{how}\"}}"))
}

/// A call that is up.
fn call(server: &Server) -> (Link, Req, live::Msg, Link) {
    let mut bob = server.link(Via::Udp);
    bob.register("bob");
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(200, "b", &[&format!("Contact: <sip:bob@{}>", bob.local())]));
    let answered = caller.expect(&invite, 200);
    caller.send(&invite.in_dialog("ACK", &answered, &caller).bytes());
    bob.request("ACK");
    (caller, invite, answered, bob)
}

#[test]
fn new_calls_are_refused_and_those_under_way_go_on_until_it_is_over() {
    let server = server("");
    let (mut caller, invite, answered, mut bob) = call(&server);
    let flood = Flood::begin(&server);
    eventually("an overload", || overloaded(&server).then_some(()));
    eventually("refusals of both kinds", || {
        (refused(&server, "answered") > 0 && refused(&server, "unanswered") > 0).then_some(())
    });
    eventually("the kernel drops some, or the log says that it cannot", || {
        let cannot = server.log_has("the kernel drops no datagrams");
        (cannot || server.metric("strowger_udp_sieved_total") > 0).then_some(())
    });
    let status = server.ctl(&["status"]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("1 of 1 workers refuse"), "{text}");
    // Sent again as phones do, for the flood fills the socket.
    let bye = invite.in_dialog("BYE", &answered, &caller);
    let received = eventually("the BYE arrives", || {
        caller.send(&bye.bytes());
        bob.find_within(std::time::Duration::from_millis(500), |msg| msg.method() == "BYE")
    });
    eventually("the BYE is answered", || {
        bob.send(&received.reply(200, "", &[]));
        caller
            .response_within(&bye, std::time::Duration::from_millis(500))
            .filter(|r| r.status() == Some(200))
    });
    drop(flood);
    // It lasts until nothing was refused for 17 s.
    std::thread::sleep(std::time::Duration::from_secs(12));
    eventually("the end of the overload", || {
        server.assert_alive("a flood");
        (!overloaded(&server)).then_some(())
    });
    assert!(
        server.log_has("more to do than time") && server.log_has("the overload is over"),
        "{}",
        server.log_text()
    );
    let text = String::from_utf8_lossy(&server.ctl(&["status"]).stdout).into_owned();
    assert!(text.lines().any(|line| line.starts_with("overload") && line.ends_with("none")), "{text}");
    let (..) = call(&server);
}

/// From the very address that the flood comes from, by name and by number.
#[test]
fn emergency_calls_go_first() {
    let help = live::fresh_ip();
    let server = server(&format!("[emergency]\ntargets = [\"sip:{help}\"]\nnumbers = [\"112\"]\n"));
    let mut psap = Link::udp_at((help, 5060).into(), server.sip());
    let flood = Flood::begin(&server);
    eventually("an overload", || overloaded(&server).then_some(()));
    eventually("calls without an answer", || (refused(&server, "unanswered") > 0).then_some(()));
    for number in 0..10 {
        let mut caller = server.link(Via::Udp);
        let invite = Req::invite(["urn:service:sos.police", "sip:112@example.com"][number % 2], &caller);
        // Sent again as phones do, for the flood fills the socket.
        let half = std::time::Duration::from_millis(500);
        let received = eventually("help is called", || {
            caller.send(&invite.bytes());
            psap.find_within(half, |msg| {
                msg.method() == "INVITE" && msg.header("Call-ID") == Some(invite.call_id.as_str())
            })
        });
        eventually("help answers", || {
            psap.send(&received.reply(486, "p", &[]));
            caller.response_within(&invite, half).filter(|r| r.status() == Some(486))
        });
    }
    drop(flood);
}

#[test]
fn switched_off_nothing_is_refused() {
    let server = server("enabled = false\n");
    let flood = Flood::begin(&server);
    let before = server.metric("strowger_requests_received_total{method=\"INVITE\"}");
    eventually("some thousand calls", || {
        let now = server.metric("strowger_requests_received_total{method=\"INVITE\"}");
        (now > before + 5_000).then_some(())
    });
    assert!(!overloaded(&server));
    assert_eq!((refused(&server, "answered"), refused(&server, "unanswered")), (0, 0));
    drop(flood);
    let text = String::from_utf8_lossy(&server.ctl(&["status"]).stdout).into_owned();
    assert!(
        text.lines().any(|line| line.starts_with("overload") && line.ends_with("not looked for")),
        "{text}"
    );
}

#[test]
fn a_trunk_hears_of_our_load_in_its_via() {
    let trunk = live::fresh_ip();
    let config =
        format!("[[trunk]]\nname = \"carrier\"\ntargets = [\"sip:{trunk}\"]\nsources = [\"{trunk}\"]\n");
    let server = Setup::open().workers(1).config(&config).start();
    let mut link = Link::udp_at((trunk, 5060).into(), server.sip());
    let mut req = Req::new("OPTIONS", "sip:example.com", &link);
    req.via += ";oc;oc-algo=\"loss,rate\"";
    let answer = link.ask(&req);
    let via = answer.header("Via").expect("a Via").to_owned();
    assert!(via.contains(";oc=0;oc-algo=\"rate\";oc-validity=0;oc-seq="), "{via}");
    // Nobody else does.
    let mut link = server.link(Via::Udp);
    let mut req = Req::new("OPTIONS", "sip:example.com", &link);
    req.via += &format!(";oc;oc-algo=\"loss\";x={}", unique("x"));
    let answer = link.ask(&req);
    assert!(!answer.header("Via").expect("a Via").contains("oc-validity"));
}
