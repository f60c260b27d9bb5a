//! A text made from the one that was made before it.
//!
//! The texts of one step differ from call to call in a few fields, which nearly always are as long as they
//! were. So the last text is kept, with the places of its fields: it is copied whole, and the fields are
//! written over. Wherever that is not sure to give the same, the text is made piece by piece.
//!
//! Headers that stand where they stood in the message before are copied as stretches of it, several lines at
//! a time. Otherwise each is looked up.

use super::super::facts::{Desk, Facts};
use super::super::variables::Vars;
use super::seek::{Outline, Span, value_of};
use super::words::{Digits, Number, Text};
use super::{Fault, Piece, Template};
use core::ops::Range;

/// What of a call its texts show most: enough for most texts that are made from the one before.
pub struct Brief<'a> {
    /// The worker's own.
    pub desk: &'a mut Desk,
    /// As in [`Facts`], all of these.
    pub call_number: u64,
    /// `[call_id]`.
    pub call_id: &'a [u8],
    /// `[local_ip]`.
    pub local_ip: &'a [u8],
    /// `[next_url]`.
    pub next_url: &'a [u8],
    /// The tag of the To of the last response.
    pub peer_tag: &'a [u8],
    /// `[routes]`.
    pub routes: &'a [u8],
    /// The number of the step.
    pub step: usize,
    /// How often the call went back.
    pub round: u32,
    /// The message received last.
    pub last: &'a [u8],
    /// Where things stand in it.
    pub outline: Option<&'a Outline>,
}

/// Which text of a [`Brief`] stands in a field.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Own {
    /// `[call_number]`
    Call,
    CallId,
    LocalIp,
    NextUrl,
    PeerTag,
    Routes,
}

/// What stands in a field.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Source {
    Own(Own),
    Number(Number, i64),
    /// A field of the call's line in this injection file.
    Field(u16, u16),
    /// A header of the message received last, by its number among those of the scenario.
    Header(u16),
}

/// What a piece has written.
#[derive(Clone, Copy, Debug)]
struct Field<T = Source> {
    source: T,
    /// Where in the text, and how long it is. 0: it had nothing to show.
    at: u32,
    len: u32,
}

impl<T> Field<T> {
    #[inline(always)]
    fn range(&self) -> Range<usize> {
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
    /// Fields that show what a [`Brief`] has.
    fields: Vec<Field<Own>>,
    /// Fields that show headers.
    headers: Vec<Field<u16>>,
    /// The other ones.
    rare: Vec<Field>,
    /// The headers again, in messages in which all headers stand like this.
    stretches: Vec<Stretch>,
    spans: Vec<Span>,
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
}

#[cfg(test)]
impl Model {
    /// How many texts were made with its help.
    pub(super) fn uses(&self) -> usize {
        self.uses
    }
}

impl Model {
    /// Makes the text of a call as the last one was made. False, and nothing is written, if that is not sure
    /// to be it, or if a [`Brief`] does not say enough.
    #[inline]
    pub fn again(&mut self, brief: Brief<'_>, out: &mut Vec<u8>) -> bool {
        let made = self.rare.is_empty() && self.fill_in(brief, out);
        if made {
            self.note_use();
        }
        made
    }

    #[inline]
    fn note_use(&mut self) {
        self.vain = self.vain.saturating_sub(1);
        #[cfg(test)]
        {
            self.uses += 1;
        }
    }

    /// Writes the last text with the fields of this call that its brief has. False, and nothing is written,
    /// if one of them has not the length that it had.
    #[inline]
    fn fill_in(&mut self, brief: Brief<'_>, out: &mut Vec<u8>) -> bool {
        if !self.ready || self.place != (brief.step, brief.round) {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(&self.text);
        let Some(text) = out.get_mut(start..) else { return false };
        let (last, outline) = (brief.last, brief.outline);
        let filled = fill_fields(&self.fields, brief, text)
            && (self.headers.is_empty()
                || outline.is_some_and(|outline| self.fill_headers(last, outline.spans(), text)));
        if !filled {
            out.truncate(start);
        }
        filled
    }

    /// Writes the headers of the message received last. False if one has not the length that it had.
    #[inline]
    fn fill_headers(&mut self, last: &[u8], spans: &[Span], text: &mut [u8]) -> bool {
        if self.stretches.is_empty() || self.spans != spans {
            return self.fill_unlike(last, spans, text);
        }
        self.stretches.iter().all(|stretch| {
            let (from, at, len) = (stretch.from as usize, stretch.at as usize, stretch.len as usize);
            let place = text.get_mut(at..at + len);
            place.zip(last.get(from..from + len)).is_some_and(|(place, own)| put(place, own))
        })
    }

    /// Same, wherever they stand.
    #[inline(never)]
    fn fill_unlike(&mut self, last: &[u8], spans: &[Span], text: &mut [u8]) -> bool {
        let whole = self.headers.iter().all(|field| {
            let place = text.get_mut(field.range());
            place.is_some_and(|place| over_with_header(place, spans, field.source, last))
        });
        if whole {
            self.learn(last, spans);
        }
        whole
    }

    /// Notes which stretches of a message stand in the text. Where headers stand in the same places, so do
    /// these.
    fn learn(&mut self, last: &[u8], spans: &[Span]) {
        self.stretches.clear();
        for field in &self.headers {
            let mut at = field.at;
            for (nth, span) in spans.iter().filter(|span| span.which == field.source).enumerate() {
                // Further ones are further values, behind a comma.
                let from = if nth > 0 { span.value } else { span.from };
                if from == 0 {
                    return self.stretches.clear();
                }
                if nth > 0 {
                    // Values of other lengths may have their commas elsewhere than the text has.
                    if self.text.get(at as usize..at as usize + 2) != Some(b", ") {
                        return self.stretches.clear();
                    }
                    at += 2;
                }
                let len = u32::from(span.to.saturating_sub(from));
                self.stretches.push(Stretch { from: from.into(), at, len });
                at += len;
            }
            if at != field.at + field.len {
                return self.stretches.clear();
            }
        }
        self.join(last);
        self.spans.clear();
        self.spans.extend_from_slice(spans);
    }

    /// Makes one of stretches with a line end between them in both texts.
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
    /// As [`Template::render`], with the help of what it made last; `model` is of this template alone.
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
        match model.again(facts.brief(), out) {
            true => Ok(()),
            false => self.render_unlike(model, facts, vars, out),
        }
    }

