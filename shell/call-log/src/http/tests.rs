#![allow(clippy::disallowed_methods, reason = "what a thread of its own does is waited for")]

use super::*;
use crate::line::tests::record;
use crate::output::FileOutput;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// A server that answers these statuses in turn, and then 200. What it was asked: the head and the body.
fn server(statuses: Vec<u16>) -> (String, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/records", listener.local_addr().expect("an address"));
    let (told, asked) = channel();
    thread::spawn(move || {
        let mut statuses = statuses.into_iter();
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            let (mut head, mut line) = (String::new(), String::new());
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                head.push_str(&line);
                line.clear();
            }
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            stream.read_exact(&mut body).expect("a body");
            let status = statuses.next().unwrap_or(200);
            let answer = format!(
                "HTTP/1.1 {status} x\r\nContent-Length: 0\r\nLocation: /other\r\nConnection: close\r\n\r\n"
            );
            stream.get_mut().write_all(answer.as_bytes()).expect("an answer");
            if told.send((head, String::from_utf8(body).expect("text"))).is_err() {
                return;
            }
        }
    });
    (url, asked)
}

fn options(url: &str) -> HttpOptions {
    HttpOptions { url: url.to_owned(), token: Some("secret".to_owned()), spool: 1 << 20 }
}

/// The numbers of the records in a body.
fn records(body: &str) -> Vec<u64> {
    let number = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let id = value["id"].as_str().expect("an id").split('-').next().expect("a name").to_owned();
        u64::from_str_radix(&id, 16).expect("a number")
    };
    body.lines().map(number).collect()
}

fn spooled(folder: &Path, options: &HttpOptions, numbers: std::ops::Range<u64>) -> PathBuf {
    let spool = options.spool(folder);
    let mut output = FileOutput::new(spool.clone()).expect("it opens");
    numbers.for_each(|number| output.push(&record(number)));
    output.flush().expect("it is written");
    spool.path
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn records_are_sent_in_order_until_they_are_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, asked) = server(vec![500, 302, 404]);
    let options = options(&url);
    let spool = spooled(folder.path(), &options, 1..4);
    let (counts, over) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
    let poster = Poster::new(&options, spool, Arc::clone(&counts)).expect("a client");
    let told = Arc::clone(&over);
    let thread = thread::spawn(move || poster.run(&|| told.load(Ordering::Relaxed)));
    until("records are sent", || counts.sent() == 3);
    assert_eq!(counts.refused(), 3);
    spooled(folder.path(), &options, 4..5);
    until("the next one is sent", || counts.sent() == 4);
    over.store(true, Ordering::Relaxed);
    thread.join().expect("it ends");
    let all: Vec<_> = asked.try_iter().collect();
    assert_eq!(all.len(), 5);
    let head = &all[0].0.to_lowercase();
    assert!(head.starts_with("post /records ") && head.contains("authorization: bearer secret"), "{head}");
    assert!(all[..4].iter().all(|(_, body)| records(body) == [1, 2, 3]), "{all:?}");
    assert_eq!(records(&all[4].1), [4]);
}

#[test]
fn next_process_goes_on_and_files_that_were_sent_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, asked) = server(Vec::new());
    let options = HttpOptions { spool: 8_000, ..options(&url) };
    let spool = spooled(folder.path(), &options, 1..3);
    let counts = Arc::new(Counts::default());
    let mut poster = Poster::new(&options, spool.clone(), Arc::clone(&counts)).expect("a client");
    while poster.round().expect("it is sent") {}
    spooled(folder.path(), &options, 3..9);
    let mut poster = Poster::new(&options, spool.clone(), Arc::clone(&counts)).expect("a client");
    while poster.round().expect("it is sent") {}
    let all: Vec<u64> = asked.try_iter().flat_map(|(_, body)| records(&body)).collect();
    assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(numbers(&spool).len(), 1, "the one that may grow");
}

#[test]
fn server_that_is_not_there_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options("http://127.0.0.1:1/records");
    let spool = spooled(folder.path(), &options, 1..2);
    let mut poster = Poster::new(&options, spool, Arc::default()).expect("a client");
    let error = poster.round().expect_err("nobody listens");
    assert!(error.to_lowercase().contains("refused"), "{error}");
}

