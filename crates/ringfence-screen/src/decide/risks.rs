//! Risky commands, as data, the worst first. The worst that matches a command rates it.

use ringfence_spec::Risk;

use super::places::{DISKS, EVERYTHING};

/// A pattern of risky commands.
pub(crate) struct Look {
    pub(crate) risk: Risk,
    pub(crate) why: &'static str,
    /// Names of programs.
    pub(crate) programs: &'static [&'static str],
    /// Options it has to have, in their spellings.
    pub(crate) options: &'static [&'static str],
    /// Patterns of which one argument has to match one. Empty: none needed.
    pub(crate) arguments: &'static [&'static str],
}

const fn high(
    why: &'static str,
    programs: &'static [&'static str],
    options: &'static [&'static str],
    arguments: &'static [&'static str],
) -> Look {
    Look { risk: Risk::High, why, programs, options, arguments }
}

const fn medium(
    why: &'static str,
    programs: &'static [&'static str],
    options: &'static [&'static str],
    arguments: &'static [&'static str],
) -> Look {
    Look { risk: Risk::Medium, why, programs, options, arguments }
}

const RECURSIVE: &str = "-r|-R|--recursive";

/// Programs that bring something from elsewhere.
pub(crate) const FETCHERS: &[&str] =
    &["curl", "wget", "fetch", "aria2c", "nc", "ncat", "ftp", "lynx", "http", "https", "xh"];

/// Programs that undo an encoding.
pub(crate) const DECODERS: &[&str] = &[
    "base64", "base32", "xxd", "openssl", "rev", "tr", "gunzip", "zcat", "gzip", "uudecode", "od",
];

/// Variables that change the code that programs load.
pub(crate) const LOADERS: &[&str] = &[
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "NODE_OPTIONS",
    "PERL5OPT",
    "RUBYOPT",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_EXTERNAL_DIFF",
    "PATH",
    "DYLD_INSERT_LIBRARIES",
];

