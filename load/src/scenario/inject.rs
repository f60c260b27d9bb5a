//! Injection files: SIPp's CSV.
//!
//! The first line says in which order calls take the lines (`SEQUENTIAL`, `RANDOM` or `USER`) and may
//! add `PRINTF=n`, `PRINTFMULTIPLE=n` and `PRINTFOFFSET=n`; lines that begin with `#` are comments;
//! fields are parted by `;`. As with SIPp there is no quoting: a quote is a character like others.

use super::problem::Problem;
use super::steps::Side;
use crate::population::Rng;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::sync::Arc;

type Map<K, V> = HashMap<K, V, FixedState>;

/// In which order calls take the lines of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// One after the other, from the top again after the last.
    Sequential,
    /// Any line, each with the same chance.
    Random,
    /// User n takes line n.
    User,
}

/// Most lines of a file, and most that `insert` adds.
const MOST_LINES: usize = 100_000_000;

/// Most lines that are indexed: each takes some 100 bytes.
const MOST_INDEXED: u32 = 10_000_000;

/// One file given with `-inf`. Copies share the lines; what [`Injection::insert`] and
/// [`Injection::replace`] change is each copy's own.
#[derive(Clone, Debug)]
pub struct Injection {
    /// Its name as given.
    pub name: String,
    /// How lines are chosen.
    pub order: Order,
    text: Arc<[u8]>,
    /// Where each line begins and ends.
    spans: Arc<[(u64, u32)]>,
    /// The line of the file with the fewest fields, and how many.
    shortest: (u32, usize),
    generated: Option<Generated>,
    /// The fields of each template line, cut at their numbers; empty where lines are as in the file.
    cut: Arc<[Vec<Vec<Part>>]>,
    /// Lines that are not as in the file, or were added after it.
    changed: Map<u32, Vec<u8>>,
    added: u32,
    index: Option<Index>,
    /// The next line of calls that begin here, and of calls that come in.
    next: [u32; 2],
    stride: u32,
}

/// `PRINTF`: lines made of templates.
#[derive(Clone, Copy, Debug)]
struct Generated {
    lines: u32,
    multiple: u64,
    offset: u64,
}

/// A piece of a field of a template line.
#[derive(Clone, Debug)]
enum Part {
    Text(Box<[u8]>),
    /// The number of the line, filled up with a byte to a width.
    Number {
        fill: u8,
        width: usize,
    },
}

/// `-infindex`: where each value of a field stands. A copy takes no time, however many lines there are:
/// workers are given theirs when the first call is almost due.
#[derive(Clone, Debug)]
struct Index {
    field: usize,
    /// As in the file, the same for all copies.
    lines: Arc<Map<Vec<u8>, u32>>,
    /// What this copy's changes have made of that: another line, or none.
    changed: Map<Vec<u8>, Option<u32>>,
}

impl Index {
    fn find(&self, key: &[u8]) -> Option<u32> {
        let changed = if self.changed.is_empty() { None } else { self.changed.get(key).copied() };
        changed.unwrap_or_else(|| self.lines.get(key).copied())
    }
}

