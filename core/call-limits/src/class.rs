//! Classes of callers.

use crate::hours::{Hours, Zone};
use crate::prefixes::Prefixes;
use crate::rule::{Barred, ClassName, Rule};

/// How many calls a user or trunk may make. `None`: any number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// At a time.
    pub channels: Option<u32>,
    /// In an hour of local time.
    pub per_hour: Option<u32>,
    /// On a day of local time.
    pub per_day: Option<u32>,
}

impl Limits {
    /// Whether there are any.
    pub const fn are_any(&self) -> bool {
        self.channels.is_some() || self.per_hour.is_some() || self.per_day.is_some()
    }
}

/// What callers of a class may do.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name.
    pub name: ClassName,
    /// Beginnings of numbers that may be called, and of others that may not.
    pub prefixes: Prefixes,
    /// Names of the trunks that its calls may leave over; `None`: all, and to other hosts.
    pub trunks: Option<Vec<Vec<u8>>>,
    /// When.
    pub hours: Hours,
    /// Where hours and days are those of this zone.
    pub zone: Zone,
    /// How many calls.
    pub limits: Limits,
}

impl Class {
    /// That forbids nothing.
    pub fn open(name: &[u8]) -> Class {
        Class {
            name: ClassName::new(name),
            prefixes: Prefixes::default(),
            trunks: None,
            hours: Hours::default(),
            zone: Zone::default(),
            limits: Limits::default(),
        }
    }

    /// A refusal by a rule of it.
    pub const fn bars(&self, rule: Rule) -> Barred {
        Barred { class: self.name, rule }
    }

    /// Whether its calls may leave over this trunk.
    ///
    /// # Errors
    /// The rule that refuses it.
    pub fn lets_over(&self, trunk: &[u8]) -> Result<(), Rule> {
        match &self.trunks {
            Some(trunks) if !trunks.iter().any(|name| name == trunk) => Err(Rule::Trunk),
            _ => Ok(()),
        }
    }
}

/// All classes, and who has which. The default has none.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// By name.
    list: Vec<Class>,
    /// Names of domains with the places of their classes.
    domains: Vec<(Vec<u8>, usize)>,
    /// The same of trunks.
    trunks: Vec<(Vec<u8>, usize)>,
}

impl Classes {
    /// These classes.
    pub fn new(mut list: Vec<Class>) -> Classes {
        list.sort_by_key(|class| class.name);
        Classes { list, domains: Vec::new(), trunks: Vec::new() }
    }

    /// Users of this domain, in lower case, have this class if they have no other. An unknown class is not
    /// noted.
    pub fn of_users_at(&mut self, domain: &[u8], class: &[u8]) {
        self.domains.extend(self.place(class).map(|at| (domain.to_vec(), at)));
    }

    /// The trunk of this name has this class. An unknown class is not noted.
    pub fn of_calls_from(&mut self, trunk: &[u8], class: &[u8]) {
        self.trunks.extend(self.place(class).map(|at| (trunk.to_vec(), at)));
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The class of this name.
    pub fn named(&self, name: &[u8]) -> Option<&Class> {
        self.list.get(self.place(name)?)
    }

    /// The class of the users of a domain that have no other.
    pub fn of_domain(&self, domain: &[u8]) -> Option<&Class> {
        let found = self.domains.iter().find(|(name, _)| name == domain);
        found.and_then(|(_, at)| self.list.get(*at))
    }

    /// The class of a trunk.
    pub fn of_trunk(&self, trunk: &[u8]) -> Option<&Class> {
        let found = self.trunks.iter().find(|(name, _)| name == trunk);
        found.and_then(|(_, at)| self.list.get(*at))
    }

    fn place(&self, name: &[u8]) -> Option<usize> {
        self.list.binary_search_by(|class| (*class.name).cmp(name)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_found_by_name_domain_and_trunk() {
        let list = ["staff", "guest", "staff2"].map(|name| Class::open(name.as_bytes()));
        let mut classes = Classes::new(list.to_vec());
        classes.of_users_at(b"here.example", b"guest");
        classes.of_calls_from(b"carrier", b"staff2");
        classes.of_calls_from(b"pbx", b"unknown");
        let name = |class: Option<&Class>| class.map(|class| class.name.to_string());
        assert_eq!(name(classes.named(b"staff")).as_deref(), Some("staff"));
        assert_eq!(name(classes.of_domain(b"here.example")).as_deref(), Some("guest"));
        assert_eq!(name(classes.of_trunk(b"carrier")).as_deref(), Some("staff2"));
        assert_eq!((name(classes.named(b"x")), name(classes.of_trunk(b"pbx"))), (None, None));
        assert!(Classes::default().is_empty() && !classes.is_empty());
    }

    #[test]
    fn only_listed_trunks_are_left_over() {
        let mut class = Class::open(b"guest");
        assert_eq!(class.lets_over(b"any"), Ok(()));
        class.trunks = Some(vec![b"cheap".to_vec()]);
        assert_eq!((class.lets_over(b"cheap"), class.lets_over(b"any")), (Ok(()), Err(Rule::Trunk)));
    }
}
