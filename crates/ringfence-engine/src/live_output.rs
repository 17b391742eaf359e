//! Output of a run as it is written, in order, for readers that follow it: chunks of whole lines, made safe to show. A reader
//! keeps its place as an [`OutputCursor`]; what was dropped before it came is counted.

use base64::Engine as _;
use ringfence_jail::{OutputStream, Piece};
use ringfence_spec::Encoding;

use crate::partial_output::{OutputCursor, OutputFormat, PartialOutput};
use crate::text::{character_rest, cut_character};

/// Bytes handed out by one read.
const READ_BYTES: usize = 64 << 10;

/// Handling of a line that is not complete yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenLine {
    /// Keep it for the next read.
    Hold,
    /// Hand it out.
    Show,
    /// Hand it out: nothing follows.
    End,
}

/// Output after a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveOutput {
    /// Chunks in the order they were written.
    pub chunks: Vec<OutputChunk>,
    /// Bytes of both streams after the asked cursor that were dropped before this read.
    pub lost_bytes: u64,
    /// Where the next read begins.
    pub cursor: OutputCursor,
    /// True if more can be read at once.
    pub more: bool,
}

/// Part of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChunk {
    /// The stream.
    pub stream: OutputStream,
    /// Text, or base64 of bytes that are no text.
    pub data: String,
    /// Encoding of `data`.
    pub encoding: Encoding,
    /// Where the output goes on after this chunk.
    pub cursor: OutputCursor,
}

impl PartialOutput {
    /// Reads what was written after a cursor.
    pub fn live_after(&self, from: OutputCursor, open_line: OpenLine) -> LiveOutput {
        let Some(format) = self.format.get() else {
            return LiveOutput { cursor: from, ..LiveOutput::default() };
        };
        let pieces = self.raw.pieces_after(from.stdout, from.stderr, READ_BYTES);
        let more = pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>() >= READ_BYTES;
        let mut reader = Reader {
            format,
            streams: [Pending::new(from.stdout), Pending::new(from.stderr)],
            live: LiveOutput { more, ..LiveOutput::default() },
        };
        for piece in pieces {
            reader.take(&piece);
        }
        if more {
            // Its line goes on in what the next read finds.
            reader.give_out_long_lines();
        } else {
            reader.finish(open_line);
        }
        let cursor = reader.cursor();
        LiveOutput { cursor, ..reader.live }
    }
}

struct Reader<'a> {
    format: &'a OutputFormat,
    streams: [Pending; 2],
    live: LiveOutput,
}

/// Bytes read from a stream and not handed out yet.
struct Pending {
    /// Place of its first byte in the stream.
    at: u64,
    bytes: Vec<u8>,
}

impl Pending {
    fn new(at: u64) -> Self {
        Self { at, bytes: Vec::new() }
    }
}

impl Reader<'_> {
    fn take(&mut self, piece: &Piece) {
        let pending = &mut self.streams[piece.stream as usize];
        let expected = pending.at + pending.bytes.len() as u64;
        let mut bytes = &piece.bytes[..];
        if piece.at > expected {
            // Behind a gap it may begin within a character.
            bytes = &bytes[character_rest(bytes)..];
            let at = piece.at + (piece.bytes.len() - bytes.len()) as u64;
            self.live.lost_bytes += at - pending.at;
            *pending = Pending::new(at);
        }
        pending.bytes.extend_from_slice(bytes);
        let n = lines_end(&pending.bytes);
        self.give_out(piece.stream, n);
    }

    /// Hands out what is left, as far as it may be shown.
    fn finish(&mut self, open_line: OpenLine) {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            let pending = &mut self.streams[stream as usize];
            let n = match open_line {
                OpenLine::End => pending.bytes.len(),
                OpenLine::Show => pending.bytes.len() - cut_character(&pending.bytes),
                OpenLine::Hold => 0,
            };
            self.give_out(stream, n);
        }
    }

    /// Hands out a line that fills a whole read: the next read would find no more of it.
    fn give_out_long_lines(&mut self) {
        if !self.live.chunks.is_empty() {
            return;
        }
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            let pending = &mut self.streams[stream as usize];
            let n = pending.bytes.len() - cut_character(&pending.bytes);
            self.give_out(stream, n);
        }
    }

    fn give_out(&mut self, stream: OutputStream, n: usize) {
        if n == 0 {
            return;
        }
        let pending = &mut self.streams[stream as usize];
        pending.at += n as u64;
        let bytes: Vec<u8> = pending.bytes.drain(..n).collect();
        let (data, encoding) = self.format.chunk(&bytes);
        let cursor = self.cursor();
        self.live.chunks.push(OutputChunk { stream, data, encoding, cursor });
    }

    fn cursor(&self) -> OutputCursor {
        let [stdout, stderr] = &self.streams;
        OutputCursor { stdout: stdout.at, stderr: stderr.at }
    }
}

