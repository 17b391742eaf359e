//! Checks a message before it is stored: method, id, whether it is small enough, and whether each object has a key once.
//! A tree of many small values takes a dozen times the memory of its text, so values are counted before they are allocated.
//! Of two values of one key, two parsers may each take another: the one that applies the limits, and the SDK's.

use std::collections::HashSet;
use std::fmt;

use rmcp::model::{ErrorCode, RequestId};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of values in a message, including keys. No tool takes as many; a file to write is one.
const VALUES_MAX: usize = 4096;

/// Maximum number of values in `initialize`, which is stored as long as the client is connected.
const HELLO_VALUES_MAX: usize = 1024;

/// Maximum bytes of `initialize`.
const HELLO_BYTES_MAX: usize = 64 << 10;

/// Maximum bytes of `_meta`, which is stored during the call.
const META_BYTES_MAX: usize = 16 << 10;

/// Properties of a message that decide how it is handled.
#[derive(Debug)]
pub(crate) struct MessageShape {
    /// It is a request to `initialize`.
    pub(crate) is_initialize: bool,
    /// Its parameters name a revision of the protocol, as those of `initialize` do.
    pub(crate) names_revision: bool,
    /// It asks about an existing run, or ends one.
    pub(crate) is_about_a_run: bool,
    /// Id to respond to; `None` for a notification.
    pub(crate) id: Option<RequestId>,
}

/// Reason for rejecting a message.
#[derive(Debug)]
pub(crate) struct InvalidMessage {
    pub(crate) code: ErrorCode,
    pub(crate) said: String,
    pub(crate) id: Option<RequestId>,
}

impl InvalidMessage {
    fn new(code: ErrorCode, said: impl Into<String>, id: Option<RequestId>) -> Self {
        Self { code, said: said.into(), id }
    }
}

#[derive(Deserialize)]
struct Fields {
    method: Option<String>,
    // A missing id is not the same as `null`.
    #[serde(default, deserialize_with = "there")]
    id: Option<Value>,
    #[serde(default)]
    params: Value,
}

fn there<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// Checks a message against the limits. Returns `None` if it is not a message at all; the parser that reads it next
/// reports the error.
pub(crate) fn of(message: &[u8]) -> Result<Option<MessageShape>, InvalidMessage> {
    let Counted { n_values, repeats_key } = count(message);
    if n_values > VALUES_MAX {
        let said = format!("a message has at most {VALUES_MAX} values");
        return Err(InvalidMessage::new(ErrorCode::INVALID_REQUEST, said, None));
    }
    if repeats_key {
        let said = "an object of the message has a key twice";
        return Err(InvalidMessage::new(ErrorCode::INVALID_REQUEST, said, None));
    }
    let Ok(fields) = serde_json::from_slice::<Fields>(message) else { return Ok(None) };
    let Some(method) = fields.method else { return Ok(None) };
    let id = match fields.id.map(serde_json::from_value::<RequestId>) {
        None => None,
        Some(Ok(id)) => Some(id),
        // JSON-RPC 2.0, 5: a response to a request whose id cannot be determined has the id null.
        Some(Err(_)) => {
            let said = "an id is a text or a whole number that fits in 64 bits";
            return Err(InvalidMessage::new(ErrorCode::INVALID_REQUEST, said, None));
        }
    };
    let is_initialize = method == "initialize";
    if is_initialize && (message.len() > HELLO_BYTES_MAX || n_values > HELLO_VALUES_MAX) {
        let said = format!(
            "`initialize` has at most {HELLO_BYTES_MAX} bytes and {HELLO_VALUES_MAX} values"
        );
        return Err(InvalidMessage::new(ErrorCode::INVALID_REQUEST, said, id));
    }
    if fields.params.get("_meta").is_some_and(|meta| bytes(meta) > META_BYTES_MAX) {
        let said = format!("`_meta` has at most {META_BYTES_MAX} bytes");
        return Err(InvalidMessage::new(ErrorCode::INVALID_REQUEST, said, id));
    }
    if let Some(said) = invalid_params(&method, &fields.params).filter(|_| id.is_some()) {
        return Err(InvalidMessage::new(ErrorCode::INVALID_PARAMS, said, id));
    }
    let waits = method == "tools/call" && fields.params["name"] == "wait";
    Ok(Some(MessageShape {
        is_initialize,
        names_revision: fields.params.get("protocolVersion").is_some(),
        is_about_a_run: waits || method.starts_with("tasks/"),
        id,
    }))
}

/// Describes invalid parameters that the SDK takes for a message of another kind, or for none.
fn invalid_params(method: &str, params: &Value) -> Option<&'static str> {
    if !(params.is_object() || params.is_null()) {
        return Some("`params` must be an object");
    }
    let cursor = params.get("cursor").unwrap_or(&Value::Null);
    (method.ends_with("/list") && !(cursor.is_string() || cursor.is_null()))
        .then_some("`cursor` must be a string")
}

