//! SIPp's options beyond the everyday ones, and what is said of those that are not here.

use super::units;
use clap::Args;
use load::engine::Defaults;
use std::ffi::OsString;
use std::path::PathBuf;

/// Users of `-users` at most. Each has variables of its own.
const MOST_CALLERS: u64 = 10_000_000;

/// More of SIPp's options.
#[derive(Args, Clone, Debug, Default)]
pub struct SippArgs {
    /// N users (SIPp's -users, with one dash), who come 1000 a second: each begins the next call when the
    /// last is over
    #[arg(long, value_name = "N", help_heading = "How much",
          value_parser = clap::value_parser!(u64).range(1..=MOST_CALLERS), conflicts_with_all = ["trace", "find_peak", "self_test", "poisson", "rate", "rp", "rate_increase",
                                "rate_interval", "rate_max", "no_rate_quit"])]
    pub callers: Option<u64>,
    /// A call that meets the time of -timeout makes the run fail
    #[arg(long, help_heading = "How much", requires = "timeout")]
    pub timeout_error: bool,

    /// Let --find-peak be the search of RFC 7502 section 4.10: session establishment rate, or registration
    /// rate with a scenario that registers. No attempt of a trial may fail; -r begins at 100 unless given
    #[arg(long, help_heading = "How much", requires = "find_peak", conflicts_with = "success")]
    pub rfc7502: bool,
    /// Attempts of each trial of --rfc7502
    #[arg(long, value_name = "N", default_value_t = 50_000, help_heading = "How much", requires = "rfc7502",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub attempts: u64,

    /// Several local addresses (-i A,B,C or -i A-B), for -t ui and -t un
    #[arg(long, value_name = "ADDRS", help_heading = "From where", conflicts_with = "local_ip")]
    pub from: Option<String>,
    /// Sockets at most with -t un [default: as many as calls at a time, 1000 if that is not said]
    #[arg(long, value_name = "N", help_heading = "From where")]
    pub max_socket: Option<usize>,
    /// The field of the first injection file that has the local address, with -t ui [default: 0]
    #[arg(long, value_name = "FIELD", help_heading = "From where")]
    pub ip_field: Option<usize>,
    /// Where messages are sent, if not to the target that they name: HOST:PORT
    #[arg(long, value_name = "ADDR", help_heading = "From where")]
    pub rsa: Option<String>,

    /// Give a global variable of the scenario this text; may be repeated
    #[arg(long, num_args = 2, value_names = ["NAME", "TEXT"], action = clap::ArgAction::Append,
          allow_hyphen_values = true,
          help_heading = "What to do")]
    pub set: Vec<String>,
    /// Index a field of an injection file for <lookup>; may be repeated
    #[arg(long, num_args = 2, value_names = ["FILE", "FIELD"], action = clap::ArgAction::Append,
          help_heading = "What to do")]
    pub infindex: Vec<String>,
    /// The uri of credentials, if not that of the request; `sip:` is put before it if it has no scheme
    #[arg(long, value_name = "URI", allow_hyphen_values = true, help_heading = "What to do")]
    pub auth_uri: Option<String>,
    /// [cseq] of the first request of a call
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "What to do",
          value_parser = clap::value_parser!(u32).range(..1 << 31))]
    pub base_cseq: u32,
    /// Print a built-in scenario, to begin one's own with
    #[arg(long, value_name = "NAME", help_heading = "What to do")]
    pub sd: Option<String>,

    /// Answer INFO, NOTIFY, OPTIONS and UPDATE that no step waits for with 200
    #[arg(long, help_heading = "Protocol")]
    pub aa: bool,
    /// No default behaviours: as -default_behaviors none
    #[arg(long, help_heading = "Protocol")]
    pub nd: bool,
    /// What is done unasked: all, none, or of bye (a call that fails is ended with ACK, CANCEL or BYE),
    /// abortunexp (it fails at an unexpected message) and pingreply, with - in front for all but that
    #[arg(
        long,
        value_name = "LIST",
        default_value = "all",
        allow_hyphen_values = true,
        help_heading = "Protocol"
    )]
    pub default_behaviors: String,
    /// How often any message is repeated at most
    #[arg(long, value_name = "N", help_heading = "Protocol")]
    pub max_retrans: Option<u32>,
    /// The longest interval between repetitions of requests other than INVITE: milliseconds, or 4s
    #[arg(long, value_name = "TIME", default_value = "4000", value_parser = units::long_millis,
          help_heading = "Protocol")]
    pub t2: u64,

    /// Write the first failing calls (see --ladders), as text, to SCENARIO_PID_errors.log or -error_file
    #[arg(long, help_heading = "What comes out")]
    pub trace_err: bool,
    /// The file of -trace_err
    #[arg(long, value_name = "FILE", help_heading = "What comes out")]
    pub error_file: Option<PathBuf>,

    /// Files that are written while a run goes on, and more
    #[command(flatten)]
    pub traces: super::sipp_files::FileArgs,

    /// Read nothing from standard input, which is never done
    #[arg(long, hide = true)]
    pub nostdin: bool,
    /// Bind to the local address, which is always done
    #[arg(long, hide = true)]
    pub bind_local: bool,
    /// Why the command line cannot be taken
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub refused: Option<String>,
}

