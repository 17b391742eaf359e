//! `ringfence policy`: presets, the effective policy with the origin of each value, and checking a file.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use ringfence_engine::Redaction;
use ringfence_spec::{
    Code, CodePreset, CommandPreset, Count, Network, Policy, Problem, escape_name, network,
};
use serde_json::{Value, json};

use crate::cli::{PolicyAction, PolicyArgs, PolicyFlags};
use crate::present;
use crate::settings::{
    self, Effective, Faults, Key, Origin, Surroundings, effective, effective_but_for,
};
use crate::style::Look;
use crate::table::{self, cell, column, texts};

/// Runs the subcommand.
pub(crate) fn policy(args: PolicyArgs) -> ExitCode {
    let result = match args.action {
        PolicyAction::Show { policy, output } => show(&policy, output.json),
        PolicyAction::Presets { output } => {
            presets(output.json);
            Ok(())
        }
        PolicyAction::Bundle { name, output } => bundle(name.as_deref(), output.json),
        PolicyAction::Check { file, output } => settings::check_file(&file).map(|checked| {
            let keys: Vec<&str> = checked.keys.into_iter().map(Key::name).collect();
            if output.json {
                present::json(
                    &json!({"file": file, "ok": true, "keys": keys, "tables": checked.tables}),
                );
                return;
            }
            let tables = checked.tables.iter().map(|table| format!("[{table}]"));
            let all: Vec<String> = keys.iter().map(|key| (*key).to_owned()).chain(tables).collect();
            let all = if all.is_empty() { "sets nothing".to_owned() } else { all.join(", ") };
            present::text(&format!("{}: ok ({all})\n", file.display()));
        }),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => present::problem(&problem),
    }
}

/// Prints a bundle of hosts, or the list of bundles.
fn bundle(name: Option<&str>, json: bool) -> Result<(), Problem> {
    let known = network::bundles();
    let chosen: Vec<&network::Bundle> = match name {
        None => known.iter().collect(),
        Some(name) => vec![network::bundle(name).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|bundle| bundle.name).collect();
            Problem::usage(Code::BadValue, format!("`{name}` is not a bundle of hosts"))
                .hint(format!("choose one of {}", names.join(", ")))
        })?],
    };
    if json {
        let rows = chosen.iter().map(|b| {
            json!({"name": b.name, "summary": b.summary, "date": b.date, "source": b.source, "hosts": b.hosts})
        });
        present::json(&Value::Array(rows.collect()));
        return Ok(());
    }
    if name.is_none() {
        let rows = chosen.iter().map(|bundle| vec![cell(bundle.name), cell(bundle.summary)]);
        table::print(&[column("BUNDLE"), texts("HOSTS OF")], &rows.collect::<Vec<_>>());
        return Ok(());
    }
    let mut out = String::new();
    for bundle in chosen {
        let _ = writeln!(out, "# {}: {}, {}", bundle.summary, bundle.date, bundle.source);
        bundle.hosts.iter().for_each(|host| {
            let _ = writeln!(out, "{host}");
        });
    }
    present::text(&out);
    Ok(())
}

fn show(flags: &PolicyFlags, json: bool) -> Result<(), Problem> {
    let around = Surroundings::real(false)?;
    // What can be read is shown beside the fault: `show` is where one looks for it.
    let (effective, fault) = match effective(flags, &around) {
        Ok(effective) => (effective, Ok(())),
        Err(problem) => match effective_but_for(flags, &around, &Faults::noted_but_of(&[])) {
            Ok(effective) => (effective, Err(problem)),
            Err(_) => return Err(problem),
        },
    };
    if json {
        if fault.is_ok() {
            present::json(&as_json(&effective));
        }
        return fault;
    }
    let mut lines = Vec::new();
    for (key, value) in rows(&effective) {
        let shown = match &value {
            Value::Null => "none".to_owned(),
            Value::String(s) => s.clone(),
            Value::Array(items) if items.is_empty() => "none".to_owned(),
            other => other.to_string(),
        };
        let origin = &effective.origins[&key];
        let look = (*origin == Origin::Preset).then_some(Look::Faint);
        lines.push(vec![
            cell(key.name()),
            cell(escape_name(&shown)),
            (escape_name(&origin.to_string()).into_owned(), look),
        ]);
    }
    table::print(&[column("KEY"), texts("VALUE"), column("FROM")], &lines);
    fault
}

