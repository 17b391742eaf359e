//! The binary under proof: given, or built by cargo.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::CannotTry;

/// The `ringfence` to prove: `given`, or a release build of this workspace.
pub(crate) fn ringfence(given: Option<&PathBuf>) -> Result<PathBuf, CannotTry> {
    if let Some(path) = given {
        return std::fs::canonicalize(path)
            .map_err(|e| format!("cannot find the binary `{}`: {e}", path.display()));
    }
    executables("ringfence", &["build", "--release"])?
        .remove("ringfence")
        .ok_or_else(|| "cargo built no binary named `ringfence`".into())
}

/// A build with the profile `dist`, with a variable for its build script.
pub(crate) fn dist(variable: Option<(&str, &Path)>) -> Result<PathBuf, CannotTry> {
    executables_with("ringfence", &["build", "--profile", "dist"], variable)?
        .remove("ringfence")
        .ok_or_else(|| "cargo built no binary named `ringfence`".into())
}

/// The same with the conformance fixtures, which no release has.
pub(crate) fn ringfence_with_fixtures(given: Option<&PathBuf>) -> Result<PathBuf, CannotTry> {
    if given.is_some() {
        return ringfence(given);
    }
    executables("ringfence", &["build", "--release", "--features", "fixtures"])?
        .remove("ringfence")
        .ok_or_else(|| "cargo built no binary named `ringfence`".into())
}

/// The harness of `escapes/`, and the binary it runs, which it finds by the path cargo gave it.
pub(crate) fn escapes() -> Result<[PathBuf; 2], CannotTry> {
    let mut built = executables("ringfence", &["test", "--no-run", "--test", "escapes"])?;
    match (built.remove("escapes"), built.remove("ringfence")) {
        (Some(harness), Some(ringfence)) => Ok([harness, ringfence]),
        _ => Err("cargo built no test named `escapes` with a binary named `ringfence`".into()),
    }
}

/// An example of the engine: `given`, or a release build of this workspace.
pub(crate) fn example(name: &str, given: Option<&PathBuf>) -> Result<PathBuf, CannotTry> {
    if given.is_some() {
        return ringfence(given);
    }
    executables("ringfence-engine", &["build", "--release", "--example", name])?
        .remove(name)
        .ok_or_else(|| format!("cargo built no example named `{name}`"))
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns the executable that a cargo command built of a package, by name.
fn executables(package: &str, command: &[&str]) -> Result<BTreeMap<String, PathBuf>, CannotTry> {
    executables_with(package, command, None)
}

fn executables_with(
    package: &str,
    command: &[&str],
    variable: Option<(&str, &Path)>,
) -> Result<BTreeMap<String, PathBuf>, CannotTry> {
    let built = cargo()
        .envs(variable)
        .args(command)
        .args(["--package", package, "--message-format", "json-render-diagnostics"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !built.status.success() {
        return Err(format!("`cargo {} --package {package}` failed", command.join(" ")));
    }
    let text = String::from_utf8_lossy(&built.stdout);
    let messages = text.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
    let named = messages.filter_map(|m| {
        let name = m["target"]["name"].as_str()?.to_owned();
        Some((name, PathBuf::from(m["executable"].as_str()?)))
    });
    Ok(named.collect())
}

/// Where cargo builds, so that what is fetched and made by a proof goes with `cargo clean`.
pub(crate) fn target_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    // TARGET/PROFILE/xtask
    own.ancestors().nth(2).map_or_else(|| "target".into(), PathBuf::from)
}

/// Runs a command in a directory; it must succeed.
pub(crate) fn run_in(place: &Path, name: &str, arguments: &[&str]) -> Result<(), CannotTry> {
    match Command::new(name).args(arguments).current_dir(place).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} {}: {status}", arguments.join(" "))),
        Err(e) => Err(format!("cannot start {name}: {e}")),
    }
}

/// Installs packages in a Python environment, unless these are installed already.
pub(crate) fn python_env(dir: &Path, packages: &[&str]) -> Result<(), CannotTry> {
    create_dir(dir)?;
    once(&dir.join("installed"), &packages.join(" "), || {
        // Releases of before may exclude these.
        run_in(dir, "python3", &["-m", "venv", "--clear", "."])?;
        let pip = dir.join("bin/pip");
        run_in(dir, &pip.to_string_lossy(), &[&["install", "--quiet"], packages].concat())
    })
}

/// Installs packages of npm below a directory, unless these are installed already.
pub(crate) fn node_modules(dir: &Path, packages: &[&str]) -> Result<(), CannotTry> {
    create_dir(dir)?;
    once(&dir.join("node_modules/installed"), &packages.join(" "), || {
        let npm = ["install", "--silent", "--no-audit", "--prefix", "."];
        run_in(dir, "npm", &[&npm[..], packages].concat())
    })
}

fn create_dir(dir: &Path) -> Result<(), CannotTry> {
    std::fs::create_dir_all(dir).map_err(|e| format!("cannot create {}: {e}", dir.display()))
}

/// Does `make` unless the file `marker` says that it was done for the same words.
fn once(
    marker: &Path,
    words: &str,
    make: impl FnOnce() -> Result<(), CannotTry>,
) -> Result<(), CannotTry> {
    if std::fs::read_to_string(marker).is_ok_and(|found| found == words) {
        return Ok(());
    }
    make()?;
    std::fs::write(marker, words).map_err(|e| format!("cannot write {}: {e}", marker.display()))
}

/// Returns the output of a command, which must succeed.
pub(crate) fn output(command: &mut Command) -> Result<String, CannotTry> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("cannot start `{name}`: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`{name}` failed ({}): {said}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
