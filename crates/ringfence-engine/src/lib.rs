//! Runs Python and shell commands behind Ringfence's fence, from a Rust program: the same calls, records and limits as the
//! `ringfence` command, its MCP server and its HTTP service.
//!
//! ```no_run
//! use ringfence_engine::{CodeCall, Engine};
//!
//! #[tokio::main(flavor = "multi_thread")]
//! async fn start() -> Result<(), Box<dyn std::error::Error>> {
//!     let engine = Engine::builder().build()?;
//!     let code = b"print('hello')\n6 * 7".to_vec();
//!     let ran = engine.execute("me", CodeCall { code, ..CodeCall::default() }).await;
//!     assert_eq!(ran.outcome.value.as_deref(), Some("42"));
//!     Ok(())
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // First: the engine executes this program again as the process that launches runs.
//!     ringfence_engine::init();
//!     start()
//! }
//! ```
//!
//! A program that cannot begin `main` so, such as a test of `cargo test`, names an installed `ringfence` of the same
//! version by [`Builder::launcher_program`].
//!
//! Every call takes the same way: admit, inspect (screen, rules, risk), record the start, plan, launch, collect, scrub,
//! redact, record the end, observe (metrics, alerts, traces).
//!
//! | module | purpose |
//! |---|---|
//! | `engine`, `builder`, `init` | the public handle, its settings, the launcher in an embedding program |
//! | `call` | engine state and the one blocking implementation of every kind of run |
//! | `command_hint` | ways out for a command that did not start |
//! | `command`, `code`, `repl` | how a command, a Python program and a REPL cell are launched |
//! | `runs`, `run_feed`, `live_output` | registry of running and finished runs, their starts and ends, their output as it is written |
//! | `sessions`, `files` | sessions, their interpreters and files |
//! | [`search`], `vectors`, `services` | ranked search in a session, by meaning too, and from inside its runs |
//! | [`admission`] | concurrency, rates, queues, circuit breakers |
//! | `intercept`, [`watch`] | rules, risk ratings, alerts |
//! | `allowed_host` | grants are for hosts that rules allow |
//! | `credentials`, `ssh_agent` | what a run uses and never has: read on the host, handed to the network helper |
//! | `record`, `verdict` | ledger rows; status and error of an outcome |
//! | `partial_output`, `redacted_stream` | output of a running call; secrets taken out of it as it is written |
//! | `metrics`, `trace` | numbers and timings |
//! | `sweeper`, [`cancel`], [`clock`] | expiry of sessions, cancellation, time |

// Tests make and look at files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod admission;
mod allowed_host;
mod builder;
mod call;
pub mod cancel;
pub mod clock;
mod code;
mod command;
mod command_hint;
mod credentials;
mod engine;
pub mod files;
mod host_context;
mod ids;
mod init;
mod intercept;
mod launched;
mod live_output;
mod metrics;
mod once;
mod partial_output;
mod record;
mod redacted_stream;
mod remarks;
mod repl;
mod run_feed;
mod runs;
pub mod search;
mod services;
mod sessions;
mod ssh_agent;
mod sweeper;
mod text;
mod trace;
mod vectors;
mod verdict;
pub mod watch;

/// Facts of this host that settings and `doctor` ask for.
pub mod host {
    pub use crate::host_context::{own_cwd, ready_data_dir, user_data_dir, xdg_dir};
    pub use ringfence_jail::probe;
    pub use ringfence_jail::survey::{found, resolve};
    pub use ringfence_plan::FileId;
    pub use ringfence_plan::FileKind;
}

/// Client name of callers without a token: the command line, stdio, a service without tokens.
pub const LOCAL: &str = "local";

pub use builder::Builder;
pub use call::Redaction;
pub use code::{CodePolicy, CodeRules, python_facts};
pub use command::{Io, Prefork};
pub use engine::{Call, CodeCall, CommandCall, Engine, Foreground, RunResult, blocking};
pub use host_context::HostContext;
pub use ids::{fresh_id, some_id};
pub use init::init;
pub use intercept::{AlertSink, TOOLS};
pub use live_output::{LiveOutput, OpenLine, OutputChunk};
pub use partial_output::{OutputCursor, PartialOutput, PartialText, Step};
pub use record::{Recorder, StartedCall, redact};
pub use remarks::{LoweredLimit, Remarks};
pub use repl::Repl;
pub use ringfence_jail::{Launcher, OutputStream};
pub use ringfence_python::{Artifacts, zygotes_of};
pub use ringfence_screen::decide::Rules;
pub use run_feed::{Feed, FeedPage, RunEvent};
pub use runs::{Ended, KeepFiles, Run, RunWatch};
pub use sessions::{
    Daily, Quota, ReplState, SessionId, SessionInfo, SessionOptions, SessionSettings, SessionState,
    Sessions, Swept, SweptSession, Today, unknown as session_unknown,
};
pub use text::{cut_character, shown};
pub use trace::{Part, Trace, TraceSink};
