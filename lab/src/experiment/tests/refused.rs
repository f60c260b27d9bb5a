//! What a plan refuses although it can be read.

use super::*;

/// What the plan of a text says.
#[track_caller]
fn refused(text: &str) -> String {
    listed(&good(text).plan().expect_err("the plan refuses it"))
}

#[test]
fn overlapping_faults_on_one_system_are_refused() {
    let two = |first: &str, second: &str| format!("[[fault]]\n{first}\n[[fault]]\n{second}\n");
    let stop = "at = 4\nkind = \"stop\"\nlasts = 2";
    assert_eq!(
        refused(&two(stop, "at = 5\nkind = \"kill\"")),
        "x.toml:6:6: the fault at 5s begins before that of 4s is over, at 6s: this has one at a time; \
         move one of them, or make `lasts` shorter"
    );
    // Also where the later one stands first, within a row of them, and where it takes no time.
    assert!(refused(&two("at = 5\nkind = \"kill\"", stop)).starts_with("x.toml:2:6: the fault at 5s begins"));
    let row = "at = 1\nkind = \"stop\"\nlasts = \"100ms\"\nevery = 1";
    assert!(refused(&two(stop, row)).contains("begins before that of 4s is over"));
    assert!(refused(&two(stop, "at = 5\nkind = \"reload\"")).contains("at 5s begins"));
    // One after the other, at the beginning of another one, and on different systems.
    for other in ["at = 6\nkind = \"kill\"", "at = 4\nkind = \"reload\""] {
        assert!(good(&two(stop, other)).plan().is_ok(), "{other}");
    }
    let systems = "\n[system.A]\n[system.B]\n";
    let apart = two(&format!("{stop}\nsystems = [\"A\"]"), "at = 5\nkind = \"kill\"\nsystems = [\"B\"]");
    assert!(good(&format!("{apart}{systems}")).plan().is_ok());
}

#[test]
fn faults_are_reported_at_their_own_places() {
    let text = "[[fault]]\nat = 5\nkind = \"renew_certificate\"\n[[fault]]\nat = 1\nkind = \"reload\"\n";
    assert!(
        refused(text).starts_with("x.toml:3:8: there is no certificate without TLS"),
        "{}",
        refused(text)
    );
}

#[test]
fn claim_on_values_without_the_system_is_refused() {
    let text = |at: &str, claim: &str| {
        format!(
            "[system.A]\n[system.B]\nat = {at}\n[factor]\nrate = [1, 2]\n[[claim]]\nthat = \"cpu of {claim}\"\n"
        )
    };
    let found = refused(&text("{ rate = 2 }", "A where rate = 2 at most 2 of B where rate = 1"));
    assert!(
        found.starts_with("x.toml:7:8: B does not run at rate = 1; compare with values at which"),
        "{found}"
    );
    let found = refused(&text("{ rate = 2 }", "B where rate = 2 at most 2 of B where rate = 1"));
    assert!(found.contains("B does not run at rate = 1"), "{found}");
    let runs = text("{ rate = 2 }", "A where rate = 1 at most 2 of B where rate = 2");
    assert!(good(&runs).plan().is_ok());
}

#[test]
fn search_that_would_be_ended_is_refused() {
    let search = |measure: &str| format!("measure = \"{measure}\"\n[workload]\nfind_peak = true\n");
    assert_eq!(
        refused(&search("4h")),
        "x.toml:1:11: a search of 60 trials may take 868320s: more than 7 days; \
         make `measure`, the length of a trial, shorter"
    );
    // Longer than an hour, which once ended it.
    let long = good(&search("10m"));
    assert!(long.plan().is_ok());
    assert_eq!(search_limit(&long.setups()[0]), std::time::Duration::from_secs(60 * (600 + 72)));
}

