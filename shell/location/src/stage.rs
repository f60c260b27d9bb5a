//! Bindings between the disk and the tables, at a start.
//!
//! Rows and records come in the order of the disk, and each goes to another stripe: put into their tables as
//! they come, each would wait for the memory of its table several times. So they wait here until many are of
//! the same stripe, whose table is then in the processor's cache.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use sip_registrar::{BindingView, Table};
use siphasher::sip128::SipHasher13;
use wire::{Flow, Time};

use crate::key::Key;
use crate::log::record::encoded_key;
use crate::service::{SharedLocation, write};

/// Bindings that wait, of all stripes and threads together: with some 250 bytes for each, 64 MiB. Four times
/// as many saved the tables less work than it cost to be given the memory, nearly twice as much for a start
/// as a whole.
pub(crate) const ROOM: usize = 262_144;

/// What the threads of a start share.
pub(crate) struct Loading<'l> {
    location: &'l SharedLocation,
    /// Unguessable.
    key: [u8; 16],
    /// Of each stripe, what is said to be gone. Where the log says so the table on disk may still have it.
    gone: Box<[Mutex<Gone>]>,
    room: usize,
}

/// Keyed 128-bit hashes of the keys of bindings that are gone, and whether their time was over.
type Gone = BTreeMap<[u64; 2], bool>;

impl<'l> Loading<'l> {
    /// Into `location`, by `threads` that together let `room` bindings wait; `key` must be unguessable.
    pub(crate) fn new(
        location: &'l SharedLocation,
        key: [u8; 16],
        threads: usize,
        room: usize,
    ) -> Loading<'l> {
        let gone = location.stripes.iter().map(|_| Mutex::default()).collect();
        Loading { location, key, gone, room: room / location.stripes.len() / threads.max(1) }
    }

    /// Bindings of which the last word is that their time is over.
    pub(crate) fn expired(&self) -> u64 {
        self.gone.iter().map(|gone| lock(gone).values().filter(|over| **over).count() as u64).sum()
    }

    fn hash(&self, key: &Key<'_>) -> [u64; 2] {
        let hash = SipHasher13::new_with_key(&self.key).hash(&encoded_key(key));
        [hash.h1, hash.h2]
    }
}

fn lock(gone: &Mutex<Gone>) -> std::sync::MutexGuard<'_, Gone> {
    gone.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one thread read and has not put into the tables yet.
pub struct Stage<'l> {
    loading: &'l Loading<'l>,
    /// Whether it is of the table, whose words are older than all of the log.
    older: bool,
    stripes: Box<[Waiting]>,
    refused: u64,
}

/// Of one stripe, in their order.
#[derive(Default)]
struct Waiting {
    words: Vec<Word>,
    /// All their texts.
    texts: Vec<u8>,
}

/// A word about a binding, without its texts.
struct Word {
    says: Says,
    /// Of the texts.
    lengths: [u32; 7],
    reg_id: u32,
    cseq: u32,
    expires: Time,
    flow: Flow,
    q: u16,
}

/// What a word says of a binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    /// It is like this.
    Lives,
    /// Its time is over.
    Over,
    /// It was removed.
    Removed,
}

impl<'l> Stage<'l> {
    pub(crate) fn new(loading: &'l Loading<'l>, older: bool) -> Stage<'l> {
        let stripes = loading.location.stripes.iter().map(|_| Waiting::default()).collect();
        Stage { loading, older, stripes, refused: 0 }
    }

    /// Bindings for which there was no room.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes a binding that lives.
    pub fn put(&mut self, aor: &[u8], view: &BindingView<'_>) {
        self.push(Says::Lives, aor, view);
    }

    /// Takes the end of a binding.
    pub fn end(&mut self, says: Says, key: &Key<'_>) {
        let flow = Flow::udp(wire::ListenerId(0), (std::net::Ipv4Addr::UNSPECIFIED, 0).into());
        let nothing = BindingView {
            contact: key.contact,
            params: b"",
            q: 0,
            expires: Time::ZERO,
            call_id: b"",
            cseq: 0,
            flow,
            path: b"",
            instance: key.instance,
            reg_id: key.reg_id,
            user_agent: b"",
        };
        self.push(says, key.aor, &nothing);
    }

    fn push(&mut self, says: Says, aor: &[u8], view: &BindingView<'_>) {
        let index = self.loading.location.index(aor);
        let Some(waiting) = self.stripes.get_mut(index) else { return };
        let texts = [aor, view.contact, view.instance, view.params, view.call_id, view.path, view.user_agent];
        texts.iter().for_each(|text| waiting.texts.extend_from_slice(text));
        waiting.words.push(Word {
            says,
            // No row or record is longer than SQLite or the log allows.
            lengths: texts.map(|text| u32::try_from(text.len()).unwrap_or(0)),
            reg_id: view.reg_id,
            cseq: view.cseq,
            expires: view.expires,
            flow: view.flow,
            q: view.q,
        });
        if waiting.words.len() >= self.loading.room {
            self.flush(index);
        }
    }

    /// Puts all that waits into the tables. `from`: with which stripe to begin, so that two threads do not
    /// meet.
    pub fn finish(&mut self, from: usize) {
        let count = self.stripes.len();
        (from..count).chain(0..from.min(count)).for_each(|index| self.flush(index));
    }

    fn flush(&mut self, index: usize) {
        let (Some(waiting), Some(stripe), Some(gone)) = (
            self.stripes.get_mut(index),
            self.loading.location.stripes.get(index),
            self.loading.gone.get(index),
        ) else {
            return;
        };
        if waiting.words.is_empty() {
            return;
        }
        let (mut stripe, mut gone) = (write(stripe), lock(gone));
        let mut rest = &waiting.texts[..];
        for word in waiting.words.drain(..) {
            let texts = word.lengths.map(|length| {
                let (text, after) = rest.split_at_checked(length as usize).unwrap_or_default();
                rest = after;
                text
            });
            self.refused +=
                u64::from(!say(self.loading, self.older, &word, texts, &mut stripe.table, &mut gone));
        }
        waiting.texts.clear();
    }
}

/// Brings the table in line with a word; answers whether there was room for it.
fn say(
    loading: &Loading<'_>,
    older: bool,
    word: &Word,
    [aor, contact, instance, params, call_id, path, user_agent]: [&[u8]; 7],
    table: &mut Table,
    gone: &mut Gone,
) -> bool {
    let key = Key { aor, contact, instance, reg_id: word.reg_id };
    let Word { q, expires, cseq, flow, reg_id, .. } = *word;
    let view =
        BindingView { contact, params, q, expires, call_id, cseq, flow, path, instance, reg_id, user_agent };
    match word.says {
        Says::Lives if older => {
            let known = !gone.is_empty() && gone.contains_key(&loading.hash(&key));
            known || table.restore_older(aor, &view).is_ok()
        }
        Says::Lives => {
            if !gone.is_empty() {
                gone.remove(&loading.hash(&key));
            }
            table.restore_view(aor, &view).is_ok()
        }
        // Of rows it is only counted, and only if the log says nothing of the binding.
        Says::Over | Says::Removed if older => {
            let mut known = false;
            table.bindings(aor, Time::ZERO, |view| {
                known |= (view.contact, view.instance, view.reg_id) == (contact, instance, reg_id);
            });
            if !known {
                gone.entry(loading.hash(&key)).or_insert(true);
            }
            true
        }
        Says::Over | Says::Removed => {
            table.take_back(aor, contact, instance, reg_id);
            gone.insert(loading.hash(&key), word.says == Says::Over);
            true
        }
    }
}
