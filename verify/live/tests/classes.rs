//! Limits against fraud, as an operator sees them: classes of callers, and how often strangers may call.

use live::{
    Credentials, Link, Listener, Msg, PATIENCE, Req, Server, Setup, Via, eventually, file, fresh_ip, run,
    text,
};

const CLASSES: &str = "[[class]]\nname = \"guest\"\nallow = [\"+49\", \"+44\"]\ndeny = [\"+449\", \"+49900\"]\n\
    channels = 1\n[[class]]\nname = \"night\"\nallow = \"+49\"\ndeny = \"+49900\"\ntimes = \"daily 00:00-24:00\"\n\
    time_zone = \"UTC\"\ncalls_per_day = 2\n";

fn config(carrier: &Listener, more: &str) -> String {
    format!(
        "{CLASSES}[[domain]]\nname = \"example.com\"\nclass = \"guest\"\ncountry = \"49\"\n[[trunk]]\nname = \"carrier\"\n\
         targets = [\"sip:{}\"]\nprefixes = [\"+\"]\n{more}",
        carrier.udp.local()
    )
}

fn start() -> (Server, Listener) {
    let mut carrier = Listener::open((fresh_ip(), 5060).into());
    let setup = Setup::new().user("ann", "secret").user("ben", "secret");
    let server = setup.config(&config(&carrier, "")).start();
    carrier.udp.set_server(server.sip());
    (server, carrier)
}

/// Sends an INVITE of a user with its password; answers with the request that was sent.
fn dial(caller: &mut Link, user: &str, number: &str) -> Req {
    let invite = Req::invite(&format!("sip:{number}@example.com"), caller).user(user);
    let challenged = caller.ask(&invite);
    assert_eq!(challenged.status(), Some(407));
    let who = Credentials::new(user, "secret");
    let again = invite.again(caller, &live::answer(&challenged, &who, "INVITE", &invite.uri));
    caller.send(&again.bytes());
    again
}

/// The answer to a call that does not leave.
fn refused(server: &Server, user: &str, number: &str) -> Msg {
    let mut caller = server.link(Via::Udp);
    let invite = dial(&mut caller, user, number);
    let answer = caller.response(&invite);
    assert_eq!(answer.status(), Some(403), "{number}");
    answer
}

/// A call that leaves: the carrier answers it as busy.
fn leaves(server: &Server, carrier: &mut Listener, user: &str, number: &str) -> bool {
    let mut caller = server.link(Via::Udp);
    let invite = dial(&mut caller, user, number);
    loop {
        let Some((message, link)) = carrier.request_within(PATIENCE) else { return false };
        if message.method() == "INVITE" && message.header("Call-ID") == Some(&invite.call_id) {
            link.send(&message.reply(486, "gw", &[]));
            return caller.response(&invite).status() == Some(486);
        }
    }
}

#[test]
fn call_of_a_cracked_phone_is_refused_and_explained() {
    let (server, mut carrier) = start();
    let answer = refused(&server, "ann", "+44900123");
    let warning = answer.header("Warning").unwrap_or_default().to_owned();
    assert_eq!(warning, "399 proxy \"class guest: numbers that begin with +449 are denied\"");
    refused(&server, "ann", "0044900123");
    refused(&server, "ann", "+1555123");
    assert_eq!(server.metric("strowger_class_refused_total{rule=\"number\"}"), 3);
    let shown = text(&server.ctl(&["refused", "--about", "ann"]));
    assert!(shown.contains("class guest: numbers that begin with +449 are denied"), "{shown}");
    assert!(shown.contains("ann@example.com -> +44900123"), "{shown}");
    assert!(server.log_has("class_refused"), "{}", server.log_text());
    assert!(leaves(&server, &mut carrier, "ann", "030123456"));
}