impl OutputFormat {
    fn chunk(&self, bytes: &[u8]) -> (String, Encoding) {
        if self.filtered {
            return (String::from_utf8_lossy(bytes).into_owned(), Encoding::Utf8);
        }
        let shown = self.scrub.bytes(bytes);
        if shown.binary {
            return (base64::engine::general_purpose::STANDARD.encode(bytes), Encoding::Base64);
        }
        (shown.text, Encoding::Utf8)
    }
}

/// Length of the complete lines.
fn lines_end(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use ringfence_screen::scrub::Scrub;

    use super::*;
    use crate::call::Redaction;

    fn data(live: &LiveOutput) -> Vec<&str> {
        live.chunks.iter().map(|chunk| chunk.data.as_str()).collect()
    }

    #[test]
    fn lines_come_in_order_and_an_open_line_comes_when_it_is_asked_for() {
        let output = PartialOutput::default();
        let nowhere = OutputCursor::default();
        assert_eq!(output.live_after(nowhere, OpenLine::End), LiveOutput::default());
        let raw = output.begin(Scrub::default(), Redaction::LedgerOnly);
        raw.add_stdout(b"one\ntw");
        raw.add_stderr(b"warn\n");
        raw.add_stdout("o\n50 % \u{20ac}".as_bytes().split_last().unwrap().1);
        let held = output.live_after(nowhere, OpenLine::Hold);
        assert_eq!(data(&held), ["one\n", "warn\n", "two\n"]);
        assert_eq!(held.chunks[0].cursor, OutputCursor { stdout: 4, stderr: 0 });
        let shown = output.live_after(held.cursor, OpenLine::Show);
        assert_eq!(data(&shown), ["50 % "]);
        let again = output.live_after(held.chunks[1].cursor, OpenLine::Hold);
        assert_eq!(data(&again), ["two\n"]);
        raw.add_stdout(b"\xac\n");
        assert_eq!(data(&output.live_after(shown.cursor, OpenLine::Hold)), ["\u{20ac}\n"]);
        raw.add_stdout(b"\xff\0");
        let bytes = output.live_after(OutputCursor { stdout: 17, stderr: 5 }, OpenLine::End);
        assert_eq!((data(&bytes), bytes.chunks[0].encoding), (vec!["/wA="], Encoding::Base64));
    }

    #[test]
    fn what_was_dropped_is_counted_and_all_else_arrives_once() {
        for redaction in [Redaction::LedgerOnly, Redaction::Answers] {
            let output = PartialOutput::default();
            let raw = output.begin(Scrub::default(), redaction);
            let line = "0123456789abcde\n";
            let all = line.repeat(60_000);
            for part in all.as_bytes().chunks(5_000) {
                raw.add_stdout(part);
            }
            raw.finish();
            let (mut cursor, mut lost, mut got) = (OutputCursor::default(), 0, String::new());
            loop {
                let live = output.live_after(cursor, OpenLine::End);
                lost += live.lost_bytes;
                got.extend(live.chunks.iter().map(|chunk| chunk.data.as_str()));
                assert!(live.more || live.cursor.stdout == all.len() as u64);
                cursor = live.cursor;
                if !live.more {
                    break;
                }
            }
            assert!(lost > 0 && got.len() > 200 << 10, "{lost} {}", got.len());
            assert_eq!(lost + got.len() as u64, all.len() as u64);
            assert!(all.ends_with(&got));
        }
    }

    #[test]
    fn with_redaction_no_secret_is_shown_in_parts() {
        let output = PartialOutput::default();
        let raw = output.begin(Scrub::default(), Redaction::Answers);
        let token = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
        let (head, rest) = token.split_at(12);
        let mut shown = String::new();
        let mut cursor = OutputCursor::default();
        let mut read = |open_line| {
            let live = output.live_after(cursor, open_line);
            shown.extend(live.chunks.iter().map(|chunk| chunk.data.as_str()));
            cursor = live.cursor;
            assert_eq!(live.lost_bytes, 0);
        };
        raw.add_stdout(format!("token = {head}").as_bytes());
        read(OpenLine::Show);
        let [begin, end] = ["BEGIN", "END"].map(|edge| format!("-----{edge} RSA PRIVATE KEY-----"));
        raw.add_stdout(format!("{rest}\n{begin}\nMIIE").as_bytes());
        read(OpenLine::Show);
        raw.add_stdout(format!("abcdefghijklmnopqrstuvwxyz0123456789\n{end}\nend\n").as_bytes());
        read(OpenLine::Show);
        raw.finish();
        read(OpenLine::End);
        assert!(shown.starts_with("token = ") && shown.ends_with("end\n"), "{shown}");
        assert!(!shown.contains(rest) && !shown.contains("MIIE"), "{shown}");
    }
}
