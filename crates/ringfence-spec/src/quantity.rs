//! Sizes, durations and counts as people write them (`512M`, `30s`, `64`), parsed once.
//! A value of these types is never zero and never overflowed: the type is the proof.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Error for an invalid quantity. The message names the text and the accepted forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityError {
    message: String,
}

impl QuantityError {
    fn new(text: &str, why: &str, form: &str) -> Self {
        Self { message: format!("`{text}` {why}; {form}") }
    }
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for QuantityError {}

/// A number of bytes, at least 1 and at most 2^50: more than any host has, little enough to add up safely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

/// A length of time, at least 1 ms and at most a year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// A number of things (processes, descriptors), at least 1 and at most 2^22, Linux's own `pid_max` ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(u32);

const BYTES_MAX: u64 = 1 << 50;
const MILLIS_MAX: u64 = 366 * 24 * 3600 * 1000;
const COUNT_MAX: u64 = 1 << 22;

const BYTES_FORM: &str = "write a whole number with K, M or G, such as `512M`";
const SPAN_FORM: &str = "write a whole number with ms, s, m or h, such as `30s`";
const COUNT_FORM: &str = "write a whole number such as `64`";

impl ByteSize {
    /// `bytes` as a size, or `None` when it is zero or past the ceiling.
    pub const fn new(bytes: u64) -> Option<Self> {
        if bytes == 0 || bytes > BYTES_MAX { None } else { Some(Self(bytes)) }
    }

    /// `mib` mebibytes; meant for constants, so it saturates at the bounds instead of failing.
    pub const fn mib(mib: u32) -> Self {
        Self(if mib == 0 { 1 } else { (mib as u64) << 20 })
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Span {
    /// `millis` as a span, or `None` when it is zero or past the ceiling.
    pub const fn from_millis(millis: u64) -> Option<Self> {
        if millis == 0 || millis > MILLIS_MAX { None } else { Some(Self(millis)) }
    }

    /// `secs` seconds; meant for constants, so zero becomes one millisecond.
    pub const fn secs(secs: u32) -> Self {
        Self(if secs == 0 { 1 } else { (secs as u64) * 1000 })
    }

    /// The length in milliseconds.
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The same length as the standard library's type.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl Count {
    /// `n` as a count, or `None` when it is zero or past the ceiling.
    pub const fn new(n: u32) -> Option<Self> {
        if n == 0 || n as u64 > COUNT_MAX { None } else { Some(Self(n)) }
    }

    /// A constant count; zero becomes one.
    pub const fn of(n: u32) -> Self {
        Self(if n == 0 { 1 } else { n })
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// How a quantity is written.
struct Form {
    units: &'static [(&'static str, u64)],
    max: u64,
    example: &'static str,
    shown: fn(u64) -> String,
}

const BYTES: Form = Form {
    units: &[
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("kb", 1 << 10),
        ("mb", 1 << 20),
        ("gb", 1 << 30),
        ("k", 1 << 10),
        ("m", 1 << 20),
        ("g", 1 << 30),
        ("b", 1),
        ("", 1),
    ],
    max: BYTES_MAX,
    example: BYTES_FORM,
    shown: |bytes| ByteSize(bytes).to_string(),
};

const SPANS: Form = Form {
    // A bare number is refused: `--timeout 30` reads as seconds to some and milliseconds to others.
    units: &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)],
    max: MILLIS_MAX,
    example: SPAN_FORM,
    shown: |millis| Span(millis).to_string(),
};

const COUNTS: Form =
    Form { units: &[("", 1)], max: COUNT_MAX, example: COUNT_FORM, shown: |n| n.to_string() };

impl FromStr for ByteSize {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        BYTES.parse(text).map(Self)
    }
}

impl FromStr for Span {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        SPANS.parse(text).map(Self)
    }
}

impl FromStr for Count {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let n = COUNTS.parse(text)?;
        Ok(Self(u32::try_from(n).unwrap_or(u32::MAX)))
    }
}

impl Form {
    fn parse(&self, text: &str) -> Result<u64, QuantityError> {
        let err = |why: &str| QuantityError::new(text, why, self.example);
        let lower = text.trim().to_ascii_lowercase();
        if lower.starts_with('-') {
            return Err(err("is negative"));
        }
        let digits_end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
        let (digits, unit) = lower.split_at(digits_end);
        if matches!(&*lower, "none" | "off" | "unlimited" | "infinity" | "inf" | "never" | "max") {
            let most = (self.shown)(self.max);
            return Err(err(&format!("is no limit, and there always is one: {most} is the most")));
        }
        if digits.is_empty() {
            return Err(err("is not a number"));
        }
        let Some(scale) = self.scale(unit.trim_start()) else {
            // The same amount in a smaller unit, if it is one.
            let whole = self.sum(&lower).filter(|whole| (1..=self.max).contains(whole));
            let why = match unit.chars().next() {
                None => "has no unit",
                Some('.' | ',') => "is not a whole number",
                Some(_) if unit.contains(|c: char| c.is_ascii_digit()) => "has several units",
                Some(_) => "has an unknown unit",
            };
            return Err(match whole {
                Some(whole) => {
                    QuantityError::new(text, why, &format!("write `{}`", (self.shown)(whole)))
                }
                None => err(why),
            });
        };
        let value = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(scale));
        match value.filter(|n| *n <= self.max) {
            None => Err(err(&format!("is too large: {} is the most", (self.shown)(self.max)))),
            Some(0) => Err(err("is zero, which would allow nothing")),
            Some(value) => Ok(value),
        }
    }

    fn scale(&self, unit: &str) -> Option<u64> {
        self.units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale)
    }

    /// Adds up `1h30m` and `1.5h`; `None` if it is no whole number in the smallest unit, or not written so.
    fn sum(&self, text: &str) -> Option<u64> {
        let (mut sum, mut rest) = (0_u64, text);
        while !rest.is_empty() {
            let number_end = rest.find(|c: char| !(c.is_ascii_digit() || ".,".contains(c)))?;
            let (number, after) = rest.split_at(number_end);
            let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_end);
            let scale = self.scale(unit.trim())?;
            let (whole, part) = number.split_once(['.', ',']).unwrap_or((number, ""));
            let tens = 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?;
            let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? };
            let part = part.checked_mul(scale).filter(|part| part % tens == 0)? / tens;
            let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
            sum = sum.checked_add(whole)?.checked_add(part)?;
            rest = after;
        }
        Some(sum)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, unit) = match self.0 {
            b if b % (1 << 30) == 0 => (b >> 30, "G"),
            b if b % (1 << 20) == 0 => (b >> 20, "M"),
            b if b % (1 << 10) == 0 => (b >> 10, "K"),
            b => (b, ""),
        };
        write!(f, "{n}{unit}")
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, unit) = match self.0 {
            ms if ms % 60_000 == 0 => (ms / 60_000, "m"),
            ms if ms % 1000 == 0 => (ms / 1000, "s"),
            ms => (ms, "ms"),
        };
        write!(f, "{n}{unit}")
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u32(self.0)
    }
}

