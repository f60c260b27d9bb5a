//! Messages cut into literal pieces and keywords.

mod cut;
mod dates;
mod model;
mod random;
mod seek;
#[cfg(test)]
pub(super) mod tests;
mod words;

pub(super) use cut::Cutter;
pub use cut::is_keyword;

use super::credentials::Wanted;
use super::facts::{Facts, Run};
use super::variables::{Slot, Vars};
use random::Random;
use seek::{Found, write_header};

pub use dates::{date_time, timestamp};
pub use model::{Brief, Model};
pub use seek::{Outline, Seeker};
pub(super) use words::Digits;
use words::{Number, Text, push_signed, write_branch_end};

/// A text with keywords, cut once.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Its line in the file.
    pub line: u32,
    /// The literal pieces, one after the other.
    text: Vec<u8>,
    pieces: Vec<Piece>,
    /// The headers that `[last_...]` asks for.
    wanted: Seeker,
    /// The method of the request that this is, for `[authentication]`.
    method: Box<str>,
}

/// One piece of a template.
#[derive(Clone, Debug)]
enum Piece {
    /// A stretch of the text.
    Literal { start: u32, end: u32 },
    /// A number, with what is added to it.
    Number(Number, i64),
    /// A text of the facts.
    Text(Text),
    /// `[call_number]`.
    Call,
    /// What `[branch+N]` has after `z9hG4bK-pid-call`: the step, and the round of a loop.
    BranchEnd(i64),
    /// `[len+N]`, in the head, with the digits that a typical body needs.
    Len { add: i64, digits: u8 },
    /// The empty line ends here.
    BodyStart,
    /// `[last_Name:]`: the header with this number in `wanted`, and among those of the scenario. Without
    /// it, rendering goes on at `skip`.
    Header { which: u16, global: u16, skip: Skip },
    /// `[routes]`.
    Routes { skip: Skip },
    /// `[$name]`.
    Variable(Slot),
    /// `[fieldN file= line=]`.
    Field { file: u16, field: u16, line: Option<Box<Template>> },
    /// `[authentication username= password=]`.
    Authentication { user: Option<Box<Template>>, password: Option<Box<Template>> },
    /// `[fill variable= text=]`.
    Fill { slot: Slot, text: Box<[u8]> },
    /// `[random length= of=]`.
    Random(Random),
    /// The end of a line of nothing but keywords: where all are empty, the line is dropped and rendering
    /// goes on at `skip`.
    DropIfEmpty { skip: Skip },
}

/// The piece to go on with where a line is dropped because its keyword is empty; [`NO_SKIP`] if the
/// line stays.
type Skip = u32;
const NO_SKIP: Skip = u32::MAX;

/// Why a text could not be made. The call has failed; what was written so far is worthless.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `[authentication]` before any message with a challenge came.
    NoChallenge,
    /// The challenge wants an algorithm or protection that is not known.
    UnknownChallenge,
    /// `line=` of a `[fieldN]` names no line of the file, or the line has too few fields.
    NoField,
}

impl Fault {
    /// What to tell people.
    pub const fn reason(self) -> &'static str {
        match self {
            Fault::NoChallenge => {
                "[authentication] before a message with a challenge was received with auth=\"true\""
            }
            Fault::UnknownChallenge => "the challenge cannot be answered: unknown algorithm or qop",
            Fault::NoField => "there is no such line or field in the injection file",
        }
    }
}

/// Places where a length must be filled in.
#[derive(Default)]
struct Lengths {
    /// Position, digits reserved, what to add.
    marks: [(usize, usize, i64); Lengths::MOST],
    count: usize,
    body: Option<usize>,
}

impl Lengths {
    /// Most `[len]` in one message; more are refused when the file is read.
    const MOST: usize = 4;

    /// Notes that a length belongs here, and makes room for its digits.
    fn mark(&mut self, digits: u8, add: i64, out: &mut Vec<u8>) {
        let reserved = usize::from(digits);
        if let Some(mark) = self.marks.get_mut(self.count) {
            *mark = (out.len(), reserved, add);
            self.count += 1;
        }
        out.extend_from_slice(b"000000".get(..reserved).unwrap_or_default());
    }

