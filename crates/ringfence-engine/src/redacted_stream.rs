//! Takes secrets out of a run's output while it is written, below every face: live output of services, of the REPL and of
//! `exec`. Captured output is redacted as a whole when the run ends (`record.rs`).
//!
//! A secret may lie across two writes, so text is held back until it is settled: usually to the end of its line. The delay is
//! bounded: after [`SETTLE_AFTER`] the words of an unfinished line that cannot belong to a secret are shown, after
//! [`HELD_MAX`] the rest. Only a private key whose end is missing is held longer, up to 64 KiB or the run's end.

use std::time::{Duration, Instant};

use ringfence_jail::OutputFilter;
use ringfence_screen::redact::StreamRedactor;
use ringfence_screen::scrub::{Scrub, Scrubber};

/// Time after which the plain words of an unfinished line are shown: a prompt, a progress bar.
const SETTLE_AFTER: Duration = Duration::from_millis(200);

/// Time after which text that could still become a secret is shown.
const HELD_MAX: Duration = Duration::from_secs(2);

/// Redacts one stream.
#[derive(Debug, Default)]
pub(crate) struct RedactedStream {
    /// Makes controls visible first, as in captured output: a colour code inside a secret would hide it.
    scrubber: Option<Scrubber>,
    redactor: StreamRedactor,
    /// Start of the present delay, if text is held back.
    held_since: Option<Instant>,
    /// True if the plain words of the held text were shown.
    settled: bool,
}

impl RedactedStream {
    /// A filter for output that passes through: only secrets are replaced.
    pub(crate) fn passthrough() -> Box<dyn OutputFilter> {
        Box::new(Self::default())
    }

    /// A filter for output that is shown as text.
    pub(crate) fn scrubbed(scrub: &Scrub) -> Box<dyn OutputFilter> {
        Box::new(Self { scrubber: Some(Scrubber::new(scrub)), ..Self::default() })
    }

    /// Restarts the delay if text was shown since, or if nothing was held back.
    fn note(&mut self, shown: &[u8]) {
        if self.redactor.held_bytes() == 0 {
            self.held_since = None;
            self.settled = false;
        } else if self.held_since.is_none() || !shown.is_empty() {
            self.held_since = Some(Instant::now());
            self.settled = false;
        }
    }
}

