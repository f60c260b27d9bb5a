//! Tests of the import.

use std::io::Cursor;
use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use location::testing::TempDir;

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
    let options = ImportOptions {
        default_domain: Some("example.com".to_owned()),
        prefer: Some(Prefer::Password),
        ..ImportOptions::default()
    };
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

/// `SELECT ... INTO OUTFILE ... FIELDS TERMINATED BY ',' ENCLOSED BY '"'`, and without the quotation marks.
#[test]
fn escapes_of_mysql_are_read_as_it_writes_them() {
    let hashed = |name: &str, password: &str| {
        let made = expected(name, password).unwrap();
        crate::user::hash_text(&made, NameForm::Bare, Algorithm::Md5)
    };
    let (quote, back) = (hashed("quote@example.com", "p\"w"), hashed("back@example.com", "a\\b"));
    let quoted = |sep: char| {
        let line = |id: u32, user: &str, password: &str, ha1: &str| {
            format!("\"{id}\",\"{user}\",\"example.com\",\"{password}\",\"{ha1}\",\"\"\n")
                .replace(',', &sep.to_string())
        };
        let head =
            "\"id\",\"username\",\"domain\",\"password\",\"ha1\",\"ha1b\"\n".replace(',', &sep.to_string());
        [head, line(1, "quote", "p\\\"w", &quote), line(2, "back", "a\\\\b", &back)].concat()
    };
    // By its hashes; by a quotation mark in the midst; by nothing written as MySQL does.
    let bare = format!(
        "username,domain,password,ha1\nquote,example.com,p\"w,{quote}\nback,example.com,a\\\\b,{back}\n"
    );
    let midst = "username,domain,password\n\"quote\",\"example.com\",\"p\\\"w\"\n\"back\",\"example.com\",\"a\\\\b\"\n";
    let nothing = "\"username\",\"domain\",\"password\",\"x\"\n\"quote\",\"example.com\",\"p\"\"w\",\\N\n\"back\",\"example.com\",\"a\\\\b\",\\N\n";
    for text in [&quoted(','), &quoted(';'), &bare, midst, nothing] {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        let report = import(&mut subscribers, text).unwrap();
        assert_eq!((report.written, report.bad, report.disagreeing), (2, 0, 0), "{text}\n{report:?}");
        assert_eq!(
            hashes_of(&subscribers, "quote@example.com"),
            expected("quote@example.com", "p\"w"),
            "{text}"
        );
        assert_eq!(
            hashes_of(&subscribers, "back@example.com"),
            expected("back@example.com", "a\\b"),
            "{text}"
        );
    }
}

/// CSV has no escapes.
#[test]
fn a_backslash_in_plain_csv_is_a_backslash() {
    let hash = crate::user::hash_text(
        &expected("back@example.com", "a\\\\b").unwrap(),
        NameForm::Bare,
        Algorithm::Md5,
    );
    let with_hash = format!(
        "username,domain,password,ha1\n\"back\",example.com,\"a\\\\b\",{hash}\nend,example.com,\"\\\\\",\n"
    );
    let without = "username,domain,password\nback,example.com,a\\\\b\nend,example.com,\"\\\\\"\n";
    for text in [&with_hash[..], without] {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        assert_eq!(import(&mut subscribers, text).unwrap().written, 2, "{text}");
        assert_eq!(hashes_of(&subscribers, "back@example.com"), expected("back@example.com", "a\\\\b"));
        assert_eq!(hashes_of(&subscribers, "end@example.com"), expected("end@example.com", "\\\\"));
    }
}

