//! Who may bring how much of the new work that is taken on in an overload.
//!
//! Sources are counted in buckets that a keyed hash of their address chooses, in two rows with different
//! hashes; the INVITEs of one and its other requests as two sources ([`sip_steering::part`]). Each row has a
//! level: who brings less than it is served in full, who brings more gets as much as the level (max-min
//! fairness), so one source with ten times as much as others takes nothing from them. A source that shares
//! its bucket with such a one in one row is alone in the other, and the better of the two counts (as in
//! Stochastic Fair Blue, Feng and others 2001). The memory is fixed, and nobody outside knows who meets whom.
//!
//! The hashes of the rows are drawn anew, one after the other, each about once a minute: whom chance puts
//! together with a flood in both rows is not there for long. A new row is listened to for half a second
//! before anything goes by it.
//!
//! Which calls of a source are taken is no lottery for each message: it goes by a hash of the Call-ID, so a
//! call that was passed over is mostly passed over when its INVITE is sent again. Where the threshold has
//! moved meanwhile, what is remembered decides ([`super::Overload::judge`]).

mod urgent;

use super::units::{CALL, REQUESTS, SHED, Verdict};
use sip_proxy::feedback::Algorithm;
use sip_steering::{BUCKETS, ROWS, Table, Threshold, part, place};

/// How much of the last window counts in the mean of what a source brings.
const FRESH: f32 = 0.25;
/// The same of what it would bring, while it leaves something away. What it is told reaches it after a while,
/// and is done after a while: a mean that follows sooner than that takes what it brings by what it was told
/// before for what it brings by what it is told now, and swings. So it holds for answers that are half a
/// second on their way.
const FRESH_TOLD: f32 = 0.05;
/// How many times what it brings one would bring who goes by a rate: who brings what he may cannot be told
/// from who would bring no more, so a little is left for it to grow.
const GROWS: f32 = 1.25;
/// How much of what is brought too much by a rate in a window is made good in the next, and how much slower
/// that is forgotten where nothing has to be left away.
const MENDS: f32 = 0.03;
const FORGETS: f32 = 0.25;
/// The least part of what is left to it that one is told.
const LEAST_TOLD: f32 = 1.0 / 8.0;
/// Below this part it may have more than it brings.
const SHORT: f32 = 0.9;
/// A source that brings nothing any more is forgotten below this rate.
const GONE: f32 = 0.5;
/// One in thresholds.
const ALL: u32 = 1 << 16;
/// The least part of the calls that is counted.
const SAMPLE: u32 = ALL / 256;
/// What part anybody is told to leave away, at most: of nothing at all nobody can tell what it would be.
const MOST_TOLD: f32 = 0.95;
/// Windows after which one who was told is believed to have forgotten it: longer than it is valid.
const TELLS: u8 = 20;
/// Units of refused requests that are answered in a second however little is taken on.
const ANSWERS_LEAST: f32 = 80.0;
/// What an answer on a stream counts for, of one by datagram: nothing is repeated there, so an answer spares
/// nothing; but whoever gets none waits for half a minute.
const STREAM: u32 = 2;
/// Units that any source may bring in a window, and units of refusals that may be answered in it: those of
/// one call on a stream.
const ANY: f32 = (CALL * STREAM) as f32;
/// For how many windows the most of late is held, at least, and twice that at most: longer than a challenge
/// and the request with credentials take.
const HOLDS: u32 = 20;
/// Windows for which a source of which something was not taken on is not served quite in full, so that what
/// got no answer is looked for among what it brings: as long as a client repeats an INVITE (64 times T1).
const REPEATS: u16 = 640;
/// So many times higher a threshold may be while a call is repeated, by changes of what is brought.
const NEAR: f32 = 2.0;
/// A threshold below which nearly all calls are.
const NEARLY_ALL: u32 = ALL - 1;
/// Windows after which one of the rows has its hash drawn anew.
const SALTED: u32 = 600;
/// Windows in which a new row is listened to, and what part of the calls is counted in them.
const LEARNS: u8 = 10;
const LEARNED: u32 = ALL / 16;
/// Requests that ask whether we are there (OPTIONS) which are answered in a window whatever else there is: of
/// one source, and of all that are not known.
const PROBES: u8 = 4;
const PROBES_ALL: u8 = 16;

