//! Private keys in armour: PEM, OpenSSH, PGP, `PuTTY`. Also where the text ends before the armour does, and where line
//! ends are written as `\n`. A mention of the marker without a key behind it is left alone.

/// Markers of the begin and the end of armour.
const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";

/// Longest key in armour that is replaced as a whole: an RSA key of 16384 bits is 12.5 kB.
const BLOCK_BYTES_MAX: usize = 32 << 10;

/// Longest label: `OPENSSH PRIVATE KEY`, `PGP PRIVATE KEY BLOCK` and future ones.
const LABEL_BYTES_MAX: usize = 64;

/// Fewest characters in a row that make a line a key's and not a sentence's.
const LINE_BYTES_MIN: usize = 16;

/// Finds ends of armour in one text. Caches the positions of the next markers, so that the text is searched once.
pub(crate) struct Blocks<'t> {
    text: &'t [u8],
    next_begin: usize,
    next_end: usize,
    /// Set if more text could change the last answer.
    pub(crate) open: bool,
    /// Set if the last answer is about a key, and not about a marker that may become one of a key.
    pub(crate) in_key: bool,
}

impl<'t> Blocks<'t> {
    pub(crate) fn new(text: &'t [u8]) -> Self {
        Self { text, next_begin: 0, next_end: 0, open: false, in_key: false }
    }

    /// The key whose marker's label begins at `label`.
    pub(crate) fn block(&mut self, start: usize, label: usize) -> Option<(usize, usize)> {
        let Some(body) = self.after_label(label) else {
            // The label may go on, also behind a line end.
            let rest = &self.text[label..];
            self.open = rest.len() < LABEL_BYTES_MAX && {
                let n = rest.iter().take_while(|b| **b != b'-').count();
                b"-----".starts_with(&rest[n..])
            };
            self.in_key = false;
            return None;
        };
        self.in_key = true;
        self.next_begin = next(self.text, BEGIN, self.next_begin, body);
        self.next_end = next(self.text, END, self.next_end, body);
        if self.next_end < self.next_begin && self.next_end - body <= BLOCK_BYTES_MAX {
            let inside = &self.text[body..self.next_end];
            return has_line(inside).then(|| (start, self.after_end()));
        }
        // Truncated: take the lines that look like a key.
        let lines = key_lines(self.text, body);
        let end_may_follow = self.next_end.min(self.next_begin) == self.text.len()
            && self.text.len() - body <= BLOCK_BYTES_MAX;
        self.open = end_may_follow || lines.open;
        Some((start, lines.end?))
    }

    /// A `PuTTY` key's private lines: their number, then that many.
    pub(crate) fn lines(&mut self, at: usize) -> Option<(usize, usize)> {
        let digits = self.text[at..].iter().take(4).take_while(|b| b.is_ascii_digit()).count();
        let start = at + digits;
        let lines = key_lines(self.text, start);
        self.open = lines.open;
        self.in_key = true;
        let stop = lines.end?;
        let skip = self.text[start..stop].iter().take_while(|b| b.is_ascii_whitespace()).count();
        Some((start + skip, stop))
    }

    /// The place behind a label that names a private key.
    fn after_label(&self, at: usize) -> Option<usize> {
        let rest = &self.text[at..self.text.len().min(at + LABEL_BYTES_MAX)];
        let n = rest.iter().take_while(|b| **b != b'-').count();
        let label = &rest[..n];
        let private = label.ends_with(b"PRIVATE KEY") || label.ends_with(b"PRIVATE KEY BLOCK");
        (private && rest[n..].starts_with(b"-----")).then_some(at + n + 5)
    }

    /// The place behind the end marker that was found.
    fn after_end(&self) -> usize {
        let label = self.next_end + END.len();
        let rest = &self.text[label..self.text.len().min(label + LABEL_BYTES_MAX)];
        let n = rest.iter().take_while(|b| b.is_ascii_uppercase() || **b == b' ').count();
        let dashes = rest[n..].iter().take(5).take_while(|b| **b == b'-').count();
        label + n + dashes
    }
}

/// Position of the next `what` at or after `from`; `known` is an earlier result.
fn next(text: &[u8], what: &[u8], known: usize, from: usize) -> usize {
    if known >= from && (known == text.len() || text[known..].starts_with(what)) {
        return known;
    }
    let finder = &text[from..];
    memchr::memmem::find(finder, what).map_or(text.len(), |n| from + n)
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Returns true if it contains a line of a key.
fn has_line(inside: &[u8]) -> bool {
    let mut n = 0;
    for byte in inside {
        n = if is_base64(*byte) { n + 1 } else { 0 };
        if n >= LINE_BYTES_MIN {
            return true;
        }
    }
    false
}

/// Lines of a key that begin at a given place.
struct KeyLines {
    /// Their end, if there are any.
    end: Option<usize>,
    /// Set if more text could change that.
    open: bool,
}

/// Finds the lines of a key that begin at `from`: headers, lines of one length, and a last shorter one.
fn key_lines(text: &[u8], from: usize) -> KeyLines {
    // More text cannot change the lines of a text that was cut to the longest key.
    let is_whole = text.len() - from < BLOCK_BYTES_MAX;
    let text = &text[..text.len().min(from + BLOCK_BYTES_MAX)];
    let mut at = from;
    let mut end = None;
    let mut width = 0;
    loop {
        at += gap(&text[at..]);
        let line = &text[at..];
        if width == 0
            && let Some(n) = header(line)
        {
            at += n;
            continue;
        }
        let n = line.iter().take_while(|b| is_base64(**b)).count();
        let reaches_end = n == line.len() || line == b"\\" || (width == 0 && may_be_header(line));
        let open = is_whole && reaches_end;
        if n == 0 || (width == 0 && n < LINE_BYTES_MIN) || (width > 0 && n > width) {
            return KeyLines { end, open };
        }
        at += n;
        end = Some(at);
        // Shorter than the others: the last, but for a PGP checksum (`=aB3d`).
        if width > 0 && n < width && n != 5 {
            return KeyLines { end, open };
        }
        width = width.max(n);
    }
}

/// Length of the text between two lines: line ends, also written as `\n`, and characters added by quoting.
fn gap(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += match &text[at..] {
            [b'\\', b'n' | b'r', ..] => 2,
            [b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b',' | b'>' | b'|' | b'#', ..] => 1,
            _ => return at,
        };
    }
}

/// Names of the headers of armour.
const HEADERS: &[&[u8]] =
    &[b"Proc-Type:", b"DEK-Info:", b"Version:", b"Comment:", b"Hash:", b"Charset:"];

/// The length of a header line such as `DEK-Info: AES-128-CBC,5B01…`.
fn header(line: &[u8]) -> Option<usize> {
    HEADERS.iter().any(|name| line.starts_with(name)).then(|| {
        let end = line.iter().take(200).position(|b| *b == b'\n' || *b == b'\\');
        end.unwrap_or(line.len().min(200))
    })
}

/// Returns true if more text could make this the name of a header.
fn may_be_header(line: &[u8]) -> bool {
    HEADERS.iter().any(|name| name.starts_with(line))
}
