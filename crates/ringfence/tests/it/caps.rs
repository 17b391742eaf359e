//! Limits hold, and the outcome names the one that did.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use ringfence_testing::{BoundedCommand as _, json, missing};

use crate::support::{Ran, World, binary, is_root, rules};

#[test]
fn a_deadline_kills_and_says_so() {
    let (code, outcome) = World::new().sh_json(&["--timeout", "300ms"], "sleep 60");
    assert_eq!((code, &outcome["status"]), (124, &"timeout".into()));
    assert_eq!(outcome["error"]["code"], "wall_deadline");
}

#[test]
fn cpu_time_is_told_from_wall_time() {
    let (code, outcome) =
        World::new().sh_json(&["--cpu", "1s", "--timeout", "30s"], "while :; do :; done");
    assert_eq!((code, &outcome["status"]), (124, &"timeout".into()), "{outcome}");
    assert_eq!(outcome["error"]["code"], "cpu_limit");
}

#[test]
fn cpu_time_is_counted_for_the_whole_tree() {
    let script = "for i in 1 2 3 4; do (while :; do :; done) & done; wait";
    let (_, outcome) = World::new().sh_json(&["--cpu", "1s", "--timeout", "60s"], script);
    assert_eq!(outcome["error"]["code"], "cpu_limit", "{outcome}");
}

#[test]
fn cpu_time_of_children_that_nobody_waits_for_is_counted() {
    let program = "
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for i in range(40):
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.5: pass
        os._exit(0)
    try:
        while True: os.kill(pid, 0); time.sleep(0.005)
    except ProcessLookupError: pass
print('free')";
    let (_, outcome) = World::new().python(&["--cpu", "2s", "--timeout", "60s"], program);
    assert_eq!(outcome["error"]["code"], "cpu_limit", "{outcome}");
}

/// The supervisor performs connects of the run, and holds descriptors for those that wait. Each call here is interrupted.
#[test]
fn cpu_time_is_limited_whatever_descriptors_a_run_has_the_supervisor_hold() {
    let program = "
import os, signal, socket
peer = socket.socket(socket.AF_UNIX)
peer.bind('/tmp/full')
peer.listen(0)
first = socket.socket(socket.AF_UNIX)
first.connect('/tmp/full')
signal.signal(signal.SIGALRM, lambda *_: None)
errors = set()
# A call that is interrupted before the supervisor receives it takes no descriptor: on a busy machine that takes longer.
for pause in 0.003, 0.01, 0.03, 0.1:
    signal.setitimer(signal.ITIMER_REAL, pause, pause)
    for _ in range(1000):
        with socket.socket(socket.AF_UNIX) as s:
            try: s.connect('/tmp/full')
            except OSError as e: errors.add(e.errno)
    if errors: break
signal.setitimer(signal.ITIMER_REAL, 0)
print(errors, flush=True)
# None of them comes to the limit of a single process.
for _ in range(4):
    if os.fork() == 0:
        while True: pass
while True: signal.pause()";
    let world = World::new();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 1024 && exec \"$@\"", "sh"]).arg(binary());
    limited.args(["run", "--json", "--cpu", "2s", "--timeout", "100s", "--"]);
    limited.args(["/usr/bin/python3", "-c", program]);
    let ran = Ran::from(&world.here(limited).bounded_output().unwrap());
    let outcome = ran.json();
    assert_eq!(outcome["error"]["code"], "cpu_limit", "{outcome}");
    let message = outcome["error"]["message"].as_str().unwrap();
    assert!(message.contains("used more than 2"), "{outcome}");
    // EAGAIN is a refusal. EMFILE would be the supervisor's own want of descriptors.
    assert_eq!(outcome["stdout"], "{11}\n", "{outcome}");
    assert_eq!(outcome["enforcement"]["gaps"], world.sh_json(&[], "true").1["enforcement"]["gaps"]);
}

