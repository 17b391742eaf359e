//! Names with a meaning: shown parts of the system, visible parts of a home, secrets, protected names. Data only.
//! `ringfence-jail` looks these names up on the host; the plan decides their treatment.

use crate::facts::SystemTextKind;

/// Top-level directories of the system that command runs see read-only.
pub const SYSTEM: &[&str] = &[
    "/bin", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/usr",
];

/// Parts of `/var` that tools read. The rest (logs, mail, spools, databases) stays out.
pub const SYSTEM_VAR: &[&str] = &[
    "/var/cache/fontconfig",
    "/var/lib/ca-certificates",
    "/var/lib/dpkg",
    "/var/lib/ghc",
    "/var/lib/rpm",
    "/var/lib/texmf",
];

/// Names in `/etc` that a dynamic loader, a C library and TLS need: the `minimal` preset keeps these.
pub const MINIMAL_ETC: &[&str] = &[
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/pki/tls",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

/// System files that hold secrets. Permissions guard most of them; the mask guards them from group members too.
pub const SYSTEM_SECRETS: &[&str] = &[
    "/etc/docker",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/machine-id",
    "/etc/NetworkManager/system-connections",
    "/etc/openvpn",
    "/etc/pki/tls/private",
    "/etc/rancher",
    "/etc/ringfence",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
];

/// A directory of `/etc` whose entries with this prefix and suffix are secrets: `ssh_host_ed25519_key`.
pub const SSH_HOST_KEYS: (&str, &str, &str) = ("/etc/ssh", "ssh_host_", "_key");

/// System files that name the host and its users: covered by harmless ones.
pub const SYSTEM_TEXTS: &[(&str, SystemTextKind)] = &[
    ("/etc/group", SystemTextKind::Group),
    ("/etc/hostname", SystemTextKind::Hostname),
    ("/etc/hosts", SystemTextKind::Hosts),
    ("/etc/nsswitch.conf", SystemTextKind::NameServices),
    ("/etc/passwd", SystemTextKind::Passwd),
    ("/etc/resolv.conf", SystemTextKind::Resolver),
];

/// Files of `/sys` that runtimes read to count processors.
pub const SYSFS: &[&str] = &["/sys/devices/system/cpu", "/sys/devices/system/node"];

/// Files of `/proc` that reveal or change the host. Files that only host uid 0 may open are left out (`kmsg`,
/// `slabinfo`, `kpagecount`…): no run has that uid. The last three are listed all the same, because other sandboxes
/// were broken by them.
pub const PROC_MASKS: &[&str] = &[
    "/proc/acpi",
    "/proc/cmdline",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/key-users",
    "/proc/keys",
    "/proc/modules",
    "/proc/scsi",
    "/proc/kcore",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
];

/// Device nodes a run has.
pub const DEVICES: &[&str] = &["full", "null", "random", "tty", "urandom", "zero"];

/// Toolchains and harmless dotfiles below a home that stay visible, read-only.
pub const HOME_VISIBLE: &[&str] = &[
    ".asdf",
    ".bun",
    ".cargo",
    ".conda",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
    ".deno",
    ".dotnet",
    ".editorconfig",
    ".elan",
    ".fnm",
    ".gem",
    ".ghcup",
    ".gitattributes",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".gradle",
    ".inputrc",
    ".juliaup",
    ".jenv",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/uv",
    ".m2",
    ".nix-profile",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rye",
    ".sdkman",
    ".stack",
    ".swiftly",
    ".terminfo",
    ".vimrc",
    ".volta",
    ".yarn",
    "anaconda3",
    "go",
    "mambaforge",
    "miniconda3",
    "miniforge3",
];

/// Below a home: never visible, whatever is granted.
pub const HOME_SECRETS: &[&str] = &[
    ".aws",
    ".azure",
    ".bash_history",
    ".bash_sessions",
    ".boto",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".composer/auth.json",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/fish/fish_variables",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/helm",
    ".config/heroku",
    ".config/hub",
    ".config/microsoft-edge",
    ".config/op",
    ".config/pip/pip.conf",
    ".config/rclone",
    ".config/ringfence",
    ".config/sops",
    ".docker",
    ".gem/credentials",
    ".git-credentials",
    ".gnupg",
    ".gradle/gradle.properties",
    ".kube",
    ".lesshst",
    ".local/share/fish/fish_history",
    ".local/share/keyrings",
    ".local/share/ringfence",
    ".local/state/ringfence",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".minikube",
    ".mozilla",
    ".my.cnf",
    ".mysql_history",
    ".netrc",
    ".node_repl_history",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".pip/pip.conf",
    ".pki",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".rediscli_history",
    ".s3cfg",
    ".sqlite_history",
    ".ssh",
    ".subversion/auth",
    ".terraform.d",
    ".thunderbird",
    ".vault-token",
    ".viminfo",
    ".yarnrc.yml",
    ".zsh_history",
    "snap/chromium",
    "snap/firefox",
];

/// At the top of a writable directory: files agents and editors execute or obey. Read-only, also when absent.
pub const PROTECTED: &[&str] = &[".claude", ".cursor", ".envrc", ".mcp.json", ".vscode"];

/// At the top of a writable directory: read-only when present. Deleting our own file would loosen the next run;
/// changing `.gitmodules` has the host's next `git submodule update` fetch from elsewhere.
pub const PROTECTED_WHEN_PRESENT: &[&str] =
    &[".codex", ".gemini", ".gitmodules", ".zed", "ringfence.toml"];

/// At the top of a writable directory: settings of programs that ask before they obey a project's. Reported if a run
/// creates them.
pub const REPORTED_WHEN_MADE: &[&str] = &[".codex", ".gemini", ".zed"];

/// Below a git directory: files that git writes in normal use.
pub const GIT_WRITTEN: &[&str] =
    &["HEAD", "index", "info", "logs", "objects", "packed-refs", "refs", "rr-cache"];

/// `.env.*` names that are templates by convention and usually under version control.
pub const DOTENV_TEMPLATES: &[&str] =
    &[".env.dist", ".env.example", ".env.sample", ".env.template"];

/// Caller's variables that pass: terminal, locale, time zone, and where toolchains live.
pub const ENV_PASSED: &[&str] = &[
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "CARGO_HOME",
    "COLORTERM",
    "COLUMNS",
    "CONDA_PREFIX",
    "DENO_DIR",
    "DOTNET_ROOT",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LINES",
    "NO_COLOR",
    "NVM_BIN",
    "NVM_DIR",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SDKMAN_DIR",
    "TERM",
    "TZ",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];

/// The same, by prefix.
pub const ENV_PASSED_PREFIX: &[&str] = &["LC_"];

/// Variables among [`ENV_PASSED`] that name a directory a toolchain needs to see.
pub const ENV_DIRECTORIES: &[&str] = &[
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "CARGO_HOME",
    "CONDA_PREFIX",
    "DOTNET_ROOT",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SDKMAN_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];

/// Secrets in a toolchain's directory, wherever that is.
pub const TOOL_SECRETS: &[&str] = &["credentials", "credentials.toml"];

/// Directories that a run has its own version of: nothing of the host's is shown there.
pub const RUN_OWN_DIRECTORIES: &[&str] = &["/proc", "/sys", "/dev", "/run"];

/// Variables that make a program load or run something: only a value given in the policy sets them, never the caller's.
pub const ENV_NEVER_INHERITED: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "GIT_DIR",
    "GIT_EXEC_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "NODE_OPTIONS",
    "PERL5LIB",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "RUBYOPT",
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];

