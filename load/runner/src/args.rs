//! The command line of `strowger load`: SIPp's everyday options under SIPp's names, and our own.

use super::{sipp, units, unknown};
use clap::{ArgAction, ArgGroup, Args, Command, ValueEnum};
use load::population::Arrivals;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of `load`. What an option would have no effect beside is refused beside it.
#[derive(Args, Clone, Debug)]
// One of these has trials.
#[command(group = ArgGroup::new("trials").args(["find_peak", "self_test"]))]
pub struct LoadArgs {
    /// Where calls go: HOST or HOST:PORT [default port: 5060, over TLS 5061, over WebSocket 80 or 443]. Not
    /// needed by a scenario that only answers
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,

    /// A built-in scenario; `list` names them
    #[arg(long, value_name = "NAME", help_heading = "What to do", conflicts_with = "sf")]
    pub sn: Option<String>,
    /// A scenario file in SIPp's XML
    #[arg(long, value_name = "FILE", help_heading = "What to do")]
    pub sf: Option<PathBuf>,
    /// A second scenario, built-in or a file, for the calls that come in: both ends in one program
    #[arg(long, value_name = "NAME|FILE", help_heading = "What to do")]
    pub answer: Option<String>,
    /// A CSV file whose lines fill [field0] and so on; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "What to do")]
    pub inf: Vec<PathBuf>,
    /// The user part of the Request-URI: [service]
    #[arg(
        short = 's',
        value_name = "USER",
        default_value = "service",
        allow_hyphen_values = true,
        help_heading = "What to do"
    )]
    pub service: String,
    /// User name for digest authentication [default: that of -s]
    #[arg(long, value_name = "USER", allow_hyphen_values = true, help_heading = "What to do")]
    pub au: Option<String>,
    /// Password for digest authentication
    #[arg(
        long,
        value_name = "PASSWORD",
        default_value = "password",
        allow_hyphen_values = true,
        help_heading = "What to do"
    )]
    pub ap: String,
    /// A further keyword for scenarios, with its text; may be repeated. `domain` is that of the target if not
    /// given
    #[arg(long, num_args = 2, value_names = ["KEYWORD", "TEXT"], action = ArgAction::Append,
          allow_hyphen_values = true,
          help_heading = "What to do")]
    pub key: Vec<String>,
    /// Length of a pause that gives none: milliseconds, or 10s, 2m, 1h
    #[arg(short = 'd', value_name = "TIME", default_value = "0", value_parser = units::whole_millis,
          help_heading = "What to do")]
    pub pause: u32,

    /// Calls to begin in each period [default: 10]
    #[arg(short = 'r', value_name = "CALLS", value_parser = units::amount, help_heading = "How much")]
    pub rate: Option<f64>,
    /// The period of -r: milliseconds, or 10s, 2m, 1h
    #[arg(long, value_name = "TIME", default_value = "1000", value_parser = units::millis, help_heading = "How much")]
    pub rp: f64,
    /// Begin calls at random times of this mean rate (a Poisson process) instead of evenly spaced ones
    #[arg(long, help_heading = "How much")]
    pub poisson: bool,
    /// Add this to -r after each -rate_interval
    #[arg(long, value_name = "CALLS", default_value_t = 0.0, value_parser = units::amount, help_heading = "How much")]
    pub rate_increase: f64,
    /// Time between increases: seconds, or 500ms, 2m, 1h
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = units::seconds, help_heading = "How much",
          requires = "rate_increase")]
    pub rate_interval: f64,
    /// Where the increase ends, and the run, unless -no_rate_quit; with --find-peak and --self-test the
    /// highest rate, or number of users, tried
    #[arg(long, value_name = "CALLS", default_value_t = 0.0, value_parser = units::amount, help_heading = "How much")]
    pub rate_max: f64,
    /// Stay at -rate_max instead of ending
    #[arg(long, help_heading = "How much", requires = "rate_increase")]
    pub no_rate_quit: bool,
    /// Begin at the times in this file, one in seconds on each line
    #[arg(long, value_name = "FILE", help_heading = "How much", conflicts_with_all = [
        "poisson", "rate", "rp", "rate_increase", "rate_interval", "rate_max", "no_rate_quit"])]
    pub trace: Option<PathBuf>,
    /// Begin calls otherwise, in place of -r and what belongs to it: constant:100 (calls a second);
    /// ramp:10..1000/60s, then 1000 a second for ever; steps:100@60s,200@60s, then the end; burst:50/1s, 50
    /// at once every second; at random with such a mean rate poisson:100, poisson-ramp:... and
    /// poisson-steps:...
    #[arg(long, value_name = "HOW", help_heading = "How much", value_parser = units::arrivals, conflicts_with_all = [
        "rate", "rp", "poisson", "rate_increase", "rate_interval", "rate_max", "no_rate_quit", "trace", "callers",
        "find_peak", "self_test", "users", "backend"])]
    pub arrivals: Option<Arrivals>,
    /// End after this many calls: begun here, or answered if none begin here
    #[arg(short = 'm', value_name = "CALLS", help_heading = "How much",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub most: Option<u64>,
    /// Calls under way at a time that begin here; a call beyond it waits, and its wait counts as lateness
    #[arg(short = 'l', value_name = "CALLS", help_heading = "How much", value_parser = units::count)]
    pub limit: Option<usize>,
    /// End after this time: 30s, 5m, 1h (plain numbers are seconds)
    #[arg(long, value_name = "TIME", help_heading = "How much")]
    pub timeout: Option<String>,
    /// How long calls under way may take to end after --timeout or a first signal [default: 60s]
    #[arg(long, value_name = "TIME", help_heading = "How much", conflicts_with = "backend")]
    pub cool_down: Option<String>,

    /// Search for the highest rate that conforms, from -r on; each trial lasts --trial
    #[arg(long, help_heading = "How much", conflicts_with_all = [
        "trace", "most", "timeout", "cool_down", "rate_increase", "rate_interval", "no_rate_quit"])]
    pub find_peak: bool,
    /// Measure this program against its own answering side, without a server: the rate to trust it with. Ends
    /// within 5 minutes
    #[arg(long, help_heading = "How much", conflicts_with_all = [
        "target", "sn", "sf", "answer", "trace", "most", "timeout", "cool_down", "rate_increase", "rate_interval",
        "no_rate_quit",
        "success", "rsa", "inf"])]
    pub self_test: bool,
    /// How long a trial of --find-peak lasts, and one of --self-test at least: there it has 5,000 calls
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5s",
        help_heading = "How much",
        requires = "trials",
        conflicts_with = "rfc7502"
    )]
    pub trial: String,
    /// Fail if the 99th percentile of response times exceeds MS; 0: no limit [default: 0; with --find-peak
    /// 500, T1 of RFC 3261]
    #[arg(long, value_name = "MS", value_parser = units::amount, help_heading = "How much")]
    pub response: Option<f64>,
    /// How near --find-peak comes to the peak, per cent
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 2.0,
        value_parser = units::resolution,
        help_heading = "How much",
        requires = "find_peak",
        conflicts_with = "rfc7502"
    )]
    pub resolution: f64,

    /// Local address, or several: A,B,C or A-B [default: the one that the route to the target has]
    #[arg(short = 'i', value_name = "ADDR", help_heading = "From where")]
    pub local_ip: Option<std::net::IpAddr>,
    /// Local port of the first worker; further workers use the following ones [default: any free]
    #[arg(short = 'p', value_name = "PORT", help_heading = "From where")]
    pub local_port: Option<u16>,
    /// u1: UDP; un: UDP, a socket for each call; ui: UDP, a socket for each local address (-i, or -ip_field
    /// of -inf). One connection for all calls: t1: TCP; l1: TLS; w1: WebSocket; wss1: WebSocket over TLS; s1:
    /// SCTP. One connection for each call: n in place of 1
    #[arg(
        short = 't',
        value_name = "u1|un|ui|t1|tn|l1|ln|w1|wn|wss1|wssn|s1|sn",
        default_value = "u1",
        help_heading = "From where"
    )]
    pub transport: String,
    /// The address in [media_ip] [default: that of -i]; no media is sent
    #[arg(long, value_name = "ADDR", help_heading = "From where")]
    pub mi: Option<std::net::IpAddr>,
    /// The port in [media_port]
    #[arg(long, value_name = "PORT", default_value_t = 6_000, help_heading = "From where")]
    pub mp: u16,
    /// Worker threads [default: 0, one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = units::workers, help_heading = "From where")]
    pub workers: usize,

    /// Milliseconds: where messages are frequent, those that come in and those that are due wait for the next
    /// multiple of this and are handled in one go. Times are counted from when a message came or was meant to
    /// leave, so the wait shows as lateness. 0: each wakes the program
    #[arg(long, value_name = "MS", default_value_t = 0.5, value_parser = units::amount, help_heading = "From where")]
    pub grain: f64,

    /// Whether messages of one length for one address leave through the kernel as one (UDP). Say off where a
    /// server on this machine has several workers, of which one gets all that go together [default: on; off
    /// with --grain 0]
    #[arg(long, value_name = "on|off", help_heading = "From where", conflicts_with = "backend")]
    pub udp_segmentation: Option<Switch>,

    /// Have the workers run before all other programs (SCHED_FIFO; needs root or CAP_SYS_NICE): what else the
    /// machine does makes them late no more. Leave a processor to the server
    #[arg(long, help_heading = "From where")]
    pub realtime: bool,

    /// How long a <recv> waits if it does not say: milliseconds, or 10s, 2m, 1h [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = units::long_millis, help_heading = "Protocol")]
    pub recv_timeout: Option<u64>,
    /// Repeat nothing over UDP
    #[arg(long, help_heading = "Protocol")]
    pub nr: bool,
    /// How often an INVITE is repeated at most
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Protocol")]
    pub max_invite_retrans: u32,
    /// How often any other message is
    #[arg(long, value_name = "N", default_value_t = 7, help_heading = "Protocol")]
    pub max_non_invite_retrans: u32,
    /// Per cent of messages to lose on purpose, sent and received
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = units::percent,
          help_heading = "Protocol")]
    pub lost: f64,

    /// Seconds at the beginning that are not measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = units::amount,
          help_heading = "What comes out")]
    pub warm_up: f64,
    /// Per cent of calls that must succeed for the verdict PASS
    #[arg(long, value_name = "PERCENT", default_value_t = 99.99, value_parser = units::percent,
          help_heading = "What comes out")]
    pub success: f64,
    /// Milliseconds that this program itself may be late at most (p99.9); beyond it the run is VOID. It wakes
    /// to the microsecond; what makes it late is a machine that is busy otherwise
    #[arg(long, value_name = "MS", default_value_t = 5.0, value_parser = units::amount,
          help_heading = "What comes out")]
    pub lateness: f64,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE", help_heading = "What comes out")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE", help_heading = "What comes out")]
    pub html: Option<PathBuf>,
    /// Write the time series as CSV
    #[arg(long, value_name = "FILE", help_heading = "What comes out")]
    pub csv: Option<PathBuf>,
    /// Write the first failing call flows as a capture file
    #[arg(long, value_name = "FILE", help_heading = "What comes out")]
    pub pcap: Option<PathBuf>,
    /// How many failing call flows to keep
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = units::flows,
          help_heading = "What comes out")]
    pub ladders: usize,
    /// What is random follows from this number [default: a new one, which the report names]
    #[arg(long, value_name = "NUMBER", help_heading = "What comes out")]
    pub seed: Option<u64>,
    /// No lines while it runs
    #[arg(long, help_heading = "What comes out")]
    pub quiet: bool,

    /// More of SIPp's options
    #[command(flatten)]
    pub sipp: sipp::SippArgs,

    /// TLS
    #[command(flatten)]
    pub tls: super::secure::TlsArgs,

    /// WebSocket
    #[command(flatten)]
    pub web: super::ways::WebArgs,

    /// A population of users
    #[command(flatten)]
    pub people: super::users::UsersArgs,

    /// Servers in place of calls
    #[command(flatten)]
    pub backends: super::backend::BackendArgs,
}

