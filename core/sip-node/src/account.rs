//! What proves this server to a trunk, and how it registers there.

use core::fmt;
use sip_auth::Login;
use sip_registration::{Rules, Standing};
use std::sync::Arc;

/// An account at a trunk.
#[derive(Clone)]
pub struct Account {
    /// The name of the trunk.
    pub trunk: Vec<u8>,
    /// The user name.
    pub user: Vec<u8>,
    /// The password. It is in no message and in no line of the log.
    pub password: Vec<u8>,
    /// The only realm that is answered; `None`: any.
    pub realm: Option<Vec<u8>>,
    /// A request that leaves again with credentials has a higher CSeq.
    pub raise_cseq: bool,
    /// How this server registers there; `None`: it does not.
    pub rules: Option<Rules>,
    /// How the registration is. A reload keeps it.
    pub standing: Arc<Standing>,
}

impl Account {
    /// What its challenges are answered with.
    pub(crate) fn login(&self) -> Login<'_> {
        Login { user: &self.user, password: &self.password, realm: self.realm.as_deref() }
    }

    /// Whether nothing has changed, so that a registration and challenges go on.
    pub(crate) fn is_same(&self, other: &Account) -> bool {
        self.trunk == other.trunk
            && self.user == other.user
            && self.password == other.password
            && self.realm == other.realm
            && self.raise_cseq == other.raise_cseq
            && self.rules == other.rules
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.trunk);
        f.debug_struct("Account").field("trunk", &name).field("rules", &self.rules).finish_non_exhaustive()
    }
}
