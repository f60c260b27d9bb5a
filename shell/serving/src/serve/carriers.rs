//! Accounts at trunks: passwords at the start and at a reload, and what an operator sees of registrations.

use control::admin::TrunkTarget;
use control::config::{Config, ConfigError, Loaded, Passwords};
use control::log::Safe;
use control::metrics::{Kind, Text};
use sip_node::{RegistrationNews, RegistrationState, Settings, Shown, Standings};
use wire::{Flow, Time};

/// Alarms that name a trunk; one more says how many there are besides.
const NAMED: usize = 8;

/// Reads the passwords, and warns of files that others can read.
///
/// # Errors
/// A finding for each file that cannot be used.
pub fn passwords(loaded: &Loaded) -> Result<Passwords, Vec<ConfigError>> {
    let passwords = loaded.read_passwords()?;
    passwords.open_files().iter().for_each(|file| log_events::carriers::password_file_open(&file.display()));
    Ok(passwords)
}

/// The same at the start.
///
/// # Errors
/// All findings that are listed.
pub fn at_start(loaded: &Loaded) -> Result<Passwords, String> {
    passwords(loaded).map_err(|findings| {
        let lines: Vec<String> = findings.iter().map(ConfigError::to_string).collect();
        lines.join("\n")
    })
}

/// The registrations of a configuration. What `before` knows of them goes on.
pub fn standings(config: &Config, before: &Standings) -> Standings {
    let registered = config.trunks.iter().filter(|trunk| trunk.register.is_some());
    Standings::new(registered.map(|trunk| trunk.name.as_bytes()), before)
}

/// These settings, with the accounts at the trunks.
pub fn with_accounts(
    mut settings: Settings,
    config: &Config,
    passwords: &Passwords,
    standings: &Standings,
) -> Settings {
    for (trunk, written) in settings.trunks.iter_mut().zip(&config.trunks) {
        trunk.account = passwords.account(written, standings);
    }
    settings
}

/// Each registration as a line among the targets, in the order of the configuration.
pub fn rows(config: &Config, standings: &Standings, now: Time) -> Vec<TrunkTarget> {
    let trunks = config.trunks.iter();
    let row = |trunk: &control::config::Trunk| {
        let registration = trunk.register.as_ref()?;
        let shown = standings.get(trunk.name.as_bytes())?.shown();
        let place = registration.registrar.as_ref().or(trunk.targets.first());
        let place = place.map_or("", |target| &target.uri);
        Some(TrunkTarget {
            list: format!("trunk {}", trunk.name),
            target: format!("register at {place}"),
            state: state(shown.state).to_owned(),
            why: why(&shown, now),
            since_s: shown.since.map(|since| now.since(since).as_secs()),
            calls: shown.sent,
            failures: shown.failed,
            last_error_s: shown.trouble_at.map(|at| now.since(at).as_secs()),
            last_error: Some(shown.trouble).filter(|trouble| !trouble.is_empty()),
            silent: Vec::new(),
            trunk: None,
        })
    };
    trunks.filter_map(row).collect()
}

const fn state(state: RegistrationState) -> &'static str {
    match state {
        RegistrationState::Trying => "trying",
        RegistrationState::Registered => "registered",
        RegistrationState::Refused(_) => "refused",
        RegistrationState::Failing => "failing",
    }
}

/// How long, where, and what comes next.
fn why(shown: &Shown, now: Time) -> String {
    let mut parts = Vec::new();
    if let RegistrationState::Refused(status) = shown.state {
        parts.push(format!("with {status}"));
    }
    parts.extend(shown.until.map(|until| format!("for {} s more", until.since(now).as_secs())));
    parts.extend(shown.at.map(|(transport, address)| format!("at {transport}:{address}")));
    if !shown.realm.is_empty() {
        parts.push(format!("realm {}", Safe(&shown.realm)));
    }
    let tried = shown.state != RegistrationState::Registered;
    parts.extend(
        shown.next.filter(|_| tried).map(|next| format!("next try in {} s", next.since(now).as_secs())),
    );
    parts.join(", ")
}