impl LoadArgs {
    /// Calls a period: SIPp's unless given.
    pub fn rate(&self) -> f64 {
        self.rate.unwrap_or(10.0)
    }
}

/// A mechanism that is on or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Switch {
    /// In use.
    On,
    /// Not in use.
    Off,
}

/// Examples at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  strowger load -sn uac 192.0.2.1 -r 100 -m 1000
      1,000 calls, 100 a second, to a server that answers them
  strowger load -sn uas -p 5060
      the answering side
  strowger load -sn uac --answer uas 192.0.2.1:5060 -r 500 -m 30000 --html report.html
      both sides, through a proxy that sends the calls back to this machine
  strowger load -sn uac 192.0.2.1 --arrivals ramp:10..1000/60s --timeout 2m
      10 calls a second at first, 1,000 after a minute, and for a minute more
  strowger load --self-test
      the rate up to which this program on this machine is to be trusted
  strowger load -sn uac -t ln sip.example.com -tls_ca ca.pem -r 100 -m 1000
      each call over a TLS connection for itself, to a server that proves to be sip.example.com
  strowger load -sn uas -t l1 -tls_cert cert.pem -tls_key key.pem
      the answering side over TLS, at port 5061
  strowger load -sn options -t ln sip.example.com -r 500 --timeout 30s --tls-resume off
      500 full TLS handshakes a second, each with one request; without --tls-resume off most are resumed
  strowger load -sn register -t wss1 pbx.example.com:5443 -inf users.csv -key domain example.com -r 100 -m 1000
      registrations over one WebSocket connection, like those of a browser
  strowger load -sn uac --answer uas 192.0.2.1 --find-peak -r 500 --html peak.html
      the highest rate at which 99.99 % of the calls succeed
  strowger load --users 10000 --domain example.com --compress 60 192.0.2.1 --html users.html
      10,000 users who register, call each other, answer, and leave messages
  strowger load compare before.json after.json
      what differs between two runs, or groups of runs (a1.json,a2.json b1.json,b2.json)
  strowger load --backend -i 127.0.0.2-127.0.0.9 --capacity 300
      eight servers for a load balancer, each of which can do 300 calls a second
  strowger load -sf register.xml -inf users.csv 192.0.2.1 -r 1000 -m 100000