/// Reads a quantity from a number or from its written form.
struct Written<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = QuantityError>> Visitor<'_> for Written<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as 64, \"512M\" or \"30s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<T, E> {
        n.to_string().parse().map_err(E::custom)
    }

    fn visit_u32<E: de::Error>(self, n: u32) -> Result<T, E> {
        self.visit_u64(n.into())
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<T, E> {
        n.to_string().parse().map_err(E::custom)
    }
}

macro_rules! deserialize_written {
    ($($name:ty, $as_written:ident;)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let visitor = Written(std::marker::PhantomData);
                // Between our own processes a value comes as it was serialised; a person may write either form.
                if d.is_human_readable() { d.deserialize_any(visitor) } else { d.$as_written(visitor) }
            }
        }
    )*};
}
deserialize_written! {
    ByteSize, deserialize_u64;
    Span, deserialize_str;
    Count, deserialize_u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Result<u64, String> {
        text.parse::<ByteSize>().map(ByteSize::bytes).map_err(|e| e.to_string())
    }

    #[test]
    fn sizes_people_write_are_read() {
        assert_eq!(bytes("512M"), Ok(512 << 20));
        assert_eq!(bytes("4g"), Ok(4 << 30));
        assert_eq!(bytes("10MiB"), Ok(10 << 20));
        assert_eq!(bytes("1"), Ok(1));
    }

    #[test]
    fn zero_negative_and_overflowing_values_are_refused_by_name() {
        assert!(bytes("0").unwrap_err().contains("is zero"));
        assert!(bytes("0M").unwrap_err().contains("is zero"));
        assert!(bytes("-1").unwrap_err().contains("is negative"));
        assert!(bytes("100000000000000000000").unwrap_err().contains("is too large"));
        assert!(bytes("9999999999G").unwrap_err().contains("is too large"));
        assert!(bytes("12Q").unwrap_err().contains("unknown unit"));
        assert!(bytes("").unwrap_err().contains("not a number"));
        assert!(bytes("1.5Q").unwrap_err().contains("not a whole number"));
        assert!("30".parse::<Span>().unwrap_err().to_string().contains("has no unit"));
        assert!("0s".parse::<Span>().is_err());
        assert!("0".parse::<Count>().is_err());
        assert!("-5".parse::<Count>().is_err());
    }

    #[test]
    fn what_is_nearly_right_is_told_as_it_is_written() {
        let span = |text: &str| text.parse::<Span>().unwrap_err().to_string();
        let count = |text: &str| text.parse::<Count>().unwrap_err().to_string();
        for (told, expected) in [
            (span("1.5s"), "`1.5s` is not a whole number; write `1500ms`"),
            (span("1h30m"), "`1h30m` has several units; write `90m`"),
            (span("1,5h"), "`1,5h` is not a whole number; write `90m`"),
            (bytes("1.5G").unwrap_err(), "`1.5G` is not a whole number; write `1536M`"),
            (
                bytes("0.3").unwrap_err(),
                "`0.3` is not a whole number; write a whole number with K, M or G, such as `512M`",
            ),
            (
                span("90"),
                "`90` has no unit; write a whole number with ms, s, m or h, such as `30s`",
            ),
            (
                span("1d"),
                "`1d` has an unknown unit; write a whole number with ms, s, m or h, such as `30s`",
            ),
            (
                count("99999999"),
                "`99999999` is too large: 4194304 is the most; write a whole number such as `64`",
            ),
        ] {
            assert_eq!(told, expected);
        }
        let none = span("none");
        assert!(none.starts_with("`none` is no limit, and there always is one: 527040m"), "{none}");
    }

    #[test]
    fn a_bare_number_of_seconds_is_refused_because_its_unit_is_a_guess() {
        assert!(serde_json::from_str::<Span>("30").is_err());
        assert_eq!(serde_json::from_str::<Span>("\"30s\"").unwrap().millis(), 30_000);
    }

    proptest! {
        #[test]
        fn display_parses_back(b in 1u64..=BYTES_MAX, ms in 1u64..=MILLIS_MAX) {
            let size = ByteSize::new(b).unwrap();
            prop_assert_eq!(size.to_string().parse::<ByteSize>().unwrap(), size);
            let span = Span::from_millis(ms).unwrap();
            prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = (text.parse::<ByteSize>(), text.parse::<Span>(), text.parse::<Count>());
        }
    }
}
