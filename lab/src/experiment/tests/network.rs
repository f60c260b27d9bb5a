//! Networks, their faults, and names.

use super::*;
use std::time::Duration;

/// What is said of mistakes.
#[track_caller]
fn bad(text: &str) -> String {
    listed(&read(text).expect_err("it has mistakes"))
}

#[test]
fn network_is_read_and_part_of_what_is_measured() {
    let text = "[network]\nkind = \"namespaces\"\ndelay = \"20ms\"\nloss = 0.5\nrate = 10\nqueue = 50\n";
    let experiment = good(text);
    let network = &experiment.setups()[0].network;
    assert!(network.is_apart());
    assert_eq!((network.delay, network.loss), (Duration::from_millis(20), 0.5));
    assert_eq!((network.rate, network.queue), (10.0, 50));
    assert_ne!(experiment.id(), good("[network]\nkind = \"namespaces\"\n").id());
    let again = good(&experiment.setups()[0].to_toml());
    assert_eq!(&again.setups()[0].network, network);
    assert_eq!(good(experiment.to_toml()).id(), experiment.id());
}

#[test]
fn loopback_interface_has_no_faults_of_a_network() {
    assert_eq!(
        bad("[network]\ndelay = \"1ms\"\n"),
        "x.toml:2:9: the loopback interface has no `delay`; write kind = \"namespaces\" in [network]"
    );
    assert_eq!(
        bad("[[fault]]\nat = 1\nkind = \"partition\"\n"),
        "x.toml:3:8: the loopback interface has no \"partition\"; write kind = \"namespaces\" in [network]"
    );
}

#[test]
fn names_are_asked_for_by_systems_that_say_so() {
    let ask = "let its config name ${resolver}: [dns] servers = [\"${resolver}\"]";
    assert_eq!(
        bad("[[fault]]\nat = 1\nkind = \"withhold_dns\"\n"),
        format!("x.toml:3:8: this does not ask the DNS server of the lab; {ask}")
    );
    assert_eq!(
        bad("[workload]\ncontacts = \"name\"\n"),
        format!("x.toml:2:12: this does not ask the DNS server of the lab for the names of Contacts; {ask}")
    );
    good(
        "[workload]\ncontacts = \"name\"\n[system.this]\nconfig = 'servers = [\"${resolver}\"]'\n\
         [[fault]]\nat = 1\nkind = \"slow_dns\"\ndelay = \"300ms\"\n",
    );
}

#[test]
fn lost_datagrams_are_claimed_where_they_are_counted() {
    let claim = "[[claim]]\nthat = \"lost at most 0.1%\"\n";
    let refused = good(claim).plan().expect_err("the loopback interface loses none");
    assert_eq!(
        refused[0].to_string(),
        "x.toml:1:1: lost datagrams are counted over UDP between namespaces alone; \
         write kind = \"namespaces\" in [network], and transport = \"udp\""
    );
    let network = "[network]\nkind = \"namespaces\"\n";
    assert!(good(&format!("{network}{claim}")).plan().is_ok());
    let tcp = format!("{network}{claim}[workload]\ntransport = \"tcp\"\n");
    assert!(good(&tcp).plan().is_err());
}

#[test]
fn sink_has_a_receive_buffer_and_no_configuration() {
    let experiment =
        good("[system.plain]\nkind = \"sink\"\n[system.room]\nkind = \"sink\"\nreceive_buffer = 4194304\n");
    assert_eq!(experiment.setups()[0].systems["room"].receive_buffer, Some(4_194_304));
    let found = bad("[system.A]\nreceive_buffer = 4096\n[system.B]\nkind = \"sink\"\nconfig = \"x\"\n");
    assert!(found.contains("x.toml:2:18: a system of kind \"strowger\" has no `receive_buffer`"), "{found}");
    assert!(found.contains("x.toml:5:10: a sink has no configuration"), "{found}");
}