#[test]
fn keys_that_nothing_reads_are_refused_with_their_place() {
    for (text, found) in [
        (
            "[network]\nkind = \"namespaces\"\nqueue = 5",
            "x.toml:3:9: nothing reads `queue` here: it counts beside `rate` in [network]; write rate = 10",
        ),
        (
            "warm_up = 3\nwarm_up_limit = \"1m\"",
            "x.toml:2:17: nothing reads `warm_up_limit` here: it counts in",
        ),
        (
            "warm_up = 3\n[workload]\nfind_peak = true",
            "x.toml:1:11: nothing reads `warm_up` here: it counts in runs at one rate, or of users;",
        ),
        (
            "[workload]\nrate_max = 5",
            "x.toml:2:12: nothing reads `rate_max` here: it counts in a search of calls;",
        ),
        ("[workload]\nusers = 9\nmost_users = 99", "x.toml:3:14: nothing reads `most_users` here"),
        (
            "[workload]\nbackends = 5",
            "x.toml:2:12: nothing reads `backends` here: it counts where a system has",
        ),
        (
            "[workload]\nname_ttl = 5",
            "x.toml:2:12: nothing reads `name_ttl` here: it counts where a system asks",
        ),
        (
            "[workload]\ncallees = 0\nanswer = \"options\"",
            "x.toml:3:10: nothing reads `answer` here: it counts where there are callees or back ends;",
        ),
        (
            "[system.A]\nkind = \"relay\"\nworkers = 2",
            "x.toml:3:11: nothing reads `workers` here: it counts in",
        ),
        (
            "[system.A]\nkind = \"none\"\nstart_limit = 5",
            "x.toml:3:15: nothing reads `start_limit` here: it counts in systems that have a process;",
        ),
        (
            "[system.A]\nkind = \"command\"\ncommand = [\"x\"]\nconfig = \"y\"",
            "x.toml:4:10: nothing reads `config` here: it counts where a command names the file",
        ),
        (
            "[[fault]]\nat = 1\nkind = \"kill\"\nshare = 5",
            "x.toml:4:9: nothing reads `share` here: it counts in faults of the kind \"loss\";",
        ),
        ("[[fault]]\nat = 1\nkind = \"kill\"\nbackend = 2", "x.toml:4:11: nothing reads `backend` here"),
        ("[[fault]]\nat = 1\nkind = \"kill\"\ndelay = 5", "x.toml:4:9: nothing reads `delay` here"),
        ("[[fault]]\nat = 1\nkind = \"reload\"\nlasts = 5", "x.toml:4:9: nothing reads `lasts` here"),
        (
            "measure = 5\n[system.A]\nkind = \"echo\"\n[workload]\nassociations = 9",
            "x.toml:1:11: nothing reads `measure` here: it counts in runs that make calls;",
        ),
        (
            "[system.A]\nkind = \"echo\"\n[workload]\nassociations = 9\nworkers = 2",
            "x.toml:5:11: nothing reads `workers` here: it counts in runs that make calls;",
        ),
    ] {
        let said = refused(text);
        assert!(said.starts_with(found), "{text}\nfound: {said}\nnot:   {found}");
    }
}

#[test]
fn key_that_some_combination_reads_is_kept() {
    let text = "[factor]\nkind = [\"kill\", \"loss\"]\n[network]\nkind = \"namespaces\"\n\
                [[fault]]\nat = 1\nkind = \"${kind}\"\nshare = 5\n";
    assert!(good(text).plan().is_ok());
    // Nor is one refused that says what is so.
    assert!(good("[[fault]]\nat = 1\nkind = \"reload\"\nlasts = 0\n").plan().is_ok());
}

#[test]
fn results_of_an_earlier_version_stay_readable() {
    let text = "[workload]\nbackends = 5\n[[fault]]\nat = 1\nkind = \"kill\"\nshare = 5\n";
    let experiment = good(text);
    assert!(experiment.plan().is_err());
    assert!(!experiment.plan_as_kept().runs().is_empty());
}
