//! A text made from the one that was made before it.
//!
//! The texts of one step differ from call to call in a few fields, which nearly always are as long as they were.
//! So the last text is kept, with the places of its fields: it is copied whole, and the fields are written over.
//! Wherever that is not sure to give the same, the text is made piece by piece.
//!
//! Headers of the message received are looked up once for all messages that are its like
//! ([`sip_message::Message::likeness`]): in those they stand in the same places, and are as long.

use super::super::facts::Facts;
use super::super::variables::Vars;
use super::seek::{Outline, value_of};
use super::words::{Digits, Number, Text};
use super::{Fault, Piece, Template};
use core::num::NonZeroU64;
use core::ops::Range;

/// What stands in a field.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Source {
    /// `[call_number]`
    Call,
    CallId,
    LocalIp,
    NextUrl,
    PeerTag,
    Routes,
    Number(Number, i64),
    /// A field of the call's line in this injection file.
    Field(u16, u16),
    /// A header of the message received last, by its number among those of the scenario.
    Header(u16),
}

/// What a piece has written.
#[derive(Clone, Copy, Debug)]
struct Field {
    source: Source,
    /// Where in the text, and how long it is. 0: it had nothing to show.
    at: u32,
    len: u32,
}

impl Field {
    fn range(self) -> Range<usize> {
        self.at as usize..self.at as usize + self.len as usize
    }
}

/// A stretch of the message received last that stands in the text.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: u32,
    at: u32,
    len: u32,
}

/// The text made last from one template.
#[derive(Debug, Default)]
pub struct Model {
    text: Vec<u8>,
    fields: Vec<Field>,
    /// Fields that show headers.
    headers: Vec<Field>,
    /// The headers again, as they stand in messages of this likeness.
    stretches: Vec<Stretch>,
    likeness: Option<NonZeroU64>,
    /// That of the message before.
    before: Option<NonZeroU64>,
    /// The step and round that it was made for.
    place: (usize, u32),
    ready: bool,
    /// It cannot be used for its template, or has been of no use too often.
    useless: bool,
    /// How often it was of no use, less how often it was.
    vain: u8,
    /// Room for a field of an injection file.
    value: Vec<u8>,
    #[cfg(test)]
    uses: usize,
    #[cfg(test)]
    alike: usize,
}

#[cfg(test)]
impl Model {
    /// How many texts were made with its help, and of these, for how many no header was looked up.
    pub(super) fn uses(&self) -> (usize, usize) {
        (self.uses, self.alike)
    }
}

impl Model {
    /// Notes where the headers of the text just made stand in messages that are the like of the one it was made
    /// from.
    #[cold]
    fn learn(&mut self, outline: &Outline, last: &[u8]) {
        self.likeness = None;
        self.stretches.clear();
        let spans = outline.spans();
        for field in &self.headers {
            let Source::Header(which) = field.source else { continue };
            let mut at = field.at;
            for (nth, &(_, from, to)) in spans.iter().filter(|span| span.0 == which).enumerate() {
                let (mut from, mut len) = (u32::from(from), u32::from(to.saturating_sub(from)));
                if nth > 0 {
                    // Further ones are further values, behind a comma.
                    let line = last.get(from as usize..usize::from(to)).unwrap_or_default();
                    let value = value_of(line);
                    from += (value.as_ptr() as usize).saturating_sub(line.as_ptr() as usize) as u32;
                    len = value.len() as u32;
                    at += 2;
                }
                self.stretches.push(Stretch { from, at, len });
                at += len;
            }
            if at != field.at + field.len {
                return self.stretches.clear();
            }
        }
        self.join(last);
        self.likeness = outline.likeness();
    }

    /// Makes one of stretches with the same line end between them in both texts.
    fn join(&mut self, last: &[u8]) {
        const END: &[u8] = b"\r\n";
        let text = &self.text;
        self.stretches.dedup_by(|next, own| {
            let (from, at) = ((own.from + own.len) as usize, (own.at + own.len) as usize);
            let follows = next.from as usize == from + 2 && next.at as usize == at + 2;
            let joined =
                follows && last.get(from..from + 2) == Some(END) && text.get(at..at + 2) == Some(END);
            own.len += if joined { 2 + next.len } else { 0 };
            joined
        });
    }
}

