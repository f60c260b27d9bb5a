//! Settings of network cards, each as a text.

#[allow(unsafe_code, reason = "the kernel has no file for these settings")]
mod sys;

use std::io::{self, ErrorKind};
use sys::{Command, ethtool};

/// Commands of linux/ethtool.h.
const GET_DRIVER: u32 = 0x03;
const GET_COALESCE: u32 = 0x0e;
const SET_COALESCE: u32 = 0x0f;
const GET_RING: u32 = 0x10;
const SET_RING: u32 = 0x11;
const GET_HASH: u32 = 0x29;
const SET_HASH: u32 = 0x2a;
const GET_CHANNELS: u32 = 0x3c;
const SET_CHANNELS: u32 = 0x3d;

/// Kinds of traffic (`UDP_V4_FLOW`, `UDP_V6_FLOW`).
const UDP4: u32 = 0x02;
const UDP6: u32 = 0x06;

/// The fields of a hash and their letters in ethtool(8), `RXH_*`.
const FIELDS: [(u32, char); 7] = [(1, 'm'), (2, 'v'), (3, 't'), (4, 's'), (5, 'd'), (6, 'f'), (7, 'n')];

/// Where a setting is.
enum Place {
    /// A word of a structure: the command that reads it, the one that writes it, and which word.
    Word(u32, Option<u32>, usize),
    /// The same, and the word is 0 or 1.
    Switch(u32, u32, usize),
    /// The hash of a kind of traffic.
    Hash(u32),
    /// The name of the driver.
    Driver,
}

fn place(setting: &str) -> Option<Place> {
    Some(match setting {
        "rx-ring-max" => Place::Word(GET_RING, None, 1),
        "tx-ring-max" => Place::Word(GET_RING, None, 4),
        "rx-ring" => Place::Word(GET_RING, Some(SET_RING), 5),
        "tx-ring" => Place::Word(GET_RING, Some(SET_RING), 8),
        "combined-max" => Place::Word(GET_CHANNELS, None, 4),
        "combined" => Place::Word(GET_CHANNELS, Some(SET_CHANNELS), 8),
        "rx-channels-max" => Place::Word(GET_CHANNELS, None, 1),
        "rx-channels" => Place::Word(GET_CHANNELS, Some(SET_CHANNELS), 5),
        "rx-usecs" => Place::Word(GET_COALESCE, Some(SET_COALESCE), 1),
        "adaptive-rx" => Place::Switch(GET_COALESCE, SET_COALESCE, 10),
        "rx-hash-udp4" => Place::Hash(UDP4),
        "rx-hash-udp6" => Place::Hash(UDP6),
        "driver" => Place::Driver,
        _ => return None,
    })
}

/// Reads a setting. `None`: the card does not have it.
///
/// # Errors
/// There is no such card, or it refuses.
pub(crate) fn read(card: &str, setting: &str) -> io::Result<Option<String>> {
    let Some(place) = place(setting) else { return Ok(None) };
    let text = match place {
        Place::Word(get, _, word) => asked(card, get)?.map(|command| command.0[word].to_string()),
        Place::Switch(get, _, word) => {
            asked(card, get)?.map(|command| if command.0[word] == 0 { "off" } else { "on" }.to_owned())
        }
        Place::Hash(kind) => hash_command(card, kind)?.map(|command| letters(command.0[2], command.0[3])),
        Place::Driver => asked(card, GET_DRIVER)?.map(|command| {
            let bytes = command.0[1..9].iter().flat_map(|word| word.to_ne_bytes());
            bytes.take_while(|byte| *byte != 0).map(char::from).collect()
        }),
    };
    Ok(text)
}

/// Writes a setting.
///
/// # Errors
/// The card does not have it, refuses it, or the value has no meaning.
pub(crate) fn write(card: &str, setting: &str, value: &str) -> io::Result<()> {
    let unsupported = || io::Error::new(ErrorKind::Unsupported, "not supported by this card");
    let wrong = || io::Error::new(ErrorKind::InvalidInput, format!("{value:?} is no value of {setting}"));
    let (value, place) = (value.trim(), place(setting).ok_or_else(unsupported)?);
    let (mut command, set) = match place {
        Place::Word(get, Some(set), word) => {
            let mut command = asked(card, get)?.ok_or_else(unsupported)?;
            command.0[word] = value.parse().map_err(|_| wrong())?;
            (command, set)
        }
        Place::Switch(get, set, word) => {
            let mut command = asked(card, get)?.ok_or_else(unsupported)?;
            command.0[word] = u32::from(value == "on");
            (command, set)
        }
        Place::Hash(kind) => {
            let mut command = hash_command(card, kind)?.ok_or_else(unsupported)?;
            (command.0[2], command.0[3]) = fields(value).ok_or_else(wrong)?;
            (command, SET_HASH)
        }
        Place::Word(_, None, _) | Place::Driver => return Err(unsupported()),
    };
    command.0[0] = set;
    ethtool(card, &mut command)
}

/// The answer to a command that reads.
fn asked(card: &str, get: u32) -> io::Result<Option<Command>> {
    let mut command = Command([0; 64]);
    command.0[0] = get;
    supported(ethtool(card, &mut command)).map(|found| found.map(|()| command))
}

fn hash_command(card: &str, kind: u32) -> io::Result<Option<Command>> {
    let mut command = Command([0; 64]);
    (command.0[0], command.0[1]) = (GET_HASH, kind);
    supported(ethtool(card, &mut command)).map(|found| found.map(|()| command))
}

/// A card that lacks a setting says so in one of several ways.
fn supported(result: io::Result<()>) -> io::Result<Option<()>> {
    match result {
        Ok(()) => Ok(Some(())),
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENODEV)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The fields of a hash as letters, or as a number where ethtool has no letter for one. The words are those
/// of a 64-bit number.
fn letters(first: u32, second: u32) -> String {
    let bits = joined(first, second);
    let text: String =
        FIELDS.iter().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, letter)| letter).collect();
    if fields(&text) == Some((first, second)) { text } else { format!("{bits:#x}") }
}

/// The words for letters or a number.
fn fields(text: &str) -> Option<(u32, u32)> {
    let bits = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.chars().try_fold(0u64, |bits, letter| {
            let (bit, _) = FIELDS.iter().find(|(_, known)| *known == letter)?;
            Some(bits | 1 << bit)
        })?,
    };
    let bytes = bits.to_ne_bytes();
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Some((word(0), word(4)))
}

fn joined(first: u32, second: u32) -> u64 {
    let (a, b) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_hash_keep_their_meaning() {
        for text in ["sdfn", "sd", "", "mvt", "0x100", "0x8000000000000001"] {
            let (first, second) = fields(text).unwrap();
            assert_eq!(letters(first, second), text);
        }
        assert_eq!(joined(fields("sdfn").unwrap().0, fields("sdfn").unwrap().1), 0xf0);
        assert_eq!(fields("sdx"), None);
    }

    #[test]
    fn loopback_device_lacks_settings_without_an_error() {
        for setting in tune_rules::CARD_SETTINGS {
            let found = read("lo", setting).unwrap();
            assert!(setting == "driver" || found.is_none(), "{setting}: {found:?}");
        }
        let said = write("lo", "rx-ring", "512").unwrap_err().to_string();
        assert_eq!(said, "not supported by this card");
    }

    #[test]
    fn name_that_no_card_can_have_is_an_error() {
        assert!(read("", "rx-ring").is_err());
        assert!(read("a-name-of-sixteen", "rx-ring").is_err());
    }
}
