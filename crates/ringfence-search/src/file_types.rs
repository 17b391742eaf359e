//! Types of files that a search is limited to, told by name alone. Opens nothing.

use ringfence_spec::{Code, Problem};

use crate::chunk::Language;

/// Maximum types of one search.
const TYPES_MAX: usize = 32;

/// Other names of languages.
const ALIASES: &[(&str, Language)] = &[
    ("golang", Language::Go),
    ("c#", Language::CSharp),
    ("f#", Language::FSharp),
    ("objc", Language::ObjectiveC),
    ("protobuf", Language::Proto),
];

/// Types that share a language with others, with their extensions.
const FORMATS: &[(&str, &[&str])] = &[
    ("yaml", &["yaml", "yml"]),
    ("html", &["html", "htm", "xhtml"]),
    ("sass", &["sass", "scss"]),
    ("vue", &["vue"]),
    ("svelte", &["svelte"]),
    ("elm", &["elm"]),
    ("graphql", &["graphql", "gql"]),
    ("thrift", &["thrift"]),
    ("lisp", &["lisp", "el"]),
    ("scheme", &["scm", "rkt"]),
];

/// Types of files, such as `py` and `json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTypes(Vec<FileType>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum FileType {
    Language(Language),
    Extensions(Vec<String>),
}

impl FileTypes {
    /// Parses names: of a language, or an extension of one. Of data, markup and text an extension means itself only.
    pub fn parse(names: &[impl AsRef<str>]) -> Result<Self, Problem> {
        if names.len() > TYPES_MAX {
            let cause = format!("there are {}, of {TYPES_MAX} at most", names.len());
            return Err(Problem::usage(Code::BadArguments, "too many types of files").cause(cause));
        }
        names.iter().map(|name| FileType::parse(name.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if a file of this name is of one of the types, or if there are none.
    pub fn matches(&self, name: &str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
        let extension = extension.map(|(_, extension)| extension.to_ascii_lowercase());
        self.0.iter().any(|of| match (of, &extension) {
            // Many C++ projects name their headers `.h`.
            (FileType::Language(Language::Cpp), Some(extension)) if extension == "h" => true,
            (FileType::Language(language), Some(extension)) => {
                Language::of_extension(extension) == Some(*language)
            }
            (FileType::Language(language), None) => Language::of_bare_name(name) == Some(*language),
            (FileType::Extensions(known), Some(extension)) => known.contains(extension),
            (FileType::Extensions(_), None) => false,
        })
    }
}

impl FileType {
    fn parse(name: &str) -> Result<Self, Problem> {
        let name = name.to_ascii_lowercase();
        let format = FORMATS.iter().find(|(format, _)| *format == name);
        if let Some((_, extensions)) = format {
            return Ok(Self::Extensions(extensions.iter().map(ToString::to_string).collect()));
        }
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, of)| *of);
        if let Some(language) = alias.or_else(|| Language::from_name(&name)) {
            return Ok(Self::Language(language));
        }
        match Language::of_extension(&name) {
            Some(Language::Markdown) => Ok(Self::Language(Language::Markdown)),
            Some(language) if language.is_code() => Ok(Self::Language(language)),
            Some(_) => Ok(Self::Extensions(vec![name])),
            None => {
                let known: Vec<_> = Language::names().collect();
                let shown: String = name.chars().take(40).collect();
                Err(Problem::usage(Code::BadArguments, format!("unknown type of file `{shown}`"))
                    .hint(format!("a language or an extension; languages: {}", known.join(", "))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_languages_and_extensions() {
        for (name, fits, differs) in [
            ("py", "a.pyi", "a.rs"),
            ("python", "a.py", "py"),
            ("rs", "lib.rs", "rs"),
            ("Rust", "LIB.RS", "a.rst"),
            ("js", "a.jsx", "a.ts"),
            ("tsx", "a.ts", "a.js"),
            ("golang", "a.go", "go.mod"),
            ("md", "README.markdown", "README"),
            ("c", "a.h", "a.cc"),
            ("cpp", "a.h", "a.c"),
            ("c++", "a.hpp", "a.c"),
            ("sh", "Makefile", "makefile.py"),
            ("json", "a.json", "a.yaml"),
            ("yaml", "a.yml", "a.json"),
            ("yml", "a.yml", "a.yaml"),
            ("html", "a.htm", "a.css"),
            ("txt", "a.txt", "a.log"),
            ("data", "a.toml", "a.html"),
        ] {
            let types = FileTypes::parse(&[name]).unwrap();
            assert!(types.matches(fits), "{name} {fits}");
            assert!(!types.matches(differs), "{name} {differs}");
            assert!(!types.matches(".py"), "{name}");
        }
        let both = FileTypes::parse(&["py", "rs"]).unwrap();
        assert!(both.matches("a.py") && both.matches("a.rs") && !both.matches("a.go"));
        assert!(FileTypes::default().matches("anything"));
    }

    #[test]
    fn an_unknown_type_is_refused_with_the_known_ones() {
        let problem = FileTypes::parse(&["pithon"]).unwrap_err();
        assert!(problem.to_string().contains("unknown type of file `pithon`"), "{problem}");
        assert!(format!("{problem:?}").contains("python"), "{problem:?}");
        assert!(FileTypes::parse(&["py"; 40]).is_err());
    }
}
