//! Tests of the files of the log: what a crash or a bad disk leaves of them.

use wire::{ListenerId, Time};

use super::scan::Window;
use super::*;
use crate::location::row::tests::record;
use crate::testing::TempDir;

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

fn found(dir: &Path) -> Found {
    Found::read(dir, [1; 16]).unwrap()
}

fn open(dir: &Path) -> Log {
    Log::resume(dir, found(dir).files, CLOCK).unwrap()
}

/// The latest about each binding: its user and the listener's name, or `gone`.
fn all(dir: &Path) -> Vec<String> {
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
    temp.path().join(format!("location.{number}.log"))
}

/// Three batches of three bindings each; answers where each of them ends.
fn three_batches(temp: &TempDir) -> [u64; 3] {
    let mut log = open(temp.path());
    ["a", "b", "c"].map(|batch| {
        let changes = ["1", "2", "3"].map(|user| put(&format!("{batch}{user}"), 1));
        log.append(&changes, &sockets(), CLOCK, 4).unwrap();
        log.length()
    })
}

#[test]
fn files_are_read_in_their_order_and_the_later_word_counts() {
    let temp = TempDir::new();
    let mut log = open(temp.path());
    log.append(&[put("a", 0), put("b", 1), put("c", 2)], &sockets(), CLOCK, 7).unwrap();
    log.rotate(CLOCK).unwrap();
    log.append(&[delete("a"), put("b", 2)], &sockets(), CLOCK, 8).unwrap();
    let expected = ["a@example.com gone", "b@example.com tcp:[::]:5070", "c@example.com tcp:[::]:5070"];
    assert_eq!(all(temp.path()), expected);
    assert_eq!(found(temp.path()).seen(), Some(8));
    drop(log);
    // The same file goes on, with its own names, under listeners in another order.
    let mut log = open(temp.path());
    assert_eq!((log.path(), log.sealed().len()), (&*path(&temp, 2), 1));
    let other: Vec<String> = sockets().into_iter().rev().collect();
    log.append(&[put("d", 0), put("e", 2)], &other, CLOCK, 9).unwrap();
    assert_eq!(all(temp.path())[3..], ["d@example.com tcp:[::]:5070", "e@example.com udp:0.0.0.0:5060"]);
    assert_eq!(found(temp.path()).seen(), Some(9));
}

