//! The machine's filesystem: the binary under proof, this host's shell, tools and Python with their libraries, and the steps.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufWriter;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::CannotTry;
use crate::program::output;
use crate::vm::kernel::Kernel;
use crate::vm::newc::Archive;
use crate::vm::steps::SCENARIOS;

/// Tools of init and the steps.
const TOOLS: [&str; 34] = [
    "sh",
    "base64",
    "cat",
    "chmod",
    "chown",
    "cp",
    "cut",
    "dd",
    "echo",
    "env",
    "false",
    "find",
    "grep",
    "head",
    "id",
    "ls",
    "mkdir",
    "mount",
    "mv",
    "printf",
    "rm",
    "setpriv",
    "setsid",
    "sleep",
    "sort",
    "stty",
    "switch_root",
    "tail",
    "timeout",
    "touch",
    "tr",
    "true",
    "uname",
    "mke2fs",
];

/// Parts of Python's library that no step imports and that make up most of its size.
const PYTHON_LEFT_OUT: [&str; 12] = [
    "test",
    "tests",
    "idlelib",
    "ensurepip",
    "lib2to3",
    "tkinter",
    "turtledemo",
    "dist-packages",
    "site-packages",
    "pydoc_data",
    "distutils",
    "unittest",
];

const ACCOUNTS: [(&str, u32, &str); 5] = [
    (
        "etc/passwd",
        0o644,
        "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    ),
    ("etc/group", 0o644, "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"),
    ("etc/shadow", 0o600, "root:canary:1:0:99999:7:::\n"),
    ("etc/hosts", 0o644, "127.0.0.1 localhost\n"),
    ("etc/nsswitch.conf", 0o644, "passwd: files\nhosts: files\n"),
];

/// Further tools of attacks and their twins.
const ATTACK_TOOLS: [&str; 14] = [
    "bash", "date", "git", "ln", "mkfifo", "readlink", "realpath", "rmdir", "seq", "stat", "tee",
    "umount", "unshare", "wc",
];

/// Slowness of emulation on a busy host: a benign program gets that many times the time.
const SLOWNESS: u32 = 10;

/// The attacks of `escapes/`, run by their own harness.
pub(crate) struct Attacks {
    /// The harness and the binary it runs.
    pub(crate) programs: [PathBuf; 2],
    /// A word in the name of each.
    pub(crate) only: String,
}

/// Contents of the image besides the system.
pub(crate) struct Contents<'a> {
    /// The binary under proof.
    pub(crate) binary: &'a Path,
    pub(crate) attacks: Option<Attacks>,
    /// Programs to compare with.
    pub(crate) peers: &'static [&'static str],
    /// Runs of a soak, which is this program's.
    pub(crate) soak_runs: Option<u32>,
}

/// Where this program is in the image.
const XTASK: &str = "/vm/xtask";

/// Writes the image for `kernel` into `dir`.
pub(crate) fn build(
    contents: &Contents<'_>,
    kernel: &Kernel,
    dir: &Path,
) -> Result<PathBuf, CannotTry> {
    let Contents { binary, attacks, peers, soak_runs } = contents;
    let attacks = attacks.as_ref();
    let mut files: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let mut programs = vec![binary.to_path_buf()];
    files.insert("/usr/bin/ringfence".into(), binary.to_path_buf());
    if soak_runs.is_some() {
        let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
        programs.push(own.clone());
        files.insert(XTASK.into(), own);
    }
    let more: &[&str] = if attacks.is_some() { &ATTACK_TOOLS } else { &[] };
    for tool in TOOLS.iter().chain(more).chain(*peers) {
        let dirs = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];
        let found = dirs.iter().map(|d| Path::new(d).join(tool)).find(|p| p.exists());
        let path =
            found.ok_or_else(|| format!("this host has no `{tool}` to put into the image"))?;
        files.insert(merged(&path), path.clone());
        programs.push(path);
    }
    if let Some(attacks) = attacks {
        let at = attack_files(attacks)?;
        programs.extend(attacks.programs.iter().cloned());
        files.extend(at.into_iter().map(|path| (path.clone(), path)));
    }
    programs.extend(python(&mut files)?);
    for library in libraries(&programs)? {
        files.insert(merged(&library), library);
    }
    for module in &kernel.modules {
        let name = module.file_name().unwrap_or_default();
        files.insert(Path::new("/vm/modules").join(name), module.clone());
    }
    let image = dir.join(format!("initramfs-{}.cpio", kernel.release));
    let only = attacks.map_or("", |a| a.only.as_str());
    let harness = attacks.map(|a| a.programs[0].display().to_string()).unwrap_or_default();
    let escapes = format!("TMPDIR=/ws RINGFENCE_TEST_SLOWNESS={SLOWNESS} exec {harness} {only}\n");
    let soak = format!(
        "TMPDIR=$PWD exec {XTASK} soak --parallel --binary /usr/bin/ringfence --runs {}\n",
        soak_runs.unwrap_or_default()
    );
    write(&image, &files, &[("vm/escapes.sh", &escapes), ("vm/soak.sh", &soak)])
        .map_err(|e| format!("cannot write `{}`: {e}", image.display()))?;
    Ok(image)
}

