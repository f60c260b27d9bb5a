//! Command lines that may be shown to others.

/// Options whose value is a password.
const PASSWORDS: [&str; 3] = ["ap", "first-password", "first_password"];
/// Options of a name and its text, which is a password if the name says so.
const NAMED: [&str; 2] = ["key", "set"];

/// A command line with `***` in the place of passwords.
pub fn masked(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    // What the next argument is to be hidden for: itself, or if it names a secret the one after it.
    let (mut hide, mut name) = (false, false);
    for arg in args {
        if core::mem::take(&mut hide) {
            out.push(HIDDEN.to_owned());
            continue;
        }
        if core::mem::take(&mut name) {
            hide = is_secret(&arg);
            out.push(arg);
            continue;
        }
        let option = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'));
        let (option, value) = option.map_or((None, None), |text| match text.split_once('=') {
            Some((option, value)) => (Some(option), Some(value)),
            None => (Some(text), None),
        });
        let password = option.is_some_and(|option| PASSWORDS.contains(&option));
        name = value.is_none() && option.is_some_and(|option| NAMED.contains(&option));
        hide = password && value.is_none();
        match value.filter(|_| password) {
            Some(value) => out.push(format!("{}{HIDDEN}", arg.strip_suffix(value).unwrap_or_default())),
            None => out.push(arg),
        }
    }
    out
}

const HIDDEN: &str = "***";

/// Whether something of this name is nobody's business.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "pwd", "secret", "token"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let of = |line: &str| masked(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(of("load -ap geheim42 -s bob h"), "load -ap *** -s bob h");
        assert_eq!(of("load --ap=geheim42 --ap x h"), "load --ap=*** --ap *** h");
        assert_eq!(
            of("load --first-password p1 --first-user u1"),
            "load --first-password *** --first-user u1"
        );
        assert_eq!(of("load --first-password=p1 h"), "load --first-password=*** h");
        assert_eq!(
            of("load -key password x -key domain d -set Secret y"),
            "load -key password *** -key domain d -set Secret ***"
        );
        assert_eq!(of("load -ap -r 5"), "load -ap *** 5", "as it is read");
        assert_eq!(of("load -ap"), "load -ap");
    }
}
