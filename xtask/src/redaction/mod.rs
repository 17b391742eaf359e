//! Redaction measured against public vectors: secrets that must be replaced and texts that must stay. Reads checkouts of
//! scanners of repositories from a directory outside the tree; none of their text is in this one.
//!
//! | source | vectors |
//! |---|---|
//! | gitleaks, betterleaks | `cmd/generate/config/rules/*.go`: arguments of `Validate`; secrets are drawn anew in each run |
//! | trufflehog | `pkg/detectors/**/*_test.go`: rows with `input` and `want` |
//! | detect-secrets | `tests/plugins/*_test.py`: rows of text and verdict |
//! | Nosey Parker, Kingfisher | `rules/*.yml`: `examples` and `negative_examples` |
//! | secretlint | `test/snapshots/{ok,ng}.*/input*` |
//!
//! A positive passes if none of its secrets is left, or if the text changed where the source does not say which part is
//! the secret. A positive counts towards the bar if it carries a fixed prefix or a key word.
//!
//! A negative counts if no other rule of its source finds a secret in it, it is no well-formed token itself and its value is
//! not that of a positive in another wrapping, and it was not drawn as a token behind the word `Token`. Negatives of
//! trufflehog do not count: they are tokens of one provider with a character changed, not ordinary text. The last column
//! has every negative, without these exclusions.

mod go;
mod python;
mod sample;
mod yaml;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use regex_automata::meta::Regex;
use ringfence_screen::redact::Redactor;

use crate::random::Random;
use crate::{CannotTry, Verdict};

/// Fewest literal characters at the start of a rule's pattern that make a fixed prefix.
const PREFIX_CHARS_MIN: usize = 3;

/// Positives with a prefix or key word that must be redacted, and negatives that may change, in parts of a hundred.
const REDACTED_PERCENT_MIN: usize = 95;
const CHANGED_PERCENT_MAX: usize = 5;

/// Minimum entropy of a token that is no placeholder, as gitleaks has it for most rules.
const TOKEN_BITS_MIN: f64 = 3.5;

/// Fewest characters of a word that tells that two vectors have the same value.
const VALUE_CHARS_MIN: usize = 20;

/// Size of the texts whose redaction is timed.
const TIMED_BYTES: usize = 10 << 20;

/// Factor by which ten times the text may be slower, for each byte: 1 is linear.
const SLOWER_FACTOR_MAX: f64 = 2.0;

/// Words that name a secret, in lower case.
const KEY_WORDS: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "accesskey",
    "private_key",
    "privatekey",
    "credential",
    "authorization",
    "bearer",
    "auth_key",
    "authkey",
    "client_key",
    "access-key",
];

#[derive(Debug, Args)]
pub(crate) struct RedactionArgs {
    /// Directory with one checkout of a public repository in each subdirectory
    #[arg(long)]
    vectors: PathBuf,
    /// Lists the vectors that fail
    #[arg(long)]
    list: bool,
    /// Only this source
    #[arg(long)]
    source: Option<String>,
    /// Skips the timing
    #[arg(long)]
    no_timing: bool,
    /// Seed of the secrets that are drawn [default: a random one]
    #[arg(long)]
    seed: Option<u64>,
}

/// A text, and whether it contains a secret.
#[derive(Clone, Debug, Default)]
struct Vector {
    /// Name of the rule, detector or file that it is from.
    rule: String,
    text: String,
    /// Secrets in the text, where the source gives them.
    secrets: Vec<String>,
    leak: bool,
    /// Set if the rule's pattern begins with a literal.
    prefixed: bool,
    /// Set if a negative does not count: it is a secret of the wrong length or alphabet for its rule, or its source itself
    /// knows a secret in it.
    excluded: bool,
}

impl Vector {
    /// Secrets of a positive, and words of it that are long enough to be one.
    fn values(&self) -> Vec<String> {
        let word = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-');
        let long =
            |w: &&str| w.len() >= VALUE_CHARS_MIN && w.contains(|c: char| c.is_ascii_digit());
        let words = self.text.split(word).filter(long).map(str::to_owned);
        let secrets = self.secrets.iter().filter(|s| s.len() >= 8).cloned();
        words.chain(secrets).chain((self.text.len() >= 8).then(|| self.text.clone())).collect()
    }

