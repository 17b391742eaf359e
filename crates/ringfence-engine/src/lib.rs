//! One road for every call: admit, screen, plan, jail, collect, scrub, record.

pub mod admission;
mod book;
pub mod cancel;
pub mod clock;
mod code;
mod command;
mod engine;
pub mod files;
mod ids;
mod launched;
mod place;
mod record;
mod sessions;
mod text;

pub use book::Book;
pub use code::{AloneFence, CodeFence, CodePolicy, CodeRules, Ground, Use, copy_out};
pub use command::{Fence, HeadStart, Io, outcome};
pub use engine::{Builder, CodeCall, CommandCall, Engine, Ran};
pub use ids::{fresh_id, some_id};
pub use place::Place;
pub use record::{Begun, Recorder, redact};
pub use sessions::{
    Daily, ReplState, SessionId, SessionInfo, SessionSettings, SessionState, Sessions, Swept, Today,
};
