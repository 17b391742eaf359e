//! The order of functions in the program: those of a run side by side, so that its start finds them in a few pages.
//! Steps through runs of a release build and writes down what it meets; `crates/ringfence/build.rs` gives that to the
//! linker. A name that no longer exists costs nothing, one that is missing costs a page: run it again when start-up
//! has changed or with another compiler.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::{CannotTry, Verdict, program};

/// What is walked through: what people wait for.
const RUNS: [&[&str]; 2] = [&["run", "--", "/bin/true"], &["exec", "-c", "print(1)"]];

/// Somebody other than root.
const ORDINARY: u32 = 1000;

/// Where the runs work, below their home.
const WORK: &str = "work";

const HEADER: &str = "\
# Functions in the order in which a run meets them. Written by `cargo xtask order`, read by the linker.
";

#[derive(Debug, Args)]
pub(crate) struct OrderArgs {
    /// The binary to walk through; built in release if not given
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub(crate) fn order(args: &OrderArgs) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("order/trace.py");
    let (mut list, mut known) = (HEADER.to_owned(), HashSet::new());
    for uid in users() {
        // A copy and a home that everybody may reach.
        let place = tempfile::tempdir().map_err(|e| format!("cannot make a directory: {e}"))?;
        let copy = place.path().join("ringfence");
        std::fs::copy(&binary, &copy).map_err(|e| format!("cannot copy the binary: {e}"))?;
        let work = place.path().join(WORK);
        std::fs::create_dir(&work).map_err(|e| format!("cannot make a directory: {e}"))?;
        for path in [place.path(), &work, &copy] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o777))
                .map_err(|e| format!("cannot let others use `{}`: {e}", path.display()))?;
        }
        for run in RUNS {
            let met = met(&trace, &copy, place.path(), uid, run)?;
            eprintln!("{run:?} as {uid}: {} functions", met.lines().count());
            for name in met.lines() {
                if known.insert(name.to_owned()) {
                    let _ = writeln!(list, "{name}");
                }
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ringfence/order.txt");
    std::fs::write(&path, list).map_err(|e| format!("cannot write the list: {e}"))?;
    println!("{} functions", known.len());
    Ok(Verdict::Held)
}

/// Who runs it: its caller, and where that is root somebody else too, for whom other ways are taken.
fn users() -> Vec<u32> {
    let own = rustix::process::getuid();
    if own.is_root() { vec![own.as_raw(), ORDINARY] } else { vec![own.as_raw()] }
}

/// The functions that one run meets.
fn met(
    trace: &Path,
    program: &Path,
    home: &Path,
    uid: u32,
    run: &[&str],
) -> Result<String, CannotTry> {
    let mut command = Command::new("python3");
    command.arg(trace).arg(program).arg(uid.to_string()).args(run);
    command
        .current_dir(home.join(WORK))
        .env("HOME", home)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command.output().map_err(|e| format!("cannot start python3: {e}"))?;
    if !output.status.success() {
        return Err(format!("cannot step through {run:?}: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