    /// Writes the lengths where they belong. From the last to the first, so that one that needs another
    /// number of digits moves no mark. Answers whether each had the room that was left for it.
    fn fill(&self, out: &mut Vec<u8>) -> bool {
        let mut fitted = true;
        let body = self.body.map_or(0, |body| out.len() - body) as i64;
        for &(at, reserved, add) in self.marks.iter().take(self.count).rev() {
            let mut digits = Digits::new();
            let digits = digits.of(u64::try_from(body + add).unwrap_or(0));
            if digits.len() == reserved
                && let Some(place) = out.get_mut(at..at + reserved)
            {
                place.copy_from_slice(digits);
            } else {
                out.splice(at..at + reserved, digits.iter().copied());
                fitted = false;
            }
        }
        fitted
    }
}

impl Template {
    /// Appends the text to `out`. Allocates nothing once `out` has the room.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn render(&self, facts: &mut Facts<'_>, vars: &Vars<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.render_noting(facts, vars, out, |_, _, _| {}).map(|_| ())
    }

    /// Same. Tells `note` what the pieces that differ between calls have written: which piece, from where, to
    /// where. Answers whether all of it still stands there.
    #[inline]
    fn render_noting(
        &self,
        facts: &mut Facts<'_>,
        vars: &Vars<'_>,
        out: &mut Vec<u8>,
        mut note: impl FnMut(usize, usize, usize),
    ) -> Result<bool, Fault> {
        let start = out.len();
        let mut lengths = Lengths::default();
        let outline = facts.outline;
        let mut found = None;
        if !self.wanted.is_empty() && outline.is_none() {
            self.wanted.find(facts.last, found.insert(Found::new()));
        }
        let spans = match outline {
            Some(outline) => outline.spans(),
            None => found.as_ref().map_or(&[][..], Found::spans),
        };
        let mut digits = Digits::new();
        let mut at = 0;
        while let Some(piece) = self.pieces.get(at) {
            let (which, before) = (at, out.len());
            at += 1;
            match piece {
                Piece::Literal { start, end } => {
                    out.extend_from_slice(self.text.get(*start as usize..*end as usize).unwrap_or_default());
                }
                Piece::Number(number, add) => push_signed(number.of(facts).saturating_add(*add), out),
                Piece::Text(text) => text.write(facts, out),
                Piece::Call => digits.write(facts.call_number, out),
                Piece::BranchEnd(add) => write_branch_end(facts, *add, out),
                Piece::Len { add, digits } => lengths.mark(*digits, *add, out),
                Piece::BodyStart => lengths.body = Some(out.len()),
                Piece::Header { which: local, global, skip } => {
                    let own = if outline.is_some() { *global } else { *local };
                    let skip = write_header(spans, own, facts.last, out, *skip);
                    at = if skip == NO_SKIP { at } else { skip as usize };
                }
                Piece::Routes { skip } if facts.routes.is_empty() => {
                    at = if *skip == NO_SKIP { at } else { *skip as usize };
                }
                Piece::Routes { .. } => {
                    out.extend_from_slice(b"Route: ");
                    out.extend_from_slice(facts.routes);
                }
                Piece::DropIfEmpty { skip } => {
                    at = if out.get(start..).is_some_and(|own| own.ends_with(b"\r\n")) {
                        *skip as usize
                    } else {
                        at
                    };
                }
                other => self.render_rare(other, facts, vars, (start, &mut *out))?,
            }
            if !piece.is_the_same_in_all_calls() {
                note(which, before, out.len());
            }
        }
        Ok(lengths.count == 0 || lengths.fill(out))
    }

    /// The pieces that most messages have not.
    #[inline(never)]
    fn render_rare(
        &self,
        piece: &Piece,
        facts: &mut Facts<'_>,
        vars: &Vars<'_>,
        (start, out): (usize, &mut Vec<u8>),
    ) -> Result<(), Fault> {
        match piece {
            Piece::Variable(slot) => {
                if let Some(value) = vars.get(*slot) {
                    value.write(out);
                }
            }
            Piece::Field { file, field, line } => {
                self.write_field((*file, *field, line.as_deref()), facts, vars, (start, &mut *out))?;
            }
            Piece::Authentication { user, password } => {
                let mut name = facts.desk.take();
                let mut secret = facts.desk.take();
                let result = render_or(user.as_deref(), facts, vars, &mut name, |run| &run.auth_user)
                    .and_then(|()| {
                        render_or(password.as_deref(), facts, vars, &mut secret, |run| &run.auth_password)
                    })
                    .and_then(|()| self.authenticate(&name, &secret, facts, (start, out)));
                facts.desk.give(name);
                facts.desk.give(secret);
                result?;
            }
            Piece::Fill { slot, text } => {
                let count = vars.get(*slot).and_then(|value| value.number()).unwrap_or(0.0);
                // A message has at most 64 KiB, whatever the variable says.
                let count = count.clamp(0.0, 65_535.0) as usize;
                out.extend(text.iter().cycle().take(count));
            }
            Piece::Random(random) => random.write(&mut facts.desk.random, out),
            _ => {}
        }
        Ok(())
    }

    /// A field of the call's line, or of the line that `line=` names. One that holds a whole
    /// `[authentication ...]` is run as such.
    fn write_field(
        &self,
        (file, field, line): (u16, u16, Option<&Template>),
        facts: &mut Facts<'_>,
        vars: &Vars<'_>,
        (start, out): (usize, &mut Vec<u8>),
    ) -> Result<(), Fault> {
        let line = match line {
            None => facts.lines.get(usize::from(file)).copied().ok_or(Fault::NoField)?,
            Some(template) => {
                let mut text = facts.desk.take();
                let result = template.render(facts, vars, &mut text);
                let line = line_number(&text);
                facts.desk.give(text);
                result?;
                line.ok_or(Fault::NoField)?
            }
        };
        let before = out.len();
        if !facts.desk.injections.write(usize::from(file), line, usize::from(field), out) {
            return Err(Fault::NoField);
        }
        if out.get(before..).is_some_and(|text| text.starts_with(b"[authentication")) {
            let mut text = facts.desk.take();
            text.extend_from_slice(out.get(before..).unwrap_or_default());
            out.truncate(before);
            let (user, password) = cut::plain_credentials(&text);
            let run = facts.run;
            let user = user.unwrap_or(&run.auth_user);
            let password = password.unwrap_or(&run.auth_password);
            let result = self.authenticate(user, password, facts, (start, out));
            facts.desk.give(text);
            result?;
        }
        Ok(())
    }

    /// Writes the header that answers the challenge.
    fn authenticate(
        &self,
        user: &[u8],
        password: &[u8],
        facts: &mut Facts<'_>,
        (start, out): (usize, &mut Vec<u8>),
    ) -> Result<(), Fault> {
        let Some(challenge) = facts.challenge.as_deref_mut() else { return Err(Fault::NoChallenge) };
        let mut uri = facts.desk.take();
        match &facts.run.auth_uri {
            Some(fixed) => uri.extend_from_slice(fixed),
            None => uri.extend_from_slice(request_uri(out.get(start..).unwrap_or_default())),
        }
        let wanted = Wanted { user, password, method: self.method.as_bytes(), uri: &uri };
        let result = facts.desk.credentials.answer(challenge, &wanted, out);
        facts.desk.give(uri);
        result
    }

    /// Settles how many digits lengths get from the start: those of a typical body.
    fn reserve(&mut self) {
        let body = self.pieces.iter().position(|piece| matches!(piece, Piece::BodyStart));
        let length = body.map_or(0, |at| {
            let pieces = self.pieces.iter().skip(at + 1);
            pieces.fold(0, |sum, piece| match piece {
                Piece::Literal { start, end } => sum + (end - start),
                _ => sum + 10,
            })
        });
        let digits_of = length.to_string().len() as u8;
        for piece in &mut self.pieces {
            if let Piece::Len { digits, .. } = piece {
                *digits = digits_of;
            }
        }
    }

    /// Writes what is the same in all calls of the run into the literal pieces.
    pub(super) fn bind(&mut self, run: &Run) {
        let old = core::mem::take(&mut self.pieces);
        let text = core::mem::take(&mut self.text);
        let mut targets = vec![false; old.len() + 1];
        for piece in &old {
            if let Some(skip) = piece.skip()
                && let Some(target) = targets.get_mut(skip as usize)
            {
                *target = true;
            }
        }
        // Where each old piece has come to.
        let mut places = Vec::with_capacity(old.len() + 1);
        let mut literal = 0;
        for (at, mut piece) in old.into_iter().enumerate() {
            if targets.get(at) == Some(&true) {
                self.end_literal(&mut literal);
            }
            places.push(self.pieces.len() as Skip);
            match &mut piece {
                Piece::Literal { start, end } => {
                    self.text.extend_from_slice(text.get(*start as usize..*end as usize).unwrap_or_default());
                    continue;
                }
                Piece::Number(number, add) => {
                    if let Some(number) = number.constant(run) {
                        push_signed(number.saturating_add(*add), &mut self.text);
                        continue;
                    }
                }
                Piece::Text(constant) => {
                    if constant.constant(run, &mut self.text) {
                        continue;
                    }
                }
                other => other.inner().for_each(|template| template.bind(run)),
            }
            self.end_literal(&mut literal);
            if let Some(place) = places.last_mut() {
                *place = self.pieces.len() as Skip;
            }
            self.pieces.push(piece);
        }
        self.end_literal(&mut literal);
        places.push(self.pieces.len() as Skip);
        for skip in self.pieces.iter_mut().filter_map(Piece::skip_place).filter(|skip| **skip != NO_SKIP) {
            *skip = places.get(*skip as usize).copied().unwrap_or(NO_SKIP);
        }
        self.reserve();
    }

    /// Makes a piece of the text since `from`.
    fn end_literal(&mut self, from: &mut usize) {
        if *from < self.text.len() {
            self.pieces.push(Piece::Literal { start: *from as u32, end: self.text.len() as u32 });
            *from = self.text.len();
        }
    }

    /// Gives the headers it asks for their numbers among those of the scenario.
    pub(super) fn join(&mut self, all: &mut Seeker) {
        for piece in &mut self.pieces {
            if let Piece::Header { which, global, .. } = piece {
                // A scenario has fewer names than that.
                *global = all.place(self.wanted.name(*which), usize::from(u16::MAX)).unwrap_or(u16::MAX);
            }
            piece.inner().for_each(|template| template.join(all));
        }
    }

    /// Whether it shows something of the last message received.
    pub(super) fn uses_last(&self) -> bool {
        let own = self.pieces.iter().any(|piece| {
            matches!(
                piece,
                Piece::Number(Number::LastCSeq, _) | Piece::Text(Text::LastMessage | Text::LastUri)
            )
        });
        own || !self.wanted.is_empty()
            || self.pieces.iter().any(|piece| piece.nested().any(Template::uses_last))
    }
}