/// Closes sockets that take an hour to close while the supervisor judges a connect of them and has a duplicate. Most are closed
/// too early or too late, but not all.
const CLOSES_SLOWLY: &str = r#"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static volatile int go, subject;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void *closes(void *fd) { close((int)(long)fd); return 0; }
static void *connects(void *unused) {
    struct sockaddr_in out = {.sin_family = AF_INET, .sin_port = htons(80)};
    inet_aton("192.0.2.1", &out.sin_addr);
    while (!go);
    connect(subject, (void *)&out, sizeof out);
    return 0;
}
int main(void) {
    int small = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    struct linger linger = {1, 3600};
    char bytes[4096] = {0};
    setsockopt(server, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    bind(server, (void *)&at, sizeof at);
    listen(server, 500);
    getsockname(server, (void *)&at, &length);
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        connect(fd, (void *)&at, sizeof at);
        int peer = accept(server, 0, 0);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0);
        pthread_t connecting, closing;
        go = 0;
        subject = fd;
        pthread_create(&connecting, 0, connects, 0);
        usleep(300);
        long until = now() + rand() % 300000;
        go = 1;
        while (now() < until);
        pthread_create(&closing, 0, closes, (void *)(long)fd);
        pthread_detach(closing);
        pthread_join(connecting, 0);
        usleep(200);
        close(peer);
    }
}
"#;

#[test]
fn a_socket_that_takes_an_hour_to_close_does_not_delay_the_deadline() {
    let world = World::new();
    world.write("work/closes.c", CLOSES_SLOWLY);
    let built = world.sh(&[], "gcc -O1 -pthread -o closes closes.c");
    if built.code != 0 {
        missing("tools", &format!("gcc does not build a program: {}", built.stderr));
        return;
    }
    let (code, outcome) = world.sh_json(&["--timeout", "4s"], "./closes");
    assert_eq!((code, &outcome["status"]), (124, &"timeout".into()), "{outcome}");
    assert_eq!(outcome["error"]["code"], "wall_deadline");
    assert_eq!(outcome["denials"][0]["subject"], "connect(192.0.2.1:80)", "{outcome}");
}

/// An alarm outlasts execve(2): the old way to bound a command's time.
#[test]
fn an_alarm_of_the_caller_ends_a_run() {
    let world = World::new();
    let code = "import os, signal, sys; signal.alarm(2); os.execv(sys.argv[1], sys.argv[1:])";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-I", "-c", code]).arg(binary()).args(["run", "--", "sleep", "100"]);
    let output = world.here(command).bounded_output().unwrap();
    assert_eq!(output.status.signal(), Some(14), "{output:?}");
}

/// Sets the limit on core dumps in every way and prints it before and after; then another limit.
pub(crate) const GIVES_UP_CORE_DUMPS: &str = "
import resource
def limits(): return resource.getrlimit(resource.RLIMIT_CORE)
before = limits()
for wanted in (0, 0), (0, 1), (resource.RLIM_INFINITY, resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_CORE, wanted)
    resource.prlimit(0, resource.RLIMIT_CORE, wanted)
print(before, limits())
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
print(resource.getrlimit(resource.RLIMIT_NOFILE))";

#[test]
fn a_program_that_gives_up_its_core_dumps_keeps_the_limit_that_starts_no_handler() {
    let world = World::new();
    let (code, outcome) = world.python(&[], GIVES_UP_CORE_DUMPS);
    assert_eq!((code, &outcome["stdout"]), (0, &"(1, 1) (1, 1)\n(32, 32)\n".into()), "{outcome}");
    assert_eq!(outcome["denials"], json!([]));
    // What a shell has for it.
    let ran = world.sh(&[], "ulimit -c 0 && grep 'core file' /proc/self/limits");
    let words: Vec<&str> = ran.stdout.split_whitespace().collect();
    assert_eq!(words, ["Max", "core", "file", "size", "1", "1", "bytes"], "{}", ran.stderr);
}

