//! Kernels as Debian ships them: downloaded by apt, unpacked beside the build, never installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::CannotTry;
use crate::program::output;

/// A kernel to boot.
pub(crate) struct Kernel {
    /// As `uname -r` will say.
    pub(crate) release: String,
    /// The compressed image.
    pub(crate) vmlinuz: PathBuf,
    /// Those of [`MODULES`]; newer packages compress them.
    pub(crate) modules: Vec<PathBuf>,
}

/// Modules that the machine loads: filesystems in files for the workspaces, and two socket families that attacks ask for.
/// None of them needs another.
const MODULES: [&str; 3] = ["drivers/block/loop", "net/netfilter/nfnetlink", "net/vmw_vsock/vsock"];

impl Kernel {
    /// The Landlock ABI this release came with: see landlock(7), "VERSIONS".
    pub(crate) fn landlock_abi(&self) -> u32 {
        let mut numbers = self.release.split(['.', '-', '+']).map_while(|n| n.parse().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let abis = [(5, 13), (5, 19), (6, 2), (6, 7), (6, 10), (6, 12), (6, 15)];
        u32::try_from(abis.iter().filter(|first| version >= **first).count()).unwrap_or(0)
    }
}

/// The newest kernel of `series` that apt knows, kept in `dir` for the next time.
pub(crate) fn fetch(series: &str, dir: &Path) -> Result<Kernel, CannotTry> {
    let pattern = format!("^linux-image-{}[.-].*-cloud-amd64$", series.replace('.', "[.]"));
    let found = output(Command::new("apt-cache").args(["search", "--names-only", &pattern]))?;
    let mut packages: Vec<&str> =
        found.lines().filter_map(|l| l.split_whitespace().next()).collect();
    packages.sort_by_key(|name| {
        let numbers = name.split(|c: char| !c.is_ascii_digit());
        numbers.filter_map(|n| n.parse::<u32>().ok()).collect::<Vec<_>>()
    });
    let package = packages
        .last()
        .ok_or_else(|| format!("apt knows no cloud kernel {series}; try `apt-get update`"))?;
    let release = package.trim_start_matches("linux-image-").to_owned();
    let unpacked = dir.join(package);
    let vmlinuz = unpacked.join("boot").join(format!("vmlinuz-{release}"));
    if !vmlinuz.exists() {
        download(package, dir, &unpacked)?;
    }
    let drivers = unpacked.join("lib/modules").join(&release).join("kernel");
    let module = |name: &&str| {
        let files = ["ko", "ko.xz"].map(|kind| drivers.join(format!("{name}.{kind}")));
        let found = files.into_iter().find(|path| path.exists());
        found.ok_or_else(|| format!("`{package}` has no module `{name}`"))
    };
    let modules = MODULES.iter().map(module).collect::<Result<_, _>>()?;
    Ok(Kernel { release, vmlinuz, modules })
}

/// Brings `package` and unpacks it at `unpacked`.
fn download(package: &str, dir: &Path, unpacked: &Path) -> Result<(), CannotTry> {
    eprintln!("vm: downloading {package}");
    let fresh = tempfile::Builder::new().prefix("deb-").tempdir_in(dir);
    let fresh =
        fresh.map_err(|e| format!("cannot make a directory in `{}`: {e}", dir.display()))?;
    output(Command::new("apt-get").args(["download", package]).current_dir(fresh.path()))?;
    let deb = std::fs::read_dir(fresh.path())
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|e| e == "deb"))
        .ok_or_else(|| format!("`apt-get download {package}` brought no package"))?;
    let contents = fresh.path().join("contents");
    output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&contents))?;
    // Renamed when complete: an interrupted download is not mistaken for a kernel.
    std::fs::rename(&contents, unpacked)
        .map_err(|e| format!("cannot keep `{}`: {e}", unpacked.display()))
}
