//! Turns a stream of bytes into text in which every character is visible, or belongs to one that is.

use std::fmt::Write as _;

use super::Html;
use ringfence_spec::invisible;

/// Tag characters in the longest flag, its end included: gbsct and the like.
const TAGS_MAX: usize = 7;

/// The character the three flags with tags begin with.
const BLACK_FLAG: char = '\u{1f3f4}';

#[derive(Debug)]
pub(super) struct Glyphs {
    html: Html,
    /// The beginning of a character that the next piece completes.
    cut: Vec<u8>,
    /// The last character that is seen; a space at the start.
    seen: char,
    /// The invisible character kept after it, if any.
    after: After,
    /// Characters that the next character decides about.
    held: Held,
    binary: bool,
    text: String,
}

/// The invisible character kept after the last visible one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    Variation,
    Joiner,
}

#[derive(Debug)]
enum Held {
    Nothing,
    /// A direction mark: kept beside a right-to-left letter.
    Mark(char),
    /// Tag characters after a black flag: kept when they end as a flag does.
    Tags(Vec<char>),
}

impl Glyphs {
    pub(super) fn new(html: Html) -> Self {
        Self {
            html,
            cut: Vec::new(),
            seen: ' ',
            after: After::Nothing,
            held: Held::Nothing,
            binary: false,
            text: String::new(),
        }
    }

    pub(super) fn is_binary(&self) -> bool {
        self.binary
    }

    pub(super) fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(&str)) {
        let mut rest = bytes;
        // At most three bytes are missing from a cut character.
        while !self.cut.is_empty() && !rest.is_empty() {
            self.cut.push(rest[0]);
            rest = &rest[1..];
            let cut = std::mem::take(&mut self.cut);
            self.decode(&cut);
        }
        self.decode(rest);
        sink(&self.text);
        self.text.clear();
    }

    pub(super) fn finish(&mut self, mut sink: impl FnMut(&str)) {
        self.release(None);
        if !self.cut.is_empty() {
            self.cut.clear();
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        sink(&self.text);
        self.text.clear();
    }

    /// Decodes bytes that begin at a character; keeps a character that is cut off at their end.
    fn decode(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.take(text),
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    // `valid_up_to` guarantees that this part is valid.
                    self.take(std::str::from_utf8(good).unwrap_or_default());
                    let Some(n_bad) = error.error_len() else {
                        self.cut = bad.to_vec();
                        return;
                    };
                    self.binary = true;
                    self.release(Some(char::REPLACEMENT_CHARACTER));
                    self.visible(char::REPLACEMENT_CHARACTER);
                    rest = &bad[n_bad..];
                }
            }
        }
    }

    fn take(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let n_plain = rest.bytes().take_while(|byte| self.is_plain(*byte)).count();
            if n_plain > 0 {
                let (plain, after) = rest.split_at(n_plain);
                self.release(plain.chars().next());
                self.text.push_str(plain);
                self.seen = plain.chars().next_back().unwrap_or(' ');
                self.after = After::Nothing;
                rest = after;
                continue;
            }
            let mut chars = rest.chars();
            if let Some(c) = chars.next() {
                self.character(c);
            }
            rest = chars.as_str();
        }
    }

    /// Bytes that need no thought.
    fn is_plain(&self, byte: u8) -> bool {
        match byte {
            b'&' | b'<' | b'>' | b'"' | b'\'' => self.html == Html::Keep,
            b'\n' | b'\t' | b'\r' | 0x20..=0x7e => true,
            _ => false,
        }
    }

    fn character(&mut self, c: char) {
        if let Held::Tags(tags) = &mut self.held
            && invisible::is_tag(c)
            && tags.len() < TAGS_MAX
        {
            tags.push(c);
            if c == '\u{e007f}' {
                self.text.extend(tags.iter());
                self.held = Held::Nothing;
                self.after = After::Variation;
            }
            return;
        }
        self.release(Some(c));
        match c {
            '&' => self.markup("&amp;", c),
            '<' => self.markup("&lt;", c),
            '>' => self.markup("&gt;", c),
            '"' => self.markup("&quot;", c),
            '\'' => self.markup("&#39;", c),
            '\0' => {
                self.binary = true;
                self.picture(c);
            }
            '\u{1}'..='\u{1f}' | '\u{7f}' => self.picture(c),
            '\u{80}'..='\u{9f}' => self.code(c),
            _ if invisible::is_direction_control(c) => self.code(c),
            _ if invisible::is_direction_mark(c) => self.held = Held::Mark(c),
            _ if invisible::is_tag(c) => {
                if self.seen == BLACK_FLAG && self.after == After::Nothing {
                    self.held = Held::Tags(vec![c]);
                } else {
                    self.code(c);
                }
            }
            invisible::ZERO_WIDTH_SPACE => {
                let belongs = invisible::is_written_without_spaces(self.seen);
                self.keep_if(belongs && self.after == After::Nothing, c, After::Joiner);
            }
            _ if invisible::is_hidden(c) => self.code(c),
            _ if invisible::is_joiner(c) => {
                let belongs = !self.seen.is_ascii() && self.after != After::Joiner;
                self.keep_if(belongs, c, After::Joiner);
            }
            _ if invisible::is_variation(c) => {
                let keycap = matches!(self.seen, '0'..='9' | '#' | '*') && c == '\u{fe0f}';
                let belongs = (!self.seen.is_ascii() || keycap) && self.after == After::Nothing;
                self.keep_if(belongs, c, After::Variation);
            }
            _ => self.visible(c),
        }
    }

    /// Decides about the held characters, now that the next one is known.
    fn release(&mut self, next: Option<char>) {
        match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Nothing => {}
            Held::Mark(mark) => {
                let beside = invisible::is_right_to_left(self.seen)
                    || next.is_some_and(invisible::is_right_to_left);
                self.keep_if(beside, mark, After::Nothing);
            }
            Held::Tags(tags) => {
                for tag in tags {
                    self.code(tag);
                }
            }
        }
    }

    fn keep_if(&mut self, belongs: bool, c: char, after: After) {
        if belongs {
            self.text.push(c);
            self.after = after;
        } else {
            self.code(c);
        }
    }

    fn visible(&mut self, c: char) {
        self.text.push(c);
        self.seen = c;
        self.after = After::Nothing;
    }

    fn markup(&mut self, entity: &str, c: char) {
        self.text.push_str(entity);
        self.seen = c;
        self.after = After::Nothing;
    }

    /// The picture Unicode has for a C0 control or DEL.
    fn picture(&mut self, c: char) {
        let picture = match c {
            '\u{7f}' => '\u{2421}',
            _ => char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER),
        };
        self.visible(picture);
    }

    fn code(&mut self, c: char) {
        // Writing to a String does not fail.
        let _ = write!(self.text, "⟨U+{:04X}⟩", u32::from(c));
        // An ASCII stand-in, so that nothing invisible belongs to it.
        self.seen = ')';
        self.after = After::Nothing;
    }
}
