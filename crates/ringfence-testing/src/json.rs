//! JSON documents whose keys must exist: reading an absent one fails the test.
//!
//! [`serde_json::Value`] answers an absent key with null. A misspelt key on both sides of an assertion is then null twice,
//! and the assertion holds.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

/// Length of the document in a panic's message: enough to recognize it, short enough to read.
const SHOWN_CHARS: usize = 600;

/// A JSON value. Indexing panics if the key or element is absent; [`Json::get`] is for those that may be.
///
/// A tree of its own, because indexing returns a reference and a wrapper of [`Value`] has no [`Json`] inside to refer to.
#[derive(Clone, Default, PartialEq)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(BTreeMap<String, Json>),
}

/// Builds a [`Json`](crate::Json) like `serde_json::json!`.
#[macro_export]
macro_rules! json {
    ($($json:tt)+) => { $crate::Json::from($crate::serde_json::json!($($json)+)) };
}

/// Key of an object or position in an array.
pub trait Key: fmt::Debug {
    /// Finds the element it names.
    fn find_in<'a>(&self, json: &'a Json) -> Option<&'a Json>;
}

impl Key for str {
    fn find_in<'a>(&self, json: &'a Json) -> Option<&'a Json> {
        json.as_object()?.get(self)
    }
}

impl Key for String {
    fn find_in<'a>(&self, json: &'a Json) -> Option<&'a Json> {
        self.as_str().find_in(json)
    }
}

impl Key for usize {
    fn find_in<'a>(&self, json: &'a Json) -> Option<&'a Json> {
        json.as_array()?.get(*self)
    }
}

impl<K: Key + ?Sized> Key for &K {
    fn find_in<'a>(&self, json: &'a Json) -> Option<&'a Json> {
        (**self).find_in(json)
    }
}

impl<K: Key> Index<K> for Json {
    type Output = Self;

    #[track_caller]
    fn index(&self, key: K) -> &Self {
        // No closure panics here: the message would give its line instead of the test's.
        let Some(found) = key.find_in(self) else {
            let there = match self {
                Self::Object(fields) => format!("the keys are {:?}", fields.keys()),
                Self::Array(items) => format!("it has {} elements", items.len()),
                _ => "it is neither an object nor an array".to_owned(),
            };
            let shown: String = self.to_string().chars().take(SHOWN_CHARS).collect();
            panic!("the document has no {key:?}; {there}: {shown}")
        };
        found
    }
}

impl Json {
    /// Parses a document.
    ///
    /// # Panics
    ///
    /// If the text is not JSON.
    #[track_caller]
    pub fn parse(text: impl AsRef<[u8]>) -> Self {
        let text = text.as_ref();
        let shown = || String::from_utf8_lossy(text).chars().take(SHOWN_CHARS).collect::<String>();
        match serde_json::from_slice(text) {
            Ok(json) => json,
            Err(e) => panic!("not JSON ({e}): {}", shown()),
        }
    }

    /// Parses a document per line.
    #[track_caller]
    pub fn lines(text: &str) -> Vec<Self> {
        text.lines().map(Self::parse).collect()
    }

    /// The element, if it exists.
    pub fn get(&self, key: impl Key) -> Option<&Self> {
        key.find_in(self)
    }

    /// The element at a JSON pointer (RFC 6901), if it exists.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |json, token| match json {
            Self::Array(items) => items.get(token.parse::<usize>().ok()?),
            _ => json.get(token.replace("~1", "/").replace("~0", "~")),
        })
    }

    /// Sets a field of an object, new or not.
    ///
    /// # Panics
    ///
    /// If this is not an object.
    #[track_caller]
    pub fn insert(&mut self, key: &str, value: impl Into<Self>) {
        let Self::Object(fields) = self else { panic!("not an object: {self}") };
        fields.insert(key.to_owned(), value.into());
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The value, if this is a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// The number, if this is one without sign and fraction.
    pub fn as_u64(&self) -> Option<u64> {
        if let Self::Number(number) = self { number.as_u64() } else { None }
    }

    /// The number, if this is one without fraction.
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Number(number) = self { number.as_i64() } else { None }
    }

    /// The number, if this is one.
    pub fn as_f64(&self) -> Option<f64> {
        if let Self::Number(number) = self { number.as_f64() } else { None }
    }

    /// The elements, if this is an array.
    pub fn as_array(&self) -> Option<&Vec<Self>> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The fields, if this is an object.
    pub fn as_object(&self) -> Option<&BTreeMap<String, Self>> {
        if let Self::Object(fields) = self { Some(fields) } else { None }
    }

    /// The elements, if this is an array.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The fields, if this is an object.
    pub fn as_object_mut(&mut self) -> Option<&mut BTreeMap<String, Self>> {
        if let Self::Object(fields) = self { Some(fields) } else { None }
    }

    /// Returns true if this is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns true if this is a boolean.
    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// Returns true if this is a number without sign and fraction.
    pub fn is_u64(&self) -> bool {
        self.as_u64().is_some()
    }

    /// Returns true if this is a number without fraction.
    pub fn is_i64(&self) -> bool {
        self.as_i64().is_some()
    }

    /// Returns true if this is a string.
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Returns true if this is an array.
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Returns true if this is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(text),
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Object(fields.into_iter().map(|(key, value)| (key, value.into())).collect())
            }
        }
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(number) => Self::Number(number),
            Json::String(text) => Self::String(text),
            Json::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Json::Object(fields) => {
                Self::Object(fields.into_iter().map(|(key, json)| (key, json.into())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Value::deserialize(from).map(Self::from)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(value) => value.serialize(to),
            Self::Number(number) => number.serialize(to),
            Self::String(text) => text.serialize(to),
            Self::Array(items) => items.serialize(to),
            Self::Object(fields) => fields.serialize(to),
        }
    }
}