impl SippArgs {
    /// What is done unasked.
    pub fn defaults(&self) -> Result<Defaults, String> {
        let of = |on| Defaults { bye: on, abort: on, ping: on, auto_answer: self.aa };
        let list = if self.nd { "none" } else { self.default_behaviors.as_str() };
        // A list that only takes away takes from all.
        let mut defaults = of(list.starts_with('-'));
        for word in list.split(',').map(str::trim) {
            let (on, name) = word.strip_prefix('-').map_or((true, word), |name| (false, name));
            match name {
                "all" => defaults = of(on),
                "none" => defaults = of(!on),
                "bye" => defaults.bye = on,
                "abortunexp" => defaults.abort = on,
                "pingreply" => defaults.ping = on,
                _ => {
                    return Err(format!(
                        "-default_behaviors {word}: no such behaviour; all, none, bye, abortunexp, pingreply"
                    ));
                }
            }
        }
        Ok(defaults)
    }
}

/// SIPp's names with one dash, and ours.
const NAMES: &[(&str, &str)] = &[
    ("users", "callers"),
    ("timeout_error", "timeout-error"),
    ("max_socket", "max-socket"),
    ("ip_field", "ip-field"),
    ("rsa", "rsa"),
    ("set", "set"),
    ("infindex", "infindex"),
    ("auth_uri", "auth-uri"),
    ("base_cseq", "base-cseq"),
    ("sd", "sd"),
    ("aa", "aa"),
    ("nd", "nd"),
    ("default_behaviors", "default-behaviors"),
    ("max_retrans", "max-retrans"),
    ("T2", "t2"),
    ("trace_err", "trace-err"),
    ("error_file", "error-file"),
    ("trace_stat", "trace-stat"),
    ("stf", "stf"),
    ("fd", "fd"),
    ("trace_logs", "trace-logs"),
    ("log_file", "log-file"),
    ("trace_msg", "trace-msg"),
    ("message_file", "message-file"),
    ("f", "display"),
    ("cid_str", "cid-str"),
    ("cid_field", "cid-field"),
    ("skip_rlimit", "skip-rlimit"),
    ("buff_size", "buff-size"),
    ("nostdin", "nostdin"),
    ("bind_local", "bind-local"),
    ("tls_cert", "tls-cert"),
    ("tls_key", "tls-key"),
    ("tls_ca", "tls-ca"),
    ("tls_version", "tls-version"),
];

/// The names of options that SIPp writes with one dash, and ours.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES.iter().copied()
}

/// Options of SIPp that are not here, and what to do instead.
const REFUSED: &[(&[&str], &str)] = &[
    (&["tls_crl"], "lists of revoked certificates are not read; leave it out"),
    (&["3pcc", "master", "slave", "slave_cfg"], "third-party call control is not in this version"),
    (&["oocsf", "oocsn"], "scenarios for messages that belong to no call are not in this version"),
    (
        &["rtp_echo", "mb", "rtp_payload", "rtp_threadtasks", "rtp_buffsize"],
        "there is no media here; leave it out, or send media with another program",
    ),
    (
        &[
            "message_overwrite",
            "trace_shortmsg",
            "shortmessage_file",
            "shortmessage_overwrite",
            "trace_calldebug",
            "calldebug_file",
            "calldebug_overwrite",
        ],
        "-trace_msg has all messages, a new file each time; --pcap and -trace_err have the first failing calls",
    ),
    (
        &[
            "stat_delimiter",
            "periodic_rtd",
            "trace_counts",
            "trace_rtt",
            "rtt_freq",
            "trace_screen",
            "screen_file",
            "screen_overwrite",
            "trace_error_codes",
        ],
        "-trace_stat writes lines of statistics, a new file each time; --csv FILE has a time series of seconds, --json and \
         --html FILE have everything",
    ),
    (&["log_overwrite"], "-trace_logs makes a new file each time; leave it out"),
    (
        &["error_overwrite", "ringbuffer_files", "ringbuffer_size", "max_log_size"],
        "a new file is written each time, of which that of messages ends at 1 GiB; leave it out",
    ),
    (&["bg"], "start it with & (nohup ... & outlives the terminal): the exit code would be lost otherwise"),
    (&["deadcall_wait"], "late messages are known by their Call-ID for ever; leave it out"),
    (&["rtcheck"], "a message is a repetition if it is the same in all bytes; leave it out"),
    (&["pause_msg_ign"], "messages during a pause are looked at; let a <recv optional=\"true\"> take them"),
    (&["send_timeout"], "nothing waits to be sent; leave it out"),
    (
        &["rate_scale", "cp", "ci"],
        "there are no keys and no control port to change the rate by; leave it out",
    ),
    (
        &["tdmmap", "dynamicStart", "dynamicMax", "dynamicStep"],
        "not in this version; count with a global variable",
    ),
    (
        &[
            "timer_resol",
            "max_recv_loops",
            "max_sched_loops",
            "watchdog_interval",
            "watchdog_reset",
            "watchdog_minor_threshold",
            "watchdog_major_threshold",
            "watchdog_major_maxtriggers",
            "watchdog_minor_maxtriggers",
            "sendbuffer_warn",
        ],
        "nothing needs to be tuned that way here; leave it out",
    ),
    (
        &["max_reconnect", "reconnect_close", "reconnect_sleep"],
        "connections are opened again by themselves; leave it out",
    ),
    (
        &["multihome", "heartbeat", "assocmaxret", "pathmaxret", "pmtu", "gracefulclose"],
        "SCTP is not in this version",
    ),
    (&["plugin"], "there are no plug-ins"),
    (&["sleep"], "use the shell: sleep N; strowger load ..."),
    (&["callid_slash_ign"], "triple slashes in Call-IDs mean nothing here; leave it out"),
    (&["v"], "strowger --version says it"),
];