Ctrl-C lets the calls under way end; a second one stops at once.
Exit codes: 0 the verdict is PASS; 1 it is FAIL; 2 wrong usage; 3 VOID, because this program itself
was too late or lost packets, so that the run says nothing about the server; 4 STOPPED before its end.";

/// Names that SIPp writes with one dash.
const ONE_DASH: &[&str] = &[
    "sn",
    "sf",
    "inf",
    "au",
    "ap",
    "key",
    "rp",
    "rate_increase",
    "rate_interval",
    "rate_max",
    "no_rate_quit",
    "mi",
    "mp",
    "recv_timeout",
    "nr",
    "max_invite_retrans",
    "max_non_invite_retrans",
    "lost",
    "timeout",
];

/// Options of `load compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Reports (JSON) of the first group, separated by commas
    #[arg(value_name = "A.json[,..]")]
    pub a: String,
    /// Reports of the second group
    #[arg(value_name = "B.json[,..]")]
    pub b: String,
    /// Confidence of the intervals, per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0, value_parser = units::confidence)]
    pub confidence: f64,
    /// Write the comparison as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write it as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Gives SIPp's options of one dash and several letters the second dash that everybody else writes, and
/// our names their dashes in place of SIPp's underscores.
pub fn translate(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_none_or(|command| command != "load") {
        return args;
    }
    if args.get(2).is_some_and(|command| command == "compare") {
        args.remove(2);
        if let Some(command) = args.get_mut(1) {
            *command = "load-compare".into();
        }
        return args;
    }
    let known = known();
    let mut at = 2;
    while let Some(arg) = args.get(at) {
        let Some(text) = arg.to_str() else {
            at += 1;
            continue;
        };
        if text == "--" {
            break;
        }
        if let Some(why) = sipp::refusal(text) {
            return refused(args, why);
        }
        let ours = sipp::translated(text, args.get(at + 1)).or_else(|| {
            let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
            ONE_DASH.contains(&name).then(|| format!("--{}", name.replace('_', "-")))
        });
        if let Some(why) = ours.is_none().then(|| unknown::refusal(text, &known, &one_dash())).flatten() {
            return refused(args, why);
        }
        let ours = ours.unwrap_or_else(|| text.to_owned());
        // What belongs to an option is none itself.
        let values = values_of(&known, &ours);
        if let Some(arg) = args.get_mut(at) {
            *arg = ours.into();
        }
        at += 1 + values;
    }
    args
}

