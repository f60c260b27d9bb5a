//! What holds for every text.

use super::super::sections::sections;
use super::*;
use proptest::prelude::*;

/// A key of a section, with a value that may or may not fit.
fn line() -> impl Strategy<Value = String> {
    let keys: Vec<&'static str> =
        sections().iter().flat_map(|section| section.keys.iter().map(|key| key.name)).collect();
    let value = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<bool>().prop_map(|b| b.to_string()),
        "[ -~]{0,20}".prop_map(|t| format!("{t:?}")),
        "[a-z0-9.:@/;=-]{0,20}".prop_map(|t| format!("[\"sip:{t}\", \"{t}\"]")),
        Just("[[]]".to_owned()),
        Just("{ a = 1 }".to_owned()),
        Just("1979-05-27".to_owned()),
        Just("1e300".to_owned()),
    ];
    let headers: Vec<String> = sections().iter().map(|section| section.header()).collect();
    let header = prop::sample::select(headers);
    prop_oneof![
        4 => (prop::sample::select(keys), value).prop_map(|(key, value)| format!("{key} = {value}")),
        1 => header,
        1 => "[ -~]{0,30}",
    ]
}

/// Whatever comes out is either usable or says where it is wrong, inside the text.
fn check(text: &str) {
    match read(text) {
        Ok(loaded) => {
            let rendered = loaded.config.render_effective();
            let again = good(&rendered);
            assert_eq!(again.render_effective(), rendered);
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            let lines = u32::try_from(text.split('\n').count()).unwrap();
            for error in errors {
                assert!((1..=lines + 1).contains(&error.line), "{error} of {lines} lines");
                assert!(error.column >= 1);
                assert!(!error.message.is_empty());
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_lines_are_read_or_refused(lines in prop::collection::vec(line(), 0..12)) {
        check(&lines.join("\n"));
    }

    #[test]
    fn a_good_file_with_one_wrong_octet(at in 0..FULL.len(), octet in 0x20u8..0x7f) {
        let mut bytes = FULL.as_bytes().to_vec();
        bytes[at] = octet;
        check(std::str::from_utf8(&bytes).unwrap());
    }

    #[test]
    fn a_good_file_cut_short(at in 0..FULL.len()) {
        check(&FULL[..at]);
    }
}

#[test]
fn the_list_of_keys_is_what_is_read() {
    let sections = sections();
    for section in &sections {
        let header = section.header() + "\n";
        for key in &section.keys {
            let key = key.name;
            // A date fits no key, so a known key is refused for its value and never as unknown.
            let found = errors(&format!("{header}{key} = 1979-05-27"));
            assert!(!found.contains("unknown key"), "{header}{key}: {found}");
        }
        let found = errors(&format!("{header}qqqqqqqq = 1"));
        let known = found.split("known here: ").nth(1).unwrap().lines().next().unwrap();
        let mut asked: Vec<&str> = known.split(", ").collect();
        // At the top of the file the sections are known, too.
        let is_section = |name: &str| sections.iter().any(|section| section.name == name);
        asked.retain(|name| !section.name.is_empty() || !is_section(name));
        let mut listed: Vec<&str> = section.keys.iter().map(|key| key.name).collect();
        asked.sort_unstable();
        listed.sort_unstable();
        assert_eq!(asked, listed, "{header}");
    }
}
