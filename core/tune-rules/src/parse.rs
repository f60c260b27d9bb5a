//! The forms of files in `/proc` and `/sys`.

use std::collections::BTreeMap;

/// The numbers of a text, separated by white space. `None` if something is no number.
pub(crate) fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split_whitespace().map(|word| word.parse().ok()).collect()
}

/// Whether two values of a setting mean the same: white space does not count, nor do leading zeros and commas
/// of masks.
pub fn same_value(a: &str, b: &str) -> bool {
    a.split_whitespace().map(plain).eq(b.split_whitespace().map(plain))
}

/// A word as it is compared: masks of processors without commas and leading zeros.
fn plain(word: &str) -> String {
    let digits = word.bytes().all(|b| b.is_ascii_hexdigit() || b == b',');
    if !digits || word.is_empty() {
        return word.to_owned();
    }
    // `0-3,8` is a list, not a mask, and has no hexadecimal groups of eight.
    let groups = word.split(',').skip(1).all(|group| group.len() == 8);
    if word.contains(',') && !groups {
        return word.to_owned();
    }
    let bare: String = word.chars().filter(|c| *c != ',').collect();
    let bare = bare.trim_start_matches('0');
    if bare.is_empty() { "0".to_owned() } else { bare.to_ascii_lowercase() }
}

/// The value of a counter in a file of pairs of lines, as `/proc/net/snmp` and `/proc/net/netstat` have them.
pub(crate) fn paired(text: &str, group: &str, counter: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == counter)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

/// The value of a line `Name: value` or `Name value`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix(':').or_else(|| rest.strip_prefix(char::is_whitespace))?;
        Some(rest.trim())
    })
}

/// The number of a line `Name: 123 kB`.
pub(crate) fn field_number(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.split_whitespace().next()?.parse().ok()
}

/// The counters of `/proc/net/softnet_stat`, summed: packets, dropped, squeezed.
pub(crate) fn softnet(text: &str) -> Option<(u64, u64, u64)> {
    let mut sum = (0u64, 0u64, 0u64);
    for line in text.lines() {
        let mut columns = line.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok());
        let mut next = || columns.next().flatten();
        sum = (sum.0.saturating_add(next()?), sum.1.saturating_add(next()?), sum.2.saturating_add(next()?));
    }
    Some(sum)
}

/// The drops of sockets in `/proc/net/udp` that are bound to one of these ports.
pub(crate) fn udp_drops(text: &str, ports: &[u16]) -> u64 {
    let socket = |line: &str| {
        let mut words = line.split_whitespace();
        let port = u16::from_str_radix(words.nth(1)?.rsplit_once(':')?.1, 16).ok()?;
        let drops: u64 = words.next_back()?.parse().ok()?;
        ports.contains(&port).then_some(drops)
    };
    text.lines().skip(1).filter_map(socket).fold(0, u64::saturating_add)
}

/// The counts of `/proc/interrupts`: for each interrupt with a number, those of each processor.
pub(crate) fn interrupts(text: &str) -> BTreeMap<u32, Vec<(u32, u64)>> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let cpus: Vec<u32> =
        head.split_whitespace().filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
    let row = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let counts = rest.split_whitespace().map_while(|word| word.parse().ok());
        Some((number.trim().parse().ok()?, cpus.iter().copied().zip(counts).collect()))
    };
    lines.filter_map(row).collect()
}

/// The processors of a list such as `0-3,8`, at most 65,536 of them.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= 65_536 {
            return None;
        }
        found.extend(first..=last);
    }
    Some(found)
}

/// The mask of processors as `rps_cpus` has it: groups of 32 in hexadecimal, the highest first.
pub(crate) fn cpu_mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |most| *most as usize / 32 + 1);
    let mut words = vec![0u32; groups];
    for cpu in cpus {
        words[*cpu as usize / 32] |= 1 << (cpu % 32);
    }
    let mut mask = format!("{:x}", words[groups - 1]);
    for word in words[..groups - 1].iter().rev() {
        mask.push_str(&format!(",{word:08x}"));
    }
    mask
}

/// The processors in a mask.
pub(crate) fn mask_cpus(mask: &str) -> Vec<u32> {
    let digits = mask.trim().chars().filter(|c| *c != ',').rev();
    let mut found = Vec::new();
    for (digit, first) in digits.filter_map(|c| c.to_digit(16)).zip((0u32..).step_by(4)) {
        found.extend((0..4).filter(|bit| digit >> bit & 1 == 1).map(|bit| first + bit));
    }
    found
}

/// A number with commas between its thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the largest unit that leaves at least one.
pub(crate) fn bytes(number: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(size, _)| number >= *size) {
        Some((size, unit)) if number.is_multiple_of(*size) => format!("{} {unit}", number / size),
        Some((size, unit)) => format!("{:.1} {unit}", number as f64 / *size as f64),
        None => format!("{number} bytes"),
    }
}
