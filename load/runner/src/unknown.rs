//! Words with one dash that are no option, and what was probably meant. Read letter by letter, as short
//! options are elsewhere, `-rate` would be a `-r` of "ate".

use clap::{Arg, Command};
use std::net::IpAddr;

/// Suggestions that are made at most.
const MOST: usize = 4;

/// What is said of a word that is no option. `sipp` are the names that SIPp writes with one dash, with our
/// own ones.
pub fn refusal(word: &str, known: &Command, sipp: &[(&str, String)]) -> Option<String> {
    let name = word.strip_prefix('-').filter(|name| name.starts_with(|c: char| c.is_alphabetic()))?;
    let letter = name.chars().next()?;
    let rest = name.get(letter.len_utf8()..).filter(|rest| !rest.is_empty() && name != "help")?;
    if known.get_arguments().any(|own| own.get_short() == Some(letter)) && is_value(letter, rest) {
        return None;
    }
    let name = name.split('=').next().unwrap_or(name);
    let near = near(&name.replace('-', "_"), known, sipp);
    let meant = match near.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; did you mean {only}?"),
        Some((last, others)) => format!("; did you mean {} or {last}?", others.join(", ")),
    };
    let parted = if meant.is_empty() { ";" } else { "" };
    Some(format!("{word}: no such option{meant}{parted} `strowger load --help` shows all"))
}

/// Whether this stands behind the letter of a short option as its value: a number, an address, a transport.
fn is_value(letter: char, rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_alphabetic() || c == '_')
        || (letter == 'i' && rest.parse::<IpAddr>().is_ok())
        || (letter == 't' && rest.len() == 2)
}

/// Options like `name`, the nearest ones first.
fn near(name: &str, known: &Command, sipp: &[(&str, String)]) -> Vec<String> {
    let mut found: Vec<(u8, String)> = known
        .get_arguments()
        .filter(|own| !own.is_hide_set() && !own.is_positional())
        .filter_map(|own| {
            let distance = |words: &[String]| words.iter().filter_map(|word| distance(name, word)).min();
            if let Some(letter) = own.get_short() {
                return Some((distance(&words(own))?, format!("-{letter}")));
            }
            let long = own.get_long()?;
            let theirs = sipp.iter().find(|(_, ours)| ours == long).map(|(theirs, _)| *theirs);
            let shown = theirs.map_or_else(|| format!("--{long}"), |theirs| format!("-{theirs}"));
            Some((distance(&[theirs.unwrap_or(long).replace('-', "_")])?, shown))
        })
        .collect();
    if found.iter().any(|(distance, _)| *distance == 0) {
        found.retain(|(distance, _)| *distance != 1);
    }
    found.sort_by_key(|(distance, _)| *distance);
    found.into_iter().map(|(_, shown)| shown).take(MOST).collect()
}

/// What people may call a short option: what it is, and what its value is.
fn words(own: &Arg) -> Vec<String> {
    let id = own.get_id().as_str();
    let values = own.get_value_names().unwrap_or_default();
    let whole = std::iter::once(id).chain(id.split('_')).chain(own.get_long());
    whole.map(str::to_owned).chain(values.iter().map(|value| value.to_lowercase())).collect()
}

/// How much a name is like a word: 0 if they are the same.
fn distance(name: &str, word: &str) -> Option<u8> {
    if name.eq_ignore_ascii_case(word) {
        Some(0)
    } else if load::nearest(name, [word]).is_some() {
        Some(1)
    } else {
        word.strip_prefix(name).is_some_and(|rest| rest.starts_with('_')).then_some(2)
    }
}
