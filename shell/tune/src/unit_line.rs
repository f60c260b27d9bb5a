//! Command lines in units of systemd.

use std::path::Path;

/// The command line of a program with arguments, as a unit has it. `None` if a word is no text.
///
/// Blanks, quotes and other characters that systemd interprets are escaped (systemd.service(5), COMMAND
/// LINES; systemd.unit(5), SPECIFIERS).
pub fn unit_command(program: &Path, arguments: &[&Path]) -> Option<String> {
    let mut line = escaped(program.to_str()?, false);
    for argument in arguments {
        line.push(' ');
        line.push_str(&escaped(argument.to_str()?, true));
    }
    Some(line)
}

/// A word without characters that systemd interprets. Only in arguments does it replace variables.
fn escaped(word: &str, variables: bool) -> String {
    let mut text = String::new();
    for c in word.chars() {
        match c {
            '%' => text.push_str("%%"),
            '$' if variables => text.push_str("$$"),
            c if c.is_ascii_alphanumeric() || "/.,_-+=:@$".contains(c) || !c.is_ascii() => text.push(c),
            c => text.push_str(&format!("\\x{:02x}", u32::from(c))),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_command_escapes_what_systemd_interprets() {
        let line = |program: &str, argument: &str| {
            unit_command(Path::new(program), &[Path::new("tune"), Path::new(argument)]).unwrap()
        };
        assert_eq!(line("/usr/bin/strowger", "/var/lib/j-1_2"), "/usr/bin/strowger tune /var/lib/j-1_2");
        assert_eq!(
            line("/opt/a b/50%/$x", "/j \"%h\" '$HOME'; \\\n"),
            "/opt/a\\x20b/50%%/$x tune /j\\x20\\x22%%h\\x22\\x20\\x27$$HOME\\x27\\x3b\\x20\\x5c\\x0a"
        );
        use std::os::unix::ffi::OsStrExt;
        let no_text = Path::new(std::ffi::OsStr::from_bytes(b"/\xff"));
        assert_eq!(unit_command(no_text, &[]), None);
    }
}
