//! How far a connection has come, from its opening to its end.

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// We have asked; the peer has not answered.
    Connecting,
    /// The socket is open, and a layer shakes hands with the peer.
    Handshake,
    /// Both directions work.
    Open,
    /// The peer has ended its direction; it may still be answered.
    HalfClosed,
    /// To be closed when the other workers have answered what they have of it.
    Ending,
    /// To be closed when the queue is written.
    Closing,
    /// We have ended our direction and wait for the peer to end its own.
    Lingering,
}

/// Why a connection was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The peer ended or reset it.
    Peer,
    /// The machine asked.
    Asked,
    /// Silence.
    Idle,
    /// No message ever came.
    Useless,
    /// A message did not end in time.
    Slow,
    /// The stream could not be followed.
    Broken,
    /// The peer did not read.
    Stalled,
    /// Others needed its room, and it mattered least.
    Room,
    /// The socket failed.
    Error,
    /// It never came about.
    Connect,
}

impl Reason {
    /// Whether the peer deserves a reset: it would otherwise hold kernel memory after the close.
    pub fn resets(self) -> bool {
        matches!(self, Reason::Useless | Reason::Slow | Reason::Stalled | Reason::Room)
    }

    /// Whether the peer has read nothing of what has left.
    pub fn undoes(self) -> bool {
        self == Reason::Connect
    }

    /// Whether a peer is answered first whose connection ends for this.
    pub fn waits(self) -> bool {
        matches!(self, Reason::Idle | Reason::Slow)
    }

    /// Whether what left last may be lost with the connection: what the peer did not take before it went, and
    /// what it took it cannot answer here any more.
    pub fn cuts_off(self) -> bool {
        matches!(self, Reason::Peer | Reason::Error | Reason::Stalled)
    }
}

/// The state of a connection, and what is to come of it.
#[derive(Clone, Copy)]
pub struct Phase {
    state: State,
    /// Whether it was ever open in both directions.
    was_open: bool,
    /// It is to be closed once it is open and what is queued has left.
    ends: Option<Reason>,
    /// Why it is being closed.
    reason: Reason,
    /// Workers that have not said yet that they have answered what they have of it.
    owed: u16,
}

impl Phase {
    /// Of a connection that a peer opened.
    pub fn open() -> Phase {
        Phase { state: State::Open, was_open: true, ends: None, reason: Reason::Peer, owed: 0 }
    }

    /// Of one that is being opened.
    pub fn connecting() -> Phase {
        Phase { state: State::Connecting, was_open: false, ..Phase::open() }
    }

    /// Of one that a peer opened, where a layer begins with a handshake.
    pub fn handshake() -> Phase {
        Phase { state: State::Handshake, ..Phase::connecting() }
    }

    /// Where it stands.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether it was ever open in both directions.
    pub fn was_open(&self) -> bool {
        self.was_open
    }

    /// Why it is being closed.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The peer has answered, and a layer begins its handshake.
    pub fn shakes_hands(&mut self) {
        debug_assert!(self.state == State::Connecting, "{:?}", self.state);
        self.state = State::Handshake;
    }

    /// Messages can go both ways.
    pub fn opens(&mut self) {
        debug_assert!(matches!(self.state, State::Connecting | State::Handshake), "{:?}", self.state);
        (self.state, self.was_open) = (State::Open, true);
    }

    /// It is to be closed once it is open and what is queued has left.
    pub fn ends_once_open(&mut self, reason: Reason) {
        self.ends = Some(reason);
    }

    /// Why it is to be closed now that it is open and what was queued has left, if it is.
    pub fn take_end(&mut self) -> Option<Reason> {
        self.ends.take()
    }

    /// The peer has ended its direction.
    pub fn half_closes(&mut self) {
        self.state = State::HalfClosed;
    }

    /// It is to be closed when this number of workers have answered what they have of it.
    pub fn begins_to_end(&mut self, reason: Reason, workers: u16) {
        (self.state, self.reason, self.owed) = (State::Ending, reason, workers);
    }

    /// One of these workers has; `true` if it was the last.
    pub fn settles(&mut self) -> bool {
        if self.state != State::Ending {
            return false;
        }
        self.owed = self.owed.saturating_sub(1);
        self.owed == 0
    }

    /// It is to be closed when the queue is written.
    pub fn begins_to_close(&mut self, reason: Reason) {
        (self.state, self.reason) = (State::Closing, reason);
    }

    /// Our direction has ended.
    pub fn lingers(&mut self) {
        self.state = State::Lingering;
    }
}
