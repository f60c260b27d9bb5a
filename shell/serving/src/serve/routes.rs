//! The route table: read at the start, at a reload and by `strowger check`, and what an operator sees of it.

use crate::operator::lock;
use crate::startup::Failure;
use control::admin::{NumberRoute, NumberTrunk, TrunkTarget};
use control::config::{Config, ConfigError, Loaded};
use number_routes::{RouteTable, Way, is_separator};
use route_file::Error;
use sip_message::canonical_user;
use sip_node::{Decisive, NumberPlan};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The table that the configuration names; without a file one without rows.
fn read(loaded: &Loaded) -> Result<Arc<RouteTable>, Vec<ConfigError>> {
    let Some(file) = loaded.config.route_file.file.as_deref() else { return Ok(Arc::default()) };
    let names = loaded.config.trunks.iter().map(|trunk| trunk.name.clone().into_bytes()).collect();
    match route_file::read(file, names) {
        Ok(table) => Ok(Arc::new(table)),
        Err(Error::Rows(findings)) => Err(findings),
        Err(Error::File(error)) => Err(vec![loaded.at_route_file(file, &error)]),
    }
}

/// What is wrong with the route table of a configuration: a start would fail for it.
pub fn check_routes(loaded: &Loaded) -> Vec<ConfigError> {
    read(loaded).err().unwrap_or_default()
}

/// The table for a start.
///
/// # Errors
/// All findings that are listed.
pub fn at_start(loaded: &Loaded) -> Result<Arc<RouteTable>, Failure> {
    let table = read(loaded).map_err(|findings| {
        let lines: Vec<String> = findings.iter().map(ConfigError::to_string).collect();
        lines.join("\n")
    })?;
    say(&loaded.config, &table);
    Ok(table)
}

/// Logs what was read.
fn say(config: &Config, table: &RouteTable) {
    if let Some(file) = &config.route_file.file {
        log_events::server::routes_read(&file.display(), table.rows(), table.prefixes(), table.bytes());
    }
}

/// The table in force.
pub struct Routes {
    table: Mutex<Arc<RouteTable>>,
    /// Why the last reload refused another one.
    refused: Mutex<Option<String>>,
}

impl Routes {
    /// The table of the start.
    pub fn new(table: Arc<RouteTable>) -> Routes {
        Routes { table: Mutex::new(table), refused: Mutex::default() }
    }

    fn table(&self) -> Arc<RouteTable> {
        Arc::clone(&lock(&self.table))
    }

    /// Reads the table of a new configuration. Calls go on with the one in force.
    pub fn read(&self, new: &Loaded) -> Result<Arc<RouteTable>, Vec<ConfigError>> {
        read(new).inspect_err(|findings| {
            *lock(&self.refused) = findings
                .iter()
                .find(|finding| finding.line > 0)
                .or(findings.first())
                .map(ConfigError::to_string);
        })
    }

    /// Every worker uses this table now. Returns whether it differs from the one before.
    ///
    /// The one before is given back here: that takes its time, and no worker may be held up by it.
    pub fn follow(&self, config: &Config, table: Arc<RouteTable>) -> bool {
        *lock(&self.refused) = None;
        let before = std::mem::replace(&mut *lock(&self.table), Arc::clone(&table));
        let differs = before != table;
        if differs {
            say(config, &table);
        }
        differs
    }

    /// What the operator should look at.
    pub fn alarm(&self) -> Option<String> {
        let refused = lock(&self.refused).clone()?;
        let rows = self.table().rows();
        Some(format!(
            "the route table was refused, and the one from before with {rows} rows is in force: {refused}"
        ))
    }

    /// How many rows the table has.
    pub fn rows(&self) -> usize {
        self.table().rows()
    }

    /// Where calls to a number go. `targets` are those of all lists.
    pub fn of_number(&self, config: &Config, targets: &[TrunkTarget], written: &str) -> NumberRoute {
        let number = number_of(written);
        let canonical = canonical_user(number.as_bytes());
        let trunks: Vec<sip_node::Trunk> =
            config.trunks.iter().map(control::config::Trunk::settings).collect();
        let plan = NumberPlan::new(self.table(), &trunks);
        let decisive = plan.decisive(&trunks, &canonical);
        let (prefix, source, ways) = match &decisive {
            None => (None, None, &[][..]),
            Some(Decisive::Rows(rows)) => {
                let file = config.route_file.file.as_deref().unwrap_or(Path::new("-"));
                (Some(rows.prefix.to_string()), Some(file.display().to_string()), rows.ways)
            }
            Some(Decisive::Prefix { trunk, prefix }) => {
                let name = config.trunks.get(*trunk).map_or("", |trunk| &trunk.name);
                let prefix = String::from_utf8_lossy(prefix).into_owned();
                (Some(prefix), Some(format!("`prefixes` of trunk \"{name}\"")), &[][..])
            }
        };
        let tried = decisive.into_iter().flat_map(|decisive| plan.trunks(decisive));
        let trunks = tried.enumerate().filter_map(|(nth, at)| shown(config, targets, at, ways.get(nth)));
        let trunks = trunks.collect();
        NumberRoute { before: before(config, &number), number, prefix, source, trunks }
    }
}

