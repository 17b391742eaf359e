//! A service under load, made to be killed: clients run programs, commands and cells for ever, and every answer that was
//! given is told on stdout. `cargo xtask soak --engine` starts it, kills it and looks at what is left.
//!
//! ```text
//! load DATA          until it is killed
//! load DATA tidy     closes every session that earlier ones left, and ends
//! ```
//! Lines: `ready`, `acknowledged RUN_ID`, `wrong WHAT`. It never judges itself: what it says is compared with the ledger.

#![allow(clippy::disallowed_methods)]

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use ringfence_audit::{KeepAll, LedgerSettings};
use ringfence_engine::files::WriteOptions;
use ringfence_engine::{
    CodeCall, CodePolicy, CommandCall, Engine, HostContext, Recorder, SessionId, SessionOptions,
};
use ringfence_jail::Launcher;
use ringfence_spec::{Code, CodePreset, Limits, Outcome, Problem, Status};

const CLIENTS: [&str; 5] = ["ann", "bob", "cat", "dan", "eve"];

/// Enough that a copy of them takes a while, so that some are killed in the middle.
const FILES: usize = 40;

fn main() -> Result<(), Problem> {
    // First: it may only be forked while there is one thread.
    let launcher = Launcher::start()?;
    let mut args = std::env::args_os().skip(1);
    let data = PathBuf::from(args.next().unwrap_or_default());
    let tidy = args.next().is_some();
    let mut code = CodePolicy { limits: Limits::for_code(CodePreset::Open), ..Default::default() };
    code.rules.preset = CodePreset::Open;
    let engine = Engine::builder()
        .launcher(launcher)
        .host(HostContext::here(&data)?)
        .code_policy(code)
        .recorder(Recorder::open(&data.join("ledger"), LedgerSettings::new(KeepAll))?)
        .parallel(2)
        .build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Problem::internal(Code::Threads, "cannot start a runtime").cause(e))?;
    say("ready", "");
    runtime.block_on(async {
        if tidy {
            return close_all(&engine).await;
        }
        let clients = CLIENTS.map(|name| tokio::spawn(client(engine.clone(), name)));
        for client in clients {
            let _ = client.await;
        }
        Ok(())
    })
}

/// One line, written at once: what is in the pipe survives us.
fn say(what: &str, object: &str) {
    let line = format!("{what} {object}\n");
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

fn acknowledge(outcome: &Outcome, expected: Status) {
    say("acknowledged", &outcome.run_id.to_string());
    if outcome.status != expected {
        say("wrong", &format!("{expected:?} was expected: {outcome:?}"));
    }
}

/// Everything a client can do, again and again; each begins somewhere else.
async fn client(engine: Engine, name: &'static str) {
    if let Err(problem) = check_sessions(&engine, name).await {
        say("wrong", &format!("{name}'s sessions: {problem:?}"));
    }
    for n in name.len() + usize::from(name.as_bytes()[0]).. {
        if let Err(problem) = step(&engine, name, n).await {
            say("wrong", &format!("{name}, step {n}: {problem:?}"));
        }
    }
}

async fn step(engine: &Engine, name: &str, n: usize) -> Result<(), Problem> {
    match n % 6 {
        0 => acknowledge(&engine.execute(name, code("print(1)")).await.outcome, Status::Ok),
        1 => {
            let run = engine.command(name, shell("sleep 0.02 & echo x > /tmp/x; wait"));
            acknowledge(&run.await.outcome, Status::Ok);
        }
        2 => {
            let timeout = Some(Duration::from_millis(80));
            let call = CodeCall { timeout, ..code("while True: pass") };
            acknowledge(&engine.execute(name, call).await.outcome, Status::Timeout);
        }
        3 => {
            // Nobody waits for the answer: cancelled, and not acknowledged.
            let endless = engine.command(name, shell("sleep 1000 & sleep 1000"));
            let _ = tokio::time::timeout(Duration::from_millis(60), endless).await;
        }
        _ => session(engine, name, n).await?,
    }
    Ok(())
}

/// A session's life: files, cells, a copy, an end; every third is left to the next service.
async fn session(engine: &Engine, name: &str, n: usize) -> Result<(), Problem> {
    let id = engine.session_create(name, SessionOptions::default()).await?.id;
    let fill = format!("for i in range({FILES}): open(f'f{{i}}', 'w').write('{id}')");
    for code in [&*fill, "x = 1", "x + 1"] {
        acknowledge(&engine.execute(name, cell(&id, code)).await.outcome, Status::Ok);
    }
    let note = format!("{id} whole").into_bytes();
    engine.file_write(name, &id, "note".into(), note, WriteOptions::default()).await?;
    let copy = engine.session_fork(name, &id).await?.id;
    if !n.is_multiple_of(3) {
        engine.session_close(name, &id).await?;
        engine.session_close(name, &copy).await?;
    }
    Ok(())
}

/// What an earlier service left: a copy is whole, a note is whole, and each has its own bytes.
async fn check_sessions(engine: &Engine, name: &str) -> Result<(), Problem> {
    for state in engine.session_list(name).await? {
        let id = state.id.clone();
        let listing = engine.file_list(name, &id, ".".into(), 1, 1000).await?;
        let n_files = listing.entries.len();
        let tag = state.forked_from.as_ref().unwrap_or(&state.id).to_string();
        if state.forked_from.is_some() && n_files != FILES + 1 {
            say("wrong", &format!("the copy {id} has {n_files} files"));
        }
        if listing.entries.iter().any(|entry| entry.path == "note") {
            let note = engine.file_read(name, &id, "note".into(), 0, None).await?;
            if note.bytes != format!("{tag} whole").into_bytes() {
                say("wrong", &format!("the note of {id} is {:?}", note.bytes));
            }
        }
        engine.session_close(name, &id).await?;
    }
    Ok(())
}

async fn close_all(engine: &Engine) -> Result<(), Problem> {
    engine.sweep().await?;
    for name in CLIENTS {
        check_sessions(engine, name).await?;
    }
    Ok(())
}

fn code(code: &str) -> CodeCall {
    CodeCall { code: code.into(), ..CodeCall::default() }
}

fn cell(session: &SessionId, text: &str) -> CodeCall {
    CodeCall { session: Some(session.to_owned()), ..code(text) }
}

fn shell(script: &str) -> CommandCall {
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    CommandCall { argv, ..CommandCall::default() }
}
