//! What is taken on, refused and passed over, by hand and by small models.

use super::*;

/// A trunk that leaves away what it is told to: nothing has to be refused then, and there is an overload all
/// the same.
#[test]
fn a_trunk_that_does_as_it_is_told_is_told_so_as_long_as_it_has_more() {
    let mut overload = Overload::new(Rules::default(), 7);
    let mut now = Time::from_secs(1);
    // It has 200 calls in a window, of which the worker can do 100: what is more makes it fall behind.
    let (mut waits, mut lot, mut begun) = (0u32, 0u64, Vec::new());
    let mut taken = 0;
    for window in 0..1_200 {
        now = now + Load::WINDOW;
        let loss = overload.wish(7, Algorithm::Loss).value;
        for n in 0..200u32 {
            lot = lot.wrapping_add(0x9e37_79b9_7f4a_7c15);
            if n * 100 / 200 < loss {
                continue;
            }
            let call = lot ^ lot >> 29;
            if !overload.sheds() {
                overload.note(Method::Invite);
            } else if overload.judge(7, call, true, true) != Verdict::Take {
                continue;
            }
            waits += 1;
            taken += u32::from(window >= 600);
        }
        waits = waits.saturating_sub(100);
        let behind = Duration::from_micros(u64::from(waits) * 500);
        let load = Load { window: Load::WINDOW, behind, kept_up: waits == 0, ..Load::default() };
        begun.extend(overload.pace(now, &load));
    }
    assert_eq!(begun, [Change::Entered]);
    let taken = f64::from(taken) / 600.0;
    assert!((90.0..=101.0).contains(&taken), "{taken} in a window");
}

/// A phone registers again and again with one Call-ID, and asks again when it was refused.
#[test]
fn nobody_is_refused_for_as_long_as_an_overload_lasts() {
    let mut overload = Overload::new(Rules::default(), 7);
    let mut now = Time::from_secs(1);
    let mut served = vec![0u32; 1_000];
    let mut calls = vec![0u32; 1_000];
    for window in 0..40_000u32 {
        now = now + Load::WINDOW;
        // A quarter of them in each, which is more than half of what can be done.
        for phone in (u64::from(window % 4)..1_000).step_by(4) {
            let call = phone.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let was = overload.sheds() && overload.judge(7, call, false, false) == Verdict::Take;
            served[phone as usize] += u32::from(was);
        }
        for n in 0..200u64 {
            let call = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let was = overload.sheds() && overload.judge(7, call, true, false) == Verdict::Take;
            calls[n as usize] += u32::from(was);
        }
        let behind = Duration::from_millis(if overload.taken > 400 { 400 } else { 0 });
        overload
            .pace(now, &Load { window: Load::WINDOW, behind, kept_up: behind.is_zero(), ..Load::default() });
        if window == 0 {
            overload.pace(now, &Load { behind: Duration::from_secs(1), ..Load::default() });
        }
    }
    assert!(overload.sheds() && served.iter().all(|served| *served > 0), "{served:?}");
    assert!(served.iter().sum::<u32>() < 9_500_000, "hardly anybody was refused");
    // Of calls the fate is the same, for a call is over when it is not repeated any more.
    assert!(calls[..200].contains(&0));
}

/// A phone that was asked for its credentials, and comes with them while less and less is taken on.
#[test]
fn what_was_challenged_is_taken_on_with_its_credentials() {
    let mut flooded = Flooded::new();
    flooded.run_with(400, 400, false);
    let ask = |flooded: &mut Flooded, call: u64| flooded.overload.judge(7, call, false, false);
    let phones: Vec<u64> = Flooded::spread(3).filter(|c| ask(&mut flooded, *c) == Verdict::Take).collect();
    phones.iter().for_each(|call| flooded.overload.challenges(7, *call));
    assert!(phones.len() > 50, "{}", phones.len());
    flooded.run_with(15, 4_000, false);
    assert!(phones.iter().all(|call| ask(&mut flooded, *call) == Verdict::Take));
    // Nobody comes in for ever by having come in once.
    for _ in 0..5 {
        flooded.run_with(20, 4_000, false);
        for call in &phones {
            if ask(&mut flooded, *call) == Verdict::Take {
                flooded.overload.challenges(7, *call);
            }
        }
    }
    let taken = phones.iter().filter(|call| ask(&mut flooded, **call) == Verdict::Take).count();
    assert!(taken < phones.len() / 2, "{taken} of {}", phones.len());
}