/// Units of refused requests whose refusal may be said in a second.
#[derive(Clone, Copy)]
pub struct Answers {
    /// Of all.
    pub all: f32,
    /// Of those that came by datagram, no more than of all.
    pub datagrams: f32,
    /// Of those that came on a stream, no more than of all.
    pub streams: f32,
}

impl Answers {
    fn at_least(self, units: f32) -> Answers {
        let Answers { all, datagrams, streams } = self;
        Answers { all: all.max(units), datagrams: datagrams.max(units), streams: streams.max(units) }
    }
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    /// Units brought in this window, of calls whose hash is below [`Bucket::counts`].
    brought: u32,
    /// Units taken on of them.
    taken: u32,
    /// Units brought in a second of late.
    comes: f32,
    /// Units that would be, if nobody had been told to bring less.
    rate: f32,
    /// Calls whose hash is below this are taken on.
    take: u32,
    /// Windows in which what was not taken on of late may come again.
    repeats: u16,
    /// Those below this are answered.
    answer: u32,
    /// The highest [`Bucket::take`] of late: calls below it that were taken on before are taken on again.
    held: Held,
    /// Requests that asked whether we are there in this window.
    probes: u8,
    /// Emergency calls in it that were not taken on like any other.
    urgent: u16,
    /// What is below this is counted, for the rest as well: a request that gets no answer comes again, up to
    /// ten times, one that is taken on does not.
    counts: u32,
    /// Windows for which somebody here has been told to bring less, and what part of it he leaves away then.
    tells: u8,
    told: f32,
    /// What part we want it to leave away.
    wants: f32,
    /// What part it has been told to since the last window.
    common: Option<f32>,
    /// Windows for which somebody here goes by a rate.
    paced: u8,
    /// The same by a loss.
    lossy: u8,
    /// What part of what is left to it is told whoever does: less than all if several share one address, or
    /// if a call is fewer requests than we take it for.
    scale: f32,
}

/// What a part of a source would bring, units a second, those of them that are left to it, and
/// [`Bucket::scale`].
#[derive(Clone, Copy, Default)]
struct Part {
    rate: f32,
    left: f32,
    scale: f32,
}

impl Bucket {
    /// This window of so many seconds is over, in which so many units were brought for each that was counted.
    fn turn(&mut self, seconds: f32, learns: bool) {
        let sample = self.counts.max(SAMPLE) as f32 / ALL as f32;
        let comes = self.brought as f32 / seconds / sample;
        self.comes = follow(self.comes, comes, FRESH);
        let fresh = if self.told > 0.0 && !learns { FRESH_TOLD } else { FRESH };
        self.rate = match self.paced > 0 {
            true => self.comes * GROWS,
            // Who leaves away what he was told to would bring so much without.
            false => follow(self.rate, comes / (1.0 - self.told), fresh),
        };
        (self.brought, self.taken, self.probes, self.urgent) = (0, 0, 0, 0);
    }

    /// Follows how much more comes by a rate than is left.
    fn weigh(&mut self) {
        let (left, comes) = (self.rate * (1.0 - self.wants), self.comes);
        // What comes beside one who goes by a rate from others who do not is not his.
        let off = match self.wants > 0.0 && self.paced > 0 && self.lossy == 0 {
            true => self.scale * (left - comes) / left.max(comes).max(GONE),
            // Where there is room for all it has to be found out again whether they still are several.
            false => (1.0 - self.scale) * FORGETS,
        };
        self.scale = (self.scale + MENDS * off).clamp(LEAST_TOLD, 1.0);
    }

    /// What somebody here leaves away from now on, because he was told to in the window that is over.
    fn hear(&mut self) {
        let told = self.common.take().unwrap_or(self.told).min(MOST_TOLD);
        self.told = if self.tells > 0 && self.paced == 0 { told } else { 0.0 };
        (self.tells, self.paced) = (self.tells.saturating_sub(1), self.paced.saturating_sub(1));
        self.lossy = self.lossy.saturating_sub(1);
    }
}

/// A mean: a burst is believed at once, its end slowly.
fn follow(mean: f32, now: f32, fresh: f32) -> f32 {
    let mean = if mean == 0.0 { now } else { mean + (now - mean) * fresh };
    if mean < GONE { 0.0 } else { mean }
}

/// The most that something was of late: since the last turn of this many windows, and before.
#[derive(Clone, Copy, Default)]
struct Held([u32; 2]);

impl Held {
    fn most(self) -> u32 {
        self.0[0].max(self.0[1])
    }