/// A command line that says why it is not taken.
fn refused(mut args: Vec<OsString>, why: String) -> Vec<OsString> {
    args.truncate(2);
    args.extend(["--refused".into(), why.into()]);
    args
}

/// All names that SIPp writes with one dash, and our own ones.
fn one_dash() -> Vec<(&'static str, String)> {
    let same = ONE_DASH.iter().map(|name| (*name, name.replace('_', "-")));
    same.chain(sipp::names().map(|(theirs, ours)| (theirs, ours.to_owned()))).collect()
}

/// The options that there are.
fn known() -> Command {
    let mut command = LoadArgs::augment_args(Command::new("load"));
    command.build();
    command
}

/// How many of the following arguments are an option's values.
fn values_of(known: &Command, option: &str) -> usize {
    let long = option.strip_prefix("--");
    let short = option.strip_prefix('-').and_then(|text| text.parse::<char>().ok());
    let own = known.get_arguments().find(|own| {
        long.is_some_and(|long| own.get_long() == Some(long))
            || short.is_some_and(|c| own.get_short() == Some(c))
    });
    let Some(own) = own.filter(|own| own.get_action().takes_values()) else { return 0 };
    own.get_num_args().map_or(1, |range| range.max_values())
}

#[cfg(test)]
impl LoadArgs {
    /// What these words behind `load` say, for tests.
    pub(super) fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> LoadArgs {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            load: LoadArgs,
        }
        let Line { load } = clap::Parser::parse_from(["load"].into_iter().chain(words));
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_sipp_are_understood() {
        let args = ["strowger", "load", "-sn", "uac", "-r", "5", "--max_invite_retrans", "3", "-p5060", "h"];
        let args = translate(args.iter().map(OsString::from));
        let want = ["strowger", "load", "--sn", "uac", "-r", "5", "--max-invite-retrans", "3", "-p5060", "h"];
        assert_eq!(args, want.map(OsString::from));
        let args = ["strowger", "load", "-users", "5", "-i", "::1,::2", "-T2", "9", "h"];
        let want = ["strowger", "load", "--callers", "5", "--from", "::1,::2", "--t2", "9", "h"];
        assert_eq!(translate(args.iter().map(OsString::from)), want.map(OsString::from));
        let args = translate(["strowger", "load", "-sn", "uac", "-bg", "h"].iter().map(OsString::from));
        assert!(args[2] == "--refused" && args[3].to_str().is_some_and(|why| why.starts_with("-bg: ")));
    }

