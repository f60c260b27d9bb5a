//! `[[class]]`: what is read, and what is found wrong or doubtful.

use super::*;
use sip_node::call_limits::Rule;
use sip_node::number_routes::Digits;

const GOOD: &str = "domains = [\"example.com\"]\n[[domain]]\nname = \"example.com\"\nclass = \"staff\"\n[[class]]\n\
    name = \"staff\"\nallow = [\"+49\", \"+44\"]\ndeny = [\"+49900\", \"+449\"]\ntrunks = \"carrier\"\n\
    times = [\"mon-fri 07:00-19:00\"]\ntime_zone = \"UTC\"\nchannels = 3\ncalls_per_day = 100\n[[trunk]]\n\
    name = \"carrier\"\ntargets = \"sip:192.0.2.1\"\nprefixes = \"+\"\nclass = \"staff\"\n";

#[test]
fn class_reaches_the_core_with_all_its_limits() {
    assert_eq!(warnings(GOOD), "");
    let classes = good(GOOD).class_settings();
    let class = classes.of_domain(b"example.com").expect("the class of the domain");
    assert_eq!(classes.of_trunk(b"carrier").map(|class| class.name), Some(class.name));
    let allows = |number: &str| class.prefixes.allows(Digits::dialled(number.as_bytes()));
    assert!(allows("+4930") && !allows("+4490") && !allows("+1"));
    assert_eq!((class.lets_over(b"carrier"), class.lets_over(b"other")), (Ok(()), Err(Rule::Trunk)));
    assert_eq!(
        (class.limits.channels, class.limits.per_hour, class.limits.per_day),
        (Some(3), None, Some(100))
    );
    // Monday, 30 March 2026, 06:59 and 07:00 UTC.
    let has = |utc| class.hours.has(class.zone.at(utc).minute);
    assert!(!has(1_774_828_800 + 7 * 3_600 - 1) && has(1_774_828_800 + 7 * 3_600));
    let shown = good(GOOD).render_effective();
    assert_eq!(good(&shown).classes, good(GOOD).classes, "{shown}");
}

#[test]
fn wrong_classes_are_refused_with_a_mend() {
    for (text, said) in [
        ("[[class]]\nallow = \"+49\"\n", "1:1: class without name; add name"),
        ("[[class]]\nname = \"a b\"\n", "2:8: \"a b\" is not the name of a class"),
        (
            "[[class]]\nname = \"c\"\nallow = \"+49\"\n[[class]]\nname = \"c\"\n",
            "5:8: class \"c\" is already taken at 2:8",
        ),
        ("[[class]]\nname = \"c\"\nallow = \"+4x\"\n", "3:9: \"+4x\" has characters that cannot be dialled"),
        ("[[class]]\nname = \"c\"\nallow = \"+049\"\n", "3:9: no country code begins with a zero"),
        ("[[class]]\nname = \"c\"\nallow = \"+1\"\ndeny = \"+1\"\n", "4:8: +1 is allowed and denied"),
        ("[[class]]\nname = \"c\"\ntrunks = \"x\"\n", "3:10: there is no trunk \"x\""),
        ("[[class]]\nname = \"c\"\ntimes = \"mon 7-9\"\n", "3:9: \"mon 7-9\" does not name days and hours"),
        ("[[class]]\nname = \"c\"\ntime_zone = \"Mars\"\n", "3:13: the system knows no time zone \"Mars\""),
        ("[[class]]\nname = \"c\"\nchannels = 0\n", "3:12: 0 is out of range"),
        (
            "domains = [\"d.example\"]\n[[domain]]\nname = \"d.example\"\nclass = \"c\"\n",
            "4:9: there is no class \"c\"",
        ),
        (
            "[[trunk]]\nname = \"t\"\ntargets = \"sip:192.0.2.1\"\nprefixes = \"1\"\nclass = \"c\"\n",
            "5:9: there is no class \"c\"",
        ),
        (
            "[proxy]\nmode = \"stateless\"\n[[class]]\nname = \"c\"\ncalls_per_hour = 1\n",
            "class \"c\" counts calls",
        ),
    ] {
        let found = errors(text);
        assert!(found.contains(said), "{text}\n{found}");
    }
}

#[test]
fn classes_that_do_not_limit_are_warned_of() {
    for (text, said) in [
        ("[[class]]\nname = \"c\"\n", "class \"c\" lets its callers call every number without limit"),
        (
            "[[class]]\nname = \"c\"\nchannels = 2\ncalls_per_day = 9\n",
            "class \"c\" allows +870 (satellite) and 13 more such prefixes",
        ),
        ("[[class]]\nname = \"c\"\nallow = \"+41\"\n", "3:9: class \"c\" allows +41900 (premium)"),
        (
            "domains = [\"d.example\"]\n[[class]]\nname = \"c\"\nallow = \"+42\"\n",
            "users of \"d.example\" without a class of their own have no limits",
        ),
        (
            "[auth]\nenabled = false\n[[class]]\nname = \"c\"\nallow = \"+42\"\n",
            "without authentication a caller chooses",
        ),
        (
            "domains = [\"d.example\"]\n[[class]]\nname = \"c\"\nallow = \"+42\"\n[emergency]\nnumbers = \"112\"\n\
             targets = \"sip:192.0.2.1\"\n[[caller]]\nuser = \"112@d.example\"\nnumbers = \"+4930\"\n",
            "emergency number 112 is also the user 112@d.example",
        ),
    ] {
        let found = warnings(text);
        assert!(found.contains(said), "{text}\n{found}");
    }
}

#[test]
fn trunks_that_share_a_source_are_warned_of() {
    let trunk = |name: &str, target: &str, more: &str| {
        format!("[[trunk]]\nname = \"{name}\"\ntargets = \"sip:{target}\"\nprefixes = \"{name}\"\n{more}")
    };
    let shared = [trunk("1", "192.0.2.1", ""), trunk("2", "192.0.2.1:5070", "")].concat();
    let expected = "7:11: 192.0.2.1/32 of trunk \"2\" overlaps 192.0.2.1/32 of trunk \"1\" at 3:11: requests from \
                    there are taken for those of \"1\"; give each its own `sources`, or put the targets into one \
                    trunk\n";
    assert_eq!(warnings(&shared), expected);
    let block = "sources = \"192.0.2.0/24\"\n";
    let inside = [trunk("1", "192.0.2.1", block), trunk("2", "192.0.2.9", "")].concat();
    assert!(
        warnings(&inside).contains("192.0.2.9/32 of trunk \"2\" overlaps 192.0.2.0/24"),
        "{}",
        warnings(&inside)
    );
    assert_eq!(warnings(&[trunk("1", "192.0.2.1", ""), trunk("2", "192.0.2.2", "")].concat()), "");
}

#[test]
fn rate_of_strangers_reaches_the_core() {
    let proxy = |text: &str| {
        let config = good(text);
        config.proxy.settings(&config.timers).strangers
    };
    let rate = proxy("[proxy]\nstrangers = \"rate\"\nstranger_calls = 5\n").rate.expect("a rate");
    assert_eq!((rate.of_network, rate.total), (5, 300));
    for (text, allowed) in [("", true), ("[proxy]\nstrangers = \"refuse\"\n", false)] {
        let strangers = proxy(text);
        assert_eq!((strangers.allowed, strangers.rate), (allowed, None), "{text}");
    }
}
