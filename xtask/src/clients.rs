//! Real clients: SDKs and agent frameworks use a server over stdio and over HTTP, each with its own timeouts; two linters of servers
//! check it; a validator reads the `OpenAPI` document of its REST interface, and a Python client generated from that
//! document uses it. Legacy sessions stay idle for six minutes meanwhile. A last part counts tokens.
//! Installs them with pip and npm below the target directory, once; needs python3 with venv, node and npm.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use serde_json::Value;

use crate::service::Service;
use crate::{CannotTry, Verdict, program};

/// A Python environment: its name, and what is installed in it. Releases of the SDK that exclude each other need one each.
const ENVIRONMENTS: [(&str, &[&str]); 10] = [
    ("mcp2", &["mcp==2.3.0"]),
    ("mcp1", &["mcp==1.30.0"]),
    // The newest whose dependencies the registry has: 4.1.4 asks for a certifi that is not there.
    ("fastmcp", &["fastmcp==4.1.1", "mcp==2.3.0"]),
    ("langchain", &["langchain-mcp-adapters==0.3.2", "mcp==1.30.0"]),
    ("openai-agents", &["openai-agents==0.24.0", "mcp==2.3.0"]),
    ("pydantic-ai", &["pydantic-ai-slim[mcp]==2.66.0", "mcp==2.3.0"]),
    ("mcp-use", &["mcp-use==1.7.1", "mcp==1.30.0"]),
    // Its adapter does not work with 2.x of the SDK, and needs the extra.
    ("smolagents", &["smolagents[mcp]==1.26.0", "mcpadapt==0.1.19", "mcp[ws]==1.30.0"]),
    // What reads the `OpenAPI` document, and what makes a client of it.
    ("rest", &["openapi-spec-validator==0.9.0", "openapi-python-client==0.29.1"]),
    ("score", &["mcpscore==1.29.0"]),
];

const PACKAGES: [&str; 4] = [
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/inspector@2.12.0",
    "gpt-tokenizer@4.0.0",
];

/// A client: its environment (`node` for a package of npm), the name its script has for it, the mode.
struct Client {
    environment: &'static str,
    name: &'static str,
    mode: &'static str,
    /// Keeps a session of a protocol with a handshake, which some servers forget.
    idles: bool,
}

const CLIENTS: [Client; 12] = [
    client("mcp2", "mcp2", "legacy", true),
    client("mcp2", "mcp2", "auto", false),
    client("mcp1", "mcp1", "legacy", true),
    client("fastmcp", "fastmcp", "default", false),
    client("langchain", "langchain", "default", false),
    client("openai-agents", "openai-agents", "default", false),
    client("pydantic-ai", "pydantic-ai", "default", false),
    client("mcp-use", "mcp-use", "default", false),
    client("smolagents", "smolagents", "default", false),
    client("node", "client", "legacy", true),
    client("node", "client", "auto", false),
    client("node", "sdk", "legacy", true),
];

const fn client(
    environment: &'static str,
    name: &'static str,
    mode: &'static str,
    idles: bool,
) -> Client {
    Client { environment, name, mode, idles }
}

/// The part of its points that `mcpscore` must give, in percent.
const SCORE_MIN: &str = "97";

/// The most tokens of `tools/list`, and of the structured result of `6*7`.
const LIST_TOKENS_MAX: &str = "2200";
const VALUE_TOKENS_MAX: &str = "60";

#[derive(Debug, Args)]
pub(crate) struct ClientsArgs {
    /// The binary to talk to; built in release if not given
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Run only clients whose name contains this text, and neither linters nor the REST client
    #[arg(long)]
    only: Option<String>,
    /// Number of clients at a time
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Seconds for which the sessions stay idle; 0 to leave that out
    #[arg(long, default_value_t = 360)]
    idle_s: u32,
}