    #[test]
    fn values_are_no_options() {
        let given = ["strowger", "load", "-key", "x", "-v", "-s", "-f", "-ap", "-sn", "-sn", "uac", "h"];
        let args = translate(given.iter().map(OsString::from));
        let want = ["strowger", "load", "--key", "x", "-v", "-s", "-f", "--ap", "-sn", "--sn", "uac", "h"];
        assert_eq!(args, want.map(OsString::from));
        let read = LoadArgs::augment_args(Command::new("load")).try_get_matches_from(args.iter().skip(1));
        let read = read.expect("it is taken");
        let keys: Vec<&String> = read.get_many("key").expect("keys").collect();
        assert_eq!(keys, ["x", "-v"]);
        assert_eq!(read.get_one::<String>("service").map(String::as_str), Some("-f"));
        let refused = translate(["strowger", "load", "-aa", "-bg"].iter().map(OsString::from));
        assert!(refused[2] == "--refused", "a flag has no value");
    }

    #[test]
    fn words_that_are_no_option_are_refused_whole() {
        let said = |line: &str| {
            let args = translate(["strowger", "load"].into_iter().chain(line.split(' ')).map(OsString::from));
            let refused = args.get(2).is_some_and(|arg| arg == "--refused");
            refused.then(|| args[3].to_string_lossy().into_owned())
        };
        for (line, want) in [
            (
                "h -rate 10",
                "-rate: no such option; did you mean -r, -rate_increase, -rate_interval or -rate_max?",
            ),
            ("h -rate_mx 10", "-rate_mx: no such option; did you mean -rate_max?"),
            ("h -port 5090", "-port: no such option; did you mean -p?"),
            ("h -calls 10", "-calls: no such option; did you mean -r, -m or -l?"),
            ("h -find_peek", "did you mean --find-peak?"),
            ("h -service x", "did you mean -s?"),
            ("h -sn=uac", "-sn=uac: no such option; did you mean -sn?"),
            ("h -xyzzyx", "-xyzzyx: no such option; `strowger load --help` shows all"),
        ] {
            assert!(said(line).is_some_and(|said| said.contains(want)), "{line}: {:?}", said(line));
        }
        for good in
            ["-r10 h", "-m5", "-d10s", "-p5060", "-i127.0.0.1", "-ife80::1", "-tu1", "-r=10", "-key a -port"]
        {
            assert_eq!(said(good), None, "{good}");
        }
        for good in ["-s -port", "-help", "-h", "-c 10", "-10", "--rate 10", "-- -rate", "-sf -port"] {
            assert_eq!(said(good), None, "{good}");
        }
    }

