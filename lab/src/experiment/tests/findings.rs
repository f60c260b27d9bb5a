//! What is said of mistakes, each with its place and a mend.

use super::*;

#[test]
fn mistakes_are_reported_with_place_and_mend() {
    let mistakes = [
        ("measure = \"10 s", "x.toml:1:16: "),
        ("mesure = 1", "x.toml:1:1: unknown key `mesure`; did you mean `measure`?"),
        ("rate = 1", "x.toml:1:1: unknown key `rate`; `rate` belongs in [workload]"),
        ("runs = 1", "x.toml:1:1: the number of blocks has another name; write `repetitions = N`"),
        ("repetitions = 0", "x.toml:1:15: 0 is out of range; from 1 to 1000"),
        ("measure = 0", "x.toml:1:11: 0s is out of range; from 1s to 86400s"),
        (
            "repetitions = 2\nbudget = \"1h\"",
            "x.toml:2:10: `repetitions` beside `budget`; remove one of them",
        ),
        (
            "warm_up = \"stedy\"",
            "x.toml:1:11: not a length of time; write \"steady\", or a length such as \"10s\"",
        ),
        ("control = \"B\"", "x.toml:1:11: no system \"B\"; one of this"),
        (
            "hosts.load = \"there\"",
            "x.toml:1:14: \"there\" is not a host; write \"local\" or \"ssh:user@host\"",
        ),
        (
            "hosts.load = \"ssh:-oProxyCommand=x\"",
            "x.toml:1:14: \"ssh:-oProxyCommand=x\" is not a host; write",
        ),
        ("[workload]\nrate = -1", "x.toml:2:8: out of range; from 0.001 to 10000000"),
        ("[workload]\nrate = nan", "x.toml:2:8: out of range; from 0.001 to 10000000"),
        ("[workload]\nrate = \"fast\"", "x.toml:2:8: expected a number, found a string"),
        ("[workload]\nscenario = \"uca\"", "x.toml:2:12: no scenario \"uca\"; did you mean \"uac\"?"),
        ("[workload]\nmeasure = 5", "x.toml:2:1: the length of the measurement has another name; write"),
        ("[workload]\nusers = 5\nrate = 2", "x.toml:3:8: a population of users has no `rate`; remove it,"),
        ("[workload]\ncompress = 5", "x.toml:2:12: only a population of users has `compress`; add users,"),
        (
            "[system]\nkind = \"relay\"",
            "x.toml:2:8: system `kind` is a section, not a string; write [system.NAME]",
        ),
        ("[system.\"a b\"]", "x.toml:1:9: \"a b\" cannot be the name of a system; 1 to 32 letters"),
        (
            "[system.A]\nkind = \"kamalio\"",
            "x.toml:2:8: unknown value \"kamalio\"; did you mean \"kamailio\"?",
        ),
        ("[system.A]\nkind = \"kamailio\"", "x.toml:2:8: Kamailio needs a configuration; add config_file"),
        ("[system.A]\nkind = \"command\"", "x.toml:2:8: a system of kind \"command\" has a command; add"),
        (
            "[system.A]\ncommand = \"x\"",
            "x.toml:2:11: a system of kind \"strowger\" has no command; write kind",
        ),
        (
            "[system.A]\nkind = \"none\"\nbinary = \"x\"",
            "x.toml:3:10: a system of kind \"none\" has no binary; remove",
        ),
        (
            "[system.A]\nenvironment = \"x\"",
            "x.toml:2:15: \"x\" sets no variable; write it as \"NAME=value\"",
        ),
        ("[system.A]\nconfig = \"${ipp}\"", "x.toml:2:10: no factor `ipp`; did you mean `${ip}`?"),
        ("[[factor]]\nname = \"rate\"", "x.toml:1:1: `factor` is one section; write [factor], and below it"),
        ("[factor]\nrate = []", "x.toml:2:8: a factor has 1 to 100 values, not 0; write a list"),
        ("[factor]\nrate = [1, 1]", "x.toml:2:12: the value \"1\" twice; remove one"),
        ("[factor]\nrate = [[1]]", "x.toml:2:9: a factor has plain values, not a list; write decimal"),
        (
            "[factor]\nrate = [\"a b\"]",
            "x.toml:2:9: \"a b\" cannot be the value of a factor; 1 to 64 characters",
        ),
        ("[factor]\n\"a b\" = 1", "x.toml:2:1: \"a b\" cannot be the name of a factor; 1 to 32 letters"),
        ("[factor]\nspeed = [1, 2]", "x.toml:2:1: factor `speed` varies nothing; write `${speed}` where"),
        (
            "[factor]\nrate = 1\n[workload]\nrate = 2",
            "x.toml:2:1: `rate` is a factor, and [workload] sets it;",
        ),
        ("[factor]\nx = [1, 9]\n[workload]\nrate = \"${y}\"", "x.toml:2:1: factor `x` varies nothing"),
        (
            "[factor]\nx = [1, \"a\"]\n[workload]\nrate = \"${x}\"",
            "x.toml:4:8: expected a number, found a string",
        ),
        (
            "[factor]\nrate = [\"${x}\"]",
            "x.toml:2:9: \"${x}\" cannot be the value of a factor; 1 to 64 characters",
        ),
        ("[[fault]]\nkind = \"kill\"", "x.toml:1:1: there is no `at`; write `at = \"5s\"`"),
        ("[[fault]]\nat = 1", "x.toml:1:1: there is no `kind`; write `kind = \"kill\"`"),
        (
            "[[fault]]\nat = 10\nkind = \"kill\"",
            "x.toml:2:6: a fault after the measurement of 10s; make `measure`",
        ),
        (
            "[[fault]]\nat = 1\nkind = \"kill\"\nsystems = [\"thsi\"]",
            "x.toml:4:11: no system \"thsi\": did you mean \"this\"?; name systems of this file",
        ),
        (
            "[[fault]]\nat = 1\nkind = \"kill\"\nplace = \"backend\"",
            "x.toml:4:9: only systems of kind \"balance\", or with ${backends}, have back ends; name such",
        ),
        (
            "[workload]\ncapacity = 300",
            "x.toml:2:12: no system has back ends; add a system of kind \"balance\", or one that",
        ),
        (
            "[system.A]\nkind = \"balance\"\n[workload]\ncapacity = [1, 2, 3]",
            "x.toml:4:12: 3 capacities for 2 back ends; write one number, or one for each",
        ),
        (
            "[system.A]\nkind = \"balance\"\n[workload]\ncapacity = [300, 0]",
            "x.toml:4:12: a capacity below 0.01 calls/s; write more; without",
        ),
        ("[workload]\nstall = 1", "x.toml:2:9: only back ends with a capacity have `stall`; add capacity"),
        ("[system.A]\nkind = \"balance\"\n[workload]\ncapacity = 300\nstall = \"500us\"", "x.toml:5:9: "),
        (
            "[system.A]\nkind = \"balance\"\n[workload]\ncapacity = 9\n[[fault]]\nat = 1\nkind = \"stop\"\nplace = \"backend\"",
            "x.toml:8:9: back ends with a modelled capacity are one process: no fault of one; remove",
        ),
        (
            "[system.A]\nkind = \"balance\"\n[[fault]]\nat = 1\nkind = \"kill\"\nplace = \"backend\"\nbackend = 3",
            "x.toml:7:11: there are 2 back ends; name one of them, or add backends",
        ),
        (
            "[[fault]]\nat = 1\nkind = \"stop\"\nevery = \"500ms\"",
            "x.toml:4:9: a fault that is repeated before it is over; make `every` longer",
        ),
        (
            "[workload]\nscenario = \"a.xml\"",
            "x.toml:2:12: cannot read a.xml: there are no files here; correct",
        ),
    ];
    for (text, message) in mistakes {
        let found = listed(&read(text).unwrap_err());
        assert!(found.starts_with(message), "{text}\nfound: {found}\nnot:   {message}");
    }
}