#[test]
fn class_of_a_user_counts_while_the_server_runs() {
    let (server, mut carrier) = start();
    let data = server.data().display().to_string();
    let class =
        |args: &[&str]| run([&["user", "class", "ben@example.com"], args, &["--data-dir", &data]].concat());
    assert!(class(&["night"]).status.success());
    assert!(text(&class(&[])).contains("night"));
    eventually("the class of ben", || {
        let answer = refused(&server, "ben", "+1555123");
        answer.header("Warning").unwrap_or_default().contains("class night").then_some(())
    });
    assert!(leaves(&server, &mut carrier, "ben", "+4930123"));
    assert!(leaves(&server, &mut carrier, "ben", "+4930123"));
    let warning = refused(&server, "ben", "+4930123").header("Warning").unwrap_or_default().to_owned();
    assert!(warning.contains("the limit of calls a day is 2"), "{warning}");
    // A reload goes on counting.
    assert!(server.ctl(&["reload"]).status.success(), "{}", server.log_text());
    refused(&server, "ben", "+4930123");
    let unknown = run(["user", "class", "nobody@example.com", "night", "--data-dir", &data]);
    assert!(!unknown.status.success(), "{}", text(&unknown));
}

#[test]
fn second_call_at_a_time_is_refused_until_the_first_ends() {
    let (server, mut carrier) = start();
    let mut caller = server.link(Via::Udp);
    let first = dial(&mut caller, "ann", "+4930123");
    let (message, _) = carrier.request_within(PATIENCE).expect("the carrier is called");
    let warning = refused(&server, "ann", "+4930124").header("Warning").unwrap_or_default().to_owned();
    assert!(warning.contains("the limit of calls at a time is 1"), "{warning}");
    carrier.udp.send(&message.reply(486, "gw", &[]));
    assert_eq!(caller.response(&first).status(), Some(486));
    assert!(leaves(&server, &mut carrier, "ann", "+4930125"));
}

#[test]
fn strangers_are_held_by_their_rate() {
    let config = "[proxy]\nstrangers = \"rate\"\nstranger_calls = 2\n";
    let server = Setup::new().user("ann", "secret").config(config).start();
    let mut stranger = server.link(Via::Udp);
    let mut answers = Vec::new();
    for _ in 0..3 {
        let mut text = Req::new("MESSAGE", "sip:ann@example.com", &stranger);
        text.from = text.from.replace("example.com", "elsewhere.example");
        let answer = stranger.ask(&text);
        answers.push((answer.status().unwrap_or(0), answer.header("Retry-After").is_some()));
    }
    assert_eq!(answers, [(480, false), (480, false), (503, true)]);
    assert_eq!(server.metric("strowger_strangers_held_total{limit=\"network\"}"), 1);
}

#[test]
fn check_warns_of_classes_that_do_not_limit() {
    let text_of = |config: &str| {
        let path = file(env!("CARGO_TARGET_TMPDIR"), "classes.toml", config);
        text(&run([std::ffi::OsStr::new("check"), path.as_os_str()]))
    };
    let base = "domains = [\"example.com\"]\n";
    for (config, said) in [
        ("[[class]]\nname = \"c\"\n", "lets its callers call every number without limit"),
        ("[[class]]\nname = \"c\"\nallow = \"+44\"\n", "class \"c\" allows +449 (premium)"),
        (
            "[[class]]\nname = \"c\"\nallow = \"+41\"\ndeny = \"+41900\"\n",
            "users of \"example.com\" without a class",
        ),
        ("[[class]]\nname = \"c\"\ntrunks = \"none\"\n", "there is no trunk \"none\""),
        ("[[domain]]\nname = \"example.com\"\nclass = \"c\"\n", "there is no class \"c\""),
        (
            "[proxy]\nrecord_route = false\n[[class]]\nname = \"c\"\nchannels = 1\n",
            "counts calls, but [proxy] has",
        ),
        (
            "[[trunk]]\nname = \"a\"\ntargets = \"sip:192.0.2.1\"\nprefixes = \"1\"\n[[trunk]]\nname = \"b\"\n\
             targets = \"sip:192.0.2.1:5070\"\nprefixes = \"2\"\n",
            "requests from there are taken for those of \"a\"",
        ),
    ] {
        let shown = text_of(&format!("{base}{config}"));
        assert!(shown.contains(said), "{config}\n{shown}");
    }
}