#[test]
fn a_directory_without_a_log_gets_an_empty_one_that_goes_away() {
    let temp = TempDir::new();
    assert_eq!(found(temp.path()).seen(), None);
    let log = open(temp.path());
    assert!(log.is_empty());
    log.check_identity().unwrap();
    assert_eq!(found(temp.path()).seen(), None, "nothing in it");
    log.finish().unwrap();
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn a_log_of_a_newer_version_is_refused_by_name_with_a_mend() {
    let temp = TempDir::new();
    three_batches(&temp);
    let mut bytes = fs::read(path(&temp, 1)).unwrap();
    bytes[8] = 2;
    fs::write(path(&temp, 1), &bytes).unwrap();
    let error = Found::read(temp.path(), [1; 16]).map(|_| ()).unwrap_err();
    assert_eq!(error.kind, Kind::Version);
    let text = error.to_string();
    assert!(text.contains("location.1.log: is a log of version 2") && text.contains("newer"), "{text}");
    assert_eq!(fs::read(path(&temp, 1)).unwrap(), bytes, "left alone");
}

#[test]
fn a_file_that_is_no_log_and_a_damaged_header_are_refused() {
    let temp = TempDir::new();
    let text = |temp: &TempDir| Found::read(temp.path(), [1; 16]).map(|_| ()).unwrap_err().to_string();
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
fn a_file_that_a_crash_hit_while_it_was_made_is_made_again() {
    for left in [0, 1, HEADER - 1, HEADER] {
        let temp = TempDir::new();
        three_batches(&temp);
        fs::write(path(&temp, 2), vec![0; left]).unwrap();
        let log = open(temp.path());
        assert_eq!(log.path(), path(&temp, 1));
        assert!(!path(&temp, 2).exists());
        assert_eq!(all(temp.path()).len(), 9);
    }
}

/// Whatever the last batch was cut to, those before are there and the next one finds its place.
#[test]
fn a_torn_end_is_cut_off_at_every_byte() {
    let temp = TempDir::new();
    let [_, second, third] = three_batches(&temp);
    let whole = fs::read(path(&temp, 1)).unwrap();
    for cut in second..third {
        let cut = usize::try_from(cut).unwrap();
        for filled in [false, true] {
            let mut bytes = whole[..cut].to_vec();
            if filled {
                // Other bytes than those that are missing.
                bytes.extend(whole[cut..].iter().map(|byte| byte ^ 0x55));
            }
            fs::write(path(&temp, 1), &bytes).unwrap();
            let found = found(temp.path());
            assert!(!found.damaged(), "cut at {cut}");
            assert_eq!((found.files[0].at, found.index.len()), (second, 6));
            assert_eq!(found.files[0].torn, bytes.len() as u64 - second);
            let mut log = Log::resume(temp.path(), found.files, CLOCK).unwrap();
            assert_eq!(log.length(), second);
            log.append(&[put("d", 2)], &sockets(), CLOCK, 4).unwrap();
            assert_eq!(all(temp.path())[6..], ["d@example.com tcp:[::]:5070"]);
        }
    }
}

/// Whatever byte of a batch that was whole is bad, it is told from a torn end, and at most the frame that
/// it hits, or a whole batch, is lost.
#[test]
fn damage_in_the_middle_is_named_and_the_rest_is_read() {
    let temp = TempDir::new();
    let mut log = open(temp.path());
    let mut ends = Vec::new();
    for batch in ["a", "b", "c"] {
        let changes: Vec<Change> = (0..90).map(|user| put(&format!("{batch}{user}"), 1)).collect();
        log.append(&changes, &sockets(), CLOCK, 4).unwrap();
        ends.push(log.length());
    }
    let whole = fs::read(path(&temp, 1)).unwrap();
    let mut saved = Vec::new();
    for at in (ends[0]..ends[0] + 100).chain((ends[0]..ends[1]).step_by(37)).chain([ends[1] - 1]) {
        let mut bytes = whole.clone();
        bytes[usize::try_from(at).unwrap()] ^= 0x10;
        fs::write(path(&temp, 1), &bytes).unwrap();
        let found = found(temp.path());
        let damage = found.files[0].damage.unwrap();
        assert_eq!((damage.at, damage.bytes), (ends[0], ends[1] - ends[0]), "byte {at}");
        assert_eq!(found.files[0].torn, 0);
        assert!((180..270).contains(&found.index.len()), "byte {at}");
        saved.push(found.index.len() - 180);
    }
    // Cut short instead, a batch of several frames counts as a whole.
    for cut in (ends[1]..ends[2]).step_by(97) {
        fs::write(path(&temp, 1), &whole[..usize::try_from(cut).unwrap()]).unwrap();
        let found = found(temp.path());
        assert!(!found.damaged() && found.index.len() == 180 && found.files[0].at == ends[1], "cut at {cut}");
    }
    assert!(saved.iter().filter(|saved| **saved > 40).count() > saved.len() / 2, "{saved:?}");
}

/// A phone may write what it likes into its Contact.
#[test]
fn a_batch_inside_a_record_is_none() {
    let temp = TempDir::new();
    let mut log = open(temp.path());
    let fake = Header { salt: [0; 16], base: 0 };
    let mut contact = Vec::new();
    for offset in 0..400 {
        contact.extend_from_slice(&fake.head(offset, 8));
        contact.extend_from_slice(&[0; 8]);
    }
    let mut evil = record("evil", "sip:x", Time::from_secs(650));
    evil.contact = contact.into();
    log.append(&[put("a", 1)], &sockets(), CLOCK, 0).unwrap();
    let good = log.length();
    log.append(&[Change::Put(evil)], &sockets(), CLOCK, 0).unwrap();
    let bytes = fs::read(path(&temp, 1)).unwrap();
    fs::write(path(&temp, 1), &bytes[..bytes.len() - 1]).unwrap();
    let found = found(temp.path());
    assert!(!found.damaged() && found.files[0].at == good && found.index.len() == 1);
}

#[test]
fn what_a_failed_batch_left_is_taken_back() {
    let temp = TempDir::new();
    let mut log = open(temp.path());
    log.append(&[put("a", 1)], &sockets(), CLOCK, 0).unwrap();
    let length = log.length();
    let file = log.divert(Path::new("/dev/full"));
    let error = log.append(&[put("b", 2)], &sockets(), CLOCK, 0).unwrap_err();
    assert_eq!(error.kind, Kind::Full);
    // Part of it had got to the file.
    let mut bytes = fs::read(path(&temp, 1)).unwrap();
    bytes.extend([0x5a; 3_000]);
    fs::write(path(&temp, 1), bytes).unwrap();
    log.repair(file);
    assert_eq!(log.length(), length);
    log.append(&[put("c", 2)], &sockets(), CLOCK, 0).unwrap();
    assert_eq!(all(temp.path()), ["a@example.com tcp:0.0.0.0:5060", "c@example.com tcp:[::]:5070"]);
    assert_eq!(fs::metadata(path(&temp, 1)).unwrap().len(), log.length());
}

#[test]
fn a_log_taken_away_is_noticed() {
    let temp = TempDir::new();
    let mut log = open(temp.path());
    log.append(&[put("a", 1)], &sockets(), CLOCK, 0).unwrap();
    fs::rename(path(&temp, 1), temp.path().join("aside")).unwrap();
    assert_eq!(log.check_identity().unwrap_err().kind, Kind::Missing);
    fs::copy(temp.path().join("aside"), path(&temp, 1)).unwrap();
    assert!(log.check_identity().unwrap_err().to_string().contains("replaced"));
    fs::rename(temp.path().join("aside"), path(&temp, 1)).unwrap();
    log.check_identity().unwrap();
}
