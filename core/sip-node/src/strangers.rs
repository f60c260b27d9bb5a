//! What the operator lets senders do that this server does not know.

use call_limits::StrangerRate;
use sip_message::Method;

/// What strangers may send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strangers {
    /// Whether they may send anything outside the dialogs that they are in.
    pub allowed: bool,
    /// Methods outside dialogs; `*` stands for all. What belongs to a call in a dialog goes with INVITE.
    pub methods: Vec<Vec<u8>>,
    /// How often they may begin something; `None`: without limit.
    pub rate: Option<StrangerRate>,
}

impl Default for Strangers {
    fn default() -> Strangers {
        let methods = [&b"INVITE"[..], b"MESSAGE", b"OPTIONS"].map(<[u8]>::to_vec).to_vec();
        Strangers { allowed: true, methods, rate: None }
    }
}

impl Strangers {
    /// Whether they may begin something with this method.
    pub(crate) fn lists(&self, method: Method<'_>) -> bool {
        self.methods.iter().any(|m| m == b"*" || m == method.as_bytes())
    }
}
