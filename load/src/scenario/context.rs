//! What is known and found while a scenario file is read.

use super::problem::Problem;
use super::read::Surroundings;
use super::variables::{Scope, Slot, Variables};
use std::collections::{BTreeMap, BTreeSet};

/// A place in the file: line and column, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    /// The place behind a text that begins here.
    pub fn after(self, text: &str) -> Place {
        match text.rsplit_once('\n') {
            // On one line it is near enough.
            None => self,
            Some((_, last)) => Place {
                line: self.line + text.matches('\n').count() as u32,
                column: last.chars().count() as u32 + 1,
            },
        }
    }
}

/// Most different variables, timers, counters, transactions of one scenario each.
const MOST_NAMES: usize = 1_000;
/// Most timers: each is two distributions of times for each worker.
pub(super) const MOST_TIMERS: usize = 64;

/// The state of reading one file.
pub(super) struct Context<'a> {
    pub file: &'a str,
    pub around: &'a Surroundings<'a>,
    pub problems: Vec<Problem>,
    pub variables: Variables,
    /// Whether the text is ISO-8859-1: characters of it are bytes of the messages.
    pub latin: bool,
    /// How the variables of calls are used.
    pub uses: BTreeMap<String, Use>,
    /// `<init>` is being read.
    pub in_init: bool,
    /// The keywords of `-key` that are used.
    pub keys: BTreeSet<String>,
    /// The fields that are wanted where no injection file is given, and where the first of them is.
    pub fields: Option<(Place, BTreeSet<u16>)>,
}

/// How a variable is used.
#[derive(Debug, Default)]
pub(super) struct Use {
    /// Something writes it, or nobody wants to hear that nothing does.
    written: bool,
    /// Where it is read first.
    read: Option<(Place, String)>,
}

impl Context<'_> {
    /// Notes a problem.
    pub fn complain(
        &mut self,
        place: Place,
        element: &str,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) {
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line: place.line,
            column: place.column,
            element: element.to_owned(),
            what: what.into(),
            mend: mend.into(),
        });
    }

    /// Notes that a field is wanted and no injection file is given.
    pub fn want_field(&mut self, place: Place, field: u16) {
        let (_, fields) = self.fields.get_or_insert_with(|| (place, BTreeSet::new()));
        fields.insert(field);
    }

    /// Complains, once, about the fields that are wanted without a file.
    pub fn miss_fields(&mut self) {
        let Some((place, fields)) = self.fields.take() else { return };
        let named: Vec<String> = fields.iter().map(|field| format!("[field{field}]")).collect();
        let mend = "give one with -inf: SEQUENTIAL in its first line, and the values of a call in each other one, \
                    parted by `;'";
        self.complain(place, &named.join(", "), "no injection file is given", mend);
    }

    /// The variable of this name, which is read here.
    pub fn read(&mut self, name: &str, place: Place, element: &str) -> Slot {
        let own = self.uses.entry(name.trim().to_owned()).or_default();
        own.read.get_or_insert_with(|| (place, element.to_owned()));
        self.slot(name, place, element)
    }

    /// The variable of this name, which is written here.
    pub fn write(&mut self, name: &str, place: Place, element: &str) -> Slot {
        self.refer(name.trim());
        let slot = self.slot(name, place, element);
        self.variables.writes_global |= slot.scope == Scope::Global && !self.in_init;
        slot
    }

    /// Takes a variable as written.
    pub fn refer(&mut self, name: &str) {
        self.uses.entry(name.to_owned()).or_default().written = true;
    }

    /// Variables of calls that are read and never written.
    pub fn unwritten(&self) -> impl Iterator<Item = (String, Place, String)> {
        self.uses.iter().filter_map(|(name, own)| {
            let call = self.variables.find(name).is_some_and(|slot| slot.scope == Scope::Call);
            let (place, element) =
                own.read.as_ref().filter(|_| call && !own.written && name != "_unexp.retaddr")?;
            Some((name.clone(), *place, element.clone()))
        })
    }

    /// The variable of this name, made at its first use.
    fn slot(&mut self, name: &str, place: Place, element: &str) -> Slot {
        const NOTHING: Slot = Slot { scope: Scope::Call, at: 0 };
        let name = name.trim();
        if name.is_empty() || name.contains(['$', ',', '[', ']', ' ']) {
            let mend = "write a name of letters, digits, `_' and `.'";
            self.complain(place, element, format!("`{name}' is no name of a variable"), mend);
            return NOTHING;
        }
        if let Some(slot) = self.variables.find(name) {
            return slot;
        }
        self.number(name, place, element, |variables| &mut variables.call)
            .map_or(NOTHING, |at| Slot { scope: Scope::Call, at })
    }

    /// Adds a name to a list, if there is room.
    fn number(
        &mut self,
        name: &str,
        place: Place,
        element: &str,
        list: impl Fn(&mut Variables) -> &mut Vec<String>,
    ) -> Option<u16> {
        let names = list(&mut self.variables);
        if names.len() >= MOST_NAMES {
            self.complain(place, element, format!("more than {MOST_NAMES} variables"), "use fewer");
            return None;
        }
        names.push(name.to_owned());
        u16::try_from(names.len() - 1).ok()
    }

    /// Declares a variable of the users or of the run.
    pub fn declare(&mut self, name: &str, scope: Scope, place: Place, element: &str) {
        let name = name.trim();
        match self.variables.find(name) {
            Some(slot) if slot.scope == scope => {}
            Some(_) => {
                let what = format!("`{name}' was used before it is declared here");
                self.complain(place, element, what, "move the declaration to the top of the scenario");
            }
            None => {
                self.number(name, place, element, |variables| match scope {
                    Scope::Call => &mut variables.call,
                    Scope::User => &mut variables.user,
                    Scope::Global => &mut variables.global,
                });
            }
        }
    }

    /// The place of a name in a list, added if it is new.
    pub fn intern(&mut self, list: &mut Vec<String>, name: &str, place: Place, element: &str) -> u16 {
        if let Some(at) = list.iter().position(|own| own == name) {
            return at as u16;
        }
        if list.len() >= MOST_NAMES {
            self.complain(place, element, format!("more than {MOST_NAMES} different names"), "use fewer");
            return 0;
        }
        list.push(name.to_owned());
        (list.len() - 1) as u16
    }

    /// The bytes that a text of the file stands for.
    pub fn push_bytes(&self, text: &str, out: &mut Vec<u8>) {
        if self.latin {
            out.extend(text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')));
        } else {
            out.extend_from_slice(text.as_bytes());
        }
    }
}
