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
            None => out.push(without_user(&arg)),
        }
    }
    out
}

const HIDDEN: &str = "***";

/// Whether something of this name is nobody's business.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let has = ["pass", "pwd", "secret", "token", "credential", "ha1"].iter().any(|word| name.contains(word));
    has || ["pw", "pin", "key"].iter().any(|end| name.ends_with(end))
}

/// An address with `***` in the place of its user and of what its query says.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let host = authority.rsplit_once('@').map(|(_, host)| format!("{HIDDEN}@{host}"));
    let pair = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None => HIDDEN.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(pair).collect::<Vec<_>>().join("&"));
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    format!("{scheme}://{}{path}{query}", host.as_deref().unwrap_or(authority))
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
        assert_eq!(
            of("load -key pw x -set pin 1 -key ha1 2 -key spinning y -key field1 z"),
            "load -key pw *** -set pin *** -key ha1 *** -key spinning y -key field1 z"
        );
        assert_eq!(
            of(
                "load --server-metrics http://me:geheim@h:80/a/m?token=x&y --server-metrics=http://a@h?z=1 http://h/m"
            ),
            "load --server-metrics http://***@h:80/a/m?token=***&*** --server-metrics=http://***@h?z=*** http://h/m"
        );
        assert_eq!(of("load -ap -r 5"), "load -ap *** 5", "as it is read");
        assert_eq!(of("load -ap"), "load -ap");
    }
}
