//! Reads a text in pieces, with a check of the clock before each. Of a line that is too long only the beginning is
//! passed on, as if the line ended there.

use std::io::{self, Read};

use memchr::{memchr, memrchr};

use crate::grep::Watch;

pub(crate) struct Pieces<R> {
    from: R,
    /// A line was too long.
    pub(crate) shortened: bool,
    line_bytes_max: usize,
    /// Bytes of the line so far.
    n_line: usize,
    watch: Watch,
}

impl<R: Read> Pieces<R> {
    pub(crate) fn new(from: R, line_bytes_max: usize, watch: Watch) -> Self {
        Self { from, shortened: false, line_bytes_max, n_line: 0, watch }
    }

    /// Drops the part of a line that is too long and returns the bytes kept, which start the piece. Only the first line
    /// of a piece can be too long: a piece is no longer than a line may be.
    fn keep(&mut self, piece: &mut [u8]) -> usize {
        let n_first = memchr(b'\n', piece).unwrap_or(piece.len());
        let n_over = (self.n_line + n_first).saturating_sub(self.line_bytes_max);
        if n_over > 0 {
            self.shortened = true;
            piece.copy_within(n_first.., n_first - n_over);
        }
        let kept = piece.len() - n_over;
        self.n_line = match memrchr(b'\n', &piece[..kept]) {
            Some(last) => kept - last - 1,
            None => self.n_line + kept,
        };
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
            // No byte kept is not the end of the text: more follows the long line.
            if kept > 0 || n == 0 {
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_cut_at_their_limit(text in "[ab\n]{0,60}", max in 1usize..12, ask in 1usize..20) {
            let watch = Watch::new(Instant::now() + Duration::from_mins(1), Arc::default());
            let mut pieces = Pieces::new(text.as_bytes(), max, watch);
            let (mut read, mut buffer) = (Vec::new(), vec![0; ask]);
            loop {
                let n = pieces.read(&mut buffer).unwrap();
                if n == 0 {
                    break;
                }
                read.extend_from_slice(&buffer[..n]);
            }
            let cut: Vec<String> = text.split('\n').map(|line| line.chars().take(max).collect()).collect();
            prop_assert_eq!(String::from_utf8(read).unwrap(), cut.join("\n"));
            prop_assert_eq!(pieces.shortened, text.split('\n').any(|line| line.len() > max));
        }
    }
}