impl Injection {
    /// Reads a file.
    ///
    /// # Errors
    /// Everything wrong in it.
    pub fn parse(name: &str, text: &[u8]) -> Result<Injection, Vec<Problem>> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut problems = Vec::new();
        let mut complain = |line: u32, what: String, mend: &str| {
            let (file, mend) = (name.to_owned(), mend.to_owned());
            problems.push(Problem { file, line, column: 0, element: String::new(), what, mend });
        };
        let mut lines = text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let head = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
        let (order, generated) = read_head(&head, &mut complain);
        let (mut spans, mut cut) = (Vec::new(), Vec::<Vec<Vec<Part>>>::new());
        let mut shortest = (0, usize::MAX);
        // Blank lines are noted when another line follows them.
        let mut blank = 0;
        for (number, line) in (2_u32..).zip(lines) {
            if line.first() == Some(&b'#') {
                continue;
            }
            if line.is_empty() {
                blank = if blank == 0 { number } else { blank };
                continue;
            }
            if blank > 0 {
                complain(blank, "the line is empty".into(), "take it out; for an empty field write `;'");
                blank = 0;
            }
            let start = (line.as_ptr() as usize - text.as_ptr() as usize) as u64;
            spans.push((start, u32::try_from(line.len()).unwrap_or(u32::MAX)));
            let fields = memchr::memchr_iter(b';', line).count() + 1;
            if fields < shortest.1 {
                shortest = (number, fields);
            }
            if generated.is_some() {
                match line.split(|&b| b == b';').map(cut_field).collect() {
                    Ok(fields) => cut.push(fields),
                    Err(what) => {
                        complain(number, what, "write %d, %03d and the like, or %% for a percent sign")
                    }
                }
            }
        }
        // Without a first line of its own, the first line of values was taken for it.
        if spans.is_empty() && order.is_some() {
            complain(0, "it has no lines".into(), "add at least one line after the first");
        } else if spans.len() > MOST_LINES {
            complain(0, format!("it has more than {MOST_LINES} lines"), "use PRINTF, or fewer");
        }
        let Some(order) = order.filter(|_| problems.is_empty()) else { return Err(problems) };
        Ok(Injection {
            name: name.to_owned(),
            order,
            text: text.into(),
            spans: spans.into(),
            shortest,
            generated,
            cut: cut.into(),
            changed: Map::default(),
            added: 0,
            index: None,
            next: [0; 2],
            stride: 1,
        })
    }

    /// How many lines there are, made and added ones included.
    pub fn lines(&self) -> u32 {
        let own = self.generated.map_or(self.spans.len() as u32, |generated| generated.lines);
        own.saturating_add(self.added)
    }

    /// The line of the file (from 1) with the fewest fields, and how many it has.
    pub(super) fn shortest(&self) -> Option<(u32, usize)> {
        (self.shortest.0 > 0).then_some(self.shortest)
    }

    /// Writes one field. False, and nothing written, if there is no such line or field.
    pub fn write(&self, line: u32, field: usize, out: &mut Vec<u8>) -> bool {
        let changed = if self.changed.is_empty() { None } else { self.changed.get(&line) };
        let text = match (changed, self.generated) {
            (Some(text), _) => Some(text.as_slice()),
            (None, Some(generated)) => return self.print(generated, line, field, out),
            (None, None) => self.spans.get(line as usize).and_then(|&(start, len)| {
                let start = start as usize;
                self.text.get(start..start + len as usize)
            }),
        };
        let Some(text) = text.and_then(|text| nth_field(text, field)) else { return false };
        out.extend_from_slice(text);
        true
    }

    /// Writes a field of a made line.
    fn print(&self, generated: Generated, line: u32, field: usize, out: &mut Vec<u8>) -> bool {
        if line >= generated.lines {
            return false;
        }
        let Some(parts) = self.cut.get(line as usize % self.cut.len()).and_then(|fields| fields.get(field))
        else {
            return false;
        };
        for part in parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Number { fill, width } => {
                    let number = generated.number(line);
                    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
                    (digits..*width).for_each(|_| out.push(*fill));
                    sip_message::push_u64(number, out);
                }
            }
        }
        true
    }

    /// The line for a new call. The two sides have orders of their own. `user` counts from 0 and is used for
    /// [`Order::User`] only; calls that come in are nobody's and take one line after the other there.
    pub fn choose(&mut self, side: Side, user: u64, rng: &mut Rng) -> u32 {
        let lines = self.lines().max(1);
        match (self.order, side) {
            (Order::Sequential, _) | (Order::User, Side::Server) => {
                let next = &mut self.next[side as usize];
                let line = *next % lines;
                *next = ((u64::from(line) + u64::from(self.stride)) % u64::from(lines)) as u32;
                line
            }
            (Order::Random, _) => rng.below(u64::from(lines)) as u32,
            (Order::User, Side::Client) => (user % u64::from(lines)) as u32,
        }
    }

    /// Indexes a field (`-infindex`), so that `lookup` finds lines by it. Of equal values, the last line
    /// counts.
    ///
    /// # Errors
    /// There are more than ten million lines, which `PRINTF` has at no cost and an index has not.
    pub fn index(&mut self, field: usize) -> Result<(), String> {
        if self.lines() > MOST_INDEXED {
            let lines = self.lines();
            return Err(format!("{lines} lines are too many for an index; at most {MOST_INDEXED} have one"));
        }
        let mut lines = Map::default();
        let mut text = Vec::new();
        for line in 0..self.lines() {
            text.clear();
            if self.write(line, field, &mut text) {
                lines.insert(text.clone(), line);
            }
        }
        self.index = Some(Index { field, lines: Arc::new(lines), changed: Map::default() });
        Ok(())
    }

    /// Whether [`Injection::index`] was called.
    pub fn is_indexed(&self) -> bool {
        self.index.is_some()
    }

    /// The line whose indexed field is `key`.
    pub fn lookup(&self, key: &[u8]) -> Option<u32> {
        self.index.as_ref()?.find(key)
    }

    /// Adds a line at the end. False if there are too many.
    pub fn insert(&mut self, text: &[u8]) -> bool {
        if self.added as usize >= MOST_LINES {
            return false;
        }
        let line = self.lines();
        self.added += 1;
        self.put(line, text);
        true
    }

    /// Puts another text in the place of a line. False if there is no such line.
    pub fn replace(&mut self, line: u32, text: &[u8]) -> bool {
        if line >= self.lines() {
            return false;
        }
        self.put(line, text);
        true
    }

    fn put(&mut self, line: u32, text: &[u8]) {
        let mut old = Vec::new();
        if let Some(field) = self.index.as_ref().map(|index| index.field) {
            let was = self.write(line, field, &mut old);
            if let Some(index) = &mut self.index {
                if was && index.find(&old) == Some(line) {
                    index.changed.insert(old, None);
                }
                if let Some(key) = text.split(|&b| b == b';').nth(field) {
                    index.changed.insert(key.to_vec(), Some(line));
                }
            }
        }
        self.changed.insert(line, text.to_vec());
    }
}