#[test]
fn eight_gigabytes_do_not_fit_into_256_megabytes() {
    let program = "b = []\nwhile True: b.append(bytearray(16 << 20))\nprint(len(b))";
    let (code, outcome) = World::new().python(&["--memory", "256M", "--timeout", "60s"], program);
    // Without a cgroup the process's own limit makes Python raise before the watch looks.
    if is_root() {
        assert_eq!((code, &outcome["status"]), (137, &"memory".into()), "{outcome}");
        assert_eq!(outcome["error"]["code"], "memory_limit");
    } else {
        assert!(outcome["stderr"].as_str().unwrap().contains("MemoryError"), "{outcome}");
    }
}

#[test]
fn memory_of_many_processes_adds_up() {
    let program = "
import os, time
for i in range(8):
    if os.fork() == 0:
        b = bytearray(os.urandom(1)) * (48 << 20)
        time.sleep(60)
time.sleep(60)";
    let (code, outcome) = World::new().python(&["--memory", "128M", "--timeout", "60s"], program);
    assert_eq!((code, &outcome["status"]), (137, &"memory".into()), "{outcome}");
    // No process had as much; the tree had.
    let peak = outcome["usage"]["memory_peak_bytes"].as_u64().unwrap();
    assert!(peak > 100 << 20 && peak < 600 << 20, "{outcome}");
}

#[test]
fn memory_of_a_process_without_its_first_thread_is_counted() {
    let program = "
import ctypes, os, threading, time
def hold():
    time.sleep(0.05)
    b = bytearray(os.urandom(1)) * (90 << 20)
    time.sleep(60)
for i in range(8):
    if os.fork() == 0:
        threading.Thread(target=hold).start()
        ctypes.CDLL(None).syscall(NR, 0)
time.sleep(60)";
    // exit(2), which ends a thread and not a process.
    let number = if cfg!(target_arch = "x86_64") { "60" } else { "93" };
    let program = program.replace("NR", number);
    let (code, outcome) = World::new().python(&["--memory", "128M", "--timeout", "60s"], &program);
    assert_eq!((code, &outcome["status"]), (137, &"memory".into()), "{outcome}");
}

#[test]
fn shared_memory_that_no_process_maps_is_counted_or_refused() {
    let program = "
import mmap, os
try:
    fd = os.memfd_create('x')
except OSError as e:
    print('refused', e.errno); raise SystemExit
chunk = b'x' * (1 << 20)
for i in range(512): os.write(fd, chunk)
print('hidden')";
    let (_, outcome) = World::new().python(&["--memory", "128M", "--timeout", "60s"], program);
    assert!(!outcome["stdout"].as_str().unwrap().contains("hidden"), "{outcome}");
    if is_root() {
        assert_eq!(outcome["status"], "memory", "{outcome}");
    } else {
        assert_eq!(rules(&outcome), ["shared_memory"], "{outcome}");
    }
}

#[test]
fn shared_mappings_emptied_from_sight_are_counted() {
    let program = "
import mmap
keep = []
for i in range(64):
    m = mmap.mmap(-1, 8 << 20)
    for o in range(0, 8 << 20, 4096): m[o] = 1
    m.madvise(mmap.MADV_DONTNEED)
    keep.append(m)
import time; time.sleep(5)
print('hidden')";
    let (_, outcome) = World::new().python(&["--memory", "128M", "--timeout", "60s"], program);
    assert_eq!(outcome["status"], "memory", "{outcome}");
}

#[test]
fn memory_that_processes_have_in_common_counts_once() {
    // Most of the limit, forked from and spawned from all the time: a child shares it, whole in vfork(2), or has just ended.
    let program = "
import os, subprocess, time
held = b'x' * (80 << 20)
until = time.monotonic() + 1.5
while time.monotonic() < until:
    subprocess.run(['/bin/true'])
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
print('done')";
    let (_, outcome) = World::new().python(&["--memory", "128M", "--timeout", "60s"], program);
    assert_eq!(
        (&outcome["status"], &outcome["stdout"]),
        (&"ok".into(), &"done\n".into()),
        "{outcome}"
    );
}

