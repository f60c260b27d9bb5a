//! A route table made from rows: it finds what a look at every row finds, and refuses rows that contradict
//! each other and no others.
#![no_main]

use fuzz::Feed;
use libfuzzer_sys::fuzz_target;
use number_routes::{Builder, Digits, MAX_WAYS, Way};

/// Few characters, so that prefixes begin each other.
const CHARACTERS: &[u8] = b"0149#*+";

/// A prefix or a called number. It may have what cannot be dialled.
fn text(feed: &mut Feed<'_>, longest: usize) -> Vec<u8> {
    let length = feed.below(longest);
    (0..length)
        .map(|_| match feed.byte() {
            byte @ 0..=223 => CHARACTERS[usize::from(byte) % CHARACTERS.len()],
            byte => byte - 128,
        })
        .collect()
}

fuzz_target!(|data: &[u8]| {
    let mut feed = Feed::new(data);
    let mut builder = Builder::new(vec![b"t".to_vec(); 32]);
    let mut rows: Vec<(Digits, Way)> = Vec::new();
    for line in 2..2 + feed.below(120) as u32 {
        let text = text(&mut feed, 40);
        let Ok(prefix) = Digits::parse(&text) else { continue };
        assert_eq!(prefix.to_string().as_bytes(), text);
        let choice = feed.byte();
        let way = Way {
            trunk: (choice & 31).into(),
            priority: (choice >> 5 & 1).into(),
            cost: (choice >> 6).into(),
            line,
        };
        assert!(builder.add(prefix, way).is_ok());
        rows.push((prefix, way));
    }
    let of = |prefix: Digits| rows.iter().filter(move |(other, _)| *other == prefix).map(|(_, way)| *way);
    let is_sound = rows.iter().all(|(prefix, way)| {
        of(*prefix).count() <= MAX_WAYS && of(*prefix).filter(|other| other.trunk == way.trunk).count() == 1
    });
    let table = match builder.finish(3) {
        Ok(table) => table,
        Err(conflicts) => {
            assert!(!is_sound && conflicts.count > 0 && conflicts.listed.len() == conflicts.count.min(3));
            return;
        }
    };
    assert!(is_sound && table.rows() == rows.len());
    while !feed.is_empty() {
        let number = Digits::dialled(&text(&mut feed, 60));
        let longest = rows.iter().map(|row| row.0).filter(|prefix| number.starts_with(*prefix)).max();
        let found = table.find(number);
        assert_eq!(found.map(|found| found.prefix), longest);
        if let (Some(found), Some(prefix)) = (found, longest) {
            let mut ways: Vec<Way> = of(prefix).collect();
            ways.sort_by_key(|way| (way.priority, way.cost));
            assert_eq!(found.ways, ways);
        }
    }
});
