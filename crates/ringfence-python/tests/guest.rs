//! The guest's own functions, in an interpreter without a fence.

#![allow(clippy::disallowed_methods)]

use std::process::Command;

use ringfence_plan::seccomp::{Arch, number};
use ringfence_testing::BoundedCommand as _;

/// The bootstrap's modules under test.
const GUEST: &str =
    concat!(include_str!("../src/guest/calls.py"), include_str!("../src/guest/speedups.py"));

/// Interpreters to test with: those that `cargo xtask pythons` found, else the one in PATH.
fn pythons() -> Vec<String> {
    let list = std::env::var("RINGFENCE_TEST_PYTHONS").unwrap_or_else(|_| "python3".to_owned());
    list.split(':').map(str::to_owned).collect()
}

/// Returns the stdout of a script that must succeed, for each interpreter.
fn stdouts(script: &str) -> Vec<(String, Vec<u8>)> {
    let run = |python: String| {
        let output = Command::new(&python).args(["-I", "-c", script]).bounded_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{python}: {stderr}");
        (python, output.stdout)
    };
    pythons().into_iter().map(run).collect()
}

#[test]
fn the_last_expression_is_the_same_found_by_lines_and_by_tree() {
    let program =
        concat!(include_str!("../src/guest/program.py"), include_str!("../src/guest/lazy.py"));
    let output = Command::new("python3")
        .args(["-I", "-W", "ignore", "-c", include_str!("parted.py"), program])
        .bounded_output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let n_parted = String::from_utf8_lossy(&output.stdout).trim().parse::<usize>();
    // Else nothing was compared.
    assert!(n_parted.is_ok_and(|n| n >= 30), "{output:?}");
}

#[test]
fn the_kernel_fills_the_state_of_random_and_the_next_numbers_come_from_it() {
    let arch = if cfg!(target_arch = "x86_64") { Arch::X86_64 } else { Arch::Aarch64 };
    let getrandom = number(arch, "getrandom").unwrap();
    let script = format!(
        "import ctypes, os, random, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n{GUEST}
random.gauss(0, 1)
calls = Calls(run_rows, dict(getrandom={getrandom}))
seeds = Seeds(calls, in_place=True)
calls.lay_out()
before = random.getstate()
seen = set()
for _ in range(3):
    calls.make()
    seeds.draw()
    state = random.getstate()
    seen.add((random.random(), random.gauss(0, 1), random.getrandbits(64)))
    random.setstate(state)
    assert state[1][:624] != before[1][:624] and state[2] is None, state
    # Every word of it is new, and the numbers are those that such a state gives.
    again = random.Random()
    again.setstate(state)
    assert again.random() == random.random()
print(len(seen), len(seeds.others))"
    );
    for (python, stdout) in stdouts(&script) {
        assert_eq!(String::from_utf8_lossy(&stdout).trim(), "3 0", "{python}");
    }
}

/// Functions that were moved do what they did, and say where they are from.
const GATHERED: &str = "
import traceback

def outer(n):
    def inner():
        return n * [each for each in range(n)][-1]
    return inner

