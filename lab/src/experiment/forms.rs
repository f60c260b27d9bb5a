//! Forms of values that experiment files have besides those of `toml-form`.

use super::{Host, WarmUp};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeValue;
use toml_form::error::Fault;
use toml_form::form::{HOUR, One, length, quoted, string, text};
use toml_form::reader::kind;
use toml_form::text::shown;

/// The longest template of a configuration, octets.
pub(super) const LONGEST_TEMPLATE: usize = 256 << 10;
/// The longest name of a system or factor, characters.
pub(super) const LONGEST_NAME: usize = 32;

/// A number that may have a fraction.
pub(super) fn amount(range: RangeInclusive<f64>) -> One<f64> {
    let values = format!("{} to {}", range.start(), range.end());
    let parse = move |value: &DeValue<'_>| {
        let number = match value {
            DeValue::Integer(written) => {
                u64::from_str_radix(written.as_str(), written.radix()).ok().map(|whole| whole as f64)
            }
            DeValue::Float(written) => written.as_str().parse().ok(),
            other => return Err(Fault::new(format!("expected a number, found {}", kind(other)), "")),
        };
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| Fault::new("out of range", format!("from {} to {}", range.start(), range.end())))
    };
    One::new(values, parse, f64::to_string)
}

/// A sentence in words.
pub(super) fn sentence() -> One<String> {
    text("text", |written| {
        let trimmed = written.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(trimmed)
    })
}

/// A path.
pub(super) fn path() -> One<PathBuf> {
    let parse = |value: &DeValue<'_>| {
        let written = string(value)?;
        match written.is_empty() || written.contains('\0') {
            true => Err(Fault::new("not a path", "name a file")),
            false => Ok(PathBuf::from(written)),
        }
    };
    One::new("path", parse, |path| quoted(path.display()))
}

/// The template of a configuration.
pub(super) fn template() -> One<String> {
    let parse = |value: &DeValue<'_>| match value {
        DeValue::String(text) if text.len() > LONGEST_TEMPLATE => {
            Err(Fault::new(format!("longer than {LONGEST_TEMPLATE} octets"), "name a file: config_file"))
        }
        DeValue::String(text) if text.contains('\0') => Err(Fault::new("has a NUL", "remove it")),
        DeValue::String(text) => Ok(text.to_string()),
        other => {
            let mend = "write it between \"\"\" and \"\"\"";
            Err(Fault::new(format!("expected a string, found {}", kind(other)), mend))
        }
    };
    One::new("text", parse, |text: &String| quoted(text))
}

/// A word of a command line.
pub(super) fn word() -> One<String> {
    text("text", |written| match written.contains('\0') {
        true => Err(Fault::new("has a NUL", "remove it")),
        false => Ok(written.to_owned()),
    })
}

/// `NAME=value` of an environment.
pub(super) fn variable() -> One<String> {
    text("`NAME=value`", |written| match written.split_once('=') {
        Some((name, _)) if !name.is_empty() && !written.contains('\0') => Ok(written.to_owned()),
        _ => {
            Err(Fault::new(format!("\"{}\" sets no variable", shown(written)), "write it as \"NAME=value\""))
        }
    })
}

/// Whether this can be the name of a system or factor.
pub(super) fn is_name(written: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=LONGEST_NAME).contains(&written.len()) && written.bytes().all(good)
}

/// What a name of a system or factor may be, for findings.
pub(super) const NAMES: &str = "1 to 32 letters, digits, `_` or `-`";

/// The name of a system.
pub(super) fn name() -> One<String> {
    text("name of a system", |written| match is_name(written) {
        true => Ok(written.to_owned()),
        false => Err(Fault::new(format!("\"{}\" is not a name", shown(written)), NAMES)),
    })
}

/// `"steady"`, or a length of time.
pub(super) fn warm_up() -> One<WarmUp> {
    let fixed = || length(Duration::ZERO..=HOUR);
    let parse = move |value: &DeValue<'_>| match value {
        DeValue::String(word) if word == "steady" => Ok(WarmUp::Steady),
        _ => fixed().read(value).map(WarmUp::Fixed).map_err(|fault| {
            match fault.mend.starts_with("write seconds") {
                true => Fault::new(fault.message, "write \"steady\", or a length such as \"10s\""),
                false => fault,
            }
        }),
    };
    One::new("`\"steady\"`, or 0 to 1h", parse, move |warm_up| match warm_up {
        WarmUp::Steady => quoted("steady"),
        WarmUp::Fixed(time) => fixed().show(time).unwrap_or_default(),
    })
}

/// `"local"` or `"ssh:user@host"`.
pub(super) fn host() -> One<Host> {
    text("`\"local\"`, `\"ssh:user@host\"`", |written| {
        let good = |b: u8| b.is_ascii_alphanumeric() || b"@.-_:[]".contains(&b);
        match written.strip_prefix("ssh:") {
            _ if written == "local" => Ok(Host::Local),
            Some(host) if !host.is_empty() && !host.starts_with('-') && host.bytes().all(good) => {
                Ok(Host::Ssh(host.to_owned()))
            }
            _ => {
                let what = format!("\"{}\" is not a host", shown(written));
                Err(Fault::new(what, "write \"local\" or \"ssh:user@host\""))
            }
        }
    })
}
