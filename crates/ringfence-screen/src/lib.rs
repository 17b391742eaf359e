//! Screens text before it runs or is shown. [`screen`] judges Python source by its syntax tree (layer 1); [`mod@scrub`]
//! makes captured output safe to print (layer 7).
//!
//! Pure: opens no file, reads no environment, calls no clock. Judges text only; a program that slips through is held by
//! the jail.
//!
//! | module | purpose |
//! |---|---|
//! | `decide` | rules over calls, and the risk of a call |
//! | `mentions` | judges names after the walk |
//! | `names` | name resolution by Python's scopes |
//! | `redact` | removes secrets from text |
//! | `rules` | the rules about Python source, as data |
//! | `screen` | computes the verdict on a program |
//! | `scrub` | makes captured output safe to print |
//! | `shape` | bounds on size and depth of a source |
//! | `shell` | the commands of a shell command line |
//! | `verdict` | the verdict and its violations |
//! | `walk` | one walk over the syntax tree |

// Tests create and read files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod byte_bound;
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
pub use shape::{DEPTH_MAX, NESTING_MAX};
pub use verdict::{ScreenRisk, ScreenVerdict, VIOLATIONS_MAX, Violation};
