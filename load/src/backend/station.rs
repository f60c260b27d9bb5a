//! A modelled server: its processor, how much its requests cost, and its stalls.

use super::processor::Processor;
use crate::population::{Distribution, Rng};

/// What a server is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Calls a second that it can do, each of an INVITE and a BYE.
    pub capacity: f64,
    /// What an INVITE costs beside any other request.
    pub invite_cost: f64,
    /// What a request that came before costs beside any other request.
    pub repeat_cost: f64,
    /// Requests that share its processor at a time.
    pub sharing: usize,
    /// Requests that may wait beside them.
    pub room: usize,
    /// Coefficient of variation of what a request costs (gamma law): 0 always the same, 1 exponential.
    pub variation: f64,
    /// It stands still now and then: seconds between two stalls (on average, at random) and the length of
    /// one.
    pub stalls: Option<(f64, f64)>,
}

impl Default for Model {
    /// A server of the paper's testbed ("Design, Implementation, and Performance of a Load Balancer for SIP
    /// Server Clusters", section V and VI-C), without stalls.
    fn default() -> Model {
        Model {
            capacity: 300.0,
            invite_cost: 1.75,
            repeat_cost: 0.0,
            sharing: 4,
            room: 1_000,
            variation: 0.5,
            stalls: None,
        }
    }
}

impl Model {
    /// Seconds of its processor that a request costs on average.
    pub fn cost(&self, kind: Kind) -> f64 {
        let other = 1.0 / self.capacity / (1.0 + self.invite_cost);
        match kind {
            Kind::Invite => other * self.invite_cost,
            Kind::Other => other,
            Kind::Repeat => other * self.repeat_cost,
        }
    }
}

/// What a request is to a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An INVITE.
    Invite,
    /// Another one, such as BYE.
    Other,
    /// One that has come before.
    Repeat,
}

/// A server at work. What is random follows from its seed.
#[derive(Clone, Debug)]
pub struct Station<T> {
    model: Model,
    processor: Processor<T>,
    /// The random numbers of costs and those of stalls are of two streams, so that stalls come at the same
    /// times whatever is asked of the server.
    costs: Rng,
    times: Rng,
    stalled: bool,
    /// When it stops or goes on next.
    turn: f64,
}

impl<T> Station<T> {
    /// An idle one at time 0.
    pub fn new(model: Model, seed: u64, number: u64) -> Station<T> {
        let mut times = Rng::new(seed, number << 1 | 1);
        let turn = model.stalls.map_or(f64::INFINITY, |(every, _)| times.exponential() * every);
        Station {
            model,
            processor: Processor::new(1.0, model.sharing, model.room),
            costs: Rng::new(seed, number << 1),
            times,
            stalled: false,
            turn,
        }
    }

    /// Takes on a request. Call [`Station::pop`] until `now` before. Gives it back where there is no room.
    pub fn offer(&mut self, now: f64, kind: Kind, what: T) -> Result<(), T> {
        let mean = self.model.cost(kind);
        let square = self.model.variation * self.model.variation;
        let work = match square > 0.0 {
            true => Distribution::gamma_mean(mean, 1.0 / square).sample(&mut self.costs),
            false => mean,
        };
        self.processor.offer(now, work, what)
    }

    /// The next request that is done at `until` or before, with the time at which it was.
    pub fn pop(&mut self, until: f64) -> Option<(f64, T)> {
        loop {
            let before = until.min(self.turn);
            if let Some(done) = self.processor.pop(before) {
                return Some(done);
            }
            if self.turn > until {
                return None;
            }
            self.turn_over();
        }
    }

    /// When something is to be done next, if nothing comes before. An idle server's stalls need nobody to
    /// look.
    pub fn next(&self) -> Option<f64> {
        match (self.processor.next(), self.stalled) {
            (Some(done), _) => Some(done.min(self.turn)),
            (None, true) if !self.processor.is_empty() => Some(self.turn),
            _ => None,
        }
    }

    /// Takes back a request that is not done.
    pub fn withdraw(&mut self, now: f64, which: impl FnMut(&T) -> bool) -> Option<T> {
        self.processor.withdraw(now, which)
    }