impl Piece {
    /// Whether it writes what it wrote for the call before at this step, if what the others write is as long.
    fn is_the_same_in_all_calls(&self) -> bool {
        matches!(
            self,
            Piece::Literal { .. }
                | Piece::BranchEnd(_)
                | Piece::Len { .. }
                | Piece::BodyStart
                | Piece::DropIfEmpty { .. }
        )
    }

    /// Where rendering goes on if it is empty and drops its line.
    fn skip(&self) -> Option<Skip> {
        match self {
            Piece::Header { skip, .. } | Piece::Routes { skip } | Piece::DropIfEmpty { skip } => {
                Some(*skip).filter(|skip| *skip != NO_SKIP)
            }
            _ => None,
        }
    }

    fn skip_place(&mut self) -> Option<&mut Skip> {
        match self {
            Piece::Header { skip, .. } | Piece::Routes { skip } | Piece::DropIfEmpty { skip } => Some(skip),
            _ => None,
        }
    }

    /// Whether it may show nothing.
    fn may_be_empty(&self) -> bool {
        match self {
            Piece::Header { .. }
            | Piece::Routes { .. }
            | Piece::Variable(_)
            | Piece::Field { .. }
            | Piece::Fill { .. } => true,
            Piece::Text(text) => {
                matches!(text, Text::NextUrl | Text::PeerTag | Text::LastMessage | Text::LastUri)
            }
            _ => false,
        }
    }

