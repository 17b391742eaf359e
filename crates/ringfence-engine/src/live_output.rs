//! Output of a run as it is written, in order, for readers that follow it: chunks of whole lines, made safe to show. A reader
//! keeps its place as an [`OutputCursor`]; what was dropped before it came is counted.

use base64::Engine as _;
use ringfence_jail::{OutputStream, Piece};
use ringfence_spec::Encoding;

use crate::partial_output::{OutputCursor, OutputFormat, PartialOutput};
use crate::record::redact;
use crate::text::cut_character;

/// Bytes handed out by one read.
const READ_BYTES: usize = 64 << 10;

/// First line of a block that redaction takes out as a whole.
const BLOCK_BEGIN: &[u8] = b"-----BEGIN ";

/// Last line of such a block.
const BLOCK_END: &[u8] = b"-----END ";

/// Handling of a line that is not complete yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenLine {
    /// Keep it for the next read.
    Hold,
    /// Hand it out, unless secrets are taken out of the output.
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
        let Some(format) = self.manner.get() else {
            return LiveOutput { cursor: from, ..LiveOutput::default() };
        };
        // With redaction from one byte before: it tells whether a line begins here.
        let back = |at: u64| if format.redact { at.saturating_sub(1) } else { at };
        let pieces = self.raw.pieces_after(back(from.stdout), back(from.stderr), READ_BYTES);
        let more = pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>() >= READ_BYTES;
        let mut reader = Reader {
            format,
            streams: [Pending::new(from.stdout), Pending::new(from.stderr)],
            live: LiveOutput { more, ..LiveOutput::default() },
        };
        for piece in pieces {
            reader.take(piece);
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

/// What was read of a stream and not handed out yet.
struct Pending {
    /// Place of its first byte in the stream.
    at: u64,
    bytes: Vec<u8>,
    /// True if the beginning of its line was dropped.
    is_torn: bool,
    /// True if nothing of the stream was read yet.
    is_new: bool,
}

impl Pending {
    fn new(at: u64) -> Self {
        Self { at, bytes: Vec::new(), is_torn: false, is_new: true }
    }
}

impl Reader<'_> {
    fn take(&mut self, mut piece: Piece) {
        let pending = &mut self.streams[index(piece.stream)];
        if pending.is_new && self.format.redact && pending.at > 0 {
            let is_before = piece.at < pending.at;
            pending.is_torn = !(is_before && piece.bytes.first() == Some(&b'\n'));
            if is_before {
                piece.bytes.remove(0);
                piece.at += 1;
            }
        }
        pending.is_new = false;
        let expected = pending.at + pending.bytes.len() as u64;
        let gap = piece.at.saturating_sub(expected);
        if gap > 0 {
            self.live.lost_bytes += gap + pending.bytes.len() as u64;
            pending.bytes.clear();
            pending.at = piece.at;
            pending.is_torn = true;
        }
        pending.bytes.extend_from_slice(&piece.bytes);
        if pending.is_torn {
            // The rest of a line may be the rest of a secret, or of a character.
            let line = pending.bytes.iter().position(|b| *b == b'\n').map(|at| at + 1);
            let Some(skipped) = line.or_else(|| (!self.format.redact).then_some(0)) else { return };
            let skipped = if self.format.redact { skipped } else { in_character(&pending.bytes) };
            self.live.lost_bytes += skipped as u64;
            pending.at += skipped as u64;
            pending.bytes.drain(..skipped);
            pending.is_torn = false;
        }
        let n = lines_end(&self.streams[index(piece.stream)].bytes, self.format.redact);
        self.give_out(piece.stream, n);
    }

    /// Hands out what is left, as far as it may be shown.
    fn finish(&mut self, open_line: OpenLine) {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            let pending = &mut self.streams[index(stream)];
            let n = match open_line {
                OpenLine::End if pending.is_torn => {
                    // The end of a line whose beginning was dropped.
                    self.live.lost_bytes += pending.bytes.len() as u64;
                    pending.at += pending.bytes.len() as u64;
                    pending.bytes.clear();
                    0
                }
                OpenLine::End => pending.bytes.len(),
                OpenLine::Show if !self.format.redact => {
                    pending.bytes.len() - cut_character(&pending.bytes)
                }
                OpenLine::Show | OpenLine::Hold => 0,
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
            let pending = &mut self.streams[index(stream)];
            let n = pending.bytes.len() - cut_character(&pending.bytes);
            if self.format.redact {
                // A secret may lie across the cut: the outcome has the line, and the live output does not.
                self.live.lost_bytes += n as u64;
                pending.at += n as u64;
                pending.bytes.drain(..n);
            } else {
                self.give_out(stream, n);
            }
        }
    }

    fn give_out(&mut self, stream: OutputStream, n: usize) {
        if n == 0 {
            return;
        }
        let pending = &mut self.streams[index(stream)];
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
        let shown = self.scrub.bytes(bytes);
        if shown.binary {
            return (base64::engine::general_purpose::STANDARD.encode(bytes), Encoding::Base64);
        }
        let text = if self.redact { redact(&shown.text).into_owned() } else { shown.text };
        (text, Encoding::Utf8)
    }
}

fn index(stream: OutputStream) -> usize {
    match stream {
        OutputStream::Stdout => 0,
        OutputStream::Stderr => 1,
    }
}

/// Length of the complete lines. With redaction, without a block that has not ended.
fn lines_end(bytes: &[u8], redact: bool) -> usize {
    let Some(end) = bytes.iter().rposition(|b| *b == b'\n').map(|at| at + 1) else { return 0 };
    if !redact {
        return end;
    }
    let last = |needle: &[u8]| bytes[..end].windows(needle.len()).rposition(|w| w == needle);
    match (last(BLOCK_BEGIN), last(BLOCK_END)) {
        (Some(begin), None) => begin,
        (Some(begin), Some(ended)) if ended < begin => begin,
        _ => end,
    }
}

/// Number of bytes at the start that belong to a character that began before.
fn in_character(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|b| **b & 0xc0 == 0x80).count()
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
    fn with_redaction_no_line_and_no_key_is_shown_in_parts() {
        let output = PartialOutput::default();
        let raw = output.begin(Scrub::default(), Redaction::Answers);
        let token = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
        let (head, rest) = token.split_at(12);
        raw.add_stdout(format!("token = {head}").as_bytes());
        let live = output.live_after(OutputCursor::default(), OpenLine::Show);
        assert!(live.chunks.is_empty());
        raw.add_stdout(format!("{rest}\n-----BEGIN RSA PRIVATE KEY-----\nMIIE").as_bytes());
        let live = output.live_after(live.cursor, OpenLine::Show);
        assert!(live.chunks.len() == 1 && !live.chunks[0].data.contains(rest), "{live:?}");
        raw.add_stdout(
            b"abcdefghijklmnopqrstuvwxyz0123456789\n-----END RSA PRIVATE KEY-----\nend\n",
        );
        let live = output.live_after(live.cursor, OpenLine::Hold);
        assert!(!data(&live).concat().contains("MIIEabc"), "{live:?}");
        assert!(data(&live).concat().ends_with("end\n"), "{live:?}");
        // A line longer than a read is not cut where a secret may lie.
        raw.add_stdout(&[b'y'; READ_BYTES]);
        raw.add_stdout(b"zz\nlast\n");
        let long = output.live_after(live.cursor, OpenLine::Show);
        assert!(long.chunks.is_empty() && long.more && long.lost_bytes > 0, "{long:?}");
        let rest = output.live_after(long.cursor, OpenLine::Show);
        assert_eq!(data(&rest), ["last\n"]);
    }
}