impl Generated {
    fn number(self, line: u32) -> u64 {
        u64::from(line).wrapping_mul(self.multiple).wrapping_add(self.offset)
    }
}

/// Reads the first line.
fn read_head(head: &str, complain: &mut impl FnMut(u32, String, &str)) -> (Option<Order>, Option<Generated>) {
    const MEND: &str =
        "write SEQUENTIAL, RANDOM or USER, then perhaps ,PRINTF=n,PRINTFMULTIPLE=n,PRINTFOFFSET=n";
    let mut words = head.trim().split(',').map(str::trim);
    let order = match words.next().unwrap_or_default() {
        "SEQUENTIAL" => Some(Order::Sequential),
        "RANDOM" => Some(Order::Random),
        "USER" | "USERS" => Some(Order::User),
        other => {
            // It may be a line with a password in it.
            let what = if other.is_empty() {
                "it is empty, where"
            } else {
                "the first line is a line of values, where"
            };
            let what = match other.len() <= 12 && other.chars().all(|c| c.is_ascii_alphabetic()) {
                true if !other.is_empty() => format!("`{other}' is no order of lines"),
                _ => format!("{what} the order of lines should be"),
            };
            complain(1, what, MEND);
            None
        }
    };
    let mut generated = None;
    let (mut multiple, mut offset) = (1, 0);
    for word in words {
        let (name, number) = word.split_once('=').unwrap_or((word, ""));
        match (name, number.parse::<u32>()) {
            ("PRINTF", Ok(lines)) if lines > 0 => generated = Some(lines),
            ("PRINTFMULTIPLE", Ok(number)) => multiple = u64::from(number),
            ("PRINTFOFFSET", Ok(number)) => offset = u64::from(number),
            _ => complain(1, format!("`{word}' is not understood"), MEND),
        }
    }
    (order, generated.map(|lines| Generated { lines, multiple, offset }))
}

