//! The library in a process of its own, as a program that embeds the engine has it: the launcher first, while there is one thread.
//! Reads requests from stdin, a line each, and writes an outcome for each.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::time::Duration;

use ringfence_audit::{KeepAll, LedgerSettings};
use ringfence_engine::{
    CodeCall, CommandCall, Engine, HostContext, LOCAL, Recorder, Redaction, Rules,
};
use ringfence_spec::{CommandPreset, Policy, Span};
use ringfence_testing::Json;

/// Serves until stdin ends.
pub(crate) fn serve(data: &Path, operator: &str) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(data)?;
    // What the binary sets besides: a ledger, and less time for commands of an agent's.
    let host = rustix::system::sysinfo();
    let memory_bytes = u64::from(host.mem_unit).saturating_mul(host.totalram);
    let mut commands = Policy::of_preset(CommandPreset::default(), memory_bytes);
    commands.limits.timeout = Some(Span::secs(300));
    // What an embedding program takes from wherever its operator decides.
    let mut operator: toml::Table = operator.parse()?;
    let redaction = match operator.get("redact").and_then(toml::Value::as_str) {
        Some("on") => Redaction::Answers,
        _ => Redaction::LedgerOnly,
    };
    let rules = operator.remove("rules").map(toml::Value::try_into::<Rules>);
    let engine = Engine::builder()
        .host(HostContext::here(data)?)
        .command_policy(commands)
        .recorder(Recorder::open(&data.join("ledger"), LedgerSettings::new(KeepAll))?)
        .rules(rules.transpose()?.unwrap_or_default())
        .redaction(redaction)
        .build()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for line in std::io::stdin().lock().lines() {
        let asked: Json = serde_json::from_str(&line?)?;
        let timeout = asked.get("timeout_s").and_then(Json::as_f64).map(Duration::from_secs_f64);
        let text = |name: &str| asked.get(name).and_then(Json::as_str);
        let outcome = match (text("code"), text("command")) {
            (Some(code), _) => {
                let call = CodeCall { code: code.into(), timeout, ..CodeCall::default() };
                runtime.block_on(engine.execute(LOCAL, call)).outcome
            }
            (_, Some(command)) => {
                let argv = ["sh", "-c", command].map(Into::into).to_vec();
                let call = CommandCall { argv, timeout, ..CommandCall::default() };
                runtime.block_on(engine.command(LOCAL, call)).outcome
            }
            _ => return Err("neither code nor a command".into()),
        };
        println!("{}", serde_json::to_string(&outcome)?);
        std::io::stdout().flush()?;
    }
    Ok(())
}
