//! What a hot reload may change.

use super::error::ConfigError;
use super::load::Loaded;
use super::reader::NO_FILE;
use super::types::Config;
use serde::{Deserialize, Serialize};

/// What a reload did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Sections that changed and are in force now, and what was ordered at run time and is undone.
    pub changed: Vec<String>,
    /// Findings that did not keep it from working.
    pub warnings: Vec<String>,
}

/// The sections in which two configurations differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// A reload can bring these into force.
    pub live: Vec<&'static str>,
    /// These need a restart.
    pub restart: Vec<&'static str>,
}

/// Compares two configurations section by section.
///
/// Sockets, threads, tables and timers are built from the second kind at start and never again, so a
/// change there needs a restart. Nothing is decided silently: a difference always shows in one list.
pub fn diff(old: &Config, new: &Config) -> Changes {
    // Taken apart in full, so that a new section cannot be forgotten here.
    let Config {
        domains,
        aliases,
        listen,
        workers,
        steering,
        pin,
        busy_poll,
        udp_segmentation,
        data_dir,
        auth,
        registrar,
        proxy,
        voicemail,
        emergency,
        trunks,
        routes,
        timers,
        limits,
        overload,
        dns,
        admin,
        log,
        store,
        balance,
    } = old;
    let names = |list: &[(&'static str, bool)]| {
        list.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect()
    };
    Changes {
        live: names(&[
            ("domains", *domains != new.domains),
            ("aliases", *aliases != new.aliases),
            ("auth", *auth != new.auth),
            ("registrar", *registrar != new.registrar),
            ("proxy", *proxy != new.proxy),
            ("voicemail", *voicemail != new.voicemail),
            ("emergency", *emergency != new.emergency),
            ("trunk", *trunks != new.trunks),
            ("route", *routes != new.routes),
            ("overload", *overload != new.overload),
            ("log", log.level != new.log.level),
            ("balance", *balance != new.balance),
        ]),
        restart: names(&[
            ("listen", *listen != new.listen),
            ("workers", *workers != new.workers),
            ("steering", *steering != new.steering),
            ("pin", *pin != new.pin),
            ("busy_poll", *busy_poll != new.busy_poll),
            ("udp_segmentation", *udp_segmentation != new.udp_segmentation),
            ("data_dir", *data_dir != new.data_dir),
            ("timers", *timers != new.timers),
            ("limits", *limits != new.limits),
            ("dns", *dns != new.dns),
            ("admin", *admin != new.admin),
            ("log.format", log.format != new.log.format),
            ("store", *store != new.store),
            ("balance.previous_secret", balance.previous_secret != new.balance.previous_secret),
        ]),
    }
}

/// Decides about a reload: either all of it can be done, and the report says what changes, or none
/// of it is, and the errors say what needs a restart.
pub fn plan_reload(old: &Config, new: &Loaded) -> Result<ReloadReport, Vec<ConfigError>> {
    let changes = diff(old, &new.config);
    if changes.restart.is_empty() {
        let changed = changes.live.into_iter().map(str::to_owned).collect();
        return Ok(ReloadReport { changed, warnings: new.warnings.iter().map(|w| w.to_string()).collect() });
    }
    let file = new.file.as_ref().map_or(NO_FILE.to_owned(), |file| file.display().to_string());
    let refuse = |name: &&'static str| {
        let section = name.split('.').next().unwrap_or(name);
        let (line, column) = new.places.get(section).copied().unwrap_or((0, 0));
        ConfigError {
            file: file.clone(),
            line,
            column,
            message: format!("`{name}` cannot change while the server runs; nothing was changed"),
            mend: "restart the server, or undo the change".into(),
        }
    };
    Err(changes.restart.iter().map(refuse).collect())
}