/// The same of a call, which is challenged with the INVITE that was taken on, by datagram and on a stream.
#[test]
fn a_call_that_was_challenged_comes_through_though_less_is_taken_on_meanwhile() {
    for stream in [false, true] {
        let mut flooded = Flooded::new();
        flooded.run(400, 100);
        let ask = |flooded: &mut Flooded, call: u64| flooded.overload.judge(7, call, true, stream);
        let taken: Vec<u64> = Flooded::spread(3).filter(|c| ask(&mut flooded, *c) == Verdict::Take).collect();
        flooded.run(4, 800);
        let again = taken.iter().filter(|c| ask(&mut flooded, **c) == Verdict::Take).count();
        flooded.run(1, 800);
        let others = taken.iter().filter(|c| ask(&mut flooded, **c + (1 << 30)) == Verdict::Take).count();
        assert!(taken.len() > 50 && again > taken.len() * 3 / 4, "{stream}: {again} of {}", taken.len());
        assert!(others < taken.len() / 2, "{stream}: {others} of {}", taken.len());
    }
}

/// Its program does not know what comes, or reads another clock.
#[test]
fn a_kernel_that_drops_nothing_is_not_counted_on() {
    let refused = |drops: fn(u32) -> Option<u64>| {
        let mut overload = Overload::new(Rules::default(), 7);
        let (mut now, mut call, mut refused) = (Time::from_secs(1), 0u64, 0);
        for window in 0..400 {
            let (mut taken, mut silent) = (0, 0);
            for _ in 0..100 {
                call = call.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let verdict = match overload.sheds() {
                    true => overload.judge(7, call ^ call >> 29, true, false),
                    false => Verdict::Take,
                };
                taken += u32::from(verdict == Verdict::Take);
                silent += u32::from(verdict == Verdict::Drop);
                refused += u32::from(window >= 200 && verdict == Verdict::Refuse);
            }
            now = now + Load::WINDOW;
            let behind = Duration::from_millis(if window == 0 { 1_000 } else { 0 });
            let sieved = drops(silent);
            overload.pace(
                now,
                &Load { window: Load::WINDOW, behind, kept_up: taken <= 50, sieved, waiting: None },
            );
        }
        refused
    };
    let (without, helps, does_not) = (refused(|_| None), refused(|_| Some(1_000)), refused(|_| Some(0)));
    assert!(does_not * 10 > without * 8 && helps * 4 < without, "{without} {helps} {does_not}");
}

/// What it is told to let pass and gets no answer all the same, of a burst, is not held against it: to answer
/// all refusals then would tell it to let everything pass, for good.
#[test]
fn a_kernel_that_does_as_it_is_told_is_counted_on_whatever_it_lets_pass() {
    let mut overload = Overload::new(Rules::default(), 7);
    let (mut now, mut call, mut silent) = (Time::from_secs(1), 0u64, 0);
    for window in 0..400 {
        let (mut taken, mut dropped) = (0, 0);
        let asked = if window % 40 == 39 { 6_000 } else { 90 };
        for _ in 0..asked {
            call = call.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let hash = call ^ call >> 29;
            let lot = (hash as u16).wrapping_add(overload.shares.table().shift());
            if overload.sheds() && !overload.shares.passes(part(7, false), lot) {
                dropped += 1;
                continue;
            }
            let verdict = match overload.sheds() {
                true => overload.judge(7, hash, false, false),
                false => Verdict::Take,
            };
            taken += u32::from(verdict == Verdict::Take);
            silent += u32::from(verdict == Verdict::Drop && window >= 200);
        }
        now = now + Load::WINDOW;
        let behind = Duration::from_millis(if window == 0 { 1_000 } else { 0 });
        let kept_up = taken <= 100;
        let load = Load { window: Load::WINDOW, behind, kept_up, sieved: Some(dropped), waiting: None };
        overload.pace(now, &load);
        assert!(overload.kernel_helps, "in window {window}");
    }
    assert!(overload.sheds() && silent > 4_000, "{silent}");
}

/// The kernel drops no byte of a stream, and nothing is repeated there: an answer, and the ACK that it
/// brings, spare nothing. So few refusals are all said, and of many one for five calls that are taken on.
#[test]
fn on_streams_a_refusal_is_said_for_five_calls_taken_on() {
    for (sieved, offered) in [(None, 100), (Some(0), 100), (None, 54)] {
        let mut overload = Overload::new(Rules::default(), 7);
        let mut now = Time::from_secs(1);
        let (mut call, mut refused, mut dropped) = (0u64, 0, 0);
        for window in 0..400 {
            let mut taken = 0;
            for _ in 0..offered {
                call = call.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let verdict = match overload.sheds() {
                    true => overload.judge(7, call ^ call >> 29, true, true),
                    false => Verdict::Take,
                };
                taken += u32::from(verdict == Verdict::Take);
                refused += u32::from(window >= 200 && verdict == Verdict::Refuse);
                dropped += u32::from(window >= 200 && verdict == Verdict::Drop);
            }
            now = now + Load::WINDOW;
            // It can do 50 in a window.
            let behind = Duration::from_millis(if window == 0 { 1_000 } else { 0 });
            overload.pace(
                now,
                &Load { window: Load::WINDOW, behind, kept_up: taken <= 50, sieved, waiting: None },
            );
        }
        match offered {
            100 => assert!(
                (1_500..=2_500).contains(&refused) && dropped > 5_000,
                "{refused}, {dropped} not said"
            ),
            _ => assert!(refused > 3 * dropped, "{refused}, {dropped} not said"),
        }
    }
}

