//! Variables of calls, users and the whole run.

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
    /// Whether an action writes a global variable, so that calls depend on each other's order.
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
    /// What an expression found; the text is empty and the variable unset for `test` if it did not match.
    Match,
}

/// The value of a variable. Keeps its memory when it is overwritten or cleared.
#[derive(Clone, Debug, Default)]
pub struct Value {
    kind: Type,
    number: f64,
    text: Vec<u8>,
}

/// The values of all variables of one scope: of one call, one user, or the run.
#[derive(Clone, Debug, Default)]
pub struct Values {
    slots: Vec<Value>,
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