    /// Returns true if the redactor did right.
    fn holds(&self) -> bool {
        let clean = Redactor::new().redact(&self.text).text;
        match (self.leak, self.secrets.is_empty()) {
            (false, _) => clean == self.text,
            (true, true) => clean != self.text,
            (true, false) => !self.secrets.iter().any(|secret| clean.contains(secret.as_str())),
        }
    }

    /// Returns true if a key word stands before a secret in its line, or anywhere if the secret is not known.
    fn has_key_word(&self) -> bool {
        let has = |text: &str| {
            let text = text.to_lowercase();
            KEY_WORDS.iter().any(|word| text.contains(word))
        };
        if self.secrets.is_empty() {
            return has(&self.text);
        }
        self.secrets.iter().all(|secret| {
            self.text.match_indices(secret.as_str()).any(|(at, _)| {
                let line = self.text[..at].rfind('\n').map_or(0, |n| n + 1);
                has(&self.text[line..at])
            })
        })
    }
}

/// Numbers of one source.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    prefixed: (usize, usize),
    keyed: (usize, usize),
    other: (usize, usize),
    negative: (usize, usize),
    /// Negatives, those among them that do not count.
    every_negative: (usize, usize),
}

pub(crate) fn redaction(args: &RedactionArgs) -> Result<Verdict, CannotTry> {
    let seed = args.seed.unwrap_or_else(crate::random::seed);
    let mut random = Random::new(seed);
    eprintln!("seed {seed}");
    let mut sources: BTreeMap<String, Vec<Vector>> = BTreeMap::new();
    let mut n_bytes = 0;
    for (name, dir) in subdirectories(&args.vectors)? {
        if args.source.as_ref().is_some_and(|source| *source != name) {
            continue;
        }
        let mut files = Vec::new();
        gather(&dir, &mut files)?;
        files.sort();
        let mut vectors: Vec<Vector> = Vec::new();
        let mut patterns: Vec<Pattern> = Vec::new();
        for file in files {
            let (more, of_rules) = read(&file, &mut random);
            vectors.extend(more);
            patterns.extend(of_rules.into_iter().filter_map(|(id, p)| Pattern::new(id, &p)));
        }
        // A text that one rule must leave alone and another finds tells nothing about a redactor of all rules.
        let known: HashSet<String> =
            vectors.iter().filter(|v| v.leak).flat_map(Vector::values).collect();
        for v in vectors.iter_mut().filter(|v| !v.leak) {
            v.excluded |= known.iter().any(|secret| v.text.contains(secret.as_str()))
                || patterns.iter().any(|p| p.finds(v));
        }
        let mut seen = HashSet::new();
        vectors.retain(|v| !v.text.trim().is_empty() && seen.insert(v.text.clone()));
        n_bytes += vectors.iter().map(|v| v.text.len()).sum::<usize>();
        if !vectors.is_empty() {
            sources.insert(name, vectors);
        }
    }
    if sources.is_empty() {
        return Err(format!("`{}` has no vectors", args.vectors.display()));
    }
    let mut verdict = Verdict::Held;
    println!(
        "| source | fixed prefix | key word only | neither | negatives changed | without exclusions |\n|---|---|---|---|---|---|"
    );
    let mut sum = Counts::default();
    for (name, vectors) in &sources {
        let counts = count(name, vectors, args.list);
        row(name, counts);
        for (all, one) in [
            (&mut sum.prefixed, counts.prefixed),
            (&mut sum.keyed, counts.keyed),
            (&mut sum.other, counts.other),
            (&mut sum.negative, counts.negative),
            (&mut sum.every_negative, counts.every_negative),
        ] {
            *all = (all.0 + one.0, all.1 + one.1);
        }
    }
    row("all", sum);
    let hit = sum.prefixed.0 + sum.keyed.0;
    let n = sum.prefixed.1 + sum.keyed.1;
    println!("\nprefix or key word: {}; {n_bytes} bytes of vectors", share((hit, n)));
    if hit * 100 < n * REDACTED_PERCENT_MIN
        || sum.negative.0 * 100 > sum.negative.1 * CHANGED_PERCENT_MAX
    {
        verdict = Verdict::Failed;
    }
    if !args.no_timing && time(&sources) == Verdict::Failed {
        verdict = Verdict::Failed;
    }
    Ok(verdict)
}

