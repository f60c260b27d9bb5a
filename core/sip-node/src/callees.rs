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

/// Where an end of a call wants requests within it sent (RFC 3261 section 12.1), or where a request goes:
/// hashes; 0: nothing is said.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Named {
    /// Host and port of the first Record-Route, or of the next Route.
    pub route: u32,
    /// User, host and port of the Contact, or of the Request-URI.
    pub contact: u32,
}

impl Named {
    /// Takes what the same end says, at first or `again`: its Contact changes, the route set does not
    /// (section 12.2).
    pub fn take(&mut self, said: Named, again: bool) {
        if *self != Named::default() {
            self.contact = if said.contact == 0 { self.contact } else { said.contact };
        } else if !again {
            *self = said;
        }
    }

    /// Whether a request goes there. What an end has not said is not compared.
    pub fn is_followed_by(self, request: Named) -> bool {
        let contact = self.contact == 0 || self.contact == request.contact;
        self == Named::default() || contact && self.route == request.route
    }
}

/// The dialogs by hashes of Call-ID and callee's tag. An answered one takes the place of an early one; others
/// that find no place are not noted.
#[derive(PartialEq, Eq, Default)]
pub(crate) struct Callees {
    /// Half a hash is enough: the sender must know the Call-ID and the caller's tag as well.
    tags: [u32; MOST],
    /// Hashes of the addresses that their INVITE went to.
    places: [u32; MOST],
    states: [State; MOST],
    named: [Named; MOST],
}

impl Callees {
    /// A provisional response made a dialog with a callee at this place.
    pub fn ring(&mut self, tag: u64, place: u32) {
        if self.at(tag, place).is_none()
            && let Some(free) = self.first(State::Free)
        {
            self.put(free, (tag, place), State::Early);
        }
    }

    /// A 2xx response made a dialog. A call that passes this server twice has two places for one tag.
    pub fn answer(&mut self, tag: u64, place: u32) {
        if self.slots(tag).any(|at| self.states.get(at) == Some(&State::Ended)) {
            return;
        }
        let slot = self
            .at(tag, place)
            .or_else(|| self.first(State::Free))
            .or_else(|| self.first(State::Early))
            .or_else(|| self.first(State::Ended));
        if let Some(at) = slot {
            self.put(at, (tag, place), State::Answered);
        }
    }

    /// Whether this dialog began and has not ended, with a callee at this place. `early`: it need not be
    /// answered.
    pub fn has_at(&self, tag: u64, place: u32, early: bool) -> bool {
        let lives = |at: usize| match self.states.get(at) {
            Some(State::Answered) => true,
            Some(State::Early) => early,
            _ => false,
        };
        self.at(tag, place).is_some_and(lives)
    }

    /// The callee at this place has said where it wants requests sent: first with its answer, or `again`.
    pub fn name(&mut self, (tag, place): (u64, u32), named: Named, again: bool) {
        if let Some(known) = self.at(tag, place).and_then(|at| self.named.get_mut(at)) {
            known.take(named, again);
        }
    }

    /// What it has said. `None`: there is no such dialog.
    pub fn named(&self, tag: u64, place: u32) -> Option<Named> {
        self.named.get(self.at(tag, place)?).copied()
    }

    /// An early dialog has failed.
    pub fn refuse(&mut self, tag: u64) {
        for (known, state) in self.tags.iter().zip(&mut self.states) {
            if *known == tag as u32 && *state == State::Early {
                *state = State::Free;
            }
        }
    }

    /// A BYE ended a dialog. True if it is the last answered one: it stays, for the call ends with it.
    pub fn end(&mut self, tag: u64) -> bool {
        let answered = |at: usize| self.states.get(at) == Some(&State::Answered);
        let mine = |at: usize| self.slots(tag).any(|slot| slot == at);
        let last =
            (0..MOST).any(|at| answered(at) && mine(at)) && !(0..MOST).any(|at| answered(at) && !mine(at));
        if last {
            return true;
        }
        let slots: [bool; MOST] = core::array::from_fn(mine);
        for state in self.states.iter_mut().zip(slots).filter_map(|(state, mine)| mine.then_some(state)) {
            *state = match *state {
                // A 2xx that crossed the BYE may still come.
                State::Early => State::Free,
                State::Answered => State::Ended,
                other => other,
            };
        }
        false
    }