impl OutputFilter for RedactedStream {
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let shown = match &mut self.scrubber {
            None => self.redactor.push(bytes),
            Some(scrubber) => {
                scrubber.push(bytes);
                self.redactor.push(scrubber.drain().as_bytes())
            }
        };
        self.note(&shown);
        shown
    }

    fn due(&self) -> Option<Instant> {
        Some(self.held_since? + if self.settled { HELD_MAX } else { SETTLE_AFTER })
    }

    fn overdue(&mut self, now: Instant) -> Vec<u8> {
        let Some(since) = self.held_since else { return Vec::new() };
        let held = now.saturating_duration_since(since);
        if held >= HELD_MAX {
            let shown = self.redactor.release();
            self.held_since = None;
            self.note(&[]);
            // The rest is inside a private key. Each look at it takes time.
            self.settled = true;
            return shown;
        }
        if self.settled || held < SETTLE_AFTER {
            return Vec::new();
        }
        let shown = self.redactor.settle();
        if self.redactor.held_bytes() == 0 {
            self.held_since = None;
        } else {
            self.settled = true;
        }
        shown
    }

    fn finish(&mut self) -> Vec<u8> {
        let mut shown = Vec::new();
        if let Some(scrubber) = self.scrubber.take() {
            shown = self.redactor.push(scrubber.finish().text.as_bytes());
        }
        shown.extend(self.redactor.finish());
        self.held_since = None;
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token that every rule set knows, in pieces so that no scanner takes it for one.
    fn token() -> String {
        format!("{}_{}", "ghp", "16C7e42F292c6912E7710c838347Ae178B4a")
    }

    fn filters() -> [(&'static str, Box<dyn OutputFilter>); 2] {
        [
            ("passthrough", RedactedStream::passthrough()),
            ("scrubbed", RedactedStream::scrubbed(&Scrub::default())),
        ]
    }

    #[test]
    fn a_secret_is_redacted_wherever_its_writes_are_cut() {
        let address = format!("postgres://a:{}@db/p", "hunter2x");
        let text = format!("user ada\ntoken={} ok\n{address}\nend", token());
        let whole = crate::record::redact(&text).into_owned();
        assert_eq!(whole.matches("[redacted:").count(), 2, "{whole}");
        for cut in 0..=text.len() {
            for (name, mut filter) in filters() {
                let mut shown = filter.push(&text.as_bytes()[..cut]);
                shown.extend(filter.push(&text.as_bytes()[cut..]));
                shown.extend(filter.finish());
                assert_eq!(String::from_utf8(shown).unwrap(), whole, "{name} cut at {cut}");
            }
        }
        for (name, mut filter) in filters() {
            let mut shown: Vec<u8> = text.bytes().flat_map(|b| filter.push(&[b])).collect();
            shown.extend(filter.finish());
            assert_eq!(String::from_utf8(shown).unwrap(), whole, "{name} byte by byte");
        }
    }

    #[test]
    fn a_colour_code_inside_a_secret_hides_it_from_no_one_who_reads_text() {
        let (head, tail) = (&token()[..9], &token()[9..]);
        let mut filter = RedactedStream::scrubbed(&Scrub::default());
        let mut shown = filter.push(format!("{head}\u{1b}[0").as_bytes());
        shown.extend(filter.push(format!("m{tail}\n").as_bytes()));
        shown.extend(filter.finish());
        let shown = String::from_utf8(shown).unwrap();
        let whole = Scrub::default().bytes(format!("{head}\u{1b}[0m{tail}\n").as_bytes()).text;
        assert_eq!(shown, crate::record::redact(&whole));
    }

    #[test]
    fn an_unfinished_line_is_shown_after_a_bounded_delay() {
        let mut filter = RedactedStream::passthrough();
        assert_eq!(filter.due(), None);
        assert_eq!(filter.push(b"10 of 20 "), b"");
        let due = filter.due().unwrap();
        assert!(due <= Instant::now() + SETTLE_AFTER);
        assert_eq!(filter.overdue(due.checked_sub(SETTLE_AFTER).unwrap()), b"");
        assert_eq!(filter.overdue(due), b"10 of 20 ");
        assert_eq!(filter.due(), None);
        // A word that could become a secret waits longer.
        assert_eq!(filter.push(b"password: "), b"");
        let due = filter.due().unwrap();
        assert_eq!(filter.overdue(due), b"");
        let last = filter.due().unwrap();
        assert_eq!(last + SETTLE_AFTER, due + HELD_MAX);
        assert_eq!(filter.overdue(last), b"password: ");
        assert_eq!(filter.due(), None);
    }

    #[test]
    fn the_rest_of_a_secret_that_was_released_is_dropped() {
        let mut filter = RedactedStream::passthrough();
        let token = token();
        let text = format!("token={token}");
        assert_eq!(filter.push(text.as_bytes()), b"");
        let settled = filter.due().unwrap();
        assert_eq!(filter.overdue(settled), b"");
        let mut shown = filter.overdue(filter.due().unwrap());
        shown.extend(filter.push(b"0123456789 after\n"));
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.starts_with("token=[redacted:") && shown.ends_with(" after\n"), "{shown}");
        assert!(!shown.contains("0123456789"), "{shown}");
    }

    #[test]
    fn a_private_key_that_comes_slowly_is_never_shown() {
        let mut filter = RedactedStream::passthrough();
        let line = "MIIEowIBAAKCAQEAx7nq0mYw2p3b6q9dS1f8u5l4k3j2h1g0f9e8d7c6b5a4Z3y2";
        let [begin, end] = ["BEGIN", "END"].map(|w| format!("-----{w} RSA PRIVATE KEY-----\n"));
        let mut shown = filter.push(format!("key:\n{begin}{line}\n").as_bytes());
        for _ in 0..3 {
            for _ in 0..2 {
                if let Some(due) = filter.due() {
                    shown.extend(filter.overdue(due + HELD_MAX));
                }
            }
            shown.extend(filter.push(format!("{line}\n").as_bytes()));
        }
        shown.extend(filter.push(format!("{end}done\n").as_bytes()));
        shown.extend(filter.finish());
        let shown = String::from_utf8(shown).unwrap();
        assert!(!shown.contains(&line[..20]), "{shown}");
        assert!(shown.starts_with("key:\n[redacted:private-key]") && shown.ends_with("done\n"));
    }
}
