//! Conflates the forms of an English word: plurals, `-ed`, `-ing` and a final `e`. Deliberately light: names of code are
//! exact, so `encoder` and `encode` stay apart.

/// The stem of a lower-case word. Words with other than ASCII letters, and short ones, are returned as they are.
pub(crate) fn stem(word: &str) -> &str {
    let bytes = word.as_bytes();
    if bytes.len() < 4 || !bytes.iter().all(u8::is_ascii_lowercase) {
        return word;
    }
    let word = plural(word);
    let word = participle(word);
    match word.strip_suffix('e') {
        Some(short) if short.len() >= 3 => short,
        Some(_) => word,
        None => without_y(word),
    }
}

/// `query` becomes `quer`, as `queries` does; `key` and `array` keep their `y`.
fn without_y(word: &str) -> &str {
    match word.strip_suffix('y') {
        Some(short) if short.len() >= 3 && !short.ends_with(['a', 'e', 'o', 'u']) => short,
        _ => word,
    }
}

fn plural(word: &str) -> &str {
    if let Some(short) = word.strip_suffix("ies") {
        return if short.len() >= 3 { short } else { &word[..word.len() - 1] };
    }
    for sibilant in ["sses", "shes", "ches", "xes", "zes"] {
        if word.ends_with(sibilant) && word.len() > sibilant.len() + 1 {
            return &word[..word.len() - 2];
        }
    }
    match word.strip_suffix('s') {
        Some(short) if !short.ends_with(['s', 'u', 'i']) => short,
        _ => word,
    }
}

fn participle(word: &str) -> &str {
    let Some(short) = word.strip_suffix("ing").or_else(|| word.strip_suffix("ed")) else {
        return word;
    };
    if short.len() < 3 || !has_vowel(short) {
        return word;
    }
    undouble(short)
}

/// `mapp` of `mapping` becomes `map`; `ll`, `ss` and `zz` belong to the word, as in `calling`.
fn undouble(word: &str) -> &str {
    let bytes = word.as_bytes();
    let (last, before) = (bytes[bytes.len() - 1], bytes[bytes.len() - 2]);
    let doubled = last == before && !matches!(last, b'l' | b's' | b'z' | b'e' | b'o');
    if doubled { &word[..word.len() - 1] } else { word }
}

fn has_vowel(word: &str) -> bool {
    word.bytes().any(|byte| matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y'))
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn forms_of_one_word_share_a_stem() {
        for forms in [
            &["route", "routes", "routed", "routing"][..],
            &["parse", "parses", "parsed", "parsing"],
            &["map", "maps", "mapped", "mapping"],
            &["request", "requests", "requested"],
            &["query", "queries"],
            &["copy", "copies"],
            &["class", "classes"],
            &["box", "boxes"],
            &["call", "calls", "called", "calling"],
            &["pass", "passes", "passed"],
        ] {
            let stems: Vec<&str> = forms.iter().map(|word| stem(word)).collect();
            assert!(stems.iter().all(|s| *s == stems[0]), "{forms:?}: {stems:?}");
        }
    }

    #[test]
    fn other_words_stay_apart() {
        for (a, b) in [
            ("encoder", "encode"),
            ("string", "str"),
            ("status", "stat"),
            ("bed", "b"),
            ("thing", "th"),
        ] {
            assert_ne!(stem(a), stem(b));
        }
    }
}
