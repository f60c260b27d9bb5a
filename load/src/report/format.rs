//! Numbers and text for people.

/// Rounded to six decimals, and finite: what goes to JSON comes back the same.
pub(super) fn round(v: f64) -> f64 {
    if v.is_finite() { (v * 1e6).round() / 1e6 } else { 0.0 }
}

/// Microseconds as milliseconds.
pub(super) fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}

/// A number with three to four significant digits and thousands apart: 0.0123, 4.56, 78.9, 1,235. Whole
/// numbers are whole.
pub fn number(v: f64) -> String {
    let a = v.abs();
    let digits = match a {
        _ if a == a.round() && a < 1e15 => 0,
        _ if a >= 1_000.0 => 0,
        _ if a >= 10.0 => 1,
        _ if a >= 1.0 => 2,
        _ if a >= 0.1 => 3,
        _ if a >= 0.01 => 4,
        _ => 6,
    };
    thousands(&format!("{v:.digits$}"))
}

/// A share in percent: never rounded to 100 or 0 when it is not, and with four decimals near both, where the
/// limits are.
pub fn percent(v: f64) -> String {
    if v == 100.0 || v == 0.0 {
        return format!("{v:.0}");
    }
    for digits in [if (1.0..99.0).contains(&v) { 2_usize } else { 4 }, 4, 6] {
        let text = format!("{v:.digits$}");
        let back: f64 = text.parse().unwrap_or(v);
        if (back != 100.0 || v == 100.0) && (back != 0.0 || v == 0.0) {
            return text;
        }
    }
    v.to_string()
}

/// A value with its unit.
pub fn with_unit(v: f64, unit: &str) -> String {
    match unit {
        "%" => format!("{} %", percent(v)),
        "" => number(v),
        "1/s" => format!("{} /s", number(v)),
        _ => format!("{} {unit}", number(v)),
    }
}

fn thousands(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |w| ("-", w));
    let mut out = String::from(sign);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out + rest
}

/// Text for HTML, in content and in quoted attributes. Control characters become U+FFFD: they have no
/// place in HTML, and some are invisible.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\r' => {}
            c if c.is_control() || is_direction_mark(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// An argument as a POSIX shell takes it.
pub fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) {
        return arg.to_owned();
    }
    format!("'{}'", arg.replace('\'', "'\\''"))
}

/// Text for a terminal: what a peer wrote must not steer it. Control characters but line ends and tabs become
/// U+FFFD, and so do marks of direction; CR is dropped.
pub fn plain(text: &str) -> String {
    let shown = |c| match c {
        '\n' | '\t' => c,
        c if c.is_control() || is_direction_mark(c) => '\u{fffd}',
        c => c,
    };
    text.chars().filter(|c| *c != '\r').map(shown).collect()
}

/// Marks that change the order in which text is shown, and so what a reader believes it says.
fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_text_steers_no_terminal() {
        let said = "a\x1b]0;OWNED\x07\x1b[31m\u{9b}31mb\r\n\tc\u{202e}\x7f";
        assert_eq!(plain(said), "a\u{fffd}]0;OWNED\u{fffd}\u{fffd}[31m\u{fffd}31mb\n\tc\u{fffd}\u{fffd}");
    }

    proptest! {
        #[test]
        fn escaped_text_is_no_markup(text in "\\PC*|[<>&\"'a\\x00-\\x1f]*") {
            let out = escape(&text);
            prop_assert!(!out.contains(['<', '>', '"', '\'']));
            prop_assert!(!out.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
            let bare = out.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "").replace("&quot;", "");
            prop_assert!(!bare.replace("&#39;", "").contains('&'));
        }

        #[test]
        fn any_number_can_be_shown(v in any::<f64>()) {
            prop_assert!(!number(v).is_empty() && !percent(v).is_empty());
        }
    }

    #[test]
    fn numbers_for_people() {
        for (v, text) in [
            (0.0, "0"),
            (0.000_123, "0.000123"),
            (0.012_34, "0.0123"),
            (1.234_5, "1.23"),
            (45.678, "45.7"),
            (456.78, "456.8"),
            (12.0, "12"),
            (1_234.5, "1,234"),
            (1_234_567.0, "1,234,567"),
            (-1_234_567.0, "-1,234,567"),
            (123.0, "123"),
        ] {
            assert_eq!(number(v), text, "{v}");
        }
        assert_eq!(with_unit(12.5, "ms"), "12.5 ms");
        assert_eq!(with_unit(1_000.0, "1/s"), "1,000 /s");
    }

    #[test]
    fn a_failure_is_not_rounded_away() {
        assert_eq!(percent(100.0), "100");
        assert_eq!(percent(99.9999), "99.9999");
        assert_eq!(percent(99.999_999_9), "99.9999999");
        assert_eq!(percent(99.98), "99.9800");
        assert_eq!(percent(0.001), "0.0010");
        assert_eq!(percent(0.0), "0");
    }

    #[test]
    fn rounding_is_finite() {
        assert_eq!(round(1.000_000_4), 1.0);
        assert_eq!((round(f64::NAN), round(f64::INFINITY)), (0.0, 0.0));
    }

    #[test]
    fn markup_does_not_survive() {
        assert_eq!(
            escape("<a href=\"x\" b='y'>&\r\n\0\u{202e}"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\n\u{fffd}\u{fffd}"
        );
    }
}