    /// Same, where [`Model::again`] has made nothing.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn render_unlike(
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
        if !model.rare.is_empty() && model.fill_in(facts.brief(), out) {
            if out.get_mut(start..).is_some_and(|text| fill_rare(model, facts, text)) {
                model.note_use();
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
        model.ready = false;
        model.stretches.clear();
        if model.vain == u8::MAX || !self.pieces.iter().all(Piece::is_copied) {
            model.useless = true;
            return self.render(facts, vars, out);
        }
        model.fields.clear();
        model.headers.clear();
        model.rare.clear();
        let same = self.render_noting(facts, vars, out, |piece, from, to| {
            let Some(source) = self.pieces.get(piece).and_then(Piece::source) else { return };
            let (mut at, mut len) = ((from - start) as u32, (to - from) as u32);
            match source {
                Source::Header(source) => model.headers.push(Field { source, at, len }),
                Source::Own(source) => {
                    // What stands before it where it is not empty.
                    let lead = source.lead().min(len);
                    (at, len) = (at + lead, len - lead);
                    model.fields.push(Field { source, at, len });
                }
                _ => model.rare.push(Field { source, at, len }),
            }
        })?;
        // A length that took other room than was left for it has moved what stands behind.
        model.ready = same;
        model.place = (facts.step, facts.round);
        model.text.clear();
        model.text.extend_from_slice(out.get(start..).unwrap_or_default());
        Ok(())
    }
}

impl Own {
    /// How long `;tag=` or `Route: ` is.
    fn lead(self) -> u32 {
        match self {
            Own::PeerTag => 5,
            Own::Routes => 7,
            _ => 0,
        }
    }
}

/// Writes what is not of the message received.
#[inline(always)]
fn fill_fields(fields: &[Field<Own>], brief: Brief<'_>, text: &mut [u8]) -> bool {
    // It stands in most messages of a call, and more than once.
    let (number, digits) = &mut brief.desk.number;
    if *number != brief.call_number {
        (*number, *digits) = (brief.call_number, Digits::new());
    }
    let number = digits.once(brief.call_number);
    let Brief { call_id, local_ip, next_url, peer_tag, routes, .. } = brief;
    // In the order of `Own`.
    let texts = [number, call_id, local_ip, next_url, peer_tag, routes];
    fields.iter().all(|field| {
        text.get_mut(field.range()).is_some_and(|place| put(place, texts[field.source as usize]))
    })
}

/// Writes the fields that a brief does not have.
fn fill_rare(model: &mut Model, facts: &mut Facts<'_>, text: &mut [u8]) -> bool {
    let mut digits = Digits::new();
    let Model { rare, value, .. } = model;
    rare.iter().all(|field| {
        let own: &[u8] = match field.source {
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
                value
            }
            Source::Own(_) | Source::Header(_) => return false,
        };
        text.get_mut(field.range()).is_some_and(|place| put(place, own))
    })
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

/// Writes a header as it stands in the message, further ones of the name as further values, as
/// [`super::seek::write_header`] does. False if all that is not as long as the place.
fn over_with_header(place: &mut [u8], spans: &[Span], which: u16, message: &[u8]) -> bool {
    let mut rest = place;
    let mut put = |text: &[u8]| match core::mem::take(&mut rest).split_at_mut_checked(text.len()) {
        Some((own, more)) => {
            own.copy_from_slice(text);
            rest = more;
            true
        }
        None => false,
    };
    let mut own = spans.iter().filter(|span| span.which == which);
    let whole = own.next().is_none_or(|span| put(span.line(message)))
        && own.all(|span| put(b", ") && put(value_of(span.line(message))));
    whole && rest.is_empty()
}

impl Piece {
    /// What stands where it has written, if that can be written over.
    fn source(&self) -> Option<Source> {
        Some(match self {
            Piece::Call => Source::Own(Own::Call),
            Piece::Header { global, .. } => Source::Header(*global),
            Piece::Routes { .. } => Source::Own(Own::Routes),
            // Each use makes another.
            Piece::Number(Number::DynamicId, _) => return None,
            Piece::Number(number, add) => Source::Number(*number, *add),
            Piece::Text(Text::CallId) => Source::Own(Own::CallId),
            Piece::Text(Text::LocalIp) => Source::Own(Own::LocalIp),
            Piece::Text(Text::NextUrl) => Source::Own(Own::NextUrl),
            Piece::Text(Text::PeerTag) => Source::Own(Own::PeerTag),
            Piece::Field { file, field, line: None } => Source::Field(*file, *field),
            _ => return None,
        })
    }

    /// Whether what it writes can be written over, or is the same at the same step.
    fn is_copied(&self) -> bool {
        self.is_the_same_in_all_calls() || self.source().is_some()
    }
}
