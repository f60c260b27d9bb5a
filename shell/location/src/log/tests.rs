//! Tests of the files of the log: what a crash or a bad disk leaves of them.

use std::fs;

use wire::{ListenerId, Time};

use super::scan::Window;
use super::*;
use crate::testing::{Faults, TempDir, faults, log_dir, record};

const CLOCK: ClockPair = ClockPair { monotonic: Time::from_secs(50), wall: 1_700_000_000_000_000 };

fn sockets() -> Vec<String> {
    ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060", "tcp:[::]:5070"].map(str::to_owned).to_vec()
}

fn put(user: &str, listener: u16) -> Change {
    let mut record = record(user, "sip:x", Time::from_secs(650));
    record.flow.listener = ListenerId(listener);
    Change::Put(record)
}

fn delete(user: &str) -> Change {
    let record = record(user, "sip:x", Time::ZERO);
    Change::Delete { aor: record.aor, contact: record.contact, instance: record.instance, reg_id: 0 }
}

impl Log {
    /// Brings to the disk what was appended.
    fn sync(&mut self) -> Result<usize> {
        let Some(syncing) = self.begin_sync()? else { return Ok(0) };
        let outcome = syncing.run();
        self.end_sync(&syncing, outcome)
    }

    /// Appends a batch that is on the disk before the next one.
    fn add(
        &mut self,
        changes: &[Change],
        sockets: &[String],
        clock: ClockPair,
        seen: Option<i64>,
    ) -> Result<()> {
        self.append(changes, sockets, clock, seen)?;
        self.sync().map(|_| ())
    }

    fn next_file(&mut self) -> Result<Full> {
        let next = self.plan()?.make(CLOCK)?;
        self.rotate(next, CLOCK).map(|(full, _)| full)
    }
}

fn found(dir: &LogDir) -> Found {
    Found::read(dir, [1; 16]).unwrap()
}

/// As a start does it.
fn open(dir: &LogDir) -> Log {
    let mut found = found(dir);
    found.settle(dir).unwrap();
    Log::begin(dir, found.next(dir).unwrap(), found.seen().unwrap_or(0), CLOCK).unwrap()
}

/// The latest about each binding: its user and the listener's name, or `gone`.
fn all(dir: &LogDir) -> Vec<String> {
    let Found { files, index } = found(dir);
    let mut all = Vec::new();
    for place in index.in_order_of_rows() {
        let file = &files[place.file as usize];
        let mut window = Window::default();
        let base = file.header.base;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        all.push(match Entry::decode(base, file.record(place, &mut window).unwrap()).unwrap() {
            Entry::Put(put) => {
                format!("{} {}", text(put.key.aor), text(file.name(put.socket)))
            }
            Entry::Delete(key) => format!("{} gone", text(key.aor)),
            other => panic!("{other:?}"),
        });
    }
    all
}

fn path(temp: &TempDir, number: u64) -> PathBuf {
    temp.path().join(file_name(number))
}

fn numbers(temp: &TempDir) -> Vec<u64> {
    list(&log_dir(temp.path())).unwrap().into_iter().map(|(number, _)| number).collect()
}

/// Three batches of three bindings each; answers where each of them ends.
fn three_batches(temp: &TempDir) -> [u64; 3] {
    let mut log = open(&log_dir(temp.path()));
    ["a", "b", "c"].map(|batch| {
        let changes = ["1", "2", "3"].map(|user| put(&format!("{batch}{user}"), 1));
        log.add(&changes, &sockets(), CLOCK, Some(4)).unwrap();
        log.length()
    })
}

/// The same with ninety in each, which are several frames.
fn three_large_batches(temp: &TempDir) -> [u64; 3] {
    let mut log = open(&log_dir(temp.path()));
    ["a", "b", "c"].map(|batch| {
        let changes: Vec<Change> = (0..90).map(|user| put(&format!("{batch}{user}"), 1)).collect();
        log.add(&changes, &sockets(), CLOCK, None).unwrap();
        log.length()
    })
}

