//! The guest's own functions, in an interpreter without a fence.

#![allow(clippy::disallowed_methods)]

use std::process::Command;

use ringfence_plan::seccomp::{Arch, number};
use ringfence_testing::BoundedCommand as _;

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
    let guest = concat!(
        include_str!("../src/guest/hugepages.py"),
        include_str!("../src/guest/calls.py"),
        include_str!("../src/guest/seeds.py"),
    );
    let arch = if cfg!(target_arch = "x86_64") { Arch::X86_64 } else { Arch::Aarch64 };
    let getrandom = number(arch, "getrandom").unwrap();
    let script = format!(
        "import ctypes, os, random, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n{guest}
random.gauss(0, 1)
calls = Calls(run_rows, dict(getrandom={getrandom}))
seeds = Seeds(calls)
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
    let output = Command::new("python3").args(["-I", "-c", &script]).bounded_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "3 0", "{stderr}");
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
    let script = format!("{}{GATHERED}", include_str!("../src/guest/heap.py"));
    let output = Command::new("python3").args(["-I", "-c", &script]).bounded_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "True True", "{stderr}");
}
