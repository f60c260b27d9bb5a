//! The readers against the plain walks, over everything that fuzzing found worth keeping, and the torture
//! messages of RFC 4475 and RFC 5118.

#![cfg(test)]

use super::tests::{agree, one_value};
use crate::{Index, Limits, Name, Parsed, parse};
use std::fs;
use std::path::{Path, PathBuf};

/// All files of the folders below one of the repository.
fn inputs(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let list = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let folders = list(&root).into_iter().filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = folders.flat_map(|path| list(&path)).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// An input as it is, and from each start line in it on: most targets read instructions before a message.
fn messages(input: &[u8]) -> Vec<&[u8]> {
    let mut all = vec![input];
    for at in memchr::memmem::find_iter(input, b"SIP/2.0") {
        let line = memchr::memrchr(b'\n', &input[..at]).map_or(0, |end| end + 1);
        let letter = line + input[line..].iter().position(u8::is_ascii_uppercase).unwrap_or(0);
        all.extend([&input[line..], &input[letter..]]);
    }
    all.dedup_by_key(|message| message.len());
    all
}

/// Narrow enough that some inputs exceed each of them.
const NARROW: Limits = Limits {
    message: 700,
    head: 600,
    body: 64,
    headers: 9,
    vias: 1,
    name: 14,
    header: 100,
    method: 7,
    uri: 32,
    token: 24,
};

#[test]
fn fuzz_corpora_are_read_as_the_plain_walk_reads_them() {
    let mut fresh = Index::new();
    let (mut good, mut refused) = (0, 0);
    let all = [inputs("verify/fuzz/corpus"), inputs("verify/live/torture")].concat();
    for (path, input) in &all {
        println!("{}", path.display());
        for message in messages(input) {
            for limits in [Limits::DEFAULT, NARROW] {
                agree(message, &mut fresh, &limits);
            }
            match parse(message, &mut fresh, &Limits::DEFAULT) {
                Parsed::Good(_) => good += 1,
                Parsed::Bad(..) => refused += 1,
                Parsed::Garbage(_) => {}
            }
        }
    }
    assert!(good > 200 && refused > 60, "{good} good, {refused} refused of {} files", all.len());
}

#[test]
fn values_of_fuzz_corpora_are_read_as_the_plain_walk_reads_them() {
    let mut index = Index::new();
    let mut values = 0;
    for (path, input) in [inputs("verify/fuzz/corpus"), inputs("verify/live/torture")].concat() {
        println!("{}", path.display());
        // Values stand alone in some corpora, one a line.
        input.split(|&b| b == b'\n').for_each(one_value);
        for message in messages(&input) {
            let (Parsed::Good(m) | Parsed::Bad(m, _)) = parse(message, &mut index, &Limits::DEFAULT) else {
                continue;
            };
            for value in m.all_headers().map(|header| header.value).chain([m.request_uri()]) {
                one_value(value);
                values += 1;
            }
            for name in [Name::Via, Name::Contact, Name::Route, Name::RecordRoute] {
                m.values(name).for_each(one_value);
            }
        }
    }
    assert!(values > 3_000, "{values}");
}
