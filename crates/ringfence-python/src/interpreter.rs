//! Finds an interpreter and what of the host it needs, without running anything: starting a Python costs more than the
//! rest of a run, and a name on `PATH` may be a script.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ringfence_jail::survey::found;
use ringfence_plan::Found;
use ringfence_spec::Problem;

/// The oldest and the newest version that runs.
const MINOR_MIN: u32 = 9;
const MINOR_MAX: u32 = 14;

/// As many as the kernel follows.
const LINKS_MAX: usize = 40;

/// An interpreter and what it must see.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// What is executed.
    pub executable: PathBuf,
    /// `3.MINOR`.
    pub minor: u32,
    /// Read-only, each at its own path.
    pub visible: Vec<Found>,
    /// Links of the root on the way there.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Directories whose names tell about the host and are not shown in output.
    pub prefixes: Vec<PathBuf>,
}

/// Where to look.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// `PATH`.
    pub path: OsString,
    /// `PYENV_VERSION`.
    pub pyenv_version: Option<OsString>,
    /// The working directory.
    pub cwd: PathBuf,
}

/// Finds the interpreter that `asked` names, else `python3` on `PATH`.
pub fn discover(asked: Option<&Path>, around: &Surroundings) -> Result<Interpreter, Problem> {
    let name = asked.unwrap_or(Path::new("python3"));
    let candidates: Vec<PathBuf> = if name.components().count() > 1 {
        vec![around.cwd.join(name)]
    } else {
        std::env::split_paths(&around.path).map(|dir| dir.join(name)).collect()
    };
    let mut why = format!("`{}` is no program, or not on PATH", name.display());
    for candidate in candidates {
        let Some(executable) = behind_shim(&candidate, around) else { continue };
        match describe(&executable) {
            Ok(interpreter) => return Ok(interpreter),
            Err(reason) => why = reason,
        }
    }
    Err(Problem::cannot_build("python_not_found", "no Python to run")
        .cause(why)
        .hint("name one with `--python PATH`; versions 3.9 to 3.14 work"))
}

/// The program itself, where `candidate` is one of pyenv's scripts; `None` where there is no program.
fn behind_shim(candidate: &Path, around: &Surroundings) -> Option<PathBuf> {
    let mut start = [0u8; 4];
    // A pipe with a name would make an open wait.
    if !std::fs::metadata(candidate).ok()?.is_file() {
        return None;
    }
    let n = std::fs::File::open(candidate).ok()?.read(&mut start).ok()?;
    if start[..n] == *b"\x7fELF" {
        return Some(candidate.to_owned());
    }
    let shims = candidate.parent()?;
    if shims.file_name() != Some(OsStr::new("shims")) {
        return None;
    }
    let root = shims.parent()?;
    let read = |file: PathBuf| std::fs::read_to_string(file).ok();
    let local = || around.cwd.ancestors().find_map(|dir| read(dir.join(".python-version")));
    let versions = around
        .pyenv_version
        .as_ref()
        .map(|v| v.to_string_lossy().replace(':', "\n"))
        .or_else(local)
        .or_else(|| read(root.join("version")))?;
    let installed = versions.split_whitespace().filter(|v| !v.contains('/') && *v != "..");
    let name = candidate.file_name()?;
    installed
        .map(|version| root.join("versions").join(version).join("bin").join(name))
        .find(|program| program.is_file())
}

fn describe(executable: &Path) -> Result<Interpreter, String> {
    let real = executable
        .canonicalize()
        .map_err(|e| format!("`{}` cannot be resolved: {e}", executable.display()))?;
    let prefix = real.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
    let minor = minor(&real, &prefix)
        .ok_or_else(|| format!("`{}` has no standard library beside it", real.display()))?;
    if !(MINOR_MIN..=MINOR_MAX).contains(&minor) {
        return Err(format!("`{}` is Python 3.{minor}", real.display()));
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut prefixes = Vec::new();
    let library = format!("lib/python3.{minor}");
    if prefix == Path::new("/usr") {
        paths.extend([real.clone(), prefix.join(&library), "/usr/lib/python3".into()]);
        paths.push(Path::new("/usr/local").join(&library));
        // Debian's numpy reaches its BLAS through here.
        paths.push("/etc/alternatives".into());
    } else if prefix == Path::new("/usr/local") {
        paths.extend([real.clone(), "/usr/local/lib".into()]);
    } else {
        paths.push(prefix.clone());
        prefixes.push(prefix.clone());
    }
    let mut program = real.clone();
    if let Some(venv) = venv(executable) {
        // Executed by its own name, or it would not find the environment.
        program = venv.join("bin").join(executable.file_name().unwrap_or(OsStr::new("python3")));
        paths.push(venv.clone());
        prefixes.push(venv);
    }
    let (system, mut links) = system_libraries();
    paths.extend(system);
    let mut visible: Vec<Found> = Vec::new();
    for path in paths {
        let Some(found) = found(&path) else { continue };
        if !visible.iter().any(|known| found.path.starts_with(&known.path)) {
            visible.push(found);
        }
    }
    let shown = |at: &Path| visible.iter().any(|known| at.starts_with(&known.path));
    links.extend(hops(executable).into_iter().filter(|(at, _)| !shown(at)));
    Ok(Interpreter { executable: program, minor, visible, links, prefixes })
}

/// The links from a program's name to the program: where each is, and what it says.
fn hops(executable: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut hops = Vec::new();
    let mut at = executable.to_owned();
    while hops.len() < LINKS_MAX
        && let Ok(target) = std::fs::read_link(&at)
        && let (Some(parent), Some(name)) = (at.parent(), at.file_name())
        && let Ok(parent) = parent.canonicalize()
    {
        let next = parent.join(&target);
        hops.push((parent.join(name), target));
        at = next;
    }
    hops
}

/// The minor version, from the program's name or from the library beside it.
fn minor(real: &Path, prefix: &Path) -> Option<u32> {
    let has_library = |minor: &u32| prefix.join(format!("lib/python3.{minor}/os.py")).is_file();
    let name = real.file_name()?.to_str()?;
    let named = name.strip_prefix("python3.").and_then(|rest| rest.parse().ok());
    named.filter(has_library).or_else(|| (0..100).rev().find(has_library))
}

/// The virtual environment that `executable` belongs to.
fn venv(executable: &Path) -> Option<PathBuf> {
    let dir = executable.parent()?.parent()?.canonicalize().ok()?;
    dir.join("pyvenv.cfg").is_file().then_some(dir)
}

/// The dynamic loader, the libraries it looks through by itself, and time zones.
fn system_libraries() -> (Vec<PathBuf>, Vec<(PathBuf, PathBuf)>) {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let mut paths: Vec<PathBuf> = vec![
        format!("/usr/lib/{triplet}").into(),
        "/usr/lib64".into(),
        "/usr/share/zoneinfo".into(),
    ];
    let mut links = Vec::new();
    for top in ["/lib", "/lib64"] {
        match std::fs::read_link(top) {
            Ok(target) => links.push((top.into(), target)),
            // Not merged into /usr.
            Err(_) if top == "/lib" => paths.push(format!("/lib/{triplet}").into()),
            Err(_) => paths.push(top.into()),
        }
    }
    (paths, links)
}
