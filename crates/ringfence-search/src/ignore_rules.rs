//! Decides which files are not indexed: those that a `.gitignore` names, hidden ones, and those that look like secrets. Pure: the
//! caller reads the ignore files and walks.

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

/// Maximum rules of one file, and bytes of one rule. More are not read: they cost time for every name.
const RULES_MAX: usize = 1000;
const RULE_BYTES_MAX: usize = 512;

/// Maximum wildcards of one rule (`*`, `?`, `[a-z]`), and bytes of the rules of one file that have any, but for `*.ext`. More
/// are not read: a text may be at every place in such a rule at once, so each byte of a path may cost as many steps as these
/// rules have bytes.
const RULE_WILDCARDS_MAX: usize = 16;
const WILDCARD_RULES_BYTES_MAX: usize = 4 << 10;

/// Maximum bytes of an ignore file.
pub const IGNORE_FILE_BYTES_MAX: u64 = 64 << 10;

/// Maximum bytes of all ignore files of one walk: half a megabyte of hostile rules takes about a second to compile.
pub const IGNORE_WALK_BYTES_MAX: u64 = 512 << 10;

/// The rules of one `.gitignore`, for the paths below its directory.
#[derive(Clone, Debug)]
pub struct IgnoreRules {
    globs: GlobSet,
    rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    is_negated: bool,
    is_for_dirs: bool,
}

impl IgnoreRules {
    /// Reads the text of a `.gitignore`. Invalid rules are left out, as git does, and rules past the bounds too.
    pub fn parse(text: &str) -> Self {
        let mut globs = GlobSetBuilder::new();
        let mut rules = Vec::new();
        let mut bytes_left = WILDCARD_RULES_BYTES_MAX;
        for line in text.lines().take(RULES_MAX) {
            if let Some((glob, rule)) = parse_rule(line, &mut bytes_left)
                && let Ok(glob) = GlobBuilder::new(&glob).literal_separator(true).build()
            {
                globs.add(glob);
                rules.push(rule);
            }
        }
        // Each glob was valid on its own; together they may be too large.
        match globs.build() {
            Ok(globs) => Self { globs, rules },
            Err(_) => Self { globs: GlobSet::empty(), rules: Vec::new() },
        }
    }

    /// Returns true if the last rule that matches `path`, given from the directory of the file, ignores it; `None` if no rule
    /// matches.
    pub fn decide(&self, path: &str, is_dir: bool) -> Option<bool> {
        if self.rules.is_empty() {
            return None;
        }
        let matching = self.globs.matches_candidate(&Candidate::new(path));
        let last =
            matching.into_iter().filter(|at| is_dir || !self.rules[*at].is_for_dirs).max()?;
        Some(!self.rules[last].is_negated)
    }
}

/// Takes the bytes of a rule with wildcards from `bytes_left`.
fn parse_rule(line: &str, bytes_left: &mut usize) -> Option<(String, Rule)> {
    let line = if line.ends_with("\\ ") { line } else { line.trim_end() };
    if line.is_empty() || line.starts_with('#') || line.len() > RULE_BYTES_MAX {
        return None;
    }
    let (line, is_negated) = line.strip_prefix('!').map_or((line, false), |rest| (rest, true));
    let (line, is_for_dirs) = line.strip_suffix('/').map_or((line, false), |rest| (rest, true));
    let is_anchored = line.contains('/');
    let line = line.strip_prefix('/').unwrap_or(line);
    if line.is_empty() {
        return None;
    }
    // Braces mean nothing to git.
    let literal = line.replace('{', "\\{").replace('}', "\\}");
    let mut glob = if is_anchored { literal } else { format!("**/{literal}") };
    let n_wildcards = line.matches(['*', '?', '[']).count();
    if n_wildcards > RULE_WILDCARDS_MAX {
        return None;
    }
    if n_wildcards > 0 && !is_extension(&glob) {
        *bytes_left = bytes_left.checked_sub(line.len())?;
        if may_end_in_extension(&glob) {
            // Matches nothing more. Without it globset compiles the rule on its own, with a cache of up to 10 MB.
            glob.push_str("{}");
        }
    }
    Some((glob, Rule { is_negated, is_for_dirs }))
}

/// Returns true for `*.ext` at any depth, which globset looks up without an automaton.
fn is_extension(glob: &str) -> bool {
    glob.strip_prefix("**/*.").is_some_and(|extension| {
        extension.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    })
}

/// Returns true if the last name of a glob may end in a dot and literals.
fn may_end_in_extension(glob: &str) -> bool {
    let name = glob.rsplit('/').next().unwrap_or(glob);
    // A backslash may make the last star a literal.
    name.contains('.') && (!name.ends_with(['*', '?']) || name.contains('\\'))
}

/// Returns true if a name is hidden.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

