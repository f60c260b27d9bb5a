//! Files that are tables, and files that are not.

use super::*;
use number_routes::Digits;
use proptest::prelude::*;
use std::io::Cursor;

fn trunks() -> Vec<Vec<u8>> {
    [&b"carrier"[..], b"backup", b"a, b"].map(<[u8]>::to_vec).to_vec()
}

fn parsed(text: &[u8]) -> Result<RouteTable, Vec<String>> {
    table_of(Cursor::new(text), "routes.csv", trunks()).map_err(|error| match error {
        Error::File(error) => vec![error.to_string()],
        Error::Rows(findings) => findings.iter().map(ConfigError::to_string).collect(),
    })
}

fn ways(table: &RouteTable, number: &str) -> Vec<(u16, u16, u32, u32)> {
    let found = table.find(Digits::dialled(number.as_bytes()));
    found.iter().flat_map(|f| f.ways).map(|way| (way.trunk, way.priority, way.cost, way.line)).collect()
}

#[test]
fn table_is_read_whatever_wrote_the_file() {
    let plain = "prefix,trunk,priority,cost\n# comment\n\n+4930,carrier,20,0.5\n+4930,backup,10,\n\"#31#\",\"a, b\",,1\n";
    let reordered = "\u{feff}Cost , TRUNK,\"prefix\",priority\r\n0.5,carrier,+4930,20\r\n  # x\r\n\r\n,backup,+4930,10\r\n1,\"a, b\",#31#,";
    for text in [plain, reordered] {
        let table = parsed(text.as_bytes()).unwrap();
        assert_eq!((table.rows(), table.prefixes()), (3, 2), "{text}");
        let found = ways(&table, "+4930123");
        assert_eq!(
            found.iter().map(|way| (way.0, way.1, way.2)).collect::<Vec<_>>(),
            [(1, 10, 0), (0, 20, 500_000)]
        );
        assert_eq!(ways(&table, "%2331%23030").iter().map(|way| way.0).collect::<Vec<_>>(), [2]);
    }
    assert_eq!(ways(&parsed(plain.as_bytes()).unwrap(), "+4930"), [(1, 10, 0, 5), (0, 20, 500_000, 4)]);
    let short = parsed(b"prefix,trunk\n00,backup\n00,carrier\n").unwrap();
    assert_eq!(ways(&short, "0049"), [(1, 0, 0, 2), (0, 0, 0, 3)], "the order of the file");
}

#[test]
fn finding_names_line_column_and_mend() {
    for (text, wanted) in [
        ("", "routes.csv: no row: no number would have a trunk; write a header"),
        ("prefix,trunk\n", "routes.csv: no row:"),
        (
            "prefix;trunk\n1;carrier\n",
            "routes.csv:1:1: unknown column \"prefix;trunk\"; separate the columns by commas",
        ),
        ("prefix,trnk\n", "routes.csv:1:8: unknown column \"trnk\"; did you mean \"trunk\"?"),
        ("prefix,cost\n", "routes.csv:1:1: no column \"trunk\"; begin the file"),
        ("prefix,trunk,prefix\n", "routes.csv:1:14: column \"prefix\" is there twice"),
        ("+49,carrier\n", "routes.csv:1:1: unknown column \"+49\"; begin the file"),
        (
            "prefix,trunk\n+49,carier\n",
            "routes.csv:2:5: there is no trunk \"carier\"; did you mean \"carrier\"?",
        ),
        ("prefix,trunk\n+49,\n", "routes.csv:2:5: a row without a trunk"),
        ("prefix,trunk\n,carrier\n", "routes.csv:2:1: a row without a prefix; write the first digits"),
        ("prefix,trunk\n  4 9,carrier\n", "routes.csv:2:4: ' ' cannot be in a prefix; write digits"),
        ("prefix,trunk\n49\u{e9}1,carrier\n", "routes.csv:2:3: '\u{e9}' cannot be in a prefix"),
        ("prefix,trunk\n\u{e9},carrier\u{e9}\n", "routes.csv: 2 findings, nothing of the file is used"),
        ("trunk,prefix\n\"carrier\",4+\n", "routes.csv:2:12: '+' cannot be in a prefix"),
        (
            "prefix,trunk,priority\n1,carrier,high\n",
            "routes.csv:2:11: \"high\" is no priority; write a whole number",
        ),
        (
            "prefix,trunk,cost\n1,carrier,0.1234567\n",
            "routes.csv:2:11: \"0.1234567\" is no cost; write a number",
        ),
        (
            "prefix,trunk,cost\n1,carrier,0,5\n",
            "routes.csv:2:13: 3 fields expected, found 4; write a cost with a point",
        ),
        ("prefix,trunk\n1\n", "routes.csv:2:1: 2 fields expected, found 1"),
        ("prefix,trunk\n1,\"carrier\n", "routes.csv:2:3: a quote that is not closed"),
        (
            "prefix,trunk\n1,carrier\n\n1,carrier\n",
            "routes.csv:4:1: 1 has trunk \"carrier\" already, in line 2; remove one",
        ),
    ] {
        let found = parsed(text.as_bytes()).expect_err(text);
        assert!(found[0].starts_with(wanted), "{text:?}: {found:?}");
    }
}

#[test]
fn bad_rows_are_all_counted_and_the_first_are_listed() {
    let mut text = "prefix,trunk\n".to_owned();
    (0..100_000)
        .for_each(|n| text.push_str(&format!("{n},{}\n", if n % 1_000 == 7 { "nobody" } else { "carrier" })));
    let found = parsed(text.as_bytes()).unwrap_err();
    assert_eq!(found.len(), 20);
    assert_eq!(found[0], "routes.csv: 100 findings, nothing of the file is used; 81 are not shown");
    assert!(
        found[1].starts_with("routes.csv:9:3: ") && found[19].starts_with("routes.csv:18009:7: "),
        "{found:?}"
    );
    let one = text.replace("nobody", "carrier").replace("\n90007,carrier", "\n9000x,carrier");
    assert_eq!(
        parsed(one.as_bytes()).unwrap_err(),
        [
            "routes.csv:90009:5: 'x' cannot be in a prefix; write digits, * or #, and a + only in front, without blanks"
        ]
    );
}

#[test]
fn long_line_is_one_finding() {
    let long = "9".repeat(300_000);
    let text = format!("prefix,trunk\n{long}\n1,carrier\n2,{long},3\n5,nobody\n");
    let found = parsed(text.as_bytes()).unwrap_err();
    let places: Vec<&str> = found[1..].iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(places, ["routes.csv:2:1", "routes.csv:4:1", "routes.csv:5:3"], "{found:?}");
}

#[test]
fn file_is_read_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.csv");
    assert!(
        matches!(read(&path, trunks()), Err(Error::File(error)) if error.kind() == io::ErrorKind::NotFound)
    );
    assert!(matches!(read(folder.path(), trunks()), Err(Error::File(_))));
    std::fs::write(&path, "prefix,trunk\n1,carrier\n").unwrap();
    assert_eq!(read(&path, trunks()).unwrap().rows(), 1);
    File::create(&path).unwrap().set_len(LARGEST_FILE + 1).unwrap();
    assert!(
        matches!(read(&path, trunks()), Err(Error::File(error)) if error.to_string().contains("512 MiB"))
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in "[prefixtunk,\"#+0-9a\r\n \u{e9}]{0,200}", header in any::<bool>()) {
        let head = if header { "prefix,trunk\n" } else { "" };
        let _ = parsed(format!("{head}{text}").as_bytes());
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parsed(&[b"prefix,trunk,cost\n", &bytes[..]].concat());
    }
}
