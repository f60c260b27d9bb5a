//! Channels, calls a second, priorities and weights of trunks.

use super::*;

fn trunk(rest: &str) -> String {
    format!("[[trunk]]\nname = 'pbx'\nprefixes = ['0']\n{rest}\n")
}

#[test]
fn weighted_targets_are_read_and_shown() {
    let targets =
        "targets = [{ uri = 'sip:192.0.2.1', weight = 30 }, { uri = 'sip:192.0.2.2', priority = 2 }]";
    let config = good(&trunk(&format!("{targets}\nchannels = 10\ncalls_per_second = 3")));
    let settings = config.trunks[0].settings();
    assert_eq!(settings.weights, [(1, 30), (2, 1)]);
    assert_eq!((settings.limits.channels, settings.limits.calls_per_second), (10, 3));
    let text = config.render_effective();
    let shown = "{ uri = \"sip:192.0.2.1\", priority = 1, weight = 30 }";
    assert!(text.contains(shown) && text.contains("channels = 10\n"), "{text}");
}

#[test]
fn plain_targets_have_no_weights_and_no_limits() {
    let settings = good(&trunk("targets = ['sip:192.0.2.1', 'sip:192.0.2.2']")).trunks[0].settings();
    assert!(settings.weights.is_empty() && settings.limits == sip_node::LineLimits::default());
}

#[test]
fn weights_that_are_not_clear_are_refused() {
    for (targets, expected) in [
        ("['sip:192.0.2.1', { uri = 'sip:192.0.2.2' }]", "others have none"),
        ("[{ uri = 'sip:192.0.2.1' }, { uri = 'sip:192.0.2.1', weight = 2 }]", "duplicate target"),
        ("[{ weight = 2 }]", "target without uri"),
        ("[{ uri = 'sip:192.0.2.1', weigth = 2 }]", "unknown key \"weigth\" of a target"),
        ("[{ uri = 'sip:192.0.2.1', weight = 65536 }]", "65536 is out of range"),
        ("[{ uri = 'sip:192.0.2.1', priority = 'x' }]", "expected a number"),
        ("[{ uri = 'http://192.0.2.1' }]", "is not a SIP URI"),
    ] {
        let found = errors(&trunk(&format!("targets = {targets}")));
        assert!(found.contains(expected), "{targets}: {found}");
    }
}

#[test]
fn limits_that_cannot_be_kept_are_refused() {
    for (proxy, key, expected) in [
        ("mode = 'stateless'", "channels = 2", "has channels, which only a stateful proxy"),
        ("mode = 'redirect'", "calls_per_second = 2", "has calls_per_second, which only a stateful proxy"),
        ("record_route = false", "channels = 2", "the end of calls is not seen"),
    ] {
        let found =
            errors(&format!("[proxy]\n{proxy}\n{}", trunk(&format!("targets = ['sip:192.0.2.1']\n{key}"))));
        assert!(found.contains(expected), "{proxy} {key}: {found}");
    }
    let rate = trunk("targets = ['sip:192.0.2.1']\ncalls_per_second = 2");
    good(&format!("[proxy]\nrecord_route = false\n{rate}"));
    assert!(errors(&trunk("targets = ['sip:192.0.2.1']\nchannels = 0")).contains("0 is out of range"));
}
