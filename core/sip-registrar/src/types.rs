//! The values that cross the border of this crate: what a store keeps, what a proxy looks up, what a
//! registrar answers.

use core::net::SocketAddr;
use wire::{Flow, Time};

/// One binding, whole and self-contained: what a persistent store keeps and what
/// [`Table::restore`](crate::Table::restore) takes back.
///
/// `(aor, contact, instance, reg_id)` is unique among live bindings and is the key to store under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Canonical address of record, `user@host` (RFC 3261 section 10.3 step 5).
    pub aor: Box<[u8]>,
    /// The contact URI, as the client wrote it, without angle brackets.
    pub contact: Box<[u8]>,
    /// Contact header parameters as received, each with its leading semicolon, without those that
    /// have a field of their own here: `q`, `expires`, `+sip.instance`, `reg-id`.
    pub params: Box<[u8]>,
    /// Preference in thousandths, 0 to 1000; 1000 where the client gave none (RFC 3261 20.10).
    pub q: u16,
    /// When the binding ends. Monotonic: a store keeps wall clock time and converts.
    pub expires: Time,
    /// Call-ID of the REGISTER that made or last refreshed the binding.
    pub call_id: Box<[u8]>,
    /// CSeq number of that REGISTER.
    pub cseq: u32,
    /// Where requests for it go, or [`elsewhere`]. `flow.conn` means nothing after a restart.
    pub flow: Flow,
    /// Path values in the order received, comma separated; empty: none (RFC 3327).
    pub path: Box<[u8]>,
    /// Value of `+sip.instance` without its quotes, e.g. `<urn:uuid:...>`; empty: none (RFC 5626).
    pub instance: Box<[u8]>,
    /// `reg-id` of an outbound binding, from 1; 0: the binding is an ordinary one (RFC 5626).
    pub reg_id: u32,
    /// User-Agent of the REGISTER; empty: none, too long, or too many different ones in the table.
    pub user_agent: Box<[u8]>,
}

impl Record {
    /// The binding, borrowed.
    pub fn view(&self) -> BindingView<'_> {
        BindingView {
            contact: &self.contact,
            params: &self.params,
            q: self.q,
            expires: self.expires,
            call_id: &self.call_id,
            cseq: self.cseq,
            flow: self.flow,
            path: &self.path,
            instance: &self.instance,
            reg_id: self.reg_id,
            user_agent: &self.user_agent,
        }
    }
}

/// What a persistent store must do to follow the table, in order.
///
/// A binding whose key changes (a client that came back at another address with the same instance)
/// is a `Delete` of the old key followed by a `Put` of the new one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Insert the record, or replace the one with the same key.
    Put(Record),
    /// Remove the record with this key, if it is there.
    Delete {
        /// [`Record::aor`].
        aor: Box<[u8]>,
        /// [`Record::contact`].
        contact: Box<[u8]>,
        /// [`Record::instance`].
        instance: Box<[u8]>,
        /// [`Record::reg_id`].
        reg_id: u32,
    },
}

/// A live binding, borrowed from the table. Fields as in [`Record`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindingView<'a> {
    /// The contact URI.
    pub contact: &'a [u8],
    /// Other Contact header parameters, each with its leading semicolon.
    pub params: &'a [u8],
    /// Preference in thousandths.
    pub q: u16,
    /// When the binding ends.
    pub expires: Time,
    /// Call-ID of the last REGISTER.
    pub call_id: &'a [u8],
    /// CSeq number of the last REGISTER.
    pub cseq: u32,
    /// Where requests for it go, or [`elsewhere`].
    pub flow: Flow,
    /// Path values, comma separated.
    pub path: &'a [u8],
    /// Instance identifier without quotes.
    pub instance: &'a [u8],
    /// Outbound registration number; 0: ordinary.
    pub reg_id: u32,
    /// User-Agent of the last REGISTER.
    pub user_agent: &'a [u8],
}

impl BindingView<'_> {
    /// Whether RFC 5626 outbound rules hold: requests must use the flow (or the Path), and a flow
    /// that is gone means 430 Flow Failed. An ordinary binding whose connection is gone is still
    /// worth a try at its Contact.
    pub const fn is_outbound(&self) -> bool {
        self.reg_id != 0
    }

    /// Whether no flow leads there: the Contact is another device than the one that registered it, and is
    /// looked up with every request. See [`elsewhere`].
    pub const fn is_elsewhere(&self) -> bool {
        is_elsewhere(self.flow)
    }

    /// An owned copy for a store.
    pub fn to_record(&self, aor: &[u8]) -> Record {
        Record {
            aor: aor.into(),
            contact: self.contact.into(),
            params: self.params.into(),
            q: self.q,
            expires: self.expires,
            call_id: self.call_id.into(),
            cseq: self.cseq,
            flow: self.flow,
            path: self.path.into(),
            instance: self.instance.into(),
            reg_id: self.reg_id,
            user_agent: self.user_agent.into(),
        }
    }
}