    /// Whether a command line is taken; of one that is not, what it says.
    fn taken(line: &str) -> Result<(), String> {
        let args = translate(["strowger", "load"].into_iter().chain(line.split(' ')).map(OsString::from));
        let read = LoadArgs::augment_args(Command::new("load")).try_get_matches_from(args.iter().skip(1));
        read.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        for (mode, options) in [
            (
                "--users 100 h",
                "-ap x;-s x;-auth_uri x;-base_cseq 2;-aa;-nd;-default_behaviors all;-T2 4s;-infindex f 1;-max_socket 5;\
                 -ip_field 1;-mi 127.0.0.1;-mp 7000;-rate_increase 1 -rate_interval 1s",
            ),
            (
                "-sn uac h --find-peak",
                "-rate_increase 10;-rate_increase 10 -rate_interval 1s;-rate_increase 1 -no_rate_quit;--self-test",
            ),
            ("-sn uac h --find-peak --rfc7502", "--trial 5s;--resolution 5;--success 99"),
            ("-sn uac h --trace f", "-r 5;-rp 2s;-rate_increase 1;-rate_max 5;--poisson"),
            ("-sn uac h -users 5", "-r 5;-rp 2s;-rate_increase 1;-rate_max 5;--poisson;--trace f"),
            ("--backend", "-users 5;-max_socket 5;-ip_field 1;--udp-segmentation off"),
            ("--self-test", "-rate_increase 1;-timeout 5s;--success 50;-rsa h;-inf f"),
        ] {
            assert_eq!(taken(mode), Ok(()));
            for option in options.split(';') {
                let said = taken(&format!("{mode} {option}"));
                assert!(
                    said.as_ref().is_err_and(|why| why.contains("cannot be used with")),
                    "{mode} {option}: {said:?}"
                );
            }
        }
        for (alone, wanted) in [
            ("h --trial 5s", "--find-peak"),
            ("h --trial 5s", "--self-test"),
            ("h -rate_interval 5s", "--rate-increase"),
            ("h -no_rate_quit", "--rate-increase"),
        ] {
            assert!(taken(alone).is_err_and(|why| why.contains(wanted)), "{alone}");
        }
        for good in [
            "h --find-peak --trial 5s --resolution 5 -r 10 -rp 2s -rate_max 50 --poisson",
            "--self-test --trial 2s -r 10 -rate_max 50",
            "h -r 5 -rate_increase 5 -rate_interval 2s -rate_max 50 -no_rate_quit",
            "h --find-peak --rfc7502 --attempts 5 -r 20 -rate_max 60",
        ] {
            assert_eq!(taken(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn other_commands_keep_what_they_are_given() {
        let args: Vec<OsString> = ["strowger", "serve", "-sn"].iter().map(OsString::from).collect();
        assert_eq!(translate(args.clone().into_iter()), args);
    }
}
