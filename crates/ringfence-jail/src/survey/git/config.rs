//! Reads git's configuration, and protects the paths in the workspace that it names.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use ringfence_plan::{FileKind, PlaceholderShape, Protected, ProtectedState, catalogue};
use ringfence_sys::CallError;
use ringfence_sys::untrusted::read_trusted;
use rustix::io::Errno;

use super::{CONFIG_BYTES_MAX, Survey, lexical, present};
use crate::survey::gitconfig::{self, Role, Variable};
use crate::survey::tree::{Content, Seen, Tree};

/// Maximum number of paths in the workspace that configuration names and that are protected.
const NAMED_MAX: usize = 32;

/// Maximum number of files that configuration includes, one from another.
const INCLUDES_MAX: usize = 16;

impl Survey<'_, '_> {
    /// Reads the configuration in `git_dir`, protects the paths it names in `checkout`, and returns it.
    pub(super) fn config(
        &mut self,
        git_dir: &Tree<'_>,
        checkout: &Path,
    ) -> Result<Config, CallError> {
        let config = self.read_config(git_dir)?;
        self.names(&config.variables, checkout)?;
        Ok(config)
    }

    /// The configuration of a git directory with that of the user and the system.
    pub(super) fn read_config(&mut self, git_dir: &Tree<'_>) -> Result<Config, CallError> {
        let mut variables = self.shared_config()?;
        self.read_config_file(git_dir, "config", &mut variables)?;
        let mut config = Config::new(variables);
        if config.per_worktree {
            self.read_config_file(git_dir, "config.worktree", &mut config.variables)?;
        }
        Ok(config)
    }

    pub(super) fn read_config_file(
        &mut self,
        git_dir: &Tree<'_>,
        name: &str,
        variables: &mut Vec<Variable>,
    ) -> Result<(), CallError> {
        match git_dir.read(name, CONFIG_BYTES_MAX)? {
            Content::Missing => {}
            Content::Bytes(bytes) => {
                let parsed = self.parsed(&bytes);
                self.include(&parsed, git_dir.path(), variables)?;
                variables.extend(parsed);
            }
            other => self.not_read(&git_dir.path().join(name), other)?,
        }
        Ok(())
    }

    /// Names the gap of a configuration file that is there and was not read. One that another process keeps from being opened,
    /// by a lease, is an error: git will read it a moment later.
    fn not_read(&mut self, path: &Path, content: Content) -> Result<(), CallError> {
        match content {
            Content::Refused(error) if error.errno == Errno::AGAIN => Err(error),
            _ => {
                let path = path.display();
                let gap = format!("`{path}` cannot be read: what it names is not protected");
                self.facts.gaps.push(gap);
                Ok(())
            }
        }
    }

    /// The variables of a file in the workspace's reach.
    fn parsed(&mut self, bytes: &[u8]) -> Vec<Variable> {
        let parsed = gitconfig::parse(bytes);
        if parsed.len() == gitconfig::VARIABLES_MAX {
            self.too_many.insert("git's configuration has more variables than are looked at");
        }
        parsed
    }

    /// The configuration of the user and the system, read once.
    pub(super) fn shared_config(&mut self) -> Result<Vec<Variable>, CallError> {
        if let Some(shared) = &self.shared_config {
            return Ok(shared.clone());
        }
        let mut shared = Vec::new();
        for file in self.around.config_files {
            let bytes = match Content::of(read_trusted(file, CONFIG_BYTES_MAX)) {
                Content::Bytes(bytes) => bytes,
                Content::Missing => continue,
                other => {
                    self.not_read(file, other)?;
                    continue;
                }
            };
            let parsed = gitconfig::parse(&bytes);
            self.include(&parsed, file.parent().unwrap_or(Path::new("/")), &mut shared)?;
            shared.extend(parsed);
        }
        self.shared_config = Some(shared.clone());
        Ok(shared)
    }

    /// Adds the variables of files in the workspace that are included from a file in `dir`.
    pub(super) fn include(
        &mut self,
        variables: &[Variable],
        dir: &Path,
        all: &mut Vec<Variable>,
    ) -> Result<(), CallError> {
        for variable in variables.iter().filter(|v| v.role() == Some(Role::Include)) {
            self.n_includes += 1;
            if self.n_includes > INCLUDES_MAX {
                self.too_many.insert("git's configuration includes more files than are looked at");
                return Ok(());
            }
            let path = lexical(&dir.join(self.expanded(&variable.value)));
            let Ok(below) = path.strip_prefix(self.root.path()).map(Path::to_owned) else {
                continue;
            };
            self.named(&below, Existence::HoldFile)?;
            match self.root.read(&below, CONFIG_BYTES_MAX)? {
                Content::Missing => {}
                Content::Bytes(bytes) => {
                    let parsed = self.parsed(&bytes);
                    let dir = path.parent().unwrap_or(Path::new("/")).to_owned();
                    self.include(&parsed, &dir, all)?;
                    all.extend(parsed);
                }
                other => self.not_read(&path, other)?,
            }
        }
        Ok(())
    }

    /// A value in which `~` stands for the home.
    pub(super) fn expanded(&self, value: &str) -> PathBuf {
        match (value.strip_prefix("~/"), self.around.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(value),
        }
    }

    /// Protects the paths in a checkout of the workspace that variables name.
    pub(super) fn names(
        &mut self,
        variables: &[Variable],
        checkout: &Path,
    ) -> Result<(), CallError> {
        let top = self.root.path().join(checkout);
        self.names_above(variables, &top)
    }

