//! `ringfence agent`: a coding agent behind the fence. The project is writable, the agent has directories of its own, its
//! API host is reachable and receives the credential, which the agent never has.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use ringfence_engine::Prefork;
use ringfence_spec::{Code, Problem};

use crate::agents::{self, AGENTS, Agent};
use crate::cli::{AgentArgs, PolicyFlags, RunArgs};
use crate::commands::run;
use crate::present;
use crate::settings::Surroundings;

/// Prefix of a network policy that names hosts.
const ALLOW: &str = "allow:";

/// Runs an agent, or lists those that are known.
pub(crate) fn agent(args: &AgentArgs) -> ExitCode {
    let Some((name, own)) = args.agent.split_first() else {
        let names: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
        if args.json {
            present::json(&names);
        } else {
            present::text(&format!("{}\n", names.join("\n")));
        }
        return ExitCode::SUCCESS;
    };
    match prepare(&name.to_string_lossy(), own, args) {
        Ok(run) => run::run_as(run, Prefork::for_command(), "agent"),
        Err(problem) => present::problem(&problem),
    }
}

fn prepare(name: &str, own: &[OsString], args: &AgentArgs) -> Result<RunArgs, Problem> {
    let agent = agents::find(name).ok_or_else(|| {
        let names: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
        Problem::usage(Code::BadValue, format!("`{name}` is not a known agent"))
            .hint(format!("choose one of {}, or use `ringfence run`", names.join(", ")))
    })?;
    let around = Surroundings::real(true)?;
    let variable = |name: &str| around.environment.get(OsStr::new(name));
    let home = variable("HOME").map(Path::new).filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| {
        Problem::usage(Code::BadValue, "there is no home directory")
            .hint("set HOME: the agent keeps its own directories below it")
    })?;
    let keys: Vec<(&str, &str)> = agent
        .keys
        .iter()
        .copied()
        .filter(|(name, _)| variable(name).is_some_and(|value| !value.is_empty()))
        .collect();
    if keys.is_empty() && args.policy.secret.is_empty() {
        let names: Vec<&str> = agent.keys.iter().map(|(name, _)| *name).collect();
        present::note(&format!(
            "no {} in your environment: {name} has to log in inside, and the run has that login",
            names.join(" or ")
        ));
    }
    let mut policy = PolicyFlags { preset: Some("agent".to_owned()), ..args.policy.clone() };
    policy.net = Some(network(agent, &keys, args.policy.net.as_deref())?);
    policy.secret.extend(keys.iter().map(|(name, host)| format!("{name}=env:{name}@{host}")));
    for (name, value) in agent.variables {
        let value = value.replace('~', &home.to_string_lossy());
        policy.env.push(format!("{name}={value}"));
    }
    let programs = agent.programs.iter().map(|name| home.join(name));
    let there = programs.filter(|path| ringfence_engine::host::found(path).is_some());
    policy.ro.extend(there.filter_map(|path| Some(path.to_str()?.to_owned())));
    policy.own_directories = Some((
        agent.name.to_owned(),
        agent.directories.iter().map(|dir| (*dir).to_owned()).collect(),
    ));
    let mut argv = vec![agent.program.into()];
    argv.extend(agent.arguments.iter().map(Into::into));
    if let Some((key, arguments)) = agent.key_arguments
        && keys.iter().any(|(name, _)| *name == key)
    {
        argv.extend(arguments.iter().map(Into::into));
    }
    argv.extend(own.iter().cloned());
    Ok(RunArgs { policy, json: false, session: None, die_with_parent: false, argv })
}

/// The agent's rules and the caller's.
fn network(agent: &Agent, keys: &[(&str, &str)], asked: Option<&str>) -> Result<String, Problem> {
    let mut rules: Vec<&str> = agent.rules.to_vec();
    let covered = |host: &str| match ringfence_spec::network::NetworkRules::parse(&rules.join(","))
    {
        Ok(known) => host.parse().is_ok_and(|host| known.knows_name(&host)),
        Err(_) => false,
    };
    let more: Vec<&str> =
        keys.iter().map(|(_, host)| *host).filter(|host| !covered(host)).collect();
    rules.extend(more);
    match asked {
        None => {}
        Some(asked) => match asked.strip_prefix(ALLOW) {
            Some(list) => rules.extend(list.split(',').map(str::trim)),
            None => {
                return Err(Problem::usage(Code::BadValue, "an agent needs its API host")
                    .hint("leave out `--net none`; `--net allow:pypi,github` adds hosts"));
            }
        },
    }
    rules.sort_unstable();
    rules.dedup();
    if rules.is_empty() {
        return Ok("none".to_owned());
    }
    Ok(format!("{ALLOW}{}", rules.join(",")))
}