/// What is wrong with an argument, if it is an option of SIPp's that is not here.
pub fn refusal(arg: &str) -> Option<String> {
    let name = arg.strip_prefix('-').filter(|name| !name.starts_with('-'))?;
    let (_, why) = REFUSED.iter().find(|(names, _)| names.contains(&name))?;
    Some(format!("{arg}: {why}"))
}

/// What is said of SIPp's built-in scenarios that are not here.
pub fn no_such_builtin(name: &str) -> Option<&'static str> {
    match name {
        "uac_pcap" => {
            Some("it plays media, which is not in this version; -sn uac makes the same call without")
        }
        "3pcc-C-A" | "3pcc-C-B" | "3pcc-A" | "3pcc-B" => {
            Some("third-party call control is not in this version")
        }
        "regexp" | "branchc" | "branchs" => {
            Some("not here as a built-in one; `sipp -sd` writes it to a file, which -sf reads")
        }
        "ooc_default" | "ooc_dummy" => {
            Some("scenarios for messages that belong to no call are not in this version")
        }
        _ => None,
    }
}

/// Our way to write an option that SIPp writes with one dash. `next` is what follows it.
pub fn translated(arg: &str, next: Option<&OsString>) -> Option<String> {
    let name = arg.strip_prefix('-').filter(|name| !name.starts_with('-'))?;
    if name == "i" {
        // Names of hosts are not taken, so that a dash is a range.
        let several = next.and_then(|text| text.to_str()).is_some_and(|text| text.contains([',', '-']));
        return several.then(|| "--from".to_owned());
    }
    let (_, ours) = NAMES.iter().find(|(sipp, _)| *sipp == name)?;
    Some(format!("--{ours}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviours_are_added_and_taken_away() {
        let of = |list: &str, nd| {
            let args = SippArgs { default_behaviors: list.into(), nd, ..SippArgs::default() };
            args.defaults().map(|d| (d.bye, d.abort, d.ping))
        };
        assert_eq!(of("all", false), Ok((true, true, true)));
        assert_eq!(of("none", false), Ok((false, false, false)));
        assert_eq!(of("all", true), Ok((false, false, false)));
        assert_eq!(of("all,-bye", false), Ok((false, true, true)));
        assert_eq!(of("-bye", false), Ok((false, true, true)));
        assert_eq!(of("bye,pingreply", false), Ok((true, false, true)));
        assert!(of("bye,sleep", false).is_err_and(|why| why.contains("sleep")));
    }

    #[test]
    fn no_option_is_both_known_and_refused() {
        for (names, _) in REFUSED {
            for name in *names {
                assert!(NAMES.iter().all(|(known, _)| known != name), "{name}");
                assert!(refusal(&format!("-{name}")).is_some());
            }
        }
        assert_eq!(refusal("--fd"), None, "that is clap's to refuse");
    }

    #[test]
    fn several_addresses_are_another_option() {
        let of = |value: &str| translated("-i", Some(&value.into()));
        assert_eq!(of("127.0.0.1-127.0.0.9").as_deref(), Some("--from"));
        assert_eq!((of("127.0.0.1"), of("::1")), (None, None));
        assert_eq!(translated("-users", None).as_deref(), Some("--callers"));
        assert_eq!(translated("--users", None), None);
    }
}