/// A request of a user with its password, with one more header line: status, and the text of Warning.
fn attempt(server: &Server, method: &str, uri: &str, line: &str) -> (u16, String) {
    let mut caller = server.link(Via::Udp);
    let mut request = Req::new(method, uri, &caller).user("ann").contact(&caller);
    if !line.is_empty() {
        request = request.with(line);
    }
    let answer = caller.ask_as(&request, &Credentials::new("ann", "secret"));
    let warning = answer.header("Warning").unwrap_or_default();
    let text = warning.split('"').nth(1).unwrap_or_default();
    (answer.status().unwrap_or(0), text.to_owned())
}

#[test]
fn frauds_are_refused_with_their_reason() {
    let (server, carrier) = start();
    let mut ben = server.link(Via::Udp);
    let register = Req::register("ben", &ben);
    assert_eq!(ben.ask_as(&register, &Credentials::new("ben", "secret")).status(), Some(200));
    let gateway = carrier.udp.local();
    let denied = "class guest: numbers that begin with +449 are denied";
    let unlisted = "class guest: the number begins with none of the allowed prefixes";
    let at_trunk = format!("sip:+44900123@{gateway}");
    let route = format!("Route: <sip:{gateway};lr>");
    for (fraud, method, uri, line, reason) in [
        ("a premium number", "INVITE", "sip:+44900123@example.com", "", denied),
        ("dialled as at home", "INVITE", "sip:0044900123@example.com", "", denied),
        ("with separators", "INVITE", "sip:+44-900-(12).3@example.com", "", denied),
        ("with escapes", "INVITE", "sip:%2B44%39%30%30123@example.com", "", denied),
        ("with two plus signs", "INVITE", "sip:++44900123@example.com", "", denied),
        ("with zeros behind the plus sign", "INVITE", "sip:+0044900123@example.com", "", denied),
        ("with spaces", "INVITE", "sip:+44%20900%20123@example.com", "", denied),
        ("with parameters", "INVITE", "sip:+44900123;ext=1@example.com;user=phone", "", denied),
        ("with the context of another country", "INVITE", "tel:+44900123;phone-context=+49", "", denied),
        ("as a tel: URI", "INVITE", "tel:+44-900-123", "", denied),
        ("in capitals", "INVITE", "SIP:+44900123@EXAMPLE.COM", "", denied),
        ("at the address of the trunk", "INVITE", &at_trunk, "", denied),
        ("by a Route to the trunk", "INVITE", "sip:+44900123@example.com", &route, denied),
        ("as a message", "MESSAGE", "sip:+44900123@example.com", "", denied),
        ("by a transfer", "REFER", "sip:ben@example.com", "Refer-To: <sip:+44900123@example.com>", denied),
        ("a country that is not allowed", "INVITE", "sip:+881612345@example.com", "", unlisted),
        ("a name at another host", "INVITE", "sip:eve@192.0.2.99", "", unlisted),
    ] {
        assert_eq!(attempt(&server, method, uri, line), (403, reason.to_owned()), "{fraud}: {uri}");
    }
    let shown = text(&server.ctl(&["refused", "--about", "ann@example.com -> ", "--limit", "100"]));
    assert_eq!(shown.matches(denied).count(), 15, "{shown}");
    assert_eq!(shown.matches(unlisted).count(), 2, "{shown}");
    // Another user's name, and a stranger.
    let mut caller = server.link(Via::Udp);
    let forged = Req::new("INVITE", "sip:+4930123@example.com", &caller).user("ben").contact(&caller);
    assert_eq!(caller.ask_as(&forged, &Credentials::new("ann", "secret")).status(), Some(403));
    let mut stranger = Req::new("INVITE", "sip:+4930123@example.com", &caller).contact(&caller);
    stranger.from = stranger.from.replace("example.com", "elsewhere.example");
    assert_eq!(caller.ask(&stranger).status(), Some(403));
}
