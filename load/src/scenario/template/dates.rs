//! Dates as messages show them.

use sip_message::push_u64;

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar. Counted in years that
/// begin in March, so that the leap day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// A number with leading zeros.
fn padded(number: u64, width: u32, out: &mut Vec<u8>) {
    (1..width).filter(|&digits| number < 10_u64.pow(digits)).for_each(|_| out.push(b'0'));
    push_u64(number, out);
}

fn clock(seconds: u64, out: &mut Vec<u8>) {
    padded(seconds / 3_600, 2, out);
    out.push(b':');
    padded(seconds / 60 % 60, 2, out);
    out.push(b':');
    padded(seconds % 60, 2, out);
}

/// `Mon, 25 Oct 2021 07:20:55 GMT` (RFC 3261 section 25.1, `SIP-date`), of microseconds since 1970.
pub(super) fn write_date(micros: u64, out: &mut Vec<u8>) {
    let seconds = micros / 1_000_000;
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    out.extend_from_slice(DAYS.get((days % 7) as usize).copied().unwrap_or(b"???"));
    out.extend_from_slice(b", ");
    padded(day, 2, out);
    out.push(b' ');
    out.extend_from_slice(MONTHS.get((month - 1) as usize).copied().unwrap_or(b"???"));
    out.push(b' ');
    padded(year, 4, out);
    out.push(b' ');
    clock(seconds % 86_400, out);
    out.extend_from_slice(b" GMT");
}

/// `2021-10-25 07:20:55 UTC`, of microseconds since 1970.
pub fn date_time(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    let mut out = Vec::new();
    for (number, width, after) in [(year, 4, b'-'), (month, 2, b'-'), (day, 2, b' ')] {
        padded(number, width, &mut out);
        out.push(after);
    }
    clock(seconds % 86_400, &mut out);
    out.extend_from_slice(b" UTC");
    String::from_utf8(out).unwrap_or_default()
}

/// SIPp's stamp of log lines and statistics: date and time with microseconds, and seconds since 1970, parted
/// by tabs; in UTC.
pub fn timestamp(micros: u64) -> String {
    let mut out = Vec::new();
    write_timestamp(micros, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// SIPp's stamp of log lines: date and time with microseconds, and seconds since 1970, parted by tabs;
/// in UTC.
pub(super) fn write_timestamp(micros: u64, out: &mut Vec<u8>) {
    let seconds = micros / 1_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    padded(year, 4, out);
    out.push(b'-');
    padded(month, 2, out);
    out.push(b'-');
    padded(day, 2, out);
    out.push(b'\t');
    clock(seconds % 86_400, out);
    out.push(b'.');
    padded(micros % 1_000_000, 6, out);
    out.push(b'\t');
    push_u64(seconds, out);
    out.push(b'.');
    padded(micros % 1_000_000, 6, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: fn(u64, &mut Vec<u8>), micros: u64) -> String {
        let mut out = Vec::new();
        write(micros, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_are_right() {
        assert_eq!(text(write_date, 0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(text(write_date, 1_635_146_455_000_000), "Mon, 25 Oct 2021 07:20:55 GMT");
        assert_eq!(text(write_date, 951_782_400_000_000), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(text(write_date, 951_868_799_000_000), "Tue, 29 Feb 2000 23:59:59 GMT");
        assert_eq!(text(write_date, 4_107_542_400_000_000), "Mon, 01 Mar 2100 00:00:00 GMT");
        let stamp = text(write_timestamp, 1_795_308_346_339_848);
        assert_eq!(stamp, "2026-11-22\t00:45:46.339848\t1795308346.339848");
        assert!(!text(write_date, u64::MAX).is_empty() && !text(write_timestamp, u64::MAX).is_empty());
    }
}