#[test]
fn many_mappings_do_not_slow_the_watch_down() {
    let program = "
import mmap, os, time
for _ in range(24):
    if os.fork() == 0:
        kept = [mmap.mmap(-1, 8192, prot=mmap.PROT_READ | (i & 1) * mmap.PROT_WRITE) for i in range(30_000)]
        time.sleep(60)
        os._exit(0)
time.sleep(4)
held = [bytearray(8 << 20) for i in range(64)]
time.sleep(5)
print('hidden')";
    let flags = ["--memory", "256M", "--timeout", "60s"];
    let (_, outcome) = World::new().python(&flags, program);
    assert_eq!(outcome["status"], "memory", "{outcome}");
}

#[test]
fn a_fork_bomb_meets_its_end() {
    let program = "
import os, time
n = 0
try:
    while True:
        if os.fork() == 0: time.sleep(30); os._exit(0)
        n += 1
except BlockingIOError: print('stopped', n)";
    let (_, outcome) = World::new().python(&["--pids", "32", "--timeout", "60s"], program);
    let stdout = outcome["stdout"].as_str().unwrap();
    let n: u32 = stdout
        .trim()
        .strip_prefix("stopped ")
        .unwrap_or_else(|| panic!("{outcome}"))
        .parse()
        .unwrap();
    assert!((20..=32).contains(&n), "{n}");
    if is_root() {
        assert!(rules(&outcome).contains(&"pids_limit".to_owned()), "{outcome}");
    }
}

#[test]
fn a_fork_bomb_that_does_not_care_ends_at_the_deadline() {
    let flags = ["--pids", "64", "--timeout", "2s"];
    let (code, outcome) = World::new().sh_json(&flags, "f() { f | f & }; f; sleep 600");
    assert_eq!(code, 124, "{outcome}");
}

#[test]
fn threads_are_counted_as_processes() {
    let program = "
import threading, time
n = 0
try:
    while True:
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start(); n += 1
except RuntimeError: print('stopped', n)
import os, sys; sys.stdout.flush(); os._exit(0)";
    let (_, outcome) = World::new().python(&["--pids", "32", "--timeout", "60s"], program);
    let stdout = outcome["stdout"].as_str().unwrap();
    let n: u32 = stdout
        .trim()
        .strip_prefix("stopped ")
        .unwrap_or_else(|| panic!("{outcome}"))
        .parse()
        .unwrap();
    assert!((20..=32).contains(&n), "{n}");
}

#[test]
fn private_directories_have_an_end() {
    let script = "for d in /tmp /dev/shm /var/tmp /run $HOME; do dd if=/dev/zero of=$d/fill bs=1M count=4000 2>&1 | tail -1; rm -f $d/fill; done; df -m /tmp | tail -1";
    let (code, outcome) = World::new().sh_json(&["--memory", "256M", "--timeout", "60s"], script);
    // Half of the memory limit: 128 MiB, less what is there.
    let stdout = outcome["stdout"].as_str().unwrap();
    for line in stdout.lines().filter(|l| l.contains("bytes")) {
        let bytes: u64 = line.split(' ').next().unwrap().parse().unwrap();
        assert!(bytes <= 128 << 20, "{line}");
    }
    assert_eq!(code, 0, "{outcome}");
}

#[test]
fn inodes_of_private_directories_have_an_end() {
    let program = "
import os
n = 0
try:
    while True: os.mkdir('/tmp/%d' % n); n += 1
except OSError as e: print(e.errno, n)";
    let (_, outcome) = World::new().python(&["--timeout", "120s"], program);
    let stdout = outcome["stdout"].as_str().unwrap().trim().to_owned();
    assert!(stdout.starts_with("28 "), "{outcome}");
}