/// Every pattern, the worst first.
pub(crate) static LOOKS: &[Look] = &[
    high(
        "takes another user's rights",
        &["sudo", "doas", "su", "pkexec", "runuser", "setpriv", "capsh"],
        &[],
        &[],
    ),
    high("deletes everything below a place that holds all", &["rm"], &[RECURSIVE], EVERYTHING),
    high(
        "deletes everything below a place that holds all",
        &["find"],
        &["-delete"],
        &["/", "~", "/home", "/etc", "/usr", "/var"],
    ),
    high(
        "changes rights of everything below",
        &["chmod", "chown", "chgrp"],
        &[RECURSIVE],
        EVERYTHING,
    ),
    high("overwrites a disk", &["dd", "cp", "tee", "cat", "shred", "mv"], &[], DISKS),
    high(
        "makes or breaks a file system",
        &[
            "mkfs",
            "mke2fs",
            "mkswap",
            "fdisk",
            "sfdisk",
            "parted",
            "wipefs",
            "blkdiscard",
            "sgdisk",
            "hdparm",
            "cryptsetup",
            "lvremove",
            "vgremove",
        ],
        &[],
        &[],
    ),
    high(
        "makes or breaks a file system",
        &["mkfs.ext4", "mkfs.ext3", "mkfs.xfs", "mkfs.btrfs", "mkfs.vfat"],
        &[],
        &[],
    ),
    high(
        "changes the system",
        &[
            "mount",
            "umount",
            "insmod",
            "modprobe",
            "rmmod",
            "kexec",
            "sysctl",
            "iptables",
            "nft",
            "ufw",
            "setenforce",
            "chroot",
            "unshare",
            "nsenter",
            "bpftool",
            "swapoff",
        ],
        &[],
        &[],
    ),
    high(
        "changes users",
        &[
            "useradd", "userdel", "usermod", "adduser", "deluser", "passwd", "chpasswd", "visudo",
            "groupadd", "gpasswd",
        ],
        &[],
        &[],
    ),
    high(
        "stops the machine",
        &["shutdown", "reboot", "halt", "poweroff", "init", "telinit"],
        &[],
        &[],
    ),
    high("opens a way in", &["nc", "ncat", "netcat", "socat"], &["-e|-c|--exec|--sh-exec"], &[]),
    high("opens a way in", &["socat"], &[], &["EXEC:*", "exec:*", "SYSTEM:*", "system:*"]),
    high("ends every process", &["kill"], &[], &["-1"]),
    high("destroys contents for good", &["shred", "srm", "wipe"], &[], &[]),
    high(
        "sets the set-user-ID bit",
        &["chmod"],
        &[],
        &["[ugoa]*+*s*", "[+]s", "4[0-7][0-7][0-7]", "6[0-7][0-7][0-7]", "2[0-7][0-7][0-7]"],
    ),
    high(
        "looks into another process",
        &["gdb", "gcore", "strace", "ltrace"],
        &["-p|--pid|--attach"],
        &[],
    ),
    high("gives out the cluster or the cloud", &["terraform", "tofu", "pulumi"], &[], &["destroy"]),
    medium("deletes recursively or without asking", &["rm"], &[RECURSIVE], &[]),
    medium("deletes recursively or without asking", &["rm"], &["-f|--force"], &[]),
    medium("deletes what it finds", &["find"], &["-delete"], &[]),
    medium("deletes directories", &["rmdir", "unlink", "truncate"], &[], &[]),
    medium(
        "installs packages",
        &[
            "pip", "pip3", "pipx", "uv", "poetry", "conda", "mamba", "gem", "cpan", "cpanm",
            "luarocks",
        ],
        &[],
        &["install", "add", "sync"],
    ),
    medium(
        "installs packages",
        &["npm", "pnpm", "yarn", "bun"],
        &[],
        &["install", "i", "add", "ci", "update", "exec", "dlx", "create", "publish"],
    ),
    medium("runs a package that it fetches", &["npx", "uvx", "bunx", "pnpx"], &[], &[]),
    medium(
        "installs packages",
        &[
            "apt", "apt-get", "aptitude", "dnf", "yum", "zypper", "brew", "port", "snap",
            "flatpak", "choco", "winget",
        ],
        &[],
        &[
            "install",
            "remove",
            "purge",
            "upgrade",
            "update",
            "dist-upgrade",
            "reinstall",
            "uninstall",
        ],
    ),
    medium("installs packages", &["apk"], &[], &["add", "del", "upgrade"]),
    medium(
        "installs packages",
        &["pacman", "dpkg", "rpm", "make", "ninja", "cmake"],
        &[],
        &["-S*", "-R*", "-i", "-U", "install", "--install"],
    ),
    medium("installs packages", &["cargo", "go"], &[], &["install", "get", "publish", "add"]),
    medium("installs packages", &["python", "python3"], &["-m"], &["pip", "ensurepip", "venv"]),
    medium(
        "reaches the network",
        &[
            "curl", "wget", "fetch", "aria2c", "ssh", "scp", "sftp", "rsync", "ftp", "telnet",
            "nc", "ncat", "netcat", "socat", "nmap", "ping", "dig", "nslookup", "lynx",
        ],
        &[],
        &[],
    ),
    medium(
        "reaches a repository elsewhere",
        &["git"],
        &[],
        &["push", "pull", "fetch", "clone", "submodule"],
    ),
    medium("throws work away", &["git"], &["--hard"], &["reset"]),
    medium("throws work away", &["git"], &["-f|-d|-x|--force"], &["clean"]),
    medium(
        "throws work away",
        &["git"],
        &[],
        &["filter-branch", "filter-repo", "gc", "prune", "restore"],
    ),
    medium("changes what git runs", &["git"], &[], &["config"]),
    medium(
        "uses containers or clusters",
        &["docker", "podman", "nerdctl", "kubectl", "helm", "ctr", "lxc", "virsh", "vagrant"],
        &[],
        &[],
    ),
    medium(
        "uses the cloud",
        &["aws", "gcloud", "az", "doctl", "flyctl", "heroku", "terraform", "tofu", "gh", "glab"],
        &[],
        &[],
    ),
    medium("ends processes", &["kill", "killall", "pkill", "xkill"], &[], &[]),
    medium(
        "changes rights",
        &["chmod", "chown", "chgrp", "setfacl", "chattr", "setcap", "umask"],
        &[],
        &[],
    ),
    medium(
        "runs later or for long",
        &[
            "crontab",
            "at",
            "batch",
            "systemctl",
            "service",
            "systemd-run",
            "nohup",
            "setsid",
            "disown",
            "screen",
            "tmux",
            "daemonize",
        ],
        &[],
        &[],
    ),
    medium(
        "changes a database",
        &["dropdb", "dropuser", "redis-cli", "mongosh", "mysql", "psql"],
        &[],
        &[
            "*DROP *",
            "*drop *",
            "*TRUNCATE *",
            "*truncate *",
            "*DELETE FROM*",
            "*delete from*",
            "FLUSHALL",
            "flushall",
            "FLUSHDB",
        ],
    ),
    medium("changes a database", &["dropdb", "dropuser"], &[], &[]),
    medium("hides what was done", &["history"], &["-c|-d|-w"], &[]),
    medium("replaces what programs mean", &["alias", "enable", "hash", "trap"], &[], &[]),
    medium("edits in place", &["sed", "perl"], &["-i|--in-place"], &[]),
];
