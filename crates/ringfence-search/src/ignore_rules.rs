//! Decides which files are not indexed: those that a `.gitignore` names, hidden ones, and those that look like secrets. Pure: the
//! caller reads the ignore files and walks.

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

/// Maximum rules of one file, and bytes of one rule. More are not read: they cost time for every name.
const RULES_MAX: usize = 1000;
const RULE_BYTES_MAX: usize = 512;

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
    /// Reads the text of a `.gitignore`. Invalid rules are left out, as git does.
    pub fn parse(text: &str) -> Self {
        let mut globs = GlobSetBuilder::new();
        let mut rules = Vec::new();
        for line in text.lines().take(RULES_MAX) {
            if let Some((glob, rule)) = parse_rule(line)
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

fn parse_rule(line: &str) -> Option<(String, Rule)> {
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
    let glob = if is_anchored { literal } else { format!("**/{literal}") };
    Some((glob, Rule { is_negated, is_for_dirs }))
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
