//! Which section each key belongs to, so that a key in the wrong place can be sent to the right
//! one. A test holds this list against what the reader asks for.

/// Keys of every section that has a fixed set; `""` is the top of the file.
pub(super) const KEYS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "domains",
            "aliases",
            "listen",
            "advertise",
            "workers",
            "steering",
            "pin",
            "busy_poll",
            "udp_segmentation",
            "data_dir",
        ],
    ),
    (
        "auth",
        &[
            "enabled",
            "challenge",
            "realm",
            "algorithms",
            "require_qop",
            "nonce_lifetime",
            "bind_from",
            "in_dialog",
            "fronts",
        ],
    ),
    ("registrar", &["min_expires", "max_expires", "default_expires", "max_bindings", "service_route"]),
    (
        "proxy",
        &[
            "mode",
            "fork",
            "record_route",
            "recurse_redirects",
            "max_breadth",
            "max_forwards",
            "timer_c",
            "mtu",
            "strangers",
            "stranger_methods",
        ],
    ),
    ("voicemail", &["target", "on", "no_answer_timeout", "silent_after"]),
    ("emergency", &["targets", "numbers", "strangers", "silent_after"]),
    (
        "trunk",
        &[
            "name",
            "targets",
            "sources",
            "prefixes",
            "domains",
            "strip",
            "prepend",
            "may_transit",
            "overload_control",
            "retry_on",
            "silent_after",
        ],
    ),
    ("route", &["domain", "prefix", "user", "targets", "redirect", "silent_after"]),
    ("timers", &["t1", "t2", "t4", "trying"]),
    (
        "limits",
        &[
            "message_bytes",
            "headers",
            "transactions",
            "calls",
            "memory_mib",
            "connections",
            "connections_per_source",
            "tcp_head_timeout",
            "tcp_idle_timeout",
        ],
    ),
    ("overload", &["enabled", "delay", "retry_after", "feedback", "kernel"]),
    ("dns", &["servers", "timeout", "cache"]),
    ("admin", &["listen", "allow_remote", "hosts", "token_file"]),
    ("log", &["level", "format"]),
    ("store", &["on_failure"]),
    (
        "balance",
        &[
            "nodes",
            "algorithm",
            "record_route",
            "own_source",
            "register",
            "path",
            "failed_dialogs",
            "session_timeout",
            "ring_timeout",
            "probe_interval",
            "probe_timeout",
            "probe_codes",
            "silent_after",
            "slow_start",
            "outlier_share",
            "overload_control",
            "outlier_rest",
            "down_after",
            "up_after",
            "retry_after",
            "stop_delay",
            "previous_secret",
        ],
    ),
];

/// Where else than in `here` a key of this name may stand, in words; `None` where no other place knows it.
pub(super) fn places_of(key: &str, here: &str) -> Option<String> {
    let others = KEYS.iter().filter(|(section, keys)| *section != here && keys.contains(&key));
    let mut places: Vec<String> = others
        .map(|(section, _)| match *section {
            "" => "at the top of the file".to_owned(),
            list @ ("trunk" | "route") => format!("in [[{list}]]"),
            section => format!("in [{section}]"),
        })
        .collect();
    let last = places.pop()?;
    Some(if places.is_empty() { last } else { format!("{} or {last}", places.join(", ")) })
}