    /// What it is from this window on.
    fn note(&mut self, now: u32, turns: u32) {
        let [latest, _] = self.0;
        self.0 = if turns.is_multiple_of(HOLDS) { [now, latest] } else { [latest.max(now), self.0[1]] };
    }
}

/// Below which lot calls that are not taken on are remembered, where a threshold may rise so many times while
/// a call is repeated.
fn near(take: u32, rises: f32) -> u32 {
    ((take as f32 * rises) as u32).min(ALL)
}

/// The shares of all sources.
pub struct Shares {
    rows: Box<[[Bucket; BUCKETS]; ROWS]>,
    /// Units that a bucket may be given in this window, whatever the hashes of its calls are.
    cap: u32,
    /// The most that it was of late: the bound with calls that were taken on before.
    cap_held: Held,
    /// Units of refused requests that may still be answered in this window, and of those that came by
    /// datagram and on a stream.
    answers: u32,
    datagrams: u32,
    streams: u32,
    /// What the kernel is told, if it drops what would be left unanswered: the thresholds of answers, and the
    /// hashes of the rows.
    table: Table,
    /// Windows for which a row is listened to.
    learns: [u8; ROWS],
    /// Windows since the start.
    turns: u32,
    /// A generator of hashes.
    random: u64,
    /// Requests of unknown sources that may still ask whether we are there in this window.
    probes: u8,
    /// Emergency calls that may still be taken on in this window whatever else there is, and how many of one
    /// source in all.
    urgent: u16,
    urgent_each: u16,
    /// What part of what was brought is not taken on now.
    loss: f32,
    /// Somebody who goes by a rate is told less than is left to it.
    short: bool,
    /// Units a second up to which a source is served in full, infinite if all are; and how many more could be
    /// taken on then.
    level: f32,
    spare: f32,
    /// The most units a second that were allowed of late, and how many times higher thresholds may soon be.
    allowed: Held,
    rises: f32,
}

impl Shares {
    /// Nobody has brought anything. The seed is random and secret.
    pub fn new(seed: u64) -> Shares {
        Shares {
            rows: Box::new([[Bucket::default(); BUCKETS]; ROWS]),
            cap: 0,
            cap_held: Held::default(),
            answers: 0,
            datagrams: 0,
            streams: 0,
            table: Table::default(),
            learns: [0; ROWS],
            turns: 0,
            random: seed,
            probes: 0,
            urgent: 0,
            urgent_each: 0,
            loss: 0.0,
            short: false,
            level: f32::INFINITY,
            spare: 0.0,
            allowed: Held::default(),
            rises: NEAR,
        }
    }

    /// What the kernel is told.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What is added to the lots of others than INVITE.
    pub fn set_shift(&mut self, shift: u16) {
        self.table.set_shift(shift);
    }

    /// Draws the hash of a row anew.
    fn salt(&mut self, row: usize) {
        // The increment and finish of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut salt = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        salt = (salt ^ salt >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.table.set_salt(row, salt ^ salt >> 31);
    }

    /// Forgets everybody, and allows so many units a second for the first window of so many seconds.
    pub fn begin(&mut self, budget: f32, answers: Answers, seconds: f32) {
        let held = Held([ALL; 2]);
        *self.rows = [[Bucket { take: ALL, answer: ALL, counts: ALL, held, scale: 1.0, ..Bucket::default() };
            BUCKETS]; ROWS];
        self.cap_held = Held::default();
        (0..ROWS).for_each(|row| self.salt(row));
        self.learns = [0; ROWS];
        (self.allowed, self.rises) = (Held([budget as u32; 2]), NEAR);
        self.tell_kernel();
        (self.loss, self.level, self.spare, self.short) = (0.0, f32::INFINITY, budget, false);
        self.allow(budget, answers, seconds);
        self.allow_urgent(budget, seconds);
    }

    /// One row with another hash, which is only listened to at first.
    fn renew(&mut self, at: usize) {
        self.salt(at);
        if let (Some(row), Some(learns)) = (self.rows.get_mut(at), self.learns.get_mut(at)) {
            // What is counted has to come as far as here, so the kernel lets it pass; and as it may be much,
            // it is no more than twice what is taken on.
            let part = ((1.0 - self.loss) * (2 * ALL) as f32) as u32;
            let counts = part.clamp(SAMPLE, LEARNED);
            // The other row says what is wanted meanwhile; and for longer whose calls got no answer, which is
            // not known here.
            let repeats = REPEATS;
            *row = [Bucket { counts, answer: counts, wants: 1.0, repeats, scale: 1.0, ..Bucket::default() };
                BUCKETS];
            *learns = LEARNS;
        }
    }

