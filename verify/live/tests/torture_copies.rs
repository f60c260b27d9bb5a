//! The torture messages are those of the RFCs, byte for byte. `rfc4475.b64` is the archive of RFC 4475
//! Appendix A, `rfc5118.txt` holds the messages that RFC 5118 prints.

use live::unpack;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("torture")
}

/// Our copies of an RFC's messages.
fn copies(rfc: &str) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(folder().join(rfc)).unwrap().map(|entry| entry.unwrap().path());
    let copy = |path: PathBuf| {
        (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
    };
    files.map(copy).collect()
}

fn compare(ours: &BTreeMap<String, Vec<u8>>, wanted: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (name, copy) in ours {
        assert_eq!(copy.escape_ascii().to_string(), wanted[name].escape_ascii().to_string(), "{name}");
    }
}

#[test]
fn rfc4475_messages_are_those_of_its_appendix() {
    let text = std::fs::read_to_string(folder().join("rfc4475.b64")).unwrap();
    let stem = |name: String| Path::new(&name).file_stem().unwrap().to_string_lossy().into_owned();
    let mut wanted: BTreeMap<_, _> =
        unpack(&text).into_iter().map(|(name, message)| (stem(name), message)).collect();
    // The archive leaves out the empty line that section 3.1.2.15 has, and without which nothing is tested.
    wanted.get_mut("baddn").unwrap().extend_from_slice(b"\r\n");
    compare(&copies("rfc4475"), &wanted);
}

/// The messages as printed: CRLF after each line, what stands between the marks of `allOneLine` in one,
/// and a Content-Length that fits the body, for the printed one does not.
fn printed(text: &str) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for block in text.split("   Message Details: ").skip(1) {
        let (name, lines) = block.split_once('\n').unwrap();
        let (mut message, mut joined) = (String::new(), false);
        for line in lines.trim_matches('\n').lines().map(|line| line.get(6..).unwrap_or("")) {
            match line.trim() {
                "<allOneLine>" => joined = true,
                "</allOneLine>" => {
                    joined = false;
                    message += "\r\n";
                }
                _ => message += &format!("{line}{}", if joined { "" } else { "\r\n" }),
            }
        }
        if !message.contains("\r\n\r\n") {
            message += "\r\n";
        }
        let (head, body) = message.split_once("\r\n\r\n").unwrap();
        let fitting = |line: &str| match line.strip_prefix("Content-Length: ") {
            Some(_) => format!("Content-Length: {}", body.len()),
            None => line.to_owned(),
        };
        let head: Vec<String> = head.split("\r\n").map(fitting).collect();
        all.insert(name.to_owned(), format!("{}\r\n\r\n{body}", head.join("\r\n")).into_bytes());
    }
    all
}

#[test]
fn rfc5118_messages_are_those_that_it_prints() {
    let text = std::fs::read_to_string(folder().join("rfc5118.txt")).unwrap();
    compare(&copies("rfc5118"), &printed(&text));
}

/// A message that ends before its head does is refused whatever stands in it.
#[test]
fn torture_messages_have_a_whole_head() {
    for rfc in ["rfc4475", "rfc5118"] {
        for (name, message) in copies(rfc) {
            assert!(message.windows(4).any(|w| w == b"\r\n\r\n"), "{rfc}/{name}");
        }
    }
}
