//! The table against a model that looks at every row.

use crate::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// A row of the model.
#[derive(Clone, Debug)]
struct Row {
    prefix: String,
    way: Way,
}

/// Few digits, so that prefixes begin each other and numbers begin with them.
fn digits(length: core::ops::Range<usize>) -> impl Strategy<Value = String> {
    ("[+]?", vec(prop::sample::select(vec!['0', '1', '9', '*', '#']), length))
        .prop_map(|(plus, rest)| plus + &rest.into_iter().collect::<String>())
        .prop_filter("a prefix is not empty", |text| !text.is_empty())
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    vec((digits(0..7), 0..20_u16, 0..3_u16, 0..3_u32), 0..120).prop_map(|rows| {
        let row = |(at, (prefix, trunk, priority, cost))| Row {
            prefix,
            way: Way { trunk, priority, cost, line: at as u32 + 2 },
        };
        rows.into_iter().enumerate().map(row).collect()
    })
}

fn table(rows: &[Row]) -> Result<RouteTable, Conflicts> {
    let trunks = (0..20).map(|n| format!("t{n}").into_bytes()).collect();
    let mut builder = Builder::new(trunks);
    for row in rows {
        builder.add(Digits::parse(row.prefix.as_bytes()).unwrap(), row.way).unwrap();
    }
    builder.finish(10)
}

/// Without rows that would contradict an earlier one.
fn sound(rows: Vec<Row>) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::new();
    for row in rows {
        let same = kept.iter().filter(|other| other.prefix == row.prefix);
        let (count, twice) = (same.clone().count(), same.clone().any(|o| o.way.trunk == row.way.trunk));
        if !twice && count < MAX_WAYS {
            kept.push(row);
        }
    }
    kept
}

/// The longest prefix and its ways in order, by looking at every row.
fn model(rows: &[Row], number: &str) -> Option<(String, Vec<Way>)> {
    let begins = rows.iter().filter(|row| number.starts_with(&row.prefix));
    let longest = begins.max_by_key(|row| row.prefix.len())?;
    let mut ways: Vec<Way> =
        rows.iter().filter(|row| row.prefix == longest.prefix).map(|row| row.way).collect();
    ways.sort_by_key(|way| (way.priority, way.cost));
    Some((longest.prefix.clone(), ways))
}

proptest! {
    #[test]
    fn table_finds_what_a_look_at_every_row_finds(rows in rows(), numbers in vec(digits(0..10), 1..40)) {
        let rows = sound(rows);
        let table = table(&rows).unwrap();
        prop_assert_eq!(table.rows(), rows.len());
        // Numbers at random, every prefix, and what follows each.
        let beyond = rows.iter().flat_map(|row| [row.prefix.clone(), format!("{}0", row.prefix)]);
        for number in numbers.iter().cloned().chain(beyond) {
            let found = table.find(Digits::parse(number.as_bytes()).unwrap());
            let found = found.map(|found| (found.prefix.to_string(), found.ways.to_vec()));
            prop_assert_eq!(found, model(&rows, &number), "{}", number);
        }
    }

    #[test]
    fn conflicts_are_counted_as_a_look_at_every_row_does(rows in rows()) {
        let mut count = 0;
        let mut prefixes: Vec<&str> = rows.iter().map(|row| &row.prefix[..]).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        for prefix in prefixes {
            let mut trunks: Vec<u16> =
                rows.iter().filter(|row| row.prefix == prefix).map(|row| row.way.trunk).collect();
            let all = trunks.len();
            trunks.sort_unstable();
            trunks.dedup();
            count += if all > MAX_WAYS { 1 } else { all - trunks.len() };
        }
        match table(&rows) {
            Ok(_) => prop_assert_eq!(count, 0),
            Err(found) => {
                prop_assert_eq!(found.count, count);
                prop_assert_eq!(found.listed.len(), count.min(10));
            }
        }
    }
}

#[test]
fn empty_table_finds_nothing() {
    let table = RouteTable::default();
    assert!(table.find(Digits::dialled(b"+4930")).is_none() && table.find(Digits::default()).is_none());
    assert!(table.is_empty() && table.bytes() == 0);
}

#[test]
fn conflict_names_both_lines_in_order_of_the_file() {
    let row =
        |trunk, priority, line| Row { prefix: "+49".into(), way: Way { trunk, priority, cost: 0, line } };
    let found = table(&[row(3, 2, 5), row(4, 1, 6), row(3, 1, 9)]).unwrap_err();
    let prefix = Digits::parse(b"+49").unwrap();
    assert_eq!(found.listed, [Conflict::Twice { prefix, trunk: 3, first: 5, line: 9 }]);
    let many: Vec<Row> = (0..17).map(|trunk| row(trunk, 17 - trunk, u32::from(trunk) + 2)).collect();
    assert_eq!(table(&many).unwrap_err().listed, [Conflict::TooMany { prefix, line: 18 }]);
    assert!(table(&many[..16]).is_ok());
}

#[test]
fn number_longer_than_a_prefix_may_be_is_found() {
    let long = "7".repeat(MAX_DIGITS);
    let way = Way { trunk: 0, priority: 0, cost: 0, line: 2 };
    let table = table(&[Row { prefix: long.clone(), way }]).unwrap();
    assert!(table.find(Digits::dialled(format!("{long}7").as_bytes())).is_some());
    assert!(table.find(Digits::dialled(&long.as_bytes()[1..])).is_none());
}

#[test]
fn memory_of_a_row_is_bounded() {
    // Each prefix once: the dearest case.
    let rows: Vec<Row> = (0..50_000)
        .map(|n| Row { prefix: format!("+{n}"), way: Way { trunk: 0, priority: 0, cost: 0, line: n + 2 } })
        .collect();
    let table = table(&rows).unwrap();
    assert!(table.bytes() <= 40 * rows.len(), "{} bytes", table.bytes());
}
