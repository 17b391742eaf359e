//! The binary under proof: given, or built by cargo.

use std::path::PathBuf;
use std::process::Command;

use crate::CannotTry;

/// The `ringfence` to prove: `given`, or a release build of this workspace.
pub(crate) fn ringfence(given: Option<&PathBuf>) -> Result<PathBuf, CannotTry> {
    if let Some(path) = given {
        return std::fs::canonicalize(path)
            .map_err(|e| format!("cannot find the binary `{}`: {e}", path.display()));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--package", "ringfence"])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !built.status.success() {
        return Err("`cargo build --release --package ringfence` failed".into());
    }
    String::from_utf8_lossy(&built.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find(|m| m["target"]["name"] == "ringfence" && m["executable"].is_string())
        .and_then(|m| m["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| "cargo built no binary named `ringfence`".into())
}

/// Where cargo builds, so that what is fetched and made by a proof goes with `cargo clean`.
pub(crate) fn target_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    // TARGET/PROFILE/xtask
    own.ancestors().nth(2).map_or_else(|| "target".into(), PathBuf::from)
}

/// What a command prints, which must succeed.
pub(crate) fn output(command: &mut Command) -> Result<String, CannotTry> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("cannot start `{name}`: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`{name}` failed ({}): {said}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
