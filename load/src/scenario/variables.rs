//! Variables of calls, users and the whole run.

use std::io::Write as _;

/// Where a variable lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// In one call; the default.
    Call,
    /// In one user, across its calls (`<User>`).
    User,
    /// In the run (`<Global>`).
    Global,
}

/// A variable: its scope and its place there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Where it lives.
    pub scope: Scope,
    /// Its place in the [`Values`] of that scope.
    pub at: u16,
}

/// The variables of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    pub(super) call: Vec<String>,
    pub(super) user: Vec<String>,
    pub(super) global: Vec<String>,
    /// Whether an action of a call writes a global variable, so that calls depend on each other's order. What
    /// `<init>` writes is there before all of them.
    pub writes_global: bool,
}

impl Variables {
    /// The variable of this name.
    pub fn find(&self, name: &str) -> Option<Slot> {
        [Scope::Call, Scope::User, Scope::Global].into_iter().find_map(|scope| {
            let at = self.names(scope).iter().position(|own| own == name)?;
            Some(Slot { scope, at: u16::try_from(at).ok()? })
        })
    }

    /// The names of one scope; a variable's place there is its [`Slot::at`].
    pub fn names(&self, scope: Scope) -> &[String] {
        match scope {
            Scope::Call => &self.call,
            Scope::User => &self.user,
            Scope::Global => &self.global,
        }
    }

    /// The name of a variable.
    pub fn name(&self, slot: Slot) -> &str {
        self.names(slot.scope).get(slot.at as usize).map_or("", String::as_str)
    }

    /// Unset values for the variables of one scope.
    pub fn values(&self, scope: Scope) -> Values {
        Values { slots: vec![Value::default(); self.names(scope).len()] }
    }
}

/// What kind of value a variable has; the last action that wrote it decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Type {
    #[default]
    Unset,
    Truth,
    Number,
    Text,
}

/// The value of a variable. Keeps its memory when it is overwritten or cleared.
#[derive(Clone, Debug, Default)]
pub struct Value {
    kind: Type,
    number: f64,
    text: Vec<u8>,
}

impl Value {
    /// Makes it unset.
    pub fn clear(&mut self) {
        self.kind = Type::Unset;
    }

    /// Makes it a boolean.
    pub fn set_truth(&mut self, truth: bool) {
        (self.kind, self.number) = (Type::Truth, f64::from(u8::from(truth)));
    }

    /// Makes it a number.
    pub fn set_number(&mut self, number: f64) {
        (self.kind, self.number) = (Type::Number, number);
    }

    /// Makes it a text.
    pub fn set_text(&mut self, text: &[u8]) {
        self.kind = Type::Text;
        self.text.clear();
        self.text.extend_from_slice(text);
    }

    /// What `test`, `condexec` and the like ask: a boolean is true; anything else has been given a value,
    /// by an expression that matched or otherwise.
    pub fn is_set(&self) -> bool {
        match self.kind {
            Type::Unset => false,
            Type::Truth => self.number != 0.0,
            Type::Number | Type::Text => true,
        }
    }

    /// As a number, if it is one or reads like one.
    pub fn number(&self) -> Option<f64> {
        match self.kind {
            Type::Unset => None,
            Type::Truth | Type::Number => Some(self.number),
            Type::Text => core::str::from_utf8(&self.text).ok()?.trim().parse().ok(),
        }
    }

    /// The text of a text; `None` for numbers, booleans and what is unset.
    pub fn text(&self) -> Option<&[u8]> {
        (self.kind == Type::Text).then_some(self.text.as_slice())
    }

    /// Appends it as `[$name]` shows it: numbers with six decimals, nothing if unset.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self.kind {
            Type::Unset => {}
            Type::Truth => out.extend_from_slice(if self.is_set() { b"true" } else { b"false" }),
            Type::Number => write_number(self.number, out),
            Type::Text => out.extend_from_slice(&self.text),
        }
    }
}