/// Returns the length of a value in JSON.
fn bytes(value: &impl Serialize) -> usize {
    struct ByteCounter(usize);
    impl std::io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut written = ByteCounter(0);
    serde_json::to_writer(&mut written, value).map_or(usize::MAX, |()| written.0)
}

/// Values of a message, up to its first syntax error.
#[derive(Default)]
struct Counted {
    n_values: usize,
    /// An object has two values of one key.
    repeats_key: bool,
}

/// Counts the values, until there are too many.
fn count(message: &[u8]) -> Counted {
    let mut counted = Counted::default();
    // The parser that reads the message next reports syntax errors.
    let _ = Count(&mut counted).deserialize(&mut serde_json::Deserializer::from_slice(message));
    counted
}

/// Counts values. Keeps the keys of the objects it is in.
struct Count<'a>(&'a mut Counted);

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.0.n_values += 1;
        if self.0.n_values > VALUES_MAX {
            return Err(D::Error::custom("too many values"));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Count(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            self.0.n_values += 1;
            self.0.repeats_key |= !keys.insert(key);
            map.next_value_seed(Count(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn flaw(message: &str) -> Option<(String, Option<RequestId>)> {
        of(message.as_bytes()).err().map(|flaw| (flaw.said, flaw.id))
    }

    #[test]
    fn ordinary_messages_have_an_outline() {
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        assert!(of(hello.as_bytes()).unwrap().unwrap().is_initialize);
        let file = "x".repeat(3 << 20);
        let call = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call",
            "params": {"name": "write_file", "arguments": {"content": file}}});
        let shape = of(call.to_string().as_bytes()).unwrap().unwrap();
        assert!(!shape.is_about_a_run);
        assert_eq!(shape.id, Some(RequestId::String("a".into())));
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(of(note.as_bytes()).unwrap().unwrap().id, None);
    }

    #[test]
    fn what_is_no_request_has_none() {
        for message in ["", "{", "[]", "1", r#"{"id":null,"error":{}}"#, r#"{"method":1}"#] {
            assert!(of(message.as_bytes()).unwrap().is_none(), "{message}");
        }
    }

    #[test]
    fn what_would_take_much_memory_is_found_before_it_does() {
        let many = format!("[{}0]", "0,".repeat(VALUES_MAX));
        let keys: Vec<_> = (0..HELLO_VALUES_MAX / 2).map(|n| format!(r#""{n}":0"#)).collect();
        let long = "x".repeat(HELLO_BYTES_MAX);
        for params in [
            format!(r#"{{"_meta":{{"x":{many}}}}}"#),
            format!(r#"{{"capabilities":{{{}}}}}"#, keys.join(",")),
            format!(r#"{{"capabilities":"{long}"}}"#),
        ] {
            let hello =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
            assert!(flaw(&hello).is_some(), "{hello:.80}");
        }
        let call = |meta: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":"{meta}"}}}}"#
            )
        };
        assert_eq!(flaw(&call(&long)).unwrap().1, Some(RequestId::Number(1)));
        assert_eq!(flaw(&call("short")), None);
    }

    #[test]
    fn a_key_is_there_once() {
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"initialize","params":{}}"#;
        let escaped = r#"{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"initialize"}"#;
        let meta =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":0,"_meta":{}}}"#;
        for message in [hello, escaped, meta] {
            assert!(flaw(message).is_some_and(|(said, _)| said.contains("twice")), "{message}");
        }
        let nested =
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"id":1},"b":{"id":1}}}"#;
        assert_eq!(flaw(nested), None);
    }

    #[test]
    fn malformed_params_are_told_from_malformed_messages() {
        for (method, params) in
            [("tools/call", "[]"), ("ping", "1"), ("tools/list", r#"{"cursor":5}"#)]
        {
            let asked =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            let flaw = of(asked.as_bytes()).unwrap_err();
            assert_eq!(
                (flaw.code, flaw.id),
                (ErrorCode::INVALID_PARAMS, Some(RequestId::Number(1)))
            );
        }
        for (method, params) in
            [("ping", "null"), ("tools/list", r#"{"cursor":"x"}"#), ("x", r#"{"cursor":5}"#)]
        {
            let asked =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            assert_eq!(flaw(&asked), None, "{asked}");
        }
    }

    #[test]
    fn an_id_that_nobody_can_answer_to_is_told() {
        for id in ["null", "1.5", "{}", "[]", "true", "18446744073709551615"] {
            let ping = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(flaw(&ping).map(|flaw| flaw.1), Some(None), "{id}");
        }
        for id in ["1", "-1", "2.0", "\"\"", "9223372036854775807"] {
            let ping = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(flaw(&ping), None, "{id}");
        }
    }
}