/// Returns every key with its value and its source.
pub(super) fn as_json(effective: &Effective) -> Value {
    let with_origin = |(key, value): (Key, Value)| {
        let origin = effective.origins[&key].to_string();
        (key.name().to_owned(), json!({"value": value, "from": origin}))
    };
    rows(effective).into_iter().map(with_origin).collect()
}

fn rows(effective: &Effective) -> Vec<(Key, Value)> {
    Key::ALL.iter().filter_map(|key| Some((*key, value(*key, effective)?))).collect()
}

/// Returns a key's value for display; `None` for keys that only Python runs use.
fn value(key: Key, effective: &Effective) -> Option<Value> {
    let Policy {
        preset, limits, rw, ro, hide, sockets, env, network, require, fallback, proc, ..
    } = &effective.policy;
    let Policy { workspace_ro, workspace_hide, .. } = &effective.policy;
    // Includes the restrictions of the workspace's own file.
    let all = |paths: &[PathBuf], own: &[PathBuf]| -> Vec<PathBuf> {
        let own = own.iter().map(|path| effective.place.cwd.join(path));
        paths.iter().cloned().chain(own).collect()
    };
    let text = |v: Option<String>| v.map_or(Value::Null, Value::String);
    Some(match key {
        Key::CommandPreset => json!(preset.name()),
        Key::Timeout => text(limits.timeout.map(|v| v.to_string())),
        Key::Cpu => text(limits.cpu.map(|v| v.to_string())),
        Key::Memory => text(limits.memory.map(|v| v.to_string())),
        Key::Pids => json!(limits.pids.map(ringfence_spec::Count::get)),
        Key::Fds => json!(limits.fds.map(ringfence_spec::Count::get)),
        Key::Disk => text(limits.disk.map(|v| v.to_string())),
        Key::Output => json!(limits.output.to_string()),
        Key::Rw => json!(rw),
        Key::Ro => json!(all(ro, workspace_ro)),
        Key::Hide => json!(all(hide, workspace_hide)),
        Key::Socket => json!(sockets),
        Key::Cwd => json!(effective.place.cwd),
        Key::Env => json!(env.iter().map(ringfence_spec::EnvGrant::name).collect::<Vec<_>>()),
        Key::Net => match network {
            Network::None => json!("none"),
            Network::Allow(rules) => json!(format!("allow:{rules}")),
        },
        Key::NetDeny => match network {
            Network::None => json!([]),
            Network::Allow(rules) => {
                json!(rules.rules().filter_map(|r| r.strip_prefix("deny:")).collect::<Vec<_>>())
            }
        },
        Key::NetResolver => text(effective.policy.resolver.map(|v| v.to_string())),
        Key::NetProxy => text(effective.policy.upstream.as_ref().map(ToString::to_string)),
        Key::NetCa => json!(effective.policy.net_ca),
        Key::Secret => json!(effective.policy.secrets),
        Key::SshAgent => json!(effective.policy.ssh_agent),
        Key::NetRequest => json!(effective.policy.net_requests),
        Key::NetLimit => json!(effective.policy.net_limits),
        Key::Publish => json!(effective.policy.publish),
        Key::Require => text(require.map(|v| v.to_string())),
        Key::Fallback => json!(fallback),
        Key::Proc => json!(proc),
        Key::DataDir => json!(effective.place.state),
        Key::Audit => json!(effective.audit.to_string()),
        Key::Redact => json!(match effective.redaction {
            Redaction::Answers => "on",
            Redaction::LedgerOnly => "off",
        }),
        Key::CodePreset => json!(effective.code.preset.name()),
        Key::AllowImport => json!(effective.code.extra_imports),
        Key::CodeProcesses => json!(effective.code_processes.map_or(0, Count::get)),
        Key::Python | Key::WorkerSpeedups | Key::WorkerZygotes | Key::CodePresetAtLeast => {
            return None;
        }
    })
}

fn presets(json: bool) {
    let commands = CommandPreset::ALL.iter().map(|p| (p.name(), "commands", p.summary()));
    let code = CodePreset::ALL.iter().map(|p| (p.name(), "code", p.summary()));
    let all = commands.chain(code);
    if json {
        let list: Vec<Value> = all
            .map(|(name, subject, summary)| json!({"name": name, "for": subject, "summary": summary}))
            .collect();
        present::json(&list);
        return;
    }
    let rows = all.map(|(name, subject, summary)| vec![cell(name), cell(subject), cell(summary)]);
    table::print(&[column("PRESET"), column("FOR"), texts("SUMMARY")], &rows.collect::<Vec<_>>());
}