#[test]
fn one_large_file_stops_at_the_disk_limit() {
    let (_, outcome) = World::new().sh_json(
        &["--disk", "10M"],
        "dd if=/dev/zero of=big bs=1M count=100; ls -l big | cut -d' ' -f5",
    );
    assert!(
        outcome["stdout"].as_str().unwrap().trim().parse::<u64>().unwrap_or(0) <= 10 << 20,
        "{outcome}"
    );
}

#[test]
fn many_files_stop_at_the_disk_limit() {
    let script = "i=0; while [ $i -lt 400 ]; do dd if=/dev/zero of=f$i bs=1M count=5 conv=fsync 2>/dev/null; i=$((i+1)); done; echo all";
    let world = World::new();
    let (_, outcome) = world.sh_json(&["--disk", "20M", "--timeout", "60s"], script);
    assert_eq!(outcome["error"]["code"], "disk_limit", "{outcome}");
    assert_eq!(outcome["status"], "killed");
}

/// A run may write in a directory of an earlier one that its owner cannot list.
#[test]
fn a_directory_that_cannot_be_listed_hides_nothing_from_the_disk_limit() {
    let world = World::new();
    let (code, outcome) = world.sh_json(
        &[],
        "mkdir d; i=0; while [ $i -lt 60 ]; do : > d/$i; i=$((i+1)); done; chmod 300 d",
    );
    assert_eq!(code, 0, "{outcome}");
    // Files have stamps of whole seconds on some file systems.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let script = "i=0; while [ $i -lt 60 ]; do dd if=/dev/zero of=d/$i bs=1M count=10 conv=fsync,notrunc 2>/dev/null; sleep 0.05; i=$((i+1)); done; echo all";
    let (_, outcome) = world.sh_json(&["--disk", "2M", "--timeout", "60s"], script);
    assert_eq!(outcome["error"]["code"], "disk_limit", "{outcome}");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(world.work().join("d"), open).unwrap();
}

/// Files without a name whose descriptors are on their way between two sockets, or that are only mapped.
#[test]
fn deleted_files_that_are_hidden_count_for_the_disk_limit() {
    let hold = [
        "a, b = socket.socketpair(); held += [a, b]; socket.send_fds(a, [b'x'], [fd])",
        "held.append(c.mmap(None, 4096, 1, 1, fd, 0))",
    ];
    for hold in hold {
        let world = World::new();
        let program = format!(
            "import ctypes, os, socket, time
held, c = [], ctypes.CDLL(None)
c.mmap.restype, c.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
for n in range(24):
    fd = os.open('f', os.O_RDWR | os.O_CREAT)
    os.unlink('f')
    os.write(fd, bytes(8 << 20))
    os.fsync(fd)
    {hold}
    os.close(fd)
time.sleep(40)
print('all')
"
        );
        let (_, outcome) = world.python(&["--disk", "10M", "--timeout", "60s"], &program);
        assert!(!outcome["error"].is_null(), "{hold}: {outcome}");
        assert_eq!(outcome["error"]["code"], "disk_limit", "{hold}: {outcome}");
    }
}

