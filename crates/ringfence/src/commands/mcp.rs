//! `ringfence mcp`: serves an agent over stdin and stdout. The only client is the process that started it.

use std::process::ExitCode;
use std::time::Duration;

use ringfence_audit::LedgerSettings;
use ringfence_engine::{Builder, Engine, LOCAL, Launcher, Recorder};
use ringfence_server::mcp::{End, serve_stdio};
use ringfence_server::notify::Notifier;
use ringfence_spec::{Problem, Span};

use crate::cli::{McpArgs, PolicyFlags};
use crate::commands::serve::raise_descriptors;
use crate::present;
use crate::settings::{
    Effective, EffectiveCode, Key, Origin, Surroundings, effective, effective_code, ledger, notify,
    ready, rules, search,
};

/// Default timeout of an agent's command (R4.1).
pub(crate) const COMMAND_TIMEOUT: Span = Span::secs(300);

/// Time to deliver remaining notifications: the parent process waits for our exit.
const NOTIFY_TIMEOUT: Duration = Duration::from_millis(400);

/// Serves until the client disconnects.
pub(crate) fn mcp(args: &McpArgs) -> ExitCode {
    match attempt(&args.policy) {
        Ok(End::Closed) => ExitCode::SUCCESS,
        Ok(End::Signal(number)) => ExitCode::from(128 + number),
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(flags: &PolicyFlags) -> Result<End, Problem> {
    // First: the launcher is a fork of this process, which must not have threads yet.
    let launcher = Launcher::start()?;
    let around = Surroundings::real(false)?;
    let (mut code, mut command) = policies(flags, &around)?;
    say_once(&mut code, &mut command);
    let search = search(flags, &around)?;
    search.hide_key(&mut command.policy)?;
    let rules = rules(flags, &around)?;
    let notify = notify(flags, &around)?;
    notify.log.start()?;
    let mut notifier = Notifier::new(notify.others);
    raise_descriptors();
    let builder = with_notifier(builder(launcher, code, command)?, &notifier).rules(rules);
    let engine = search.apply(builder, &around)?.build()?;
    notifier.start(&engine)?;
    let end = serve_stdio(engine, LOCAL);
    notifier.finish(NOTIFY_TIMEOUT);
    end
}

/// Adds the notifier's alert and trace sinks.
pub(super) fn with_notifier(mut builder: Builder, notifier: &Notifier) -> Builder {
    if let Some(sink) = notifier.alert_sink() {
        builder = builder.on_alert(sink);
    }
    if let Some(sink) = notifier.trace_sink() {
        builder = builder.on_trace(sink);
    }
    builder
}

/// Returns the policies of an agent's code and commands. Creates the data directory if missing.
pub(super) fn policies(
    flags: &PolicyFlags,
    around: &Surroundings,
) -> Result<(EffectiveCode, Effective), Problem> {
    let code = effective_code(&flags.for_code(), around)?;
    let mut command = effective(&flags.for_commands(), around)?;
    command.place.state = ready(&command.place.state, &command.place.cwd)?;
    if command.origins.get(&Key::Timeout) == Some(&Origin::Preset) {
        command.policy.limits.timeout = Some(COMMAND_TIMEOUT);
    }
    Ok((code, command))
}

/// Prints the notes of the settings for the operator, instead of adding them to every result: clients cannot change
/// settings.
pub(super) fn say_once(code: &mut EffectiveCode, command: &mut Effective) {
    let mut notes = std::mem::take(&mut code.remarks.notes);
    notes.append(&mut command.remarks.notes);
    notes.sort();
    notes.dedup();
    for note in &notes {
        present::note(note);
    }
}

/// Returns a builder of an agent's engine.
pub(super) fn builder(
    launcher: Launcher,
    code: EffectiveCode,
    command: Effective,
) -> Result<Builder, Problem> {
    let recorder = match ledger(&command.place, command.audit) {
        Some(dir) => Recorder::open(&dir, LedgerSettings::new(ringfence_engine::redact))?,
        None => Recorder::off(),
    };
    Ok(Engine::builder()
        .launcher(launcher)
        .recorder(recorder)
        .redaction(command.redaction)
        .host(command.place)
        .code_policy(code.policy)
        .code_remarks(code.remarks)
        .command_policy(command.policy)
        .command_remarks(command.remarks))
}