/// The programs, and the documents where the harness was built to look for them.
fn attack_files(attacks: &Attacks) -> Result<Vec<PathBuf>, CannotTry> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/"));
    let documents = project.join("escapes");
    let entries = fs::read_dir(&documents)
        .map_err(|e| format!("cannot read `{}`: {e}", documents.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    // It goes there by way of its own package.
    files.push(project.join("crates/ringfence/Cargo.toml"));
    files.extend(attacks.programs.iter().cloned());
    Ok(files)
}

fn write(
    image: &Path,
    files: &BTreeMap<PathBuf, PathBuf>,
    scripts: &[(&str, &str)],
) -> std::io::Result<()> {
    let mut archive = Archive::new(BufWriter::new(fs::File::create(image)?));
    let mut there = BTreeSet::new();
    for name in [
        "dev",
        "etc",
        "home",
        "proc",
        "root",
        "run",
        "sys",
        "tmp",
        "vm",
        "usr",
        "ws",
        "new",
        "opt",
        "etc/ssl",
        "etc/ssl/private",
    ] {
        archive.directory(name, 0o755)?;
        there.insert(PathBuf::from(name));
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        archive.symlink(name, &format!("usr/{name}"))?;
    }
    for (at, source) in files {
        let at = at.strip_prefix("/").unwrap_or(at);
        let mut parents: Vec<&Path> = at.ancestors().skip(1).collect();
        parents.reverse();
        for parent in parents.into_iter().filter(|p| !p.as_os_str().is_empty()) {
            if there.insert(parent.to_owned()) {
                archive.directory(&parent.to_string_lossy(), 0o755)?;
            }
        }
        let meta = fs::metadata(source)?;
        let mode = meta.permissions().mode() & 0o755;
        let mtime = u32::try_from(meta.mtime()).unwrap_or(0);
        archive.file(&at.to_string_lossy(), mode, mtime, &fs::read(source)?)?;
    }
    for (at, mode, text) in ACCOUNTS {
        archive.file(at, mode, 0, text.as_bytes())?;
    }
    archive.file("init", 0o755, 0, include_bytes!("../../vm/init.sh"))?;
    archive.file("vm/main.sh", 0o755, 0, include_bytes!("../../vm/main.sh"))?;
    archive.file("vm/cost.py", 0o644, 0, include_bytes!("../../vm/cost.py"))?;
    archive.file("vm/services.py", 0o644, 0, include_bytes!("../../vm/services.py"))?;
    for (at, text) in scripts {
        archive.file(at, 0o644, 0, text.as_bytes())?;
    }
    for scenario in &SCENARIOS {
        archive.directory(&format!("vm/{}", scenario.name), 0o755)?;
        for (number, step) in scenario.steps.iter().enumerate() {
            let at = format!("vm/{}/{number:03}.{}", scenario.name, step.who.name());
            archive.file(&at, 0o644, 0, step.script.as_bytes())?;
        }
    }
    archive.finish()
}

/// The system's Python: the program, its library, and its extension modules as programs whose libraries are needed.
fn python(files: &mut BTreeMap<PathBuf, PathBuf>) -> Result<Vec<PathBuf>, CannotTry> {
    let program = Path::new("/usr/bin/python3");
    let ask = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let library = output(Command::new(program).args(["-I", "-c", ask]))?;
    let library = PathBuf::from(library.trim());
    files.insert(program.to_owned(), program.to_owned());
    let mut needy = vec![program.to_owned()];
    let mut open = vec![library];
    while let Some(dir) = open.pop() {
        let entries = fs::read_dir(&dir)
            .map_err(|e| format!("cannot read Python's library `{}`: {e}", dir.display()))?;
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let left_out = PYTHON_LEFT_OUT.contains(&name.as_str()) || name.starts_with("config-");
            if left_out || name.contains(".opt-") || !path.exists() {
                continue;
            }
            if path.is_dir() {
                open.push(path);
                continue;
            }
            if path.extension().is_some_and(|e| e == "so") {
                needy.push(path.clone());
            }
            files.insert(merged(&path), path);
        }
    }
    Ok(needy)
}

/// The shared libraries of `programs`, by asking the loader.
fn libraries(programs: &[PathBuf]) -> Result<BTreeSet<PathBuf>, CannotTry> {
    // ldd answers 1 when one of its arguments is static, which is no error here.
    let asked = Command::new("ldd")
        .args(programs)
        .output()
        .map_err(|e| format!("cannot start ldd: {e}"))?;
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    let path = |line: &str| {
        let line = line.trim();
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        path.split(" (")
            .next()
            .filter(|p| p.starts_with('/') && !p.ends_with(':'))
            .map(PathBuf::from)
    };
    Ok(text.lines().filter_map(path).collect())
}

/// Where a path is in an image whose `/bin`, `/sbin`, `/lib` and `/lib64` are links into `/usr`.
fn merged(path: &Path) -> PathBuf {
    let old = ["/bin", "/sbin", "/lib", "/lib64"].iter().any(|top| path.starts_with(top));
    match path.strip_prefix("/") {
        Ok(below) if old => Path::new("/usr").join(below),
        _ => path.to_owned(),
    }
}