/// A worker that can do 50 calls in a window, and one source.
struct Flooded {
    overload: Overload,
    now: Time,
    next: u64,
}

impl Flooded {
    fn new() -> Flooded {
        let mut flooded =
            Flooded { overload: Overload::new(Rules::default(), 7), now: Time::from_secs(1), next: 0 };
        flooded.overload.pace(flooded.now, &Load { behind: Duration::from_secs(1), ..Load::default() });
        flooded
    }

    fn judge(&mut self, call: u64) -> Verdict {
        self.overload.judge(7, call, true, false)
    }

    /// So many windows with so many new calls in each.
    fn run(&mut self, windows: u32, calls: u32) {
        self.run_with(windows, calls, true);
    }

    /// The same with INVITEs or other requests.
    fn run_with(&mut self, windows: u32, requests: u32, invite: bool) {
        for _ in 0..windows {
            let before = self.overload.taken;
            for _ in 0..requests {
                self.next = self.next.wrapping_add(0x9e37_79b9_7f4a_7c15);
                self.overload.judge(7, (self.next ^ self.next >> 29) & 0xf_ffff_ffff, invite, false);
            }
            self.now = self.now + Load::WINDOW;
            let kept_up = (self.overload.taken - before) / CALL <= 50;
            let load = Load {
                window: Load::WINDOW,
                behind: Duration::ZERO,
                kept_up,
                sieved: Some(10_000),
                waiting: None,
            };
            self.overload.pace(self.now, &load);
        }
    }

    /// Calls of this kind, with lots that are spread evenly.
    fn spread(kind: u64) -> impl Iterator<Item = u64> {
        (0..200).map(move |n| ((kind * 1_000 + n) << 16) | (n * 300))
    }

    fn told(&self) -> usize {
        self.overload.sieve().map_or(0, |sieve| sieve.known.len())
    }
}

/// Nobody is connected late because a threshold has risen meanwhile.
#[test]
fn what_got_no_answer_gets_none_when_it_is_repeated() {
    let mut flooded = Flooded::new();
    flooded.run(400, 200);
    let dropped: Vec<u64> = Flooded::spread(1).filter(|call| flooded.judge(*call) == Verdict::Drop).collect();
    // Twice as much of it is taken on now.
    flooded.run(100, 100);
    let below = |call: &&u64| (**call as u16) < 26_000;
    let again: Vec<&u64> = dropped.iter().filter(below).collect();
    assert!(again.len() > 20, "{}", again.len());
    assert!(again.iter().all(|call| flooded.judge(**call) == Verdict::Drop));
    let others: Vec<u64> = again.iter().map(|call| **call + (1 << 30)).collect();
    assert!(others.iter().filter(|call| flooded.judge(**call) == Verdict::Take).count() > others.len() / 2);
    // Nor because all that the source brings is taken on again.
    flooded.run(30, 10);
    let again = again.into_iter().copied().take(20).collect::<Vec<u64>>();
    assert!(flooded.overload.sheds() && again.iter().all(|call| flooded.judge(*call) == Verdict::Drop));
    // Where that has been so for as long as they may come again, nobody is passed over.
    flooded.run(640, 10);
    assert!(flooded.overload.sheds() && again.iter().all(|call| flooded.judge(*call) == Verdict::Take));
}

/// All phones that register again within the time that the kernel remembers would come through, whatever is
/// taken on.
#[test]
fn the_kernel_is_told_of_calls_and_not_of_registrations() {
    let mut flooded = Flooded::new();
    flooded.run_with(400, 400, false);
    let ask = |flooded: &mut Flooded, call: u64| flooded.overload.judge(7, call, false, false);
    let phones = Flooded::spread(3).filter(|call| ask(&mut flooded, *call) == Verdict::Take).count();
    flooded.run(1, 0);
    assert!(phones > 50 && flooded.told() == 0, "{phones} {}", flooded.told());
}