pub(crate) fn clients(args: &ClientsArgs) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
    let place = install(&scripts)?;
    let data = tempfile::tempdir().map_err(|e| format!("cannot make a data directory: {e}"))?;
    let data = data.path().to_string_lossy().into_owned();
    let service = Service::start(&binary, &[])?;
    let url = service.mcp();
    let binary = binary.to_string_lossy().into_owned();
    let stdio = [binary.as_str(), "mcp", "--data-dir", &data];
    let is_asked =
        |client: &&Client| args.only.as_ref().is_none_or(|part| client.name.contains(&**part));
    let chosen: Vec<_> = CLIENTS.iter().filter(is_asked).collect();
    let http = [url.as_str()];
    let mut visits = Vec::new();
    for client in &chosen {
        for target in [&stdio[..], &http[..]] {
            visits.push(Visit { client, target, idle_s: 0 });
        }
    }
    let idle = chosen.iter().filter(|client| client.idles && args.idle_s > 0);
    let idle: Vec<_> =
        idle.map(|client| Visit { client, target: &http, idle_s: args.idle_s }).collect();
    // From the end: the first is taken first.
    visits.reverse();
    let queue = Mutex::new(visits);
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let (place, scripts) = (&place, &scripts);
    let mut fine = std::thread::scope(|scope| {
        // Beside the others: they only wait.
        let idle: Vec<_> =
            idle.iter().map(|visit| scope.spawn(move || visit.report(place, scripts))).collect();
        let work = || {
            let mut fine = true;
            while let Some(visit) = next() {
                fine &= visit.report(place, scripts);
            }
            fine
        };
        let workers: Vec<_> = (0..args.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let all = workers.into_iter().chain(idle);
        all.map(|thread| thread.join().unwrap_or(false)).fold(true, |fine, one| fine & one)
    });
    if args.only.is_none() {
        fine &= run_linters(place, &stdio)?;
        fine &= run_generated_client(place, scripts, &service)?;
        fine &= count_tokens(place, &stdio)?;
    }
    Ok(if fine { Verdict::Held } else { Verdict::Failed })
}

/// A client's use of a server.
struct Visit<'a> {
    client: &'a Client,
    /// The command of a server, or the URL of one.
    target: &'a [&'a str],
    /// If not 0, it does nothing else than wait.
    idle_s: u32,
}

impl Visit<'_> {
    /// Prints what became of it. Returns whether every step did.
    fn report(&self, place: &Path, scripts: &Path) -> bool {
        let over = if self.target.len() == 1 { "http" } else { "stdio" };
        let Client { environment, name, mode, .. } = self.client;
        let (interpreter, script) = match *environment {
            "node" => (PathBuf::from("node"), place.join("drive.mjs")),
            _ => (place.join(environment).join("bin/python"), scripts.join("drive.py")),
        };
        let mut command = Command::new(interpreter);
        command.arg(script).args([*name, *mode, &self.idle_s.to_string()]).args(self.target);
        // No files beside the sources.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let output = match command.output() {
            Ok(output) => output,
            Err(e) => {
                println!("{over:5} {name} {mode}: cannot start it: {e}");
                return false;
            }
        };
        let said = String::from_utf8_lossy(&output.stdout);
        let last = said.lines().last().unwrap_or_default();
        let Ok(report) = serde_json::from_str::<Value>(last) else {
            let why = String::from_utf8_lossy(&output.stderr);
            println!("{over:5} {name} {mode}: {}\n{said}{why}", output.status);
            return false;
        };
        let steps = report["steps"].as_object().cloned().unwrap_or_default();
        let failed: Vec<_> = steps.iter().filter(|(_, result)| result.is_string()).collect();
        let idle =
            if self.idle_s > 0 { format!(", idle for {} s", self.idle_s) } else { String::new() };
        println!(
            "{over:5} {} {} {mode}{idle}: {} of {} steps",
            report["client"].as_str().unwrap_or_default(),
            report["release"].as_str().unwrap_or_default(),
            steps.len() - failed.len(),
            steps.len(),
        );
        for (step, why) in &failed {
            println!("      {step}: {}", why.as_str().unwrap_or_default());
        }
        failed.is_empty() && !steps.is_empty() && output.status.success()
    }
}

