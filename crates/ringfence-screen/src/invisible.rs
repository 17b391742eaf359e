//! Characters that are not seen but change what is seen. Says what a character is; what to do about it is the caller's.

/// Whether a character is drawn as nothing, or changes the direction of what is drawn around it.
pub fn is_invisible(c: char) -> bool {
    is_direction_control(c)
        || is_direction_mark(c)
        || is_hidden(c)
        || is_joiner(c)
        || is_variation(c)
}

/// Embeddings, overrides and isolates: they reorder the text after them, and nobody types them.
pub(crate) fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Marks that Hebrew and Arabic text uses beside its own letters.
pub(crate) fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}')
}

/// Zero-width joiner and non-joiner: part of the spelling in Persian, in Indic scripts and in emoji.
pub(crate) fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Variation selectors: part of emoji and of ideographs, and a place to hide bytes.
pub(crate) fn is_variation(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Zero-width space: marks where words end in scripts that write none.
pub(crate) const ZERO_WIDTH_SPACE: char = '\u{200b}';

/// Tag characters: part of three flags, and an invisible copy of ASCII everywhere else.
pub(crate) fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0020}'..='\u{e007f}')
}

/// Everything else that is drawn as nothing and has no use in plain text.
pub(crate) fn is_hidden(c: char) -> bool {
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

/// Whether a letter belongs to a script written from right to left.
pub(crate) fn is_right_to_left(c: char) -> bool {
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

/// Whether a script separates its words by [`ZERO_WIDTH_SPACE`]: Thai, Lao, Tibetan, Myanmar, Khmer, Tai, Javanese, CJK.
pub(crate) fn is_written_without_spaces(c: char) -> bool {
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