def fails():
    return [1 // n for n in (1, 0)]

spaces = [{}, {}]
for name, space in zip(('one.py', 'two.py'), spaces):
    exec(compile('def same(): return 1 // 0', name, 'exec'), space)
known = [outer, fails, *[space['same'] for space in spaces]]
never = lambda: None
before, left = [each.__code__ for each in known], never.__code__

def told(function):
    try:
        return function()
    except ZeroDivisionError as error:
        return [(row.filename, row.name, row.lineno) for row in traceback.extract_tb(error.__traceback__)][1:]

def warm_up():
    return [outer(4)(), *[told(each) for each in known[1:]]]

expected = warm_up()
gather(warm_up() for _ in range(2))
assert warm_up() == expected, (warm_up(), expected)
assert [rows[0][0] for rows in expected[2:]] == ['one.py', 'two.py'], expected
assert all(each.__code__ is not code for each, code in zip(known, before))
assert never.__code__ is left and sys.getprofile() is None
inner = lambda code: [each for each in code.co_consts if type(each) is type(code)]
assert inner(outer.__code__)[0] is not inner(before[0])[0]

# What was let go between other things is not where the next things come to lie.
held = [bytes(200) for _ in range(10_000)]
free = {id(each) for each in held[::2]}
del held[::2]
close_gaps()
fresh = [bytes(200) for _ in range(64)]
in_gaps = sum(id(each) in free for each in fresh)
n_kept = sum(len(each) for taken in closed for each in taken if type(each) is bytes)
print(in_gaps < 8, n_kept < POOLED_GAPS_MAX + SINGLE_GAPS_MAX)
";

#[test]
fn functions_go_on_after_their_code_was_moved_and_gaps_are_closed() {
    let script = format!("{GUEST}{GATHERED}");
    for (python, stdout) in stdouts(&script) {
        assert_eq!(String::from_utf8_lossy(&stdout).trim(), "True True", "{python}");
    }
}

/// An interpreter that moves itself and prints the result.
const SCRIPT: &str = "
import json, os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
before = [str(n) * 9 for n in range(100_000)]
n_moved = pack(bytes.fromhex(CODE))
assert before == [str(n) * 9 for n in range(100_000)]
import decimal, statistics
children = []
for n in range(20):
    pid = os.fork()
    if pid == 0:
        before[n] = n
        assert statistics.mean([decimal.Decimal(n), n]) == n
        os._exit(7)
    children.append(pid)
assert all(os.waitpid(pid, 0)[1] == 7 << 8 for pid in children)
assert before[7] == '7' * 9
anonymous = [l for l in open('/proc/self/maps') if ' r-xp 00000000 00:00 0 ' in l and '[' not in l]
# Whether the kernel has such pages to give at all, now.
raw = libc.mmap(0, 16 * HUGE, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0)
area = (raw // HUGE + 1) * HUGE
libc.madvise(area, 15 * HUGE, MADV_HUGEPAGE)
ctypes.memset(area, 1, 15 * HUGE)
print(json.dumps([n_moved, bool(anonymous), is_huge(area)]))
";

#[test]
fn an_interpreter_goes_on_where_it_was_after_it_was_moved() {
    let code = ringfence_spec::hex(ringfence_sys::pack_code());
    let script = format!("import os\nCODE = '{code}'\n{GUEST}\n{SCRIPT}");
    for (python, stdout) in stdouts(&script) {
        let (n_moved, anonymous, possible): (i64, bool, bool) =
            serde_json::from_slice(&stdout).unwrap();
        assert_eq!(anonymous, n_moved > 0, "{python} {n_moved}");
        if cfg!(target_arch = "x86_64") && possible {
            assert!(n_moved > 10, "{python} {n_moved}");
        }
    }
}

/// Lists of calls, made with the host's code and without it: prints results and failures.
const CALLS: &str = "
import json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
text = lambda words: {'bytes': binascii.b2a_base64(words.encode() + bytes(1)).decode()}
call = lambda name, nr, *args, may_fail=False: dict(name=name, nr=nr, args=list(args), may_fail=may_fail)
CLOSE, OPENAT, PPOLL, DUP3, SENDMSG = NUMBERS
AT_FDCWD = (1 << 64) - 100
wanted = dict(bytes=binascii.b2a_base64(bytes(8)).decode(), at=0, result=0)
now = dict(bytes=binascii.b2a_base64(bytes(16)).decode())
of_host = [
    call('openat', OPENAT, AT_FDCWD, text('/dev/null'), os.O_RDONLY),
    call('close', CLOSE, 0x7fffffff, may_fail=True),
    # A descriptor stored where the kernel looks for it: nothing is the matter with it.
    call('ppoll', PPOLL, wanted, 1, now, 0, 0),
]
NAMED = dict(dup3=DUP3, close=CLOSE)
told = []
# Where the channel is, first something else.
os.open('/dev/null', os.O_RDONLY)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.dup2(theirs.fileno(), 3)
for run in checked_runner(bytes.fromhex(CODE), NAMED) or run_rows, run_rows:
    calls = Calls(run, dict(dup3=DUP3, close=CLOSE, sendmsg=SENDMSG), n_given=1)
    for each in of_host:
        calls.call_of_host(each)
    opened = calls.of_host[0]
    calls.call('dup3', opened, Result(0), 0)
    calls.send(b'P1234', [opened], with_number=Result(0))
    calls.call('close', opened)
    calls.call('close', opened)
    calls.lay_out()
    calls.results[0] = 77
    try:
        calls.make()
    except CallFailed as error:
        told.append([*calls.results[2:], str(error)])
    frame, (passed,), _, _ = socket.recv_fds(ours, 16, 4)
    told[-1] += [frame.hex(), os.fstat(passed).st_rdev == os.stat('/dev/null').st_rdev]
    os.close(77)
print(json.dumps([told, run is not checked_runner(bytes.fromhex(CODE), NAMED)]))
";

#[test]
fn calls_are_made_in_one_go_as_they_are_made_one_by_one() {
    let arch = if cfg!(target_arch = "x86_64") { Arch::X86_64 } else { Arch::Aarch64 };
    let numbers =
        ["close", "openat", "ppoll", "dup3", "sendmsg"].map(|name| number(arch, name).unwrap());
    let code = ringfence_spec::hex(ringfence_sys::calls_code());
    let script = format!("import os\nCODE = '{code}'\nNUMBERS = {numbers:?}\n{GUEST}\n{CALLS}");
    for (python, stdout) in stdouts(&script) {
        let (told, native): (Vec<ringfence_testing::Json>, bool) =
            serde_json::from_slice(&stdout).unwrap();
        assert_eq!(native, cfg!(target_arch = "x86_64"), "{python}");
        let frame = ringfence_spec::hex(&[b"P", &77_u32.to_ne_bytes()[..]].concat());
        let expected = ringfence_testing::json!([
            -9,
            0,
            77,
            5,
            0,
            -9,
            "close: Bad file descriptor",
            frame,
            true
        ]);
        assert_eq!(told, [expected.clone(), expected], "{python}");
    }
}

/// The loop that forks workers passes its check; prints whether this user may have a pid namespace, and the result.
const FORKS: &str = "
import _socket, _thread, json, os
libc, held = ctypes.CDLL(None, use_errno=True), ctypes.PyDLL(None, use_errno=True)
leave = os._exit
NEW_USER, NEW_PIDS = 0x10000000, 0x20000000
# As a zygote is: in a pid namespace that its own user namespace owns.
allowed = libc.unshare(NEW_PIDS | NEW_USER * (os.geteuid() != 0)) == 0

def told():
    own_pids = os.open('/proc/self/ns/pid', os.O_RDONLY)
    served = checked_forks(bytes.fromhex(CODE), own_pids, os.fork) if CODE else None
    # Code that returns -8 has forked nothing, and its check ends.
    wrong = checked_forks(bytes.fromhex('b8010000004883c0f7c3'), own_pids, os.fork)
    print(json.dumps([allowed, served, wrong]), flush=True)
    return True

assert holds(os.fork, told)
";

#[test]
fn requests_are_served_by_the_hosts_code() {
    let code = ringfence_spec::hex(ringfence_sys::fork_loop_code());
    let script = format!("CODE = '{code}'\n{GUEST}\n{FORKS}");
    for (python, stdout) in stdouts(&script) {
        let (allowed, served, wrong): (bool, Option<bool>, bool) =
            serde_json::from_slice(&stdout).unwrap();
        let native = cfg!(target_arch = "x86_64");
        assert_eq!(served, native.then_some(allowed), "{python}");
        assert!(!wrong, "{python}");
    }
}

/// The speed-ups in use at each level, and what is in use if the host's code is wrong for this processor.
const CHECKED: &str = "
import json, os, _thread
libc, held = ctypes.CDLL(None, use_errno=True), ctypes.PyDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
leave = os._exit
os.open('/dev/null', os.O_RDONLY)
told = []
# Code that does nothing (`ret`), and none.
for calls, moves in (CODE, MOVES), ('c3', 'c3'), ('', ''):
    for level in LEVELS:
        speedups = Speedups(level)
        run = speedups.runner(bytes.fromhex(calls), NUMBERS)
        speedups.fork(os.fork)
        speedups.gather(iter([]))
        speedups.close_gaps()
        speedups.pack(bytes.fromhex(moves), os.fork)
        told.append([level, run is not run_rows, [part for part in speedups.active if part != 'pages']])
print(json.dumps(told))
";

#[test]
fn a_speedup_is_used_once_it_passed_its_check() {
    let arch = if cfg!(target_arch = "x86_64") { Arch::X86_64 } else { Arch::Aarch64 };
    let numbers: std::collections::BTreeMap<_, _> =
        ["close", "dup3"].into_iter().map(|name| (name, number(arch, name).unwrap())).collect();
    let code = ringfence_spec::hex(ringfence_sys::calls_code());
    let moves = ringfence_spec::hex(ringfence_sys::pack_code());
    let numbers = serde_json::to_string(&numbers).unwrap();
    let script =
        format!("CODE, MOVES = '{code}', '{moves}'\nNUMBERS = {numbers}\n{GUEST}\n{CHECKED}");
    let native = cfg!(target_arch = "x86_64");
    for (python, stdout) in stdouts(&script) {
        let told: ringfence_testing::Json = serde_json::from_slice(&stdout).unwrap();
        let calls = |works: bool| if works { vec!["calls"] } else { vec![] };
        let expected: Vec<_> = [native, false, false]
            .into_iter()
            .flat_map(|works| {
                let safe = [calls(works), vec!["heap"]].concat();
                let full = [calls(works), vec!["fork", "code", "heap"]].concat();
                [("off", false, vec![]), ("safe", works, safe), ("full", works, full)]
            })
            .collect();
        assert_eq!(told, ringfence_testing::Json::from(serde_json::json!(expected)), "{python}");
    }
}
