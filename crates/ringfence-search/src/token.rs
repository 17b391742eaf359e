//! Cuts text into search terms. An identifier gives its whole name and its parts, so that `parse_url`, `parseUrl` and
//! `ParseURL` share one whole name and the words `parse` and `url`. Linear in the length of the text.

mod stem;

pub(crate) use stem::stem;

/// Maximum bytes of a term. Longer names are blobs, keys or hashes: only their parts are kept.
pub(crate) const TERM_BYTES_MAX: usize = 64;

/// Maximum digits of a number that is kept as a term.
const DIGITS_MAX: usize = 8;

/// Maximum parts of one identifier.
const PARTS_MAX: usize = 16;

/// Cuts text into terms. Keeps its buffers between calls.
#[derive(Debug, Default)]
pub struct Tokenizer {
    whole: String,
    part: String,
    lower: String,
}

impl Tokenizer {
    /// Calls `each` with every term of `text`: for an identifier of several parts its whole name in lower case without
    /// separators, then the stem of each part.
    pub fn terms(&mut self, text: &str, mut each: impl FnMut(&str)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            if byte < 0x80 {
                if !is_word_byte(byte) {
                    at += 1;
                    continue;
                }
                let start = at;
                while at < bytes.len() && is_word_byte(bytes[at]) {
                    at += 1;
                }
                if at == bytes.len() || bytes[at] < 0x80 {
                    self.ascii(&bytes[start..at], &mut each);
                    continue;
                }
                at = start;
            }
            let rest = &text[at..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            if end == 0 {
                at += rest.chars().next().map_or(1, char::len_utf8);
            } else {
                self.unicode(&rest[..end], &mut each);
                at += end;
            }
        }
    }

    /// Terms of one identifier of ASCII letters, digits and underscores.
    fn ascii(&mut self, word: &[u8], each: &mut impl FnMut(&str)) {
        let mut cuts = [0usize; PARTS_MAX];
        let mut n_parts = 0;
        let mut separators = false;
        let mut at = 0;
        while at < word.len() {
            if word[at] == b'_' {
                separators = true;
                at += 1;
                continue;
            }
            if n_parts < PARTS_MAX {
                cuts[n_parts] = at;
            }
            n_parts += 1;
            at = part_end(word, at);
        }
        if n_parts == 0 {
            return;
        }
        if n_parts == 1 && !separators {
            self.emit(word, each);
            return;
        }
        if n_parts > 1 && word.len() <= TERM_BYTES_MAX {
            self.whole.clear();
            self.whole.extend(
                word.iter().filter(|b| **b != b'_').map(|b| char::from(b.to_ascii_lowercase())),
            );
            each(&self.whole);
        }
        let mut n_left = PARTS_MAX;
        for start in cuts.iter().take(n_parts.min(PARTS_MAX)) {
            let end = part_end(word, *start);
            // Single letters and digits of a name say nothing.
            if end - start > 1 || n_parts == 1 {
                self.emit(&word[*start..end], each);
            }
            n_left -= 1;
            if n_left == 0 {
                break;
            }
        }
    }

    fn emit(&mut self, part: &[u8], each: &mut impl FnMut(&str)) {
        if part.len() > TERM_BYTES_MAX {
            return;
        }
        if part.len() > DIGITS_MAX && part.iter().all(u8::is_ascii_digit) {
            return;
        }
        self.part.clear();
        self.part.extend(part.iter().map(|b| char::from(b.to_ascii_lowercase())));
        each(stem(&self.part));
    }

    /// Terms of one identifier that has other letters: in lower case, cut at underscores.
    fn unicode(&mut self, word: &str, each: &mut impl FnMut(&str)) {
        for part in word.split('_').filter(|part| !part.is_empty()) {
            self.lower.clear();
            for c in part.chars().flat_map(char::to_lowercase) {
                if self.lower.len() + c.len_utf8() > TERM_BYTES_MAX {
                    break;
                }
                self.lower.push(c);
            }
            each(&self.lower);
        }
    }
}

/// The whole name of an identifier as a term: lower case, without separators; empty if it is too long.
pub(crate) fn whole_name(name: &str) -> String {
    let whole: String = name
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .take(TERM_BYTES_MAX + 1)
        .collect();
    if whole.len() > TERM_BYTES_MAX { String::new() } else { whole }
}

const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// End of the part that starts at `at`: digits, capitals (`HTTP` of `HTTPServer`), or a word with its capital.
fn part_end(word: &[u8], at: usize) -> usize {
    let run = |from: usize, is: fn(&u8) -> bool| {
        from + word[from..].iter().take_while(|byte| is(byte)).count()
    };
    match word[at] {
        b'0'..=b'9' => run(at, u8::is_ascii_digit),
        b'a'..=b'z' => run(at, u8::is_ascii_lowercase),
        _ => {
            let capitals = run(at, u8::is_ascii_uppercase);
            let follows = word.get(capitals).is_some_and(u8::is_ascii_lowercase);
            match capitals - at {
                1 if follows => run(capitals, u8::is_ascii_lowercase),
                n if n > 1 && follows => {
                    // `URLs` is one word, `HTTPServer` is two.
                    let end = run(capitals, u8::is_ascii_lowercase);
                    if end - capitals == 1 && word[capitals] == b's' { end } else { capitals - 1 }
                }
                _ => capitals,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn terms(text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        Tokenizer::default().terms(text, |term| terms.push(term.to_owned()));
        terms
    }

    #[test]
    fn identifiers_are_kept_whole_and_split() {
        for (text, expected) in [
            ("parse_url", "parseurl pars url"),
            ("parseUrl", "parseurl pars url"),
            ("ParseURL", "parseurl pars url"),
            ("HTTPServer", "httpserver http server"),
            ("utf8", "utf8 utf"),
            ("sha256sum", "sha256sum sha 256 sum"),
            ("content-type", "content typ"),
            ("src/http/mod.rs", "src http mod rs"),
            ("__init__", "init"),
            ("x", "x"),
            ("_ __ -- ::", ""),
            ("größe_maß Ünï", "größe maß ünï"),
            ("naïveBayes", "naïvebayes"),
            ("getURLs", "geturls get url"),
        ] {
            assert_eq!(terms(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn long_names_and_numbers_are_left_out() {
        assert!(terms(&"x".repeat(10_000)).is_empty());
        assert!(terms("123456789012").is_empty());
        assert_eq!(terms("20240131"), ["20240131"]);
        assert!(terms(&"aB".repeat(5000)).len() <= PARTS_MAX);
    }

    proptest! {
        #[test]
        fn no_text_gives_a_term_that_is_empty_or_too_long(text in "\\PC{0,200}") {
            for term in terms(&text) {
                prop_assert!(!term.is_empty() && term.len() <= TERM_BYTES_MAX, "{term:?}");
            }
        }

        #[test]
        fn case_styles_of_one_name_share_its_terms(words in prop::collection::vec("[a-z]{2,8}", 2..5)) {
            let snake = words.join("_");
            let camel: String = words.iter().enumerate().map(|(i, w)| {
                if i == 0 { w.clone() } else { w[..1].to_uppercase() + &w[1..] }
            }).collect();
            prop_assert_eq!(terms(&snake), terms(&camel));
        }
    }
}