    fn tell_kernel(&mut self) {
        let rises = self.rises;
        let threshold = |bucket: &Bucket| Threshold { below: bucket.answer, near: near(bucket.take, rises) };
        self.table.set_thresholds(self.rows.iter().flatten().map(threshold));
    }

    fn allow(&mut self, level: f32, answers: Answers, seconds: f32) {
        let units = |rate: f32| (2.0 * rate * seconds).max(ANY) as u32;
        (self.cap, self.answers) = (units(level), units(answers.all));
        (self.datagrams, self.streams) = (units(answers.datagrams), units(answers.streams));
        self.cap_held.note(self.cap, self.turns);
        self.probes = PROBES_ALL;
    }

    /// A window of so many seconds is over. In the next `budget` units a second may be taken on, and the
    /// refusal of `answers` may be said.
    pub fn turn(&mut self, budget: f32, answers: Answers, seconds: f32) {
        let seconds = seconds.clamp(0.001, 1.0);
        let answers = answers.at_least(ANSWERS_LEAST);
        // A worker that is behind for a moment allows less, and soon as much again as before.
        self.allowed.note(budget as u32, self.turns);
        self.rises = NEAR * (self.allowed.most() as f32 / budget.max(1.0)).max(1.0);
        let (mut highest, mut loss) = (0.0f32, 1.0f32);
        (self.level, self.spare, self.short) = (f32::INFINITY, budget, false);
        for (row, learns) in self.rows.iter_mut().zip(&mut self.learns) {
            let mut all = 0.0;
            for bucket in row.iter_mut() {
                if *learns > 0 {
                    // It knows of no earlier window, and whoever meets here does as they are told all the
                    // same.
                    bucket.hear();
                }
                bucket.turn(seconds, *learns > 0);
                all += bucket.rate;
            }
            *learns = learns.saturating_sub(1);
            if *learns > 0 {
                continue;
            }
            let wanted = level(row, budget, |bucket| bucket.rate);
            (self.level, self.spare) = (self.level.min(wanted), self.spare.min((budget - all).max(0.0)));
            for bucket in row.iter_mut() {
                let take = if bucket.rate > wanted { wanted / bucket.rate } else { 1.0 };
                bucket.wants = (1.0 - take).max(0.0);
                bucket.weigh();
                self.short |= bucket.paced > 0 && bucket.scale < SHORT;
                bucket.hear();
            }
            // What is judged here is what comes all the same. Who does as he is told leaves away calls and
            // the rest alike, so of one of them he brings less than its share, and there is room for the
            // other.
            let level = level(row, budget, |bucket| bucket.comes);
            let over = (row.iter().map(|bucket| bucket.comes).sum::<f32>() - budget).max(0.0);
            let answered = if over > 0.0 { (answers.datagrams / over).min(1.0) } else { 1.0 };
            for bucket in row.iter_mut() {
                let comes = bucket.comes;
                let take = if comes > level { level / comes } else { 1.0 };
                bucket.repeats = if take < 1.0 { REPEATS } else { bucket.repeats.saturating_sub(1) };
                let most = if bucket.repeats > 0 { NEARLY_ALL } else { ALL };
                bucket.take = ((take * ALL as f32) as u32).min(most);
                bucket.held.note(bucket.take, self.turns);
                bucket.counts = bucket.take.max(SAMPLE);
                let answer = take + (1.0 - take) * answered;
                // What is counted comes as far as here.
                bucket.answer = ((answer * ALL as f32) as u32).max(bucket.counts).min(most);
            }
            // Where all do as they are told there is no level. Somebody new, or who stops doing so, would
            // have the whole budget.
            highest = highest.max(level.min(NEAR * wanted));
            // What is left away because it was told to would come without.
            loss = loss.min(if all > 0.0 { (1.0 - budget / all).max(0.0) } else { 0.0 });
        }
        self.loss = loss;
        self.allow(highest.min(budget), answers, seconds);
        self.allow_urgent(budget, seconds);
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(SALTED) {
            self.renew((self.turns / SALTED) as usize % ROWS);
        }
        self.tell_kernel();
    }

    /// Whether all that a source brings is taken on, and was as long as what it brings may be a repetition.
    pub fn serves(&self, source: u64) -> bool {
        self.take(source) >= ALL
    }

