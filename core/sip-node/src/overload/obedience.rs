//! Neighbours that do as they are told in their own way: late, with calls alone, several at one address, with
//! more or fewer requests a call than we take it for.

use super::*;
use std::collections::VecDeque;

/// Calls that the worker can do in a window.
const CAN: u32 = 100;
/// Windows in a second.
const A_SECOND: f64 = 20.0;

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    algorithm: Algorithm,
    /// How many go each by what they are told, with one address.
    clients: u32,
    /// Calls that all of them have in a window.
    calls: u32,
    /// Windows until what is told is done.
    late: usize,
    /// Requests of a call, the INVITE among them.
    requests: u32,
    /// Whether calls are left away for the others too, so that all requests together are as much less as was
    /// told (RFC 7339 section 7.2).
    whole: bool,
}

const PLAIN: Neighbour =
    Neighbour { algorithm: Algorithm::Loss, clients: 1, calls: 200, late: 0, requests: 3, whole: false };

impl Neighbour {
    /// Calls that it brings in a window of those that it has, when told so, with so many requests in the
    /// midst of calls.
    fn brings(&self, wish: Wish, within: f64) -> f64 {
        let calls = f64::from(self.calls);
        match self.algorithm {
            _ if wish.valid.is_zero() => calls,
            Algorithm::Loss => {
                let share = if self.whole { calls / (calls + within) } else { 1.0 };
                calls * (1.0 - (f64::from(wish.value) / 100.0 / share).min(0.95))
            }
            Algorithm::Rate => {
                let may = f64::from(self.clients * wish.value) / A_SECOND - within;
                // One in twenty tries it all the same.
                may.clamp(calls / 20.0, calls)
            }
        }
    }

    /// The calls brought and taken on in a window, as means of half a minute after half a minute, and whether
    /// the overload went on all the time.
    fn run(&self) -> (f64, f64, bool) {
        let mut overload = Overload::new(Rules::default(), 7);
        let (mut now, mut lot, mut part) = (Time::from_secs(1), 0u64, 0.0);
        let (mut waits, mut within, mut begun) = (0u32, 0.0, Vec::new());
        let (mut brought, mut taken) = (0, 0);
        let mut wishes = VecDeque::new();
        for window in 0..1_200 {
            now = now + Load::WINDOW;
            wishes.push_back(overload.wish(7, self.algorithm));
            let wish = if wishes.len() > self.late { wishes.pop_front() } else { None };
            part += wish.map_or(f64::from(self.calls), |wish| self.brings(wish, within));
            let mut took = 0;
            while part >= 1.0 {
                part -= 1.0;
                lot = lot.wrapping_add(0x9e37_79b9_7f4a_7c15);
                brought += u32::from(window >= 600);
                if !overload.sheds() {
                    overload.note(Method::Invite);
                } else if overload.judge(7, lot ^ lot >> 29, true, true) != Verdict::Take {
                    continue;
                }
                took += 1;
            }
            taken += if window >= 600 { took } else { 0 };
            // Of late: a second.
            within += (f64::from(took * (self.requests - 1)) - within) / A_SECOND;
            waits = (waits + took).saturating_sub(CAN);
            let behind = Duration::from_micros(u64::from(waits) * 500);
            let load = Load { window: Load::WINDOW, behind, kept_up: waits == 0, ..Load::default() };
            begun.extend(overload.pace(now, &load));
        }
        (f64::from(brought) / 600.0, f64::from(taken) / 600.0, begun == [Change::Entered])
    }

    fn fits(&self, least: f64, most_brought: f64) {
        let (brought, taken, lasts) = self.run();
        println!("{self:?}: brought {brought:.1}, taken {taken:.1}, {lasts}");
        assert!(taken >= least && taken < 101.0, "{self:?}: {taken} taken on in a window");
        assert!(brought <= most_brought, "{self:?}: {brought} brought in a window");
        assert!(lasts, "{self:?}: the overload came and went");
    }
}

#[test]
fn what_is_left_away_late_is_as_much_as_was_told() {
    for calls in [130, 200, 400] {
        for late in [0, 2, 4, 8] {
            for whole in [false, true] {
                // Of few calls that are left a part is left away that goes by all requests: it weighs three
                // times as much.
                let least = if late == 8 && whole { 75.0 } else { 92.0 };
                Neighbour { calls, late, whole, ..PLAIN }.fits(least, 110.0);
            }
        }
    }
}

#[test]
fn a_rate_fits_however_many_go_by_it_and_where_a_call_is_fewer_requests() {
    for calls in [130, 200, 400] {
        for (requests, clients) in [(3, 1), (2, 1), (3, 4)] {
            for late in [0, 4] {
                let algorithm = Algorithm::Rate;
                Neighbour { algorithm, clients, calls, late, requests, ..PLAIN }.fits(92.0, 112.0);
            }
        }
    }
}

/// It is told less than there is room for, and still most of it.
#[test]
fn a_rate_leaves_most_to_calls_of_more_requests() {
    for calls in [130, 200, 400] {
        Neighbour { algorithm: Algorithm::Rate, calls, requests: 6, ..PLAIN }.fits(65.0, 110.0);
    }
}
