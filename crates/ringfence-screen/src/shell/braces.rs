//! Brace expansion: `{rm,-rf,/}` is three words. Works on a word as it is written, before quotes are taken off.

/// Most words one is expanded to; beyond that it stays as it is written.
const WORDS_MAX: usize = 64;

/// The words that braces make of one, in order. The word itself when there is nothing to expand or too much.
pub(crate) fn expand(word: &str) -> Vec<String> {
    let mut pending = vec![word.to_owned()];
    let mut done = Vec::new();
    while let Some(word) = pending.pop() {
        match alternatives(&word) {
            None => done.push(word),
            Some(words) if pending.len() + done.len() + words.len() > WORDS_MAX => {
                return vec![word];
            }
            Some(words) => pending.extend(words.into_iter().rev()),
        }
    }
    done
}

/// The words of the first pair of braces with a comma or a range between.
fn alternatives(word: &str) -> Option<Vec<String>> {
    let bytes = word.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            // `${x}` is a parameter.
            b'$' if bytes.get(at + 1) == Some(&b'{') => at = closing(bytes, at + 1)?,
            b'{' => {
                if let Some(words) = pair(word, at) {
                    return Some(words);
                }
                at += 1;
            }
            _ => at = past(bytes, at),
        }
    }
    None
}

fn pair(word: &str, open: usize) -> Option<Vec<String>> {
    let bytes = word.as_bytes();
    let close = closing(bytes, open)? - 1;
    let (before, after) = (&word[..open], &word[close + 1..]);
    let inner = &word[open + 1..close];
    let items = commas(inner);
    if items.len() > 1 {
        return Some(items.iter().map(|item| format!("{before}{item}{after}")).collect());
    }
    let (first, last) = inner.split_once("..")?;
    let items: Vec<String> = match (first.parse::<i32>(), last.parse::<i32>()) {
        (Ok(a), Ok(b)) if a.abs_diff(b) < 64 => {
            (a.min(b)..=a.max(b)).map(|n| n.to_string()).collect()
        }
        _ => match (first.as_bytes(), last.as_bytes()) {
            ([a], [b]) if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                (*a.min(b)..=*a.max(b)).map(|c| char::from(c).to_string()).collect()
            }
            _ => return None,
        },
    };
    Some(items.iter().map(|item| format!("{before}{item}{after}")).collect())
}

/// The place behind the brace that closes the one at `open`.
fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = open;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {
                at = past(bytes, at);
                continue;
            }
        }
        at += 1;
    }
    None
}

/// The text between commas that stand in no inner braces and no quotes.
fn commas(inner: &str) -> Vec<&str> {
    let bytes = inner.as_bytes();
    let (mut items, mut from, mut at, mut depth) = (Vec::new(), 0, 0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                items.push(&inner[from..at]);
                from = at + 1;
            }
            _ => {
                at = past(bytes, at);
                continue;
            }
        }
        at += 1;
    }
    items.push(&inner[from..]);
    items
}

/// The place behind the character at `at`, or behind the quotes or the substitution that begin there.
fn past(bytes: &[u8], at: usize) -> usize {
    let close = match bytes[at] {
        b'\\' => return (at + 2).min(bytes.len()),
        b'\'' => b'\'',
        b'"' => b'"',
        b'`' => b'`',
        b'$' if bytes.get(at + 1) == Some(&b'(') => b')',
        _ => return at + 1,
    };
    let (mut end, mut depth) = (at + 1, 0_usize);
    while end < bytes.len() {
        match bytes[end] {
            b'\\' if close != b'\'' => end += 1,
            b'(' if close == b')' => depth += 1,
            b if b == close && depth > usize::from(close == b')') => depth -= 1,
            b if b == close => return end + 1,
            _ => {}
        }
        end += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn braces_make_words() {
        for (word, words) in [
            ("{rm,-rf,/}", &["rm", "-rf", "/"][..]),
            ("a{b,c}d", &["abd", "acd"]),
            ("{a,{b,c}}", &["a", "b", "c"]),
            ("{1..3}", &["1", "2", "3"]),
            ("x{a..c}", &["xa", "xb", "xc"]),
            ("{}", &["{}"]),
            ("{a}", &["{a}"]),
            ("${a,b}", &["${a,b}"]),
            ("'{a,b}'", &["'{a,b}'"]),
            ("\"{a,b}\"", &["\"{a,b}\""]),
            ("\\{a,b}", &["\\{a,b}"]),
            ("$(echo {a,b})", &["$(echo {a,b})"]),
            ("{a,'b,c'}", &["a", "'b,c'"]),
            ("{a,b", &["{a,b"]),
        ] {
            assert_eq!(expand(word), words, "{word}");
        }
    }

    #[test]
    fn many_braces_stay_as_they_are() {
        let word = "{a,b}".repeat(40);
        assert!(expand(&word).len() <= 64);
        assert_eq!(expand(&"{".repeat(3000)).len(), 1);
    }
}
