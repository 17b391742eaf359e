//! `ringfence serve`: serves many clients over HTTP.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ringfence_engine::{CommandCall, Engine, LOCAL, Launcher, Recorder};
use ringfence_server::http::{HttpSettings, Offer, Service};
use ringfence_server::notify::Notifier;
use ringfence_spec::{Code, Fallback, Policy, Problem, escape_name};
use rustix::process::{Resource, Rlimit};
use serde_json::json;

use crate::cli::ServeArgs;
use crate::commands::{doctor, mcp, policy};
use crate::present;
use crate::settings::{
    Effective, Surroundings, ledger, named_and_resolved, notify, rules, search, service,
};

/// Time to deliver remaining notifications.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until SIGTERM or SIGINT.
pub(crate) fn serve(args: &ServeArgs) -> ExitCode {
    match attempt(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &ServeArgs) -> Result<(), Problem> {
    let around = Surroundings::real(false)?;
    let how = service(&args.service, &args.policy, &around)?;
    let (mut code, mut command) = mcp::policies(&args.policy, &around)?;
    mcp::say_once(&mut code, &mut command);
    if let Some(tls) = &how.tls {
        // Runs have our uid if we are not root.
        let names = named_and_resolved(&tls.key).map_err(|e| {
            let message = format!("cannot find `{}`", tls.key.display());
            Problem::usage(Code::TlsFiles, message).cause(e)
        })?;
        command.policy.hide.extend(names);
    }
    let directory = escape_name(&command.place.cwd.to_string_lossy()).into_owned();
    let search = search(&args.policy, &around)?;
    search.hide_key(&mut command.policy)?;
    let rules = rules(&args.policy, &around)?;
    let notify = notify(&args.policy, &around)?;
    // All three before there are threads: they fork.
    let unusable = unusable_directory(&command);
    let report = doctor::examine();
    let launcher = Launcher::start()?;
    let settings = HttpSettings {
        offer: if args.fixtures { Offer::Fixtures } else { Offer::Engine },
        listen: how.listen,
        allow_hosts: how.allow_hosts,
        cors_origins: how.cors_origins,
        tls: how.tls,
        authority: how.authority,
        limits: how.limits,
        data_dir: command.place.state.clone(),
        ledger: ledger(&command.place, command.audit),
        policy: json!({
            "command": policy::as_json(&command),
            "code": {
                "preset": code.policy.rules.preset.name(),
                "allow_import": code.policy.rules.extra_imports,
                "limits": code.policy.limits,
            },
            "admission": how.admission,
        }),
        doctor: json!(report),
    };
    let service = Service::check(settings)?;
    notify.check_destinations()?;
    if args.check {
        let data_dir = command.place.state.clone();
        // All that serving begins with: the ledger, the search model.
        search.apply(mcp::builder(launcher, code, command)?, &around)?.build()?;
        check_room(&data_dir)?;
        let commands = match &unusable {
            Some(why) => format!("in sessions only: {why}"),
            None => directory,
        };
        present::text(&format!("{}commands     {commands}\n{}", service.summary(), notify.others));
        return Ok(());
    }
    if let Some(why) = &unusable {
        present::warn(&format!(
            "commands without a session are refused: {why}; start the service in another directory"
        ));
    }
    raise_descriptors();
    notify.log.start()?;
    let mut notifier = Notifier::new(notify.others);
    let engine = mcp::with_notifier(mcp::builder(launcher, code, command)?, &notifier);
    let engine = engine.admission(how.admission).rules(rules);
    let engine = search.apply(engine, &around)?.build()?;
    notifier.start(&engine)?;
    let end = service.serve(engine, |_| ());
    notifier.finish(NOTIFY_TIMEOUT);
    end
}

/// Writes as much to the data directory as a busy moment does, and removes it.
fn check_room(data_dir: &Path) -> Result<(), Problem> {
    const BYTES: usize = 64 << 10;
    let file = data_dir.join(format!("check-{}", std::process::id()));
    let write = || {
        let mut options = std::fs::File::options();
        let mut out = options.write(true).create_new(true).mode(0o600).open(&file)?;
        let written = out.write_all(&vec![0; BYTES]).and_then(|()| out.sync_data());
        std::fs::remove_file(&file)?;
        written
    };
    write().map_err(|e| {
        let message = format!("cannot write to the data directory `{}`", data_dir.display());
        Problem::cannot_build(Code::DataDir, message)
            .cause(e)
            .hint("make room or permission there, or choose another with `--data-dir`")
    })
}

/// Returns the reason why the working directory is refused to commands without a session: it holds state of ours or
/// credentials, or is too broad. Grants are left out: their faults are not the directory's.
fn unusable_directory(command: &Effective) -> Option<String> {
    let Policy { preset, limits, hide, workspace_ro, workspace_hide, .. } = command.policy.clone();
    let policy = Policy {
        limits,
        hide,
        workspace_ro,
        workspace_hide,
        fallback: Fallback::Warn,
        // The limits above replace those of a host with so much memory.
        ..Policy::of_preset(preset, 0)
    };
    let engine = Engine::builder()
        .recorder(Recorder::off())
        .host(command.place.clone())
        .command_policy(policy);
    let call = CommandCall { argv: vec!["true".into()], ..CommandCall::default() };
    let problem = engine.build().and_then(|engine| engine.explain_command(LOCAL, &call)).err()?;
    Some(match problem.cause {
        Some(cause) => format!("{} ({cause})", problem.message),
        None => problem.message,
    })
}

/// Raises the descriptor limit: connections and sessions take some, and the default is low. Runs have their own.
pub(super) fn raise_descriptors() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    // If the host refuses, there is room for fewer connections: idle ones are closed first.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