#[test]
fn systems_that_do_not_run_have_no_claims() {
    let of = |at: &str, claim: &str| {
        let text = format!(
            "[system.A]\n[system.B]\nat = {at}\n[factor]\nrate = [1, 2]\n[[claim]]\nthat = \"cpu of {claim}\"\n"
        );
        read(&text).map(|experiment| experiment.plan().unwrap().runs().len())
    };
    let two = "[system.A]\n[system.B]\nat = { rate = 1 }\n[factor]\nrate = [1, 2]\n";
    let kept: Vec<usize> = good(two).setups().iter().map(|s| good(&s.to_toml()).subjects().len()).collect();
    assert_eq!(kept, [3, 2], "an archived setup has the systems that run");
    // A twice and B once at one rate, A twice at the other; seven blocks or more.
    assert_eq!(of("{ rate = 1 }", "B at most 2 of A where rate = 1").map(|runs| runs % 5), Ok(0));
    let found = listed(&of("{ rate = 1 }", "B at most 2 of A").unwrap_err());
    assert!(
        found.starts_with("x.toml:6:1: a claim on a system that does not run at rate = 2; add"),
        "{found}"
    );
    let found = listed(&of("{ rat = 1 }", "A at most 2%").unwrap_err());
    assert!(found.starts_with("x.toml:3:6: B runs at values of `rat`, which is no factor; name"), "{found}");
}