/// Returns true if a file looks like a secret by its name: environment files, private keys, credentials.
pub fn is_secret(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "credentials",
        "credentials.json",
        "secrets.json",
        "secrets.yml",
        "secrets.yaml",
        "secrets.toml",
        "htpasswd",
        "netrc",
        "_netrc",
        "service-account.json",
        "service_account.json",
        "token.json",
    ];
    const ENDS: &[&str] = &[
        ".env",
        ".pem",
        ".key",
        ".p12",
        ".pfx",
        ".jks",
        ".keystore",
        ".kdbx",
        ".ppk",
        ".asc",
        ".gpg",
        ".tfstate",
    ];
    let lower = name.to_ascii_lowercase();
    lower == ".env"
        || lower.starts_with(".env.")
        || NAMES.contains(&lower.as_str())
        || ENDS.iter().any(|end| lower.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_decide_as_git_does() {
        let rules = IgnoreRules::parse(
            "# note\n*.log\n!keep.log\n/build\ntarget/\ndocs/*.tmp\n**/deep/x\n\\#odd\n{a,b}\n",
        );
        for (path, is_dir, expected) in [
            ("a.log", false, Some(true)),
            ("sub/a.log", false, Some(true)),
            ("sub/keep.log", false, Some(false)),
            ("build", true, Some(true)),
            ("sub/build", true, None),
            ("target", true, Some(true)),
            ("target", false, None),
            ("sub/target", true, Some(true)),
            ("docs/a.tmp", false, Some(true)),
            ("docs/sub/a.tmp", false, None),
            ("a/b/deep/x", false, Some(true)),
            ("#odd", false, Some(true)),
            ("a", false, None),
            ("{a,b}", false, Some(true)),
        ] {
            assert_eq!(rules.decide(path, is_dir), expected, "{path}");
        }
        assert_eq!(IgnoreRules::parse("[").decide("[", false), None);
    }

    #[test]
    fn rules_past_the_bounds_of_wildcards_are_left_out() {
        let decide = |text: &str, path: &str| IgnoreRules::parse(text).decide(path, false);
        let rule = |n_wildcards: usize| format!("a{}\n", "?".repeat(n_wildcards));
        let name = |n: usize| format!("a{}", "x".repeat(n));
        assert_eq!(decide(&rule(16), &name(16)), Some(true));
        assert_eq!(decide(&rule(17), &name(17)), None);
        assert_eq!(decide(&format!("{}*.log\n", rule(17)), "a.log"), Some(true));
        let filler = format!("*{}\n", "x".repeat(511)).repeat(WILDCARD_RULES_BYTES_MAX / 512);
        assert_eq!(decide(&format!("*log\n{filler}"), "a.log"), Some(true));
        assert_eq!(decide(&format!("{filler}*log\n"), "a.log"), None);
        // Neither of these takes steps.
        let text = format!("{filler}*.log\nb.c\n");
        assert_eq!((decide(&text, "a.log"), decide(&text, "b.c")), (Some(true), Some(true)));
    }

    /// Each automaton may take 10 MB: a thousand rules of one file would be 10 GB.
    fn has_separate_automata(rules: &str) -> bool {
        format!("{:?}", IgnoreRules::parse(rules).globs).contains("RequiredExtension")
    }

    #[test]
    fn rules_with_an_extension_share_an_automaton() {
        for (rule, path, expected) in [
            ("*a??.c", "x/bab1.c", Some(true)),
            ("*a??.c", "bab.c", None),
            ("dir/*.log", "dir/x.log", Some(true)),
            ("dir/*.log", "x/dir/x.log", None),
            ("/*.log", "x.log", Some(true)),
            ("/*.log", "dir/x.log", None),
            ("**/x*/*.c", "a/xy/b.c", Some(true)),
            ("*.c\\*", "a/b.c*", Some(true)),
            ("*.c\\*", "b.cc", None),
            ("*a.]", "ba.]", Some(true)),
            ("*a\\.c", "ba.c", Some(true)),
            ("*.tar.gz", "a/b.tar.gz", Some(true)),
            ("*.{c}", "a.{c}", Some(true)),
            ("*.c", "a/b.c", Some(true)),
        ] {
            assert_eq!(IgnoreRules::parse(rule).decide(path, false), expected, "{rule} {path}");
            assert!(!has_separate_automata(rule), "{rule}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_rule_has_an_automaton_of_its_own(rule in r"[*?\[\]!^\\/.ab{},-]{1,12}") {
            proptest::prop_assert!(!has_separate_automata(&rule));
        }
    }

    #[test]
    fn secrets_are_told_by_name() {
        for name in [
            ".env",
            ".env.local",
            "prod.env",
            "id_rsa",
            "server.pem",
            "Server.KEY",
            "credentials.json",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["environment.rs", "monkey.py", "keyboard.ts", "env.py", "credentials.rs"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
