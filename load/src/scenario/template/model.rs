//! A text made from the one that was made before it.
//!
//! The texts of one step differ from call to call in a few fields, which nearly always are as long as they were.
//! So the last text is kept, with the places of its fields: it is copied whole, and the fields are written over.
//! Wherever that is not sure to give the same, the text is made piece by piece.

use super::super::facts::Facts;
use super::super::variables::Vars;
use super::seek::value_of;
use super::words::{Digits, Number, Text};
use super::{Fault, Piece, Template};

/// What a piece has written.
#[derive(Clone, Copy, Debug)]
struct Field {
    /// Which piece.
    piece: u32,
    /// Where in the text, and how long it is. 0: it had nothing to show.
    at: u32,
    len: u32,
}

/// The text made last from one template.
#[derive(Debug, Default)]
pub struct Model {
    text: Vec<u8>,
    fields: Vec<Field>,
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
        model.vain = model.vain.saturating_add(1);
        model.ready = false;
        if model.vain == u8::MAX || !self.pieces.iter().all(Piece::is_copied) {
            model.useless = true;
            return self.render(facts, vars, out);
        }
        model.fields.clear();
        let same = self.render_noting(facts, vars, out, |piece, from, to| {
            let (at, len) = ((from - start) as u32, (to - from) as u32);
            model.fields.push(Field { piece: piece as u32, at, len });
        })?;
        // A length that took other room than was left for it has moved what stands behind.
        model.ready = same;
        model.place = (facts.step, facts.round);
        model.text.clear();
        model.text.extend_from_slice(out.get(start..).unwrap_or_default());
        Ok(())
    }

    /// Writes the last text with the fields of this call. False if one of them has not the length that it had.
    fn fill_in(&self, model: &mut Model, facts: &mut Facts<'_>, out: &mut Vec<u8>) -> bool {
        if model.place != (facts.step, facts.round) || (facts.outline.is_none() && !self.wanted.is_empty()) {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(&model.text);
        let Some(text) = out.get_mut(start..) else { return false };
        let (mut call, mut digits) = (Digits::new(), Digits::new());
        let Model { fields, value, .. } = model;
        for field in fields.iter() {
            let (at, len) = (field.at as usize, field.len as usize);
            let (Some(piece), Some(place)) =
                (self.pieces.get(field.piece as usize), text.get_mut(at..at + len))
            else {
                return false;
            };
            let own: &[u8] = match piece {
                Piece::Call => call.once(facts.call_number),
                Piece::Text(Text::CallId) => facts.call_id,
                Piece::Text(Text::LocalIp) => facts.local_ip,
                Piece::Text(Text::NextUrl) => facts.next_url,
                Piece::Text(Text::PeerTag) if len == 0 => facts.peer_tag,
                Piece::Text(Text::PeerTag) => {
                    if !over(place, 5, facts.peer_tag) {
                        return false;
                    }
                    continue;
                }
                Piece::Routes { .. } if len == 0 => facts.routes,
                Piece::Routes { .. } => {
                    if !over(place, 7, facts.routes) {
                        return false;
                    }
                    continue;
                }
                Piece::Number(number, add) => match u64::try_from(number.of(facts).saturating_add(*add)) {
                    Ok(number) => digits.of(number),
                    Err(_) => return false,
                },
                Piece::Header { global, .. } => {
                    let spans = facts.outline.map_or(&[][..], |outline| outline.spans());
                    if !over_with_header(place, spans, *global, facts.last) {
                        return false;
                    }
                    continue;
                }
                Piece::Field { file, field, line: None } => {
                    let Some(&line) = facts.lines.get(usize::from(*file)) else { return false };
                    value.clear();
                    let there =
                        facts.desk.injections.write(usize::from(*file), line, usize::from(*field), value);
                    if !there || value.starts_with(b"[authentication") {
                        return false;
                    }
                    &*value
                }
                _ => return false,
            };
            if own.len() != len {
                return false;
            }
            place.copy_from_slice(own);
        }
        true
    }
}

/// Writes a value behind the `lead` bytes that a place begins with. False if it is not as long.
fn over(place: &mut [u8], lead: usize, value: &[u8]) -> bool {
    let Some(place) = place.get_mut(lead..).filter(|place| place.len() == value.len() && !value.is_empty())
    else {
        return false;
    };
    place.copy_from_slice(value);
    true
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
    /// Whether what it writes can be written over, or is the same at the same step.
    fn is_copied(&self) -> bool {
        match self {
            Piece::Literal { .. }
            | Piece::Call
            | Piece::BranchEnd(_)
            | Piece::Len { .. }
            | Piece::BodyStart
            | Piece::Header { .. }
            | Piece::Routes { .. }
            | Piece::DropIfEmpty { .. } => true,
            // Each use makes another.
            Piece::Number(number, _) => *number != Number::DynamicId,
            Piece::Text(text) => {
                matches!(text, Text::CallId | Text::LocalIp | Text::NextUrl | Text::PeerTag)
            }
            Piece::Field { line, .. } => line.is_none(),
            Piece::Variable(_) | Piece::Authentication { .. } | Piece::Fill { .. } => false,
        }
    }
}