/// Writes the document in one line, or indented with `{:#}`.
impl fmt::Display for Json {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if to.alternate() {
            serde_json::to_string_pretty(self)
        } else {
            serde_json::to_string(self)
        };
        to.write_str(&text.map_err(|_| fmt::Error)?)
    }
}

/// Writes JSON instead of the tree's variants: it is read in the messages of failed tests.
impl fmt::Debug for Json {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)
    }
}

impl PartialEq<Value> for Json {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Number(a), Value::Number(b)) => a == b,
            (Self::String(a), Value::String(b)) => a == b,
            (Self::Array(a), Value::Array(b)) => a == b,
            (Self::Object(a), Value::Object(b)) => {
                let is_same =
                    |(key, value): (&String, &Self)| b.get(key).is_some_and(|b| value == b);
                a.len() == b.len() && a.iter().all(is_same)
            }
            _ => false,
        }
    }
}

impl PartialEq<Json> for Value {
    fn eq(&self, other: &Json) -> bool {
        other == self
    }
}

impl PartialEq<str> for Json {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Json {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl PartialEq<String> for Json {
    fn eq(&self, other: &String) -> bool {
        self == other.as_str()
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

macro_rules! plain {
    ($($kind:ty)+) => {$(
        impl From<$kind> for Json {
            fn from(value: $kind) -> Self {
                Value::from(value).into()
            }
        }

        impl PartialEq<$kind> for Json {
            fn eq(&self, other: &$kind) -> bool {
                match self {
                    Self::Bool(value) => Value::Bool(*value) == *other,
                    Self::Number(number) => Value::Number(number.clone()) == *other,
                    _ => false,
                }
            }
        }
    )+};
}

plain! { bool i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64 }

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn document() -> Json {
        json!({"status": "ok", "signal": null, "list": [1, {"deep": true}], "a/b": 0.5})
    }

    /// The message of the panic of a test that reads an absent key.
    fn refused(read: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(read)).expect_err("reading it must panic");
        *panic.downcast::<String>().expect("a panic with a message")
    }

    #[test]
    fn a_misspelt_key_panics_and_names_the_keys() {
        let document = document();
        let said = refused(|| assert_eq!(document["sttus"], document["statsu"]));
        assert!(said.contains("no \"sttus\""), "{said}");
        assert!(said.contains(r#"["a/b", "list", "signal", "status"]"#), "{said}");
    }

    #[test]
    fn a_misspelt_key_panics_however_deep() {
        let document = document();
        assert!(refused(|| _ = &document["list"][1]["dep"]).contains("no \"dep\""));
        assert!(refused(|| _ = &document["list"][2]).contains("no 2; it has 2 elements"));
        assert!(refused(|| _ = &document["list"]["deep"]).contains("no \"deep\""));
        assert!(refused(|| _ = &document["signal"]["deep"]).contains("neither an object"));
        assert!(refused(|| _ = &document["status"][0]).contains("neither an object"));
    }

    #[test]
    fn a_null_that_exists_is_read() {
        let document = document();
        assert!(document["signal"].is_null());
        assert_eq!(document["signal"], Value::Null);
        assert!(document.get("signal").is_some_and(Json::is_null));
        assert!(document.get("sginal").is_none());
    }

    #[test]
    fn values_compare_with_plain_ones() {
        let document = document();
        assert_eq!(document["status"], "ok");
        assert_eq!(document["status"], "ok".to_owned());
        assert_ne!(document["status"], "error");
        assert_ne!(document["signal"], "");
        assert_eq!(document["list"][0], 1);
        assert_eq!(document["list"][0], 1_u64);
        assert_ne!(document["list"][0], true);
        assert_eq!(document["list"][1]["deep"], true);
        assert_ne!(document["list"][1]["deep"], 1);
        assert_eq!(document["a/b"], 0.5);
        assert_eq!(document["list"], serde_json::json!([1, {"deep": true}]));
        assert_eq!(serde_json::json!("ok"), document["status"]);
        assert_eq!(document, Value::from(document.clone()));
        assert_ne!(document["list"][1], serde_json::json!({"deep": true, "more": 1}));
        assert_ne!(document["list"][1], serde_json::json!({"dep": true}));
    }

    #[test]
    fn pointers_find_what_serde_json_finds() {
        let (document, value) = (document(), Value::from(document()));
        for pointer in ["", "/list/1/deep", "/a~1b", "/list/2", "/list/x", "/status/0", "list"] {
            let found = document.pointer(pointer).cloned();
            assert_eq!(found.map(Value::from), value.pointer(pointer).cloned(), "{pointer}");
        }
    }

    #[test]
    fn text_comes_back_as_it_was() {
        let text = r#"{"a/b":0.5,"list":[1,{"deep":true}],"signal":null,"status":"ok"}"#;
        assert_eq!(Json::parse(text), document());
        assert_eq!(document().to_string(), text);
        assert_eq!(format!("{:?}", document()), text);
        assert_eq!(Json::parse(format!("{:#}", document())), document());
        assert_eq!(Json::from(Value::from(document())), document());
    }

    #[test]
    fn text_that_is_not_json_panics_with_the_text() {
        assert!(refused(|| _ = Json::parse("error: no")).contains("error: no"));
    }

    #[test]
    fn a_field_is_set() {
        let mut document = json!({"a": 1});
        document.insert("b", json!([document["a"], "x"]));
        assert_eq!(document, json!({"a": 1, "b": [1, "x"]}));
    }
}