/// The same, by prefix.
pub const ENV_NEVER_INHERITED_PREFIX: &[&str] =
    &["LD_", "DYLD_", "GIT_CONFIG", "PYTHON", "RINGFENCE_"];

/// Sockets whose server does more for its client than a run may do: part of the path, and what the server does.
const POWERFUL_SOCKETS: &[(&str, &str)] = &[
    ("docker.sock", "starts containers as root with any directory of this host"),
    ("podman.sock", "starts containers with any directory of this user"),
    ("containerd.sock", "starts containers as root with any directory of this host"),
    ("containerd/containerd", "starts containers as root with any directory of this host"),
    ("buildkitd.sock", "starts containers as root"),
    ("crio.sock", "starts containers as root with any directory of this host"),
    ("lxd/unix.socket", "starts containers as root with any directory of this host"),
    ("incus/unix.socket", "starts containers as root with any directory of this host"),
    ("libvirt", "starts virtual machines with any disk of this host"),
    ("/run/systemd/", "starts services outside of the fence"),
    ("system_bus_socket", "starts services outside of the fence"),
    ("/bus$", "starts services outside of the fence"),
    ("dbus-", "starts services outside of the fence"),
    ("snapd", "installs and starts programs outside of the fence"),
    ("nix/daemon-socket", "builds and installs programs outside of the fence"),
    (".X11-unix/", "reads the keyboard and types into other windows"),
    ("wayland-", "opens windows and reads the clipboard"),
    ("S.gpg-agent", "signs and decrypts with every key of this user"),
    ("gnupg/", "signs and decrypts with every key of this user"),
    ("/agent.", "signs with every SSH key that the agent has"),
    ("ssh-agent", "signs with every SSH key that the agent has"),
    ("/keyring/", "reads this user's passwords and signs with SSH keys"),
    ("1password", "reads this user's passwords and signs with SSH keys"),
    ("tmux-", "types into this user's terminals"),
    ("/screen/", "types into this user's terminals"),
    ("vscode-", "starts commands in this user's editor"),
    ("/emacs", "runs code in this user's editor"),
];

