//! What good experiments mean.

use super::*;
use std::time::Duration;

#[test]
fn empty_file_is_an_experiment() {
    let experiment = good("");
    let setup = &experiment.setups()[0];
    assert_eq!(setup.systems.keys().collect::<Vec<_>>(), ["this"]);
    assert_eq!(setup.systems["this"], System::default());
    assert_eq!((&setup.workload, &setup.measuring), (&Workload::default(), &Measuring::default()));
    assert_eq!(experiment.controls(), ["this"]);
    let names: Vec<String> = experiment.subjects().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["this", "this.again"]);
    assert_eq!(experiment.plan().unwrap().runs().len(), 2 * 7);
}

#[test]
fn ten_lines_compare_two_builds() {
    let experiment = good(
        r#"question = "Is B slower than A?"

[system.A]
binary = "/usr/bin/strowger"
[system.B]

[workload]
rate = 2000
[[claim]]
that = "cpu/call of B at most 1.05 of A"
"#,
    );
    assert_eq!(experiment.question(), "Is B slower than A?");
    assert_eq!(experiment.controls(), ["A"]);
    let names: Vec<String> = experiment.subjects().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["A", "A.again", "B"]);
    assert_eq!(experiment.setups()[0].workload.rate, 2_000.0);
    assert_eq!(experiment.claims()[0].to_string(), "cpu/call of B at most 1.05 of A");
}

#[test]
fn every_key_is_read() {
    let experiment = good(
        r#"
question = """  all
  keys """
repetitions = 3
seed = 9
control = "b"
warm_up = "4s"
warm_up_limit = 40
measure = "20s"
[hosts]
system = "local"
load = "local"
[workload]
scenario = "proxy200_auth"
answer = "uas"
rate = 12.5
arrivals = "even"
transport = "tls"
connections = "each"
callees = 50
backends = 3
hold = "250ms"
authenticate = true
workers = 2
options = ["--grain", "0"]
[system.a]
kind = "command"
command = ["./server", "${config}", "${ip}:${port}"]
config = "listen ${ip}\n"
environment = ["A=b=c"]
workers = 4
cpus = [0, 2]
start_limit = "30s"
[system.b]
kind = "balance"
[[fault]]
at = "15s"
kind = "reload"
systems = ["a"]
[[fault]]
at = 5
kind = "stop"
place = "backend"
backend = 3
systems = ["b"]
lasts = "300ms"
every = "5s"
"#,
    );
    let setup = &experiment.setups()[0];
    assert_eq!(experiment.question(), "all keys");
    assert_eq!((experiment.seed(), experiment.controls()), (9, &["b".to_owned()][..]));
    assert_eq!(setup.measuring.warm_up, WarmUp::Fixed(Duration::from_secs(4)));
    let workload = &setup.workload;
    assert_eq!((workload.rate, workload.transport), (12.5, Transport::Tls));
    assert_eq!((workload.arrivals, workload.connections), (ArrivalTimes::Even, Connections::Each));
    assert_eq!(workload.hold, Duration::from_millis(250));
    let system = &setup.systems["a"];
    assert_eq!(system.command, ["./server", "${config}", "${ip}:${port}"]);
    assert_eq!((system.kind, system.workers, &*system.cpus), (SystemKind::Command, 4, &[0, 2][..]));
    assert_eq!(system.environment, ["A=b=c"]);
    // By time, not as written.
    assert_eq!(setup.faults[0].kind, FaultKind::Stop);
    let times = setup.faults[0].times(setup.measuring.measure);
    assert_eq!(times, [5, 10, 15].map(Duration::from_secs));
    assert!(setup.faults[0].concerns("b") && !setup.faults[0].concerns("a"));
    assert_eq!(experiment.plan_as_kept().blocks(), 3);
    // All of them at once are too many.
    let refused = listed(&experiment.plan().unwrap_err());
    assert!(refused.starts_with("x.toml:8:17: nothing reads `warm_up_limit` here"), "{refused}");
    assert_eq!(refused.lines().count(), 1, "{refused}");
}