#[test]
fn files_are_read_in_their_order_and_the_later_word_counts() {
    let temp = TempDir::new();
    let mut log = open(&log_dir(temp.path()));
    log.add(&[put("a", 0), put("b", 1), put("c", 2)], &sockets(), CLOCK, Some(7)).unwrap();
    let full = log.next_file().unwrap();
    assert_eq!((full.number, full.path), (1, path(&temp, 1)));
    log.add(&[delete("a"), put("b", 2)], &sockets(), CLOCK, Some(8)).unwrap();
    let expected = ["a@example.com gone", "b@example.com tcp:[::]:5070", "c@example.com tcp:[::]:5070"];
    assert_eq!(all(&log_dir(temp.path())), expected);
    drop(log);
    // Another process, with a file of its own and listeners in another order.
    let mut log = open(&log_dir(temp.path()));
    assert_eq!((log.path(), numbers(&temp)), (&*path(&temp, 3), vec![1, 2, 3]));
    let other: Vec<String> = sockets().into_iter().rev().collect();
    log.add(&[put("d", 0), put("e", 2)], &other, CLOCK, None).unwrap();
    assert_eq!(
        all(&log_dir(temp.path()))[3..],
        ["d@example.com tcp:[::]:5070", "e@example.com udp:0.0.0.0:5060"]
    );
}

/// The numbers of removals begin again when somebody empties the table that has them.
#[test]
fn each_file_begins_with_the_last_word_about_removals() {
    let temp = TempDir::new();
    assert_eq!(found(&log_dir(temp.path())).seen(), None);
    let mut log = Log::begin(&log_dir(temp.path()), 1, 5, CLOCK).unwrap();
    assert!(log.is_empty() && log.seen() == 5);
    assert_eq!(found(&log_dir(temp.path())).seen(), Some(5));
    log.add(&[put("a", 1)], &sockets(), CLOCK, Some(9)).unwrap();
    log.add(&[put("b", 1)], &sockets(), CLOCK, None).unwrap();
    log.add(&[], &sockets(), CLOCK, Some(4)).unwrap();
    assert_eq!(found(&log_dir(temp.path())).seen(), Some(4), "the last one, not the highest");
    let full = log.next_file().unwrap();
    dispose(&log_dir(temp.path()), &full.path, false).unwrap();
    assert_eq!((found(&log_dir(temp.path())).seen(), log.seen(), log.is_empty()), (Some(4), 4, true));
    // The same in two files.
    log.add(&[], &sockets(), CLOCK, Some(9)).unwrap();
    log.next_file().unwrap();
    log.add(&[], &sockets(), CLOCK, Some(3)).unwrap();
    assert_eq!((found(&log_dir(temp.path())).files.len(), found(&log_dir(temp.path())).seen()), (2, Some(3)));
}

#[test]
fn a_log_of_a_newer_version_is_refused_by_name_with_a_mend() {
    let temp = TempDir::new();
    three_batches(&temp);
    let mut bytes = fs::read(path(&temp, 1)).unwrap();
    bytes[8] = 3;
    fs::write(path(&temp, 1), &bytes).unwrap();
    let error = Found::read(&log_dir(temp.path()), [1; 16]).map(|_| ()).unwrap_err();
    assert_eq!(error.kind, Kind::Version);
    let text = error.to_string();
    assert!(text.contains("location.1.log: is a log of version 3") && text.contains("newer"), "{text}");
    assert_eq!(fs::read(path(&temp, 1)).unwrap(), bytes, "left alone");
}

#[test]
fn a_file_that_is_no_log_and_a_damaged_header_are_refused() {
    let temp = TempDir::new();
    let text =
        |temp: &TempDir| Found::read(&log_dir(temp.path()), [1; 16]).map(|_| ()).unwrap_err().to_string();
    fs::write(path(&temp, 3), b"this is not a log, but it is somebody's file and long enough").unwrap();
    assert!(text(&temp).contains("location.3.log: is no log of bindings; move it away"), "{}", text(&temp));
    fs::remove_file(path(&temp, 3)).unwrap();
    three_batches(&temp);
    let mut bytes = fs::read(path(&temp, 1)).unwrap();
    bytes[20] ^= 1;
    fs::write(path(&temp, 1), &bytes).unwrap();
    assert!(text(&temp).contains("damaged at offset 0") && text(&temp).contains("move it away"));
}