/// It brings its credentials, or its answer was lost; and the kernel is told of it.
#[test]
fn what_was_taken_on_is_taken_on_when_it_comes_again() {
    let mut flooded = Flooded::new();
    flooded.run(400, 100);
    let taken: Vec<u64> =
        Flooded::spread(1).filter(|call| flooded.judge(*call) == Verdict::Take).take(40).collect();
    flooded.run(1, 0);
    assert!(taken.len() >= 20 && flooded.told() == 2 * taken.len(), "{} {}", taken.len(), flooded.told());
    // So long a challenge takes at most.
    flooded.run(15, 1_000);
    assert!(taken.iter().filter(|call| (**call as u16) > 6_000).count() > 10);
    assert!(taken.iter().all(|call| flooded.judge(*call) == Verdict::Take));
    // After that it is new work of its lot, but is answered at least.
    flooded.run(60, 1_000);
    assert!(taken.iter().any(|call| flooded.judge(*call) != Verdict::Take));
    let told = flooded.told();
    flooded.overload.remember(1 << 33 | 65_000);
    assert_eq!(flooded.told(), told + 2);
}

impl Flooded {
    /// A window in which a neighbour would bring so many calls and other requests, and brings what it is told
    /// to: what is told, and how many units were brought and taken on.
    fn neighbour(&mut self, (calls, others): (u32, u32), algorithm: Algorithm) -> (u32, u32, u32) {
        let wish = self.overload.wish(7, algorithm);
        let all = f64::from(3 * calls + others);
        let left = match algorithm {
            _ if wish.valid.is_zero() => 1.0,
            Algorithm::Loss => 1.0 - f64::from(wish.value) / 100.0,
            Algorithm::Rate => (f64::from(wish.value) / 20.0 / all).min(1.0),
        };
        let (mut brought, before) = (0, self.overload.taken);
        for n in 0..calls + others {
            self.next = self.next.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let call = (self.next ^ self.next >> 29) & 0xf_ffff_ffff;
            if f64::from(n * 61 % 100) / 100.0 < left {
                self.overload.judge(7, call, n < calls, false);
                brought += units(n < calls);
            }
        }
        let taken = self.overload.taken - before;
        self.now = self.now + Load::WINDOW;
        let load = Load {
            window: Load::WINDOW,
            behind: Duration::ZERO,
            kept_up: taken / CALL <= 50,
            sieved: Some(10_000),
            waiting: None,
        };
        self.overload.pace(self.now, &load);
        (wish.value, brought, taken)
    }
}

/// A proxy of phones that all register is told so, though its calls are few; and of what it brings then
/// nearly all is taken on, whatever it goes by and however many of it are calls.
#[test]
fn a_neighbour_whose_registrations_are_too_many_brings_what_can_be_done() {
    for algorithm in [Algorithm::Loss, Algorithm::Rate] {
        for mix in [(1, 400), (0, 400), (20, 320), (50, 200), (75, 100), (100, 0)] {
            let mut flooded = Flooded::new();
            (0..300).for_each(|_| _ = flooded.neighbour(mix, algorithm));
            let windows: Vec<(u32, u32, u32)> = (0..700).map(|_| flooded.neighbour(mix, algorithm)).collect();
            let mean = |of: fn(&(u32, u32, u32)) -> u32| windows.iter().map(of).sum::<u32>() / 700;
            let (told, brought, taken) = (mean(|w| w.0), mean(|w| w.1), mean(|w| w.2));
            let all = 4 * mix.0 + mix.1;
            let whole = windows.iter().filter(|(_, brought, _)| *brought == all).count();
            println!(
                "{algorithm:?} {mix:?}: told {told}, brought {brought}, taken {taken}, {whole} with all of it"
            );
            assert!((180..=215).contains(&taken), "{algorithm:?} {mix:?}: {taken} taken on");
            assert!(
                brought < 260 && whole == 0,
                "{algorithm:?} {mix:?}: {brought} brought, all of it {whole} times"
            );
        }
    }
}

/// One quota, whatever the method says.
#[test]
fn a_source_has_as_many_calls_for_help_by_invite_and_by_message_together() {
    let mut flooded = Flooded::new();
    for _ in 0..200 {
        flooded.run_with(1, 200, true);
        flooded.run_with(1, 400, false);
    }
    let mut urgent = |next: u64, invite: bool| {
        let shift = if invite { 0 } else { flooded.overload.shares.table().shift() };
        let calls = (next..next + 20).map(|n| n << 16 | u64::from(65_000u16.wrapping_sub(shift)));
        let judged: Vec<Verdict> =
            calls.map(|call| flooded.overload.judge_emergency(7, call, invite, false)).collect();
        judged.iter().filter(|verdict| **verdict == Verdict::Take).count()
    };
    let (calls, messages) = (urgent(100, true), urgent(200, false));
    assert!(calls > 0 && messages == 0, "{calls} {messages}");
}
