//! The files of a workspace, seen from outside: hostile paths, races, a model, interrupted writes, strange files.

#![allow(clippy::disallowed_methods)]

mod atomic;
mod bounds;
mod grep;
mod hostile;
mod model;
mod race;
mod rows;
mod rules;
mod strange;
mod world;