#[test]
fn only_one_spelling_of_a_number_is_a_log_and_numbers_end() {
    let temp = TempDir::new();
    three_batches(&temp);
    for name in
        ["location.01.log", "location.+1.log", "location.x.log", "location..log", "location.1.log.old"]
    {
        fs::copy(path(&temp, 1), temp.path().join(name)).unwrap();
    }
    assert_eq!(numbers(&temp), [1]);
    fs::rename(path(&temp, 1), path(&temp, u64::MAX)).unwrap();
    let found = found(&log_dir(temp.path()));
    assert_eq!(found.index.len(), 9);
    let error = found.next(&log_dir(temp.path())).unwrap_err();
    assert!(error.to_string().contains("location.18446744073709551615.log: has the highest"), "{error}");
}

#[test]
fn a_file_that_a_crash_hit_while_it_was_made_goes() {
    let temp = TempDir::new();
    drop(Log::begin(&log_dir(temp.path()), 1, 3, CLOCK).unwrap());
    let whole = fs::read(path(&temp, 1)).unwrap();
    assert!(whole.len() < 128);
    let mut begun: Vec<Vec<u8>> = (0..HEADER).map(|left| whole[..left].to_vec()).collect();
    begun.extend((0..=whole.len()).map(|left| vec![0; left]));
    for bytes in begun {
        let temp = TempDir::new();
        three_batches(&temp);
        fs::write(path(&temp, 2), &bytes).unwrap();
        let log = open(&log_dir(temp.path()));
        assert_eq!((log.path(), numbers(&temp)), (&*path(&temp, 2), vec![1, 2]), "{bytes:?}");
        assert!(log.length() >= HEADER as u64 && all(&log_dir(temp.path())).len() == 9);
        assert_eq!(found(&log_dir(temp.path())).files[1].damage, None);
    }
}

/// With a later file there, it was a whole one once.
#[test]
fn a_short_file_that_is_not_the_last_is_damaged() {
    for left in [0, 7, HEADER - 1] {
        let temp = TempDir::new();
        three_batches(&temp);
        drop(open(&log_dir(temp.path())));
        fs::OpenOptions::new().write(true).open(path(&temp, 1)).unwrap().set_len(left as u64).unwrap();
        let found = found(&log_dir(temp.path()));
        assert_eq!(found.files[0].damage.map(|damage| damage.bytes), Some(left as u64));
        assert_eq!(found.files[1].damage, None);
        drop(open(&log_dir(temp.path())));
        assert_eq!(numbers(&temp), [1, 2, 3], "kept");
    }
}

/// Whatever the last batch was cut to, those before are there, and what is cut off is kept.
#[test]
fn a_torn_end_is_cut_off_at_every_byte() {
    let temp = TempDir::new();
    let [_, second, third] = three_batches(&temp);
    let whole = fs::read(path(&temp, 1)).unwrap();
    for cut in second..third {
        let cut = usize::try_from(cut).unwrap();
        for filled in [false, true] {
            let temp = TempDir::new();
            let mut bytes = whole[..cut].to_vec();
            if filled {
                // Other bytes than those that are missing.
                bytes.extend(whole[cut..].iter().map(|byte| byte ^ 0x55));
            }
            fs::write(path(&temp, 1), &bytes).unwrap();
            let mut found = found(&log_dir(temp.path()));
            assert!(found.files[0].damage.is_none(), "cut at {cut}");
            assert_eq!((found.files[0].at, found.index.len()), (second, 6));
            let torn = &bytes[usize::try_from(second).unwrap()..];
            assert_eq!(found.files[0].torn, torn.len() as u64);
            found.settle(&log_dir(temp.path())).unwrap();
            assert_eq!(fs::metadata(path(&temp, 1)).unwrap().len(), second);
            match torn.is_empty() {
                true => assert!(!temp.path().join(TORN).exists()),
                false => assert_eq!(fs::read(temp.path().join(TORN)).unwrap(), torn),
            }
            let mut log = open(&log_dir(temp.path()));
            log.add(&[put("d", 2)], &sockets(), CLOCK, None).unwrap();
            assert_eq!(all(&log_dir(temp.path()))[6..], ["d@example.com tcp:[::]:5070"]);
        }
    }
}

