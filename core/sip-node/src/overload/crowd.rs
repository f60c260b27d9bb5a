//! Phones that all register at once, as after a power cut, at a worker that needs minutes for them: those who are refused come
//! again when they were told to, and those who get no answer repeat their request and then begin anew.

use super::*;
use std::collections::{BTreeMap, VecDeque};

/// Milliseconds of a window.
const WINDOW: u64 = 50;
/// Microseconds of the worker's time in a window, and what it takes to read a request and leave it unanswered, to refuse one,
/// and to take one on.
const SHARE: f64 = 50_000.0;
const LEAVES: f64 = 40.0;
const REFUSES: f64 = 150.0;
const TAKES: f64 = 500.0;
/// Registrations a second that it can do.
const CAPACITY: f64 = SHARE * 20.0 / TAKES;
/// When a REGISTER is repeated, milliseconds after the first, and given up (RFC 3261 section 17.1.2.2).
const REPEATS: [u64; 10] = [500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
const GIVEN_UP: u64 = 32_000;
/// So long a phone waits then at least (RFC 5626 section 4.5), and twice as long at most.
const ANEW: u64 = 30_000;

#[derive(Clone, Copy)]
struct Phone {
    call: u64,
    /// Which of its requests it is that waits for an answer.
    attempt: u32,
    registered: bool,
}

/// What a phone sends: its `attempt`, for the first time or again; or that it begins a new one.
#[derive(Clone, Copy)]
enum Event {
    Sends { phone: usize, attempt: u32 },
    Begins { phone: usize, attempt: u32 },
}

struct Crowd {
    overload: Overload,
    /// The kernel drops what it is told to.
    kernel: bool,
    phones: Vec<Phone>,
    comes: BTreeMap<u64, Vec<Event>>,
    queue: VecDeque<(usize, u32)>,
    now: u64,
    lots: u64,
    time_left: f64,
    behind: Duration,
    registered: usize,
    /// Requests that came.
    offered: u64,
}

impl Crowd {
    /// So many phones, which begin within two seconds.
    fn new(phones: usize, kernel: bool) -> Crowd {
        let mut crowd = Crowd {
            overload: Overload::new(Rules::default(), 7),
            kernel,
            phones: Vec::new(),
            comes: BTreeMap::new(),
            queue: VecDeque::new(),
            now: 1_000,
            lots: 0,
            time_left: 0.0,
            behind: Duration::ZERO,
            registered: 0,
            offered: 0,
        };
        for phone in 0..phones {
            let call = crowd.lot();
            crowd.phones.push(Phone { call, attempt: 0, registered: false });
            let at = crowd.now + crowd.lot() % 2_000;
            crowd.comes(at, Event::Begins { phone, attempt: 0 });
        }
        crowd
    }

    /// The next of a row of numbers that look like chance.
    fn lot(&mut self) -> u64 {
        self.lots = self.lots.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.lots ^ self.lots >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27) >> 20
    }

    fn comes(&mut self, at: u64, event: Event) {
        self.comes.entry(at / WINDOW).or_default().push(event);
    }

    /// Until so many are registered, an hour at most. How many seconds that is after the beginning.
    fn run(&mut self, registered: usize) -> u64 {
        while self.registered < registered && self.now < 3_600_000 {
            self.window();
        }
        self.now / 1_000 - 1
    }

    fn window(&mut self) {
        let mut sieved = 0;
        for event in self.comes.remove(&(self.now / WINDOW)).unwrap_or_default() {
            match event {
                Event::Begins { phone, attempt } if self.waits(phone, attempt) => self.begin(phone),
                Event::Sends { phone, attempt } if self.waits(phone, attempt) => {
                    self.offered += 1;
                    if self.kernel_drops(phone) {
                        sieved += 1;
                    } else {
                        self.queue.push_back((phone, attempt));
                    }
                }
                Event::Begins { .. } | Event::Sends { .. } => {}
            }
        }
        self.time_left = self.time_left.min(0.0) + SHARE;
        while self.time_left > 0.0
            && let Some((phone, attempt)) = self.queue.pop_front()
        {
            self.time_left -= self.take(phone, attempt);
        }
        self.now += WINDOW;
        let kept_up = self.queue.is_empty();
        self.behind = if kept_up { Duration::ZERO } else { self.behind + Load::WINDOW };
        let load = Load {
            window: Load::WINDOW,
            behind: self.behind,
            kept_up,
            sieved: self.kernel.then_some(sieved),
            waiting: None,
        };
        self.overload.pace(Time::from_micros(self.now * 1_000), &load);
    }

    fn waits(&self, phone: usize, attempt: u32) -> bool {
        !self.phones[phone].registered && self.phones[phone].attempt == attempt
    }

    /// It sends a new request, and repeats it, and begins anew if there is no answer.
    fn begin(&mut self, phone: usize) {
        self.phones[phone].attempt += 1;
        let attempt = self.phones[phone].attempt;
        self.comes(self.now + WINDOW, Event::Sends { phone, attempt });
        REPEATS.iter().for_each(|after| self.comes(self.now + after, Event::Sends { phone, attempt }));
        let anew = GIVEN_UP + ANEW + self.lot() % ANEW;
        self.comes(self.now + anew, Event::Begins { phone, attempt });
    }

    /// As the program does.
    fn kernel_drops(&self, phone: usize) -> bool {
        let table = self.overload.shares.table();
        let lot = (self.phones[phone].call as u16).wrapping_add(table.shift());
        self.kernel
            && self.overload.sieve().is_some()
            && u32::from(lot) >= table.threshold(self.source(phone)).below
    }

    /// Phones have addresses of their own.
    fn source(&self, phone: usize) -> u64 {
        self.phones[phone].call.rotate_left(17)
    }

    /// What the worker does with a request, and how long that takes.
    fn take(&mut self, phone: usize, attempt: u32) -> f64 {
        if !self.waits(phone, attempt) {
            return LEAVES;
        }
        let verdict = match self.overload.sheds() {
            true => self.overload.judge(self.source(phone), self.phones[phone].call, false, false),
            false => {
                self.overload.note(Method::Register);
                Verdict::Take
            }
        };
        match verdict {
            Verdict::Drop => LEAVES,
            Verdict::Take => {
                self.phones[phone].registered = true;
                self.registered += 1;
                TAKES
            }
            Verdict::Refuse => {
                let again = self.overload.retry_after();
                self.phones[phone].attempt += 1;
                let attempt = self.phones[phone].attempt;
                self.comes(self.now + u64::from(again) * 1_000, Event::Begins { phone, attempt });
                REFUSES
            }
        }
    }
}

/// A hundred seconds of work that comes within two: half are registered when little more than half of that time has passed. The
/// last ones were not lucky: they got no answer for 32 s and waited for up to a minute, twice.
#[test]
fn a_network_that_registers_at_once_is_registered_soon() {
    let phones = 100 * CAPACITY as usize;
    for kernel in [true, false] {
        let mut crowd = Crowd::new(phones, kernel);
        let [half, most, all] = [50, 90, 100].map(|part| crowd.run(phones * part / 100));
        let requests = crowd.offered as f64 / phones as f64;
        println!(
            "kernel {kernel}: half after {half} s, nine tenths after {most}, all after {all}; {requests:.1} requests each"
        );
        assert!(half <= 65 && most <= 220 && all <= 260, "kernel {kernel}: {half}, {most}, {all} s");
    }
}
