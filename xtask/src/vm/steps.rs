//! Steps of each machine: user, command, expected result. A step is a row.

use serde_json::Value;

use crate::vm::machine::Answer;
use Expect::{Code, Json, JsonHas, LandlockAbi, StderrHas, Stdout, StdoutHas, StdoutLacks};
use Who::{Delegated, Root, User};

/// One boot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Added to the kernel's command line.
    pub(crate) kernel_line: &'static str,
    /// User namespaces of ordinary users.
    pub(crate) user_namespaces: UserNamespaces,
    pub(crate) duration: Duration,
    /// Contents of the image besides the system.
    pub(crate) needs: Needs,
    pub(crate) steps: &'static [Step],
}

/// User namespaces of ordinary users on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserNamespaces {
    Usable,
    UsedUp,
}

/// Duration of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duration {
    /// About a minute.
    Short,
    /// Up to hours: run only when named.
    Long,
}

/// Files of the image that not every scenario needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// The harness of `escapes/` and its programs.
    Attacks,
    /// Bubblewrap, to compare with.
    Bubblewrap,
    /// This program, which soaks.
    Xtask,
}

/// One shell script and what it must answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) who: Who,
    pub(crate) script: &'static str,
    pub(crate) expect: &'static [Expect],
}

/// User of a step; each has a home and a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Uid 0 in the root cgroup.
    Root,
    /// Uid 1000 in the root cgroup, which is not theirs.
    User,
    /// Uid 1000 in a cgroup handed to them.
    Delegated,
}

impl Who {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Root => "root",
            User => "user",
            Delegated => "delegated",
        }
    }
}