/// Returns the power of the server behind a unix socket that a run must not have; `None` for other sockets.
pub fn power_of_socket(path: &str) -> Option<&'static str> {
    // `$` stands for the end of the path.
    let path = format!("{}$", path.to_ascii_lowercase());
    let mut known = POWERFUL_SOCKETS.iter();
    known.find(|(part, _)| path.contains(&part.to_ascii_lowercase())).map(|(_, power)| *power)
}

/// Tells package managers not to try a connection again in a run without network.
pub(crate) const NO_RETRIES: &[(&str, &str)] = &[
    ("CARGO_NET_RETRY", "0"),
    ("PIP_RETRIES", "0"),
    ("UV_HTTP_RETRIES", "0"),
    ("npm_config_fetch_retries", "0"),
];

/// Tells package managers to give up a refused host within seconds in a run with rules. By default that takes 8 s (pip, uv),
/// 11 s (cargo) and 70 s (npm). A host that fails for a moment is still asked again.
pub(crate) const FEW_RETRIES: &[(&str, &str)] = &[
    ("CARGO_NET_RETRY", "1"),
    ("PIP_RETRIES", "2"),
    ("UV_HTTP_RETRIES", "1"),
    ("npm_config_fetch_retry_maxtimeout", "2000"),
    ("npm_config_fetch_retry_mintimeout", "1000"),
];

/// Variables that name a proxy: tools read one spelling or the other.
pub(crate) const PROXY_VARIABLES: [&str; 6] =
    ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy"];

/// Where a run finds the certificates to trust, if the network helper ends its TLS.
pub(crate) const CERTIFICATES: &str = "/run/ringfence/certificates.pem";

/// Socket of a run's own SSH agent.
pub const SSH_AGENT: &str = "/run/ringfence/ssh-agent";

/// Keys of the hosts at which a run's SSH agent signs logins.
pub(crate) const SSH_KNOWN_HOSTS: &str = "/run/ringfence/ssh_known_hosts";

/// The system's own list of them.
pub(crate) const SYSTEM_KNOWN_HOSTS: &str = "/etc/ssh/ssh_known_hosts";

/// Variables by which tools are told where trusted certificates are. Most replace the system's; the file has both.
pub(crate) const CERTIFICATE_VARIABLES: [&str; 11] = [
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "npm_config_cafile",
];

/// Has git compare a file's size and time with its index, and not its owner.
pub const GIT_IGNORES_OWNERS: [(&str, &str); 3] = [
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "core.checkStat"),
    ("GIT_CONFIG_VALUE_0", "minimal"),
];
