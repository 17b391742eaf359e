//! Headers that several modules read: values that may be there once, and media types.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Returns the value of a header that is there exactly once.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => Some(one),
        _ => None,
    }
}

/// Returns whether a text names a media type, with any parameters.
pub(super) fn is_media_type(text: &str, expected: &str) -> bool {
    let kind = text.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case(expected)
}

/// Returns whether the body is declared as JSON.
pub(super) fn declares_json(headers: &HeaderMap) -> bool {
    let kind = single(headers, &header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| is_media_type(kind, "application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_is_told_from_its_look_alikes() {
        let rows = [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            (" application/json ;x", true),
            ("application/jsonx", false),
            ("application/json-patch+json", false),
            ("text/plain;application/json", false),
            ("", false),
        ];
        for (text, expected) in rows {
            let mut headers = HeaderMap::new();
            headers.append(header::CONTENT_TYPE, text.parse().unwrap());
            assert_eq!(declares_json(&headers), expected, "{text}");
            headers.append(header::CONTENT_TYPE, text.parse().unwrap());
            assert!(!declares_json(&headers), "twice: {text}");
        }
    }
}
