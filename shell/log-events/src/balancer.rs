//! Events of `balance`: its nodes and their names.

use std::fmt::Display;

events! {
    info ending_later(delay: &dyn Display)
        "about to end: calls are served until then; a second signal ends at once"
        "";
    error ending_broken()
        "a worker has failed: ending, to be started again"
        "See the line of the panic before it.";
    info balancer_draining()
        "draining by request: no new calls; SIGTERM ends the balancer"
        "";
    info node_changed(node: &str, name: &str, weight: u32, rank: u16)
        "node changed"
        "";
    warn node_not_taken(name: &str; error: &dyn Display)
        "{error}"
        "Correct the DNS records of that name, or `nodes` in `[balance]`.";
    info node_added(node: &str)
        "node added"
        "";
    info node_of_name_added(node: &str, name: &str, weight: u32, rank: u16)
        "node added"
        "";
    warn nodes_unchanged(name: &dyn Display, why: &str)
        "nodes stay as they are"
        "Correct what the line names: the DNS server, or the records of that name.";
    info node_removed(node: &str)
        "node removed"
        "";
    info node_of_name_removed(node: &str, name: &str)
        "node removed"
        "";
    info node_up(node: &str)
        "node is up again"
        "";
    info removed_node_down(node: &str, why: &str)
        "removed node is down"
        "";
    warn node_down(node: &str, why: &str)
        "node is down: new calls go elsewhere"
        "Check that node and the network to it. `strowger ctl nodes` shows all.";
    info node_ordered(node: &str, order: &str)
        "node ordered"
        "";
    info algorithm_changed(algorithm: &str)
        "algorithm changed"
        "";
}
