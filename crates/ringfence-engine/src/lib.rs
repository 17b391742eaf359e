//! One road for every call: admit, screen, plan, jail, collect, scrub, record.
//!
//! ```no_run
//! use ringfence_engine::{CodeCall, Engine, Launcher, Place};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // First: runs are launched by a process that is forked before there are threads.
//! let launcher = Launcher::start()?;
//! let engine = Engine::builder().launcher(launcher).place(Place::here("data".as_ref())?).build()?;
//! tokio::runtime::Runtime::new()?.block_on(async {
//!     let code = b"print('hello')\n6 * 7".to_vec();
//!     let ran = engine.execute("me", CodeCall { code, ..CodeCall::default() }).await;
//!     assert_eq!(ran.outcome.value.as_deref(), Some("42"));
//! });
//! # Ok(())
//! # }
//! ```

// Tests make and look at files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod admission;
mod builder;
mod call;
pub mod cancel;
pub mod clock;
mod code;
mod command;
mod engine;
pub mod files;
mod host_context;
mod ids;
mod intercept;
mod launched;
mod metrics;
mod partial_output;
mod record;
mod repl;
mod runs;
mod sessions;
mod sweeper;
mod text;
mod trace;
mod verdict;
pub mod watch;

/// Facts of this host that settings and `doctor` ask for.
pub mod host {
    pub use ringfence_jail::probe;
    pub use ringfence_jail::survey::{found, resolve};
}

/// Who asks where nobody is asked who they are: on the command line, over stdio, at a service without tokens.
pub const LOCAL: &str = "local";

pub use builder::Builder;
pub use call::Redaction;
pub use code::{CodePolicy, CodeRules, python_facts};
pub use command::{Io, Prefork};
pub use engine::{Call, CodeCall, CommandCall, Engine, Foreground, RunResult};
pub use host_context::HostContext;
pub use ids::{fresh_id, some_id};
pub use intercept::AlertSink;
pub use partial_output::{PartialOutput, PartialText};
pub use record::{Recorder, StartedCall, redact};
pub use repl::Repl;
pub use ringfence_jail::Launcher;
pub use ringfence_python::Artifacts;
pub use ringfence_screen::decide::Rules;
pub use runs::{Ended, KeepFiles, Run};
pub use sessions::{
    Daily, Quota, ReplState, SessionId, SessionInfo, SessionSettings, SessionState, Sessions,
    Swept, Today,
};
pub use text::{cut_character, shown};
pub use trace::{Part, Trace, TraceSink};