    /// The templates of its parameters.
    fn nested(&self) -> impl Iterator<Item = &Template> {
        let (first, second) = match self {
            Piece::Field { line, .. } => (line.as_deref(), None),
            Piece::Authentication { user, password } => (user.as_deref(), password.as_deref()),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    fn inner(&mut self) -> impl Iterator<Item = &mut Template> {
        let (first, second) = match self {
            Piece::Field { line, .. } => (line.as_deref_mut(), None),
            Piece::Authentication { user, password } => (user.as_deref_mut(), password.as_deref_mut()),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// The text of a parameter, or the run's where it is not given.
fn render_or<'r>(
    template: Option<&Template>,
    facts: &mut Facts<'r>,
    vars: &Vars<'_>,
    out: &mut Vec<u8>,
    default: impl Fn(&'r Run) -> &'r Vec<u8>,
) -> Result<(), Fault> {
    match template {
        Some(template) => template.render(facts, vars, out),
        None => {
            out.extend_from_slice(default(facts.run));
            Ok(())
        }
    }
}

/// A line number as text; a number variable shows as `2.000000`.
pub(super) fn line_number(text: &[u8]) -> Option<u32> {
    let number: f64 = core::str::from_utf8(text).ok()?.trim().parse().ok()?;
    (number >= 0.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0).then_some(number as u32)
}

/// The second word of a message.
fn request_uri(message: &[u8]) -> &[u8] {
    message.split(|&b| b == b' ').nth(1).unwrap_or_default()
}
