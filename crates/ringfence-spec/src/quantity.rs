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

impl FromStr for ByteSize {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let units: &[(&str, u64)] = &[
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
        ];
        number_with_unit(text, units, BYTES_MAX, BYTES_FORM).map(Self)
    }
}

impl FromStr for Span {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        // A bare number is refused: `--timeout 30` reads as seconds to some and milliseconds to others.
        let units: &[(&str, u64)] = &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
        number_with_unit(text, units, MILLIS_MAX, SPAN_FORM).map(Self)
    }
}

impl FromStr for Count {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let n = number_with_unit(text, &[("", 1)], COUNT_MAX, COUNT_FORM)?;
        Ok(Self(u32::try_from(n).unwrap_or(u32::MAX)))
    }
}

fn number_with_unit(
    text: &str,
    units: &[(&str, u64)],
    max: u64,
    form: &str,
) -> Result<u64, QuantityError> {
    let err = |why: &str| QuantityError::new(text, why, form);
    let lower = text.trim().to_ascii_lowercase();
    if lower.starts_with('-') {
        return Err(err("is negative"));
    }
    let digits_end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(digits_end);
    if digits.is_empty() {
        return Err(err("is not a number"));
    }
    let scale = units
        .iter()
        .find(|(name, _)| *name == unit.trim_start())
        .map(|(_, scale)| *scale)
        .ok_or_else(|| err(if unit.is_empty() { "has no unit" } else { "has an unknown unit" }))?;
    let value = digits
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(scale))
        .filter(|n| *n <= max)
        .ok_or_else(|| err("is too large"))?;
    if value == 0 { Err(err("is zero, which would allow nothing")) } else { Ok(value) }
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
        assert!(bytes("1.5G").unwrap_err().contains("unknown unit"));
        assert!("30".parse::<Span>().unwrap_err().to_string().contains("has no unit"));
        assert!("0s".parse::<Span>().is_err());
        assert!("0".parse::<Count>().is_err());
        assert!("-5".parse::<Count>().is_err());
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