/// Identifies the registration of one flow of a phone (RFC 5626), as of its last REGISTER.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowBinding {
    /// The address-of-record.
    pub aor: Box<[u8]>,
    /// Instance identifier without quotes.
    pub instance: Box<[u8]>,
    /// Outbound registration number.
    pub reg_id: u32,
    /// Call-ID of the REGISTER.
    pub call_id: Box<[u8]>,
    /// Its CSeq number.
    pub cseq: u32,
}

impl FlowBinding {
    /// Of a binding with outbound; `None`: an ordinary one.
    pub fn of(aor: &[u8], binding: &BindingView<'_>) -> Option<FlowBinding> {
        binding.is_outbound().then(|| FlowBinding {
            aor: aor.into(),
            instance: binding.instance.into(),
            reg_id: binding.reg_id,
            call_id: binding.call_id.into(),
            cseq: binding.cseq,
        })
    }
}

/// The flow of a binding whose Contact is another device: it leads nowhere, and keeps which address
/// registered the Contact.
pub const fn elsewhere(flow: Flow) -> Flow {
    let remote = SocketAddr::new(flow.remote.ip(), 0);
    Flow { remote, conn: None, ..flow }
}

/// Whether it is such a flow.
pub const fn is_elsewhere(flow: Flow) -> bool {
    flow.remote.port() == 0
}

/// What to do with a REGISTER that carries Path from a client that does not list `path` in Supported
/// (RFC 3327 section 5.3 leaves it to policy).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathPolicy {
    /// 420 Bad Extension with `Unsupported: path`: what the RFC recommends.
    Refuse,
    /// Store and use the Path, but do not show it to the client.
    Accept,
}

/// Registrar policy. Intervals are in seconds, lengths in bytes.
#[derive(Clone, Debug)]
pub struct Config {
    /// Shorter requested intervals are refused with 423. Over 3600 counts as 3600, because RFC 3261
    /// section 10.3 step 7 lets no interval of an hour or more be called too brief.
    pub min_expires: u32,
    /// Longer requested intervals are shortened to this.
    pub max_expires: u32,
    /// Interval where the request names none.
    pub default_expires: u32,
    /// Live bindings per address of record, at most 255; a REGISTER that would exceed it is refused
    /// with 403, which tells a client not to try again as 500 or 503 would.
    pub max_bindings: usize,
    /// Contact values in one REGISTER; more are refused with 513.
    pub max_contacts: usize,
    /// Length of one contact URI; longer is refused with 513.
    pub max_contact_len: usize,
    /// Length of one Contact's other parameters, and of its instance identifier; longer: 513.
    pub max_params_len: usize,
    /// Length of all Path values together; longer is refused with 513.
    pub max_path_len: usize,
    /// Path values in one REGISTER; more are refused with 513.
    pub max_path_values: usize,
    /// Length of the Call-ID; longer is refused with 513.
    pub max_call_id_len: usize,
    /// Whether `tel:` contacts are taken (the proxy must know what to do with them).
    pub allow_tel: bool,
    /// Service-Route values for the 200, comma separated, each with angle brackets (RFC 3608);
    /// empty: none.
    pub service_route: Vec<u8>,
    /// Flow-Timer for outbound registrations by a connection of the client's own, seconds (RFC 5626 section
    /// 6); 0: none.
    pub flow_timer: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            min_expires: 60,
            max_expires: 7200,
            default_expires: 3600,
            max_bindings: 10,
            max_contacts: 16,
            max_contact_len: 512,
            max_params_len: 512,
            max_path_len: 1024,
            max_path_values: 8,
            max_call_id_len: 256,
            allow_tel: false,
            service_route: Vec::new(),
            flow_timer: 0,
        }
    }
}

/// The answer to a REGISTER.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub reason: &'static [u8],
    /// Header lines to add to the response, each with its CRLF.
    pub headers: Vec<u8>,
}

/// Where the bindings of an address-of-record are expected (see [`Table::expect`](crate::Table::expect)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Which of several tables.
    pub part: u32,
    /// What that table answered.
    pub hash: u32,
}
