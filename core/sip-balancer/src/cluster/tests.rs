//! Who takes calls, and who does not.

use super::*;

#[test]
fn an_id_depends_on_the_address_alone() {
    let node = |address: &str, weight| Node { weight, ..Node::new(address.parse().unwrap()) };
    let a = node("192.0.2.1:5060", 1).id();
    assert_eq!(a, node("192.0.2.1:5060", 7).id());
    assert_eq!(a, node("[::ffff:192.0.2.1]:5060", 1).id());
    assert_ne!(a, node("192.0.2.1:5061", 1).id());
    assert_ne!(a, node("192.0.2.2:5060", 1).id());
}

#[test]
fn one_failure_after_another_takes_a_node_out_and_a_sign_of_life_starts_anew() {
    let cluster = of(2);
    let (now, node) = (Time::ZERO, NodeIndex(1));
    let failed = |times: u32| (0..times).for_each(|_| cluster.failed(now, node, Why::Silent, 3, None));
    failed(2);
    cluster.heard(now, node);
    failed(2);
    assert!(cluster.takes_calls(now, node));
    let before = cluster.generation();
    failed(1);
    // No new calls; what it has, it keeps until probes say that it is down.
    assert!(!cluster.takes_calls(now, node) && cluster.is_usable(now, node));
    assert_eq!((cluster.health(node), cluster.falls(node)), ((Health::Up, Why::Silent), 0));
    assert_ne!(cluster.generation(), before);
    let take_wish = |at| cluster.vital(at).is_some_and(Vital::take_wish);
    assert_eq!((take_wish(node), take_wish(node)), (true, false));
    cluster.heard(now, node);
    assert!(cluster.takes_calls(now, node));
    // A late answer alone does not bring back what probes took down.
    cluster.set_down(node, Why::ProbeTimeout);
    cluster.heard(now, node);
    assert!(!cluster.is_usable(now, node));
    cluster.set_up(node);
    assert!(cluster.takes_calls(now, node));
}

#[test]
fn the_last_node_is_taken_by_probes_alone() {
    let cluster = of(2);
    let (now, rest) = (Time::from_secs(9), Duration::from_secs(5));
    cluster.set_down(NodeIndex(0), Why::ProbeTimeout);
    for rest in [None, Some(rest)] {
        (0..9).for_each(|_| cluster.failed(now, NodeIndex(1), Why::Silent, 3, rest));
        assert!(cluster.takes_calls(now, NodeIndex(1)), "{rest:?}");
    }
    cluster.set_down(NodeIndex(1), Why::ProbeTimeout);
    assert!(!cluster.is_usable(now, NodeIndex(1)));
    // Where nobody probes any more, nothing would bring them back.
    cluster.forget_probes();
    assert!(cluster.indexes().all(|at| cluster.takes_calls(now, at)));
}

#[test]
fn where_nobody_probes_a_silent_node_is_out_after_as_many_failures_and_for_a_while() {
    let cluster = of(2);
    let (now, node, rest) = (Time::from_secs(9), NodeIndex(1), Duration::from_secs(5));
    let failed = |times: u32| (0..times).for_each(|_| cluster.failed(now, node, Why::Silent, 3, Some(rest)));
    failed(2);
    assert!(cluster.takes_calls(now, node));
    failed(1);
    assert!(!cluster.takes_calls(now, node) && !cluster.is_usable(now, node));
    assert_eq!(cluster.resting_until(now, node), Some(now + rest));
    assert!(cluster.is_usable(now + rest, node) && cluster.takes_calls(now + rest, node));
}

#[test]
fn a_share_grows_after_a_fall_and_not_at_the_start() {
    let cluster = of(1);
    let (node, ramp) = (NodeIndex(0), Duration::from_secs(10));
    let share = |seconds: u64| cluster.share(Time::from_secs(seconds), node, ramp);
    assert_eq!(share(1), 1_000);
    cluster.came_up(Time::from_secs(5), node);
    assert_eq!(share(6), 1_000, "it was never down");
    cluster.set_down(node, Why::ProbeTimeout);
    cluster.came_up(Time::from_secs(100), node);
    assert_eq!([share(100), share(102), share(105), share(110)], [100, 200, 500, 1_000]);
    assert_eq!(cluster.share(Time::from_secs(100), node, Duration::ZERO), 1_000);
}