impl Template {
    /// As [`Template::render`], with the help of what it made last; `model` is of this template alone, and outlines
    /// are of messages read by one index.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn render_like(
        &self,
        model: &mut Model,
        facts: &mut Facts<'_>,
        vars: &Vars<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        if model.useless {
            return self.render(facts, vars, out);
        }
        let start = out.len();
        if model.ready {
            if self.fill_in(model, facts, out) {
                model.vain = model.vain.saturating_sub(1);
                #[cfg(test)]
                {
                    model.uses += 1;
                }
                return Ok(());
            }
            out.truncate(start);
        }
        self.make_model(model, facts, vars, out)
    }

    /// Makes the text, and the model anew.
    #[inline(never)]
    fn make_model(
        &self,
        model: &mut Model,
        facts: &mut Facts<'_>,
        vars: &Vars<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let start = out.len();
        model.vain = model.vain.saturating_add(1);
        (model.ready, model.likeness) = (false, None);
        model.before = facts.outline.and_then(Outline::likeness);
        if model.vain == u8::MAX || !self.pieces.iter().all(Piece::is_copied) {
            model.useless = true;
            return self.render(facts, vars, out);
        }
        model.fields.clear();
        model.headers.clear();
        let same = self.render_noting(facts, vars, out, |piece, from, to| {
            let Some(source) = self.pieces.get(piece).and_then(Piece::source) else { return };
            let field = Field { source, at: (from - start) as u32, len: (to - from) as u32 };
            match source {
                Source::Header(_) => model.headers.push(field),
                _ => model.fields.push(field),
            }
        })?;
        // A length that took other room than was left for it has moved what stands behind.
        model.ready = same;
        model.place = (facts.step, facts.round);
        model.text.clear();
        model.text.extend_from_slice(out.get(start..).unwrap_or_default());
        Ok(())
    }

    /// Writes the last text with the fields of this call. False if one of them has not the length that it had.
    #[inline]
    fn fill_in(&self, model: &mut Model, facts: &mut Facts<'_>, out: &mut Vec<u8>) -> bool {
        if model.place != (facts.step, facts.round) {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(&model.text);
        let Some(text) = out.get_mut(start..) else { return false };
        fill_fields(model, facts, text)
            && (model.headers.is_empty()
                || fill_headers(model, facts, text)
                || fill_unlike(model, facts, text))
    }
}

/// Writes what is not of the message received.
#[inline]
fn fill_fields(model: &mut Model, facts: &mut Facts<'_>, text: &mut [u8]) -> bool {
    let mut digits = Digits::new();
    let Model { fields, value, .. } = model;
    for &field in fields.iter() {
        let Some(mut place) = text.get_mut(field.range()) else { return false };
        let mut behind = |lead: usize| {
            let whole = core::mem::take(&mut place);
            place = whole.get_mut(lead..).unwrap_or_default();
        };
        let own: &[u8] = match field.source {
            Source::Call => {
                // It stands in most messages of a call, and more than once.
                let (number, digits) = &mut facts.desk.number;
                if *number != facts.call_number {
                    (*number, *digits) = (facts.call_number, Digits::new());
                }
                digits.once(facts.call_number)
            }
            Source::CallId => facts.call_id,
            Source::LocalIp => facts.local_ip,
            Source::NextUrl => facts.next_url,
            // `;tag=` and `Route: ` stand before them, where they are not empty.
            Source::PeerTag if field.len > 5 && !facts.peer_tag.is_empty() => {
                behind(5);
                facts.peer_tag
            }
            Source::Routes if field.len > 7 && !facts.routes.is_empty() => {
                behind(7);
                facts.routes
            }
            Source::PeerTag => facts.peer_tag,
            Source::Routes => facts.routes,
            Source::Number(number, add) => match u64::try_from(number.of(facts).saturating_add(add)) {
                Ok(number) => digits.of(number),
                Err(_) => return false,
            },
            Source::Field(file, field) => {
                let Some(&line) = facts.lines.get(usize::from(file)) else { return false };
                value.clear();
                let there = facts.desk.injections.write(usize::from(file), line, usize::from(field), value);
                if !there || value.starts_with(b"[authentication") {
                    return false;
                }
                &*value
            }
            Source::Header(_) => return false,
        };
        if !put(place, own) {
            return false;
        }
    }
    true
}

