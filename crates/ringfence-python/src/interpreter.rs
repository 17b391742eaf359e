//! Finds an interpreter, the host's files that it needs, and whether a run could have changed it. Runs nothing:
//! starting a Python costs more than the rest of a run, and a name on `PATH` may be a script.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringfence_jail::survey::{found, resolve};
use ringfence_plan::{Found, PythonFacts};
use ringfence_spec::{Code, Problem};
use ringfence_sys::Budget;
use ringfence_sys::untrusted;
use rustix::fs::FileType;

/// The oldest and the newest version that runs.
const MINOR_MIN: u32 = 9;
const MINOR_MAX: u32 = 14;

/// Maximum size of a `.python-version`.
const VERSION_BYTES_MAX: u64 = 4096;

/// Maximum number of directories above the working directory that are searched for a `.python-version`.
const VERSION_DIRECTORIES_MAX: usize = 32;

/// Maximum number of entries of an interpreter's `lib` that are searched for its shared library.
const LIB_ENTRIES_MAX: u32 = 5000;

/// An interpreter and the paths it must see.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// The program to execute.
    pub executable: PathBuf,
    /// `3.MINOR`.
    pub minor: u32,
    /// Read-only, each at its own path.
    pub visible: Vec<Found>,
    /// Links of the root on the way there.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Directories whose names reveal the host and are not shown in output.
    pub prefixes: Vec<PathBuf>,
    /// Its origin and that of its packages.
    pub facts: PythonFacts,
}

/// Inputs of the search.
pub struct InterpreterSearch<'a> {
    /// `PATH`.
    pub path: OsString,
    /// `PYENV_VERSION`.
    pub pyenv_version: Option<OsString>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The directory that runs may write and that a canonical path lies in, if it does.
    pub written_by_runs: &'a dyn Fn(&Path) -> Option<PathBuf>,
}

/// Finds the interpreter that `asked` names, else `python3` on `PATH`.
pub fn discover(
    asked: Option<&Path>,
    around: &InterpreterSearch<'_>,
) -> Result<Interpreter, Problem> {
    let name = asked.unwrap_or(Path::new("python3"));
    let candidates: Vec<PathBuf> = if name.components().count() > 1 {
        vec![around.cwd.join(name)]
    } else {
        std::env::split_paths(&around.path).map(|dir| dir.join(name)).collect()
    };
    let mut why = format!("`{}` is no program, or not on PATH", name.display());
    for candidate in candidates {
        let Some(executable) = behind_shim(&candidate, around) else { continue };
        match describe(&executable, around) {
            Ok(interpreter) => return Ok(interpreter),
            Err(reason) => why = reason,
        }
    }
    Err(Problem::cannot_build(Code::PythonNotFound, "no Python to run")
        .cause(why)
        .hint(ringfence_spec::Hint::Python))
}

/// Resolves one of pyenv's shims to the program behind it; `None` if there is no program.
fn behind_shim(candidate: &Path, around: &InterpreterSearch<'_>) -> Option<PathBuf> {
    let mut start = [0u8; 4];
    // By its resolved path: a run may have laid a link to a pipe or a device here.
    let real = resolve(candidate).ok()?.found.path;
    let n = untrusted::open_file(&real).ok()?.read(&mut start).ok()?;
    if start[..n] == *b"\x7fELF" {
        return Some(candidate.to_owned());
    }
    let shims = candidate.parent()?;
    if shims.file_name() != Some(OsStr::new("shims")) {
        return None;
    }
    let root = shims.parent()?;
    let read = |file: PathBuf| {
        let bytes = untrusted::read_file(&file, VERSION_BYTES_MAX).ok()?;
        String::from_utf8(bytes).ok()
    };
    let above = || around.cwd.ancestors().take(VERSION_DIRECTORIES_MAX);
    let local = || above().find_map(|dir| read(dir.join(".python-version")));
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
        .find(|program| is_file(program))
}