#[test]
fn orders_and_rests_keep_new_calls_away() {
    let cluster = of(2);
    let (now, node) = (Time::from_secs(10), NodeIndex(0));
    cluster.set_order(node, Order::Drain);
    assert!(!cluster.takes_calls(now, node) && cluster.is_usable(now, node));
    cluster.set_order(node, Order::Maintenance);
    assert!(!cluster.is_usable(now, node));
    cluster.set_order(node, Order::Serve);
    cluster.set_up(node);
    cluster.rest(now, node, Duration::from_secs(5), Why::Overloaded);
    // A probe that is answered ends no rest, and what is over is no reason.
    cluster.set_up(node);
    assert_eq!(cluster.reason(now, node), Why::Overloaded);
    assert_eq!(cluster.reason(now + Duration::from_secs(5), node), Why::Answered);
    assert!(!cluster.takes_calls(now, node) && cluster.is_usable(now, node));
    assert!(cluster.takes_calls(now + Duration::from_secs(5), node));
}
#[test]
fn nodes_come_and_go_and_no_id_ever_means_another() {
    let cluster = of(MOST_NODES as u16 - 1);
    let now = Time::from_secs(1_000);
    let node = |i: u8| Node::new(SocketAddr::new([198, 51, 100, i].into(), 5060));
    let first = cluster.add(now, &node(1)).unwrap();
    assert_eq!(cluster.add(now, &node(1)), Err(NotAdded::There));
    assert_eq!(cluster.add(now, &node(2)), Err(NotAdded::Full));
    cluster.loads().publish_held(0, first, 1);
    cluster.remove(now, first);
    assert!(!cluster.takes_calls(now, first) && cluster.is_usable(now, first));
    assert_eq!(cluster.by_id(node(1).id()), Some(first));
    // Its calls keep its place, and for a while it keeps it by itself.
    let later = now + Duration::from_secs(64);
    assert_eq!(cluster.add(later, &node(2)), Err(NotAdded::Full));
    cluster.loads().publish_held(0, first, 0);
    assert_eq!(cluster.add(now, &node(2)), Err(NotAdded::Full));
    assert_eq!(cluster.members().count(), MOST_NODES - 1);
    assert_eq!(cluster.add(later, &node(2)), Ok(first));
    assert_eq!((cluster.by_id(node(1).id()), cluster.by_id(node(2).id())), (None, Some(first)));
    // Removed and added again it is where it was.
    cluster.remove(later, first);
    assert_eq!(cluster.add(later, &Node { weight: 3, ..node(2) }), Ok(first));
    assert!(cluster.takes_calls(later, first) && cluster.weight(first) == 3);
}

#[test]
fn a_removed_node_is_forgotten_in_the_end_and_trusted_until_then() {
    let cluster = of(2);
    let (now, at, other) = (Time::from_secs(1_000), NodeIndex(0), NodeIndex(1));
    let (node, after) = (cluster.node(at).unwrap(), Duration::from_secs(3_600));
    cluster.remove(now, at);
    cluster.loads().publish_held(0, at, 1);
    let known =
        |cluster: &Cluster| (cluster.by_id(node.id()).is_some(), cluster.is_node_ip(node.address.ip()));
    // As long as anything names it, and then for so long.
    for (time, held) in [(9_000, 1), (3_599, 0)] {
        cluster.loads().publish_held(0, at, held);
        cluster.forget_removed(now + Duration::from_secs(time), after);
        assert_eq!(known(&cluster), (true, true));
    }
    cluster.forget_removed(now + after, after);
    assert_eq!((known(&cluster), cluster.node(at)), ((false, false), None));
    assert!(cluster.node(other).is_some() && cluster.indexes().len() == 2);
    assert!(!cluster.takes_calls(now + after, at));
    // A shorter time than its last messages may be under way is none.
    cluster.remove(now, other);
    cluster.forget_removed(now + Duration::from_secs(63), Duration::ZERO);
    assert!(cluster.node(other).is_some());
    assert!(cluster.add(now + after, &node).is_ok());
    assert_eq!(known(&cluster), (true, true));
}

