//! Conversions of a type with a written form, for `#[serde(try_from = "String", into = "String")]`.

/// Converts a type to and from its text by [`std::fmt::Display`] and [`std::str::FromStr`].
macro_rules! convert_by_text {
    ($name:ty) => {
        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}