    /// Whether this dialog began and has not ended.
    pub fn has(&self, tag: u64) -> bool {
        self.slots(tag).any(|at| self.lives(at))
    }

    /// Whether a phone answered.
    pub fn is_answered(&self) -> bool {
        self.states.contains(&State::Answered)
    }

    fn lives(&self, at: usize) -> bool {
        matches!(self.states.get(at), Some(State::Early | State::Answered))
    }

    /// Where a tag stands.
    fn slots(&self, tag: u64) -> impl Iterator<Item = usize> {
        let all = self.tags.iter().zip(&self.states).enumerate();
        all.filter(move |(_, (known, state))| **state != State::Free && **known == tag as u32)
            .map(|(at, _)| at)
    }

    fn at(&self, tag: u64, place: u32) -> Option<usize> {
        self.slots(tag).find(|at| self.places.get(*at) == Some(&place))
    }

    fn first(&self, wanted: State) -> Option<usize> {
        self.states.iter().position(|state| *state == wanted)
    }

    fn put(&mut self, at: usize, (tag, place): (u64, u32), state: State) {
        if let (Some(t), Some(p), Some(s), Some(named)) =
            (self.tags.get_mut(at), self.places.get_mut(at), self.states.get_mut(at), self.named.get_mut(at))
        {
            if (*t, *p) != (tag as u32, place) {
                *named = Named::default();
            }
            (*t, *p, *s) = (tag as u32, place, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const _: () = assert!(size_of::<Callees>() == 68);

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
    fn contact_changes_and_route_stays() {
        let said = |route, contact| Named { route, contact };
        let mut callees = Callees::default();
        callees.name((1, 7), said(0, 8), false);
        assert_eq!(callees.named(1, 7), None, "there is no such dialog");
        callees.answer(1, 7);
        callees.answer(2, 7);
        callees.name((1, 7), said(0, 8), true);
        assert_eq!(callees.named(1, 7), Some(Named::default()), "nothing was said at first");
        callees.name((1, 7), said(0, 8), false);
        callees.name((2, 7), said(5, 8), false);
        for tag in [1, 2] {
            callees.name((tag, 7), said(6, 9), true);
            callees.name((tag, 7), Named::default(), false);
            callees.answer(tag, 7);
        }
        assert_eq!([1, 2].map(|tag| callees.named(tag, 7)), [Some(said(0, 9)), Some(said(5, 9))]);
        // Another dialog in its slot knows nothing of it.
        (3..=4).for_each(|tag| callees.answer(tag, 7));
        callees.end(1);
        callees.answer(5, 7);
        assert_eq!((callees.named(1, 7), callees.named(5, 7)), (None, Some(Named::default())));
    }

    #[test]
    fn request_follows_what_an_end_has_said() {
        let said = |route, contact| Named { route, contact };
        for (end, request, follows) in [
            (said(0, 0), said(3, 4), true),
            (said(0, 4), said(0, 4), true),
            (said(0, 4), said(0, 5), false),
            (said(0, 4), said(3, 4), false),
            (said(3, 4), said(3, 4), true),
            (said(3, 4), said(3, 5), false),
            (said(3, 4), said(0, 4), false),
            (said(3, 0), said(3, 5), true),
            (said(3, 0), said(2, 5), false),
        ] {
            assert_eq!(end.is_followed_by(request), follows, "{end:?} {request:?}");
        }
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
    fn dialog_has_each_place_that_its_call_passed() {
        let mut callees = Callees::default();
        callees.ring(1, 7);
        callees.answer(1, 7);
        callees.answer(1, 8);
        callees.answer(2, 9);
        let places = [(1, 7), (1, 8), (2, 9), (2, 8)].map(|(tag, at)| callees.has_at(tag, at, true));
        assert_eq!(places, [true, true, true, false]);
        assert!(!callees.end(1) && !callees.has(1) && !callees.has_at(1, 8, true));
        assert!(callees.end(2));
    }
}
