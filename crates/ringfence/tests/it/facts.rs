//! Facts the design rests on, each tried on this kernel.

use std::os::unix::fs::MetadataExt as _;

use crate::support::{World, is_root};

#[test]
fn no_run_has_host_uid_zero() {
    let world = World::new();
    let run = world.sh_live("echo up; read x; true");
    let pid = run.pid().as_raw_pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let mut n = 0;
    for init in children.split_whitespace() {
        let below = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children"))
            .unwrap_or_default();
        for program in below.split_whitespace() {
            let status = std::fs::read_to_string(format!("/proc/{program}/status")).unwrap();
            let uid = status.lines().find_map(|l| l.strip_prefix("Uid:")).unwrap().to_owned();
            assert!(uid.split_whitespace().all(|u| u != "0"), "{uid}");
            n += 1;
        }
    }
    assert!(n >= 1, "the program was found");
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn a_run_has_the_processors_of_its_caller() {
    let world = World::new();
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap().to_owned();
    // Its child is moved to another one when it is forked.
    for _ in 0..5 {
        let (_, outcome) = world.sh_json(&[], "grep ^Cpus_allowed_list /proc/self/status");
        assert_eq!(outcome["stdout"].as_str().map(str::trim), Some(own.as_str()), "{outcome}");
    }
}

#[test]
fn shadow_and_the_kernels_levers_are_refused() {
    let program = "
import os
for path, flags in (('/etc/shadow', os.O_RDONLY), ('/proc/sys/kernel/core_pattern', os.O_WRONLY), ('/proc/sysrq-trigger', os.O_WRONLY), ('/proc/sys/kernel/hostname', os.O_WRONLY)):
    try: os.open(path, flags); print('opened', path)
    except OSError as e: print(e.errno)";
    let (_, outcome) = World::new().python(&[], program);
    let stdout = outcome["stdout"].as_str().unwrap();
    assert!(!stdout.contains("opened"), "{outcome}");
}

#[test]
fn init_shows_neither_environment_nor_arguments_of_the_caller() {
    let world = World::new().var("CANARY", "canary-77aa");
    let (_, outcome) = world.sh_json(&["--env", "VISIBLE=1"], "cat /proc/1/environ; tr '\\0' ' ' < /proc/1/cmdline; cat /proc/1/maps /proc/1/mem; ls -l /proc/1/fd /proc/1/root /proc/1/cwd; true");
    let all = outcome["stdout"].as_str().unwrap();
    assert!(!all.contains("canary-77aa"), "{all}");
    assert!(!all.contains("VISIBLE"), "{all}");
    assert!(all.starts_with("ringfence"), "{all}");
    assert!(!all.contains(" -> "), "where it stands is not told either: {all}");
}

#[test]
fn capabilities_are_gone_and_cannot_come_back() {
    let (_, outcome) = World::new().sh_json(
        &[],
        "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t' | tr '\\n' ' '",
    );
    let none = "0000000000000000";
    assert_eq!(
        outcome["stdout"],
        format!(
            "CapInh:{none} CapPrm:{none} CapEff:{none} CapBnd:{none} CapAmb:{none} NoNewPrivs:1 Seccomp:2 "
        )
    );
}

#[test]
fn the_pids_limit_of_an_ordinary_user_counts_the_run_alone() {
    // Root's tests run a second time as such a user.
    if is_root() {
        return;
    }
    // This user has other processes (this test at least); a limit of 8 must still leave room for 8 in the run.
    let (_, outcome) = World::new().sh_json(
        &["--pids", "8"],
        "sleep 0.1 & sleep 0.1 & sleep 0.1 & sleep 0.1 & wait; echo fits",
    );
    assert_eq!(outcome["stdout"], "fits\n", "{outcome}");
}

#[test]
fn a_placeholder_removed_on_the_host_is_why_runs_share_them() {
    // The design's reason for the registry: removing the name on the host uncovers it in a live run.
    let world = World::new();
    let run = world.sh_live("echo up; read x; mkdir .vscode 2>/dev/null && echo uncovered");
    std::fs::remove_dir(world.work().join(".vscode")).unwrap();
    assert_eq!(run.end().1, "uncovered\n");
}

#[test]
fn python_threads_are_threads_and_pass() {
    let program = "
import threading
out = []
ts = [threading.Thread(target=out.append, args=(i,)) for i in range(10)]
[t.start() for t in ts]; [t.join() for t in ts]
print(len(out))";
    let (_, outcome) = World::new().python(&[], program);
    assert_eq!(outcome["stdout"], "10\n");
}

#[test]
fn the_32_bit_entry_and_the_x32_numbers_are_refused() {
    // x32's getpid: 0x40000000 | 39. ENOSYS is 38.
    let program = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(0x40000000 | 39), ctypes.get_errno())
import mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))
f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
import sys; sys.stdout.flush()
print('int 0x80 answered', f())";
    let (_, outcome) = World::new().python(&[], program);
    assert_eq!(outcome["stdout"], "-1 38\n", "{outcome}");
    assert_eq!(outcome["signal"], 31, "{outcome}");
    assert_eq!(outcome["error"]["code"], "syscall_entry");
}

#[test]
fn the_binary_itself_cannot_be_overwritten() {
    let binary = crate::support::binary();
    let before = std::fs::metadata(&binary).unwrap();
    let program = format!(
        "
import os
for path in ('/proc/1/exe', {:?}):
    try: os.open(path, os.O_WRONLY); print('opened', path)
    except OSError: pass",
        binary.to_str().unwrap()
    );
    let (_, outcome) = World::new().python(&[], &program);
    assert_eq!(outcome["stdout"], "", "{outcome}");
    assert_eq!(before.mtime(), std::fs::metadata(&binary).unwrap().mtime());
}