fn count(name: &str, vectors: &[Vector], list: bool) -> Counts {
    let mut counts = Counts::default();
    let mut excluded = (0, 0);
    for vector in vectors {
        let holds = vector.holds();
        if !vector.leak {
            counts.every_negative.0 += usize::from(!holds);
            counts.every_negative.1 += 1;
        }
        let (cell, good) = match vector.leak {
            false if vector.excluded => (&mut excluded, !holds),
            false => (&mut counts.negative, !holds),
            true if vector.prefixed => (&mut counts.prefixed, holds),
            true if vector.has_key_word() => (&mut counts.keyed, holds),
            true => (&mut counts.other, holds),
        };
        cell.0 += usize::from(good);
        cell.1 += 1;
        if list && !holds {
            let kind = match vector.leak {
                false if vector.excluded => "changed, excluded",
                false => "changed",
                true if vector.prefixed => "prefix missed",
                true if vector.has_key_word() => "key word missed",
                true => "other missed",
            };
            let shown = &vector.text;
            eprintln!("{name} {} {kind}: {shown:?}", vector.rule);
        }
    }
    counts
}

fn row(name: &str, counts: Counts) {
    println!(
        "| {name} | {} | {} | {} | {} | {} |",
        share(counts.prefixed),
        share(counts.keyed),
        share(counts.other),
        share(counts.negative),
        share(counts.every_negative)
    );
}

fn share((n, of): (usize, usize)) -> String {
    if of == 0 {
        return "–".to_owned();
    }
    let per_mille = n * 1000 / of;
    format!("{n} of {of} ({}.{} %)", per_mille / 10, per_mille % 10)
}

/// Pattern of a rule of a source.
struct Pattern {
    rule: String,
    regex: Regex,
    prefixed: bool,
}

impl Pattern {
    fn new(rule: String, pattern: &str) -> Option<Self> {
        let prefixed = sample::has_fixed_prefix(pattern, PREFIX_CHARS_MIN);
        Some(Self { rule, regex: Regex::new(pattern).ok()?, prefixed })
    }

    /// Returns true if a negative of one rule is a secret by another, or a well-formed token that its source knows to be
    /// published: no form tells it from the others.
    fn finds(&self, negative: &Vector) -> bool {
        let own = self.rule == negative.rule;
        let found = (!own || self.prefixed).then(|| self.regex.find(&negative.text)).flatten();
        found.is_some_and(|found| !own || entropy(&negative.text[found.range()]) >= TOKEN_BITS_MIN)
    }
}

/// Shannon entropy in bits for each byte.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|b| counts[usize::from(b)] += 1);
    let n = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    counts
        .iter()
        .filter(|c| **c > 0)
        .map(|c| f64::from(*c) / n)
        .map(|share| -share * share.log2())
        .sum()
}

/// Patterns of rules, by the rule's name.
type Patterns = Vec<(String, String)>;

/// Vectors and patterns of one file, by its path.
fn read(path: &Path, random: &mut Random) -> (Vec<Vector>, Patterns) {
    let Ok(source) = std::fs::read_to_string(path) else { return Default::default() };
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let dir = path.parent().and_then(Path::file_name);
    if name.ends_with("leaks.toml") && dir.is_some_and(|dir| dir == "config") {
        return (Vec::new(), toml_patterns(&source));
    }
    if path.to_string_lossy().contains("/rules/") && path.extension().is_some_and(|e| e == "yml") {
        return yaml::rules(&source);
    }
    (vectors_of(path, &name, &source, random), Vec::new())
}

/// `id` and `regex` of the rules in a configuration.
fn toml_patterns(source: &str) -> Patterns {
    let mut id = "";
    let mut out = Vec::new();
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("id = ") {
            id = rest.trim_matches('"');
        }
        if let Some(rest) = line.strip_prefix("regex = ") {
            out.push((id.to_owned(), rest.trim_matches('\'').to_owned()));
        }
    }
    out
}