#[test]
fn a_hash_of_another_password_waits_for_a_decision() {
    let text = "username,domain,password,ha1\n\
        good,Example.com,pw,f36a3ca1b9e7d3b5b1f2d2f3c5a0d0e1\n\
        other,example.com,pw,0123456789abcdef0123456789abcdef\n";
    let written = ha1(Algorithm::Md5, b"good", b"Example.com", b"pw");
    let mut made = Credentials::new();
    made.set(NameForm::Bare, written);
    let written = crate::user::hash_text(&made, NameForm::Bare, Algorithm::Md5);
    let text = text.replace("f36a3ca1b9e7d3b5b1f2d2f3c5a0d0e1", &written);
    let with = |prefer| {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        let options = ImportOptions { prefer, ..ImportOptions::default() };
        let report = import_with(&mut subscribers, text.as_bytes(), &options).unwrap();
        (report, hashes_of(&subscribers, "other@example.com"))
    };
    let (report, other) = with(None);
    assert_eq!((report.written, report.bad, report.bad_lines[0].line, other), (0, 1, 3, None));
    let problem = &report.bad_lines[0].problem;
    assert!(problem.contains("other@example.com") && problem.contains("--prefer ha1"), "{problem}");
    let (report, other) = with(Some(Prefer::Password));
    assert_eq!((report.written, &report.disagreed[..]), (2, &["other@example.com".to_owned()][..]));
    assert_eq!(other, expected("other@example.com", "pw"));
    let (report, other) = with(Some(Prefer::Ha1));
    assert_eq!((report.written, report.disagreeing), (2, 1));
    let hash = Ha1::from_hex(Algorithm::Md5, b"0123456789abcdef0123456789abcdef");
    assert_eq!(other.unwrap().get(NameForm::Bare, Algorithm::Md5), hash);
}

#[test]
fn semicolons_and_the_line_that_excel_puts_before_are_read() {
    for text in [
        "username;domain;password\r\nalice;example.com;se,c\r\nbob;example.com;\"x;y\"\r\n",
        "sep=;\r\nusername;domain;password\r\nalice;example.com;se,c\r\nbob;example.com;\"x;y\"\r\n",
        "\u{feff}\"SEP=;\"\nusername;domain;password\nalice;example.com;\"se,c\"\nbob;example.com;\"x;y\"\n",
    ] {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        assert_eq!(import(&mut subscribers, text).unwrap().written, 2, "{text}");
        assert_eq!(hashes_of(&subscribers, "alice@example.com"), expected("alice@example.com", "se,c"));
        assert_eq!(hashes_of(&subscribers, "bob@example.com"), expected("bob@example.com", "x;y"));
    }
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    // Lines are numbered as an editor does.
    let report = import(&mut subscribers, "sep=|\nusername|domain|password\nalice|example.com\n").unwrap();
    assert_eq!(report.bad_lines[0].line, 3);
    let utf16: Vec<u8> = "\u{feff}username\tdomain\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let error = import_with(&mut subscribers, &utf16, &ImportOptions::default()).unwrap_err();
    assert!(error.problem.contains("save it as CSV in UTF-8"), "{error}");
    let error = import(&mut subscribers, "name:domain:password\n").unwrap_err();
    assert!(error.problem.contains("which has `name:domain:password`"), "{error}");
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
    let rules = read_rules(["+49", "", "bob", "", "1 2", "25", "1"]).unwrap();
    source.set_rules(&UserName::parse("alice@example.com").unwrap(), rules).unwrap();
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
    let fifo = temp.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [Path::new("/dev/null"), &fifo] {
        let error = run(path);
        assert!(error.to_string().contains("regular file"), "{error}");
    }
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

#[test]
fn rules_come_in_with_their_columns_and_stay_without() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    let alice = UserName::parse("alice@example.com").unwrap();
    let text = "username,domain,password,forward_busy,ring_time\nalice,example.com,x,+49,25\n";
    assert_eq!(import(&mut subscribers, text).unwrap().written, 1);
    let wanted = read_rules(["", "+49", "", "", "", "25", ""]).unwrap();
    assert_eq!(subscribers.rules(&alice).unwrap(), Some(wanted.clone()));
    import(&mut subscribers, "username,domain,password\nalice,example.com,y\n").unwrap();
    assert_eq!(subscribers.rules(&alice).unwrap(), Some(wanted));
    import(&mut subscribers, "username,domain,password,forward_busy\nalice,example.com,y,\n").unwrap();
    assert_eq!(subscribers.rules(&alice).unwrap(), Some(Rules::default()));
    let report =
        import(&mut subscribers, "username,domain,password,ring_time\nalice,example.com,y,soon\n").unwrap();
    assert!(report.bad_lines[0].problem.contains("ring_time"), "{:?}", report.bad_lines);
}
