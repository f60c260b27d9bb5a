//! Methods, as far as they are told apart: by what becomes of them, and by what they cost.

use sip_message::Method;

/// Methods as far as assignment tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MethodClass {
    /// INVITE.
    Invite,
    /// BYE.
    Bye,
    /// CANCEL.
    Cancel,
    /// REGISTER.
    Register,
    /// SUBSCRIBE, which makes a dialog that is no call.
    Subscribe,
    /// Every other method but ACK.
    Other,
}

impl MethodClass {
    /// That of a method.
    pub(crate) fn of(method: Method<'_>) -> MethodClass {
        match method {
            Method::Invite => MethodClass::Invite,
            Method::Bye => MethodClass::Bye,
            Method::Cancel => MethodClass::Cancel,
            Method::Register => MethodClass::Register,
            Method::Subscribe => MethodClass::Subscribe,
            _ => MethodClass::Other,
        }
    }

    /// What it costs.
    pub const fn kind(self) -> Kind {
        match self {
            MethodClass::Invite => Kind::Invite,
            MethodClass::Bye => Kind::Bye,
            MethodClass::Register => Kind::Register,
            MethodClass::Cancel | MethodClass::Subscribe | MethodClass::Other => Kind::Other,
        }
    }
}

/// The cost of a BYE in [`Kind::cost`].
pub const BYE_COST: u32 = 1_000;

/// What a transaction costs a node: methods of one cost are one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// INVITE, also within a call.
    Invite = 0,
    /// BYE.
    Bye = 1,
    /// REGISTER.
    Register = 2,
    /// Every other method, CANCEL among them.
    Other = 3,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// All of them, in order.
    pub const ALL: [Kind; Kind::COUNT] = [Kind::Invite, Kind::Bye, Kind::Register, Kind::Other];

    /// What a transaction costs a node, in thousandths of a BYE (paper VI-A: an INVITE 1.75).
    pub const fn cost(self) -> u32 {
        match self {
            Kind::Invite => 1_750,
            Kind::Bye | Kind::Register | Kind::Other => BYE_COST,
        }
    }

    /// Its name in figures shown.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Invite => "invite",
            Kind::Bye => "bye",
            Kind::Register => "register",
            Kind::Other => "other",
        }
    }
}
