//! REST by generated requests: schemathesis reads the `OpenAPI` document and sends what fits it and what does not. No answer may be
//! a 5xx, and each must have a status, a type and a shape that the document names. Installs it with pip below the target
//! directory, once.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::service::Service;
use crate::{CannotTry, Verdict, program};

/// The release that was tried.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Not checked: whether every request that fits the document is accepted. It cannot name what makes a program valid Python, a
/// path existing, or a cursor one that was given out.
const UNCHECKED: &str = "positive_data_acceptance";

/// Not checked for one operation: its body may be left out, and the body `null` is sent as none.
const SETTINGS: &str = "[[operations]]
include-name = \"POST /api/v1/sessions\"
checks.negative_data_rejection.enabled = false
";

#[derive(Debug, Args)]
pub(crate) struct SchemathesisArgs {
    /// The binary to talk to; built in release if not given
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Duration, in seconds
    #[arg(long, default_value_t = 300)]
    seconds: u32,
    /// Another seed finds other requests
    #[arg(long, default_value_t = 1)]
    seed: u32,
}

pub(crate) fn schemathesis(args: &SchemathesisArgs) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let place = program::target_dir().join("schemathesis");
    let venv = place.join("venv");
    program::python_env(&venv, &[SCHEMATHESIS])?;
    std::fs::write(place.join("schemathesis.toml"), SETTINGS)
        .map_err(|e| format!("cannot write the settings: {e}"))?;
    let flags = ["--rate-per-minute", "off", "--breakers", "off", "--preset", "standard"];
    let service = Service::start(&binary, &flags)?;
    let document = format!("{}/api/v1/openapi.json", service.url());
    let (seconds, seed) = (args.seconds.to_string(), args.seed.to_string());
    let status = Command::new(venv.join("bin/schemathesis"))
        .args(["run", &document, "--max-time", &seconds, "--seed", &seed])
        .args(["--exclude-checks", UNCHECKED, "--continue-on-failure", "--workers", "2"])
        .current_dir(&place)
        .status()
        .map_err(|e| format!("cannot start schemathesis: {e}"))?;
    Ok(if status.success() { Verdict::Held } else { Verdict::Failed })
}
