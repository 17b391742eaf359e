//! A workspace, home, state and temp directory that only this soak uses, and the way a run is started in them.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::CannotTry;
use crate::soak::SoakTier;

/// Duration of a clean run: long enough for a janitor, which sweeps.
const CLEAN_RUN_SECS: &str = "0.1";

/// Directories of one soak, gone with it.
pub(crate) struct World {
    dir: tempfile::TempDir,
    binary: PathBuf,
    tier: SoakTier,
    user: Option<u32>,
    mark: String,
}

impl World {
    pub(crate) fn new(binary: &Path, tier: SoakTier, user: Option<u32>) -> Result<Self, CannotTry> {
        Self::make(binary, tier, user).map_err(|e| format!("cannot make a workspace: {e}"))
    }

    fn make(binary: &Path, tier: SoakTier, user: Option<u32>) -> std::io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("xtask-soak-").tempdir()?;
        // An ordinary user may not be able to reach the build directory.
        let copy = dir.path().join("ringfence");
        std::fs::copy(binary, &copy)?;
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755))?;
        for name in ["home", "work", "state", "tmp"] {
            let path = dir.path().join(name);
            std::fs::create_dir(&path)?;
            if let Some(uid) = user {
                chown(&path, Some(uid), Some(uid))?;
            }
        }
        // Years, in seconds: no other program sleeps this long to the second.
        let mark = format!("98{:08}", std::process::id());
        Ok(Self { dir, binary: copy, tier, user, mark })
    }

    /// The tier of every run.
    pub(crate) fn tier(&self) -> SoakTier {
        self.tier
    }

    /// The number in the command line of everything a soak starts.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// The workspace.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// `TMPDIR` of every run.
    pub(crate) fn temp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// Where state is kept.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// The program itself, on this data directory.
    pub(crate) fn service(&self, data: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg(data).args(args);
        self.surround(command)
    }

    /// `ringfence run FLAGS -- ARGV` in the tier and as the user of this soak.
    pub(crate) fn run(&self, flags: &[&str], argv: &[String]) -> Command {
        let mut command = match self.tier {
            SoakTier::Namespaces => Command::new(&self.binary),
            SoakTier::Landlock => {
                // A user namespace whose own limit is zero: there are none to be had below it.
                let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
                let mut command = Command::new("unshare");
                command.args(["-U", "--map-current-user", "--keep-caps", "sh", "-c", script, "sh"]);
                command.arg(&self.binary);
                command
            }
        };
        command.arg("run").args(flags).arg("--").args(argv);
        self.surround(command)
    }

    /// `ringfence serve` on a port of its own, with a data directory of this soak.
    pub(crate) fn serve(&self) -> Command {
        let data = self.state().join("data");
        let flags = ["--listen", "127.0.0.1:0", "--rate-per-minute", "off", "--data-dir"];
        let mut command = self.subcommand("serve", &flags);
        command.arg(data);
        command
    }

    /// `ringfence batch FLAGS` as the user of this soak.
    pub(crate) fn batch(&self, flags: &[&str]) -> Command {
        self.subcommand("batch", flags)
    }

    /// `ringfence exec FLAGS` as the user of this soak.
    pub(crate) fn exec(&self, flags: &[&str]) -> Command {
        self.subcommand("exec", flags)
    }

    fn subcommand(&self, name: &str, flags: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg(name).args(flags);
        self.surround(command)
    }

    fn surround(&self, mut command: Command) -> Command {
        command.current_dir(self.work()).stdin(Stdio::null());
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("HOME", self.dir.path().join("home"));
        command.env("XDG_STATE_HOME", self.dir.path().join("state"));
        command.env("TMPDIR", self.temp());
        if let Some(uid) = self.user {
            // std drops supplementary groups together with a uid.
            command.uid(uid).gid(uid);
        }
        command
    }

    /// One clean run, which must be in the tier that is to be proved.
    pub(crate) fn check_tier(&self) -> Result<(), CannotTry> {
        let output = self.run(&["--json"], &["sleep".into(), CLEAN_RUN_SECS.into()]).output();
        let output = output.map_err(|e| format!("cannot start ringfence: {e}"))?;
        let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if outcome["status"] == "ok" && outcome["enforcement"]["tier"] == self.tier.name() {
            return Ok(());
        }
        Err(format!(
            "a clean run is not `ok` in the `{}` tier: {outcome}{}",
            self.tier.name(),
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}