/// The field with a number, from 0.
fn nth_field(text: &[u8], field: usize) -> Option<&[u8]> {
    let mut rest = text;
    for _ in 0..field {
        rest = rest.get(memchr::memchr(b';', rest)? + 1..)?;
    }
    rest.get(..memchr::memchr(b';', rest).unwrap_or(rest.len()))
}

/// Cuts a field of a template line at `%d` and its kin.
fn cut_field(text: &[u8]) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut literal = Vec::new();
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'%', rest) {
        literal.extend_from_slice(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (format, after) = rest.split_at(digits);
        match after.first() {
            Some(b'%') if digits == 0 => literal.push(b'%'),
            Some(b'd' | b'i' | b'u') if digits <= 2 => {
                let fill = if format.first() == Some(&b'0') { b'0' } else { b' ' };
                let width = format.iter().fold(0, |width, digit| width * 10 + usize::from(digit - b'0'));
                parts.push(Part::Text(core::mem::take(&mut literal).into()));
                parts.push(Part::Number { fill, width });
            }
            _ => {
                let format = rest.get(..digits + 1).unwrap_or(rest);
                return Err(format!("`%{}' prints no number", String::from_utf8_lossy(format)));
            }
        }
        rest = after.get(1..).unwrap_or_default();
    }
    literal.extend_from_slice(rest);
    parts.push(Part::Text(literal.into()));
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    Ok(parts)
}

/// All files given with `-inf`, in their order. A worker has its own copy, which shares what nobody has
/// changed.
#[derive(Clone, Debug, Default)]
pub struct Injections {
    /// The files.
    pub files: Vec<Injection>,
}

impl Injections {
    /// The place of the file of this name: as it was given, or without the folders before it.
    pub fn find(&self, name: &str) -> Option<usize> {
        let short = |own: &str| own.rsplit('/').next() == Some(name);
        let exact = self.files.iter().position(|file| file.name == name);
        exact.or_else(|| self.files.iter().position(|file| short(&file.name)))
    }

    /// The copy of worker number `worker` of `workers`, who share the lines of sequential files evenly.
    pub fn for_worker(&self, worker: u32, workers: u32) -> Injections {
        let mut own = self.clone();
        for file in &mut own.files {
            (file.next, file.stride) = ([worker; 2], workers.max(1));
        }
        own
    }

    /// The lines for a new call, one of each file, written over `lines`.
    pub fn choose(&mut self, side: Side, user: u64, rng: &mut Rng, lines: &mut Vec<u32>) {
        lines.clear();
        lines.extend(self.files.iter_mut().map(|file| file.choose(side, user, rng)));
    }