/// What the operator should look at: registrations that are refused or fail.
pub fn alarms(rows: &[TrunkTarget]) -> Vec<String> {
    let bad: Vec<&TrunkTarget> =
        rows.iter().filter(|row| matches!(row.state.as_str(), "refused" | "failing")).collect();
    let named = bad.iter().take(NAMED).map(|row| {
        let since = row.since_s.map_or(String::new(), |since| format!(" for {since} s"));
        let error = row.last_error.as_deref().unwrap_or("no answer");
        format!("{}: the registration is {}{since}: {error}", row.list, row.state)
    });
    let more = bad.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more registrations are bad: see `strowger ctl trunks`"));
    named.chain(more).collect()
}

/// How many registrations are in which state.
pub fn metrics(rows: &[TrunkTarget], text: &mut Text<'_>) {
    const NAME: &str = "strowger_trunk_registrations";
    text.family(NAME, "Registrations at trunks: `registered`, `trying` (no answer yet), `refused` (tried again seldom), `failing` (nobody takes it).", Kind::Gauge);
    for state in ["registered", "trying", "refused", "failing"] {
        let count = rows.iter().filter(|row| row.state == state).count();
        text.sample(NAME, &[("state", state)], count as u64);
    }
}

/// Logs what has become of a registration.
pub fn say(trunk: &[u8], news: &RegistrationNews) {
    let address = |flow: &Flow| format!("{}:{}", flow.transport, flow.remote);
    match news {
        RegistrationNews::Registered { at, seconds } => {
            log_events::carriers::trunk_registered(&Safe(trunk), &address(at), *seconds);
        }
        RegistrationNews::Refused { at, status, why } => {
            log_events::carriers::trunk_registration_refused(&Safe(trunk), &address(at), *status, why);
        }
        RegistrationNews::Failing { why } => {
            log_events::carriers::trunk_registration_failing(&Safe(trunk), why);
        }
        RegistrationNews::Ended => log_events::carriers::trunk_registration_ended(&Safe(trunk)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::config::Overrides;
    use std::time::Duration;
    use wire::Transport;

    fn config() -> Config {
        let text = "[[trunk]]\nname = 'carrier'\ntargets = ['sip:carrier.example']\nprefixes = ['+']\nuser = 'u'\n\
                    password_file = 'p'\nregister = true\n\
                    [[trunk]]\nname = 'other'\ntargets = ['sip:192.0.2.1']\nprefixes = ['0']\n";
        Config::parse("x", text, &Overrides::default(), &[]).expect("good").config
    }

    #[test]
    fn registration_is_shown_with_its_end_and_its_trouble() {
        let (config, now) = (config(), Time::from_secs(100));
        let standings = standings(&config, &Standings::default());
        assert!(standings.get(b"other").is_none(), "it does not register");
        let standing = standings.get(b"carrier").unwrap();
        standing.set(None, |shown| {
            (shown.state, shown.since) = (RegistrationState::Registered, Some(Time::from_secs(90)));
            shown.until = Some(now + Duration::from_secs(290));
            shown.at = Some((Transport::Udp, "203.0.113.5:5060".parse().unwrap()));
            shown.realm = b"carrier.example".to_vec();
            shown.sent = 2;
        });
        let shown = rows(&config, &standings, now);
        assert_eq!(shown.len(), 1);
        let row = &shown[0];
        assert_eq!(
            (row.list.as_str(), row.target.as_str()),
            ("trunk carrier", "register at sip:carrier.example")
        );
        assert_eq!(row.why, "for 290 s more, at udp:203.0.113.5:5060, realm carrier.example");
        assert_eq!((row.state.as_str(), row.since_s, row.calls), ("registered", Some(10), 2));
        assert!(alarms(&shown).is_empty());
        standing.set(None, |shown| {
            (shown.state, shown.since) = (RegistrationState::Refused(403), Some(Time::from_secs(95)));
            (shown.until, shown.next) = (None, Some(now + Duration::from_secs(170)));
            (shown.trouble, shown.trouble_at) = ("its user or password is wrong".into(), Some(now));
        });
        let shown = rows(&config, &standings, now);
        assert!(shown[0].why.starts_with("with 403, at udp:") && shown[0].why.ends_with("next try in 170 s"));
        assert_eq!(
            alarms(&shown),
            ["trunk carrier: the registration is refused for 5 s: its user or password is wrong"]
        );
    }
}