fn describe(executable: &Path, around: &InterpreterSearch<'_>) -> Result<Interpreter, String> {
    let resolved = resolve(executable)
        .map_err(|e| format!("`{}` cannot be resolved: {e}", executable.display()))?;
    let real = resolved.found.path;
    // Nothing is executed to find out: an interpreter is known by its name and the library beside it.
    if !real.file_name().is_some_and(|name| name.to_string_lossy().contains("python")) {
        return Err(format!("`{}` is not a Python", real.display()));
    }
    let prefix = real.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
    let minor = minor(&real, &prefix)
        .ok_or_else(|| format!("`{}` has no standard library beside it", real.display()))?;
    if !(MINOR_MIN..=MINOR_MAX).contains(&minor) {
        return Err(format!("`{}` is Python 3.{minor}", real.display()));
    }
    let mut paths: Vec<PathBuf> = vec![real.clone()];
    let mut prefixes = Vec::new();
    let library = format!("lib/python3.{minor}");
    let mut packages = Vec::new();
    if prefix == Path::new("/usr") {
        packages.push(Path::new("/usr/local").join(&library).join("dist-packages"));
        packages.push("/usr/lib/python3/dist-packages".into());
        packages.push(prefix.join(&library).join("site-packages"));
        paths.extend([prefix.join(&library), "/usr/lib/python3".into()]);
        paths.push(Path::new("/usr/local").join(&library));
        // Debian's numpy reaches its BLAS through here, its matplotlib its data and fonts.
        paths.extend(
            ["/etc/alternatives", "/etc/matplotlibrc", "/usr/share/matplotlib", "/usr/share/fonts"]
                .map(PathBuf::from),
        );
        // Debian's certifi, which requests asks, names the system's certificates.
        if found(Path::new("/usr/lib/python3/dist-packages/certifi")).is_some() {
            paths.push("/etc/ssl/certs/ca-certificates.crt".into());
        }
    } else {
        // The prefix itself may be a project: show only the parts that belong to Python.
        packages.push(prefix.join(&library).join("site-packages"));
        paths.push(prefix.join(&library));
        paths.push(prefix.join(format!("lib64/python3.{minor}")));
        paths.extend(shared_libraries(&prefix));
        if prefix.starts_with("/nix/store") {
            // Every library is in a directory of its own there, open to every user.
            paths.push("/nix/store".into());
        }
        if prefix != Path::new("/usr/local") {
            prefixes.push(prefix.clone());
        }
    }
    let mut links: Vec<(PathBuf, PathBuf)> = resolved.links;
    let mut program = real.clone();
    let mut environment = None;
    if let Some(venv) = venv(executable) {
        // Executed by its own name, or it would not find the environment.
        program = venv.join("bin").join(executable.file_name().unwrap_or(OsStr::new("python3")));
        let own = venv.join(&library).join("site-packages");
        if !includes_system_packages(&venv) {
            packages.clear();
        }
        packages.insert(0, own.clone());
        paths.push(own);
        paths.push(venv.join("pyvenv.cfg"));
        prefixes.push(venv.clone());
        environment = Some(venv);
    }
    let (system, system_links) = system_libraries();
    paths.extend(system);
    links.extend(system_links);
    let mut visible: Vec<Found> = Vec::new();
    for path in paths {
        let Some(found) = found(&path) else { continue };
        if !visible.iter().any(|known| found.path.starts_with(&known.path)) {
            visible.push(found);
        }
    }
    packages.retain(|dir| found(dir).is_some());
    let shown = |at: &Path| visible.iter().any(|known| at.starts_with(&known.path));
    links.retain(|(at, _)| !shown(at));
    // Everything that is executed or imported before the first line of a program.
    let code = visible.iter().map(|found| found.path.as_path());
    let code = code.chain(links.iter().map(|(at, _)| at.as_path()));
    let written_by_runs = code.chain(environment.as_deref()).find_map(around.written_by_runs);
    let facts = PythonFacts {
        version: format!("3.{minor}"),
        prefix: environment.clone().unwrap_or(prefix),
        environment,
        packages,
        written_by_runs,
    };
    Ok(Interpreter { executable: program, minor, visible, links, prefixes, facts })
}

fn is_file(path: &Path) -> bool {
    untrusted::open_file(path).is_ok()
        || resolve(path).is_ok_and(|r| untrusted::open_file(&r.found.path).is_ok())
}

/// The minor version, from the program's name or from the library beside it.
fn minor(real: &Path, prefix: &Path) -> Option<u32> {
    let has_library = |minor: &u32| is_file(&prefix.join(format!("lib/python3.{minor}/os.py")));
    let name = real.file_name()?.to_str()?;
    let named = name.strip_prefix("python3.").and_then(|rest| rest.parse().ok());
    named.filter(has_library).or_else(|| (0..100).rev().find(has_library))
}

/// The virtual environment that `executable` belongs to.
fn venv(executable: &Path) -> Option<PathBuf> {
    let dir = resolve(executable.parent()?.parent()?).ok()?.found.path;
    untrusted::open_file(&dir.join("pyvenv.cfg")).is_ok().then_some(dir)
}

/// Returns true if an environment sees the packages of the interpreter it was made with.
fn includes_system_packages(venv: &Path) -> bool {
    let text =
        untrusted::read_file(&venv.join("pyvenv.cfg"), VERSION_BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(|line| line.split_once('=')).any(|(key, value)| {
        key.trim() == "include-system-site-packages" && value.trim().eq_ignore_ascii_case("true")
    })
}

/// The interpreter's own shared library; of Conda, all of its libraries, which its packages are linked with.
fn shared_libraries(prefix: &Path) -> Vec<PathBuf> {
    let lib = prefix.join("lib");
    if untrusted::open_absolute(&prefix.join("conda-meta")).is_ok() {
        return vec![lib];
    }
    let mut libraries = Vec::new();
    let dir = untrusted::open_absolute(&lib)
        .and_then(|dir| untrusted::open_directory_beneath(dir, Path::new(".")));
    if let Ok(dir) = dir {
        let _ = untrusted::list(&dir, &Budget::entries(LIB_ENTRIES_MAX), |name, kind| {
            let is_library = name.as_bytes().starts_with(b"libpython");
            if is_library && kind != FileType::Directory {
                libraries.push(lib.join(name));
            }
            std::ops::ControlFlow::Continue(())
        });
    }
    libraries
}

/// The dynamic loader, the libraries it searches by itself, and time zones.
fn system_libraries() -> (Vec<PathBuf>, Vec<(PathBuf, PathBuf)>) {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let mut paths: Vec<PathBuf> = vec![
        format!("/usr/lib/{triplet}").into(),
        "/usr/lib64".into(),
        "/usr/share/zoneinfo".into(),
        // `LANG` names one of these.
        "/usr/lib/locale".into(),
    ];
    let mut links = Vec::new();
    for top in ["/lib", "/lib64"] {
        match rustix::fs::readlink(top, Vec::new()) {
            Ok(target) => links.push((top.into(), OsStr::from_bytes(target.to_bytes()).into())),
            // Not merged into /usr.
            Err(_) if top == "/lib" => paths.push(format!("/lib/{triplet}").into()),
            Err(_) => paths.push(top.into()),
        }
    }
    (paths, links)
}
