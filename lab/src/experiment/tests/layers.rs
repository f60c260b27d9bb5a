//! Which layer counts, and what is said of it.

use super::*;
use std::path::Path;

fn files(path: &Path) -> Result<String, String> {
    match path.strip_prefix("/home").unwrap_or(path).to_str() {
        Some("lab/systems/b.toml") => {
            Ok("workers = 4\nbinary = 'bin/strowger'\nconfig_file = 'b.cfg'\n".to_owned())
        }
        Some("lab/systems/b.cfg") => Ok("port ${port} rate ${rate}\n".to_owned()),
        Some("lab/calls.xml") => Ok("<scenario/>".to_owned()),
        _ => Err("no such file".to_owned()),
    }
}

fn sources(text: &str) -> Sources<'static> {
    Sources::new("lab/x.toml", text).with_files(files)
}

#[test]
fn higher_layers_win() {
    let text = "measure = '11s'\nworkload.rate = 1\nworkload.callees = 1\nworkload.workers = 3\n";
    let personal = "workload.rate = 2\nworkload.callees = 2\n[system.other]\nworkers = 9\n";
    let sources =
        sources(text).with_personal("me.toml", personal).with_options(["workload.rate=3", "seed = 5"]);
    let experiment = Experiment::read(&sources).unwrap();
    let setup = &experiment.setups()[0];
    assert_eq!((setup.workload.rate, setup.workload.callees, setup.workload.workers), (3.0, 2, 3));
    assert_eq!(experiment.seed(), 5);
    // The personal file adds no system.
    assert_eq!(setup.systems.keys().collect::<Vec<_>>(), ["this"]);
    let origin = |key: &str| {
        let setting = experiment.settings().iter().find(|setting| setting.key == key);
        setting.map(|setting| format!("{} {}", setting.value, setting.origin)).unwrap()
    };
    assert_eq!(origin("workload.rate"), "3 command line --set workload.rate=3");
    assert_eq!(origin("workload.callees"), "2 personal file me.toml:2:20");
    assert_eq!(origin("measure"), "11 experiment lab/x.toml:1:11");
    assert_eq!(origin("workload.backends"), "2 default");
    assert!(experiment.settings_text().contains("measure = 11  # experiment lab/x.toml:1:11\n"));
}

#[test]
fn file_of_a_system_is_below_the_experiment() {
    let text = "[factor]\nrate = [7]\n[system.B]\nfile = 'systems/b.toml'\nworkers = 2\n";
    let experiment = Experiment::read(&sources(text)).unwrap();
    let system = &experiment.setups()[0].systems["B"];
    assert_eq!(system.workers, 2);
    // Paths start at the file that they are written in.
    assert_eq!(system.binary.as_deref(), Some(Path::new("lab/systems/bin/strowger")));
    assert_eq!(system.config, "port ${port} rate 7\n");
    // A factor that a template has does not set the key of the workload besides.
    assert_eq!(experiment.setups()[0].workload.rate, 1_000.0);
    let origin = experiment.settings().iter().find(|s| s.key == "system.B.binary").unwrap();
    assert_eq!(origin.origin.to_string(), "system file lab/systems/b.toml:2:10");
}

#[test]
fn configuration_of_a_higher_layer_replaces_the_file() {
    let text = "[system.B]\nfile = 'systems/b.toml'\nconfig = 'mine'\n[factor]\nrate = 1\n";
    let experiment = Experiment::read(&sources(text)).unwrap();
    assert_eq!(experiment.setups()[0].systems["B"].config, "mine");
}

#[test]
fn configuration_beside_a_file_comes_first() {
    let text = "[system.B]\nconfig = \"first\\n\"\nconfig_file = 'systems/b.cfg'\n[factor]\nrate = 1\n";
    let experiment = Experiment::read(&sources(text)).unwrap();
    assert_eq!(experiment.setups()[0].systems["B"].config, "first\nport ${port} rate 1\n");
    let kept = Experiment::read(&Sources::new("y.toml", experiment.to_toml())).unwrap();
    assert_eq!(kept.id(), experiment.id());
}

#[test]
fn option_adds_systems_and_factors() {
    let options = ["system.B.binary=./b", "factor.rate=[1, 2]", "question=which one is it?"];
    let sources = sources("[system.A]\nbinary = 'a'\n").with_options(options);
    let experiment = Experiment::read(&sources).unwrap();
    let systems = &experiment.setups()[1].systems;
    assert_eq!(systems["A"].binary.as_deref(), Some(Path::new("a")));
    assert_eq!(systems["B"].binary.as_deref(), Some(Path::new("./b")));
    assert_eq!(experiment.setups()[1].workload.rate, 2.0);
    assert_eq!(experiment.question(), "which one is it?");
}

#[test]
fn repetitions_and_budget_of_different_layers_do_not_clash() {
    let blocks = |text: &str, option: &str| {
        Experiment::read(&sources(text).with_options([option])).unwrap().plan().unwrap().blocks()
    };
    assert_eq!(blocks("budget = '1h'", "repetitions=3"), 3);
    assert_eq!(blocks("repetitions = 3", "budget=1h"), 40);
}

