//! Session intervals of the dialogs of a call (RFC 4028).

use core::time::Duration;

/// How long after the end of its session interval a call is closed: a refresh may have been answered in the
/// last moment, and its response repeated for 64*T1 (RFC 3261 section 13.3.1.4).
pub(crate) const GRACE: Duration = Duration::from_secs(32);

/// The longest session interval that counts, seconds: the longest that a proxy here asks for. A longer one of
/// a callee would keep a call open for ever whose end was not seen.
pub const SESSION_MAX: u32 = 65_535;

/// The session interval of a dialog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Session {
    /// The dialog.
    pub dialog: u64,
    /// When it was last set, microseconds.
    pub at: u64,
    /// Seconds from then; 0: no timer.
    pub seconds: u32,
}

/// The session intervals of the dialogs of a call that were answered and not ended.
#[derive(Default, Debug)]
pub(crate) struct Sessions(Vec<Session>);

impl Sessions {
    /// A 2xx has set the interval of a dialog.
    pub fn set(&mut self, session: Session) {
        match self.0.iter_mut().find(|other| other.dialog == session.dialog) {
            Some(other) => *other = session,
            None => self.0.push(session),
        }
    }

    /// Those that were set.
    pub fn all(&self) -> &[Session] {
        &self.0
    }

    /// When the last of these dialogs ends without a further refresh, microseconds. `None`: never, because
    /// one has no timer.
    pub fn end(&self, dialogs: &[u64]) -> Option<u64> {
        if self.0.is_empty() {
            return None;
        }
        let mut last = None;
        for dialog in dialogs {
            let session = self.0.iter().find(|s| s.dialog == *dialog && s.seconds > 0)?;
            let length = u64::from(session.seconds) * 1_000_000;
            last = last.max(Some(session.at.saturating_add(length)));
        }
        last
    }

    /// A dialog has ended.
    pub fn remove(&mut self, dialog: u64) {
        self.0.retain(|session| session.dialog != dialog);
    }
}