#[test]
fn factors_are_combined_and_replaced_anywhere() {
    let experiment = good(
        r#"
[factor]
rate = [500, 1000]
on = [true, false]
way = ["udp", "tcp"]
[workload]
rate = "${rate}"
transport = "${way}"
[system.A]
config = """
[overload]
enabled = ${on}  # at ${ip}, $${not_a_factor}
"""
"#,
    );
    let setups = experiment.setups();
    assert_eq!(setups.len(), 8);
    let last = &setups[7];
    assert_eq!(last.combination.to_string(), "on = false, rate = 1000, way = tcp");
    assert_eq!((last.workload.rate, last.workload.transport), (1_000.0, Transport::Tcp));
    let config = "[overload]\nenabled = false  # at ${ip}, ${not_a_factor}\n";
    assert_eq!(last.systems["A"].config, config);
    let runs = experiment.plan().unwrap();
    assert_eq!(runs.runs().len(), 7 * 8 * 2);
}

#[test]
fn factor_named_like_a_key_of_the_workload_sets_it() {
    let experiment = good("[factor]\nrate = [500, 1000]\ntransport = 'tcp'\n");
    let rates: Vec<f64> = experiment.setups().iter().map(|setup| setup.workload.rate).collect();
    assert_eq!(rates, [500.0, 1_000.0]);
    assert!(experiment.setups().iter().all(|setup| setup.workload.transport == Transport::Tcp));
}

#[test]
fn answering_side_follows_from_the_scenario() {
    let answer = |text: &str| good(text).setups()[0].workload.answer.clone();
    assert_eq!(answer("workload.scenario = 'uac'").as_deref(), Some("uas"));
    assert_eq!(answer("workload.scenario = 'options'"), None);
    assert_eq!(answer("workload.scenario = 'proxy200'").as_deref(), Some("uas"));
    assert_eq!(answer("workload.scenario = 'message'\nworkload.answer = 'uas'").as_deref(), Some("uas"));
    assert_eq!(answer("workload.answer = 'none'"), None);
}

#[test]
fn budget_replaces_repetitions() {
    // A block of two runs takes 2 * (3 + 30 + 1 + 10) seconds at most.
    assert_eq!(good("budget = '10m'").plan().unwrap().blocks(), 6);
    assert_eq!(good("budget = '1h'").plan().unwrap().blocks(), 40);
}

#[test]
fn name_of_an_experiment_changes_with_what_is_measured() {
    let base = good("[workload]\nrate = 1000\n").id();
    // Neither layout, nor a default that is written, nor what is asked, nor how often.
    for same in ["", "workload.rate = 1_000.0 # calls", "question = 'x'", "repetitions = 9", "budget = '1h'"]
    {
        assert_eq!(good(same).id(), base, "{same}");
    }
    assert_eq!(good("[[claim]]\nthat = 'cpu at most 90%'\n").id(), base);
    let others =
        ["seed = 2", "measure = '11s'", "[system.this]\nworkers = 2", "[system.that]", "factor.rate = 1000"];
    for other in others {
        assert_ne!(good(other).id(), base, "{other}");
    }
}

#[test]
fn effective_setup_reads_as_the_same_experiment() {
    let texts = [
        "",
        "[factor]\nrate = 5\nhold = '2s'\n[system.A]\nconfig = \"a\\n\\\"b\\\" \\\\ ${ip}\"\n",
        "[system.k]\nkind = 'kamailio'\nconfig = 'x'\n[[fault]]\nat = 1\nkind = 'kill'\nevery = '1500ms'\n",
        "[system.A]\nconfig = '$${x} ${ip} $$${ip} $$${y} $$ {'\nenvironment = 'A=$${b'\n",
        "workload.options = ['$${x}', '$${ip}']\n",
        "workload.scenario = 'options'\nwarm_up = 'steady'\n",
    ];
    for text in texts {
        let mut setup = good(text).setups()[0].clone();
        let again = good(&setup.to_toml());
        setup.combination = Combination::default();
        assert_eq!(again.setups(), [setup], "{text}");
        assert_eq!(good(&again.setups()[0].to_toml()).id(), again.id());
    }
}

