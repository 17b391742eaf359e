//! Classes of characters, and the ends of runs of one class. Ends are cached, so that a text made only of prefixes is
//! still read once.

/// A kind of character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `A-Z0-9`
    Upper = 0,
    /// `A-Fa-f0-9`
    Hex = 1,
    /// `A-Za-z0-9`
    Alnum = 2,
    /// `A-Za-z0-9_`
    Word = 3,
    /// `A-Za-z0-9_-`
    Token = 4,
    /// `A-Za-z0-9_.-` and `~+/=`: everything that tokens in headers are made of.
    Header = 5,
    /// `A-Za-z0-9+/=`
    Base64 = 6,
    /// `A-Za-z0-9_/-`: a path with a token in it.
    Path = 7,
    /// Continues a value without quotes.
    Bare = 8,
    /// All but `"` and line ends.
    InDouble = 9,
    /// All but `'` and line ends.
    InSingle = 10,
    /// All but `` ` `` and line ends.
    InBack = 11,
    /// All but `<` and line ends.
    InElement = 12,
    /// `A-Za-z0-9_.-`
    Dotted = 13,
    /// `a-z0-9`
    Lower = 14,
    /// `A-Za-z0-9` and `./$`: hashes of passwords.
    Crypt = 15,
    /// `A-Za-z0-9%`
    Percent = 16,
    /// `A-Za-z0-9_/@-`: a path with tokens and identifiers in it.
    Webhook = 17,
    /// Those of `Header`, and commas between several tokens.
    HeaderList = 18,
}

const N_CLASSES: usize = 19;

/// For each byte, the classes it is in.
static MEMBER: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        // A counter below 256 is a byte.
        #[allow(clippy::cast_possible_truncation)]
        let b = byte as u8;
        let alnum = b.is_ascii_alphanumeric();
        let word = alnum || b == b'_';
        let header = word || matches!(b, b'-' | b'.' | b'~' | b'+' | b'/' | b'=');
        let line = b != b'\n' && b != b'\r';
        let bare = b > b' '
            && b < 0x7f
            && !matches!(
                b,
                b'"' | b'\''
                    | b'`'
                    | b','
                    | b';'
                    | b'&'
                    | b'<'
                    | b'>'
                    | b'|'
                    | b')'
                    | b']'
                    | b'}'
                    | b'\\'
            );
        let is = [
            b.is_ascii_uppercase() || b.is_ascii_digit(),
            b.is_ascii_hexdigit(),
            alnum,
            word,
            word || b == b'-',
            header,
            alnum || matches!(b, b'+' | b'/' | b'='),
            word || matches!(b, b'-' | b'/'),
            bare,
            line && b != b'"',
            line && b != b'\'',
            line && b != b'`',
            line && b != b'<',
            word || matches!(b, b'-' | b'.'),
            b.is_ascii_lowercase() || b.is_ascii_digit(),
            alnum || matches!(b, b'.' | b'/' | b'$'),
            alnum || b == b'%',
            word || matches!(b, b'-' | b'/' | b'@'),
            header || b == b',',
        ];
        let mut class = 0;
        while class < N_CLASSES {
            if is[class] {
                table[byte] |= 1 << class;
            }
            class += 1;
        }
        byte += 1;
    }
    table
};

impl Class {
    pub(crate) fn has(self, byte: u8) -> bool {
        MEMBER[usize::from(byte)] & (1 << self as u32) != 0
    }
}

/// Ends of runs in one text, the last of each class cached.
pub(crate) struct Runs<'t> {
    text: &'t [u8],
    last: [(usize, usize); N_CLASSES],
}

impl<'t> Runs<'t> {
    pub(crate) fn new(text: &'t [u8]) -> Self {
        Self { text, last: [(0, 0); N_CLASSES] }
    }

    /// End of the run that continues at `at`: `at` itself if no character of the class is there.
    pub(crate) fn end(&mut self, class: Class, at: usize) -> usize {
        let (start, end) = self.last[class as usize];
        if (start..end).contains(&at) {
            return end;
        }
        let mut stop = at;
        while stop < self.text.len() && class.has(self.text[stop]) {
            if stop == start && end > start {
                stop = end;
                break;
            }
            stop += 1;
        }
        if stop > at {
            self.last[class as usize] = (at, stop);
        }
        stop
    }
}

/// Returns true if no word continues at `at`.
pub(crate) fn ends_word(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|b| !Class::Word.has(*b))
}

/// Returns true if a token stands inside of base64 or of a file's name (`a.ico-7a38….png`), where prefixes occur by chance.
pub(crate) fn by_chance(text: &[u8], start: usize, end: usize) -> bool {
    let (before, behind) = (text[..start].last(), text.get(end));
    before == Some(&b'+')
        || behind == Some(&b'+')
        || (before == Some(&b'.') && behind == Some(&b'.'))
}

/// Returns true if a word can begin at `at`: no word character before it, or the end of an escape (`\n`, `%3D`, a
/// colour).
pub(crate) fn begins_word(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    match before {
        [] | [.., b'\\', b'n' | b't' | b'r'] => true,
        [.., b] if !Class::Word.has(*b) => true,
        [.., b'%', high, low] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        [.., b'm'] => {
            // A colour: ESC, `[`, digits and semicolons.
            let digits = before[..at - 1].iter().rev().take(12);
            let n = digits.take_while(|b| b.is_ascii_digit() || **b == b';').count();
            before[..at - 1 - n].ends_with(b"\x1b[")
        }
        _ => false,
    }
}