#[test]
fn claims_and_faults_of_a_layer_replace_those_below() {
    let text = "[[claim]]\nthat = 'cpu at most 1%'\n[[fault]]\nat = 1\nkind = 'kill'\n";
    let option = "claim=[{that=\"cpu at most 2%\"}, {that=\"memory at most 1 GiB\"}]";
    let experiment = Experiment::read(&sources(text).with_options([option, "fault=[]"])).unwrap();
    let claims: Vec<String> = experiment.claims().iter().map(ToString::to_string).collect();
    assert_eq!(claims, ["cpu of this at most 2%", "memory of this at most 1024 MiB"]);
    assert!(experiment.setups()[0].faults.is_empty());
    // Claims that are replaced may be about values that a factor no longer has.
    let text = "[factor]\nrate = [1, 2]\n[[claim]]\nthat = 'success at least 99% at 2/s'\n";
    let options = ["factor.rate=[5]", "claim=[]"];
    let experiment = Experiment::read(&sources(text).with_options(options));
    assert!(experiment.unwrap_or_else(|errors| panic!("{}", listed(&errors))).claims().is_empty());
}

#[test]
fn scenario_file_is_part_of_what_is_measured() {
    let experiment = Experiment::read(&sources("workload.scenario = 'calls.xml'")).unwrap();
    let setup = &experiment.setups()[0];
    assert_eq!(setup.workload.scenario, "lab/calls.xml");
    assert_eq!(setup.inputs[0].0, "lab/calls.xml");
    let other = Sources::new("lab/x.toml", "workload.scenario = 'calls.xml'")
        .with_files(|_| Ok("<other/>".to_owned()));
    assert_ne!(Experiment::read(&other).unwrap().id(), experiment.id());
}

#[test]
fn injection_files_start_at_the_document_and_are_measured() {
    let text = "workload.rows = 'calls.csv'\nworkload.registrations = 'calls/own.csv'\n";
    let own = Sources::new("lab/x.toml", text).with_files(|_| Ok("own".to_owned()));
    let experiment = Experiment::read(&own).unwrap_or_else(|errors| panic!("{}", listed(&errors)));
    let setup = &experiment.setups()[0];
    let inputs: Vec<&str> = setup.inputs.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(inputs, ["lab/calls.csv", "lab/calls/own.csv"]);
    assert!(
        experiment.to_toml().contains("registrations = \"lab/calls/own.csv\""),
        "{}",
        experiment.to_toml()
    );
    let other = Sources::new("lab/x.toml", text).with_files(|_| Ok("other".to_owned()));
    assert_ne!(Experiment::read(&other).unwrap().id(), experiment.id());
}

#[test]
fn mistakes_in_layers_are_reported_together() {
    let text = "measur = 1\n[system.B]\nfile = 'none.toml'\n[system.C]\nconfig_file = 'systems/b.cfg'\n";
    let options = ["workload.rat=1", "workload.rate", "a b=c"];
    let errors = Experiment::read(&sources(text).with_options(options)).unwrap_err();
    assert_eq!(
        listed(&errors),
        "--set workload.rate: not KEY=VALUE; write it as --set workload.rate=2000\n\
         --set a b=c: key with no value, expected `=`"
    );
    let errors = Experiment::read(&sources(text).with_options(["workload.rat=1"])).unwrap_err();
    assert_eq!(
        listed(&errors),
        "lab/x.toml:1:1: unknown key `measur`; did you mean `measure`?\n\
         lab/x.toml:3:8: cannot read lab/none.toml: no such file; correct the path: it starts at this file\n\
         lab/x.toml:5:15: lab/systems/b.cfg: no factor `rate`; one of ip, port, tls_port, workers, folder, config, \
         domain, users, mailbox, generator, backends, backend_list, database, database_address, \
         database_socket, resolver, certificate, key; write `$${` for `${`\n\
         --set workload.rat=1: unknown key `rat` in [workload]; did you mean `rate`?"
    );
}

#[test]
fn effective_text_reads_as_the_same_experiment() {
    let text = "question = \"a \\\"b\\\"\"\n[factor]\nrate = [7, 8.5]\nname = ['x']\n[workload]\nscenario = 'calls.xml'\n\
                [system.B]\nfile = 'systems/b.toml'\nenvironment = 'N=${name}'\n[system.C]\nbinary = '../c'\n\
                [[claim]]\nthat = 'cpu of B within 5% of C where rate = 7'\n[[fault]]\nat = 1\nkind = 'kill'\n";
    let whole = |sources: Sources<'static>| sources.with_files(files).with_folder(Path::new("/home"));
    let first = whole(Sources::new("lab/x.toml", text))
        .with_personal(
            "/etc/me.toml",
            "measure = '12s'\n[system.B]\nworkers = 3\n[system.none]\nworkers = 4\n",
        )
        .with_options(["seed=0x11", "system.D.binary=./d"]);
    let first = Experiment::read(&first).unwrap_or_else(|errors| panic!("{}", listed(&errors)));
    let kept = whole(Sources::new("x.lab/experiment.toml", first.to_toml()));
    let kept =
        Experiment::read(&kept).unwrap_or_else(|errors| panic!("{}\n{}", listed(&errors), first.to_toml()));
    assert_eq!(kept.setups(), first.setups());
    assert_eq!((kept.id(), kept.claims(), kept.question()), (first.id(), first.claims(), "a \"b\""));
    assert_eq!(kept.plan().unwrap(), first.plan().unwrap());
    assert_eq!(kept.to_toml(), first.to_toml());
    let binary = |name: &str| first.setups()[0].systems[name].binary.as_deref().and_then(Path::to_str);
    assert_eq!(binary("B"), Some("/home/lab/systems/bin/strowger"));
    assert_eq!((binary("C"), binary("D")), (Some("/home/lab/../c"), Some("/home/./d")));
}
