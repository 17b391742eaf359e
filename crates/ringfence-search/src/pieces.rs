//! A text as a pattern may see it: a piece at a time with a look at the clock before each, and of a line that is too long
//! its beginning only, as if it ended there.

use std::io::{self, Read, Take};

use crate::grep::Watch;

pub(crate) struct Pieces<R> {
    pub(crate) from: Take<R>,
    /// A line was too long.
    pub(crate) shortened: bool,
    line_bytes_max: usize,
    /// Bytes of the line so far.
    n_line: usize,
    watch: Watch,
}

impl<R: Read> Pieces<R> {
    pub(crate) fn new(from: Take<R>, line_bytes_max: usize, watch: Watch) -> Self {
        Self { from, shortened: false, line_bytes_max, n_line: 0, watch }
    }

    /// Moves together what is kept, and says how much that is.
    fn keep(&mut self, piece: &mut [u8]) -> usize {
        let (mut read, mut kept) = (0, 0);
        while read < piece.len() {
            let newline = piece[read..].iter().position(|b| *b == b'\n');
            let n = newline.unwrap_or(piece.len() - read);
            let fits = n.min(self.line_bytes_max - self.n_line);
            self.shortened |= fits < n;
            self.n_line += fits;
            // And the newline, which was read behind it.
            piece.copy_within(read..read + fits, kept);
            kept += fits;
            read += n;
            if newline.is_some() {
                piece[kept] = b'\n';
                kept += 1;
                read += 1;
                self.n_line = 0;
            }
        }
        kept
    }
}

impl<R: Read> Read for Pieces<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_max = buffer.len().min(self.line_bytes_max);
        loop {
            if self.watch.is_over() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let n = self.from.read(&mut buffer[..n_max])?;
            let kept = self.keep(&mut buffer[..n]);
            // Nothing kept of a piece is no end: there is more behind the long line.
            if kept > 0 || n == 0 {
                return Ok(kept);
            }
        }
    }
}
