//! One road for every call: admit, screen, plan, jail, collect, scrub, record.

mod code;
mod command;
mod ids;
mod place;
mod text;
pub mod watch;

pub use code::{AloneFence, CodeFence, CodePolicy, CodeRules, Ground, Use, copy_out};
pub use command::{Fence, HeadStart, Io, outcome};
pub use ids::{fresh_id, some_id};
pub use place::Place;