#[test]
fn plan_shows_what_is_compared_and_the_order() {
    let experiment = good(
        "question = 'why'\nrepetitions = 2\nwarm_up = 5\n[factor]\nrate = [1, 2]\n[[claim]]\nthat = 'calls/s at least 1/s'\n",
    );
    let plan = experiment.plan().unwrap();
    let text = experiment.plan_text(&experiment.plan().unwrap(), None);
    let head: Vec<&str> = text.lines().take(8).collect();
    assert_eq!(head[0], "question    why");
    assert_eq!(head[2], "systems     this, this.again (A/A control: this runs twice)");
    assert_eq!(head[3], "factor      rate = 1, 2");
    assert_eq!(head[4], "claim       calls/s of this at least 1/s");
    assert_eq!(head[5], "runs        8 in 2 blocks of 4");
    // 8 * (4 + 5 + 10) seconds.
    assert_eq!(head[6], "time        3 minutes");
    assert_eq!(
        head[7],
        "shows       no verdict: 2 blocks are too few for 2 claims; write repetitions = 7 or more"
    );
    assert_eq!(text.matches("this.again at rate = 2").count(), 2, "{text}");
    let json = experiment.plan_json(&experiment.plan().unwrap(), None);
    assert_eq!(json["runs"].as_array().unwrap().len(), 8);
    assert_eq!(json["runs"][0]["id"], plan.runs()[0].id().to_string());
    assert_eq!(json["seconds"]["most"], 152.0);
}

#[test]
fn plan_says_which_difference_it_can_show() {
    let experiment = good("repetitions = 10");
    let found = experiment.detectable(Spread::Assumed { relative: 0.02 }).unwrap();
    assert!(
        experiment.plan_text(&experiment.plan().unwrap(), None).contains(&format!("shows       {found}\n"))
    );
    assert_eq!(experiment.plan_json(&experiment.plan().unwrap(), None)["detectable"]["factor"], found.factor);
}

#[test]
fn plan_with_earlier_looks_shows_less() {
    let experiment = good("repetitions = 24");
    assert_eq!(
        experiment.schedule(&[]).looks().iter().map(|look| look.blocks).collect::<Vec<_>>(),
        [12, 18, 24]
    );
    let spread = Spread::Assumed { relative: 0.02 };
    let without = detectable(spread, 24, Goal::new(0.95, 0.8)).unwrap();
    assert!(experiment.detectable(spread).unwrap().factor > without.factor);
}

#[test]
fn repetitions_are_enough_for_all_claims() {
    let blocks = |claims: usize| {
        let claim = "[[claim]]\nthat = 'cpu at most 9%'\n".repeat(claims);
        good(&format!("[factor]\nrate = [1, 2]\n{claim}")).plan().unwrap().blocks()
    };
    // 2 / 2^n below 5 % for each verdict, of which there are two for a claim at two rates; one is to spare.
    assert_eq!([blocks(0), blocks(1), blocks(2), blocks(16)], [7, 8, 9, 12]);
}

#[test]
fn capacity_and_algorithm_can_be_factors() {
    let experiment = good(
        r#"[system.balancer]
kind = "balance"
config = """
[balance]
algorithm = "${algorithm}"
"""
[factor]
algorithm = ["hash", "tlwl"]
capacity = [0, 300]
"#,
    );
    let found: Vec<(String, Vec<f64>, bool)> = experiment
        .setups()
        .iter()
        .map(|setup| {
            let config = setup.systems["balancer"].config.clone();
            (config, setup.workload.capacity.clone(), setup.workload.has_capacity())
        })
        .collect();
    let config = |name: &str| format!("[balance]\nalgorithm = \"{name}\"\n");
    let both = |name: &str| [(config(name), vec![0.0], false), (config(name), vec![300.0], true)];
    assert_eq!(found, [both("hash"), both("tlwl")].concat());
}

#[test]
fn rival_that_names_back_ends_has_some() {
    let rival = "kind = \"command\"\ncommand = [\"sipd\", \"--to\", \"${backends}\"]\n";
    let experiment = good(&format!("[system.rival]\n{rival}[workload]\ncapacity = [300, 150]\n"));
    assert!(experiment.setups()[0].systems["rival"].has_backends());
    assert!(!good("").setups()[0].systems["this"].has_backends());
}

#[test]
fn warm_up_until_steady_takes_what_its_samples_take() {
    let seconds = |text: &str| {
        let bounds = good(text).setups()[0].measuring.warm_up_bounds();
        (bounds.0.as_secs(), bounds.1.as_secs())
    };
    // Sixteen samples of a second, the rest of the second before them, and a second for the rate.
    assert_eq!(seconds(""), (18, 31));
    assert_eq!(seconds("warm_up = '4s'"), (4, 4));
    let refused = listed(&read("warm_up_limit = '9s'").unwrap_err());
    assert!(refused.starts_with("x.toml:1:"), "{refused}");
    assert!(
        refused.contains("no series is found steady within 9s; write warm_up_limit = \"17s\" or more"),
        "{refused}"
    );
    assert_eq!(seconds("warm_up_limit = '9s'\nwarm_up = '9s'"), (9, 9));
}