/// Nothing can be torn before the last file: the next one is begun when all of it is on the disk.
#[test]
fn an_end_that_is_not_whole_in_another_file_is_damage() {
    let temp = TempDir::new();
    let [_, second, third] = three_large_batches(&temp);
    drop(open(&log_dir(temp.path())));
    let whole = fs::read(path(&temp, 1)).unwrap();
    for cut in (second + 1..third).step_by(97) {
        fs::write(path(&temp, 1), &whole[..usize::try_from(cut).unwrap()]).unwrap();
        let found = found(&log_dir(temp.path()));
        assert_eq!(found.files[0].damage.map(|damage| damage.at), Some(second), "cut at {cut}");
        assert_eq!(found.files[0].torn, 0);
        // Frames that are whole are kept.
        let frames = (cut - second).saturating_sub(60) / 4_300;
        assert!(found.index.len() as u64 >= 180 + frames * 20, "cut at {cut}: {}", found.index.len());
    }
}

/// A file is full only when all of it is on the disk, what a failed batch left taken back.
#[test]
fn the_next_file_waits_for_the_disk() {
    let temp = TempDir::new();
    let mut log = open(&log_dir(temp.path()));
    log.add(&[put("a", 1)], &sockets(), CLOCK, None).unwrap();
    faults::set(&path(&temp, 1), Faults { write: Some((33, libc::EIO)), ..Faults::default() });
    log.add(&[put("b", 1)], &sockets(), CLOCK, None).unwrap_err();
    faults::set(&path(&temp, 1), Faults { sync: Some(libc::EIO), ..Faults::default() });
    log.append(&[put("late", 1)], &sockets(), CLOCK, None).unwrap();
    let length = log.length();
    log.next_file().unwrap_err();
    assert_eq!((numbers(&temp), log.path()), (vec![1], &*path(&temp, 1)));
    faults::clear(&path(&temp, 1));
    log.next_file().unwrap();
    assert_eq!(fs::metadata(path(&temp, 1)).unwrap().len(), length);
    // One that cannot be made leaves nothing behind, and the old one goes on.
    faults::set(&path(&temp, 3), Faults { write: Some((20, libc::ENOSPC)), ..Faults::default() });
    assert_eq!(log.next_file().unwrap_err().kind, Kind::Full);
    assert_eq!((numbers(&temp), log.path()), (vec![1, 2], &*path(&temp, 2)));
    log.add(&[put("c", 1)], &sockets(), CLOCK, None).unwrap();
    faults::clear(&path(&temp, 3));
    log.next_file().unwrap();
    let all: Vec<String> = all(&log_dir(temp.path())).iter().map(|text| text[..2].to_owned()).collect();
    assert_eq!(all, ["a@", "c@", "la"]);
}

/// A process that was killed may leave what the system has and the disk has not.
#[test]
fn what_a_start_reads_is_brought_to_the_disk() {
    let temp = TempDir::new();
    three_batches(&temp);
    drop(open(&log_dir(temp.path())));
    for number in [1, 2] {
        faults::set(&path(&temp, number), Faults { sync: Some(libc::EIO), ..Faults::default() });
        let error = found(&log_dir(temp.path())).settle(&log_dir(temp.path())).unwrap_err();
        assert_eq!(error.path, path(&temp, number));
        faults::clear(&path(&temp, number));
    }
    found(&log_dir(temp.path())).settle(&log_dir(temp.path())).unwrap();
}

/// Whatever byte of a batch that was whole is bad, it is told from a torn end, and at most the frame that
/// it hits, or the frames after it, are lost.
#[test]
fn damage_in_the_middle_is_named_and_the_rest_is_read() {
    let temp = TempDir::new();
    let ends = three_large_batches(&temp);
    let whole = fs::read(path(&temp, 1)).unwrap();
    let mut saved = Vec::new();
    for at in (ends[0]..ends[0] + 100).chain((ends[0]..ends[1]).step_by(37)).chain([ends[1] - 1]) {
        let mut bytes = whole.clone();
        bytes[usize::try_from(at).unwrap()] ^= 0x10;
        fs::write(path(&temp, 1), &bytes).unwrap();
        let found = found(&log_dir(temp.path()));
        let damage = found.files[0].damage.unwrap();
        assert_eq!((damage.at, damage.bytes), (ends[0], ends[1] - ends[0]), "byte {at}");
        assert_eq!(found.files[0].torn, 0);
        assert!((180..=270).contains(&found.index.len()), "byte {at}");
        // With its first bytes bad, nothing of a batch is lost.
        assert!(at >= ends[0] + HEAD as u64 || found.index.len() == 270, "byte {at}");
        saved.push(found.index.len() - 180);
    }
    // Cut short instead, a batch of several frames counts as a whole.
    for cut in (ends[1]..ends[2]).step_by(97) {
        fs::write(path(&temp, 1), &whole[..usize::try_from(cut).unwrap()]).unwrap();
        let found = found(&log_dir(temp.path()));
        let whole = found.files[0].damage.is_none() && found.files[0].at == ends[1];
        assert!(whole && found.index.len() == 180, "cut at {cut}");
    }
    assert!(saved.iter().filter(|saved| **saved > 40).count() > saved.len() / 2, "{saved:?}");
}

