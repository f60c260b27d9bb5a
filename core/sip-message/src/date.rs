//! The value of Date (RFC 3261 section 20.17).

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// The text of one second, kept until another is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct DateText {
    second: u64,
    /// Empty (all zero) at first.
    text: [u8; 29],
}

impl DateText {
    /// `Sat, 13 Nov 2010 23:29:00 GMT`: the value of Date at this second since 1970 by the wall clock.
    pub fn at(&mut self, second: u64) -> &[u8] {
        if self.second != second || self.text[0] == 0 {
            *self = DateText { second, text: text_of(second) };
        }
        &self.text
    }
}

fn text_of(second: u64) -> [u8; 29] {
    let (days, rest) = (second / 86_400, second % 86_400);
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 00 Jan 1970 00:00:00 GMT";
    text[..3].copy_from_slice(DAYS[(days % 7) as usize]);
    text[8..11].copy_from_slice(MONTHS[month]);
    let mut two = |at: usize, number: u64| {
        text[at] = b'0' + (number / 10 % 10) as u8;
        text[at + 1] = b'0' + (number % 10) as u8;
    };
    two(5, day);
    two(12, year / 100);
    two(14, year);
    two(17, rest / 3_600);
    two(20, rest / 60 % 60);
    two(23, rest % 60);
    text
}

/// Year, month from 0, and day from 1, of a day since 1970.
fn civil(days: u64) -> (u64, usize, u64) {
    // Years that begin with March end with the day that some of them lack; eras of 400 are all alike.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12;
    (400 * era + year + u64::from(month < 2), month as usize, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> String {
        String::from_utf8(DateText::default().at(second).to_vec()).unwrap()
    }

    #[test]
    fn dates_are_written_as_the_rfc_has_them() {
        assert_eq!(at(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        // The example of section 20.17.
        assert_eq!(at(1_289_690_940), "Sat, 13 Nov 2010 23:29:00 GMT");
        assert_eq!(at(951_782_399), "Mon, 28 Feb 2000 23:59:59 GMT");
        assert_eq!(at(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(at(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
        assert_eq!(at(253_402_300_799), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    /// Days one after the other are counted by hand.
    #[test]
    fn every_day_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1970, 0, 1);
        for days in 0..200_000 {
            assert_eq!(civil(days), (year, month, day), "{days}");
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month];
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month == 12 {
                (month, year) = (0, year + 1);
            }
        }
    }

    #[test]
    fn a_text_is_that_of_the_second_asked_for() {
        let mut text = DateText::default();
        for second in [0, 1, 1, 0, 1_289_690_940, 0] {
            assert_eq!(text.at(second), at(second).as_bytes());
        }
    }
}