    /// Whether the threshold may come up to this lot of a source within as long as a call is repeated.
    pub fn is_near(&self, source: u64, call: u16) -> bool {
        u32::from(call) < near(self.take(source), self.rises)
    }

    /// Whether the kernel is told to let this lot of a source pass.
    pub fn passes(&self, source: u64, call: u16) -> bool {
        let mut buckets = self.rows.iter().zip(self.places(source)).filter_map(|(row, at)| row.get(at));
        buckets.any(|bucket| u32::from(call) < bucket.answer)
    }

    /// Below which lot calls of a source are taken on.
    fn take(&self, source: u64) -> u32 {
        let buckets = self.rows.iter().zip(self.places(source)).filter_map(|(row, at)| row.get(at));
        buckets.map(|bucket| bucket.take).max().unwrap_or(0)
    }

    /// What becomes of a request that asks whether we are there: it is new work like any other, but a few of
    /// each source are answered whatever else there is, and of all sources that are not `known` some.
    /// `known`: the operator has named it.
    pub fn judge_probe(&mut self, source: u64, call: u16, stream: bool, known: bool) -> Verdict {
        let places = self.places(source);
        let (take, answer) = self.weigh(places, call, 1, false);
        if take {
            return Verdict::Take;
        }
        let mut few = false;
        for (row, at) in self.rows.iter_mut().zip(places) {
            let Some(bucket) = row.get_mut(at) else { continue };
            few |= bucket.probes < PROBES;
            bucket.probes = bucket.probes.saturating_add(1);
        }
        if few && (known || self.probes > 0) {
            self.probes -= u8::from(!known);
            return Verdict::Take;
        }
        self.refuse(answer, 1, stream)
    }

    /// Where a source is in each row.
    fn places(&self, source: u64) -> [usize; ROWS] {
        core::array::from_fn(|row| place(source, self.table.salt(row)))
    }

    /// What becomes of a request with so many units. `source` is a keyed hash of where it comes from, `call`
    /// one of its Call-ID; `stream`: it came on a stream.
    pub fn judge(&mut self, source: u64, call: u16, units: u32, stream: bool) -> Verdict {
        let (take, answer) = self.weigh(self.places(source), call, units, false);
        if take { Verdict::Take } else { self.refuse(answer, units, stream) }
    }

    /// The same of a request of a call that was taken on before. It is taken on again where the threshold was
    /// of late, and answered in any case.
    pub fn judge_known(&mut self, source: u64, call: u16, units: u32, stream: bool) -> Verdict {
        let (take, _) = self.weigh(self.places(source), call, units, true);
        if take { Verdict::Take } else { self.refuse(true, units, stream) }
    }

    /// Whether a request with this lot may be taken on if it is known ([`judge_known`](Shares::judge_known)).
    /// On a stream one that may not has the same fate as if it were not known.
    pub fn may_take_known(&self, source: u64, call: u16) -> bool {
        let mut buckets = self.rows.iter().zip(self.places(source)).filter_map(|(row, at)| row.get(at));
        buckets.any(|bucket| u32::from(call) < bucket.held.most())
    }

    /// Counts a request, and whether it is taken on; if it is not, whether its lot is one of those that are
    /// answered.
    fn weigh(&mut self, places: [usize; ROWS], call: u16, units: u32, known: bool) -> (bool, bool) {
        let call = u32::from(call);
        let cap = if known { self.cap_held.most().saturating_mul(2) } else { self.cap };
        let (mut take, mut answer) = (false, false);
        for (row, at) in self.rows.iter_mut().zip(places) {
            let Some(bucket) = row.get_mut(at) else { continue };
            if call < bucket.counts {
                bucket.brought = bucket.brought.saturating_add(units);
            }
            let below = if known { bucket.held.most() } else { bucket.take };
            take |= call < below && bucket.taken + units <= cap;
            answer |= call < bucket.answer;
        }
        for (row, at) in self.rows.iter_mut().zip(places).filter(|_| take) {
            if let Some(bucket) = row.get_mut(at) {
                bucket.taken += units;
            }
        }
        (take, answer)
    }

    /// How a request is refused.
    fn refuse(&mut self, answer: bool, units: u32, stream: bool) -> Verdict {
        let cost = if stream { units * STREAM } else { units };
        // Where the kernel drops what is not answered, silence costs nothing by datagram. On a stream it
        // never does that, but nothing is repeated there.
        let room = if stream { &mut self.streams } else { &mut self.datagrams };
        if self.answers < cost || *room < cost || !stream && !answer {
            return Verdict::Drop;
        }
        self.answers -= cost;
        *room -= cost;
        Verdict::Refuse
    }