fn vectors_of(path: &Path, name: &str, source: &str, random: &mut Random) -> Vec<Vector> {
    let shown = path.to_string_lossy();
    if shown.contains("/config/rules/") && path.extension().is_some_and(|e| e == "go") {
        return go::rules(source, random);
    }
    if shown.contains("/detectors/") && name.ends_with("_test.go") {
        return go::detector(name.trim_end_matches("_test.go"), source, random);
    }
    if shown.contains("/tests/plugins/") && name.ends_with("_test.py") {
        return python::tests(name.trim_end_matches("_test.py"), source);
    }
    if shown.contains("/snapshots/") && name.starts_with("input") {
        let case =
            path.parent().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
        let rule =
            path.components().rev().nth(4).map(|c| c.as_os_str().to_string_lossy().into_owned());
        let Some(case) = case else { return Vec::new() };
        let leak = case.starts_with("ng");
        if leak || case.starts_with("ok") {
            let rule = format!("{}/{case}", rule.unwrap_or_default());
            return vec![Vector { rule, text: source.to_owned(), leak, ..Vector::default() }];
        }
    }
    Vec::new()
}

/// Speed on ordinary text and on texts made to be slow, for a tenth of the text and for all of it.
fn time(sources: &BTreeMap<String, Vec<Vector>>) -> Verdict {
    let mut verdict = Verdict::Held;
    let vectors: String = sources.values().flatten().map(|v| v.text.as_str()).collect();
    let named = [("source code", include_str!("mod.rs")), ("vectors", vectors.as_str())];
    let hostile = HOSTILE.iter().map(|piece| (*piece, *piece));
    println!("\n| text | MB/s of 1 MiB | MB/s of 10 MiB |\n|---|---|---|");
    for (name, piece) in named.into_iter().chain(hostile) {
        let text = piece.repeat(TIMED_BYTES / piece.len() + 1);
        let (part, all) = (speed(&text, TIMED_BYTES / 10), speed(&text, TIMED_BYTES));
        println!("| {name:?} | {part:.0} | {all:.0} |");
        if all * SLOWER_FACTOR_MAX < part {
            verdict = Verdict::Failed;
        }
    }
    verdict
}

/// Pieces that make a text of nothing but beginnings of secrets.
const HOSTILE: &[&str] = &[
    "sk-",
    "eyJ",
    "eyJa.",
    "token=",
    "token ",
    "password=\"",
    "password='a\"",
    "://",
    "a://b:",
    "-----BEGIN PRIVATE KEY-----\n",
    "machine a login ",
    "AKIA",
    "Bearer ",
    "Authorization: ",
    "curl -u ",
    "-u ",
    " -p",
    "mysql -p",
    "Cookie: a=",
    "xoxb-",
    "SG.",
    "MT",
    "&sig=",
    "a",
    "\n",
];

/// Megabytes in a second, the best of three.
fn speed(text: &str, n_bytes: usize) -> f64 {
    let mut cut = n_bytes.min(text.len());
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    let text = &text[..cut];
    let mut best = 0.0_f64;
    for _ in 0..3 {
        let begun = Instant::now();
        std::hint::black_box(Redactor::new().redact(text));
        // At most a few million: exact.
        #[allow(clippy::cast_precision_loss)]
        let megabytes = text.len() as f64 / 1e6;
        best = best.max(megabytes / begun.elapsed().as_secs_f64());
    }
    best
}

fn subdirectories(dir: &Path) -> Result<Vec<(String, PathBuf)>, CannotTry> {
    let cannot = |e: std::io::Error| format!("cannot read `{}`: {e}", dir.display());
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        if entry.file_type().map_err(cannot)?.is_dir() {
            out.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    out.sort();
    Ok(out)
}

fn gather(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), CannotTry> {
    let cannot = |e: std::io::Error| format!("cannot read `{}`: {e}", dir.display());
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let kind = entry.file_type().map_err(cannot)?;
        if kind.is_dir() {
            gather(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}