/// Returns true if the list of tools and a small result cost as few tokens as promised.
fn count_tokens(place: &Path, server: &[&str]) -> Result<bool, CannotTry> {
    let mut command = Command::new("node");
    command.arg(place.join("tokens.mjs")).args([LIST_TOKENS_MAX, VALUE_TOKENS_MAX]).args(server);
    let output = command.output().map_err(|e| format!("cannot start node: {e}"))?;
    print!("stdio tokens: {}", String::from_utf8_lossy(&output.stdout));
    if !output.status.success() {
        println!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.status.success())
}

/// Validates the `OpenAPI` document, generates a client of every operation, and runs it. Returns true if all succeed.
fn run_generated_client(
    place: &Path,
    scripts: &Path,
    service: &Service,
) -> Result<bool, CannotTry> {
    let at = |name: &str| place.join(name).to_string_lossy().into_owned();
    let (url, document, client) = (service.url(), at("openapi.json"), at("generated"));
    let python = at("rest/bin/python");
    let fetch = "import sys, urllib.request as r; open(sys.argv[2], 'wb').write(r.urlopen(sys.argv[1]).read())";
    let (validator, generator) =
        (at("rest/bin/openapi-spec-validator"), at("rest/bin/openapi-python-client"));
    let drive = scripts.join("rest.py").to_string_lossy().into_owned();
    let of_service = format!("{url}/api/v1/openapi.json");
    let steps = [
        vec![python.as_str(), "-c", fetch, &of_service, &document],
        vec![&validator, &document],
        // Without hooks it needs no formatter, and with this flag a warning is an error.
        vec![
            &generator,
            "generate",
            "--path",
            &document,
            "--output-path",
            &client,
            "--overwrite",
            "--config",
            "rest.yaml",
            "--fail-on-warning",
        ],
        vec![&python, &drive, url],
    ];
    std::fs::write(place.join("rest.yaml"), "post_hooks: []\n")
        .map_err(|e| format!("cannot write the generator's settings: {e}"))?;
    for step in &steps {
        let mut command = Command::new(step[0]);
        command.args(&step[1..]).current_dir(place).env("PYTHONPATH", &client);
        let output = command.output().map_err(|e| format!("cannot start {}: {e}", step[0]))?;
        print!("rest  {}", String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            println!("{step:?}\n{}", String::from_utf8_lossy(&output.stderr));
            return Ok(false);
        }
    }
    println!();
    Ok(true)
}

/// Runs the linters of MCP servers. Returns true if none finds a fault.
fn run_linters(place: &Path, server: &[&str]) -> Result<bool, CannotTry> {
    let score = place.join("score/bin/mcpscore").to_string_lossy().into_owned();
    let inspector = place.join("node_modules/.bin/mcp-inspector").to_string_lossy().into_owned();
    let linters = [
        vec![score.as_str(), "--fail-under", SCORE_MIN, "--stdio"],
        vec![&inspector, "--cli", "--method", "tools/list", "--strict", "--protocol-era", "legacy"],
        vec![&inspector, "--cli", "--method", "tools/list", "--strict", "--protocol-era", "modern"],
    ];
    let mut fine = true;
    for linter in &linters {
        let output = Command::new(linter[0]).args(&linter[1..]).args(server).output();
        let output = output.map_err(|e| format!("cannot start {}: {e}", linter[0]))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let said_last =
            said.lines().filter(|line| line.contains("score:") || line.contains(" errors,"));
        let said_last: String = said_last.collect();
        let found = if said_last.is_empty() { "nothing found" } else { &said_last };
        println!("stdio {}: {found}", linter[0].rsplit('/').next().unwrap_or_default());
        if !output.status.success() {
            println!("{}\n{said}", output.status);
            fine = false;
        }
    }
    Ok(fine)
}

/// Installs the clients, where these releases are not yet.
fn install(scripts: &Path) -> Result<PathBuf, CannotTry> {
    let place = program::target_dir().join("clients");
    for (name, packages) in ENVIRONMENTS {
        program::python_env(&place.join(name), packages)?;
    }
    program::node_modules(&place, &PACKAGES)?;
    // Node looks for packages beside the script.
    for script in ["drive.mjs", "tokens.mjs", "picture.py"] {
        std::fs::copy(scripts.join(script), place.join(script))
            .map_err(|e| format!("cannot copy the script: {e}"))?;
    }
    Ok(place)
}
