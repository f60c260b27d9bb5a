//! What is wanted of a node and how it is, each in an octet that all workers share.

/// What the operator wants of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Order {
    /// Calls.
    Serve = 0,
    /// No new calls; those it has go on.
    Drain = 1,
    /// Nothing at all: calls it has are treated as those of a failed node.
    Maintenance = 2,
    /// It is no longer in the list. As [`Order::Drain`], until it is forgotten or its place is wanted for another one.
    Removed = 3,
}

/// Whether a node answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Health {
    /// Nobody has tried yet. It gets calls.
    Unknown = 0,
    /// It answers.
    Up = 1,
    /// It does not.
    Down = 2,
}

/// Why a node has the health it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Why {
    /// Nothing has happened yet.
    Nothing = 0,
    /// It answered.
    Answered = 1,
    /// Probes were not answered in time.
    ProbeTimeout = 2,
    /// A probe was answered with a status that does not count as good.
    ProbeRefused = 3,
    /// Requests were not answered.
    Silent = 4,
    /// The network says that nobody listens there.
    Unreachable = 5,
    /// It answered 503 with Retry-After and is left alone until then.
    Overloaded = 6,
    /// It refuses much more, or takes much longer, than the others do.
    Outlier = 7,
}

impl Why {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Why::Nothing => "not tried yet",
            Why::Answered => "answers",
            Why::ProbeTimeout => "probes are not answered",
            Why::ProbeRefused => "probes are refused",
            Why::Silent => "requests are not answered",
            Why::Unreachable => "the network cannot reach it",
            Why::Overloaded => "asked to be left alone for a while (503)",
            Why::Outlier => "far worse than the others: errors or response times",
        }
    }
}

pub(crate) const ORDERS: [Order; 4] = [Order::Serve, Order::Drain, Order::Maintenance, Order::Removed];
pub(crate) const HEALTHS: [Health; 3] = [Health::Unknown, Health::Up, Health::Down];
pub(crate) const WHYS: [Why; 8] = [
    Why::Nothing,
    Why::Answered,
    Why::ProbeTimeout,
    Why::ProbeRefused,
    Why::Silent,
    Why::Unreachable,
    Why::Overloaded,
    Why::Outlier,
];

/// What an octet stands for.
pub(crate) fn pick<T: Copy>(all: &[T], at: u8, otherwise: T) -> T {
    all.get(usize::from(at)).copied().unwrap_or(otherwise)
}
