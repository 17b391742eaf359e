//! Keeps the start and the end of a text, and counts the bytes between them.

#[derive(Debug)]
pub(super) struct Window {
    bytes_max: Option<usize>,
    head: String,
    /// Bytes that left through [`Window::drain`].
    drained: usize,
    /// The text after the head: at least its last `bytes_max / 2` bytes, at most twice that.
    tail: Vec<u8>,
    /// Bytes that left the tail at its front.
    dropped: u64,
}

impl Window {
    pub(super) fn new(bytes_max: Option<usize>) -> Self {
        Self { bytes_max, head: String::new(), drained: 0, tail: Vec::new(), dropped: 0 }
    }

    pub(super) fn push(&mut self, text: &str) {
        let Some(bytes_max) = self.bytes_max else {
            self.head.push_str(text);
            return;
        };
        let (head_max, tail_max) = (bytes_max - bytes_max / 2, bytes_max / 2);
        let mut rest = text;
        if self.tail.is_empty() && self.dropped == 0 {
            let room = head_max - (self.head.len() + self.drained).min(head_max);
            let fits = rest.floor_char_boundary(room.min(rest.len()));
            let (head, after) = rest.split_at(fits);
            self.head.push_str(head);
            rest = after;
        }
        self.tail.extend_from_slice(rest.as_bytes());
        // Cut only when twice too long, so that every byte is moved at most once.
        if self.tail.len() > 2 * tail_max {
            let n_over = self.tail.len() - tail_max;
            self.tail.drain(..n_over);
            self.dropped += n_over as u64;
        }
    }

    pub(super) fn drain(&mut self) -> String {
        self.drained += self.head.len();
        std::mem::take(&mut self.head)
    }

    /// Head, a line with the number of missing bytes, tail; and that number.
    pub(super) fn finish(self) -> (String, u64) {
        let Self { bytes_max, head, drained: _, tail, dropped } = self;
        let tail_max = bytes_max.unwrap_or(0) / 2;
        let mut start = tail.len().saturating_sub(tail_max);
        if dropped == 0 && start == 0 {
            return (head + &String::from_utf8_lossy(&tail), 0);
        }
        // A character that is cut at the front is dropped whole.
        while tail.get(start).is_some_and(|byte| byte & 0xc0 == 0x80) {
            start += 1;
        }
        let dropped = dropped + start as u64;
        let tail = String::from_utf8_lossy(&tail[start..]);
        (format!("{head}\n[{dropped} bytes dropped]\n{tail}"), dropped)
    }
}