/// A server that answers `status` to each batch with one of these records. The records that it accepted.
fn picky(refused: &'static [u64], status: u16) -> (String, Receiver<Vec<u64>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/records", listener.local_addr().expect("an address"));
    let (told, accepted) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            let (mut length, mut line) = (0, String::new());
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().expect("a length");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("a body");
            let numbers = records(std::str::from_utf8(&body).expect("text"));
            let bad = numbers.iter().any(|number| refused.contains(number));
            let status = if bad { status } else { 200 };
            let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).expect("an answer");
            if !bad && told.send(numbers).is_err() {
                return;
            }
        }
    });
    (url, accepted)
}

#[test]
fn record_that_is_never_accepted_is_set_aside() {
    for status in [400, 413, 422] {
        let folder = tempfile::tempdir().expect("a folder");
        let (url, accepted) = picky(&[37, 64], status);
        let options = options(&url);
        let spool = spooled(folder.path(), &options, 1..100);
        let counts = Arc::new(Counts::default());
        let mut poster = Poster::new(&options, spool.clone(), Arc::clone(&counts)).expect("a client");
        while poster.round().expect("it goes on") {}
        let all: Vec<u64> = accepted.try_iter().flatten().collect();
        let right: Vec<u64> = (1..100).filter(|number| ![37, 64].contains(number)).collect();
        assert_eq!(all, right, "in order, each once");
        let aside = fs::read_to_string(spool.with_file_name("refused.jsonl")).expect("the file");
        assert_eq!(records(&aside), [37, 64]);
        assert_eq!((counts.set_aside(), counts.sent()), (2, 97));
        assert!(counts.refused() < 40, "{}", counts.refused());
    }
}

#[test]
fn server_that_refuses_everything_loses_few_records() {
    const ALL: &[u64] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
    let folder = tempfile::tempdir().expect("a folder");
    let (url, _accepted) = picky(ALL, 400);
    let options = options(&url);
    let spool = spooled(folder.path(), &options, 1..20);
    let mut poster = Poster::new(&options, spool.clone(), Arc::default()).expect("a client");
    let error = loop {
        match poster.round() {
            Ok(more) => assert!(more),
            Err(error) => break error,
        }
    };
    assert!(error.contains("400"), "{error}");
    let aside = fs::read_to_string(spool.with_file_name("refused.jsonl")).expect("the file");
    assert_eq!(records(&aside).len(), 9, "each further one takes a pause");
    // No room: what is refused waits.
    let file =
        fs::OpenOptions::new().write(true).open(spool.with_file_name("refused.jsonl")).expect("the file");
    file.set_len(ASIDE).expect("it is made longer");
    for _ in 0..3 {
        let error = poster.round().expect_err("no room");
        assert!(error.contains("refused.jsonl"), "{error}");
    }
}

#[test]
fn token_address_and_load_are_no_fault_of_a_record() {
    for status in [401, 403, 404, 405, 429, 500, 503] {
        let folder = tempfile::tempdir().expect("a folder");
        let (url, asked) = server(vec![status; 3]);
        let options = options(&url);
        let spool = spooled(folder.path(), &options, 1..9);
        let counts = Arc::new(Counts::default());
        let mut poster = Poster::new(&options, spool, Arc::clone(&counts)).expect("a client");
        for _ in 0..3 {
            let error = poster.round().expect_err("it is refused");
            assert!(error.contains(&status.to_string()), "{error}");
        }
        assert!(poster.round().expect("it is sent"));
        assert_eq!((counts.sent(), counts.set_aside()), (8, 0));
        assert!(asked.try_iter().all(|(_, body)| records(&body).len() == 8), "{status}");
    }
}

#[test]
fn spool_that_was_deleted_begins_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, asked) = server(Vec::new());
    let options = HttpOptions { spool: 8_000, ..options(&url) };
    let spool = spooled(folder.path(), &options, 1..9);
    let mut poster = Poster::new(&options, spool.clone(), Arc::default()).expect("a client");
    while poster.round().expect("it is sent") {}
    for number in numbers(&spool) {
        fs::remove_file(numbered(&spool, number)).expect("it goes");
    }
    spooled(folder.path(), &options, 20..22);
    while poster.round().expect("it is sent") {}
    let all: Vec<u64> = asked.try_iter().flat_map(|(_, body)| records(&body)).collect();
    assert_eq!(all[8..], [20, 21]);
}
