//! Vectors in YAML rule files: `pattern`, `examples` and `negative_examples` of each rule (Nosey Parker, Kingfisher).
//! Reads the subset that these files use: lists of quoted, plain and `|` block scalars.

use super::sample::has_fixed_prefix;
use super::{PREFIX_CHARS_MIN, Patterns, Vector};

/// Vectors and patterns of one file.
pub(crate) fn rules(source: &str) -> (Vec<Vector>, Patterns) {
    let mut patterns = Vec::new();
    let lines: Vec<&str> = source.lines().collect();
    let mut out: Vec<Vector> = Vec::new();
    let (mut rule, mut prefixed, mut first) = (String::new(), false, 0);
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_start();
        let line = line.strip_prefix("- ").unwrap_or(line).trim_start();
        if line.starts_with("name:") && lines[at].trim_start().starts_with('-') {
            first = out.len();
            prefixed = false;
        }
        if let Some(id) = line.strip_prefix("id:") {
            id.trim().trim_matches(['"', '\'']).clone_into(&mut rule);
        }
        if let Some(head) = line.strip_prefix("pattern:") {
            let (pattern, next) = scalar(&lines, at, head, indent(lines[at]));
            prefixed = has_fixed_prefix(pattern.trim(), PREFIX_CHARS_MIN);
            patterns.push((rule.clone(), pattern.trim().to_owned()));
            out[first..].iter_mut().for_each(|vector| vector.prefixed = prefixed);
            at = next;
            continue;
        }
        let leak = match line.trim_end() {
            "examples:" => true,
            "negative_examples:" => false,
            _ => {
                at += 1;
                continue;
            }
        };
        let depth = indent(lines[at]);
        at += 1;
        while at < lines.len() {
            let line = lines[at];
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                at += 1;
                continue;
            }
            let Some(head) = line.trim_start().strip_prefix('-') else { break };
            if indent(line) < depth || head.trim_start().starts_with("name:") {
                break;
            }
            let (text, next) = scalar(&lines, at, head, indent(line));
            at = next;
            out.push(Vector { rule: rule.clone(), text, leak, prefixed, ..Vector::default() });
        }
    }
    (out, patterns)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The scalar that begins with `head` on line `at`, whose parent is indented by `depth`; and the line behind it.
fn scalar(lines: &[&str], at: usize, head: &str, depth: usize) -> (String, usize) {
    let head = head.trim();
    let mut next = at + 1;
    if head.starts_with(['|', '>']) {
        let mut block = Vec::new();
        while next < lines.len() && (lines[next].trim().is_empty() || indent(lines[next]) > depth) {
            block.push(lines[next]);
            next += 1;
        }
        let common =
            block.iter().filter(|l| !l.trim().is_empty()).map(|l| indent(l)).min().unwrap_or(0);
        let text: Vec<&str> = block.iter().map(|l| l.get(common..).unwrap_or("")).collect();
        return (text.join("\n").trim_end().to_owned() + "\n", next);
    }
    let mut text = head.to_owned();
    let quote = head.chars().next().filter(|c| matches!(c, '"' | '\''));
    let closed = |text: &str| quote.is_none_or(|q| text.len() > 1 && text.trim_end().ends_with(q));
    while !closed(&text) && next < lines.len() {
        text.push(' ');
        text.push_str(lines[next].trim());
        next += 1;
    }
    let text = match quote {
        Some('\'') => text.trim_end().trim_matches('\'').replace("''", "'"),
        Some(_) => serde_json::from_str(text.trim_end()).unwrap_or(text),
        None => text,
    };
    (text, next)
}
