//! Finding text. Opens no file and knows no session: it is given what to read, one text after another, and a bound for
//! everything. No pattern takes more than linear time, and none more than its time.
//!
//! ```
//! use ringfence_search::{Bounds, Grep, Pattern, PatternStyle};
//!
//! # fn main() -> Result<(), ringfence_spec::Problem> {
//! let pattern = Pattern::new("fn (\\w+)", PatternStyle::default())?;
//! let mut grep = Grep::new(pattern, Bounds::default());
//! grep.text("src/lib.rs", &b"mod a;\nfn main() {}\n"[..]);
//! let found = grep.finish();
//! assert_eq!((found.matches[0].line, found.matches[0].column), (2, 1));
//! # Ok(())
//! # }
//! ```

// Tests make and look at files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod grep;
mod pattern;
mod pieces;
mod weight;
mod window;

pub use grep::{Bounds, Cut, Found, Grep, Match};
pub use pattern::{Pattern, PatternStyle};
