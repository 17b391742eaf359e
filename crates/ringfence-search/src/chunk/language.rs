//! The language of a file, by its name.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! languages {
    ($($variant:ident $name:literal [$($extension:literal)*]),* $(,)?) => {
        /// Language of a file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Language { $($variant),* }

        impl Language {
            const ALL: &[Self] = &[$(Self::$variant),*];

            /// Name in lower case.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            pub(crate) fn of_extension(extension: &str) -> Option<Self> {
                match extension {
                    $($($extension)|* => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

languages! {
    Text "text" ["txt" "text" "rst" "adoc" "org" "tex" "log" "csv" "tsv"],
    Markdown "markdown" ["md" "markdown" "mdx" "qmd"],
    Data "data" ["json" "json5" "jsonl" "yaml" "yml" "toml" "ini" "cfg" "conf" "xml" "lock" "properties" "plist" "svg"],
    Markup "markup" ["html" "htm" "css" "scss" "sass" "less" "xhtml" "hbs" "ejs" "erb" "eex" "heex"],
    Rust "rust" ["rs"],
    Python "python" ["py" "pyi" "pyx" "pxd" "pyw"],
    JavaScript "javascript" ["js" "jsx" "mjs" "cjs" "vue" "svelte"],
    TypeScript "typescript" ["ts" "tsx" "mts" "cts"],
    Go "go" ["go"],
    Java "java" ["java"],
    C "c" ["c" "h"],
    Cpp "cpp" ["cc" "cpp" "cxx" "c++" "hpp" "hh" "hxx" "h++" "ipp" "inl" "cu" "cuh" "ino"],
    CSharp "csharp" ["cs"],
    Kotlin "kotlin" ["kt" "kts"],
    Swift "swift" ["swift"],
    Scala "scala" ["scala" "sc" "sbt"],
    Ruby "ruby" ["rb" "rake" "gemspec" "ru"],
    Elixir "elixir" ["ex" "exs"],
    Erlang "erlang" ["erl" "hrl"],
    Php "php" ["php" "phtml"],
    Shell "shell" ["sh" "bash" "zsh" "ksh" "fish" "bats"],
    Lua "lua" ["lua"],
    Haskell "haskell" ["hs" "lhs" "purs" "elm"],
    OCaml "ocaml" ["ml" "mli" "re" "rei"],
    FSharp "fsharp" ["fs" "fsi" "fsx"],
    Zig "zig" ["zig"],
    Dart "dart" ["dart"],
    Nim "nim" ["nim"],
    Clojure "clojure" ["clj" "cljs" "cljc" "edn" "lisp" "el" "scm" "rkt"],
    Perl "perl" ["pl" "pm" "t"],
    R "r" ["r"],
    Julia "julia" ["jl"],
    Sql "sql" ["sql"],
    Proto "proto" ["proto" "graphql" "gql" "thrift"],
    Terraform "terraform" ["tf" "hcl"],
    ObjectiveC "objectivec" ["m" "mm"],
    Solidity "solidity" ["sol"],
    Groovy "groovy" ["groovy" "gradle"],
}

impl Language {
    /// The language of a path's extension or file name, or of the interpreter that the first line names.
    pub fn of_path(path: &str, text: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some((stem, extension)) = name.rsplit_once('.')
            && !stem.is_empty()
            && extension.len() <= 10
        {
            let found = Self::of_extension(&extension.to_ascii_lowercase());
            // Many C++ projects name their headers `.h`.
            if extension == "h" && is_cpp_header(text) {
                return Self::Cpp;
            }
            return found.unwrap_or(Self::Text);
        }
        Self::of_bare_name(name).or_else(|| of_interpreter(text)).unwrap_or(Self::Text)
    }

    /// The language of a name without an extension.
    pub(crate) fn of_bare_name(name: &str) -> Option<Self> {
        Some(match name {
            "Makefile" | "makefile" | "Dockerfile" | "Justfile" | "justfile" => Self::Shell,
            "Rakefile" | "Gemfile" | "Guardfile" | "Vagrantfile" => Self::Ruby,
            "Jenkinsfile" => Self::Groovy,
            _ => return None,
        })
    }

    /// Names of all languages.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|language| language.name())
    }

    /// Returns true if it is source code, as opposed to prose, data and markup.
    pub const fn is_code(self) -> bool {
        !matches!(self, Self::Text | Self::Markdown | Self::Data | Self::Markup)
    }

    /// The language of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|language| language.name().eq_ignore_ascii_case(name))
    }

    /// The code stored in an index.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes of a header that are searched for C++.
const HEADER_BYTES: usize = 16 << 10;

fn is_cpp_header(text: &str) -> bool {
    text[..text.floor_char_boundary(HEADER_BYTES)].lines().any(|line| {
        let line = line.trim_start();
        ["namespace ", "template <", "template<", "class ", "public:", "private:", "using "]
            .iter()
            .any(|start| line.starts_with(start))
    })
}

fn of_interpreter(text: &str) -> Option<Language> {
    let first = text.strip_prefix("#!")?.lines().next()?;
    let mut words = first.split_whitespace();
    let program = words.next()?.rsplit('/').next()?;
    let program =
        if program == "env" { words.find(|word| !word.starts_with('-'))? } else { program };
    let program = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    Some(match program {
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "fish" => Language::Shell,
        "python" | "pypy" => Language::Python,
        "node" | "deno" | "bun" => Language::JavaScript,
        "ruby" => Language::Ruby,
        "perl" => Language::Perl,
        "lua" => Language::Lua,
        "php" => Language::Php,
        "elixir" => Language::Elixir,
        _ => return None,
    })
}
