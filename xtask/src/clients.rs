//! Real clients: the SDKs that hosts are built on use a server over stdio and over HTTP, each in both eras of the protocol;
//! two programs that judge servers look at it; a validator reads the `OpenAPI` document of its REST interface, and a Python client
//! generated from that document uses it.
//! Installs them with pip and npm below the target directory, once; needs python3 with venv, node and npm.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::service::Service;
use crate::{CannotTry, Verdict, program};

/// The releases that were tried.
const PYTHON: &str = "mcp==2.3.0";
const TYPESCRIPT: [&str; 2] =
    ["@modelcontextprotocol/client@2.4", "@modelcontextprotocol/sdk@1.32"];

const INSPECTOR: &str = "@modelcontextprotocol/inspector@2.12";
const SCORE: &str = "mcpscore==1.29.0";

/// What reads the `OpenAPI` document, and what makes a client of it.
const REST: [&str; 2] = ["openapi-spec-validator==0.9.0", "openapi-python-client==0.29.1"];

/// The part of its points that `mcpscore` must give, in percent.
const SCORE_MIN: &str = "95";

#[derive(Debug, Args)]
pub(crate) struct ClientsArgs {
    /// The binary to talk to; built in release if not given
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub(crate) fn clients(args: &ClientsArgs) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
    let place = install(&scripts)?;
    let data = tempfile::tempdir().map_err(|e| format!("cannot make a data directory: {e}"))?;
    let data = data.path().to_string_lossy().into_owned();
    let service = Service::start(&binary, &[])?;
    let binary = binary.to_string_lossy().into_owned();
    let python = place.join("venv/bin/python").to_string_lossy().into_owned();
    let by_python = scripts.join("drive.py").to_string_lossy().into_owned();
    let by_node = place.join("drive.mjs").to_string_lossy().into_owned();
    let drivers = [
        vec![python.as_str(), &by_python, "legacy"],
        vec![python.as_str(), &by_python, "auto"],
        vec!["node", &by_node, "client", "legacy"],
        vec!["node", &by_node, "client", "auto"],
        vec!["node", &by_node, "sdk", "legacy"],
    ];
    let mcp = service.mcp();
    let stdio = [binary.as_str(), "mcp", "--data-dir", &data];
    let mut verdict = Verdict::Held;
    for driver in &drivers {
        for target in [&stdio[..], &[mcp.as_str()]] {
            let output = Command::new(driver[0]).args(&driver[1..]).args(target).output();
            let output = output.map_err(|e| format!("cannot start {}: {e}", driver[0]))?;
            let over = if target.len() == 1 { "http" } else { "stdio" };
            print!("{over:5} {}", String::from_utf8_lossy(&output.stdout));
            if !output.status.success() {
                println!("{driver:?}\n{}", String::from_utf8_lossy(&output.stderr));
                verdict = Verdict::Failed;
            }
        }
    }
    if !judged(&place, &stdio)? {
        verdict = Verdict::Failed;
    }
    if !generated(&place, &scripts, &service)? {
        verdict = Verdict::Failed;
    }
    Ok(verdict)
}

/// Whether the `OpenAPI` document is valid, every operation of it can be generated, and the generated client works.
fn generated(place: &Path, scripts: &Path, service: &Service) -> Result<bool, CannotTry> {
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

/// Whether those who judge servers find nothing wrong with this one.
fn judged(place: &Path, server: &[&str]) -> Result<bool, CannotTry> {
    let score = place.join("score/bin/mcpscore").to_string_lossy().into_owned();
    let inspector = place.join("node_modules/.bin/mcp-inspector").to_string_lossy().into_owned();
    let judges = [
        vec![score.as_str(), "--fail-under", SCORE_MIN, "--stdio"],
        vec![&inspector, "--cli", "--method", "tools/list", "--strict", "--protocol-era", "legacy"],
        vec![&inspector, "--cli", "--method", "tools/list", "--strict", "--protocol-era", "modern"],
    ];
    let mut fine = true;
    for judge in &judges {
        let output = Command::new(judge[0]).args(&judge[1..]).args(server).output();
        let output = output.map_err(|e| format!("cannot start {}: {e}", judge[0]))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let said_last =
            said.lines().filter(|line| line.contains("score:") || line.contains(" errors,"));
        println!(
            "stdio {}: {}",
            judge[0].rsplit('/').next().unwrap_or_default(),
            said_last.collect::<String>()
        );
        if !output.status.success() {
            println!("{}\n{said}", output.status);
            fine = false;
        }
    }
    Ok(fine)
}

/// Installs the SDKs, where they are not yet.
fn install(scripts: &Path) -> Result<PathBuf, CannotTry> {
    let place = program::target_dir().join("clients");
    std::fs::create_dir_all(&place).map_err(|e| format!("cannot make {}: {e}", place.display()))?;
    let run = |name: &str, arguments: &[&str]| program::run_in(&place, name, arguments);
    if !place.join("venv/bin/python").exists() {
        run("python3", &["-m", "venv", "venv"])?;
        run("venv/bin/pip", &["install", "--quiet", PYTHON])?;
    }
    if !place.join("rest/bin/openapi-python-client").exists() {
        run("python3", &["-m", "venv", "rest"])?;
        run("rest/bin/pip", &["install", "--quiet", REST[0], REST[1]])?;
    }
    // Of its own: it brings another release of the SDK.
    if !place.join("score/bin/mcpscore").exists() {
        run("python3", &["-m", "venv", "score"])?;
        run("score/bin/pip", &["install", "--quiet", SCORE])?;
    }
    if !place.join("node_modules/.bin/mcp-inspector").exists() {
        let mut arguments = vec!["install", "--silent", "--no-audit", "--prefix", "."];
        arguments.extend(TYPESCRIPT);
        arguments.push(INSPECTOR);
        run("npm", &arguments)?;
    }
    // Node looks for packages beside the script.
    std::fs::copy(scripts.join("drive.mjs"), place.join("drive.mjs"))
        .map_err(|e| format!("cannot copy the script: {e}"))?;
    Ok(place)
}