    /// The same for a checkout that holds the workspace: only paths that lie in the workspace matter.
    pub(super) fn names_above(
        &mut self,
        variables: &[Variable],
        top: &Path,
    ) -> Result<(), CallError> {
        for variable in variables {
            let Some(role) = variable.role() else { continue };
            match role {
                Role::Hooks => {
                    let path = lexical(&top.join(self.expanded(&variable.value)));
                    // Husky's hooks, in `_`, run the scripts beside that directory.
                    let path = match path.file_name() {
                        Some(name) if name == "_" => path.parent().unwrap_or(&path).to_owned(),
                        _ => path,
                    };
                    self.named_absolute(&path, Existence::Hold)?;
                }
                Role::Template => {
                    let path = lexical(&top.join(self.expanded(&variable.value)));
                    self.named_absolute(&path, Existence::Hold)?;
                }
                Role::Command => self.command(variable, top)?,
                Role::Include
                | Role::ObjectFormat
                | Role::Worktree
                | Role::WorktreeConfig
                | Role::Transport => {}
            }
        }
        Ok(())
    }

    pub(super) fn command(&mut self, variable: &Variable, top: &Path) -> Result<(), CallError> {
        let value = &variable.value;
        let only_with_mark = matches!(&*variable.section, "alias" | "submodule");
        if gitconfig::is_switch(value) || (only_with_mark && !value.starts_with('!')) {
            return Ok(());
        }
        for word in gitconfig::words(value) {
            let expanded = self.expanded(&word.text);
            let mut path = lexical(&top.join(&expanded));
            if expanded.is_absolute() && !path.starts_with(top) {
                // Behind `$(git rev-parse --show-toplevel)` a path of the checkout begins with a slash.
                path = lexical(&top.join(expanded.strip_prefix("/").unwrap_or(&expanded)));
            }
            let existence = match () {
                () if word.surely => Existence::Hold,
                () if word.text.contains('/') => Existence::Any,
                // An interpreter's argument, such as `f.sh`.
                () if word.text.contains('.') => Existence::File,
                // A program in PATH, or an argument that is not a path.
                () => continue,
            };
            self.named_absolute(&path, existence)?;
        }
        Ok(())
    }

    pub(super) fn named_absolute(
        &mut self,
        path: &Path,
        existence: Existence,
    ) -> Result<(), CallError> {
        match path.strip_prefix(self.root.path()).map(Path::to_owned) {
            Ok(below) if !below.as_os_str().is_empty() => self.named(&below, existence),
            _ => Ok(()),
        }
    }

    /// Protects a path of the workspace that configuration names.
    pub(super) fn named(&mut self, path: &Path, existence: Existence) -> Result<(), CallError> {
        if self.protected.contains(path) || must_stay_writable(path) {
            return Ok(());
        }
        let mut at = PathBuf::new();
        for part in path.components() {
            at.push(part);
            let held = self.held.contains(&at);
            // A socket is a placeholder, perhaps of another data directory.
            let is_own = |seen: &Seen| !held && seen.kind != FileKind::Socket;
            match self.root.look(&at)?.filter(is_own) {
                Some(seen) if seen.kind == FileKind::Symlink => {
                    // The link, and by `follow_links` its target.
                    self.protect_named(present(at, seen.kind));
                    return Ok(());
                }
                Some(seen) if at == path => {
                    let wanted = existence != Existence::File || seen.kind == FileKind::File;
                    if wanted {
                        self.protect_named(present(at, seen.kind));
                    }
                    return Ok(());
                }
                Some(_) => {}
                None => {
                    let shape = match existence {
                        Existence::HoldFile if at == path => PlaceholderShape::EmptyFile,
                        Existence::Hold | Existence::HoldFile => PlaceholderShape::Inert,
                        Existence::Any | Existence::File => return Ok(()),
                    };
                    let state = ProtectedState::Absent(shape);
                    self.protect_named(Protected { path: at, state });
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn protect_named(&mut self, protected: Protected) {
        if self.n_named == NAMED_MAX {
            self.too_many.insert("git's configuration names more paths in it than are protected");
        } else {
            self.n_named += 1;
            self.protect(protected);
        }
    }
}

/// Handling of a named path that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existence {
    /// Its place is held.
    Hold,
    /// The same, by an empty file: git reads it.
    HoldFile,
    /// Nothing: it may be no path at all.
    Any,
    /// Nothing; and an existing path counts only if it is a file.
    File,
}

/// Configuration of a repository.
pub(super) struct Config {
    pub(super) variables: Vec<Variable>,
    /// Bytes of an object name.
    pub(super) hash_bytes: usize,
    /// True if `config.worktree` is obeyed too.
    pub(super) per_worktree: bool,
}

impl Config {
    pub(super) fn new(variables: Vec<Variable>) -> Self {
        let hash_bytes = gitconfig::hash_bytes_by(variables.iter());
        // Any value that is on counts: the last one may be off, but an earlier one may be in a file that is read at
        // another time.
        let mut switches = variables.iter().filter(|v| v.role() == Some(Role::WorktreeConfig));
        let per_worktree = switches.any(|v| !gitconfig::is_no(&v.value));
        Self { variables, hash_bytes, per_worktree }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

/// Returns true if git itself must write there: a command that mentions such a path does not execute it.
fn must_stay_writable(path: &Path) -> bool {
    let mut parts = path.components().map(Component::as_os_str).skip_while(|part| *part != ".git");
    let in_git = parts.next().is_some();
    let name = parts.next().and_then(OsStr::to_str);
    in_git && name.is_none_or(|name| catalogue::GIT_WRITTEN.contains(&name))
}
