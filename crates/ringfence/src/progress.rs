//! Progress of long commands: on stderr, only if it is a terminal, and not with `--quiet`.

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressStyle};

use crate::style::{self, Stream};

/// A progress bar with total and remaining time, or a counter if there is no total.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Returns true if progress is shown at all.
    pub(crate) fn is_shown() -> bool {
        style::is_terminal(Stream::Stderr) && !style::is_quiet()
    }

    /// Starts at zero. `unit` is the plural of what is counted.
    pub(crate) fn new(unit: &'static str, total: Option<u64>) -> Self {
        if !Self::is_shown() {
            return Self(ProgressBar::hidden());
        }
        let bar = Self(ProgressBar::no_length());
        bar.0.set_message(Cow::Borrowed(unit));
        match total {
            Some(total) => bar.set_total(total),
            None => bar.set_template("{spinner} {pos} {msg}  {per_sec}  {elapsed}"),
        }
        bar
    }

    /// Sets the total, once it is known.
    pub(crate) fn set_total(&self, total: u64) {
        if self.0.length() != Some(total) {
            self.0.set_length(total);
            self.set_template("{bar:30} {pos}/{len} {msg}  {per_sec}  {eta} left");
        }
    }

    /// Counts more that is done.
    pub(crate) fn add(&self, n: u64) {
        self.0.inc(n);
    }

    /// Sets the number that is done.
    pub(crate) fn set(&self, n: u64) {
        self.0.set_position(n);
    }

    /// Prints something without the bar in its way.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }

    fn set_template(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
    }
}
