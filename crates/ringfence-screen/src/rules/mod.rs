//! The rules, as data. A rule has a name, a risk, and the loosest preset that still has it; so a tighter preset has
//! every rule of a looser one. Each submodule checks one family of syntax and decides nothing else.

pub(crate) mod attributes;
pub(crate) mod calls;
pub(crate) mod classes;
pub(crate) mod imports;
pub(crate) mod internals;
pub(crate) mod modules;
pub(crate) mod strict;
pub(crate) mod strings;

use ringfence_spec::{CodePreset, DenialRule};

use crate::verdict::ScreenRisk;

/// One rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Stable name.
    pub name: DenialRule,
    /// Risk of breaking it.
    pub risk: ScreenRisk,
    /// The loosest preset that refuses it. `data` notes what `standard` refuses, and refuses a few of the same
    /// (`internals.rs`).
    pub up_to: CodePreset,
    /// The refused construct, in one sentence.
    pub refuses: &'static str,
}

impl Rule {
    /// Returns true for the rule about reflective attributes.
    pub(crate) fn is_attribute(&self) -> bool {
        self.name == DenialRule::AttributeNotAllowed
    }
}

macro_rules! rules {
    ($($constant:ident = $name:ident, $risk:ident, $up_to:ident, $refuses:literal;)*) => {
        $(
            pub(crate) const $constant: Rule = Rule {
                name: DenialRule::$name,
                risk: ScreenRisk::$risk,
                up_to: CodePreset::$up_to,
                refuses: $refuses,
            };
        )*
        /// Every rule, for documents and for tests with one row each.
        pub const RULES: &[&Rule] = &[$(&$constant),*];
    };
}

rules! {
    SOURCE_TOO_LARGE = SourceTooLarge, Medium, Open, "more than 1 MiB of source, in `standard` and `strict` more than 50 KiB";
    SOURCE_NOT_UTF8 = SourceNotUtf8, Medium, Open, "bytes that are not UTF-8";
    NULL_BYTE = NullByte, High, Open, "a null byte";
    SOURCE_ENCODING = SourceEncoding, High, Open, "a coding comment that names anything but UTF-8";
    TOO_DEEP = TooDeep, High, Open, "nesting over 100 levels, or a tree over 1,000";
    SYNTAX_ERROR = SyntaxError, Medium, Open, "what is not Python";
    MORE_VIOLATIONS = MoreViolations, Medium, Open, "nothing; it counts violations past the hundredth";

    CALL_NOT_ALLOWED = CallNotAllowed, High, Standard, "a call of a builtin that runs code, reads files or reflects";
    NAME_NOT_ALLOWED = NameNotAllowed, High, Standard, "such a builtin as a value, and names like `__builtins__`";
    COMPUTED_ATTRIBUTE_NAME = ComputedAttributeName, High, Standard, "getattr and its kin with a name that is not a literal";
    DYNAMIC_CLASS = DynamicClass, High, Standard, "a class made by a call: `type` with three arguments and its kin";

    IMPORT_NOT_ALLOWED = ImportNotAllowed, Medium, Standard, "an import that is not on the preset's list";
    RELATIVE_IMPORT = RelativeImport, Medium, Standard, "an import that begins with a dot";
    STAR_IMPORT = StarImport, Medium, Standard, "`from x import *` where that brings more than the module's own functions";
    MODULE_MEMBER_NOT_ALLOWED = ModuleMemberNotAllowed, High, Standard, "a member of a module that leads elsewhere: `enum.sys`, `string.Formatter`";
    MODULE_AS_VALUE = ModuleAsValue, Medium, Standard, "a module handed on as a value, where its members can no longer be told";

    ATTRIBUTE_NOT_ALLOWED = AttributeNotAllowed, High, Standard, "a reflective attribute: `__class__`, `__globals__`, `gi_frame`";
    EXCEPTION_OBJECT = ExceptionObject, High, Standard, "`obj` of an AttributeError: the object that lacked the attribute, however hidden";
    METACLASS = Metaclass, High, Standard, "a metaclass";
    DESCRIPTOR_METHOD = DescriptorMethod, High, Standard, "`__get__`, `__set__`, `__delete__`, `__set_name__`";
    SPECIAL_METHOD_NOT_ALLOWED = SpecialMethodNotAllowed, High, Standard, "a special method that classes and copies are made through: `__init_subclass__`, `__reduce__`";

    SYNTAX_NOT_ALLOWED = SyntaxNotAllowed, Medium, Strict, "syntax outside the whitelist: import, def, class, with, try";
    BUILTIN_NOT_ALLOWED = BuiltinNotAllowed, Medium, Strict, "a builtin outside the 36";
    PRIVATE_ATTRIBUTE = PrivateAttribute, High, Strict, "an attribute that begins with an underscore";
    FORMAT_NOT_ALLOWED = FormatNotAllowed, High, Strict, "a format string that names a private attribute, or one that is computed";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable_snake_case_and_different() {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name.as_str()).collect();
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
