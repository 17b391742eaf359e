//! Characters that are invisible but change the text around them, and the one way to put an untrusted name into a text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Characters of a name that are shown; the kernel takes paths of 4,096 bytes.
const NAME_CHARS_MAX: usize = 300;

/// Escapes the name of a file, a program or a host for one of Ringfence's own lines. An untrusted name could move the
/// cursor, turn the direction, begin a line that looks like Ringfence's, or end its quotation marks: such characters
/// are written as escapes, and a name that is too long is cut.
pub fn escape_name(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !(c.is_control() || c == '`' || is_invisible(c));
    if name.len() <= NAME_CHARS_MAX && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut shown = String::with_capacity(name.len().min(4 * NAME_CHARS_MAX));
    for (n, c) in name.chars().enumerate() {
        if n == NAME_CHARS_MAX {
            shown.push('…');
            break;
        }
        match c {
            c if is_plain(c) => shown.push(c),
            '`' => shown.push_str("\\u{60}"),
            c => shown.extend(c.escape_default()),
        }
    }
    Cow::Owned(shown)
}

/// A text in which control and invisible characters are written as escapes, but for those that are kept.
pub fn escape_unseen(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() || is_invisible(c)) && !is_kept(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Writes every such character of a JSON text as an escape: readable for people, and the same value for programs. They
/// occur in strings only, as JSON's own characters are plain ones.
pub fn escape_json(text: String) -> String {
    let is_seen = |c: char| !(is_invisible(c) || (c.is_control() && !c.is_ascii()));
    if text.is_ascii() || text.chars().all(is_seen) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if is_seen(c) {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

/// Returns true if a character is drawn as nothing, or changes the direction of the text around it.
pub fn is_invisible(c: char) -> bool {
    is_default_ignorable(c) || is_hidden(c)
}

/// Unicode's `Default_Ignorable_Code_Point`: drawn as nothing where a font does not know better, and ignored by file systems
/// that fold names.
pub fn is_default_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Embeddings, overrides and isolates: they reorder the text after them, and are not typed by hand.
pub fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Marks that Hebrew and Arabic text uses beside its own letters.
pub fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}')
}

/// Zero-width joiner and non-joiner: part of the spelling in Persian, in Indic scripts and in emoji.
pub fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Variation selectors: part of emoji and of ideographs, and a place to hide bytes.
pub fn is_variation(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Zero-width space: marks where words end in scripts that write none.
pub const ZERO_WIDTH_SPACE: char = '\u{200b}';

/// Tag characters: part of three flags, and an invisible copy of ASCII everywhere else.
pub fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0020}'..='\u{e007f}')
}

/// Everything else that is drawn as nothing and has no use in plain text.
pub fn is_hidden(c: char) -> bool {
    c == ZERO_WIDTH_SPACE
        || is_tag(c)
        || matches!(
            c,
            '\u{180e}'
                | '\u{2028}' | '\u{2029}'
                | '\u{2060}'..='\u{2065}'
                | '\u{206a}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0001}'
        )
}

/// Returns true if a letter belongs to a script written from right to left.
pub fn is_right_to_left(c: char) -> bool {
    matches!(
        c,
        '\u{0590}'..='\u{061b}'
            | '\u{061d}'..='\u{08ff}'
            | '\u{fb1d}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefc}'
            | '\u{10800}'..='\u{10fff}'
            | '\u{1e800}'..='\u{1efff}'
    )
}

/// Returns true if a script separates its words by [`ZERO_WIDTH_SPACE`]: Thai, Lao, Tibetan, Myanmar, Khmer, Tai,
/// Javanese, CJK.
pub fn is_written_without_spaces(c: char) -> bool {
    matches!(
        c,
        '\u{0e00}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{1950}'..='\u{1aaf}'
            | '\u{1b00}'..='\u{1b7f}'
            | '\u{3000}'..='\u{3163}'
            | '\u{3165}'..='\u{9fff}'
            | '\u{a980}'..='\u{aadf}'
            | '\u{ac00}'..='\u{d7ff}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_line_and_in_its_quotation_marks() {
        assert_eq!(escape_name("plot-é.png"), "plot-é.png");
        assert!(matches!(escape_name("plain"), Cow::Borrowed(_)));
        let hostile = "a\u{1b}[2J\r\nringfence: ok\u{202e}\u{200b}` b";
        let shown = "a\\u{1b}[2J\\r\\nringfence: ok\\u{202e}\\u{200b}\\u{60} b";
        assert_eq!(escape_name(hostile), shown);
        let json = escape_json("{\"a\": \"\u{202e}\u{e0041}é\"}".to_owned());
        assert_eq!(json, "{\"a\": \"\\u202e\\udb40\\udc41é\"}");
        assert_eq!(escape_name(&"x".repeat(5000)).chars().count(), NAME_CHARS_MAX + 1);
    }
}
