//! Which trunks a called number goes over: the route table and the `prefixes` of trunks together.

use crate::settings::Trunk;
use number_routes::{Digits, Match, RouteTable, is_separator};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Decides about called numbers. The trunks are those of the settings in force.
#[derive(Default)]
pub struct NumberPlan {
    table: Arc<RouteTable>,
    /// The place of each trunk of the table among those of the settings.
    places: Vec<Option<usize>>,
}

/// What decides about a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decisive<'a> {
    /// The longest prefix of the route table.
    Rows(Match<'a>),
    /// The longest prefix of a trunk.
    Prefix {
        /// The trunk, by its place in the settings.
        trunk: usize,
        /// The prefix as the settings have it.
        prefix: &'a [u8],
    },
}

impl NumberPlan {
    /// Of a table and the trunks of the settings.
    pub fn new(table: Arc<RouteTable>, trunks: &[Trunk]) -> NumberPlan {
        let mut plan = NumberPlan { table, places: Vec::new() };
        plan.renew(trunks);
        plan
    }

    /// The settings have these trunks from now on.
    pub(crate) fn renew(&mut self, trunks: &[Trunk]) {
        // An empty table asks for nothing.
        let named: BTreeMap<&[u8], usize> = match self.table.trunks() {
            [] => BTreeMap::new(),
            _ => trunks.iter().enumerate().map(|(at, trunk)| (&trunk.name[..], at)).collect(),
        };
        self.places = self.table.trunks().iter().map(|name| named.get(&name[..]).copied()).collect();
    }

    /// What decides about a number in canonical form: the longest prefix of all. Of equal length that of the
    /// route table does, and of two trunks the one that stands first.
    pub fn decisive<'a>(&'a self, trunks: &'a [Trunk], number: &[u8]) -> Option<Decisive<'a>> {
        let mut longest: Option<(usize, Decisive<'a>)> = None;
        for (trunk, Trunk { prefixes, .. }) in trunks.iter().enumerate() {
            for prefix in prefixes.iter().filter(|prefix| number.starts_with(prefix)) {
                let length = characters(prefix);
                if longest.is_none_or(|(other, _)| length > other) {
                    longest = Some((length, Decisive::Prefix { trunk, prefix }));
                }
            }
        }
        let rows = if self.table.is_empty() { None } else { self.table.find(Digits::dialled(number)) };
        match (rows, longest) {
            (Some(rows), Some((length, decisive))) if length > rows.prefix.len() => Some(decisive),
            (Some(rows), _) => Some(Decisive::Rows(rows)),
            (None, longest) => longest.map(|(_, decisive)| decisive),
        }
    }

    /// The trunks that are tried, by their places in the settings, in this order.
    pub fn trunks<'a>(&'a self, decisive: Decisive<'a>) -> impl Iterator<Item = usize> + 'a {
        let (ways, own) = match decisive {
            Decisive::Rows(rows) => (rows.ways, None),
            Decisive::Prefix { trunk, .. } => (&[][..], Some(trunk)),
        };
        ways.iter()
            .filter_map(move |way| self.places.get(usize::from(way.trunk)).copied().flatten())
            .chain(own)
    }
}

/// How many characters a user part in canonical form has: an escape is one.
fn characters(user: &[u8]) -> usize {
    user.len() - 2 * user.iter().filter(|&&byte| byte == b'%').count()
}

/// A called number as trunks get it: where it says that it is a telephone number (`user=phone`, RFC 3261
/// section 19.1.1), without visual separators (RFC 3966 section 3).
pub(crate) fn plain<'n>(is_phone: bool, number: &'n [u8]) -> Cow<'n, [u8]> {
    // What stands in front of parameters, which may have a hyphen in their names.
    let end = number.iter().position(|&byte| byte == b';').unwrap_or(number.len());
    let is_number = matches!(number.first(), Some(b'+' | b'*' | b'%' | b'(' | b'0'..=b'9'));
    let digits = number.get(..end).unwrap_or(number);
    if !is_phone || !is_number || !digits.iter().any(|&byte| is_separator(byte)) {
        return Cow::Borrowed(number);
    }
    let behind = number.get(end..).unwrap_or(b"");
    digits.iter().filter(|&&byte| !is_separator(byte)).chain(behind).copied().collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use number_routes::{Builder, Way};

    fn trunk(name: &str, prefixes: &[&str]) -> Trunk {
        Trunk {
            name: name.into(),
            prefixes: prefixes.iter().map(|prefix| prefix.as_bytes().to_vec()).collect(),
            ..Trunk::default()
        }
    }

    fn plan(rows: &[(&str, u16)], trunks: &[Trunk]) -> NumberPlan {
        let mut builder = Builder::new(vec![b"b".to_vec(), b"gone".to_vec(), b"a".to_vec()]);
        for (line, (prefix, trunk)) in (2..).zip(rows) {
            let way = Way { trunk: *trunk, priority: 0, cost: 0, line };
            builder.add(Digits::parse(prefix.as_bytes()).unwrap(), way).unwrap();
        }
        NumberPlan::new(Arc::new(builder.finish(1).unwrap()), trunks)
    }

    fn tried(plan: &NumberPlan, trunks: &[Trunk], number: &str) -> Vec<usize> {
        plan.decisive(trunks, number.as_bytes()).into_iter().flat_map(|d| plan.trunks(d)).collect()
    }

    #[test]
    fn longest_prefix_of_table_and_trunks_decides() {
        let trunks = [trunk("a", &["+", "+4930"]), trunk("b", &["+1", "*21%23"])];
        let plan = plan(&[("+49", 0), ("+1", 2), ("+49301", 2), ("*21#5", 2)], &trunks);
        for (number, wanted) in [
            ("+44", &[0][..]),
            ("+4940", &[1]),
            ("+49302", &[0]),
            ("+49301", &[0]),
            // Of equal length the table's.
            ("+12", &[0]),
            ("*21%231", &[1]),
            ("*21%235", &[0]),
            ("0049", &[]),
            ("alice", &[]),
        ] {
            assert_eq!(tried(&plan, &trunks, number), wanted, "{number}");
        }
    }

    #[test]
    fn trunks_of_the_table_are_found_by_name_in_new_settings() {
        let trunks = [trunk("a", &[]), trunk("b", &[])];
        let mut plan = plan(&[("1", 0), ("1", 1), ("1", 2)], &trunks);
        assert_eq!(tried(&plan, &trunks, "12"), [1, 0]);
        let swapped = [trunk("b", &[]), trunk("gone", &[]), trunk("a", &[])];
        plan.renew(&swapped);
        assert_eq!(tried(&plan, &swapped, "12"), [0, 1, 2]);
    }

    #[test]
    fn separators_leave_only_telephone_numbers() {
        for (number, plain_text) in [
            ("+49-30-(555).1", "+49305551"),
            ("(030)555;phone-context=a-b.example", "030555;phone-context=a-b.example"),
            ("+4930", "+4930"),
            ("first.last", "first.last"),
        ] {
            assert_eq!(&*plain(true, number.as_bytes()), plain_text.as_bytes());
            assert_eq!(&*plain(false, number.as_bytes()), number.as_bytes());
        }
    }
}