/// A process that detaches itself has no parent in the run any more, and the program's own files count too, where there is no
/// PID 1 of Ringfence's. Files are written until the run ends: others free space on the same disk.
#[test]
fn without_namespaces_detached_processes_and_deleted_files_count() {
    let detached = |work: &str| {
        format!(
            "import os, time
for n in range(8):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            {work}
            time.sleep(60)
        os._exit(0)
    os.wait()
time.sleep(60)"
        )
    };
    let delete = "[(fd := os.open(f'f{os.getpid()}', os.O_RDWR | os.O_CREAT), os.write(fd, bytes(8 << 20)), os.fsync(fd), os.unlink(f'f{os.getpid()}'), time.sleep(0.2)) for n in range(60)]";
    let rows = [
        ("--memory", "64M", detached("x = b'x' * (30 << 20)"), "memory_limit"),
        ("--cpu", "2s", detached("while time.process_time() < 1.2: pass"), "cpu_limit"),
        ("--disk", "20M", detached(delete), "disk_limit"),
        ("--disk", "20M", format!("import os, time\n{delete}\ntime.sleep(60)"), "disk_limit"),
        (
            "--disk",
            "20M",
            "import os, time\nfor n in range(200):\n    f = open(f'{os.environ[\"TMPDIR\"]}/{n}', 'wb'); f.write(bytes(8 << 20)); f.flush(); os.fsync(f.fileno()); time.sleep(0.1)".to_owned(),
            "disk_limit",
        ),
    ];
    for (flag, limit, program, code) in rows {
        let args = ["run", "--json", "--timeout", "50s", flag, limit, "--"];
        let python = ["/usr/bin/python3", "-c", &program];
        let outcome = World::new().without_namespaces(&[&args[..], &python].concat()).json();
        assert_eq!(outcome["enforcement"]["tier"], "landlock", "{outcome}");
        assert!(!outcome["error"].is_null(), "{code}: {program}: {outcome}");
        assert_eq!(outcome["error"]["code"], code, "{program}: {outcome}");
    }
}