/// As C's `%f` does.
fn write_number(number: f64, out: &mut Vec<u8>) {
    if number.is_nan() {
        out.extend_from_slice(b"nan");
    } else {
        // Writing into memory cannot fail.
        let _ = write!(out, "{number:.6}");
    }
}

/// The values of all variables of one scope: of one call, one user, or the run.
#[derive(Clone, Debug, Default)]
pub struct Values {
    slots: Vec<Value>,
}

impl Values {
    /// The value in a place, to be changed.
    pub fn at(&mut self, slot: Slot) -> Option<&mut Value> {
        self.slots.get_mut(usize::from(slot.at))
    }

    /// Makes all unset, for the next call.
    pub fn clear(&mut self) {
        self.slots.iter_mut().for_each(Value::clear);
    }
}

/// The variables that a call sees.
#[derive(Debug)]
pub struct Vars<'a> {
    /// Its own.
    pub call: &'a mut Values,
    /// Its user's.
    pub user: &'a mut Values,
    /// The run's.
    pub global: &'a mut Values,
}

impl Vars<'_> {
    /// The value of a variable; `None` if the slot is not of this scenario.
    pub fn get(&self, slot: Slot) -> Option<&Value> {
        let values: &Values = match slot.scope {
            Scope::Call => self.call,
            Scope::User => self.user,
            Scope::Global => self.global,
        };
        values.slots.get(slot.at as usize)
    }

    /// The value of a variable, to be changed.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Value> {
        let values: &mut Values = match slot.scope {
            Scope::Call => self.call,
            Scope::User => self.user,
            Scope::Global => self.global,
        };
        values.slots.get_mut(slot.at as usize)
    }

    /// [`Value::is_set`] of a variable.
    pub fn is_set(&self, slot: Slot) -> bool {
        self.get(slot).is_some_and(Value::is_set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &Value) -> String {
        let mut out = Vec::new();
        value.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_show_and_count_as_sipp_shows_and_counts_them() {
        let mut value = Value::default();
        assert_eq!((shown(&value), value.is_set(), value.number()), (String::new(), false, None));
        value.set_number(7.5);
        assert_eq!((shown(&value).as_str(), value.is_set()), ("7.500000", true));
        value.set_number(f64::NAN);
        assert_eq!(shown(&value), "nan");
        value.set_truth(true);
        assert_eq!((shown(&value).as_str(), value.is_set(), value.number()), ("true", true, Some(1.0)));
        value.set_truth(false);
        assert_eq!((shown(&value).as_str(), value.is_set()), ("false", false));
        value.set_text(b" 12 ");
        assert_eq!((value.number(), value.is_set()), (Some(12.0), true));
        value.set_text(b"");
        assert!(value.is_set() && value.text() == Some(b""));
        value.clear();
        assert!(!value.is_set() && value.text().is_none() && shown(&value).is_empty());
    }

    #[test]
    fn scopes_are_apart_and_foreign_slots_are_nothing() {
        let names = Variables {
            call: vec!["a".into()],
            user: vec!["b".into()],
            global: vec!["c".into()],
            writes_global: false,
        };
        let mut values = [Scope::Call, Scope::User, Scope::Global].map(|scope| names.values(scope));
        let [call, user, global] = &mut values;
        let mut vars = Vars { call, user, global };
        let [a, b, c] = ["a", "b", "c"].map(|name| names.find(name).unwrap());
        vars.get_mut(b).unwrap().set_number(1.0);
        assert_eq!([a, b, c].map(|slot| vars.is_set(slot)), [false, true, false]);
        assert_eq!([a, b, c].map(|slot| names.name(slot)), ["a", "b", "c"]);
        assert!(vars.get(Slot { scope: Scope::Call, at: 1 }).is_none() && names.find("d").is_none());
        user_cleared(&mut values);
    }

    fn user_cleared(values: &mut [Values; 3]) {
        values.iter_mut().for_each(Values::clear);
        assert!(values.iter().all(|v| v.slots.iter().all(|value| !value.is_set())));
    }
}
