//! Tests of the import.

use std::io::Cursor;
use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use crate::testing::TempDir;

fn import_with(subscribers: &mut Subscribers, text: &[u8], options: &ImportOptions) -> Result<ImportReport> {
    subscribers.import_from(Cursor::new(text.to_vec()), Path::new("users.csv"), options, &mut |_| {})
}

fn import(subscribers: &mut Subscribers, text: &str) -> Result<ImportReport> {
    import_with(subscribers, text.as_bytes(), &ImportOptions::default())
}

fn hashes_of(subscribers: &Subscribers, wanted: &str) -> Option<Credentials> {
    let mut found = None;
    subscribers
        .list(None, |subscriber| {
            if format!("{}@{}", subscriber.username, subscriber.domain) == wanted {
                found = Some(subscriber.credentials);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

fn expected(name: &str, password: &str) -> Option<Credentials> {
    hash_password(&UserName::parse(name).unwrap(), password).ok()
}

#[test]
fn passwords_and_hashes_come_in() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    let report = import(
        &mut subscribers,
        "username,domain,password\nalice,Example.com,secret\n\"bo,b\",example.com,\"a \"\"b\"\", c\"\n",
    )
    .unwrap();
    assert_eq!((report.lines, report.written, report.bad), (2, 2, 0));
    assert!(report.domains.iter().eq(["example.com"]), "{:?}", report.domains);
    assert_eq!(hashes_of(&subscribers, "alice@example.com"), expected("alice@example.com", "secret"));
    assert_eq!(hashes_of(&subscribers, "bo,b@example.com"), expected("bo,b@example.com", "a \"b\", c"));
    let text = "username,domain,ha1\ncarol,example.com,0123456789ABCDEF0123456789abcdef\n";
    assert_eq!(import(&mut subscribers, text).unwrap().written, 1);
    let carol = hashes_of(&subscribers, "carol@example.com").unwrap();
    assert_eq!(
        carol.get(NameForm::Bare, Algorithm::Md5),
        Ha1::from_hex(Algorithm::Md5, b"0123456789abcdef0123456789abcdef")
    );
    assert_eq!(carol.get(NameForm::Full, Algorithm::Md5), None);
}

#[test]
fn a_kamailio_dump_comes_in_as_it_is() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    // As `mysql --batch` writes it: tabs, NULL for nothing, columns we do not know.
    let text = "\u{feff}id\tusername\tdomain\tpassword\tha1\tha1b\temail_address\trpid\n\
        1\talice\texample.com\tsecret\t00000000000000000000000000000000\t\t\tNULL\n\
        2\tbob\texample.com\t\tffffffffffffffffffffffffffffffff\teeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\tb@x\tNULL\n\
        3\tcarol\t\tNULL\tffffffffffffffffffffffffffffffff\tNULL\t\tNULL\n";
    let options =
        ImportOptions { default_domain: Some("example.com".to_owned()), ..ImportOptions::default() };
    let report = import_with(&mut subscribers, text.as_bytes(), &options).unwrap();
    assert_eq!((report.written, report.bad, report.disagreeing), (3, 0, 1), "{report:?}");
    assert_eq!(hashes_of(&subscribers, "alice@example.com"), expected("alice@example.com", "secret"));
    let bob = hashes_of(&subscribers, "bob@example.com").unwrap();
    assert_eq!(bob.get(NameForm::Full, Algorithm::Md5), Some(Ha1::Md5([0xee; 16])));
}

#[test]
fn tab_separated_dumps_have_no_quotes_but_escapes() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    let text = "username\tdomain\tpassword\n\
        alice\texample.com\t\"x\\\\y\n\
        bob\texample.com\ta\\tb\n";
    let options = ImportOptions { skip_bad_lines: true, ..ImportOptions::default() };
    let report = import_with(&mut subscribers, text.as_bytes(), &options).unwrap();
    assert_eq!((report.written, report.bad_lines[0].line), (1, 3));
    assert_eq!(hashes_of(&subscribers, "alice@example.com"), expected("alice@example.com", "\"x\\y"));
}

#[test]
fn every_bad_line_is_named_and_nothing_is_written() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    let text = b"username,domain,password,ha1\n\
        good,example.com,pw,\n\
        ,example.com,pw,\n\
        short,example.com\n\
        \"two\nlines\",example.com,pw,\n\
        good,EXAMPLE.com,pw,\n\
        hash,example.com,,xyz\n\
        none,example.com,,\n\
        caf\xe9,example.com,pw,\n\
        nul\0,example.com,pw,\n\
        upper,Example.com,,0123456789abcdef0123456789abcdef\n";
    let report = import_with(&mut subscribers, text, &ImportOptions::default()).unwrap();
    let lines: Vec<u64> = report.bad_lines.iter().map(|bad| bad.line).collect();
    // A record over two lines counts for two.
    assert_eq!(lines, [3, 4, 5, 7, 8, 9, 10, 11, 12], "{:?}", report.bad_lines);
    assert_eq!((report.lines, report.bad, report.written), (10, 9, 0));
    assert_eq!(subscribers.count().unwrap(), 0);
    let options = ImportOptions { skip_bad_lines: true, ..ImportOptions::default() };
    // The second `good` is written too when bad lines are skipped: it is the same user again.
    import_with(&mut subscribers, text, &options).unwrap();
    assert_eq!(subscribers.count().unwrap(), 1);
    assert_eq!(hashes_of(&subscribers, "good@example.com"), expected("good@example.com", "pw"));
}

