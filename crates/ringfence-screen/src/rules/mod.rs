//! The rules, as data. A rule has a name, a risk, and the loosest preset that still has it; so a tighter preset has
//! every rule of a looser one. Each submodule checks one family of syntax and decides nothing else.

pub(crate) mod attributes;
pub(crate) mod calls;
pub(crate) mod classes;
pub(crate) mod imports;
pub(crate) mod modules;
pub(crate) mod strict;
pub(crate) mod strings;

use ringfence_spec::CodePreset;

use crate::verdict::Risk;

/// One rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Stable, `snake_case`.
    pub name: &'static str,
    /// Risk of breaking it.
    pub risk: Risk,
    /// The loosest preset that has it.
    pub up_to: CodePreset,
    /// The refused construct, in one sentence.
    pub refuses: &'static str,
}

macro_rules! rules {
    ($($constant:ident = $name:literal, $risk:ident, $up_to:ident, $refuses:literal;)*) => {
        $(
            pub(crate) const $constant: Rule = Rule {
                name: $name,
                risk: Risk::$risk,
                up_to: CodePreset::$up_to,
                refuses: $refuses,
            };
        )*
        /// Every rule, for documents and for tests with one row each.
        pub const RULES: &[&Rule] = &[$(&$constant),*];
    };
}

rules! {
    SOURCE_TOO_LARGE = "source_too_large", Medium, Open, "more than 50 KB of source";
    SOURCE_NOT_UTF8 = "source_not_utf8", Medium, Open, "bytes that are not UTF-8";
    NULL_BYTE = "null_byte", High, Open, "a null byte";
    SOURCE_ENCODING = "source_encoding", High, Open, "a coding comment that names anything but UTF-8";
    TOO_DEEP = "too_deep", High, Open, "nesting over 100 levels, or a tree over 1,000";
    SYNTAX_ERROR = "syntax_error", Medium, Open, "what is not Python";
    MORE_VIOLATIONS = "more_violations", Medium, Open, "nothing; it counts violations past the hundredth";

    CALL_NOT_ALLOWED = "call_not_allowed", High, Data, "a call of a builtin that runs code, reads files or reflects";
    NAME_NOT_ALLOWED = "name_not_allowed", High, Data, "such a builtin as a value, and names like `__builtins__`";
    COMPUTED_ATTRIBUTE_NAME = "computed_attribute_name", High, Data, "getattr and its kin with a name that is not a literal";
    DYNAMIC_CLASS = "dynamic_class", High, Data, "a class made by a call: `type` with three arguments and its kin";

    IMPORT_NOT_ALLOWED = "import_not_allowed", Medium, Data, "an import that is not on the preset's list";
    RELATIVE_IMPORT = "relative_import", Medium, Data, "an import that begins with a dot";
    STAR_IMPORT = "star_import", Medium, Data, "`from x import *` where that brings more than the module's own functions";
    MODULE_MEMBER_NOT_ALLOWED = "module_member_not_allowed", High, Data, "a member of a module that leads elsewhere: `enum.sys`, `string.Formatter`";
    MODULE_AS_VALUE = "module_as_value", Medium, Data, "a module handed on as a value, where its members can no longer be told";

    ATTRIBUTE_NOT_ALLOWED = "attribute_not_allowed", High, Data, "a reflective attribute: `__class__`, `__globals__`, `gi_frame`";
    EXCEPTION_OBJECT = "exception_object", High, Standard, "`obj` of an AttributeError: the object that lacked the attribute, however hidden";
    METACLASS = "metaclass", High, Data, "a metaclass";
    DESCRIPTOR_METHOD = "descriptor_method", High, Data, "`__get__`, `__set__`, `__delete__`, `__set_name__`";
    SPECIAL_METHOD_NOT_ALLOWED = "special_method_not_allowed", High, Data, "a special method that classes and copies are made through: `__init_subclass__`, `__reduce__`";

    SYNTAX_NOT_ALLOWED = "syntax_not_allowed", Medium, Strict, "syntax outside the whitelist: import, def, class, with, try";
    BUILTIN_NOT_ALLOWED = "builtin_not_allowed", Medium, Strict, "a builtin outside the 36";
    PRIVATE_ATTRIBUTE = "private_attribute", High, Strict, "an attribute that begins with an underscore";
    FORMAT_NOT_ALLOWED = "format_not_allowed", High, Strict, "a format string that names a private attribute, or one that is computed";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable_snake_case_and_different() {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert!(
            names
                .iter()
                .all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'8'))
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }
}