    /// What to tell this source, which does as it is told from now on: what part of all that it would bring
    /// it is to leave away, 0 to 1, and how many requests a second it may bring, which is more than it does
    /// if that is little.
    pub fn tell(&mut self, source: u64, algorithm: Algorithm) -> (f32, f32) {
        let calls = self.tell_part(part(source, true), algorithm);
        let others = self.tell_part(part(source, false), algorithm);
        let (all, left) = (calls.rate + others.rate, calls.left + others.left);
        // Of nothing at all nobody can tell what it would be. It leaves the same part of either away.
        let loss = if all > 0.0 { (1.0 - left / all).clamp(0.0, MOST_TOLD) } else { 0.0 };
        self.set_common(source, loss);
        // Nor can anybody tell what one would bring who brings what he may: so that goes by what there is
        // room for.
        let may = if self.level.is_finite() { left.max(self.level) } else { left + self.spare };
        let requests = calls.rate * calls.scale / CALL as f32 * REQUESTS + others.rate * others.scale;
        (loss, if all > 0.0 { may * requests / all } else { may })
    }

    /// The same of a part of a source: by the row in which it meets nobody who brings much, if there is one.
    fn tell_part(&mut self, part: u64, algorithm: Algorithm) -> Part {
        let (mut wants, mut of, places) =
            (1.0f32, Part { rate: f32::INFINITY, left: 0.0, scale: 1.0 }, self.places(part));
        let mut fits = false;
        for (row, at) in self.rows.iter_mut().zip(places) {
            let Some(bucket) = row.get_mut(at) else { continue };
            bucket.tells = TELLS;
            match algorithm {
                Algorithm::Rate => bucket.paced = TELLS,
                Algorithm::Loss => bucket.lossy = TELLS,
            }
            if (bucket.wants, bucket.rate) < (wants, of.rate) {
                wants = bucket.wants;
                of = Part { rate: bucket.rate, left: bucket.rate * (1.0 - wants), scale: bucket.scale };
                fits = bucket.comes <= of.left * GROWS;
            }
        }
        // A row that is only listened to learns this as well, unless others bring what is too much in the one
        // that says it.
        let learning =
            self.rows.iter_mut().zip(places).zip(self.learns).filter(|(_, learns)| fits && *learns > 0);
        for ((row, at), _) in learning {
            if let Some(bucket) = row.get_mut(at) {
                bucket.scale = of.scale;
            }
        }
        if of.rate.is_finite() { of } else { Part::default() }
    }

    /// What this source is told to leave away from now on, of its INVITEs and of the rest, by all workers, if
    /// any tells it something.
    pub fn set_common(&mut self, source: u64, loss: f32) {
        for places in [true, false].map(|invite| self.places(part(source, invite))) {
            for (row, at) in self.rows.iter_mut().zip(places) {
                if let Some(bucket) = row.get_mut(at) {
                    bucket.common = Some(loss.clamp(0.0, MOST_TOLD));
                }
            }
        }
    }

    /// Whether somebody has to bring less than he has, or may have to.
    pub fn limits(&self) -> bool {
        self.loss >= SHED || self.short
    }

    /// What part of all that is brought is not taken on, 0 to 1.
    pub fn loss(&self) -> f32 {
        self.loss
    }
}

/// The level at which a row brings the budget, if each brings as much as `rate` says; infinite if that is
/// less.
fn level(row: &[Bucket; BUCKETS], budget: f32, rate: impl Fn(&Bucket) -> f32) -> f32 {
    let mut level = f32::INFINITY;
    // Each pass takes those below the level out, which raises it; so it ends as soon as nobody is.
    for _ in 0..16 {
        let (mut small, mut large, mut all) = (0.0, 0u32, 0.0);
        for rate in row.iter().map(&rate).filter(|rate| *rate > 0.0) {
            all += rate;
            if level.is_finite() && rate <= level {
                small += rate;
            } else {
                large += 1;
            }
        }
        if all <= budget || large == 0 {
            return level;
        }
        let next = (budget - small).max(0.0) / large as f32;
        if level.is_finite() && next <= level * 1.001 {
            return next;
        }
        level = next;
    }
    level
}

#[cfg(test)]
mod tests;
