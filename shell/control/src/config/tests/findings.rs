//! Configurations that do not work, and what is said about them.

use super::*;

#[test]
fn everything_wrong_is_reported_at_once_with_its_place() {
    let text = "\
listn = [\"udp:0.0.0.0:5060\"]
workers = \"four\"
domains = [\"ok.example\", \"not ok\", 5]
min_expires = 60

[registrar]
max_bindings = -1
max_expires = \"soon\"

[proxy]
mode = \"statefull\"

[[trunk]]
name = \"a\"
targts = []
";
    let expected = "\
1:1: unknown key `listn`; did you mean `listen`?
2:11: expected a number, found a string
3:26: \"not ok\" is not a host name or address; a name such as \"example.com\", without scheme and port
3:36: expected a string, found a number; put it in quotes
4:1: unknown key `min_expires`; `min_expires` belongs in [registrar]
7:16: -1 is out of range; from 1 to 1000
8:15: not a length of time; write seconds as a number, or a text such as \"500ms\", \"20s\", \"5m\", \"2h\"
11:8: unknown value \"statefull\"; did you mean \"stateful\"?
13:1: trunk without target; add targets = [\"sip:192.0.2.1:5060\"]
15:1: unknown key `targts` in [trunk]; did you mean `targets`?
";
    assert_eq!(errors(text), expected);
}

#[test]
fn of_a_file_that_is_no_toml_the_first_mistake_is_told_alone() {
    let rest =
        "\n[balance]\nnodes = [\"sip:192.0.2.1\"]\nalgorithm = \"tlwl\"\n[admin]\nlisten = \"127.0.0.1:1\"\n";
    let cases = [
        // The list that does not end is not where the parser notices it.
        ("domains = [\"a.example\"\n", "1:11: this list does not end; close it with `]`\n"),
        (
            "aliases = [\"]\\\"[\", '[']\n# [\ndomains = [\n  \"a\",\n",
            "3:11: this list does not end; close it with `]`\n",
        ),
        (
            "algorithms = [MD5]\ndomains = [\"a\"\n",
            "1:15: string values must be quoted, expected literal string\n",
        ),
        ("workers = \ndomains = [\"a b\"]\nx = = 1\n", "1:11: there is no value; write one after `=`\n"),
        ("workers = 4\nx = = 1\nlog = 3\n", "2:5: extra `=`, expected nothing\n"),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(&format!("{text}{rest}")), expected, "{text}");
    }
    for word in ["yes", "True", "on"] {
        let expected = format!("2:11: `{word}` is not a value; write true or false\n");
        assert_eq!(errors(&format!("[auth]\nenabled = {word}\n")), expected);
    }
    assert!(errors("[admin]\nlisten = off\n").contains("or \"off\" in quotes"));
}

#[test]
fn a_key_in_the_wrong_place_is_sent_to_the_right_ones() {
    let found = errors("[log]\nlisten = 1");
    assert_eq!(
        found,
        "2:1: unknown key `listen` in [log]; `listen` belongs at the top of the file or in [admin]\n"
    );
    assert!(errors("level = 'debug'").ends_with("`level` belongs in [log]\n"));
    assert!(errors("[auth]\nworkers = 1").ends_with("`workers` belongs at the top of the file\n"));
    assert!(errors("sources = []").ends_with("`sources` belongs in [[trunk]]\n"));
}

#[test]
fn a_list_where_one_string_belongs() {
    let found = errors("[admin]\nlisten = ['127.0.0.1:1']");
    assert_eq!(found, "2:10: expected a string, found a list; take the brackets away\n");
    assert!(errors("[admin]\nlisten = ['127.0.0.1:1', 'a']").contains("write that one, without brackets"));
}

#[test]
fn a_probe_does_not_wait_for_longer_than_until_the_next() {
    let found = warnings("[balance]\nprobe_timeout = '2s'");
    assert!(
        found.starts_with("2:17: probe_timeout (2s) is longer than probe_interval: 1s applies"),
        "{found}"
    );
    // Nobody has asked for more than applies, or there are no probes.
    for text in ["probe_interval = '200ms'", "probe_timeout = '2s'\nprobe_interval = 0", "probe_timeout = 1"]
    {
        assert_eq!(warnings(&format!("[balance]\n{text}")), "", "{text}");
    }
}

#[test]
fn what_is_not_there_yet_is_said_to_be_missing() {
    let text = "data_dir = \"postgres://db/sip\"\n[store]\nbackend = \"mysql\"\n[presence]\n[database]\n";
    let expected = "\
1:12: databases other than SQLite are not in this version; write a folder's name
3:1: databases other than SQLite are not in this version; users and bindings are in SQLite below `data_dir`
4:2: presence is not in this version
5:2: databases other than SQLite are not in this version; users and bindings are in SQLite below `data_dir`
";
    assert_eq!(errors(text), expected);
}

#[test]
fn columns_count_characters() {
    assert!(errors("# é\ndomains = [\"é\", 1]").contains("2:17: expected a string"));
}

#[test]
fn listeners_are_checked() {
    let cases = [
        ("sctp:127.0.0.1", "\"127.0.0.1\" is not an IP address and port"),
        ("sctp:127.0.0.1,x:5060", "\"127.0.0.1,x:5060\" is not an IP address and port"),
        ("sctp:127.0.0.1,[::1]:5060", "addresses of both families in one listener"),
        ("sctp:127.0.0.1,0.0.0.0:5060", "an unspecified address has all others with it"),
        ("sctp:127.0.0.1,127.0.0.2,127.0.0.2:5060", "127.0.0.2 is there twice"),
        ("sctp:127.0.0.1,224.0.0.1:5060", "multicast"),
        ("udp:127.0.0.1,127.0.0.2:5060", "is not an IP address and port"),
        ("dccp:0.0.0.0:5060", "unknown transport \"dccp\""),
        ("udp:localhost:5060", "\"localhost:5060\" is not an IP address and port"),
        ("udp:0.0.0.0", "is not an IP address and port"),
        ("udp:0.0.0.0:70000", "is not an IP address and port"),
        ("udp", "\"udp\" is not a listener"),
        (
            "127.0.0.1:5099",
            "names no transport; write it as \"udp:127.0.0.1:5099\" or \"tcp:127.0.0.1:5099\"",
        ),
        ("::1", "names no transport; write it as \"udp:[::1]:5060\""),
        ("localhost:5060", "\"localhost:5060\" names no transport; write it as \"udp:0.0.0.0:5060\""),
        ("tls:5061", "\"5061\" is not an IP address and port"),
        ("udp:224.0.0.1:5060", "multicast"),
    ];
    for (written, expected) in cases {
        let found = errors(&format!("listen = ['{written}']"));
        assert!(found.starts_with("1:11: ") && found.contains(expected), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
        let over = Overrides { listen: vec![written.into()], ..Overrides::default() };
        let found = lines(&Config::parse("t.toml", "", &over, METHODS).unwrap_err());
        assert!(found.starts_with("--listen: ") && found.contains(expected), "{found}");
    }
    let twice = errors("listen = ['udp:0.0.0.0:5060',\n 'tcp:0.0.0.0:5060', 'udp:0.0.0.0:5060']");
    assert_eq!(twice, "2:22: duplicate listener; the first is at 1:11; remove one\n");
    for transport in ["tls", "wss"] {
        let bare = errors(&format!("listen = ['udp:0.0.0.0:5060', '{transport}:0.0.0.0:5061']"));
        let lacks = format!("the listener \"{transport}:0.0.0.0:5061\" has no certificate to show; ");
        assert!(bare.starts_with(&format!("1:31: {lacks}")), "{bare}");
        assert!(bare.contains("certificates = [{ ") && bare.contains("--tls-cert FILE"), "{bare}");
        let listen = vec![format!("{transport}:0.0.0.0:5061")];
        let over = Overrides { listen, ..Overrides::default() };
        let found = lines(&Config::parse("t.toml", "", &over, METHODS).unwrap_err());
        assert!(found.starts_with(&format!("--listen: {lacks}")), "{found}");
    }
    good("listen = ['ws:0.0.0.0:80']");
    assert!(errors("listen = []").contains("no listener"));
    good("listen = ['udp:127.0.0.1:0', 'udp:127.0.0.1:0']");
}

#[test]
fn advertised_addresses_are_checked() {
    assert!(errors("advertise = '0.0.0.0'").starts_with("1:13: nobody can send"));
    assert!(errors("advertise = 'a:0'").contains("has no usable port"));
    assert!(errors("advertise = 5").starts_with("1:13: expected a string"));
    let found = errors("[advertise]\n'udp:192.0.2.1:1' = 'a'\n'wss:1.2.3.4:1' = 'a'");
    assert!(found.contains("2:1: \"udp:192.0.2.1:1\" is not among the listeners"), "{found}");
    assert!(found.contains("3:1: \"wss:1.2.3.4:1\" is not among the listeners"), "{found}");
}

#[test]
fn websocket_takes_origins_and_a_path() {
    let text = "listen = ['ws:0.0.0.0:80']\n[websocket]\norigins = ['HTTPS://Phone.Example.com', 'http://[::1]:8080']\n\
        path = '/ws'";
    let config = good(text).websocket;
    assert_eq!(config.origins, ["https://phone.example.com", "http://[::1]:8080"]);
    assert_eq!(config.path.as_deref(), Some("/ws"));
    for (origin, expected) in [
        ("phone.example.com", "is not an origin; write it as"),
        ("https://phone.example.com/", "is not an origin"),
        ("https://", "is not an origin"),
        ("null", "is not an origin"),
        (
            "https://a.example:443",
            "is sent by no browser; browsers leave the usual port out: write \"https://a.example\"",
        ),
    ] {
        let found = errors(&format!("listen = ['ws:0.0.0.0:80']\n[websocket]\norigins = ['{origin}']"));
        assert!(found.starts_with("3:12: ") && found.contains(expected), "{found}");
    }
    for (path, expected) in [
        ("ws", "is not a path"),
        ("/a b", "is not a path"),
        ("/a?b", "is not a path"),
        ("/healthz", "choose another"),
    ] {
        let found = errors(&format!("listen = ['ws:0.0.0.0:80']\n[websocket]\npath = '{path}'"));
        assert!(found.starts_with("3:8: ") && found.contains(expected), "{found}");
    }
    assert!(warnings("[websocket]\npath = '/ws'").contains("no listener is of WebSocket"));
    let found = warnings("listen = ['tcp:0.0.0.0:5060', 'ws:0.0.0.0:5061', 'ws:0.0.0.0:80']");
    assert!(
        found.contains("browsers do not connect to \"ws:0.0.0.0:5061\"") && !found.contains("0:80"),
        "{found}"
    );
}

#[test]
fn a_slip_in_the_challenge_list_is_an_error() {
    let found = errors("[auth]\nchallenge = ['INVTE', 'REGISTER']");
    assert_eq!(found, "2:14: unknown method `INVTE`; did you mean `INVITE`?\n");
    assert!(errors("[auth]\nchallenge = ['invite']").contains("did you mean `INVITE`?"));
    assert!(errors("[auth]\nchallenge = ['A B']").contains("is not a token"));
    assert!(errors("[auth]\nchallenge = ['*', 'BYE']").contains("already means every method"));
    assert!(errors("[auth]\nchallenge = ['BYE', 'BYE']").contains("duplicate method"));
    assert!(warnings("[auth]\nchallenge = ['FROBNICATE']").contains("does not know"));
    assert!(warnings("[auth]\nchallenge = []").contains("off in effect"));
    // Without a list of names there is nothing to compare with.
    let loose = Config::parse("t", "[auth]\nchallenge = ['INVTE']", &Overrides::default(), &[]).unwrap();
    assert!(loose.warnings.is_empty());
}

#[test]
fn expiry_limits_must_be_in_order() {
    assert!(errors("[registrar]\nmin_expires = 9000").starts_with("2:15: min_expires (9000s) is above"));
    assert!(errors("[registrar]\nmax_expires = 30").starts_with("2:15: min_expires (60s) is above"));
    assert!(errors("[registrar]\ndefault_expires = 30").contains("outside the limits"));
    assert!(errors("[registrar]\nmin_expires = '1500ms'").contains("not a whole number"));
    assert!(errors("[registrar]\nmax_expires = 4294967296").contains("out of range"));
}

#[test]
fn one_long_round_is_no_overload() {
    assert!(errors("[overload]\ndelay = '50ms'").contains("from 60ms to 10s"));
    assert_eq!(good("[overload]\ndelay = '60ms'").overload.delay.as_millis(), 60);
}

#[test]
fn several_algorithms_are_warned_of() {
    let warned = |text: &str| {
        let loaded = Config::parse("t.toml", text, &Overrides::default(), METHODS).unwrap();
        loaded.warnings.iter().any(|warning| warning.message.contains("several algorithms"))
    };
    assert!(warned("[auth]\nalgorithms = ['SHA-256', 'MD5']"));
    assert!(!warned("[auth]\nalgorithms = ['SHA-256']") && !warned(""));
}

#[test]
fn algorithms_are_checked() {
    assert!(errors("[auth]\nalgorithms = ['SHA-1']").contains("unknown value \"SHA-1\""));
    assert!(errors("[auth]\nalgorithms = []").contains("no algorithm"));
    assert!(errors("[auth]\nalgorithms = ['MD5', 'md5']").contains("duplicate algorithm"));
    assert!(errors("[auth]\nrealm = 'a\"b'").contains("does not do here"));
}

#[test]
fn voicemail_needs_a_target() {
    assert!(errors("[voicemail]\non = ['busy']").starts_with("1:1: voicemail without target"));
    assert!(errors("[voicemail]\ntarget = 'sip:v@h'\non = ['sleepy']").contains("one of \"busy\""));
    // A bad target is reported as such and not as missing too.
    assert_eq!(errors("[voicemail]\ntarget = 'vm'").lines().count(), 1);
}

#[test]
fn emergency_calls_need_a_target_and_plain_numbers() {
    let found = errors("\n[emergency]\nnumbers = ['112']");
    assert!(found.starts_with("2:1: emergency calls without target; add targets = "), "{found}");
    assert!(errors("[emergency]\ntargets = []").starts_with("2:11: `targets` is empty"));
    let with = |rest: &str| format!("[emergency]\ntargets = ['sip:192.0.2.1']\n{rest}");
    let long = "1".repeat(33);
    for number in ["1", &long, "1-1-2", "sos", "11 2", "", "112#"] {
        let found = errors(&with(&format!("numbers = ['110', '{number}']")));
        assert!(
            found.starts_with(&format!("3:19: \"{number}\" is no number for emergencies; 2 to 32")),
            "{found}"
        );
    }
    assert!(
        errors(&with("numbers = ['112', '112']")).starts_with("3:19: duplicate number; the first is at 3:12")
    );
    let many = |n: u32| (1_000..1_000 + n).map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
    let found = errors(&with(&format!("numbers = [{}]", many(101))));
    assert!(found.contains("more than 100 numbers"), "{found}");
    let numbers = good(&with(&format!("numbers = ['+49891234567890123', {}]", many(99)))).emergency;
    assert_eq!(numbers.map(|emergency| emergency.numbers.len()), Some(100));
    assert!(errors(&with("strangers = 'yes'")).starts_with("3:13: expected true or false"));
    assert!(errors(&with("number = ['112']")).contains("did you mean `numbers`?"));
    let own = "domains = ['example.com']\n[emergency]\ntargets = ['sip:psap@example.com']";
    assert!(errors(own).contains("our own domain, would come back here"));
    let top = "listen = ['udp:192.0.2.1:5060']\naliases = ['sip.example.com']\n";
    for (target, is_own) in [
        ("sip:192.0.2.1", true),
        ("sip:192.0.2.1:5080", false),
        ("sip:sip.example.com", true),
        ("sip:sip.example.com:5060", true),
        ("sip:192.0.2.9", false),
    ] {
        let text = format!("{top}[emergency]\ntargets = ['{target}']");
        let found = if is_own { errors(&text) } else { good(&text).server.listen.len().to_string() };
        assert_eq!(found.contains("is this server, calls would come back here"), is_own, "{text}: {found}");
    }
    let route = with("numbers = ['112']\n[[route]]\nuser = '112'\ntargets = ['sip:192.0.2.9']");
    assert!(warnings(&route).contains("a route for user \"112\" is not used: [emergency] comes first"));
    assert!(good("").emergency.is_none() && !good(&with("")).emergency.unwrap().strangers);
}

#[test]
fn targets_are_checked() {
    let cases = [
        ("http://x", "is not a SIP URI"),
        ("192.0.2.1", "is not a SIP URI"),
        ("sips:192.0.2.1;transport=udp", "sips: goes over TLS, not over udp"),
        ("sip:192.0.2.1;transport=ws", "transport ws: not in this version"),
        ("sip:192.0.2.1:0", "has no usable port"),
        ("sip:192.0.2.1:99999", "has no usable port"),
        ("sip:@192.0.2.1", "has no usable user"),
        ("sip:a@b@192.0.2.1", "has no usable user"),
        ("sip:300.0.2.1", "is not a host name or address"),
        ("sip:2001:db8::1", "needs brackets"),
        ("sip:a b", "is not a plain SIP URI"),
        ("sip:*21#@192.0.2.1", "has a user that must be escaped"),
        ("sip:50%@192.0.2.1", "has a user that must be escaped"),
        ("sip:a?Route=x", "is not a plain SIP URI"),
        ("sip:", "is not a host name"),
    ];
    for (uri, expected) in cases {
        let found = errors(&format!("[[trunk]]\nname='a'\nprefixes=['0']\ntargets=['{uri}']"));
        assert!(found.starts_with("4:10: ") && found.contains(expected), "{uri}: {found}");
    }
    let found = errors("[[trunk]]\nname='a'\nprefixes=['0']\ntargets=['sip:192.0.2.1;transport=tls']");
    assert!(found.contains("a target over tls needs a tls listener"), "{found}");
}

#[test]
fn names_in_certificates_must_be_provable() {
    let tls = "listen = ['tls:0.0.0.0:5061']\n[tls]\ncertificates = [{ chain = 'c', key = 'k' }]\n";
    let trunk = |name: &str, source: &str| {
        format!("[[trunk]]\nname = '{name}'\ntargets = ['sip:192.0.2.1']\nsources = ['{source}']\n")
    };
    let asking = format!("{tls}client_certificates = 'offered'\n");
    let found = errors(&format!("{tls}{}", trunk("a", "tls:sip.carrier.example")));
    let want = "7:12: no peer can prove \"tls:sip.carrier.example\": peers are not asked for a certificate; \
                set client_certificates = \"offered\" in [tls]\n";
    assert_eq!(found, want);
    let found = errors(&trunk("a", "sip.carrier.example"));
    assert!(found.starts_with("4:12: ") && found.contains("write \"tls:sip.carrier.example\""), "{found}");
    let found = errors(&format!("{asking}{}", trunk("a", "tls:*.carrier.example")));
    assert!(found.starts_with("8:12: ") && found.contains("not the name of one host"), "{found}");
    let found = errors(&format!("{asking}{}", trunk("a", "tls:a b")));
    assert!(found.contains("not a host name"), "{found}");
    let two = format!("{asking}{}{}", trunk("a", "tls:x.example"), trunk("b", "tls:X.example"));
    let found = errors(&two);
    assert!(found.starts_with("12:12: source \"tls:x.example\" is already taken at 8:12"), "{found}");
    let found = errors(&format!("[tls]\nclient_certificates = 'offered'\n{}", trunk("a", "tls:x.example")));
    assert!(found.contains("there is no tls listener"), "{found}");
    let good = good(&format!("{asking}{}", trunk("a", "tls:[2001:DB8::1]")));
    assert_eq!(good.trunks[0].source_names().collect::<Vec<_>>(), ["2001:db8::1"]);
    assert!(good.trunks[0].settings().sources.is_empty(), "addresses of targets are none besides");
}

#[test]
fn keys_of_tls_belong_to_trunks_over_tls() {
    let head = "listen = ['tls:0.0.0.0:5061']\n[tls]\ncertificates = [{ chain = 'c', key = 'k' }]\n";
    let trunk =
        |name: &str, rest: &str| format!("[[trunk]]\nname = '{name}'\nprefixes = ['{name}']\n{rest}\n");
    let find = |rest: &str| errors(&format!("{head}{}", trunk("1", rest)));
    let found = find("targets = ['sip:192.0.2.1']\nverify = 'sip.carrier.example'");
    assert!(found.starts_with("8:10: `verify` is for TLS, but no target"), "{found}");
    let found = find("targets = ['sip:h.example;transport=tcp']\ncertificate = { chain = 'a', key = 'b' }");
    assert!(found.starts_with("8:15: `certificate` is for TLS"), "{found}");
    let found = find("targets = ['sips:h.example']\ncertificate = { chain = 'a' }");
    assert!(found.starts_with("8:15: a certificate without key"), "{found}");
    let found =
        find("targets = ['sips:h.example']\ncertificate = { chain = 'a', key = 'b', domains = ['c'] }");
    assert!(found.starts_with("8:15: unknown key \"domains\""), "{found}");
    let found = find("targets = ['sips:h.example;transport=udp']");
    assert!(found.starts_with("7:12: sips: goes over TLS, not over udp"), "{found}");
    let found = find("targets = ['sips:h.example']\nverify = 'a b'");
    assert!(found.starts_with("8:10: ") && found.contains("not a host name"), "{found}");
    let two = |first: &str, second: &str| format!("{head}{}{}", trunk("1", first), trunk("2", second));
    let found = errors(&two(
        "targets = ['sips:h.example']\nverify = 'sip.carrier.example'",
        "targets = ['sip:h.example;transport=tls']\nroots = 'r.pem'",
    ));
    assert!(
        found.starts_with("13:9: connections to h.example differ from those of the trunk at 8:10"),
        "{found}"
    );
    let account = |host: &str, name: &str| {
        format!("targets = ['sips:{host}']\ncertificate = {{ chain = '{name}', key = '{name}' }}")
    };
    let found = errors(&two(&account("h.example", "a.pem"), &account("h.example", "b.pem")));
    assert!(found.contains("for a second account name another host"), "{found}");
    good(&two(&account("h.example", "a.pem"), &account("other.example", "b.pem")));
    let same = "targets = ['sips:h.example', 'sips:[2001:db8::1]']\nroots = 'r.pem'\nverify = 'n.example'";
    let config = good(&two(same, same));
    assert_eq!(config.trunks[0].proven_names(), ["n.example"]);
    assert_eq!(config.trunks[0].targets[1].transport, Some(wire::Transport::Tls));
    assert!(config.render_effective().contains("roots = \"r.pem\"\n"));
}

#[test]
fn password_in_a_trunk_is_refused_with_the_way_to_name_it() {
    let found = errors("[[trunk]]\nname = 'a'\ntargets = ['sip:192.0.2.1']\npassword = 'x'");
    let want = "4:1: passwords do not stand in this file; write it into a file, and name that with password_file = \
                \"FILE\"\n";
    assert_eq!(found, want);
}

#[test]
fn duplicate_key_is_reported_with_the_first() {
    let twice = "[limits]\nheaders = 20\n\n[dns]\ncache = 5\n[timers]\nt1 = '1s'\n t2 = '4s'\nt1 = '2s'\n";
    assert_eq!(errors(twice), "9:1: duplicate key `t1`; the first is at 7:1; remove one\n");
    assert_eq!(
        errors("workers = 1\n  workers = 2\n"),
        "2:3: duplicate key `workers`; the first is at 1:1; remove one\n"
    );
    let section = "[dns]\ncache = 5\n[timers]\n[dns]\n";
    assert_eq!(errors(section), "4:2: duplicate key `dns`; the first is at 1:2; remove one\n");
}

#[test]
fn trunks_must_be_clear() {
    assert!(errors("[[trunk]]\ntargets=['sip:h']").contains("trunk without name"));
    assert!(errors("[[trunk]]\nname='a'\ntargets=[]").contains("`targets` is empty"));
    assert!(errors("[trunk]\nname='a'").contains("write each as [[trunk]]"));
    let trunk =
        |name: &str, rest: &str| format!("[[trunk]]\nname='{name}'\ntargets=['sip:192.0.2.1']\n{rest}\n");
    let two = |a: &str, b: &str| errors(&format!("{}{}", trunk("a", a), trunk("b", b)));
    assert!(two("prefixes=['+4']", "prefixes=['+4']").contains("prefix \"+4\" is already taken at 4:11"));
    assert!(two("domains=['x.example']", "domains=['X.example']").contains("already taken"));
    assert!(errors(&format!("{}{}", trunk("a", ""), trunk("a", ""))).contains("trunk name \"a\""));
    let own = format!("domains=['x.example']\n{}", trunk("a", "domains=['x.example']"));
    assert!(errors(&own).contains("domain \"x.example\" is one of our own"));
    for source in ["0.0.0.0/0", "::/0"] {
        assert!(errors(&trunk("a", &format!("sources=['{source}']"))).contains("trust every sender"));
    }
    assert!(errors(&trunk("a", "sources=['10.0.0.1/8']")).contains("write \"10.0.0.0/8\""));
    for source in ["10.0.0.0/33", "10.0.0", "10.0.0.0/-1", "::/129"] {
        assert!(errors(&trunk("a", &format!("sources=['{source}']"))).contains("not a block"), "{source}");
    }
    assert!(errors(&trunk("a", "prefixes=['4 4']")).contains("user part"));
    for prefix in ["50%", "5%2", "5%zz"] {
        assert!(
            errors(&trunk("a", &format!("prefixes=['{prefix}']"))).contains("begins no escape"),
            "{prefix}"
        );
    }
    assert!(two("prefixes=['*21#']", "prefixes=['%2a21%23']").contains("prefix \"*21#\" is already taken"));
    assert!(two("prefixes=['jö']", "prefixes=['j%C3%B6']").contains("is already taken"));
    assert!(errors(&trunk("a", "retry_on=['200']")).contains("no reason to retry"));
    for always in ["'503'", "503", "'timeout'", "'Unreachable'"] {
        let found = errors(&trunk("a", &format!("retry_on=[486, {always}]")));
        assert!(
            found.contains("always makes the next target be tried") && found.contains("remove it"),
            "{found}"
        );
    }
    assert!(errors(&trunk("a", "silent_after='50ms'")).contains("from 100ms to 30s"));
    assert!(warnings(&trunk("a", "")).contains("serves no prefix"));
    let named = "[[trunk]]\nname='a'\nprefixes=['0']\ntargets=['sip:gw.example']";
    assert!(warnings(named).contains("requests from \"gw.example\" are treated as a stranger's"));
}

#[test]
fn header_rules_that_would_break_messages_are_refused() {
    let head = "domains = ['example.com']\n[[trunk]]\nname='a'\nprefixes=['0']\ntargets=['sip:192.0.2.1']\n";
    let found = errors(&format!(
        "{head}remove_headers=['X-A', 'Via', '*']\nset_headers=['X-B: {{user}}', 'X B: c', \"X-C: d\\r\\nE: f\"]\n\
         add_headers=['CSeq: 1 INVITE',\n 'X-D: <{{user}}', 'X-D: {{caller}}']\n\
         [[domain]]\nname='example.org'\nset_headers=['X-E: 1', 'x-e: 2']\n[[domain]]\nadd_headers=['X-F:']\n"
    ));
    for line in [
        "6:24: Via belongs to the protocol; remove the rule",
        "6:31: \"*\" would remove all header fields; write how their names begin",
        "7:29: \"X B\" is not the name of a header field; letters, digits and hyphens",
        "7:39: the value has a line break or another control character; remove it",
        "8:14: CSeq belongs to the protocol",
        "9:2: a \"<\" is not closed",
        "9:18: there is no value {caller}; known are {user}",
        "11:6: \"example.org\" is not a domain of this server; add it to `domains`",
        "12:24: header field \"x-e\" is already taken at 12:14; set it once",
        ": domain without name; add name",
        "14:14: the header field has no value; write it as \"Name: value\"",
    ] {
        assert!(found.contains(line), "{line}\n{found}");
    }
    assert_eq!(found.lines().count(), 11, "{found}");
    let many: Vec<String> = (0..33).map(|n| format!("'X-{n}: 1'")).collect();
    let found = errors(&format!("{head}add_headers=[{}]", many.join(",")));
    assert!(found.contains("6:13: more than 32 rules in `add_headers`"), "{found}");
}

#[test]
fn numbers_need_a_country_and_digits() {
    let trunk = |keys: &str| {
        errors(&format!("[[trunk]]\nname='a'\nprefixes=['0']\ntargets=['sip:192.0.2.1']\n{keys}\n"))
    };
    for (keys, says) in [
        ("country='+49'", "5:9: \"+49\" is not a country code; 1 to 3 digits without \"+\""),
        ("country='049'", "5:9: \"049\" is not a country code"),
        ("country='49'\narea='0 30'", "6:6: \"0 30\" is not an area code"),
        ("country='49'\nnational_prefix=['0', 'x']", "6:23: \"x\" is not a prefix of numbers"),
        ("country='49'\ninternational_prefix='+'", "6:22: \"+\" is not a prefix of numbers"),
        ("area='30'", "5:6: an area code needs a country; add the country code"),
        ("number_format='national'", "5:15: numbers in national format need a country"),
        ("number_format='e164+'", "5:15: unknown value \"e164+\"; did you mean \"e164\"?"),
        (
            "country='49'\nnational_prefix=''\narea='30'",
            "7:6: without a national prefix every number has an area",
        ),
        ("short_numbers=4", "5:15: `short_numbers` changes nothing without a country"),
        ("international_prefix='011'", "5:22: `international_prefix` changes nothing without a country"),
    ] {
        assert!(trunk(keys).starts_with(says), "{keys}: {}", trunk(keys));
    }
    let domain = errors("[[domain]]\nname='example.com'\narea='30'\nnumber_format='e164'");
    assert!(domain.contains("3:6: an area code needs a country"), "{domain}");
    assert!(
        domain.contains("4:1: unknown key `number_format` in [domain]; `number_format` belongs in [[trunk]]")
    );
}

#[test]
fn callers_need_a_user_and_a_main_number() {
    for (text, says) in [
        ("[[caller]]\nnumbers='+491'", ": caller without user"),
        ("[[caller]]\nuser='a@b.example'", ": caller without numbers"),
        ("[[caller]]\nuser='alice'\nnumbers='+491'", "2:6: \"alice\" is not a user with a domain"),
        (
            "[[caller]]\nuser='a@b.example'\nnumbers=['+491', '0301']",
            "3:18: \"0301\" is not a number; write \"+\"",
        ),
        (
            "[[caller]]\nuser='a@b.example'\nnumbers=['+491*']",
            "3:9: the first of the numbers ends with \"*\"",
        ),
        ("[[caller]]\nuser='a@b.example'\nnumbers=[]", "3:9: there is no number"),
        (
            "domains='x.example'\n[[caller]]\nuser='a@b.example'\nnumbers='+491'",
            "3:6: \"b.example\" is not a domain",
        ),
        ("[[domain]]\nname='b.example'\nnumbers='+4930*'", "3:9: the first of the numbers ends"),
    ] {
        assert!(errors(text).contains(says), "{text}: {}", errors(text));
    }
    let twice = "[[caller]]\nuser='a@b.example'\nnumbers='+491'\n";
    assert!(errors(&twice.repeat(2)).contains("user \"a@b.example\" is already taken at 2:6"));
    let stateless = "[proxy]\nmode='stateless'\n[[trunk]]\nname='a'\nprefixes=['0']\ntargets=['sip:192.0.2.1']\nidentity=";
    assert!(errors(&format!("{stateless}'from'")).contains("which a stateless proxy cannot do"));
    good(&format!("{stateless}'pai'"));
}

#[test]
fn routes_must_be_clear() {
    assert!(errors("[[route]]\nuser='a'").contains("route without target"));
    let waits = errors("[[route]]\nuser='a'\nredirect=['sip:b@h']\nsilent_after=1");
    assert!(waits.contains("waits for nobody"), "{waits}");
    assert!(errors("[[route]]\ntargets=['sip:h']").contains("matches everything"));
    assert!(errors("[[route]]\nuser='a'\nprefix='b'\ntargets=['sip:h']").contains("not both"));
    assert!(errors("[[route]]\nuser='a'\nredirect=['sip:h']\ntargets=['sip:h']").contains("not both"));
    let twice = "[[route]]\nuser='a'\ntargets=['sip:h']\n";
    assert!(errors(&twice.repeat(2)).contains("route for user \"a\" is already taken at 1:1"));
}

#[test]
fn the_admin_api_stays_on_loopback_unless_told() {
    let found = errors("[admin]\nlisten = '0.0.0.0:8080'");
    assert!(found.starts_with("2:10: the admin API would listen on 0.0.0.0:8080"), "{found}");
    let told = "[admin]\nlisten = '0.0.0.0:8080'\nallow_remote = true";
    assert!(warnings(told).contains("set token_file"));
    assert!(!warnings(&format!("{told}\ntoken_file = 't'")).contains("set token_file"));
    let over = Overrides { admin: Some("192.0.2.1:80".into()), ..Overrides::default() };
    let found = lines(&Config::parse("t.toml", "", &over, METHODS).unwrap_err());
    assert!(found.starts_with("--admin: the admin API would listen"), "{found}");
    let over = Overrides { listen: vec!["tcp:127.0.0.1:8080".into()], ..Overrides::default() };
    let found = lines(&Config::load(None, &over, METHODS).unwrap_err());
    assert!(found.starts_with("--listen: a listener takes the admin address"), "{found}");
    assert!(errors("[admin]\nlisten = 'localhost:1'").contains("or \"off\""));
    assert!(errors("listen = ['tcp:0.0.0.0:8080']").contains("takes the admin address 127.0.0.1:8080"));
    good("listen = ['udp:0.0.0.0:8080']");
}

#[test]
fn domains_of_digits_alone_are_taken_with_a_warning() {
    // Cameras of GB/T 28181 have such ones.
    let found = warnings("domains = ['3402000000']");
    assert!(found.contains("1:12: ") && found.contains("domain \"3402000000\" is no host name"), "{found}");
    let route = "[[route]]\ndomain = '4401'\ntargets = ['sip:192.0.2.9']";
    assert!(warnings(route).is_empty(), "{}", warnings(route));
    for bad in
        ["300.0.2.1", "1.2", "", "34020000003402000000340200000034020000003402000000340200000034020000"]
    {
        assert!(errors(&format!("domains = ['{bad}']")).contains("is not a host name"), "{bad}");
    }
    assert!(
        errors("[[trunk]]\nname='a'\nprefixes=['0']\ntargets=['sip:3402000000']")
            .contains("is not a host name")
    );
}

#[test]
fn odd_timers_are_noticed() {
    assert!(errors("[timers]\nt1 = 0").contains("out of range; from 10ms to 60s"));
    assert!(errors("[timers]\nt1 = 5").contains("t2 (4s) is below t1 (5s)"));
    assert!(errors("[timers]\nt1 = 1.5").contains("not a length of time"));
    assert!(errors("[timers]\nt1 = '99999999999999999999s'").contains("not a length of time"));
    assert!(errors("[timers]\nt1 = '18446744073709551615h'").contains("not a length of time"));
    // RFC 3261 section 16.6 step 11: larger than three minutes.
    for short in ["60", "180"] {
        let found = warnings(&format!("[proxy]\ntimer_c = {short}"));
        assert!(found.contains("shorter than RFC 3261 allows"), "{short}: {found}");
    }
    assert!(warnings("[proxy]\ntimer_c = 181").is_empty());
    assert!(Config::default().proxy.timer_c > std::time::Duration::from_secs(180));
}

#[test]
fn session_timers_that_cannot_work_are_refused() {
    let found = |lines: &str| errors(&format!("[proxy]\nsession_interval = '30m'\n{lines}\n"));
    assert!(found("mode = 'stateless'").contains("a stateless server cannot ask for session timers"));
    assert!(found("record_route = false").contains("no refresh of a call comes by here"));
    assert!(
        found("min_session = '1h'").contains("session_interval (1800s) is shorter than min_session (3600s)")
    );
    // RFC 4028 section 4: 90 seconds at least.
    assert!(errors("[proxy]\nsession_interval = 89").contains("out of range; from 90s to 43200s"));
    assert!(errors("[proxy]\nmin_session = 60").contains("out of range"));
    let off = "[proxy]\nsession_interval = 'off'\nrecord_route = false\nmin_session = '1h'";
    assert!(!warnings(off).contains("session"));
}

#[test]
fn trunk_that_nothing_leads_to_gives_a_warning() {
    let trunk = "[[trunk]]\nname = 'a'\ntargets = ['sip:192.0.2.9']\n";
    let unused = "1:1: this trunk serves no prefix, no domain and no route";
    assert!(warnings(trunk).contains(unused), "{}", warnings(trunk));
    for other in ["sip:192.0.2.9:5062", "sip:192.0.2.8"] {
        let text = format!("{trunk}[[route]]\ndomain = 'b.example'\ntargets = ['{other}']");
        assert!(warnings(&text).contains(unused), "{other}");
    }
    for list in [
        "[[route]]\ndomain = 'b.example'\ntargets = ['sip:b.example', 'sip:192.0.2.9:5060']",
        "[emergency]\ntargets = ['sip:192.0.2.9']",
        "[voicemail]\ntarget = 'sip:vm@192.0.2.9'",
        "[routes]\nfile = 'routes.csv'",
    ] {
        assert_eq!(warnings(&format!("{trunk}{list}")), "", "{list}");
    }
}

#[test]
fn domain_that_no_listener_reaches_gives_a_warning() {
    let domain = "domains = ['192.0.2.1']\n";
    for rest in [
        "",
        "listen = ['udp:192.0.2.1:5062', 'tcp:192.0.2.2:5060']",
        "listen = ['udp:192.0.2.2:5060']\nadvertise = '192.0.2.1'",
        "listen = ['udp:192.0.2.2:5060']\n[auth]\nfronts = ['192.0.2.1']",
    ] {
        assert_eq!(warnings(&format!("{domain}{rest}")), "", "{rest}");
    }
    let found = warnings(&format!("{domain}listen = ['udp:192.0.2.2:5060', 'udp:[::]:5060']"));
    assert!(found.contains("1:11: no listener is at the served domain 192.0.2.1"), "{found}");
    let found = warnings("domains = ['[::1]', 'example.com']\nlisten = ['udp:0.0.0.0:5060']");
    assert!(found.contains("no listener is at the served domain [::1]"), "{found}");

    let domains = vec!["127.0.0.1".into()];
    let over = Overrides { domains, listen: vec!["udp:192.0.2.2:5060".into()], ..Overrides::default() };
    let loaded = Config::load(None, &over, METHODS).unwrap();
    let said = loaded.warnings[0].to_string();
    assert!(said.starts_with("--domain: no listener is at the served domain 127.0.0.1"), "{said}");
}

#[test]
fn warnings_about_options_name_the_option() {
    let over = Overrides { auth: Some(false), ..Overrides::default() };
    let loaded = Config::load(None, &over, METHODS).unwrap();
    assert!(
        loaded.warnings[0].to_string().starts_with("--auth: authentication is off"),
        "{:?}",
        loaded.warnings
    );
    let over = Overrides { admin: Some("192.0.2.1:80".into()), ..Overrides::default() };
    let loaded = Config::parse("t.toml", "[admin]\nallow_remote = true", &over, METHODS).unwrap();
    assert!(loaded.warnings[0].to_string().starts_with("--admin: "), "{:?}", loaded.warnings);
}

#[test]
fn command_line_errors_join_those_of_the_file() {
    let over = Overrides {
        domains: vec!["a b".into()],
        workers: Some(5000),
        steering: Some("magic".into()),
        admin: Some("x".into()),
        ..Overrides::default()
    };
    let found = lines(&Config::parse("t.toml", "listn = 1", &over, METHODS).unwrap_err());
    let starts: Vec<&str> = found.lines().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(starts, ["1:1", "--domain", "--workers", "--steering", "--admin"], "{found}");
}

#[test]
fn workers_are_placed_on_cpus_that_can_be() {
    for text in ["pin = []", "pin = 'yes'", "pin = true", "pin = [1024]", "pin = ['a']", "pin = [-1]"] {
        assert_eq!(errors(text).lines().count(), 1, "{text}");
    }
    assert_eq!(good("pin = 'off'").server.pin, Pin::Off);
    // Microseconds where they mean something.
    for text in
        ["busy_poll = '11ms'", "busy_poll = 1", "busy_poll = '50 apples'", "[timers]\ntrying = '500us'"]
    {
        assert!(!errors(text).is_empty(), "{text}");
    }
}

#[test]
fn trying_is_a_length_of_time() {
    assert_eq!(good("").timers.trying, std::time::Duration::ZERO);
    for (text, expected) in [
        ("\"auto\"", "2:10: \"auto\" is not in this version; write \"0s\" (a 100 at once) to \"200ms\"\n"),
        ("\"201ms\"", "2:10: 201ms is out of range; from 0s to 200ms\n"),
    ] {
        assert_eq!(errors(&format!("[timers]\ntrying = {text}")), expected);
    }
}

#[test]
fn hostile_text_is_escaped_and_cut_in_messages() {
    let found = errors(&format!("domains = [\"\\u001b[31m{}\"]", "x".repeat(500)));
    assert!(!found.contains('\u{1b}') && found.len() < 300, "{found}");
}

#[test]
fn endless_lists_are_refused_before_they_are_compared() {
    let many = "'a',".repeat(10_001);
    assert_eq!(errors(&format!("domains = [{many}]")).lines().count(), 1);
    let many = "[[route]]\nuser='a'\ntargets=['sip:h']\n".repeat(10_001);
    assert!(errors(&many).contains("more than 10000 routes"));
}

#[test]
fn nodes_of_a_balancer_are_checked() {
    let cases = [
        ("sip:app1.example.com:0", "has no usable address"),
        ("sip:app_.-example.com", "has no usable address"),
        ("sip:192.0.2.1;transport=wss", "nodes over wss are not possible"),
        ("sip:192.0.2.1;transport=x", "names an unknown transport"),
        ("sips:192.0.2.1;transport=sctp", "sips: means TLS, not sctp"),
        ("sip:192.0.2.1;verify=a.example", "verify is only for nodes over TLS"),
        ("sip:192.0.2.1;transport=tls;verify=a b", "a b"),
        ("sip:192.0.2.1;weight=0", "weight is out of range"),
        ("sip:192.0.2.1;wieght=1", "unknown parameter \"wieght\""),
        ("sip:bob@192.0.2.1", "names a user"),
        ("sip:0.0.0.0:5060", "nowhere to send to"),
        ("sip:255.255.255.255:5060", "nowhere to send to"),
        ("sip:192.0.2.1:0", "nowhere to send to"),
        ("192.0.2.1:5060", "is not a SIP URI"),
        ("sip:a b", "has no usable address"),
    ];
    for (written, expected) in cases {
        let found = errors(&format!("[balance]\nnodes = ['{written}']"));
        assert!(found.starts_with("2:10: ") && found.contains(expected), "{written}: {found}");
        assert_eq!(found.lines().count(), 1, "{found}");
        let over = Overrides { nodes: vec![written.into()], ..Overrides::default() };
        let found = lines(&Config::parse("t.toml", "", &over, METHODS).unwrap_err());
        assert!(found.starts_with("--node: ") && found.contains(expected), "{found}");
    }
    let tcp = BalanceNode::parse("sip:192.0.2.1;transport=TCP;weight=3").unwrap();
    assert_eq!((tcp.transport, tcp.weight), (Some(wire::Transport::Tcp), 3));
    assert_eq!(tcp.to_string(), "sip:192.0.2.1:5060;weight=3;transport=tcp");
    for (written, shown, proves) in [
        ("sip:192.0.2.1;transport=tls", "sip:192.0.2.1:5061;transport=tls", "192.0.2.1"),
        ("sips:192.0.2.1;verify=A.example", "sip:192.0.2.1:5061;transport=tls;verify=a.example", "a.example"),
        ("sips:app.example;transport=tcp", "sip:app.example;transport=tls", "app.example"),
        ("sip:[2001:db8::1];transport=tls", "sip:[2001:db8::1]:5061;transport=tls", "2001:db8::1"),
        ("sip:192.0.2.1;transport=sctp", "sip:192.0.2.1:5060;transport=sctp", "192.0.2.1"),
    ] {
        let node = BalanceNode::parse(written).unwrap();
        assert_eq!((node.to_string().as_str(), node.name_to_prove().as_str()), (shown, proves));
        assert_eq!(BalanceNode::parse(shown), Ok(node));
    }
    let named = BalanceNode::parse("sip:Cluster.Example.com;weight=3").unwrap();
    assert_eq!(named.to_string(), "sip:cluster.example.com;weight=3");
    assert_eq!(BalanceNode::parse("sip:a.example.com:5070").unwrap().to_string(), "sip:a.example.com:5070");
    let twice = errors("[balance]\nnodes = ['sip:a.example.com', 'sip:A.example.com;weight=2']");
    assert!(twice.starts_with("2:31: duplicate node; "), "{twice}");
    let twice = errors("[balance]\nnodes = ['sip:192.0.2.1', 'sip:192.0.2.1:5060;weight=2']");
    let mend = "the first is at 2:10; remove one, or add up their weights";
    assert_eq!(twice, format!("2:27: duplicate node; {mend}\n"));
    let found = errors("[balance]\nalgorithm = 'tjsk'\nprobe_interval = '10ms'\nprobe_codes = [100]");
    assert!(found.contains("2:13: unknown value \"tjsk\"; did you mean \"tjsq\"?"), "{found}");
    assert!(found.contains("3:18: more than 20 probes a second"), "{found}");
    assert!(found.contains("4:16: 100 is out of range"), "{found}");
    let found = errors("[balance]\nsilent_after = '20ms'");
    assert!(found.contains("2:16: no server answers so quickly every time"), "{found}");
    let found = errors("[balance]\nstop_delay = '41s'");
    assert!(found.starts_with("2:14: "), "{found}");
    let over = Overrides { algorithm: Some("best".into()), ..Overrides::default() };
    let found = lines(&Config::parse("t.toml", "", &over, METHODS).unwrap_err());
    assert!(found.starts_with("--algorithm: unknown algorithm \"best\"; one of cjsq, "), "{found}");
}

#[test]
fn shared_source_with_one_may_transit_is_an_error() {
    let two = |first: &str, second: &str| {
        let text = format!(
            "[[trunk]]\nname = \"a\"\nprefixes = [\"1\"]\n{first}\n[[trunk]]\nname = \"b\"\nprefixes = [\"2\"]\n{second}\n"
        );
        read(&text).map_or_else(|errors| lines(&errors), |_| String::new())
    };
    let target = "targets = [\"sip:192.0.2.1\"]";
    let transit = "targets = [\"sip:192.0.2.1:5070\"]\nmay_transit = true";
    let expected = "8:11: 192.0.2.1/32 of trunk \"b\" overlaps 192.0.2.1/32 of trunk \"a\" at 4:11, and one of them has \
                    may_transit; give each its own `sources`, or both the same may_transit\n";
    assert_eq!(two(target, transit), expected);
    assert_eq!(two(transit, target).lines().count(), 1);
    // Equal rights, and addresses apart.
    assert_eq!(two(transit, transit), "");
    assert_eq!(two(target, target), "");
    assert_eq!(two("targets = [\"sip:192.0.2.2\"]", transit), "");
    // Blocks within blocks, in either order, of either family.
    let blocks = |first: &str, second: &str| {
        let of = |list: &str, may: bool| {
            format!("targets = [\"sip:x.example\"]\nsources = [{list}]\nmay_transit = {may}")
        };
        two(&of(first, false), &of(second, true)).lines().count()
    };
    assert_eq!(blocks("\"10.0.0.0/8\"", "\"10.200.0.0/16\""), 1);
    assert_eq!(blocks("\"10.200.0.7\"", "\"10.0.0.0/8\""), 1);
    assert_eq!(blocks("\"192.0.2.1\", \"10.0.0.0/9\"", "\"10.128.0.0/9\", \"10.127.255.255\""), 1);
    assert_eq!(blocks("\"2001:db8::/32\"", "\"2001:db8:1::/48\""), 1);
    assert_eq!(blocks("\"10.0.0.0/9\"", "\"10.128.0.0/9\""), 0);
    assert_eq!(blocks("\"2001:db8::/33\"", "\"2001:db8:8000::/33\""), 0);
}

#[test]
fn word_for_a_switch_is_refused_with_what_to_write() {
    for (word, mend) in
        [("on", "write true"), ("off", "write false"), ("auto", "write true or false, without quotes")]
    {
        let found = errors(&format!("udp_segmentation = '{word}'"));
        assert_eq!(found, format!("1:20: expected true or false, found a string; {mend}\n"));
    }
}

#[test]
fn unknown_balancing_algorithm_is_refused_with_the_list() {
    for written in ["tlwl-adaptive", "two-choices"] {
        let found = errors(&format!("[balance]\nnodes = [\"sip:192.0.2.1\"]\nalgorithm = \"{written}\"\n"));
        let named =
            sip_balancer::Algorithm::ALL.iter().all(|(name, _)| found.contains(&format!("\"{name}\"")));
        assert!(found.contains(&format!("unknown value \"{written}\"")) && named, "{found}");
    }
}
