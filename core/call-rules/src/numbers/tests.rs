//! Numbers of several countries, read and written.

use super::*;
use proptest::prelude::*;

fn plan(country: &str, national: &[&str], area: &str, format: Option<NumberFormat>) -> NumberPlan {
    let national: Vec<String> = national.iter().map(|prefix| (*prefix).to_owned()).collect();
    let international = if country == "1" { "011" } else { "00" };
    let parts = PlanParts { country, national: &national, international, area, short: 6, format };
    NumberPlan::new(&parts).expect("a good plan")
}

fn read(plan: &NumberPlan, dialled: &str) -> String {
    let number = plan.read(dialled.as_bytes());
    number.map_or("-".to_owned(), |number| String::from_utf8(number.to_vec()).expect("digits"))
}

fn write(plan: &NumberPlan, user: &str) -> String {
    let mut out = Vec::new();
    plan.write(user.as_bytes(), &mut out);
    String::from_utf8(out).expect("text")
}

#[test]
fn dialled_numbers_are_read_by_the_rules_of_the_country() {
    let berlin = plan("49", &["0"], "30", None);
    for (dialled, number) in [
        ("03012345", "+493012345"),
        ("00493012345", "+493012345"),
        ("0043112345", "+43112345"),
        ("1234567", "+49301234567"),
        ("+493012345", "-"),
        ("112", "-"),
        ("116117", "-"),
        ("0112", "-"),
        ("alice", "-"),
        ("0301234x", "-"),
        ("*21*0301234", "-"),
        ("000123456", "-"),
        ("0", "-"),
        ("", "-"),
        ("0012345678901234567", "-"),
    ] {
        assert_eq!(read(&berlin, dialled), number, "{dialled}");
    }
    assert_eq!(read(&plan("49", &["0"], "", None), "1234567"), "-", "the area is not known");
    // No prefix, and a zero that belongs to the number.
    let italy = plan("39", &[""], "", None);
    assert_eq!(
        (read(&italy, "0612345").as_str(), read(&italy, "3331234567").as_str()),
        ("+390612345", "+393331234567")
    );
    let america = plan("1", &["1", ""], "", None);
    for dialled in ["12125551234", "2125551234"] {
        assert_eq!(read(&america, dialled), "+12125551234", "{dialled}");
    }
    assert_eq!(read(&america, "011493012345"), "+493012345");
}

#[test]
fn numbers_are_written_as_the_trunk_wants_them() {
    use NumberFormat::*;
    for (format, own, foreign) in [
        (None, "+493012345", "+43112345"),
        (Some(E164Plus), "+493012345", "+43112345"),
        (Some(E164), "493012345", "43112345"),
        (Some(National), "03012345", "0043112345"),
        (Some(International), "00493012345", "0043112345"),
    ] {
        let plan = plan("49", &["0"], "", format);
        assert_eq!((write(&plan, "+493012345").as_str(), write(&plan, "+43112345").as_str()), (own, foreign));
        for same in ["112", "0112", "alice", "+", "+49x", "*21#", "", "%2B49"] {
            assert_eq!(write(&plan, same), same, "{format:?}");
        }
        if format.is_some() {
            // Whatever is left after `strip` and `prepend`.
            assert_eq!(
                (write(&plan, "03012345").as_str(), write(&plan, "0043112345").as_str()),
                (own, foreign)
            );
        }
    }
    // A trunk that writes E.164 without a plus sign is read likewise.
    let carrier = plan("49", &["0"], "", Some(E164));
    assert_eq!(
        (read(&carrier, "493012345").as_str(), read(&carrier, "03012345").as_str()),
        ("+493012345", "+493012345")
    );
    assert_eq!(read(&carrier, "116117"), "-");
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    let zero = ["0".to_owned()];
    let parts =
        PlanParts { country: "", national: &zero, international: "00", area: "", short: 6, format: None };
    let says = |parts: PlanParts<'_>| NumberPlan::new(&parts).expect_err("a fault").what;
    assert!(says(PlanParts { format: Some(NumberFormat::National), ..parts }).contains("need a country"));
    assert!(says(PlanParts { area: "30", ..parts }).contains("needs a country"));
    let none = [String::new()];
    let without = PlanParts { area: "30", country: "49", national: &none, ..parts };
    assert!(says(without).contains("every number has an area code"));
    assert!(NumberPlan::new(&PlanParts { format: Some(NumberFormat::E164Plus), ..parts }).is_ok());
}

proptest! {
    /// What is read is a number, what is written is read again as the same one, and short ones stay.
    #[test]
    fn numbers_survive_being_written_and_read(dialled in "\\+?[0-9]{0,20}|.{0,12}", at in 0usize..4) {
        use NumberFormat::*;
        let plan = plan("49", &["0"], "30", Some([E164Plus, E164, National, International][at]));
        let written = write(&plan, &dialled);
        if let Some(number) = plan.read(dialled.as_bytes()) {
            prop_assert!(number.len() > 1 && number.len() <= 16 && number.starts_with(b"+"));
            prop_assert!(number[1..].iter().all(u8::is_ascii_digit));
            if written.len() > 6 && !written.starts_with('+') {
                let again = plan.read(written.as_bytes());
                prop_assert_eq!(again.as_deref(), Some(&*number), "{} {}", dialled, written);
            }
        } else if !dialled.starts_with('+') {
            prop_assert_eq!(written, dialled);
        }
    }
}