#[test]
fn all_mistakes_are_reported_once_and_in_order() {
    let text = "measure = -1\n[factor]\nrate = [1, 2]\n[workload]\ncallees = \"x\"\nworkes = 1\n[system.A]\nworkers = 0\n";
    let errors = read(text).unwrap_err();
    let places: Vec<(u32, u32)> = errors.iter().map(|error| (error.line, error.column)).collect();
    assert_eq!(places, [(1, 11), (5, 11), (6, 1), (8, 11)], "{}", listed(&errors));
}

#[test]
fn too_many_combinations_are_refused() {
    let values: Vec<String> = (1..=30).map(|n| n.to_string()).collect();
    let values = values.join(", ");
    let text = format!("[factor]\nrate = [{values}]\ncallees = [{values}]\n");
    let found = listed(&read(&text).unwrap_err());
    assert_eq!(found, "x.toml: 900 combinations of factors; at most 500: remove values");
}

#[test]
fn large_file_is_refused() {
    let text = format!("question = \"{}\"\n", "x".repeat(1 << 20));
    let found = listed(&read(&text).unwrap_err());
    assert_eq!(found, "x.toml: larger than 1048576 octets; move templates into files: config_file");
}

#[test]
fn other_hosts_are_refused() {
    let found = listed(&good("[hosts]\nload = \"ssh:me@there\"\n").plan().unwrap_err());
    assert_eq!(found, "x.toml:2:8: other hosts are not in this version; write \"local\"");
}

/// What a plan says of an experiment that reads well.
#[track_caller]
fn refused(text: &str) -> String {
    listed(&good(text).plan().unwrap_err())
}

#[test]
fn faults_without_effect_are_refused() {
    let found = refused("[[fault]]\nat = 1\nkind = \"renew_certificate\"\n");
    assert!(found.starts_with("x.toml:3:8: there is no certificate without TLS; write"), "{found}");
    for kind in ["none", "relay"] {
        for fault in ["kill", "stop", "reload"] {
            let text = format!("[system.A]\nkind = \"{kind}\"\n[[fault]]\nat = 1\nkind = \"{fault}\"\n");
            let found = refused(&text);
            assert!(found.contains("a fault of A, which has no process of a server; name"), "{found}");
        }
    }
    let other =
        "[system.A]\nkind = \"none\"\n[system.B]\n[[fault]]\nat = 1\nkind = \"kill\"\nsystems = [\"B\"]\n";
    assert!(good(other).plan().is_ok());
    let secure = "[workload]\ntransport = \"tls\"\n[[fault]]\nat = 1\nkind = \"renew_certificate\"\n";
    assert!(good(secure).plan().is_ok());
}

/// What is wrong, a line each.
#[track_caller]
fn wrong(text: &str) -> String {
    listed(&read(text).expect_err("wrong"))
}

#[test]
fn populations_that_cannot_be_run_are_refused() {
    for (text, found) in [
        ("users = 5\nwith = ['think=x']", "x.toml:3:"),
        (
            "users = 5\nwith = ['measure=9']",
            "x.toml:3:8: `measure` has a key of its own: `measure` at the top;",
        ),
        ("users = 5\n[system.A]\nkind = 'none'", "x.toml:2:9: users register, and A is no registrar;"),
        (
            "users = 5\nmailbox = true\n[system.A]\nkind = 'command'\ncommand = ['x']",
            "x.toml:3:11: A does not know",
        ),
        ("mailbox = true", "x.toml:2:11: only a population of users has `mailbox`;"),
        ("resolution = 0.1", "x.toml:2:14: only a search has a resolution;"),
    ] {
        assert!(wrong(&format!("[workload]\n{text}\n")).starts_with(found), "{text}");
    }
    assert!(good("[workload]\nusers = 5\nhold = '51s'\ncompress = 6\nwith = ['think=30m']\n").plan().is_ok());
}

