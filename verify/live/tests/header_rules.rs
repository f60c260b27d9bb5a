//! Header fields that the operator has removed, set and added: at a trunk, at a phone, after a reload, and
//! where `check` refuses them.

use live::{Listener, Msg, PATIENCE, Req, Server, Setup, Via, fresh_ip, run};

/// A server with a trunk at the address of this listener, which has these further keys.
fn config(carrier: &Listener, keys: &str) -> String {
    format!(
        "[auth]\nchallenge = [\"REGISTER\"]\n[[trunk]]\nname = \"carrier\"\ntargets = [\"sip:{}\"]\nprefixes = [\"00\"]\n\
         {keys}\n[[domain]]\nname = \"example.com\"\nremove_headers = \"X-Carrier-*\"\n\
         set_headers = [\"X-Trunk: {{trunk}}\"]\n",
        carrier.udp.local()
    )
}

const KEYS: &str = r#"remove_headers = ["X-Internal", "P-*"]
set_headers = ["X-Caller: \"{display-name}\" <sip:{user}@{domain}>;from={source}"]
add_headers = ["X-Site: {trunk}, {number}"]"#;

fn start(keys: &str) -> (Server, Listener) {
    let mut carrier = Listener::open((fresh_ip(), 5060).into());
    let server = Setup::open().config(&config(&carrier, keys)).start();
    carrier.udp.set_server(server.sip());
    (server, carrier)
}

/// The next request of this method that the carrier gets.
fn at(carrier: &mut Listener, method: &str) -> Msg {
    loop {
        let (message, _) = carrier.request_within(PATIENCE).expect(method);
        if message.method() == method {
            return message;
        }
    }
}

#[test]
fn call_over_a_trunk_has_the_header_fields_of_its_rules() {
    let (server, mut carrier) = start(KEYS);
    let mut caller = server.link(Via::Udp);
    let mut invite = Req::invite("sip:0044123@example.com", &caller).with("X-Internal: 1");
    invite = invite.with("P-Charging-Vector: icid-value=1").with("X-Caller: forged").with("X-Site: south");
    let name = "\"Ann \\\"<sip:ceo@example.com>\\\"\"";
    invite.from = invite.from.replacen("<sip:caller@", &format!("{name} <sip:ann@"), 1);
    caller.send(&invite.bytes());
    let received = at(&mut carrier, "INVITE");
    let who = format!("{name} <sip:ann@example.com>;from={}", caller.local().ip());
    assert_eq!(received.all("X-Caller"), [who.as_str()]);
    assert_eq!(received.all("X-Site"), ["south", "carrier, 0044123"]);
    assert_eq!((received.header("X-Internal"), received.header("P-Charging-Vector")), (None, None));
    let contact = format!("Contact: <sip:gw@{}>", carrier.udp.local());
    carrier.udp.send(&received.reply(200, "gw", &[&contact]));
    let ok = caller.response(&invite);
    assert_eq!(ok.status(), Some(200));
    for method in ["ACK", "BYE"] {
        caller.send(&invite.in_dialog(method, &ok, &caller).with("X-Internal: 1").bytes());
        let received = at(&mut carrier, method);
        assert_eq!((received.header("X-Caller"), received.header("X-Internal")), (Some(who.as_str()), None));
    }
    server.assert_alive("a call with header rules");
}

#[test]
fn call_to_a_phone_has_the_header_fields_of_its_domain() {
    let (server, mut carrier) = start(KEYS);
    let mut phone = server.link(Via::Udp);
    phone.register("bob");
    let invite =
        Req::invite("sip:bob@example.com", &carrier.udp).with("X-Carrier-Id: 1").with("X-Trunk: forged");
    carrier.udp.send(&invite.bytes());
    let received = phone.request("INVITE");
    assert_eq!((received.all("X-Trunk"), received.header("X-Carrier-Id")), (vec!["carrier"], None));
    assert_eq!((received.header("X-Caller"), received.header("X-Site")), (None, None), "rules of the trunk");
}

#[test]
fn header_rules_change_with_a_reload() {
    let (server, mut carrier) = start(KEYS);
    server.write_config(Some(&config(&carrier, "set_headers = ['User-Agent: {source}']")));
    assert!(server.ctl(&["reload"]).status.success(), "{}", server.log_text());
    let mut caller = server.link(Via::Udp);
    caller.send(&Req::invite("sip:0044123@example.com", &caller).with("X-Internal: 1").bytes());
    let received = at(&mut carrier, "INVITE");
    let source = caller.local().ip().to_string();
    assert_eq!(
        (received.all("User-Agent"), received.header("X-Internal")),
        (vec![source.as_str()], Some("1"))
    );
    assert_eq!(received.header("X-Caller"), None);
}

#[test]
fn header_rule_that_would_break_a_message_is_refused() {
    let (server, carrier) = start("");
    for (key, says) in [
        ("set_headers = ['X-A: 1', 'Call-ID: {user}']", "Call-ID belongs to the protocol"),
        ("add_headers = \"X-A: 1\\r\\nX-B: 2\"", "the value has a line break"),
        ("remove_headers = ['X A']", "\"X A\" is not the name of a header field"),
        ("add_headers = ['X-A: \"{user}']", "a quotation mark is not closed"),
    ] {
        server.write_config(Some(&config(&carrier, key)));
        let out = run(["check", &server.config_file().to_string_lossy()]);
        let text = [out.stdout, out.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let place = format!("{}:7:", server.config_file().display());
        assert!(!out.status.success() && text.contains(&place) && text.contains(says), "{key}: {text}");
        assert!(!server.ctl(&["reload"]).status.success(), "{key}");
    }
    server.assert_alive("rules that are refused");
}
