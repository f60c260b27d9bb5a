//! No number on the command line makes the program panic, abort or hang: it is refused, or the run can begin.

use super::args::LoadArgs;
use super::plan::{Plan, arrivals};
use super::users::UsersPlan;
use super::{backend, search, traces, watch};
use clap::{Args, Command, FromArgMatches};
use wire::Time;

/// Beside what options stand.
const BESIDE: [&str; 11] = [
    "--sn uac 127.0.0.1",
    "--sn uac 127.0.0.1 --transport un --max-socket 3",
    "--sn uac 127.0.0.1 --transport un -m 3",
    "--sn uac 127.0.0.1 --transport tn",
    "--sn uac 127.0.0.1 --rate-increase 1",
    "--sn uac 127.0.0.1 --find-peak",
    "--sn uac 127.0.0.1 --find-peak --rfc7502",
    "--users 4 --domain x 127.0.0.1",
    "--users 4 --domain x 127.0.0.1 --find-peak",
    "--domain x 127.0.0.1",
    "--backend",
];

/// What is no number.
const WORDS: [&str; 46] = [
    "sn",
    "sf",
    "answer",
    "inf",
    "service",
    "au",
    "ap",
    "key",
    "trace",
    "arrivals",
    "local_ip",
    "transport",
    "mi",
    "json",
    "html",
    "csv",
    "pcap",
    "from",
    "rsa",
    "set",
    "infindex",
    "auth_uri",
    "sd",
    "default_behaviors",
    "error_file",
    "refused",
    "domain",
    "with",
    "first_user",
    "first_password",
    "write_users",
    "mailbox",
    "server_metrics",
    "target",
    "udp_segmentation",
    "help",
    "message_file",
    "log_file",
    "stf",
    "cid_str",
    "version",
    "tls_cert",
    "tls_key",
    "tls_ca",
    "tls_version",
    "tls_resume",
];

const NUMBERS: [&str; 14] = [
    "0",
    "5",
    "-1",
    "-0",
    "0.0000001",
    "500",
    "65536",
    "4294967296",
    "1000000000000000000",
    "18446744073709551615",
    "18446744073709551616",
    "1e300",
    "-1e300",
    "nan",
];

/// What a run does before its first message; `whole`: to the end, which takes a while.
fn begin(args: &LoadArgs, whole: bool) -> Result<(), String> {
    let times = [args.timeout.as_deref(), args.cool_down.as_deref(), Some(&args.trial)];
    times.into_iter().flatten().try_for_each(|text| {
        let length = watch::duration(text)?;
        let _ = Time::from_secs(1) + length;
        Ok::<_, String>(())
    })?;
    args.sipp.traces.every()?;
    traces::seconds(args.sipp.traces.display.as_ref(), 1)?;
    if args.backends.backend {
        return backend::check(args);
    }
    let trial = args.find_peak.then(|| search::trial_length(args)).transpose()?;
    if args.find_peak {
        search::check(args)?;
    }
    if args.people.users.is_some() {
        let plan = UsersPlan::new(args, trial)?;
        let _ = plan.preparation();
        return if whole { plan.people(Time::from_secs(1)).map(drop) } else { Ok(()) };
    }
    if args.sipp.callers.is_none() {
        let times = arrivals(args)?.times(1, 0, 1, args.most);
        assert!(times.take(1_000).is_sorted());
    }
    let plan = Plan::new(args)?;
    if whole {
        assert!(!plan.engines(Time::from_secs(1))?.is_empty());
    }
    Ok(())
}

#[test]
fn numbers_are_refused_or_taken() {
    let command = || LoadArgs::augment_args(Command::new("load"));
    let known = command();
    let mut options: Vec<String> = Vec::new();
    for own in known.get_arguments().filter(|own| own.get_action().takes_values()) {
        if !WORDS.contains(&own.get_id().as_str()) {
            let long = own.get_long().map(|long| format!("--{long}="));
            options.push(long.unwrap_or_else(|| format!("-{}", own.get_short().unwrap_or_default())));
        }
    }
    assert!(options.len() > 40, "{options:?}");
    let (mut taken, mut refused) = (0, 0);
    for option in &options {
        let mut begun = std::collections::BTreeSet::new();
        for beside in BESIDE {
            for number in NUMBERS {
                let words = ["load"].into_iter().chain(beside.split(' ')).map(str::to_owned);
                let one = (option != "--workers=").then(|| "--workers=1".to_owned());
                let words = words.chain([format!("{option}{number}")]).chain(one);
                let Ok(read) = command().try_get_matches_from(words) else {
                    refused += 1;
                    continue;
                };
                let args = LoadArgs::from_arg_matches(&read).expect("it is taken");
                match begin(&args, begun.insert(number)) {
                    Ok(()) => taken += 1,
                    Err(why) => {
                        assert!(!why.is_empty(), "{option}{number}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(!begun.is_empty(), "{option} has some value that stands beside something");
    }
    assert!(taken > 100 && refused > 1_000, "{taken} {refused}");
}