/// Detached processes that have ended take no place in the limit of processes for long, and other children of the process that
/// was replaced by `ringfence` live on.
#[test]
fn without_namespaces_the_dead_are_reaped_and_the_callers_children_left_alone() {
    let world = World::new();
    let script = "i=0; while [ $i -lt 8 ]; do j=0; while [ $j -lt 100 ]; do (true &); j=$((j+1)); done; sleep 1; i=$((i+1)); done; echo all";
    let ran = world.without_namespaces(&["run", "--pids", "400", "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "all\n"), "{}", ran.stderr);
    let shell = "echo 0 > /proc/sys/user/max_user_namespaces && { python3 -c \"$STRANGER\" >&2 & } && exec \"$@\"";
    let unshare = ["unshare", "-U", "--map-current-user", "--keep-caps"];
    let run = ["run", "--memory", "64M", "--json", "--", "sh", "-c", "sleep 2; echo done"];
    let mut command = world.wrapped(&[&unshare[..], &["sh", "-c", shell, "sh"]].concat(), &run);
    let stranger = "import time\nx = b'x' * (200 << 20)\ntime.sleep(4)\nprint('alive')";
    let ran = Ran::from(&command.env("STRANGER", stranger).bounded_output().unwrap());
    let outcome = ran.json();
    assert_eq!(
        (&outcome["status"], &outcome["stdout"]),
        (&"ok".into(), &"done\n".into()),
        "{outcome}"
    );
    assert!(ran.stderr.contains("alive"), "{}", ran.stderr);
}

/// Attributes are no content that Landlock has a right for.
#[test]
fn without_namespaces_no_attribute_of_a_file_outside_is_set() {
    let world = World::new();
    let outside = world.write("outside", "x");
    let program = format!(
        "import os, shutil
for path in ({outside:?}, 'mine'):
    open('mine', 'w').close()
    try: os.setxattr(path, 'user.x', b'1')
    except OSError as e: print(e.errno)
shutil.copy2('mine', 'copy')
print(os.path.exists('copy'))"
    );
    let args = ["run", "--", "/usr/bin/python3", "-c", &program];
    let ran = world.without_namespaces(&args);
    assert_eq!(ran.stdout, "95\n95\nTrue\n", "{}", ran.stderr);
}

#[test]
fn a_flood_of_output_is_cut_in_the_middle_and_counted() {
    let (code, outcome) =
        World::new().sh_json(&["--output", "1M"], "echo first; yes | head -c 300000000; echo last");
    assert_eq!(code, 0);
    let stdout = outcome["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("first\n") && stdout.ends_with("last\n"));
    assert!(stdout.len() < (1 << 20) + 100);
    assert_eq!(outcome["truncated"]["stdout"], true);
    assert_eq!(outcome["usage"]["stdout_bytes"], 300_000_000u64 + 11);
    let dropped = outcome["truncated"]["dropped_bytes"].as_u64().unwrap();
    assert!(dropped > 298_000_000, "{dropped}");
}

#[test]
fn descriptors_are_counted() {
    let program = "
import os
fds = []
try:
    while True: fds.append(os.open('/dev/null', 0))
except OSError as e: print(e.errno, len(fds))";
    let (_, outcome) = World::new().python(&["--fds", "64"], program);
    assert_eq!(outcome["stdout"].as_str().unwrap().trim(), "24 61", "{outcome}");
}

#[test]
fn limits_hold_before_the_first_instruction() {
    let (_, outcome) = World::new().sh_json(&["--fds", "100"], "ulimit -n; ulimit -c");
    assert_eq!(outcome["stdout"], "100\n0\n");
}

/// Where the host lets its users run before others, a run would run before its supervisor.
#[test]
fn a_run_has_no_priority_over_its_supervisor_and_few_queued_signals() {
    let script = "grep -E 'realtime priority|nice priority|pending signals' /proc/self/limits";
    let (_, outcome) = World::new().sh_json(&[], script);
    let limits: Vec<Vec<&str>> = outcome["stdout"]
        .as_str()
        .unwrap()
        .lines()
        .map(|line| line.split_whitespace().filter(|word| word.parse::<u32>().is_ok()).collect())
        .collect();
    assert_eq!(limits, [["4096", "4096"], ["0", "0"], ["0", "0"]], "{outcome}");
}

#[test]
fn limits_too_small_for_a_program_to_start_are_refused_with_a_value_that_works() {
    let world = World::new();
    let (run, exec) = (&["--", "true"][..], &["-c", "print(1)"][..]);
    for (command, flag, value, program) in [
        ("run", "--memory", "1K", run),
        ("run", "--memory", "64K", run),
        ("run", "--fds", "8", run),
        ("exec", "--memory", "512B", exec),
        ("exec", "--memory", "4M", exec),
        ("exec", "--fds", "3", exec),
    ] {
        let refused = world.ringfence(&[&[command, flag, value], program].concat());
        assert_eq!(refused.code, 2, "{command} {flag} {value}: {}", refused.stderr);
        assert!(refused.stderr.contains("too small for a program to start"), "{}", refused.stderr);
        let least = refused.stderr.split_once(&format!("`{flag} ")).unwrap().1;
        let least = least.split_once('`').unwrap().0;
        let ran = world.ringfence(&[&[command, flag, least], program].concat());
        assert_eq!(ran.code, 0, "{command} {flag} {least}: {}", ran.stderr);
    }
}

/// Processes of Ringfence's own in a run hide themselves: neither limit counts that against the run.
#[test]
fn a_run_is_not_ended_for_what_others_use() {
    let world = World::new();
    let wait = "import time; time.sleep(2); print(1)";
    let ran = world.ringfence(&["exec", "--memory", "16M", "-c", wait]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1\n"), "{}", ran.stderr);
    // Others fill the same disk while it runs.
    std::thread::scope(|scope| {
        let run = scope.spawn(|| world.sh_json(&["--disk", "1M"], "sleep 5; echo all"));
        std::thread::sleep(std::time::Duration::from_secs(1));
        let others = world.root().join("others");
        let file = std::fs::File::create(&others).unwrap();
        for _ in 0..64 {
            std::io::Write::write_all(&mut &file, &vec![1; 1 << 20]).unwrap();
        }
        file.sync_all().unwrap();
        let (code, outcome) = run.join().unwrap();
        assert_eq!((code, &outcome["stdout"]), (0, &json!("all\n")), "{outcome}");
        std::fs::remove_file(others).unwrap();
    });
}

#[test]
fn a_bench_of_nothing_names_what_there_is() {
    let ran = World::new().ringfence(&["bench", "--only", "nothing"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("start_quiet") && ran.stderr.contains("screen"), "{}", ran.stderr);
}
