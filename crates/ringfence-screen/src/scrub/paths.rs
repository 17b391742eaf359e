//! Replaces paths of the host in a stream of bytes.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

/// Bytes searched together: more than a line, so that short pieces do not each cost a search.
const BATCH_BYTES: usize = 4096;

/// Bytes after a path that decide whether it ends there.
const LOOKAHEAD_BYTES: usize = 2;

/// Paths of the host and their replacements, compiled for search. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct HostPaths(Option<Arc<Search>>);

#[derive(Debug)]
struct Search {
    automaton: AhoCorasick,
    /// From and to, longest first.
    paths: Vec<(String, String)>,
    /// The longest path: a match that starts further from the end than this is all there.
    longest: usize,
}

impl FromIterator<(String, String)> for HostPaths {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(paths: I) -> Self {
        let mut usable: Vec<(String, String)> = paths
            .into_iter()
            .map(|(from, to)| (from.trim_end_matches('/').into(), to.trim_end_matches('/').into()))
            .filter(|(from, _): &(String, String)| !from.is_empty())
            .collect();
        // Longest first: the most specific path that ends where the text does wins.
        usable.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        let Some(longest) = usable.first().map(|(from, _)| from.len()) else {
            return Self(None);
        };
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(usable.iter().map(|(from, _)| from));
        Self(automaton.ok().map(|automaton| Arc::new(Search { automaton, paths: usable, longest })))
    }
}

#[derive(Debug)]
pub(super) struct Paths {
    search: Option<Arc<Search>>,
    /// Bytes that may be the beginning of a path.
    held: Vec<u8>,
}

impl Paths {
    pub(super) fn new(paths: &HostPaths) -> Self {
        Self { search: paths.0.clone(), held: Vec::new() }
    }

    pub(super) fn push(&mut self, piece: &[u8], sink: impl FnMut(&[u8])) {
        self.take(piece, BATCH_BYTES, sink);
    }

    /// Passes on the settled bytes.
    pub(super) fn settle(&mut self, sink: impl FnMut(&[u8])) {
        self.take(&[], 0, sink);
    }

    fn take(&mut self, piece: &[u8], batch: usize, mut sink: impl FnMut(&[u8])) {
        let Some(search) = &self.search else {
            sink(piece);
            return;
        };
        self.held.extend_from_slice(piece);
        let open = search.longest + LOOKAHEAD_BYTES;
        if self.held.len() > open + batch {
            let settled = search.replace(&self.held, self.held.len() - open, &mut sink);
            self.held.drain(..settled);
        }
    }

    pub(super) fn finish(&mut self, mut sink: impl FnMut(&[u8])) {
        if let Some(search) = &self.search {
            search.replace(&self.held, self.held.len(), &mut sink);
            self.held.clear();
        }
    }
}

impl Search {
    /// Passes on everything that starts before `end`, and returns the position where that stopped.
    fn replace(&self, bytes: &[u8], end: usize, sink: &mut impl FnMut(&[u8])) -> usize {
        let mut written = 0;
        let mut from = 0;
        while from < end {
            let input = aho_corasick::Input::new(bytes).range(from..);
            let Some(found) = self.automaton.find(input).filter(|found| found.start() < end) else {
                break;
            };
            let start = found.start();
            let path = self.paths.iter().find(|(path, _)| {
                bytes[start..].strip_prefix(path.as_bytes()).is_some_and(ends_here)
            });
            if let Some((path, replacement)) = path {
                sink(&bytes[written..start]);
                sink(replacement.as_bytes());
                written = start + path.len();
                from = written;
            } else {
                from = start + 1;
            }
        }
        let stop = end.max(written);
        sink(&bytes[written..stop]);
        stop
    }
}

/// Returns true if a name ends before these bytes: `/data` in `/data/x` and at the end of a sentence, not in `/data2`.
fn ends_here(rest: &[u8]) -> bool {
    let is_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || *byte >= 0x80;
    match rest {
        [b'.', next, ..] | [next, ..] => !is_name(next),
        [] => true,
    }
}
