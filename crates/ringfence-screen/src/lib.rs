//! Reads what is about to run and what is about to be shown. [`screen`] judges Python source by its syntax tree (layer 1);
//! [`mod@scrub`] makes captured output safe to print (layer 7).
//!
//! Pure: opens no file, reads no environment, calls no clock. Judges text only; what holds a program that slips through is
//! the jail.

// Tests make and look at files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod decide;
mod mentions;
mod names;
pub mod redact;
mod rules;
mod screen;
pub mod scrub;
mod shape;
pub mod shell;
mod verdict;
mod walk;

pub use rules::modules::importable;
pub use rules::strict::BUILTINS as STRICT_BUILTINS;
pub use rules::{RULES, Rule};
pub use screen::screen;
pub use shape::{DEPTH_MAX, NESTING_MAX, SOURCE_BYTES_MAX};
pub use verdict::{Risk, VIOLATIONS_MAX, Verdict, Violation};