/// Writes a text over another. False if they are not of one length.
#[inline(always)]
fn put(place: &mut [u8], own: &[u8]) -> bool {
    if place.len() != own.len() {
        return false;
    }
    // Most are short, and a call would cost more than two moves that overlap.
    match own.len() {
        4..8 => put_ends::<4>(place, own),
        8..16 => put_ends::<8>(place, own),
        16..32 => put_ends::<16>(place, own),
        32..=64 => put_ends::<32>(place, own),
        _ => place.copy_from_slice(own),
    }
    true
}

/// Writes the first and the last bytes of a text that is not longer than both.
#[inline(always)]
fn put_ends<const N: usize>(place: &mut [u8], own: &[u8]) {
    if let (Some(place), Some(own)) = (place.first_chunk_mut::<N>(), own.first_chunk()) {
        *place = *own;
    }
    if let (Some(place), Some(own)) = (place.last_chunk_mut::<N>(), own.last_chunk()) {
        *place = *own;
    }
}

/// Writes the headers, if the message is the like of the one before. False if it is not.
#[inline]
fn fill_headers(model: &mut Model, facts: &Facts<'_>, text: &mut [u8]) -> bool {
    let likeness = facts.outline.and_then(Outline::likeness);
    if likeness.is_none() || likeness != model.likeness {
        return false;
    }
    for stretch in &model.stretches {
        let (from, at, len) = (stretch.from as usize, stretch.at as usize, stretch.len as usize);
        let (Some(own), Some(place)) = (facts.last.get(from..from + len), text.get_mut(at..at + len)) else {
            return false;
        };
        put(place, own);
    }
    #[cfg(test)]
    {
        model.alike += 1;
    }
    true
}

/// Writes the headers, wherever they stand.
#[inline(never)]
fn fill_unlike(model: &mut Model, facts: &Facts<'_>, text: &mut [u8]) -> bool {
    let Some(outline) = facts.outline else { return false };
    let whole = model.headers.iter().all(|field| match (field.source, text.get_mut(field.range())) {
        (Source::Header(which), Some(place)) => over_with_header(place, outline.spans(), which, facts.last),
        _ => false,
    });
    // Once is no habit.
    if whole && outline.likeness().is_some() && outline.likeness() == model.before {
        model.learn(outline, facts.last);
    }
    model.before = outline.likeness();
    whole
}

/// Writes a header as it stands in the message, further ones of the name as further values, as
/// [`super::seek::write_header`] does. False if all that is not as long as the place.
fn over_with_header(place: &mut [u8], spans: &[(u16, u16, u16)], which: u16, message: &[u8]) -> bool {
    let mut rest = place;
    let mut put = |text: &[u8]| match core::mem::take(&mut rest).split_at_mut_checked(text.len()) {
        Some((own, more)) => {
            own.copy_from_slice(text);
            rest = more;
            true
        }
        None => false,
    };
    let mut own = spans.iter().filter(|span| span.0 == which);
    let line = |&(_, from, to): &(u16, u16, u16)| {
        message.get(usize::from(from)..usize::from(to)).unwrap_or_default()
    };
    let whole = own.next().is_none_or(|span| put(line(span)))
        && own.all(|span| put(b", ") && put(value_of(line(span))));
    whole && rest.is_empty()
}

impl Piece {
    /// What stands where it has written, if that can be written over.
    fn source(&self) -> Option<Source> {
        Some(match self {
            Piece::Call => Source::Call,
            Piece::Header { global, .. } => Source::Header(*global),
            Piece::Routes { .. } => Source::Routes,
            // Each use makes another.
            Piece::Number(Number::DynamicId, _) => return None,
            Piece::Number(number, add) => Source::Number(*number, *add),
            Piece::Text(Text::CallId) => Source::CallId,
            Piece::Text(Text::LocalIp) => Source::LocalIp,
            Piece::Text(Text::NextUrl) => Source::NextUrl,
            Piece::Text(Text::PeerTag) => Source::PeerTag,
            Piece::Field { file, field, line: None } => Source::Field(*file, *field),
            _ => return None,
        })
    }

    /// Whether what it writes can be written over, or is the same at the same step.
    fn is_copied(&self) -> bool {
        self.is_the_same_in_all_calls() || self.source().is_some()
    }
}