#[test]
fn a_last_batch_with_bad_first_bytes_is_there() {
    let temp = TempDir::new();
    let [_, second, _] = three_batches(&temp);
    let whole = fs::read(path(&temp, 1)).unwrap();
    for at in 0..HEAD {
        let mut bytes = whole.clone();
        bytes[usize::try_from(second).unwrap() + at] ^= 0x10;
        fs::write(path(&temp, 1), &bytes).unwrap();
        let found = found(&log_dir(temp.path()));
        assert_eq!((found.index.len(), found.files[0].torn), (9, 0), "byte {at}");
        assert_eq!(found.files[0].damage.map(|damage| damage.at), Some(second));
    }
}

/// What the disk says that it cannot read was there once, in the last batch too.
#[test]
fn what_cannot_be_read_is_damage() {
    let temp = TempDir::new();
    let [first, second, third] = three_large_batches(&temp);
    for (batch, end) in [(first, second), (second, third)] {
        let bad = batch + 5_000..batch + 5_001;
        faults::set(&path(&temp, 1), Faults { unreadable: bad, ..Faults::default() });
        let found = found(&log_dir(temp.path()));
        let damage = found.files[0].damage.unwrap();
        assert_eq!((damage.at, damage.bytes, found.files[0].torn), (batch, end - batch, 0));
        let places = found.index.in_order_of_file(0);
        assert!((180..270).contains(&places.len()), "{}", places.len());
        // Read when it is too late, a record is nothing.
        let any = places.first().unwrap();
        faults::set(&path(&temp, 1), Faults { unreadable: any.at..any.at + 1, ..Faults::default() });
        assert_eq!(Entry::decode(0, found.files[0].record(*any, &mut Window::default()).unwrap()), None);
    }
    faults::set(&path(&temp, 1), Faults { unreadable: 3..4, ..Faults::default() });
    let error = Found::read(&log_dir(temp.path()), [1; 16]).map(|_| ()).unwrap_err();
    assert!(error.kind == Kind::Corrupt && error.to_string().contains("location.1.log"), "{error}");
    faults::clear(&path(&temp, 1));
}

/// A phone may write what it likes into its Contact.
#[test]
fn a_batch_inside_a_record_is_none() {
    let temp = TempDir::new();
    let mut log = open(&log_dir(temp.path()));
    let fake = Header { salt: [0; 16], base: 0, version: VERSION };
    let mut contact = Vec::new();
    for offset in 0..400 {
        contact.extend_from_slice(&fake.head(offset, Head { length: 8, synced: 0 }));
        contact.extend_from_slice(&[0; 8]);
    }
    let mut evil = record("evil", "sip:x", Time::from_secs(650));
    evil.contact = contact.into();
    log.add(&[put("a", 1)], &sockets(), CLOCK, None).unwrap();
    let good = log.length();
    log.add(&[Change::Put(evil)], &sockets(), CLOCK, None).unwrap();
    let bytes = fs::read(path(&temp, 1)).unwrap();
    fs::write(path(&temp, 1), &bytes[..bytes.len() - 1]).unwrap();
    let found = found(&log_dir(temp.path()));
    assert!(found.files[0].damage.is_none() && found.files[0].at == good && found.index.len() == 1);
}

