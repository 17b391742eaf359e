//! Brace expansion: `{rm,-rf,/}` is three words. Works on a word as written, before quotes are removed.

/// Maximum number of words in an expansion; a word with more stays as written.
const WORDS_MAX: usize = 64;

/// Most bytes that these have together; beyond that it stays as it is written.
const BYTES_MAX: usize = 16 << 10;

/// The words that braces make of one, in order. The word itself if there is nothing to expand or too much.
pub(crate) fn expand(word: &str) -> Vec<String> {
    let mut pending = vec![word.to_owned()];
    let mut done = Vec::new();
    // Each round reads one word from its beginning to its end, so the bound on bytes also bounds the work.
    let mut n_bytes = 0;
    while let Some(word) = pending.pop() {
        match alternatives(&word) {
            None => done.push(word),
            Some(words) => {
                n_bytes += words.iter().map(String::len).sum::<usize>();
                let n_words = pending.len() + done.len() + words.len();
                if n_words > WORDS_MAX || n_bytes > BYTES_MAX {
                    return vec![word];
                }
                pending.extend(words.into_iter().rev());
            }
        }
    }
    done
}

/// A brace that is open.
struct Open {
    at: usize,
    /// `${`: a parameter, in which nothing is expanded.
    is_parameter: bool,
    /// Commas that belong to it.
    commas: Vec<usize>,
}

/// A pair of braces with a comma or a range between.
struct Pair {
    open: usize,
    close: usize,
    /// The words it expands to, in order.
    items: Vec<String>,
}

/// The words of the first pair of braces that has any.
fn alternatives(word: &str) -> Option<Vec<String>> {
    let Pair { open, close, items } = first_pair(word)?;
    let (before, after) = (&word[..open], &word[close + 1..]);
    Some(items.iter().map(|item| format!("{before}{item}{after}")).collect())
}

/// Finds the first pair of braces. Reads each character once; an inner pair is complete before the outer one, which
/// begins first.
fn first_pair(word: &str) -> Option<Pair> {
    let bytes = word.as_bytes();
    let mut open: Vec<Open> = Vec::new();
    let mut n_parameters = 0;
    let mut first: Option<Pair> = None;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => {
                let is_parameter = n_parameters == 0 && at > 0 && bytes[at - 1] == b'$';
                n_parameters += usize::from(is_parameter || n_parameters > 0);
                open.push(Open { at, is_parameter, commas: Vec::new() });
            }
            b'}' => {
                let Some(closed) = open.pop() else {
                    at += 1;
                    continue;
                };
                if n_parameters > 0 {
                    n_parameters -= 1;
                } else if first.as_ref().is_none_or(|first| closed.at < first.open) {
                    first = pair(word, &closed, at).or(first);
                }
            }
            b',' => {
                if let Some(open) = open.last_mut() {
                    open.commas.push(at);
                }
            }
            _ => {
                at = past(bytes, at);
                continue;
            }
        }
        at += 1;
    }
    // Behind a parameter that is never closed nothing is sure.
    let unclosed = open.iter().find(|open| open.is_parameter).map(|open| open.at);
    first.filter(|first| unclosed.is_none_or(|unclosed| first.open < unclosed))
}

fn pair(word: &str, open: &Open, close: usize) -> Option<Pair> {
    let items = if open.commas.is_empty() {
        range(&word[open.at + 1..close])?
    } else {
        let from = std::iter::once(open.at).chain(open.commas.iter().copied());
        let to = open.commas.iter().copied().chain([close]);
        from.zip(to).map(|(from, to)| word[from + 1..to].to_owned()).collect()
    };
    Some(Pair { open: open.at, close, items })
}

/// `1..9`, `a..f`.
fn range(inner: &str) -> Option<Vec<String>> {
    /// Two numbers and the dots between.
    const RANGE_BYTES_MAX: usize = 24;
    if inner.len() > RANGE_BYTES_MAX {
        return None;
    }
    let (first, last) = inner.split_once("..")?;
    match (first.parse::<i32>(), last.parse::<i32>()) {
        (Ok(a), Ok(b)) if a.abs_diff(b) < 64 => {
            Some((a.min(b)..=a.max(b)).map(|n| n.to_string()).collect())
        }
        _ => match (first.as_bytes(), last.as_bytes()) {
            ([a], [b]) if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                Some((*a.min(b)..=*a.max(b)).map(|c| char::from(c).to_string()).collect())
            }
            _ => None,
        },
    }
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