#[test]
fn a_node_is_read_as_it_was_written() {
    for (text, transport) in [
        ("192.0.2.9:5070", None),
        ("[2001:db8::1]:5060", Some(wire::Transport::Tcp)),
        ("[fe80::1%3]:5060", Some(wire::Transport::Udp)),
    ] {
        let node = Node { address: text.parse().unwrap(), transport, weight: 7 };
        let cluster = Cluster::new(vec![node], 1);
        assert_eq!(cluster.node(NodeIndex(0)), Some(node));
        assert_eq!(cluster.at(node.address), Some(NodeIndex(0)));
    }
}

#[test]
fn who_is_doubted_gets_no_calls_until_heard_and_the_last_one_keeps_them() {
    let cluster = of(2);
    let now = Time::from_secs(9);
    assert!(cluster.suspect(now, NodeIndex(0)) && !cluster.takes_calls(now, NodeIndex(0)));
    assert!(cluster.vital(NodeIndex(0)).is_some_and(Vital::take_wish));
    assert!(!cluster.suspect(now, NodeIndex(1)) && cluster.takes_calls(now, NodeIndex(1)));
    cluster.heard(now, NodeIndex(0));
    assert!(
        cluster.takes_calls(now, NodeIndex(0))
            && cluster.vital(NodeIndex(0)).map(Vital::heard_at) == Some(now)
    );
}

#[test]
fn who_is_left_gets_calls_though_it_rests_is_ejected_or_is_doubted() {
    let now = Time::from_secs(100);
    let get = |cluster: &Cluster| {
        cluster.indexes().filter(|at| cluster.gets_calls(now, *at)).map(|at| at.0).collect::<Vec<_>>()
    };
    for how in ["ejected", "overloaded", "by a probe", "silent"] {
        let cluster = of(3);
        let first = NodeIndex(0);
        let time = Duration::from_secs(60);
        match how {
            "ejected" => cluster.rest(now, first, time, Why::Outlier),
            "overloaded" => cluster.rest(now, first, time, Why::Overloaded),
            "by a probe" => cluster.rest_by_probe(now, first, time),
            _ => assert!(cluster.suspect(now, first)),
        }
        assert_eq!(get(&cluster), [1, 2], "{how}");
        cluster.set_order(NodeIndex(1), Order::Drain);
        assert_eq!(get(&cluster), [2], "{how}");
        cluster.set_down(NodeIndex(2), Why::ProbeTimeout);
        assert_eq!((get(&cluster), cluster.is_open(now)), (vec![0], true), "{how}");
        // What the operator says, and who is down, stays so.
        cluster.set_order(first, Order::Maintenance);
        assert_eq!((get(&cluster), cluster.is_open(now)), (vec![], false), "{how}");
    }
    // Who rests is rather asked than who has left requests without an answer.
    let cluster = of(3);
    assert!(cluster.suspect(now, NodeIndex(0)));
    cluster.rest(now, NodeIndex(1), Duration::from_secs(60), Why::Overloaded);
    cluster.set_order(NodeIndex(2), Order::Drain);
    assert_eq!(get(&cluster), [1]);
    // Where nobody probes, one that has failed counts as down for its time.
    let cluster = of(2);
    cluster.failed(now, NodeIndex(0), Why::Silent, 1, Some(Duration::from_secs(5)));
    cluster.set_order(NodeIndex(1), Order::Drain);
    assert!(get(&cluster).is_empty());
}
