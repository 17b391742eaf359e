//! Tells the header fields and query parameters that authenticate a request from those that a host stores or shows: a program
//! must not have the host publish a credential, as in the metadata of a public file or the title of an issue.

/// Last words of the names of fields that authenticate.
const LAST_WORDS: &[&str] = &[
    "accesstoken",
    "apikey",
    "appid",
    "appkey",
    "auth",
    "authorization",
    "authtoken",
    "cookie",
    "credential",
    "jwt",
    "key",
    "passwd",
    "password",
    "secret",
    "token",
];

/// Words in the names of fields that are stored with what a request sends, or only name it.
const STORED_WORDS: &[&str] =
    &["annotation", "idempotency", "info", "label", "meta", "metadata", "surrogate", "tag", "tags"];

/// Returns true if a header field or query parameter of this name authenticates: `X-Api-Key`, `access_token`.
pub(crate) fn authenticates(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(['-', '_', '.']);
    let is_stored = words.clone().any(|word| STORED_WORDS.contains(&word));
    !is_stored && words.next_back().is_some_and(|word| LAST_WORDS.contains(&word))
}

/// Replaces the whole values of parameters of a query that authenticate; `None` if the placeholder is anywhere else.
pub(crate) fn replace_in_query(query: &str, placeholder: &str, value: &str) -> Option<String> {
    let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, held)) if held == placeholder && authenticates(name) => {
            Some(format!("{name}={value}"))
        }
        _ => (!parameter.contains(placeholder)).then(|| parameter.to_owned()),
    });
    parameters.collect::<Option<Vec<_>>>().map(|parameters| parameters.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_authenticate_are_known_by_their_last_word() {
        for name in [
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "x-api-key",
            "api-key",
            "apikey",
            "X-Auth-Token",
            "PRIVATE-TOKEN",
            "Ocp-Apim-Subscription-Key",
            "x-goog-api-key",
            "x-amz-security-token",
            "access_token",
            "key",
            "appid",
        ] {
            assert!(authenticates(name), "{name}");
        }
        for name in [
            "User-Agent",
            "Referer",
            "x-amz-meta-a",
            "x-amz-meta-api-key",
            "X-Goog-Meta-Token",
            "x-ms-meta-key",
            "X-Object-Meta-Auth",
            "X-Bz-Info-Key",
            "Idempotency-Key",
            "Surrogate-Key",
            "title",
            "text",
            "",
        ] {
            assert!(!authenticates(name), "{name}");
        }
    }

    #[test]
    fn in_a_query_only_the_whole_value_of_such_a_parameter_is_replaced() {
        let replaced = |query: &str| replace_in_query(query, "PPP", "v");
        assert_eq!(replaced("a=1&key=PPP&b").unwrap(), "a=1&key=v&b");
        assert_eq!(replaced("access_token=PPP&api_key=PPP").unwrap(), "access_token=v&api_key=v");
        for query in ["title=PPP", "key=PPPx", "PPP=1", "PPP", "key=PPP&title=PPP", "a=1;key=PPP"] {
            assert_eq!(replaced(query), None, "{query}");
        }
    }
}