#[test]
fn long_calls_need_a_warm_up_as_long() {
    let found = wrong("[workload]\nhold = '40s'\n");
    assert!(found.starts_with("x.toml:2:8: calls of 40s are not steady within warm_up_limit"), "{found}");
    assert!(good("warm_up_limit = '1m'\n[workload]\nhold = '40s'\n").plan().is_ok());
    assert!(good("warm_up = '1s'\n[workload]\nhold = '40s'\n").plan().is_ok());
    let found = wrong("warm_up_limit = '1h'\n[workload]\nfind_peak = true\nhold = '51s'\n");
    assert!(found.starts_with("x.toml:4:8: calls of 51s in a search: more than 50s"), "{found}");
}

#[test]
fn databases_are_there_where_they_are_used() {
    let kamailio = "[system.A]\nkind = 'kamailio'\n";
    for (text, found) in [
        (
            "[system.A]\ndatabase = 'mariadb'\n".to_owned(),
            "a system of kind \"strowger\" uses no database server",
        ),
        (format!("{kamailio}config = 'x'\ndatabase = 'mariadb'\n"), "nothing uses the database"),
        (format!("{kamailio}config = '${{database}}'\n"), "${database} without a database"),
        (format!("{kamailio}config = 'x'\ndata_in_memory = true\n"), "has no data folder"),
    ] {
        assert!(wrong(&text).contains(found), "{text}");
    }
    assert!(good(&format!("{kamailio}config = '${{database}}'\ndatabase = 'mariadb'\n")).plan().is_ok());
}

#[test]
fn claims_about_users_need_a_population() {
    let claim = "[[claim]]\nthat = 'users at least 5'\n";
    assert!(wrong(claim).contains("not every run has `users`; write users = 10000 and find_peak = true"));
    assert!(good(&format!("[workload]\nusers = 5\nfind_peak = true\n{claim}")).plan().is_ok());
    assert!(wrong("[[claim]]\nthat = 'peak at least 5'\n").contains("write find_peak = true in [workload]"));
}

#[test]
fn calls_and_associations_do_not_mix() {
    let echo = "[system.A]\nkind = \"echo\"\n";
    for (text, wanted) in [
        (format!("{echo}[workload]\nrate = 5\n"), "answers no calls; add associations = 1000"),
        (
            format!("{echo}[system.B]\n[workload]\nassociations = 9\n"),
            "system B is of a kind that is measured by calls",
        ),
        (
            format!("{echo}[workload]\nassociations = 9\nhold = 5\n"),
            "x.toml:5:8: associations have no `hold`",
        ),
        ("[workload]\nrequest = 999\n".to_owned(), "x.toml:2:11: only associations have `request`"),
        (
            format!("{echo}piggyback = true\n[workload]\nassociations = 9\n"),
            "x.toml:3:13: only the handshake of SCTP",
        ),
        ("[system.A]\nsockets = \"tcp\"\n".to_owned(), "x.toml:2:11: only systems of kind \"echo\""),
    ] {
        let errors = Experiment::read(&Sources::new("x.toml", &text)).unwrap_err();
        assert!(listed(&errors).contains(wanted), "{}", listed(&errors));
    }
    let good_one = format!("{echo}[workload]\nassociations = 9\nrequest = 500\nrate = 3\n");
    assert!(good(&good_one).plan().is_ok());
}

#[test]
fn faults_that_cannot_be_injected_are_refused() {
    let balanced = "[system.A]\nkind = \"balance\"\n[[fault]]\nat = 1\nplace = \"backend\"\n";
    let found = listed(&good(&format!("{balanced}kind = \"kill\"\n")).plan().unwrap_err());
    assert!(
        found.starts_with("x.toml:6:8: the fault \"kill\" of a back end is not in this version"),
        "{found}"
    );
    assert!(good(&format!("{balanced}kind = \"stop\"\n")).plan().is_ok());
}

#[test]
fn too_many_runs_are_refused() {
    let values: Vec<String> = (1..=100).map(|n| n.to_string()).collect();
    let text = format!("repetitions = 200\n[factor]\nrate = [{}]\n", values.join(", "));
    assert_eq!(
        listed(&good(&text).plan().unwrap_err()),
        "x.toml:1:15: 40000 runs: more than 20000; fewer repetitions, or fewer values of factors"
    );
}