#[test]
fn what_a_failed_batch_left_is_taken_back() {
    for (fault, kind) in [
        (Faults { write: Some((3_000, libc::ENOSPC)), ..Faults::default() }, Kind::Full),
        (Faults { write: Some((50, libc::EIO)), ..Faults::default() }, Kind::System),
    ] {
        let temp = TempDir::new();
        let mut log = open(&log_dir(temp.path()));
        log.add(&[put("a", 1)], &sockets(), CLOCK, Some(3)).unwrap();
        let length = log.length();
        faults::set(&path(&temp, 1), fault);
        let many: Vec<Change> = (0..60).map(|user| put(&format!("b{user}"), 2)).collect();
        let error = log.add(&many, &sockets(), CLOCK, Some(7)).unwrap_err();
        assert_eq!((error.kind, log.seen()), (kind, 3));
        assert_eq!(fs::metadata(path(&temp, 1)).unwrap().len(), length);
        faults::clear(&path(&temp, 1));
        log.add(&[put("c", 2)], &sockets(), CLOCK, None).unwrap();
        assert_eq!(
            all(&log_dir(temp.path())),
            ["a@example.com tcp:0.0.0.0:5060", "c@example.com tcp:[::]:5070"]
        );
        assert_eq!(fs::metadata(path(&temp, 1)).unwrap().len(), log.length());
        assert_eq!(found(&log_dir(temp.path())).seen(), Some(3));
    }
}

/// The system forgets what it could not bring to the disk; memory has it.
#[test]
fn what_may_not_have_reached_the_disk_is_written_again() {
    let temp = TempDir::new();
    let mut log = open(&log_dir(temp.path()));
    log.add(&[put("a", 1)], &sockets(), CLOCK, None).unwrap();
    let synced = log.length();
    faults::set(&path(&temp, 1), Faults { sync: Some(libc::EIO), ..Faults::default() });
    log.append(&[put("b", 1)], &sockets(), CLOCK, Some(7)).unwrap();
    assert_eq!(log.sync().unwrap_err().kind, Kind::System);
    log.append(&[put("c", 1)], &sockets(), CLOCK, None).unwrap();
    log.sync().unwrap_err();
    fs::OpenOptions::new().write(true).open(path(&temp, 1)).unwrap().set_len(synced).unwrap();
    faults::clear(&path(&temp, 1));
    assert_eq!((log.sync().unwrap(), log.sync().unwrap(), log.unsynced()), (2, 0, 0));
    assert_eq!((all(&log_dir(temp.path())).len(), found(&log_dir(temp.path())).seen()), (3, Some(7)));
    assert_eq!(found(&log_dir(temp.path())).files[0].torn, 0);
}

/// What a power cut leaves of batches that were written and not brought to the disk: any pages of them. What
/// is left is what was there at some moment after the last time that all was on the disk.
#[test]
fn any_pages_lost_in_a_power_cut_leave_some_moment() {
    let temp = TempDir::new();
    let mut log = open(&log_dir(temp.path()));
    let mut ends = Vec::new();
    for batch in 0..60 {
        let changes: Vec<Change> = (0..3).map(|user| put(&format!("{batch:02}{user}"), 1)).collect();
        log.append(&changes, &sockets(), CLOCK, None).unwrap();
        if batch == 19 {
            log.sync().unwrap();
        }
        ends.push(log.length());
    }
    let (synced, whole) = (ends[19], fs::read(path(&temp, 1)).unwrap());
    let pages = whole.len().div_ceil(4_096);
    for lost in 0..1_u32 << pages.min(8) {
        for cut in [false, true] {
            let mut bytes = whole.clone();
            for (number, page) in bytes.chunks_mut(4_096).enumerate() {
                let from = usize::try_from(synced).unwrap().saturating_sub(number * 4_096).min(page.len());
                if lost >> (number % 8) & 1 == 1 {
                    page[from..].fill(0);
                }
            }
            if cut {
                bytes.truncate(whole.len() - 100);
            }
            fs::write(path(&temp, 1), &bytes).unwrap();
            let mut found = found(&log_dir(temp.path()));
            let file = &found.files[0];
            assert_eq!(file.damage, None, "{lost:b} {cut}");
            let batches = ends.iter().take_while(|end| **end <= file.at).count();
            assert!(batches >= 20 && (batches == 60 || ends[batches - 1] == file.at), "{lost:b} {cut}");
            assert_eq!(found.index.len(), batches * 3);
            found.settle(&log_dir(temp.path())).unwrap();
        }
    }
    // What is on the disk by the word of a later batch was whole once.
    fs::write(path(&temp, 1), &whole).unwrap();
    log.sync().unwrap();
    log.append(&[put("later", 1)], &sockets(), CLOCK, None).unwrap();
    let mut bytes = fs::read(path(&temp, 1)).unwrap();
    bytes[usize::try_from(ends[40]).unwrap() + 60] ^= 1;
    fs::write(path(&temp, 1), &bytes).unwrap();
    let damage = found(&log_dir(temp.path())).files[0].damage.unwrap();
    assert_eq!((damage.at, damage.bytes), (ends[40], ends[41] - ends[40]));
}

