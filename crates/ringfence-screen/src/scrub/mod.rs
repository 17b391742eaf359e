//! Makes captured output safe to show (layer 7): bytes in, text out, in one pass, in pieces of any size.
//!
//! | in the output | shown as |
//! |---|---|
//! | ESC, and with it every CSI, OSC and DCS sequence | `␛`, the rest of the sequence stays as plain text: `␛[31m` |
//! | other C0 controls but `\n`, `\t`, `\r` | their picture: `␀`, `␇`, `␈` |
//! | DEL | `␡` |
//! | C1 controls | `⟨U+009B⟩` |
//! | direction embeddings, overrides, isolates | `⟨U+202E⟩` |
//! | direction marks away from right-to-left letters | `⟨U+200F⟩` |
//! | zero-width and tag characters outside the scripts and emoji that need them | `⟨U+200B⟩` |
//! | line and paragraph separators | `⟨U+2028⟩` |
//! | a path of the host | the run's own path for it, given by the caller |
//! | `&`, `<`, `>`, `"`, `'`, with [`Html::Escape`] | `&amp;`, `&lt;`, `&gt;`, `&quot;`, `&#39;` |
//! | bytes that are not UTF-8 | `\u{fffd}`, and [`Scrubbed::binary`] is set |
//! | text between head and tail that exceeds the bound | a line `[N bytes dropped]` |
//!
//! Text in any script passes untouched: joiners in Persian and Indic words, marks beside Hebrew, emoji sequences.

mod glyphs;
mod paths;
mod window;

use glyphs::Glyphs;
use paths::Paths;
use window::Window;

pub use paths::HostPaths;

/// Options, besides neutralising controls.
#[derive(Clone, Debug, Default)]
pub struct Scrub {
    /// Paths of the host and their replacements, such as the run's directory and `/workspace`. A path is replaced with
    /// everything below it kept, but not if it is only the beginning of a longer name; of two that match the longer
    /// wins.
    pub paths: HostPaths,
    /// Escaping for a web page.
    pub html: Html,
    /// Most bytes of text to keep, half from the start and half from the end.
    pub bytes_max: Option<usize>,
}

/// Treatment of markup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Html {
    /// The text stays as it is.
    #[default]
    Keep,
    /// `&`, `<`, `>` and quotes become entities.
    Escape,
}

/// Scrubbed output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// The text.
    pub text: String,
    /// True if the bytes were not text: they had a null byte or were not UTF-8. A sequence that is only cut off at the
    /// end does not count. The outcome then carries the bytes as base64, and this text is for people.
    pub binary: bool,
    /// Bytes of text between head and tail that were dropped.
    pub dropped_bytes: u64,
}

impl Scrub {
    /// Scrubs bytes that are all there.
    pub fn bytes(&self, bytes: &[u8]) -> Scrubbed {
        let mut scrubber = Scrubber::new(self);
        scrubber.push(bytes);
        scrubber.finish()
    }
}

/// Scrubs a stream. The result does not depend on the sizes of the pieces.
#[derive(Debug)]
pub struct Scrubber {
    paths: Paths,
    glyphs: Glyphs,
    window: Window,
}

impl Scrubber {
    /// A scrubber for one stream.
    pub fn new(options: &Scrub) -> Self {
        Self {
            paths: Paths::new(&options.paths),
            glyphs: Glyphs::new(options.html),
            window: Window::new(options.bytes_max),
        }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        let Self { paths, glyphs, window } = self;
        paths.push(piece, |bytes| glyphs.push(bytes, |text| window.push(text)));
    }

    /// The text that is settled by now, to show a stream while it runs. It is not part of the result of
    /// [`Scrubber::finish`]. With a bound only the head can be taken.
    pub fn drain(&mut self) -> String {
        let Self { paths, glyphs, window } = self;
        paths.settle(|bytes| glyphs.push(bytes, |text| window.push(text)));
        window.drain()
    }

    /// The end of the stream.
    pub fn finish(mut self) -> Scrubbed {
        let Self { paths, glyphs, window } = &mut self;
        paths.finish(|bytes| glyphs.push(bytes, |text| window.push(text)));
        glyphs.finish(|text| window.push(text));
        let binary = self.glyphs.is_binary();
        let (text, dropped_bytes) = self.window.finish();
        Scrubbed { text, binary, dropped_bytes }
    }
}