/// One thing that must be so.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expect {
    /// The exit code.
    Code(i32),
    /// All of stdout.
    Stdout(&'static str),
    /// Part of stdout.
    StdoutHas(&'static str),
    /// Not in stdout.
    StdoutLacks(&'static str),
    /// Part of stderr.
    StderrHas(&'static str),
    /// The string at a JSON pointer into stdout.
    Json(&'static str, &'static str),
    /// Part of what is at a JSON pointer into stdout, as JSON text.
    JsonHas(&'static str, &'static str),
    /// Doctor found the ABI that this kernel came with.
    LandlockAbi,
}

impl Expect {
    /// Says why it is not so.
    pub(crate) fn unmet(self, answer: &Answer, landlock_abi: u32) -> Option<String> {
        let json: Value = serde_json::from_str(&answer.stdout).unwrap_or_default();
        let at = |pointer: &str| json.pointer(pointer).cloned().unwrap_or_default();
        let met = match self {
            Code(code) => answer.code == code,
            Stdout(text) => answer.stdout == text,
            StdoutHas(text) => answer.stdout.contains(text),
            StdoutLacks(text) => !answer.stdout.contains(text),
            StderrHas(text) => answer.stderr.contains(text),
            Json(pointer, text) => at(pointer) == text,
            JsonHas(pointer, text) => at(pointer).to_string().contains(text),
            LandlockAbi => at("/checks").to_string().contains(&format!("\"ABI {landlock_abi}\"")),
        };
        (!met).then(|| match self {
            LandlockAbi => format!("expected ABI {landlock_abi}"),
            Json(pointer, _) | JsonHas(pointer, _) => {
                format!("expected {self:?}, found {}", at(pointer))
            }
            _ => format!("expected {self:?}"),
        })
    }
}

/// A row.
const fn step(
    name: &'static str,
    who: Who,
    script: &'static str,
    expect: &'static [Expect],
) -> Step {
    Step { name, who, script, expect }
}

/// Tries what no run may do and names the errno of each refusal; `MADE` is what must never be printed.
macro_rules! python_run {
    ($flags:literal, $program:literal) => {
        concat!(
            "ringfence run --json ",
            $flags,
            " -- python3 -c '
import os, socket, errno
def attempt(name, act):
    try:
        act()
        print(name, \"MADE\")
    except OSError as e:
        print(name, errno.errorcode[e.errno])
",
            $program,
            "'"
        )
    };
}

const DEATH: &str = "ringfence run --json --timeout 1s -- sh -c 'trap \"\" TERM; (setsid sleep 98765 &); kill -STOP $$; sleep 98765'";
const SURVIVORS: &str = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 987[6]5'";
const SECRETS: &str = "echo twin > twin; cat ~/.ssh/id_ed25519 .env; ringfence run --json -- sh -c 'cat twin; cat ~/.ssh/id_ed25519 /root/.ssh/id_ed25519 /home/user/.ssh/id_ed25519 .env /etc/shadow; echo end'";
const LEFT: &str = "ls -A | grep -v -e '^twin$' -e '^here$' -e '^lost+found$'; find /sys/fs/cgroup /tmp -name 'ringfence-*'";
const CPU: &str = "ringfence run --json --cpu 1s --timeout 60s -- sh -c 'while :; do :; done'";
const MEMORY: &str = "ringfence run --json --memory 64M -- python3 -c 'x = b\"x\" * (256 << 20)'";
const PIDS: &str = "ringfence run --json --pids 16 --timeout 60s -- python3 -c '
import os, time
made = 0
try:
    for _ in range(40):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError as e:
    print(e.errno)
print(\"made\", made)
os._exit(0)'";
const OUTSIDE: &str = python_run!(
    "",
    "
attempt(\"etc\", lambda: open(\"/etc/owned\", \"w\"))
attempt(\"usr\", lambda: open(\"/usr/owned\", \"w\"))
attempt(\"chmod\", lambda: os.chmod(\"/usr/bin/env\", 0o777))
attempt(\"here\", lambda: open(\"here\", \"w\").write(\"x\"))
"
);
const SOCKETS: &str = python_run!(
    "",
    "
attempt(\"unix\", lambda: socket.socket(socket.AF_UNIX).connect(\"/tmp/listener.sock\"))
attempt(\"tcp\", lambda: socket.create_connection((\"127.0.0.1\", 7777), 5))
attempt(\"raw\", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt(\"pair\", lambda: socket.socketpair())
"
);
const SOCKETS_OUTSIDE: &str = "python3 -c '
import socket
s = socket.socket(socket.AF_UNIX); s.connect(\"/tmp/listener.sock\"); print(s.recv(9).decode())
s = socket.create_connection((\"127.0.0.1\", 7777), 5); print(s.recv(9).decode())'";
const PROTECTED: &str = python_run!(
    "",
    "
attempt(\"mcp\", lambda: open(\".mcp.json\", \"w\"))
attempt(\"claude\", lambda: open(\".claude/settings.json\", \"w\"))
attempt(\"envrc\", lambda: open(\".envrc\", \"w\"))
attempt(\"move\", lambda: os.rename(\".claude\", \"x\"))
attempt(\"here\", lambda: open(\"here\", \"w\"))
"
);
const MOUNTS: &str = python_run!("", "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), \"\")
attempt(\"mount\", lambda: call(libc.mount(b\"tmpfs\", b\"/tmp\", b\"tmpfs\", 0, None)))
attempt(\"userns\", lambda: call(libc.unshare(0x10000000)))
attempt(\"ptrace\", lambda: call(libc.syscall(101, 16, 1, 0, 0)))
print(\"pid\", os.getpid() < 5, \"procs\", len([p for p in os.listdir(\"/proc\") if p.isdigit()]) < 5)
print(\"uid\", os.stat(\".\").st_uid == os.getuid(), \"host\", os.uname().nodename)
");
const TERMINAL: &str = "python3 -c '
import pty, os, sys
status = pty.spawn([\"ringfence\", \"run\", \"--\", \"sh\", \"-c\", \"test -t 0 && stty size >/dev/null && echo a terminal\"])
sys.exit(os.waitstatus_to_exitcode(status))'";

/// Installs a core handler that leaves a mark. The kernel starts it as root.
const CORE_HANDLER_SET: &str = "cat > /run/handler <<'END'
#!/bin/sh
echo \"$*\" >> /run/cores
exec cat > /dev/null
END
chmod 755 /run/handler
: > /run/cores
chmod 666 /run/cores
echo '|/run/handler %u %e' > /proc/sys/kernel/core_pattern";

/// Waits until no handler runs and prints the marks. The kernel executes a handler before the crashed process is gone
/// (`UMH_WAIT_EXEC` in fs/coredump.c), so none can appear later.
macro_rules! handlers_ended {
    () => {
        "
while cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q '/run/handle[r]'; do sleep 0.1; done
cat /run/cores
: > /run/cores
"
    };
}

const CRASH_OUTSIDE: &str = concat!(
    "python3 -c 'import ctypes; ctypes.string_at(0)'; echo $?
ulimit -Sc 0; python3 -c 'import ctypes; ctypes.string_at(0)'; echo $?",
    handlers_ended!()
);

/// Programs that crash: as they are, and after they have set their limit on core dumps to 0.
macro_rules! crashing_programs {
    () => {
        "
crash='import ctypes; ctypes.string_at(0)'
gives_up='import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); '\"$crash\"
"
    };
}

const CRASH_COMMANDS: &str = concat!(
    crashing_programs!(),
    "for program in \"$crash\" \"$gives_up\"; do
    ringfence run -- python3 -c \"$program\"; echo $?
    ringfence run -- sh -c 'ulimit -c 0; exec \"$@\"' sh python3 -c \"$program\"; echo $?
done",
    handlers_ended!()
);

const CRASH_CODE: &str = concat!(
    crashing_programs!(),
    "for program in \"$crash\" \"$gives_up\"; do
    ringfence exec --preset open -c \"$program\"; echo $?
    printf '{\"id\": \"a\", \"code\": \"%s\"}\\n' \"$program\" | ringfence batch --preset open |
        grep -o 'the interpreter crashed with signal 11'
done",
    handlers_ended!()
);

const CRASHED_OUTSIDE: &[Expect] = &[Stdout("139\n139\n1000 python3\n1000 python3\n")];
const CRASHED_COMMANDS: &[Expect] = &[Stdout("139\n139\n139\n139\n")];
const CRASHED_CODE: &[Expect] = &[Stdout(
    "139\nthe interpreter crashed with signal 11\n139\nthe interpreter crashed with signal 11\n",
)];

/// tmpfs translates owners since 6.3; before, the refusal says so.
const IN_MEMORY: &str = "cd /tmp/root-work
ringfence run -- touch here 2> /run/said
code=$?
cat /run/said >&2
case $(uname -r) in
5.* | 6.[0-2].*) [ $code = 125 ] && grep 'hint: .*tmpfs before Linux 6.3' /run/said ;;
*) exit $code ;;
esac";

const NAMESPACES: &str = "namespaces";
const FULL: &[Expect] = &[
    Code(0),
    Json("/status", "ok"),
    Json("/enforcement/tier", NAMESPACES),
    Json("/enforcement/resources", "cgroup2"),
    Json("/enforcement/filesystem", "pivot_root+landlock"),
    JsonHas("/enforcement/gaps", "[]"),
];
const REFUSED_OUTSIDE: &[Expect] =
    &[Code(0), StdoutHas("etc EROFS\\nusr EROFS\\nchmod EROFS\\nhere MADE\\n")];
const REFUSED_SOCKETS: &[Expect] =
    &[Code(0), StdoutHas("unix ENOENT\\ntcp ECONNREFUSED\\nraw EPERM\\npair MADE")];
const REFUSED_NAMES: &[Expect] =
    &[Code(0), StdoutHas("mcp EISDIR\\nclaude EROFS\\nenvrc EISDIR\\nmove EBUSY\\nhere MADE\\n")];
const REFUSED_MOUNTS: &[Expect] = &[
    Code(0),
    StdoutHas(
        "mount EPERM\\nuserns EPERM\\nptrace EPERM\\npid True procs True\\nuid True host ringfence",
    ),
];
const DEAD: &[Expect] =
    &[Code(124), Json("/status", "timeout"), Json("/error/code", "wall_deadline")];
const CPU_SPENT: &[Expect] =
    &[Code(124), Json("/status", "timeout"), Json("/error/code", "cpu_limit")];
const OUT_OF_MEMORY: &[Expect] =
    &[Code(137), Json("/status", "memory"), Json("/error/code", "memory_limit")];
const OUT_OF_PIDS: &[Expect] =
    &[Code(0), JsonHas("/denials", "pids_limit"), StdoutLacks("made 40")];
const HIDDEN: &[Expect] =
    &[Code(0), StdoutHas("canary\nSECRET=canary\n"), StdoutHas("\"stdout\":\"twin\\nend\\n\"")];
const DOCTOR: &str = "ringfence doctor --json";
const TRUE: &str = "ringfence run --json -- true";

/// A server of the host's, by name, and one that was not granted.
const REACH: &str = python_run!(
    "--net allow:localhost:7777",
    "
print(socket.create_connection((\"localhost\", 7777), 20).recv(99))
attempt(\"other\", lambda: socket.create_connection((\"localhost\", 7778), 20))
"
);
const REACHED: &[Expect] = &[
    Code(0),
    StdoutHas("b'canary'\\nother ECONNREFUSED\\n"),
    Json("/connections/0/host", "localhost"),
];

/// Without a network namespace: the proxy alone, and no other socket.
const REACH_BY_PROXY: &str = python_run!(
    "--net allow:localhost:7777",
    "
s = socket.create_connection((\"127.0.0.1\", 3128), 20)
s.sendall(b\"CONNECT localhost:7777 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n\")
got = s.makefile(\"rb\").read()
print(got.split()[1], got[-6:])
attempt(\"other\", lambda: socket.create_connection((\"127.0.0.1\", 7777), 20))
attempt(\"udp\", lambda: socket.socket(type=socket.SOCK_DGRAM))
attempt(\"bind\", lambda: socket.socket().bind((\"127.0.0.1\", 0)))
"
);
const REACHED_BY_PROXY: &[Expect] = &[
    Code(0),
    StdoutHas("b'200' b'canary'\\nother ECONNREFUSED\\nudp EACCES\\nbind EACCES\\n"),
    Json("/connections/1/host", "localhost"),
    Json("/enforcement/network", "allowlist"),
];

/// An ordinary boot of about a minute.
const ORDINARY: Scenario = Scenario {
    name: "default",
    kernel_line: "",
    user_namespaces: UserNamespaces::Usable,
    duration: Duration::Short,
    needs: Needs::Nothing,
    steps: DEFAULT,
};

/// Every scenario.
pub(crate) const SCENARIOS: [Scenario; 8] = [
    ORDINARY,
    Scenario { name: "noipv6", kernel_line: "ipv6.disable=1", steps: NO_IPV6, ..ORDINARY },
    Scenario {
        name: "nouserns",
        user_namespaces: UserNamespaces::UsedUp,
        steps: NO_USER_NAMESPACES,
        ..ORDINARY
    },
    Scenario { name: "nolandlock", kernel_line: "lsm=capability", steps: NO_LANDLOCK, ..ORDINARY },
    Scenario {
        name: "nothing",
        kernel_line: "lsm=capability",
        user_namespaces: UserNamespaces::UsedUp,
        steps: NOTHING,
        ..ORDINARY
    },
    Scenario {
        name: "escapes",
        duration: Duration::Long,
        needs: Needs::Attacks,
        steps: ATTACKS,
        ..ORDINARY
    },
    Scenario {
        name: "cost",
        duration: Duration::Long,
        needs: Needs::Bubblewrap,
        steps: COSTS,
        ..ORDINARY
    },
    Scenario {
        name: "soak",
        duration: Duration::Long,
        needs: Needs::Xtask,
        steps: SOAKS,
        ..ORDINARY
    },
];

/// Counts the cost of a start; its table is printed.
const COSTS: &[Step] = &[
    step("start", Root, "python3 /vm/cost.py /sys/fs/cgroup", COUNTED),
    step("start", User, "python3 /vm/cost.py", COUNTED),
    step("start", Delegated, "python3 /vm/cost.py", COUNTED),
];
const COUNTED: &[Expect] = &[Code(0), StdoutHas("bwrap      cpu")];

/// Debian as it is installed.
const DEFAULT: &[Step] = &[
    step(
        "doctor",
        Root,
        DOCTOR,
        &[
            Code(0),
            Json("/tier", NAMESPACES),
            LandlockAbi,
            StdoutHas("cgroup2: a leaf"),
            StdoutLacks("\"ok\":false"),
        ],
    ),
    step(
        "doctor",
        User,
        DOCTOR,
        &[Code(0), Json("/tier", NAMESPACES), LandlockAbi, StdoutHas("a listener can be had")],
    ),
    step(
        "doctor",
        Delegated,
        DOCTOR,
        &[
            Code(0),
            Json("/tier", NAMESPACES),
            LandlockAbi,
            StdoutHas("cgroup2: a leaf"),
            StdoutLacks("\"ok\":false"),
        ],
    ),
    step("enforcement", Root, TRUE, FULL),
    step(
        "enforcement",
        User,
        TRUE,
        &[Code(0), Json("/enforcement/tier", NAMESPACES), Json("/enforcement/resources", "rlimit")],
    ),
    step("enforcement", Delegated, TRUE, FULL),
    step("memory", Root, MEMORY, OUT_OF_MEMORY),
    step("memory", Delegated, MEMORY, OUT_OF_MEMORY),
    step("pids", Root, PIDS, OUT_OF_PIDS),
    step("pids", Delegated, PIDS, OUT_OF_PIDS),
    step("cpu", Root, CPU, CPU_SPENT),
    step("cpu", User, CPU, CPU_SPENT),
    step("cpu", Delegated, CPU, CPU_SPENT),
    step("death", Root, DEATH, DEAD),
    step("death", User, DEATH, DEAD),
    step("death", Delegated, DEATH, DEAD),
    step("survivors", Root, SURVIVORS, &[Stdout("0\n")]),
    step("secrets", Root, SECRETS, HIDDEN),
    step("secrets", User, SECRETS, HIDDEN),
    step("outside", Root, OUTSIDE, REFUSED_OUTSIDE),
    step("outside", User, OUTSIDE, REFUSED_OUTSIDE),
    step("sockets outside", User, SOCKETS_OUTSIDE, &[Code(0), Stdout("canary\ncanary\n")]),
    step("sockets", Root, SOCKETS, REFUSED_SOCKETS),
    step("sockets", User, SOCKETS, REFUSED_SOCKETS),
    step("reach", Root, REACH, REACHED),
    step("reach", User, REACH, REACHED),
    step("reach", Delegated, REACH, REACHED),
    step("protected names", Root, PROTECTED, REFUSED_NAMES),
    step("protected names", User, PROTECTED, REFUSED_NAMES),
    step("mounts", Root, MOUNTS, REFUSED_MOUNTS),
    step("mounts", User, MOUNTS, REFUSED_MOUNTS),
    step("terminal", Root, TERMINAL, &[Code(0), StdoutHas("a terminal")]),
    step("terminal", User, TERMINAL, &[Code(0), StdoutHas("a terminal")]),
    step(
        "owner on disk",
        Root,
        "ringfence run -- touch here; python3 -c 'import os; print(os.stat(\"here\").st_uid)'",
        &[Code(0), Stdout("0\n")],
    ),
    step("workspace in memory", Root, IN_MEMORY, &[Code(0)]),
    step("core handler set", Root, CORE_HANDLER_SET, &[Code(0)]),
    step("core handler outside", User, CRASH_OUTSIDE, CRASHED_OUTSIDE),
    step("core handler", User, CRASH_COMMANDS, CRASHED_COMMANDS),
    step("core handler", Root, CRASH_COMMANDS, CRASHED_COMMANDS),
    step("core handler", User, CRASH_CODE, CRASHED_CODE),
    step("core handler", Root, CRASH_CODE, CRASHED_CODE),
    step("core handler named", User, DOCTOR, &[StdoutHas("`|/run/handler %u %e` is not started")]),
    step(
        "core handler not kept away",
        User,
        "ulimit -Hc 0; ringfence run --json -- true",
        &[Code(0), JsonHas("/enforcement/gaps", "hard limit on core dumps is 0")],
    ),
    step(
        "core socket set",
        Root,
        "echo '@/run/cores.socket' > /proc/sys/kernel/core_pattern",
        &[Code(0)],
    ),
    step("core socket", User, DOCTOR, &[StdoutHas("`kernel.core_pattern` begins with `@`")]),
    step(
        "core socket",
        User,
        TRUE,
        &[Code(0), JsonHas("/enforcement/gaps", "to a socket of the host")],
    ),
    step("core files set", Root, "echo core > /proc/sys/kernel/core_pattern", &[Code(0)]),
    step(
        "core file",
        User,
        concat!(crashing_programs!(), "ringfence run -- python3 -c \"$gives_up\"; ls core*"),
        &[Stdout("")],
    ),
    step("nothing left", Root, LEFT, &[Stdout(".env\n")]),
    step("nothing left", User, LEFT, &[Stdout(".env\n")]),
    step("nothing left", Delegated, LEFT, &[Stdout(".env\n")]),
];

/// Hosts that forbid user namespaces.
const NO_USER_NAMESPACES: &[Step] = &[
    step(
        "doctor",
        User,
        DOCTOR,
        &[Code(1), Json("/tier", "landlock"), LandlockAbi, StdoutHas("user.max_user_namespaces")],
    ),
    step(
        "enforcement",
        User,
        TRUE,
        &[
            Code(0),
            Json("/enforcement/tier", "landlock"),
            JsonHas("/enforcement/gaps", "no namespaces: "),
            JsonHas("/enforcement/gaps", "can be created"),
        ],
    ),
    step(
        "announced",
        User,
        "ringfence run -- echo hello",
        &[Code(0), Stdout("hello\n"), StderrHas("`landlock` tier")],
    ),
    step(
        "required",
        User,
        "ringfence run --require namespaces -- touch ran; code=$?; ls ran; exit $code",
        &[Code(125), Stdout(""), StderrHas("--require landlock")],
    ),
    step(
        "outside",
        User,
        python_run!(
            "",
            "
attempt(\"etc\", lambda: open(\"/etc/owned\", \"w\"))
attempt(\"ssh\", lambda: open(\"/home/user/.ssh/id_ed25519\"))
attempt(\"here\", lambda: open(\"here\", \"w\").write(\"x\"))
"
        ),
        &[Code(0), StdoutHas("etc EACCES\\nssh EACCES\\nhere MADE\\n")],
    ),
    step(
        "sockets",
        User,
        SOCKETS,
        &[Code(0), StdoutHas("unix EACCES\\ntcp EACCES\\nraw EACCES\\npair MADE")],
    ),
    step("reach", User, REACH_BY_PROXY, REACHED_BY_PROXY),
    step("reach", Delegated, REACH_BY_PROXY, REACHED_BY_PROXY),
    step("death", User, DEATH, DEAD),
    step("death", Delegated, DEATH, DEAD),
    step("survivors", Root, SURVIVORS, &[Stdout("0\n")]),
    step("memory", Delegated, MEMORY, OUT_OF_MEMORY),
    step("core handler set", Root, CORE_HANDLER_SET, &[Code(0)]),
    step("core handler outside", User, CRASH_OUTSIDE, CRASHED_OUTSIDE),
    step("core handler", User, CRASH_COMMANDS, CRASHED_COMMANDS),
    step(
        "root is refused",
        Root,
        "ringfence run -- touch ran; code=$?; ls ran; exit $code",
        &[Code(125), Stdout(""), StderrHas("hint: ")],
    ),
    step("nothing left", User, LEFT, &[Stdout(".env\n")]),
];

/// Kernels built or booted without Landlock.
const NO_LANDLOCK: &[Step] = &[
    step(
        "doctor",
        User,
        DOCTOR,
        &[Code(0), Json("/tier", NAMESPACES), StdoutHas("not in this kernel")],
    ),
    step(
        "enforcement",
        Root,
        TRUE,
        &[
            Code(0),
            Json("/enforcement/tier", NAMESPACES),
            Json("/enforcement/filesystem", "pivot_root"),
            JsonHas("/enforcement/gaps", "Landlock is missing"),
        ],
    ),
    step("outside", User, OUTSIDE, REFUSED_OUTSIDE),
    step("sockets", User, SOCKETS, REFUSED_SOCKETS),
    step("secrets", User, SECRETS, HIDDEN),
];

/// Neither: nothing to build on.
const NOTHING: &[Step] = &[
    step("doctor", User, DOCTOR, &[Code(125), Json("/tier", "none")]),
    step(
        "refused",
        User,
        "ringfence run -- touch ran; code=$?; ls ran; exit $code",
        &[Code(125), Stdout(""), StderrHas("--fallback warn")],
    ),
    step(
        "refused",
        Root,
        "ringfence run -- touch ran; code=$?; ls ran; exit $code",
        &[Code(125), Stdout(""), StderrHas("error: ")],
    ),
    step(
        "root is never root",
        Root,
        "ringfence run --fallback warn -- id -u; echo end",
        &[StdoutLacks("0\n"), StdoutHas("end")],
    ),
    step(
        "fallback",
        User,
        "ringfence run --fallback warn -- echo hello",
        &[
            Code(0),
            Stdout("hello\n"),
            StderrHas("WARNING"),
            StderrHas("every file the caller can reach is reachable"),
        ],
    ),
    step(
        "fallback outcome",
        User,
        "ringfence run --json --fallback warn -- true",
        &[Code(0), Json("/enforcement/tier", "none"), Json("/enforcement/filesystem", "none")],
    ),
];

/// A kernel without IPv6: the routes and listeners of IPv4 alone.
const NO_IPV6: &[Step] = &[
    step("doctor", User, DOCTOR, &[Code(0), Json("/tier", NAMESPACES)]),
    step("reach", Root, REACH, REACHED),
    step("reach", User, REACH, REACHED),
    step(
        "no network",
        User,
        python_run!(
            "",
            "
try: socket.getaddrinfo(\"host.test\", 443)
except socket.gaierror: print(\"no name\")
attempt(\"v6\", lambda: socket.socket(socket.AF_INET6))
"
        ),
        &[
            Code(0),
            StdoutHas("no name\\nv6 EAFNOSUPPORT"),
            JsonHas("/denials", "lookup(host.test)"),
        ],
    ),
];

/// Every attack of `escapes/`, by their own harness.
const ATTACKS: &[Step] =
    &[step("attacks", Root, "exec sh /vm/escapes.sh", &[Code(0), StdoutHas("test result: ok")])];

const SOAK: &str = "exec sh /vm/soak.sh";
const SOAKED: &[Expect] = &[Code(0), StdoutHas("failed              0\n")];

/// 64 runs at once, by everyone.
const SOAKS: &[Step] = &[
    step("64 at once", Root, SOAK, SOAKED),
    step("64 at once", User, SOAK, SOAKED),
    step("64 at once", Delegated, SOAK, SOAKED),
];