/// One trunk of a number, and its row.
fn shown(config: &Config, targets: &[TrunkTarget], at: usize, way: Option<&Way>) -> Option<NumberTrunk> {
    let trunk = config.trunks.get(at)?;
    let list = format!("trunk {}", trunk.name);
    let down = targets.iter().filter(|target| target.list == list && target.state == "down");
    Some(NumberTrunk {
        trunk: trunk.name.clone(),
        line: way.map(|way| way.line),
        priority: way.map(|way| way.priority),
        cost: way.map(|way| f64::from(way.cost) / 1e6),
        targets: trunk.targets.iter().map(|target| target.uri.clone()).collect(),
        down: down.map(|target| target.target.clone()).collect(),
    })
}

/// A number as people write it: with the scheme of a URI and what follows the number, or without, with visual
/// separators (RFC 3966 section 3) or without.
fn number_of(written: &str) -> String {
    let bare = ["tel:", "sip:", "sips:"].iter().find_map(|scheme| {
        let (head, rest) = written.split_at_checked(scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let bare = bare.unwrap_or(written).trim();
    let bare = bare.split(['@', ';']).next().unwrap_or(bare);
    bare.chars().filter(|c| !u8::try_from(*c).is_ok_and(is_separator) && !c.is_whitespace()).collect()
}

/// What gets calls to a number before trunks do.
fn before(config: &Config, number: &str) -> Option<String> {
    if config.emergency.iter().any(|emergency| emergency.numbers.iter().any(|dialled| dialled == number)) {
        return Some("[emergency] has this number".to_owned());
    }
    config.routes.iter().find_map(|route| match (&route.user, &route.prefix) {
        (Some(user), _) if user == number => Some(format!("the [[route]] of user \"{user}\"")),
        (_, Some(prefix)) if number.starts_with(prefix) => {
            Some(format!("the [[route]] of prefix \"{prefix}\""))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_read_however_people_write_it() {
        for written in
            ["+4930555", "tel:+49-30-555", "sip:+4930555@example.com", "TEL:+49(30)555;ext=1", " +49 30 555 "]
        {
            assert_eq!(number_of(written), "+4930555", "{written}");
        }
        assert_eq!(number_of("*21#"), "*21#");
        assert_eq!(number_of(""), "");
    }

    #[test]
    fn alarm_names_the_first_bad_row_until_a_table_is_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("routes.csv");
        let text = format!(
            "[routes]\nfile = \"{}\"\n[[trunk]]\nname = \"a\"\ntargets = [\"sip:192.0.2.1\"]\n",
            file.display()
        );
        let loaded = Config::parse("x.toml", &text, &control::config::Overrides::default(), &[]).unwrap();
        assert_eq!(check_routes(&loaded).len(), 1, "there is no such file");
        std::fs::write(&file, "prefix,trunk\n+49,a\n").unwrap();
        let routes = Routes::new(at_start(&loaded).unwrap());
        std::fs::write(&file, "prefix,trunk\n+49,a\n+49,b\n+4x,a\n").unwrap();
        assert_eq!(routes.read(&loaded).unwrap_err().len(), 3);
        let alarm = routes.alarm().unwrap();
        assert!(alarm.contains("with 1 rows is in force") && alarm.contains("routes.csv:3:5: "), "{alarm}");
        std::fs::write(&file, "prefix,trunk\n+49,a\n+44,a\n").unwrap();
        let table = routes.read(&loaded).unwrap();
        assert!(routes.follow(&loaded.config, table) && routes.alarm().is_none() && routes.rows() == 2);
        let table = routes.read(&loaded).unwrap();
        assert!(!routes.follow(&loaded.config, table), "the same rows");
    }

    #[test]
    fn number_is_explained_by_rows_or_by_the_prefix_of_a_trunk() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("routes.csv");
        std::fs::write(&file, "prefix,trunk,cost\n+4930,a,0.5\n+4930,b,0.008\n").unwrap();
        let text = format!(
            "[routes]\nfile = \"{}\"\n\
             [[trunk]]\nname = \"a\"\ntargets = [\"sip:192.0.2.1\"]\nprefixes = [\"+\"]\n\
             [[trunk]]\nname = \"b\"\ntargets = [\"sip:192.0.2.2\"]\n\
             [[route]]\nprefix = \"00\"\ntargets = [\"sip:192.0.2.3\"]\n",
            file.display()
        );
        let loaded = Config::parse("x.toml", &text, &control::config::Overrides::default(), &[]).unwrap();
        let routes = Routes::new(at_start(&loaded).unwrap());
        let route = routes.of_number(&loaded.config, &[], "tel:+49-30-1");
        let trunks: Vec<_> = route.trunks.iter().map(|t| (&t.trunk[..], t.line, t.cost)).collect();
        assert_eq!(trunks, [("b", Some(3), Some(0.008)), ("a", Some(2), Some(0.5))]);
        assert_eq!((route.number.as_str(), route.prefix.as_deref()), ("+49301", Some("+4930")));
        let route = routes.of_number(&loaded.config, &[], "+44");
        assert_eq!(route.source.as_deref(), Some("`prefixes` of trunk \"a\""));
        assert_eq!((route.trunks.len(), route.trunks[0].line), (1, None));
        let route = routes.of_number(&loaded.config, &[], "0049");
        assert_eq!(route.before.as_deref(), Some("the [[route]] of prefix \"00\""));
        assert!(route.prefix.is_none() && route.trunks.is_empty());
    }
}
