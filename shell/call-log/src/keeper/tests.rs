#![allow(clippy::disallowed_methods, reason = "what a thread of its own does is waited for")]

use super::*;
use crate::line::Format;
use crate::output::Rotation;
use call_records::{Answered, Began, CallName, Ended, Failed, NO_BRANCH, Party, What};
use std::collections::BTreeSet;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_micros()).expect("a time")
}

fn options(folder: &Path, workers: u16) -> Options {
    let limits = Limits {
        calls: 100_000,
        setup: Duration::from_secs(300),
        session: Some(Duration::from_secs(3_600)),
        late: Duration::from_secs(72),
        repeated: Duration::from_secs(40),
    };
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
        clock: Sources { steady: now, wall: now, start: "a".to_owned() },
        on_thread: || {},
    }
}

fn name(number: u32) -> CallName {
    CallName::new(u128::from(number) + 1)
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
        user: b"ann@example.com",
        trunk: b"",
        source: ([192, 0, 2, 1], 5060).into(),
        transport: b"UDP",
        within: false,
    };
    teller.tell(name(number), What::Began(began));
}

/// A call of a stranger that is refused.
fn refuse(teller: &mut Teller, number: u32) {
    let call_id = format!("call{number}");
    let uri: &[u8] = b"sip:eve@example.com";
    let began = Began {
        call_id: call_id.as_bytes(),
        from: uri,
        caller_tag: b"t",
        to: uri,
        request_uri: uri,
        asserted: b"",
        user: b"",
        trunk: b"",
        source: ([192, 0, 2, 6], 5060).into(),
        transport: b"UDP",
        within: false,
    };
    teller.tell(name(number), What::Refused(began, 403));
}

fn answer(teller: &mut Teller, number: u32) {
    let (tag, target) = (b"b", b"sip:bob@192.0.2.2");
    let (dialog, branch) = (u64::from(number) + 1, NO_BRANCH);
    let answered = Answered { status: 200, dialog, branch, callee_tag: tag, target, trunk: b"", codec: b"" };
    teller.tell(name(number), What::Answered(answered));
}

fn end(teller: &mut Teller, number: u32) {
    let ended = Ended { by: Party::Caller, dialog: u64::from(number) + 1, ago: 0 };
    teller.tell(CallName::NONE, What::Ended(ended));
}

fn failed(status: u16, by: Party) -> What<'static> {
    What::Failed(Failed { status, by, late: false })
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
    names.push("records/clock".to_owned());
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
    tellers[0].tell(name(2), failed(486, Party::Callee));
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
    tellers[0].tell(name(1), failed(404, Party::Server));
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

#[test]
fn flood_of_strangers_takes_no_room_from_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { ring_bytes: 8_000, ..options(folder.path(), 1) };
    let (log, mut tellers) = CallLog::start(&options).expect("it starts");
    (100..5_100).for_each(|number| refuse(&mut tellers[0], number));
    assert_eq!(log.counts().lost(), 0);
    begin(&mut tellers[0], 1);
    tellers[0].tell(name(1), failed(486, Party::Callee));
    assert_eq!(log.counts().lost(), 0, "half of the ring is left");
    let skipped = log.counts().skipped();
    assert!(skipped >= 5_000 - 300, "{skipped}");
    log.close();
    let all = written(folder.path());
    assert_eq!(all.len() as u64, 5_001 - skipped);
    assert!(all.contains(&"call1".to_owned()));
}

#[test]
fn output_that_is_named_again_gets_new_records_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let both = options(folder.path(), 1);
    let (url, spool) = ("http://127.0.0.1:1/x".to_owned(), 1 << 20);
    let http = Options { file: None, http: Some(HttpOptions { url, token: None, spool }), ..both.clone() };
    let call = |options: &Options, number| {
        let (log, mut tellers) = CallLog::start(options).expect("it starts");
        begin(&mut tellers[0], number);
        tellers[0].tell(name(number), failed(486, Party::Callee));
        log.close();
    };
    call(&both, 1);
    call(&http, 2);
    call(&both, 3);
    call(&http, 4);
    assert_eq!(written(folder.path()), ["call1", "call3"]);
    let spooled = fs::read_to_string(folder.path().join("records/spool.1")).expect("the spool");
    assert_eq!(spooled.lines().count(), 2);
    assert!(spooled.contains("call2") && spooled.contains("call4"), "{spooled}");
}

#[test]
fn ring_that_is_made_anew_is_read_from_its_beginning() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), 1);
    let (log, mut tellers) = CallLog::start(&options).expect("it starts");
    begin(&mut tellers[0], 1);
    answer(&mut tellers[0], 1);
    log.close();
    fs::remove_file(folder.path().join("records/ring.0")).expect("it goes");
    let (log, _) = CallLog::start(&options).expect("it starts");
    log.close();
    // What a killed process has written there, and the book does not have.
    let path = folder.path().join("records/ring.0");
    let (mut writer, ..) = ring::open(&path, 1).expect("the ring");
    let what = What::Ended(Ended { by: Party::Caller, dialog: 2, ago: 0 });
    let mut bytes = Vec::new();
    let event = call_records::Event { name: CallName::NONE, at: now(), ahead: 0, what };
    call_records::frame::write(&event, &mut bytes);
    assert!(writer.append(&bytes));
    drop(writer);
    let (log, _) = CallLog::start(&options).expect("it starts");
    log.close();
    assert_eq!(written(folder.path()), ["call1"]);
}

#[test]
fn bytes_that_are_no_events_do_not_hold_up_the_next_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), 1);
    let (log, _) = CallLog::start(&options).expect("it starts");
    log.close();
    // After a power cut: a page with events is on the disk, the next one is not.
    let (mut writer, ..) = ring::open(&folder.path().join("records/ring.0"), 1).expect("the ring");
    let what = What::Ended(Ended { by: Party::Caller, dialog: 2, ago: 0 });
    let mut bytes = Vec::new();
    let event = call_records::Event { name: CallName::NONE, at: now(), ahead: 0, what };
    call_records::frame::write(&event, &mut bytes);
    bytes.extend([0; 4_096]);
    assert!(writer.append(&bytes));
    drop(writer);
    let (log, mut tellers) = CallLog::start(&options).expect("it starts");
    begin(&mut tellers[0], 1);
    answer(&mut tellers[0], 1);
    end(&mut tellers[0], 1);
    until("the call is written", || log.counts().records() == 1);
    assert!(log.counts().lost() > 0);
    log.close();
}

#[test]
fn times_of_a_call_are_those_of_a_clock_that_nobody_sets() {
    fn ahead() -> u64 {
        now() + 3_600_000_000
    }
    let folder = tempfile::tempdir().expect("a folder");
    let before = options(folder.path(), 1);
    let (log, mut tellers) = CallLog::start(&before).expect("it starts");
    begin(&mut tellers[0], 1);
    answer(&mut tellers[0], 1);
    log.close();
    // The time of the day is set.
    let clock = Sources { wall: ahead, ..before.clock.clone() };
    let (log, mut tellers) = CallLog::start(&Options { clock, ..before }).expect("it starts");
    end(&mut tellers[0], 1);
    log.close();
    let text = fs::read_to_string(folder.path().join("calls.jsonl")).expect("the file");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(value["seconds"].as_f64().is_some_and(|seconds| seconds < 600.0), "{text}");
}