#[test]
fn wrong_headers_say_what_is_wanted() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    for (text, problem) in [
        ("", "is empty"),
        ("alice,example.com,secret\n", "no column `username`"),
        ("username,domain\na,b\n", "neither"),
        ("username,username,password\n", "two columns"),
    ] {
        let error = import(&mut subscribers, text).unwrap_err();
        assert_eq!(error.kind, Kind::Input);
        assert!(error.problem.contains(problem), "{error}");
        assert!(error.to_string().contains("username,domain,password"), "{error}");
    }
}

#[test]
fn a_quote_that_never_closes_does_not_eat_the_memory() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    let mut text = String::from("username,domain,password\n\"");
    text.extend(std::iter::repeat_n("abcdefgh\n", 40_000));
    let error = import(&mut subscribers, &text).unwrap_err();
    assert!(error.problem.contains("64 KiB"), "{error}");
}

#[test]
fn many_lines_arrive_with_progress() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    let mut text = String::from("username;domain;ha1\n");
    for n in 0..10_000 {
        text.push_str(&format!("user{n};example.com;{n:032x}\n"));
    }
    let total = text.len() as u64;
    let mut steps = Vec::new();
    let report = subscribers
        .import_from(Cursor::new(text), Path::new("x"), &ImportOptions::default(), &mut |p| steps.push(p))
        .unwrap();
    assert_eq!((report.written, subscribers.count().unwrap()), (10_000, 10_000));
    assert_eq!(steps.last(), Some(&Progress { writing: true, bytes: total, total, lines: 10_000 }));
    assert!(steps.iter().any(|p| !p.writing && p.lines == PROGRESS_LINES && p.bytes < total));
}

#[test]
fn what_is_exported_comes_back_the_same() {
    let (from, to) = (TempDir::new(), TempDir::new());
    let mut source = Subscribers::open(from.path()).unwrap();
    source.add(&UserName::parse("alice@example.com").unwrap(), "secret").unwrap();
    source.add(&UserName::parse("b,o;'b@example.com").unwrap(), "x").unwrap();
    let mut text = Vec::new();
    assert_eq!(source.export(&mut text).unwrap(), 2);
    let mut target = Subscribers::open(to.path()).unwrap();
    assert_eq!(import_with(&mut target, &text, &ImportOptions::default()).unwrap().written, 2);
    let mut again = Vec::new();
    target.export(&mut again).unwrap();
    assert_eq!(again, text);
}

#[test]
fn a_missing_file_and_a_pipe_are_refused_by_name() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    let mut run = |path: &Path| subscribers.import(path, &ImportOptions::default(), &mut |_| {}).unwrap_err();
    assert_eq!(run(Path::new("no-such-file.csv")).kind, Kind::Missing);
    assert!(run(Path::new("/dev/null")).problem.contains("regular file"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the bytes, an import ends, and it writes all lines or none.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400), header in any::<bool>()) {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        let mut text = if header { b"username,domain,password\n".to_vec() } else { Vec::new() };
        text.extend(bytes);
        if let Ok(report) = import_with(&mut subscribers, &text, &ImportOptions::default()) {
            prop_assert_eq!(report.written, if report.bad == 0 { report.lines } else { 0 });
            prop_assert_eq!(subscribers.count().unwrap(), report.written);
        }
    }
}