    /// Writes a field of a line of a file. False, and nothing written, if there is none.
    pub fn write(&self, file: usize, line: u32, field: usize, out: &mut Vec<u8>) -> bool {
        self.files.get(file).is_some_and(|file| file.write(line, field, out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    fn field(file: &Injection, line: u32, field: usize) -> Option<String> {
        let mut out = Vec::new();
        file.write(line, field, &mut out).then(|| String::from_utf8(out).unwrap())
    }

    fn problem(text: &str) -> String {
        let problems = Injection::parse("u.csv", text.as_bytes()).unwrap_err();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn lines_comments_and_fields_are_read() {
        let text = "SEQUENTIAL\r\n#c\r\nann;pa;\"q;r\"\r\nbob;;\n# d\ncat\n\n";
        let file = Injection::parse("dir/u.csv", text.as_bytes()).unwrap();
        assert_eq!((file.order, file.lines(), file.shortest()), (Order::Sequential, 3, Some((6, 1))));
        assert_eq!(field(&file, 0, 0).as_deref(), Some("ann"));
        assert_eq!(field(&file, 0, 2).as_deref(), Some("\"q"), "there is no quoting");
        assert_eq!(field(&file, 1, 2).as_deref(), Some(""));
        assert_eq!(field(&file, 1, 3), None);
        assert_eq!(field(&file, 3, 0), None);
        let all = Injections { files: vec![file] };
        assert_eq!((all.find("u.csv"), all.find("dir/u.csv"), all.find("v.csv")), (Some(0), Some(0), None));
    }

    #[test]
    fn generated_lines_are_printed() {
        let text = "USERS,PRINTF=5,PRINTFMULTIPLE=2,PRINTFOFFSET=10\nu%03d;p%d;A\nv%3d;%%;B\n";
        let file = Injection::parse("u", text.as_bytes()).unwrap();
        assert_eq!((file.order, file.lines()), (Order::User, 5));
        assert_eq!(field(&file, 0, 0).as_deref(), Some("u010"));
        assert_eq!(field(&file, 3, 0).as_deref(), Some("v 16"));
        assert_eq!(field(&file, 3, 1).as_deref(), Some("%"));
        assert_eq!(field(&file, 4, 1).as_deref(), Some("p18"));
        assert_eq!(field(&file, 5, 0), None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        assert!(
            problem("")
                .contains("u.csv:1: it is empty, where the order of lines should be; write SEQUENTIAL")
        );
        assert!(problem("SEQUENTIAL\n").contains("u.csv: it has no lines"));
        let alone = problem("bob;secret\n");
        assert!(alone.contains("u.csv:1: the first line is a line of values") && !alone.contains("no lines"));
        assert!(problem("RANDOM\na\n\nb").contains("u.csv:3: the line is empty"));
        assert!(problem("RANDOM,PRINTF=x\na").contains("u.csv:1: `PRINTF=x' is not understood"));
        assert!(problem("RANDOM,PRINTF=2\na%d\nb%s").contains("u.csv:3: `%s' prints no number"));
    }

    #[test]
    fn orders_are_kept_and_workers_share_them() {
        let text = b"SEQUENTIAL\n0\n1\n2\n3\n4\n";
        let files = Injections { files: vec![Injection::parse("u", text).unwrap()] };
        let mut rng = Rng::new(1, 1);
        let mut lines = Vec::new();
        let mut take = |files: &mut Injections, user| {
            files.choose(Side::Client, user, &mut rng, &mut lines);
            lines[0]
        };
        let mut one = files.clone();
        assert_eq!([0; 7].map(|_| take(&mut one, 0)), [0, 1, 2, 3, 4, 0, 1]);
        let mut second = files.for_worker(1, 2);
        assert_eq!([0; 4].map(|_| take(&mut second, 0)), [1, 3, 0, 2]);
        let mut users = Injections { files: vec![Injection::parse("u", b"USER\n0\n1\n2").unwrap()] };
        assert_eq!([2, 0, 4].map(|user| take(&mut users, user)), [2, 0, 1]);
        let mut any = Injections { files: vec![Injection::parse("u", b"RANDOM\n0\n1\n2").unwrap()] };
        let mut seen = [0; 3];
        (0..3_000).for_each(|_| seen[take(&mut any, 0) as usize] += 1);
        assert!(seen.iter().all(|&count| (850..1_150).contains(&count)), "{seen:?}");
    }

    #[test]
    fn an_index_follows_what_is_inserted_and_replaced() {
        let mut file = Injection::parse("u", b"USERS\nalice;a\nbob;b\n").unwrap();
        assert_eq!(file.lookup(b"bob"), None, "no index yet");
        assert_eq!(file.index(0), Ok(()));
        assert_eq!((file.lookup(b"bob"), file.lookup(b"carol")), (Some(1), None));
        assert!(file.insert(b"carol;c") && file.replace(0, b"dave;d") && !file.replace(3, b"x"));
        let found = [&b"alice"[..], b"bob", b"carol", b"dave"].map(|key| file.lookup(key));
        assert_eq!(found, [None, Some(1), Some(2), Some(0)]);
        assert_eq!((field(&file, 2, 1).as_deref(), field(&file, 0, 1).as_deref()), (Some("c"), Some("d")));
        assert_eq!(field(&file, 3, 0), None);
    }

    #[test]
    fn workers_share_an_index_and_keep_their_changes_to_themselves() {
        let mut file = Injection::parse("u", b"SEQUENTIAL\nalice;a\nbob;b\n").unwrap();
        assert_eq!(file.index(0), Ok(()));
        let all = Injections { files: vec![file] };
        let mut workers = [all.for_worker(0, 2), all.for_worker(1, 2)];
        let map = |all: &Injections| Arc::clone(&all.files[0].index.as_ref().unwrap().lines);
        assert!(workers.iter().all(|own| Arc::ptr_eq(&map(own), &map(&all))), "a copy takes no time");
        let one = &mut workers[0].files[0];
        assert!(one.replace(0, b"carol;c") && one.insert(b"alice;d") && one.replace(1, b"dave;e"));
        let found =
            |own: &Injections| [&b"alice"[..], b"bob", b"carol", b"dave"].map(|key| own.files[0].lookup(key));
        assert_eq!(found(&workers[0]), [Some(2), None, Some(0), Some(1)]);
        assert_eq!(found(&workers[1]), [Some(0), Some(1), None, None]);
    }

    #[test]
    fn callees_are_no_users_and_take_the_next_line() {
        let mut files = Injections { files: vec![Injection::parse("u", b"USER\n0\n1\n2\n").unwrap()] };
        let (mut rng, mut lines) = (Rng::new(1, 1), Vec::new());
        let order = [Side::Server, Side::Client, Side::Server, Side::Client, Side::Server].map(|side| {
            files.choose(side, 1, &mut rng, &mut lines);
            lines[0]
        });
        assert_eq!(order, [0, 1, 1, 1, 2]);
    }

    #[test]
    fn more_lines_than_memory_has_room_for_have_no_index() {
        let mut file = Injection::parse("u", b"USERS,PRINTF=4294967295\nu%d\n").unwrap();
        assert_eq!(
            field(&file, 4_000_000_000, 0).as_deref(),
            Some("u4000000000"),
            "without one they are free"
        );
        assert!(file.index(0).is_err_and(|why| why.contains("4294967295 lines")));
    }

    #[test]
    fn callees_have_an_order_of_their_own() {
        let mut files = Injections { files: vec![Injection::parse("u", b"SEQUENTIAL\n0\n1\n2\n").unwrap()] };
        let (mut rng, mut lines) = (Rng::new(1, 1), Vec::new());
        let order = [Side::Client, Side::Server, Side::Server, Side::Client, Side::Client].map(|side| {
            files.choose(side, 0, &mut rng, &mut lines);
            lines[0]
        });
        assert_eq!(order, [0, 0, 1, 1, 2]);
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused(text in "(SEQUENTIAL|RANDOM|USER)?(,PRINTF=[0-9]{1,2})?\n([a-z;%0-9#]|\n){0,30}", line in 0..40u32) {
            if let Ok(mut file) = Injection::parse("u", text.as_bytes()) {
                prop_assert_eq!(file.index(0), Ok(()));
                let (lines, mut out) = (file.lines(), Vec::new());
                prop_assert_eq!(file.write(line, 0, &mut out), line < lines);
                prop_assert!(file.choose(Side::Client, u64::from(line), &mut Rng::new(1, 1)) < lines);
            }
        }
    }
}
