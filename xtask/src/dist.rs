//! The program as packages and figures use it: built with the profile `dist`, then linked again with the functions that
//! a start calls side by side, so that it finds them in a few pages. Stepping through runs of the first build yields their
//! order. Names of functions contain hashes of the compiler and of the sources, so the list is made for each build.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;

use crate::{CannotTry, Verdict, program};

/// The runs that are stepped through.
const RUNS: [&[&str]; 2] = [&["run", "--", "/bin/true"], &["exec", "-c", "print(1)"]];

/// A user other than root.
const ORDINARY: u32 = 1000;

/// Working directory of the runs, below their home.
const WORK: &str = "work";

/// The variable by which `crates/ringfence/build.rs` finds the list.
const VARIABLE: &str = "RINGFENCE_LINK_ORDER";

#[derive(Debug, Args)]
pub(crate) struct DistArgs {
    /// Leave out the second link: the order of functions is the compiler's
    #[arg(long)]
    unordered: bool,
}

pub(crate) fn dist(args: &DistArgs) -> Result<Verdict, CannotTry> {
    let mut binary = program::dist(None)?;
    if !args.unordered {
        let list = binary.with_file_name("link-order.txt");
        std::fs::write(&list, order(&binary)?)
            .map_err(|e| format!("cannot write the list: {e}"))?;
        binary = program::dist(Some((VARIABLE, &list)))?;
    }
    println!("{}", binary.display());
    Ok(Verdict::Held)
}

/// Returns the functions that the runs call, in the order of their first calls, one on each line.
fn order(binary: &Path) -> Result<String, CannotTry> {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("dist/trace.py");
    let (mut list, mut known) = (String::new(), HashSet::new());
    for uid in users() {
        // A copy and a home that every user can reach.
        let place = tempfile::tempdir().map_err(|e| format!("cannot make a directory: {e}"))?;
        let copy = place.path().join("ringfence");
        std::fs::copy(binary, &copy).map_err(|e| format!("cannot copy the binary: {e}"))?;
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
    Ok(list)
}

/// Users that run it: the caller, and if that is root an ordinary user too, for whom the fence is built differently.
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
