//! Conditional and range requests (RFC 9110, sections 13 and 14): `If-Match`, `If-None-Match`, `If-Range`, and a `Range` of one
//! part.

use std::ops::Range;

use axum::http::{HeaderMap, HeaderValue, header};
use ringfence_engine::files::{FileTag, Precondition};

use super::headers::single;

/// Value of `ETag` for a file.
pub(super) fn etag(tag: &FileTag) -> HeaderValue {
    // Hexadecimal digits between quotes are always a header's value.
    HeaderValue::from_str(&format!("\"{tag}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Result of evaluating conditions and range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// The whole file.
    Whole,
    /// A part of it.
    Part(Range<u64>),
    /// A part that the query asks for, as a response of its own.
    Slice(Range<u64>),
    /// Nothing: the client has it.
    NotModified,
    /// Nothing: it is not the file that the client expects.
    PreconditionFailed,
    /// Nothing: the range is not in the file.
    RangeNotSatisfiable,
}

/// Decides what of a file a request gets, in the order of RFC 9110, section 13.2.2. `slice` is the part that the query asks
/// for; it goes before a `Range`.
pub(super) fn evaluate(
    headers: &HeaderMap,
    tag: &FileTag,
    total_bytes: u64,
    slice: Option<&Range<u64>>,
) -> Selection {
    let has = |tags: &Tags| match tags {
        Tags::Any => true,
        Tags::Some(tags) => tags.iter().any(|one| one == tag.as_str()),
    };
    if tags(headers, &header::IF_MATCH, Compare::Strong).is_some_and(|tags| !has(&tags)) {
        return Selection::PreconditionFailed;
    }
    if tags(headers, &header::IF_NONE_MATCH, Compare::Weak).is_some_and(|tags| has(&tags)) {
        return Selection::NotModified;
    }
    if let Some(Range { start, end }) = slice {
        return Selection::Slice(*start.min(&total_bytes)..*end.min(&total_bytes));
    }
    let range = single(headers, &header::RANGE).and_then(|range| range.to_str().ok());
    let Some(range) = range else { return Selection::Whole };
    // A date is never known here, so such a condition does not hold.
    if headers.contains_key(header::IF_RANGE)
        && !tags(headers, &header::IF_RANGE, Compare::Strong).is_some_and(|tags| has(&tags))
    {
        return Selection::Whole;
    }
    // Another unit, several parts, or no range at all: the header is ignored.
    parse_range(range, total_bytes).unwrap_or(Selection::Whole)
}

/// State that a file must have for a request to change it.
pub(super) fn precondition(headers: &HeaderMap) -> Precondition {
    match tags(headers, &header::IF_MATCH, Compare::Strong) {
        Some(Tags::Any) => return Precondition::Present,
        Some(Tags::Some(tags)) => return Precondition::OneOf(tags),
        None => {}
    }
    match tags(headers, &header::IF_NONE_MATCH, Compare::Weak) {
        Some(Tags::Any) => Precondition::Absent,
        Some(Tags::Some(tags)) => Precondition::NoneOf(tags),
        None => Precondition::Any,
    }
}

enum Tags {
    Any,
    Some(Vec<String>),
}

/// Treatment of weak tags. Tags of this service are strong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compare {
    Strong,
    Weak,
}

/// Tags of a header, which may be sent several times.
fn tags(headers: &HeaderMap, name: &header::HeaderName, compare: Compare) -> Option<Tags> {
    let mut all = headers.get_all(name).iter().peekable();
    all.peek()?;
    let mut tags = Vec::new();
    for value in all {
        for tag in value.to_str().unwrap_or_default().split(',').map(str::trim) {
            if tag == "*" {
                return Some(Tags::Any);
            }
            let tag = match (tag.strip_prefix("W/"), compare) {
                (Some(weak), Compare::Weak) => weak,
                (Some(_), Compare::Strong) => continue,
                (None, _) => tag,
            };
            tags.extend(tag.strip_prefix('"').and_then(|t| t.strip_suffix('"')).map(str::to_owned));
        }
    }
    Some(Tags::Some(tags))
}

/// Parses a range of one part. `None` if it is to be ignored.
fn parse_range(text: &str, total_bytes: u64) -> Option<Selection> {
    let (unit, range) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || range.contains(',') {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // A number too large for 64 bits is past the end of every file.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (first, last) {
        ("", last) => {
            let n = number(last)?.min(total_bytes);
            total_bytes - n..total_bytes
        }
        (first, "") => number(first)?..total_bytes,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            first..last.saturating_add(1).min(total_bytes)
        }
    };
    Some(if range.start < range.end {
        Selection::Part(range)
    } else {
        Selection::RangeNotSatisfiable
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_answered_and_what_is_no_range_is_ignored() {
        let part = |range| Some(Selection::Part(range));
        let out = || Some(Selection::RangeNotSatisfiable);
        let rows = [
            ("bytes=0-0", part(0..1)),
            ("bytes=2-", part(2..10)),
            ("bytes=-3", part(7..10)),
            ("bytes=-99", part(0..10)),
            ("Bytes=5-99", part(5..10)),
            ("bytes=10-", out()),
            ("bytes=-0", out()),
            ("bytes=99999999999999999999999-", out()),
            ("bytes=0-99999999999999999999999", part(0..10)),
            ("bytes=3-2", None),
            ("bytes=0-1,3-4", None),
            ("bytes=+1-2", None),
            ("bytes=a-b", None),
            ("bytes=-", None),
            ("lines=1-2", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_range(text, 10), expected, "{text}");
        }
        assert_eq!(parse_range("bytes=0-", 0), out());
    }
}