/// A process that ends has nothing to bring to the disk: the system has it all.
#[test]
fn what_was_appended_outlives_the_process() {
    let temp = TempDir::new();
    let mut log = open(&log_dir(temp.path()));
    log.append(&[put("a", 1), put("b", 1)], &sockets(), CLOCK, Some(5)).unwrap();
    faults::set(&path(&temp, 1), Faults { write: Some((9, libc::ENOSPC)), ..Faults::default() });
    log.append(&[put("c", 1)], &sockets(), CLOCK, Some(6)).unwrap_err();
    faults::clear(&path(&temp, 1));
    drop(log);
    let found = found(&log_dir(temp.path()));
    assert_eq!((found.index.len(), found.seen(), found.files[0].torn), (2, Some(5), 0));
}

/// As a version before this one wrote it.
#[test]
fn a_file_of_version_1_is_read() {
    let temp = TempDir::new();
    let header = Header { salt: [8; 16], base: CLOCK.wall_seconds(), version: 1 };
    let mut bytes = header.encode().to_vec();
    let mut ends = Vec::new();
    for user in ["a", "b"] {
        let (Change::Put(record), mut frames) = (put(user, 1), Vec::new()) else { unreachable!() };
        let mut out = Frames::new(&header, &mut frames);
        out.push(&Entry::Put(Put::new(&record, 0, CLOCK)));
        out.close();
        let (offset, length) = (bytes.len() as u64, frames.len() as u64);
        let mut mark = siphasher::sip::SipHasher13::new_with_key(&header.salt);
        std::hash::Hasher::write_u64(&mut mark, offset);
        std::hash::Hasher::write_u64(&mut mark, length);
        bytes.extend_from_slice(b"StwgBat\n");
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&std::hash::Hasher::finish(&mark).to_le_bytes());
        bytes.extend_from_slice(&frames);
        ends.push(bytes.len());
    }
    fs::write(path(&temp, 1), &bytes).unwrap();
    let found_all = found(&log_dir(temp.path()));
    assert_eq!((found_all.index.len(), found_all.files[0].damage, found_all.files[0].torn), (2, None, 0));
    // Each batch was on the disk before the next one.
    bytes[ends[0] - 3] ^= 1;
    fs::write(path(&temp, 1), &bytes).unwrap();
    assert!(found(&log_dir(temp.path())).files[0].damage.is_some());
    bytes.truncate(ends[1] - 1);
    bytes[ends[0] - 3] ^= 1;
    fs::write(path(&temp, 1), &bytes).unwrap();
    let torn = found(&log_dir(temp.path()));
    assert_eq!((torn.index.len(), torn.files[0].at), (1, ends[0] as u64));
}

#[test]
fn a_log_taken_away_is_noticed() {
    let temp = TempDir::new();
    let mut log = open(&log_dir(temp.path()));
    log.add(&[put("a", 1)], &sockets(), CLOCK, None).unwrap();
    fs::rename(path(&temp, 1), temp.path().join("aside")).unwrap();
    assert_eq!(log.check_identity().unwrap_err().kind, Kind::Missing);
    fs::copy(temp.path().join("aside"), path(&temp, 1)).unwrap();
    assert!(log.check_identity().unwrap_err().to_string().contains("replaced"));
    fs::rename(temp.path().join("aside"), path(&temp, 1)).unwrap();
    log.check_identity().unwrap();
}

/// Deleting what an attempt before has deleted is done; a damaged file is kept.
#[test]
fn disposing_twice_is_done() {
    let temp = TempDir::new();
    three_batches(&temp);
    faults::set(temp.path(), Faults { sync: Some(libc::EIO), ..Faults::default() });
    dispose(&log_dir(temp.path()), &path(&temp, 1), false).unwrap_err();
    faults::clear(temp.path());
    assert!(!path(&temp, 1).exists());
    dispose(&log_dir(temp.path()), &path(&temp, 1), false).unwrap();
    dispose(&log_dir(temp.path()), &path(&temp, 1), true).unwrap();
    three_batches(&temp);
    dispose(&log_dir(temp.path()), &path(&temp, 1), true).unwrap();
    assert!(temp.path().join(DAMAGED).exists() && numbers(&temp).is_empty());
}
