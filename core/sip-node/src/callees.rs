//! The dialogs of one call. There are several where several phones ring or answer (RFC 3261 section 12.1).

/// Dialogs noted of a call, at most.
const MOST: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum State {
    #[default]
    Free,
    Early,
    Answered,
    /// Kept, so that a 2xx that is repeated does not begin it again.
    Ended,
}

/// The dialogs by hashes of Call-ID and callee's tag. An answered one takes the place of an early one; others that find no
/// place are not noted.
#[derive(Default)]
pub(crate) struct Callees {
    /// Half a hash is enough: the sender must know the Call-ID and the caller's tag as well.
    tags: [u32; MOST],
    /// Hashes of the addresses that their INVITE went to.
    places: [u32; MOST],
    states: [State; MOST],
}

impl Callees {
    /// A provisional response made a dialog.
    pub fn ring(&mut self, tag: u64, place: u32) {
        if self.place(tag).is_none()
            && let Some(free) = self.first(State::Free)
        {
            self.put(free, tag, State::Early);
            self.note(free, place);
        }
    }

    /// A 2xx response made a dialog.
    pub fn answer(&mut self, tag: u64, place: u32) {
        let known = self.place(tag);
        if known.is_some_and(|at| self.states.get(at) == Some(&State::Ended)) {
            return;
        }
        let free = known
            .or_else(|| self.first(State::Free))
            .or_else(|| self.first(State::Early))
            .or_else(|| self.first(State::Ended));
        if let Some(at) = free {
            self.put(at, tag, State::Answered);
            // A re-INVITE may take another way; the dialog stays where it began.
            if known.is_none() {
                self.note(at, place);
            }
        }
    }

    /// Notes where a dialog is.
    fn note(&mut self, at: usize, place: u32) {
        if let Some(noted) = self.places.get_mut(at) {
            *noted = place;
        }
    }

    /// Whether this dialog began and has not ended, with a callee at this place.
    pub fn has_at(&self, tag: u64, place: u32) -> bool {
        self.has(tag) && self.place(tag).and_then(|at| self.places.get(at)) == Some(&place)
    }

    /// A BYE ended a dialog. True if it is the last answered one: it stays, for the call ends with it.
    pub fn end(&mut self, tag: u64) -> bool {
        let Some(at) = self.place(tag) else { return false };
        match self.states.get(at) {
            // A 2xx that crossed the BYE may still come.
            Some(State::Early) => self.put(at, tag, State::Free),
            Some(State::Answered) => {
                let others = self.states.iter().filter(|state| **state == State::Answered).count() > 1;
                if !others {
                    return true;
                }
                self.put(at, tag, State::Ended);
            }
            _ => {}
        }
        false
    }

    /// Whether this dialog began and has not ended.
    pub fn has(&self, tag: u64) -> bool {
        let state = self.place(tag).and_then(|at| self.states.get(at));
        state.is_some_and(|state| matches!(state, State::Early | State::Answered))
    }

    /// Whether a phone answered.
    pub fn is_answered(&self) -> bool {
        self.states.contains(&State::Answered)
    }

    fn place(&self, tag: u64) -> Option<usize> {
        let mut all = self.tags.iter().zip(&self.states);
        all.position(|(known, state)| *state != State::Free && *known == tag as u32)
    }

    fn first(&self, wanted: State) -> Option<usize> {
        self.states.iter().position(|state| *state == wanted)
    }

    fn put(&mut self, at: usize, tag: u64, state: State) {
        if let (Some(place), Some(slot)) = (self.tags.get_mut(at), self.states.get_mut(at)) {
            (*place, *slot) = (tag as u32, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const _: () = assert!(size_of::<Callees>() == 36);

    #[test]
    fn answered_dialog_takes_the_place_of_an_early_one() {
        let mut callees = Callees::default();
        (1..=6).for_each(|tag| callees.ring(tag, 0));
        assert_eq!([1, 4, 5].map(|tag| callees.has(tag)), [true, true, false]);
        callees.answer(6, 0);
        assert_eq!([1, 2, 6].map(|tag| callees.has(tag)), [false, true, true]);
        (7..=9).for_each(|tag| callees.answer(tag, 0));
        // No place is left.
        callees.answer(10, 0);
        assert!(!callees.has(10) && !callees.end(10) && callees.is_answered());
        assert_eq!([6, 7, 8, 9].map(|tag| callees.end(tag)), [false, false, false, true]);
    }

    #[test]
    fn ended_dialog_does_not_begin_again() {
        let mut callees = Callees::default();
        callees.answer(1, 0);
        callees.answer(2, 0);
        assert!(!callees.end(1));
        callees.answer(1, 0);
        callees.ring(1, 0);
        assert!(!callees.has(1) && !callees.end(1));
        assert!(callees.end(2) && callees.is_answered());
    }

    #[test]
    fn early_dialog_that_ends_ends_no_call() {
        let mut callees = Callees::default();
        callees.ring(1, 0);
        assert!(callees.has(1) && !callees.end(1) && !callees.has(1));
        callees.ring(2, 0);
        callees.answer(1, 0);
        assert!(!callees.end(2) && callees.end(1));
    }

    #[test]
    fn place_of_a_dialog_is_where_it_began_until_it_ends() {
        let mut callees = Callees::default();
        callees.ring(1, 7);
        callees.answer(1, 8);
        callees.answer(2, 9);
        callees.answer(2, 10);
        assert_eq!(
            [(1, 7), (1, 8), (2, 9), (2, 10)].map(|(tag, at)| callees.has_at(tag, at)),
            [true, false, true, false]
        );
        assert!(!callees.end(1) && !callees.has_at(1, 7));
    }
}
