//! The date at which the clocks of simulated hosts start.

use std::fmt;

/// Seconds from 1970-01-01 00:00:00 UTC to simulated time zero. Completion times in nanoseconds
/// since 1970 must fit 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartDate(u64);

const DAY: u64 = 86_400;
const YEARS: std::ops::RangeInclusive<u64> = 1970..=2500;
const MONTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl StartDate {
    /// 2026-01-01 00:00:00 UTC, the same in every run. It is recent, so that programs that compare
    /// it with dates of files and certificates continue.
    pub const DEFAULT: Self = Self(1_767_225_600);

    /// Reads `2026-01-31`, `2026-01-31T12:30`, `2026-01-31T12:30:59` or the same with a `Z`; always UTC.
    ///
    /// # Errors
    /// If the text is not a date of this form. The message shows the form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a date from 1970 to 2500: write 2026-01-31, or 2026-01-31T12:30:00Z with a time of day (UTC)");
        let (day, time) = text.split_once(['T', ' ']).map_or((text, "00:00"), |(day, time)| (day, time.strip_suffix('Z').unwrap_or(time)));
        let [year, month, day] = numbers(day, '-', &[4, 2, 2]).and_then(|fields| fields.try_into().ok()).ok_or_else(wrong)?;
        let time = numbers(time, ':', &[2, 2]).or_else(|| numbers(time, ':', &[2, 2, 2])).ok_or_else(wrong)?;
        let [hour, minute, second] = [time[0], time[1], time.get(2).copied().unwrap_or(0)];
        let is_date = YEARS.contains(&year) && (1..=12).contains(&month) && day >= 1 && day <= days_of(year, month);
        if !is_date || hour > 23 || minute > 59 || second > 59 {
            return Err(wrong());
        }
        let days = (1970..year).map(days_of_year).sum::<u64>() + (1..month).map(|month| days_of(year, month)).sum::<u64>() + day - 1;
        Ok(Self(days * DAY + hour * 3600 + minute * 60 + second))
    }

    /// Returns the seconds since 1970-01-01 00:00:00 UTC.
    pub fn unix_seconds(self) -> u64 {
        self.0
    }
}

impl Default for StartDate {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Writes the form that `parse` reads, with the time of day.
impl fmt::Display for StartDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut days, second) = (self.0 / DAY, self.0 % DAY);
        let (mut year, mut month) = (1970, 1);
        while days >= days_of_year(year) {
            days -= days_of_year(year);
            year += 1;
        }
        while days >= days_of(year, month) {
            days -= days_of(year, month);
            month += 1;
        }
        write!(f, "{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z", days + 1, second / 3600, second / 60 % 60, second % 60)
    }
}

/// Splits text into numbers with the given numbers of digits.
fn numbers(text: &str, separator: char, digits: &[usize]) -> Option<Vec<u64>> {
    let words: Vec<&str> = text.split(separator).collect();
    let fits = words.len() == digits.len() && words.iter().zip(digits).all(|(word, digits)| word.len() == *digits && is_number(word));
    fits.then(|| words.iter().map(|word| word.parse().unwrap_or_default()).collect())
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_year(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

/// Returns the days of a month. Months count from 1.
fn days_of(year: u64, month: u64) -> u64 {
    MONTHS[month as usize - 1] + u64::from(month == 2 && is_leap(year))
}

#[cfg(test)]
mod tests {
    use super::StartDate;

    #[test]
    fn dates_are_read_and_written_as_the_calendar_has_them() {
        // As `date -u -d TEXT +%s` prints them.
        let cases = [
            ("1970-01-01", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2007-06-25", 1_182_729_600),
            ("2026-01-01", 1_767_225_600),
            ("2100-03-01T00:00", 4_107_542_400),
            ("2500-12-31 12:00:00", 16_756_718_400),
        ];
        for (text, seconds) in cases {
            let date = StartDate::parse(text).unwrap();
            assert_eq!(date.unix_seconds(), seconds, "{text}");
            assert_eq!(StartDate::parse(&date.to_string()), Ok(date));
        }
        assert_eq!(StartDate::DEFAULT.to_string(), "2026-01-01T00:00:00Z");
    }

    #[test]
    fn what_is_no_date_is_told_with_one_that_is() {
        for text in [
            "",
            "tomorrow",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "26-01-01",
            "2026-1-1",
            "2026-01-01T24:00",
            "1969-12-31",
            "2501-01-01",
            "2026-01-01T1:2",
            "2026-01-01T00:00:00+02:00",
        ] {
            assert!(StartDate::parse(text).unwrap_err().contains("write 2026-01-31"), "{text}");
        }
    }
}
