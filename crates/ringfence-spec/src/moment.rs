//! Moments as people and protocols write them.

/// Milliseconds since 1970 as ISO 8601, in UTC. Days by the civil calendar's own arithmetic: eras of 400 years, years
/// from March.
pub fn utc(at_ms: i64) -> String {
    let (secs, ms) = (at_ms.div_euclid(1000), at_ms.rem_euclid(1000));
    let (days, second) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_in_utc() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(utc(1_794_700_799_999), "2026-11-14T23:59:59.999Z");
        assert_eq!(utc(-1), "1969-12-31T23:59:59.999Z");
    }
}