    /// Whether it stands still.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// When it goes on, if it stands still.
    pub fn resumes(&self) -> Option<f64> {
        self.stalled.then_some(self.turn)
    }

    /// What it is like.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What is there to do.
    pub fn processor(&self) -> &Processor<T> {
        &self.processor
    }

    fn turn_over(&mut self) {
        let (every, length) = self.model.stalls.unwrap_or((f64::INFINITY, 0.0));
        let at = self.turn;
        self.stalled = !self.stalled;
        self.processor.stall(at, self.stalled);
        self.turn = at + if self.stalled { length } else { self.times.exponential() * every };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls at `rate` a second of INVITE and BYE, a second apart, for so many seconds: how many requests
    /// were done.
    fn done(model: Model, rate: f64, seconds: f64) -> (u64, u64) {
        let mut station = Station::new(model, 3, 0);
        let mut rng = Rng::new(9, 9);
        let (mut now, mut done, mut refused) = (0.0, 0, 0);
        while now < seconds {
            now += rng.exponential() / rate / 2.0;
            done += core::iter::from_fn(|| station.pop(now)).count() as u64;
            let kind = if rng.chance(0.5) { Kind::Invite } else { Kind::Other };
            refused += u64::from(station.offer(now, kind, ()).is_err());
        }
        (done, refused)
    }

    #[test]
    fn it_does_as_many_calls_a_second_as_it_can_and_no_more() {
        for variation in [0.0, 0.5, 1.0] {
            let model = Model { variation, ..Model::default() };
            let (all, refused) = done(model, 600.0, 100.0);
            let calls = all as f64 / 2.0 / 100.0;
            assert!((294.0..306.0).contains(&calls), "{variation}: {calls}");
            assert!(refused > 50_000);
            let (all, refused) = done(model, 240.0, 100.0);
            assert!((470.0..490.0).contains(&(all as f64 / 100.0)) && refused == 0, "{variation}: {all}");
        }
    }

    #[test]
    fn an_invite_costs_as_much_more_as_was_said() {
        let model = Model { repeat_cost: 0.5, ..Model::default() };
        let [invite, other, repeat] = [Kind::Invite, Kind::Other, Kind::Repeat].map(|kind| model.cost(kind));
        assert!((invite / other - 1.75).abs() < 1e-12 && (repeat / other - 0.5).abs() < 1e-12);
        assert!((invite + other - 1.0 / 300.0).abs() < 1e-12);
    }

    #[test]
    fn stalls_come_at_the_same_times_whatever_is_asked() {
        let model = Model { stalls: Some((4.0, 1.0)), variation: 0.0, ..Model::default() };
        // Two requests at once, every `step`: the times at which nothing was done for most of a second.
        let gaps = |step: f64| {
            let mut station = Station::new(model, 5, 2);
            let (mut last, mut gaps) = (0.0, Vec::new());
            for now in (0..).map(|n| f64::from(n) * step).take_while(|now| *now < 60.0) {
                while let Some((at, ())) = station.pop(now) {
                    if at - last > 0.9 {
                        gaps.push((at * 2.0).round());
                    }
                    last = at;
                }
                let _ = station.offer(now, Kind::Invite, ());
            }
            gaps
        };
        let (often, seldom) = (gaps(0.01), gaps(0.05));
        assert!((8..20).contains(&often.len()), "{often:?}");
        assert_eq!(often, seldom);
    }

    #[test]
    fn an_idle_one_wants_nothing_and_a_stalled_one_its_end() {
        let model = Model { stalls: Some((10.0, 1.0)), variation: 0.0, ..Model::default() };
        let mut station = Station::new(model, 1, 1);
        assert_eq!(station.next(), None);
        let turn = station.turn;
        assert_eq!(station.pop(turn + 0.5), None);
        assert!(station.is_stalled());
        assert_eq!(station.offer(turn + 0.5, Kind::Invite, 7), Ok(()));
        assert_eq!(station.next(), Some(turn + 1.0));
        assert_eq!(station.pop(turn + 1.0), None);
        let end = turn + 1.0 + model.cost(Kind::Invite);
        let (at, what) = station.pop(end + 1e-9).expect("it is done");
        assert!((at - end).abs() < 1e-9 && what == 7);
    }
}
