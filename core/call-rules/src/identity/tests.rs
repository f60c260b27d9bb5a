//! Numbers that users ask for, and those that are presented.

use super::*;

#[test]
fn number_that_is_not_the_users_becomes_the_main_number() {
    let numbers = Numbers::parse(&["+493012345600", "+493012345611", "+4930123457*"]).expect("good numbers");
    for (wanted, presented) in [
        (None, "+493012345600"),
        (Some("+493012345600"), "+493012345600"),
        (Some("+493012345611"), "+493012345611"),
        (Some("+4930123457"), "+4930123457"),
        (Some("+493012345799"), "+493012345799"),
        (Some("+493012345612"), "+493012345600"),
        (Some("+49301234561"), "+493012345600"),
        (Some("+4930123457>;x"), "+493012345600"),
        (Some("+4930123457999999999"), "+493012345600"),
        (Some("493012345611"), "+493012345600"),
        (Some(""), "+493012345600"),
    ] {
        let found = numbers.presented(wanted.map(str::as_bytes));
        assert_eq!(std::str::from_utf8(found), Ok(presented), "{wanted:?}");
    }
}

#[test]
fn users_without_numbers_have_those_of_their_domain() {
    let numbers = |number: &str| Numbers::parse(&[number]).expect("a good number");
    let mut callers = Callers::new(Some(numbers("+491")));
    callers.add(b"alice", numbers("+492"));
    assert_eq!(callers.of(b"alice"), Some(&numbers("+492")));
    assert_eq!(callers.of(b"bob"), Some(&numbers("+491")));
    assert_eq!(Callers::default().of(b"bob"), None);
}

#[test]
fn lists_that_have_no_main_number_are_refused() {
    let what = |list: &[&str]| Numbers::parse(list).expect_err("a fault").what;
    assert!(what(&[]).contains("no number"));
    assert!(what(&["+4930*"]).contains("ends with \"*\""));
    for number in ["", "+", "*", "+0301", "0301", "+49 30", "+49a", "+1234567890123456", "+4*9", "+49\r\n"] {
        assert!(what(&["+491", number]).contains("is not a number"), "{number:?}");
        assert!(check_number(number).is_err());
    }
}
