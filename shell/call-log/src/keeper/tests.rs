#![allow(clippy::disallowed_methods, reason = "what a thread of its own does is waited for")]

use super::*;
use crate::line::Format;
use crate::output::Rotation;
use call_records::{Answered, Began, Namer, Party};
use std::collections::BTreeSet;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_micros()).expect("a time")
}

fn options(folder: &Path, workers: u16) -> Options {
    let limits =
        Limits { calls: 100_000, setup: Duration::from_secs(300), session: Some(Duration::from_secs(3_600)) };
    Options {
        folder: folder.join("records"),
        workers,
        file: Some(FileOptions {
            path: folder.join("calls.jsonl"),
            format: Format::Json,
            rotate_at: 0,
            rotation: Rotation::Renamed(1),
        }),
        http: None,
        limits,
        ring_bytes: 1 << 20,
        clock: now,
        on_thread: || {},
    }
}

fn name(number: u32) -> CallName {
    Namer::new([9; 16]).name(&number.to_le_bytes(), b"t")
}

fn begin(teller: &mut Teller, number: u32) {
    let call_id = format!("call{number}");
    let began = Began {
        call_id: call_id.as_bytes(),
        from: b"sip:ann@example.com",
        caller_tag: b"t",
        to: b"sip:bob@example.com",
        request_uri: b"sip:bob@example.com",
        asserted: b"",
        user: b"",
        trunk: b"",
        source: ([192, 0, 2, 1], 5060).into(),
        transport: b"UDP",
    };
    teller.tell(name(number), What::Began(began));
}

fn answer(teller: &mut Teller, number: u32) {
    let (tag, target) = (b"b", b"sip:bob@192.0.2.2");
    let answered = Answered { status: 200, dialog: 1, callee_tag: tag, target, trunk: b"", codec: b"" };
    teller.tell(name(number), What::Answered(answered));
}

fn end(teller: &mut Teller, number: u32) {
    teller.tell(name(number), What::Ended(Party::Caller, 1));
}

/// The Call-IDs in the file, in order.
fn written(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("calls.jsonl")).unwrap_or_default();
    let value = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    text.lines().map(|line| value(line)["call_id"].as_str().expect("a text").to_owned()).collect()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What a process that is killed now leaves. No event is reported meanwhile, but the keeper goes on: so what
/// is written later is copied later.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("records")).expect("a folder");
    let mut names =
        vec!["records/delivered".to_owned(), "calls.jsonl".to_owned(), "records/ring.0".to_owned()];
    let events = fs::read_dir(from.join("records")).expect("a folder").flatten();
    let events = events.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.extend(events.filter(|name| name.starts_with("events.")).map(|name| format!("records/{name}")));
    for name in names {
        // The first of these is not there from the beginning.
        let _ = fs::copy(from.join(&name), to.join(&name));
    }
}

#[test]
fn calls_are_written_when_they_are_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, mut tellers) = CallLog::start(&options(folder.path(), 2)).expect("it starts");
    begin(&mut tellers[0], 1);
    begin(&mut tellers[1], 2);
    answer(&mut tellers[0], 1);
    end(&mut tellers[0], 1);
    until("a record", || log.counts().records() == 1);
    assert_eq!((written(folder.path()), log.counts().open()), (vec!["call1".to_owned()], 1));
    log.close();
    // The other call goes on in the next process, of one worker.
    let (log, mut tellers) = CallLog::start(&options(folder.path(), 1)).expect("it starts");
    tellers[0].tell(name(2), What::Failed(486, Party::Callee));
    log.close();
    assert_eq!(written(folder.path()), ["call1", "call2"]);
    assert!(!folder.path().join("records/ring.1").exists(), "the ring of a worker that there is no more");
}

#[test]
fn each_call_has_one_record_whenever_the_process_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, mut tellers) = CallLog::start(&options(folder.path(), 1)).expect("it starts");
    let teller = &mut tellers[0];
    let mut copies = Vec::new();
    for number in 0..2_000 {
        begin(teller, number);
        answer(teller, number);
        if number >= 100 {
            end(teller, number - 100);
        }
        if number % 200 == 150 {
            let killed = tempfile::tempdir().expect("a folder");
            copy(folder.path(), killed.path());
            copies.push((number, killed));
            thread::sleep(Duration::from_millis(7));
        }
    }
    log.close();
    for (number, killed) in copies {
        let (log, mut tellers) = CallLog::start(&options(killed.path(), 1)).expect("it starts");
        for open in number.saturating_sub(99)..=number {
            end(&mut tellers[0], open);
        }
        log.close();
        let all = written(killed.path());
        let once: BTreeSet<&String> = all.iter().collect();
        assert_eq!((all.len(), once.len()), (number as usize + 1, number as usize + 1), "killed at {number}");
    }
}

#[test]
fn full_ring_loses_events_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { ring_bytes: 2_000, ..options(folder.path(), 1) };
    let (log, mut tellers) = CallLog::start(&options).expect("it starts");
    for number in 0..50 {
        begin(&mut tellers[0], number);
    }
    assert!(log.counts().lost() > 0);
    log.close();
}

#[test]
fn records_wait_while_the_file_cannot_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), 1);
    let path = folder.path().join("calls.jsonl");
    let (log, mut tellers) = CallLog::start(&options).expect("it starts");
    fs::remove_file(&path).expect("it goes");
    fs::create_dir(&path).expect("a folder in its place");
    begin(&mut tellers[0], 1);
    tellers[0].tell(name(1), What::Failed(404, Party::Server));
    until("a failure", || log.counts().failures() > 0);
    until("a backlog", || log.counts().backlog() > 0);
    // Also over a restart.
    log.close();
    fs::remove_dir(&path).expect("it goes");
    let (log, _tellers) = CallLog::start(&options).expect("it starts");
    until("a record", || log.counts().records() == 1);
    log.close();
    assert_eq!(written(folder.path()), ["call1"]);
}

#[test]
fn place_that_cannot_be_used_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(folder.path(), 1);
    options.file.as_mut().expect("a file").path = folder.path().join("missing/calls.jsonl");
    let error = CallLog::start(&options).expect_err("no folder").to_string();
    assert!(error.contains("missing/calls.jsonl"), "{error}");
}
